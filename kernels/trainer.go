package kernels

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

// Trainer is the CUDA backend's backend.Trainer. The data set, the networks and
// Adam's moments stay on the device; a call uploads row numbers and brings back
// sums of losses. A call of one size is captured once as two graphs and launched
// from then on (trainPlan): the losses are awaited, the rest of the update is not,
// so that a fault in it shows at the next call.
//
// Every sum has one order that depends on sizes only: the same calls give bitwise
// the same networks. Only where device memory is short a batch is cut in smaller
// micro-batches, which changes the order.
type Trainer struct {
	backend *Backend
	cfg     backend.TrainerConfig // without data matrices and initial networks
	layout  trainLayout
	tf32    bool
	stream  driver.Stream
	memory  *trainMemory

	data                             trainData
	parameters, first, second, power address // arenas of layout
	gradient                         address // partial sums, see trainLayer.gradient
	space                            address // activations of a micro-batch
	micro                            int     // its rows at most
	batch, losses                    address
	batchHost, lossesHost            *driver.HostMemory
	ready                            driver.Event // behind the losses

	plans map[planKey]*trainPlan
	order []planKey // least recently used first

	manifoldSteps, rolloutSteps int64
	rolloutPrepared             bool
	latents                     rolloutData
}

var _ backend.Trainer = (*Trainer)(nil)

// dataMatrix is a matrix of the data set on the device, rows of step ld.
type dataMatrix struct {
	at address
	ld int
}

// trainData is the data set on the device. next and risk are 0 without
// transitions.
type trainData struct {
	x, o, s, u dataMatrix
	next, risk address
}

// The batch, in words: what changes from step to step of one size.
const (
	batchRate   = iota // lr/(1−β₁ᵗ)
	batchSecond        // 1/(1−β₂ᵗ)
	batchRisk          // one over the mean risk, 0 where every weight is 1
	batchHeader = 4    // then row numbers, then kernel weights
)

const (
	maxPlans  = 8
	maxLosses = rolloutLossCount
)

// NewTrainer implements backend.Backend. Data and networks are copied to the
// device. Layers may have up to 4096 inputs and outputs, a latent any size; the
// rollout's TopK is at most 64.
func (b *Backend) NewTrainer(cfg backend.TrainerConfig) (backend.Trainer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Rollout.TopK > maxFrame {
		return nil, fmt.Errorf("trainer: rollout TopK is %d, the CUDA backend takes at most %d", cfg.Rollout.TopK, maxFrame)
	}
	t := &Trainer{backend: b, cfg: cfg, layout: newTrainLayout(cfg.Initial), tf32: b.options.TF32, plans: map[planKey]*trainPlan{}}
	t.cfg.Initial = backend.Networks{}
	t.cfg.Data = backend.TrainingSet{
		X: shapeOf(cfg.Data.X), O: shapeOf(cfg.Data.O), S: shapeOf(cfg.Data.S), U: shapeOf(cfg.Data.U),
		Next: slices.Clone(cfg.Data.Next), RiskWeight: slices.Clone(cfg.Data.RiskWeight),
	}
	t.memory = &trainMemory{context: b.context}
	runtime.AddCleanup(t, (*trainMemory).release, t.memory)
	err := b.context.Do(func(th *driver.Thread) error { return t.allocate(th, cfg) })
	if err != nil {
		t.memory.release()
		return nil, fmt.Errorf("trainer: %w", err)
	}
	return t, nil
}

// shapeOf keeps a matrix's shape without its data.
func shapeOf(m tensor.Matrix) tensor.Matrix {
	return tensor.Matrix{Rows: m.Rows, Cols: m.Cols, Stride: m.Stride}
}

// trainMemory is what a trainer holds on the device.
type trainMemory struct {
	context *driver.Context
	device  []driver.Pointer
	pinned  []*driver.HostMemory
	graphs  []*driver.Graph
	stream  driver.Stream
	event   driver.Event
}

func (m *trainMemory) alloc(th *driver.Thread, bytes int) (address, error) {
	p, err := th.Alloc(bytes)
	if err == nil {
		m.device = append(m.device, p)
	}
	return p, err
}

func (m *trainMemory) free(th *driver.Thread, p address) error {
	m.device = slices.DeleteFunc(m.device, func(q driver.Pointer) bool { return q == p })
	return th.Free(p)
}

// release gives everything back. On a closed or lost context nothing is left to
// give.
func (m *trainMemory) release() {
	_ = m.context.Do(func(th *driver.Thread) error {
		err := th.Wait(m.stream)
		for _, g := range m.graphs {
			err = errors.Join(err, th.DestroyGraph(g))
		}
		for _, p := range m.device {
			err = errors.Join(err, th.Free(p))
		}
		for _, h := range m.pinned {
			err = errors.Join(err, th.FreeHost(h))
		}
		return errors.Join(err, th.DestroyEvent(m.event), th.DestroyStream(m.stream))
	})
	m.device, m.pinned, m.graphs, m.stream, m.event = nil, nil, nil, 0, 0
}

// allocate fills the device with the data set and the start of training.
func (t *Trainer) allocate(th *driver.Thread, cfg backend.TrainerConfig) error {
	m := t.memory
	var err error
	if m.stream, err = th.NewStream(); err != nil {
		return err
	}
	if m.event, err = th.NewEvent(); err != nil {
		return err
	}
	t.stream, t.ready = m.stream, m.event
	for _, d := range []struct {
		to   *dataMatrix
		from tensor.Matrix
	}{{&t.data.x, cfg.Data.X}, {&t.data.o, cfg.Data.O}, {&t.data.s, cfg.Data.S}, {&t.data.u, cfg.Data.U}} {
		if *d.to, err = t.uploadMatrix(th, d.from); err != nil {
			return err
		}
	}
	if cfg.Data.Next != nil {
		if t.data.next, err = upload(t, th, cfg.Data.Next); err != nil {
			return err
		}
		if t.data.risk, err = upload(t, th, cfg.Data.RiskWeight); err != nil {
			return err
		}
	}
	start := t.layout.begin(cfg.Initial)
	for _, a := range []struct {
		to   *address
		from []float32
	}{{&t.parameters, start.parameters}, {&t.first, start.first}, {&t.second, start.second}, {&t.power, start.power}} {
		if *a.to, err = upload(t, th, a.from); err != nil {
			return err
		}
	}
	if err := t.allocateSpace(th); err != nil {
		return err
	}
	words := batchHeader + cfg.MaxBatch*(1+2*cfg.MaxNeighbours)
	if t.batch, err = m.alloc(th, 4*words); err != nil {
		return err
	}
	if t.losses, err = m.alloc(th, 8*maxLosses); err != nil {
		return err
	}
	for _, h := range []struct {
		to    **driver.HostMemory
		bytes int
	}{{&t.batchHost, 4 * words}, {&t.lossesHost, 8 * maxLosses}} {
		if *h.to, err = th.AllocHost(h.bytes); err != nil {
			return err
		}
		m.pinned = append(m.pinned, *h.to)
	}
	return nil
}

// allocateSpace allocates activations and partial sums, of smaller micro-batches
// where memory is short.
func (t *Trainer) allocateSpace(th *driver.Thread) error {
	for rows := t.layout.microBatch(t.cfg); ; rows = max(rowStep, rows/2/rowStep*rowStep) {
		space := 4 * t.layout.spaceFloats(rows, t.cfg.MaxNeighbours)
		gradients := 4 * t.layout.placeGradients(rows, t.cfg.MaxNeighbours)
		p, err := t.memory.alloc(th, space+gradients)
		var short *driver.MemoryError
		if errors.As(err, &short) && rows > rowStep {
			continue
		}
		if err != nil {
			return err
		}
		t.space, t.gradient, t.micro = p, p.Offset(space), rows
		return th.ZeroAsync(p, space+gradients, t.stream)
	}
}

// uploadMatrix copies a matrix into rows of a step that is a multiple of four.
func (t *Trainer) uploadMatrix(th *driver.Thread, m tensor.Matrix) (dataMatrix, error) {
	const piece = 1 << 22 // floats staged at a time
	d := dataMatrix{ld: quads(m.Cols)}
	var err error
	if d.at, err = t.memory.alloc(th, 4*m.Rows*d.ld); err != nil {
		return d, err
	}
	step := max(1, min(piece/d.ld, m.Rows))
	staged := make([]float32, step*d.ld)
	for from := 0; from < m.Rows; from += step {
		n := min(step, m.Rows-from)
		for i := range n {
			copy(staged[i*d.ld:], m.Row(from+i))
		}
		if err := driver.Upload(th, floats(d.at, from*d.ld), staged[:n*d.ld]); err != nil {
			return d, err
		}
	}
	return d, nil
}

func upload[T driver.Element](t *Trainer, th *driver.Thread, values []T) (address, error) {
	p, err := t.memory.alloc(th, 4*len(values))
	if err != nil {
		return 0, err
	}
	return p, driver.Upload(th, p, values)
}

// call runs one step or loss of the given kind: fill writes the row numbers and
// kernel weights behind the batch's header, sums receives the sums of the losses.
func (t *Trainer) call(key planKey, header [batchHeader]float32, fill func(words []int32, kernel []float32), sums []float64) error {
	return t.backend.context.Do(func(th *driver.Thread) error {
		plan, err := t.planFor(th, key)
		if err != nil {
			return err
		}
		index := key.rows * (1 + key.kappa)
		copy(driver.HostSlice[float32](t.batchHost, 0, batchHeader), header[:])
		fill(driver.HostSlice[int32](t.batchHost, 4*batchHeader, index),
			driver.HostSlice[float32](t.batchHost, 4*(batchHeader+index), key.rows*key.kappa))
		if err := th.LaunchGraph(plan.first, t.stream); err != nil {
			return err
		}
		if err := th.Record(t.ready, t.stream); err != nil {
			return err
		}
		if plan.rest != nil {
			if err := th.LaunchGraph(plan.rest, t.stream); err != nil {
				return err
			}
		}
		if err := th.WaitEvent(t.ready); err != nil {
			return err
		}
		copy(sums, driver.HostSlice[float64](t.lossesHost, 0, plan.losses))
		return nil
	})
}

// planFor returns the plan of a kind, made and captured at its first use.
func (t *Trainer) planFor(th *driver.Thread, key planKey) (*trainPlan, error) {
	if i := slices.Index(t.order, key); i >= 0 {
		t.order = append(slices.Delete(t.order, i, i+1), key)
		return t.plans[key], nil
	}
	if len(t.order) == maxPlans {
		if err := t.dropPlan(th, t.order[0]); err != nil {
			return nil, err
		}
	}
	p := &planner{t: t}
	p.plan.upload = batchHeader + key.rows*(1+2*key.kappa)
	if key.rollout {
		p.rollout(key)
	} else {
		p.manifold(key)
	}
	plan := &p.plan
	if err := t.place(th, p); err != nil {
		return nil, err
	}
	var err error
	plan.first, err = th.Capture(t.stream, func() error {
		if err := th.UploadAsync(t.batch, t.batchHost, 0, 4*plan.upload, t.stream); err != nil {
			return err
		}
		if err := t.start(th, plan.launches[:plan.early]); err != nil {
			return err
		}
		return th.DownloadAsync(t.lossesHost, 0, t.losses, 8*plan.losses, t.stream)
	})
	if err == nil && plan.early < len(plan.launches) {
		plan.rest, err = th.Capture(t.stream, func() error { return t.start(th, plan.launches[plan.early:]) })
	}
	for _, g := range []*driver.Graph{plan.first, plan.rest} {
		if g != nil {
			t.memory.graphs = append(t.memory.graphs, g)
		}
	}
	t.plans[key], t.order = plan, append(t.order, key)
	if err != nil {
		return nil, errors.Join(err, t.dropPlan(th, key))
	}
	return plan, nil
}

// place uploads a plan's entries and points its launches at them.
func (t *Trainer) place(th *driver.Thread, p *planner) error {
	var err error
	if p.plan.table, err = t.memory.alloc(th, len(p.table)); err != nil {
		return err
	}
	if err := driver.Upload(th, p.plan.table, p.table); err != nil {
		return err
	}
	for _, l := range p.plan.launches {
		if l.entries >= 0 {
			l.arguments[0] = driver.Address(p.plan.table.Offset(l.entries))
		}
	}
	return nil
}

func (t *Trainer) start(th *driver.Thread, launches []launch) error {
	for _, l := range launches {
		k, err := t.backend.kernel(th, l.kernel)
		if err != nil {
			return err
		}
		if err := th.Launch(k, l.at, l.arguments...); err != nil {
			return err
		}
	}
	return nil
}

// dropPlan frees a plan, after the work that may still use it.
func (t *Trainer) dropPlan(th *driver.Thread, key planKey) error {
	plan := t.plans[key]
	delete(t.plans, key)
	t.order = slices.DeleteFunc(t.order, func(k planKey) bool { return k == key })
	err := th.Wait(t.stream)
	for _, g := range []*driver.Graph{plan.first, plan.rest} {
		if g != nil {
			t.memory.graphs = slices.DeleteFunc(t.memory.graphs, func(h *driver.Graph) bool { return h == g })
			err = errors.Join(err, th.DestroyGraph(g))
		}
	}
	return errors.Join(err, t.memory.free(th, plan.table))
}

// adamHeader are Adam's factors of update number step.
func (t *Trainer) adamHeader(step int64, lr float32) (h [batchHeader]float32) {
	a := t.cfg.Adam
	h[batchRate] = float32(float64(lr) / (1 - math.Pow(float64(a.Beta1), float64(step))))
	h[batchSecond] = float32(1 / (1 - math.Pow(float64(a.Beta2), float64(step))))
	return h
}
