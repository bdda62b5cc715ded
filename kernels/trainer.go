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
// sums of losses. A call of one size is captured at its second use as two graphs
// (trainPlan): the losses are awaited, the rest of the update is not, so that a
// fault in it shows at the next call.
//
// Every sum has one order that depends on sizes only: the same calls give bitwise
// the same networks. Only where device memory is short a batch is cut in smaller
// micro-batches, which changes the order.
type Trainer struct {
	backend *Backend
	cfg     backend.TrainerConfig // without data matrices and initial networks
	layout  trainLayout
	tf32    bool
	memory  *trainMemory

	data                             trainData
	parameters, first, second, power address // arenas of layout
	gradient                         address // partial sums, see trainLayer.gradient
	space                            address // activations of a micro-batch
	micro                            int     // its rows at most
	batch, losses                    address
	batchHost, lossesHost            *driver.HostMemory // of so many updates as are queued at once
	slots, slotWords                 int

	manifoldSteps, rolloutSteps int64
	rolloutPrepared             bool
	latents                     rolloutData
}

// dataMatrix is a matrix of the data set on the device, rows of step ld.
type dataMatrix struct {
	base address
	ld   int
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
	// Updates that are queued at once, at most, and the words of their batches.
	mostSlots  = 32
	slotsWords = 1 << 20
)

// NewTrainer implements backend.Backend. Data and networks are copied to the
// device. Layers are up to MaxWidth wide, latents up to MaxLatent.
func (b *Backend) NewTrainer(cfg backend.TrainerConfig) (backend.Trainer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	for i, mlp := range cfg.Initial.All() {
		if w := max(mlp.In(), mlp.MaxHidden()); w > MaxWidth {
			return nil, tooWide("trainer", "the widest layer of "+backend.NetworkNames[i], w, MaxWidth)
		}
	}
	if nz := cfg.Initial.DecoderS.In(); nz > MaxLatent {
		return nil, tooWide("trainer", "the latent size", nz, MaxLatent)
	}
	t := &Trainer{
		backend: b, cfg: cfg, layout: newTrainLayout(cfg), tf32: b.options.TF32,
		memory: &trainMemory{stream: b.stream},
	}
	t.cfg.Initial = backend.Networks{}
	t.cfg.Data = backend.TrainingSet{
		X: shapeOf(cfg.Data.X), O: shapeOf(cfg.Data.O), S: shapeOf(cfg.Data.S), U: shapeOf(cfg.Data.U),
		Next: slices.Clone(cfg.Data.Next), RiskWeight: slices.Clone(cfg.Data.RiskWeight),
	}
	runtime.AddCleanup(t, func(m *trainMemory) { b.discard(m.free) }, t.memory)
	err := b.execute(func(th *driver.Thread) error {
		err := t.allocate(th, cfg)
		if err != nil {
			_ = t.memory.free(th)
		}
		return err
	})
	if err != nil {
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
	fixed   memory
	latents memory // of the rollout phase
	plans   recent[planKey, *trainPlan]
	ready   driver.Event // behind the losses
	stream  driver.Stream
}

// free waits for an update that may still be under way.
func (m *trainMemory) free(th *driver.Thread) error {
	err := errors.Join(th.Wait(m.stream), m.fixed.free(th), m.latents.free(th), th.DestroyEvent(m.ready))
	for _, p := range m.plans.values {
		err = errors.Join(err, p.memory.free(th))
	}
	m.plans, m.ready = recent[planKey, *trainPlan]{}, 0
	return err
}

// allocate fills the device with the data set and the start of training.
func (t *Trainer) allocate(th *driver.Thread, cfg backend.TrainerConfig) error {
	m, q := &t.memory.fixed, t.backend.queue(th)
	q.enqueue(func() (err error) { t.memory.ready, err = th.NewEvent(); return err })
	t.data = trainData{x: t.uploadMatrix(q, cfg.Data.X), o: t.uploadMatrix(q, cfg.Data.O), s: t.uploadMatrix(q, cfg.Data.S), u: t.uploadMatrix(q, cfg.Data.U)}
	if cfg.Data.Next != nil {
		t.data.next, t.data.risk = upload(t, q, cfg.Data.Next), upload(t, q, cfg.Data.RiskWeight)
	}
	start := t.layout.begin(cfg.Initial)
	t.parameters, t.first = upload(t, q, start.parameters), upload(t, q, start.first)
	t.second, t.power = upload(t, q, start.second), upload(t, q, start.power)
	q.enqueue(func() error { return t.allocateSpace(th) })
	t.slotWords = batchHeader + cfg.MaxBatch*(1+2*cfg.MaxNeighbours)
	t.slots = max(1, min(mostSlots, slotsWords/t.slotWords))
	t.batch, t.losses = q.alloc(m, 4*t.slotWords), q.alloc(m, 8*maxLosses)
	t.batchHost, t.lossesHost = q.allocHost(m, 4*t.slotWords*t.slots), q.allocHost(m, 8*maxLosses*t.slots)
	return q.err
}

// allocateSpace allocates activations and partial sums, of smaller micro-batches
// where memory is short.
func (t *Trainer) allocateSpace(th *driver.Thread) error {
	for rows := t.layout.microBatch(t.cfg); ; rows = max(microStep, rows/2/microStep*microStep) {
		space := 4 * t.layout.spaceFloats(rows, t.cfg.MaxNeighbours)
		gradients := 4 * t.layout.placeGradients(rows, t.cfg.MaxNeighbours)
		p, err := t.memory.fixed.alloc(th, space+gradients)
		if driver.IsShort(err) && rows > microStep {
			continue
		}
		if err != nil {
			return err
		}
		t.space, t.gradient, t.micro = p, p.Offset(space), rows
		return th.ZeroAsync(p, space+gradients, t.backend.stream)
	}
}

// uploadMatrix copies a matrix into rows of a step that is a multiple of four.
func (t *Trainer) uploadMatrix(q *queue, m tensor.Matrix) dataMatrix {
	d := dataMatrix{ld: quads(m.Cols)}
	d.base = q.alloc(&t.memory.fixed, 4*m.Rows*d.ld)
	d.fill(q, m)
	return d
}

// fill copies a matrix to where d lies.
func (d dataMatrix) fill(q *queue, m tensor.Matrix) {
	const piece = 1 << 22 // floats staged at a time
	step := max(1, min(piece/d.ld, m.Rows))
	staged := make([]float32, step*d.ld)
	for start := 0; start < m.Rows; start += step {
		n := min(step, m.Rows-start)
		for i := range n {
			copy(staged[i*d.ld:], m.Row(start+i))
		}
		fill(q, floats(d.base, start*d.ld), staged[:n*d.ld])
	}
}

func upload[T float32 | int32](t *Trainer, q *queue, values []T) address {
	dst := q.alloc(&t.memory.fixed, 4*len(values))
	fill(q, dst, values)
	return dst
}

// call runs one step or loss of the given kind: fill writes the row numbers and
// kernel weights behind the batch's header, sums receives the sums of the losses.
func (t *Trainer) call(key planKey, header [batchHeader]float32, fill func(words []int32, kernel []float32), sums []float64) error {
	return t.backend.execute(func(th *driver.Thread) error {
		plan, err := t.planFor(th, key)
		if err != nil {
			return err
		}
		t.fillSlot(0, key, header, fill)
		q := t.backend.queue(th)
		t.launchPlan(q, plan)
		q.enqueue(func() error { return th.WaitEvent(t.memory.ready) })
		if q.err != nil {
			return q.err
		}
		copy(sums, driver.HostSlice[float64](t.lossesHost, 0, plan.losses))
		return nil
	})
}

// fillSlot writes a batch where the host keeps that of an update.
func (t *Trainer) fillSlot(slot int, key planKey, header [batchHeader]float32, fill func(words []int32, kernel []float32)) {
	offset, index := 4*t.slotWords*slot, key.rows*(1+key.kappa)
	copy(driver.HostSlice[float32](t.batchHost, offset, batchHeader), header[:])
	fill(driver.HostSlice[int32](t.batchHost, offset+4*batchHeader, index),
		driver.HostSlice[float32](t.batchHost, offset+4*(batchHeader+index), key.rows*key.kappa))
}

// launchWhole queues a plan as one graph, its batch from a slot and its losses to it.
func (t *Trainer) launchWhole(q *queue, plan *trainPlan, slot int) {
	q.upload(t.batch, t.batchHost, 4*t.slotWords*slot, 4*plan.upload)
	switch {
	case !plan.ran || q.trace != nil:
		plan.ran = true
		t.start(q, plan.launches)
	default:
		if plan.whole == nil {
			q.enqueue(func() (err error) {
				if plan.whole, err = t.backend.capture(q.t, func(q *queue) { t.start(q, plan.launches) }); err == nil {
					plan.memory.graphs = append(plan.memory.graphs, plan.whole)
				}
				return err
			})
		}
		q.enqueue(func() error { return q.t.LaunchGraph(plan.whole, q.stream) })
	}
	q.download(t.lossesHost, 8*maxLosses*slot, t.losses, 8*plan.losses)
}

// launchPlan queues a plan. At its first use it is launched kernel by kernel, so
// that every image is loaded before the capture at the second.
func (t *Trainer) launchPlan(q *queue, plan *trainPlan) {
	ready := func() error { return q.t.Record(t.memory.ready, q.stream) }
	if !plan.ran || q.trace != nil {
		plan.ran = true
		t.begin(q, plan)
		q.enqueue(ready)
		t.start(q, plan.launches[plan.early:])
		return
	}
	if plan.first == nil {
		q.enqueue(func() error { return t.capture(q.t, plan) })
	}
	q.enqueue(func() error { return q.t.LaunchGraph(plan.first, q.stream) })
	q.enqueue(ready)
	if plan.rest != nil {
		q.enqueue(func() error { return q.t.LaunchGraph(plan.rest, q.stream) })
	}
}

// begin queues what ends with the losses on the host.
func (t *Trainer) begin(q *queue, plan *trainPlan) {
	q.upload(t.batch, t.batchHost, 0, 4*plan.upload)
	t.start(q, plan.launches[:plan.early])
	q.download(t.lossesHost, 0, t.losses, 8*plan.losses)
}

// capture makes a plan's graphs, both or none.
func (t *Trainer) capture(th *driver.Thread, plan *trainPlan) error {
	first, err := t.backend.capture(th, func(q *queue) { t.begin(q, plan) })
	if err != nil {
		return err
	}
	if plan.early < len(plan.launches) {
		rest, err := t.backend.capture(th, func(q *queue) { t.start(q, plan.launches[plan.early:]) })
		if err != nil {
			return errors.Join(err, th.DestroyGraph(first))
		}
		plan.rest = rest
		plan.memory.graphs = append(plan.memory.graphs, rest)
	}
	plan.first = first
	plan.memory.graphs = append(plan.memory.graphs, first)
	return nil
}

// planFor returns the plan of a kind, made at its first use.
func (t *Trainer) planFor(th *driver.Thread, key planKey) (*trainPlan, error) {
	return t.memory.plans.get(key, maxPlans, func() (*trainPlan, error) {
		p := &planner{t: t}
		p.plan.upload = batchHeader + key.rows*(1+2*key.kappa)
		switch {
		case key.rollout:
			p.rollout(key)
		default:
			p.manifold(key)
		}
		if err := t.place(th, p); err != nil {
			return nil, err
		}
		plan := new(trainPlan) // not a part of the planner, which holds the trainer
		*plan = p.plan
		return plan, nil
	}, func(plan *trainPlan) error { return t.dropPlan(th, plan) })
}

// place uploads a plan's entries and points its launches at them.
func (t *Trainer) place(th *driver.Thread, p *planner) error {
	table, err := p.plan.memory.alloc(th, len(p.table))
	if err != nil {
		return err
	}
	if err := driver.Upload(th, table, p.table); err != nil {
		return errors.Join(err, p.plan.memory.free(th))
	}
	for _, l := range p.plan.launches {
		if l.entries >= 0 {
			l.arguments[0] = driver.Address(table.Offset(l.entries))
		}
	}
	return nil
}

// start queues launches. Those that may run beside others are a branch before these.
func (t *Trainer) start(q *queue, launches []launch) {
	run := func(list []launch) {
		for _, l := range list {
			q.needs(func(*trace) work { return l.work })
			q.launch(l.kernel, driver.Dim{X: l.grid}, l.block, l.shared, l.arguments...)
		}
	}
	from := 0
	for from < len(launches) && !launches[from].side {
		from++
	}
	to := from
	for to < len(launches) && launches[to].side {
		to++
	}
	run(launches[:from])
	if to == len(launches) { // nothing is beside them
		run(launches[from:])
		return
	}
	q.fork(func() { run(launches[from:to]) })
	run(launches[to:])
	q.join()
}

// dropPlan frees a plan, after the work that may still use it.
func (t *Trainer) dropPlan(th *driver.Thread, plan *trainPlan) error {
	return errors.Join(th.Wait(t.backend.stream), plan.memory.free(th))
}

// adamHeader are Adam's factors of update number step.
func (t *Trainer) adamHeader(step int64, lr float32) (h [batchHeader]float32) {
	a := t.cfg.Adam
	h[batchRate] = float32(float64(lr) / (1 - math.Pow(float64(a.Beta1), float64(step))))
	h[batchSecond] = float32(1 / (1 - math.Pow(float64(a.Beta2), float64(step))))
	return h
}
