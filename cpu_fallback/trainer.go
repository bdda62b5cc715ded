package cpufallback

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/cpu_fallback/internal/adam"
	"github.com/gpc-engine/gpc/cpu_fallback/internal/gemm"
	"github.com/gpc-engine/gpc/internal/backend"
)

// The trainer cuts a batch in fixed pieces, whatever the number of threads, and
// adds up in a fixed order, so that threads do not change a bit:
//
//	micro-batch  microRows samples, whose activations are kept for the weight
//	             gradients; bounds the workspace and keeps it in the last-level
//	             cache. Weight gradients add up over micro-batches in order.
//	chunk        about trainChunk samples of a micro-batch, one task: forward, losses
//	             and backward of all networks, while the activations are hot.
//	block        gradientRows rows of one layer's weight gradient, one task, summed
//	             over the micro-batch's samples in order.
//	panel        one panel of one layer, one task: Adam and repacking.
const (
	trainChunk   = 96
	microRows    = 16 * trainChunk
	gradientRows = 96
)

// chunksOf is how many chunks n samples of a micro-batch are cut in: a multiple
// of four, so that two or four threads finish together.
func chunksOf(n int) int { return (n + 4*trainChunk - 1) / (4 * trainChunk) * 4 }

// chunkSpan is the first sample of one chunk, and their number.
func chunkSpan(n, chunk int) (start, count int) {
	chunks := chunksOf(n)
	start = chunk * n / chunks
	return start, (chunk+1)*n/chunks - start
}

// Trainer is the CPU's backend.Trainer. The data set is not copied: it must not
// change while the Trainer is in use.
type Trainer struct {
	backend *Backend
	kernel  gemm.Kernel
	cfg     backend.TrainerConfig
	nets    [4]*trainNet

	manifoldSteps, rolloutSteps int64
	rolloutPrepared             bool

	manifold *manifoldWork
	rollout  *rolloutWork

	// gradients, panels and layers are the tasks of the update in progress.
	gradients []gradientTask
	panels    []panelTask
	layers    []*trainLayer
	factors   adam.Factors
	first     bool // micro-batch
	// The task functions are made once: a new func value would be an allocation.
	runGradient, runPanel, runBound func(worker, task int)
}

// use is a branch with the samples it is to be summed over.
type use struct {
	branch *branch
	row, n int
}

// gradientTask is rows [from, to) of the gradient of one layer.
type gradientTask struct {
	uses            *[]use
	layer, from, to int
}

type panelTask struct {
	layer *trainLayer
	panel int
}

// NewTrainer implements backend.Backend.
func (b *Backend) NewTrainer(cfg backend.TrainerConfig) (backend.Trainer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t := &Trainer{backend: b, kernel: gemm.For(b.level), cfg: cfg}
	for i, m := range cfg.Initial.All() {
		t.nets[i] = newTrainNet(t.kernel, m)
	}
	t.cfg.Initial = backend.Networks{}
	t.manifold = newManifoldWork(t)
	t.runGradient, t.runPanel, t.runBound = t.gradientTask, t.panelTask, t.boundTask
	return t, nil
}

// plan lists the tasks of an update of some networks, the largest layers first.
func (t *Trainer) plan(nets []*trainNet, uses []*[]use) {
	t.gradients, t.panels, t.layers = nil, nil, nil
	for i, net := range nets {
		for l, layer := range net.layers {
			t.layers = append(t.layers, layer)
			for p := range layer.panels() {
				t.panels = append(t.panels, panelTask{layer, p})
			}
			for start := 0; start <= layer.in; start += gradientRows {
				t.gradients = append(t.gradients, gradientTask{uses[i], l, start, min(start+gradientRows, layer.in+1)})
			}
		}
	}
	cost := func(g gradientTask) int { return (g.to - g.from) * (*g.uses)[0].branch.net.layers[g.layer].out }
	slices.SortStableFunc(t.gradients, func(a, b gradientTask) int { return cost(b) - cost(a) })
	slices.SortStableFunc(t.panels, func(a, b panelTask) int { return b.layer.in - a.layer.in })
	slices.SortStableFunc(t.layers, func(a, b *trainLayer) int { return b.in*b.out - a.in*a.out })
}

func (t *Trainer) gradientTask(_, task int) {
	g := t.gradients[task]
	first := t.first
	for _, s := range *g.uses {
		if s.n > 0 {
			s.branch.weightGradient(t.kernel, g.layer, g.from, g.to, s.row, s.n, first)
			first = false
		}
	}
}

func (t *Trainer) panelTask(_, task int) {
	p := t.panels[task]
	l := p.layer
	w, _, _ := l.panel(l.forward.Data, p.panel)
	g, _, _ := l.panel(l.gradient, p.panel)
	m, _, _ := l.panel(l.m, p.panel)
	v, _, _ := l.panel(l.v, p.panel)
	adam.Update(t.backend.level, w, g, m, v, &t.factors)
	l.repackPanel(p.panel)
}

func (t *Trainer) boundTask(_, task int) {
	t.layers[task].boundSpectrum(t.kernel, t.cfg.SpectralBound)
}

// update applies the gradients of the networks last planned.
func (t *Trainer) update(step int64, lr float32) {
	t.factors = adamFactors(t.cfg.Adam, step, lr)
	t.backend.pool.Run(len(t.panels), t.runPanel)
	if t.cfg.SpectralBound > 0 {
		t.backend.pool.Run(len(t.layers), t.runBound)
	}
}

// ManifoldStep implements backend.Trainer. The losses are those before the
// update. After PrepareRollout it is an error: E_x, E_o and D_s are frozen.
func (t *Trainer) ManifoldStep(rows, neighbours []int32, kernel []float32, lr float32) (backend.ManifoldLosses, error) {
	const op = "ManifoldStep"
	if t.rolloutPrepared {
		return backend.ManifoldLosses{}, fmt.Errorf("%s: PrepareRollout has frozen E_x, E_o and D_s", op)
	}
	if err := backend.CheckRate(op, lr); err != nil {
		return backend.ManifoldLosses{}, err
	}
	if err := t.cfg.CheckManifold(op, rows, neighbours, kernel); err != nil {
		return backend.ManifoldLosses{}, err
	}
	loss := t.manifold.pass(t, rows, neighbours, kernel, true)
	t.manifoldSteps++
	t.update(t.manifoldSteps, lr)
	return loss, nil
}

// ManifoldLoss implements backend.Trainer.
func (t *Trainer) ManifoldLoss(rows, neighbours []int32, kernel []float32) (backend.ManifoldLosses, error) {
	if err := t.cfg.CheckManifold("ManifoldLoss", rows, neighbours, kernel); err != nil {
		return backend.ManifoldLosses{}, err
	}
	return t.manifold.pass(t, rows, neighbours, kernel, false), nil
}

// Networks implements backend.Trainer.
func (t *Trainer) Networks() (backend.Networks, error) {
	return backend.Networks{
		EncoderX: t.nets[0].mlp(), EncoderO: t.nets[1].mlp(), DecoderU: t.nets[2].mlp(), DecoderS: t.nets[3].mlp(),
	}, nil
}

// stored is one array of a TrainerState and how it is read and written.
type stored struct {
	name string
	size int
	get  func(dst []float32)
	set  func(src []float32)
}

func (t *Trainer) stored() []stored {
	var list []stored
	for n, net := range t.nets {
		for i, l := range net.layers {
			prefix := fmt.Sprintf("%s.%d.", backend.NetworkNames[n], i)
			for _, a := range []struct {
				suffix string
				data   []float32
			}{{"", l.forward.Data}, {".m", l.m}, {".v", l.v}} {
				weight, bias := make([]float32, l.in*l.out), make([]float32, l.out)
				l.store(a.data, weight, bias)
				for _, part := range []struct {
					name string
					data []float32
				}{{"weight", weight}, {"bias", bias}} {
					list = append(list, stored{
						prefix + part.name + a.suffix, len(part.data),
						func(dst []float32) { copy(dst, part.data) },
						func(src []float32) {
							copy(part.data, src)
							l.load(a.data, weight, bias)
						},
					})
				}
			}
			list = append(list, stored{prefix + "power", l.out,
				func(dst []float32) { copy(dst, l.power) }, func(src []float32) { copy(l.power, src) }})
		}
	}
	return list
}

// State implements backend.Trainer.
func (t *Trainer) State() (backend.TrainerState, error) {
	s := backend.TrainerState{
		Arrays: map[string][]float32{}, ManifoldSteps: t.manifoldSteps, RolloutSteps: t.rolloutSteps, RolloutPrepared: t.rolloutPrepared,
	}
	for _, a := range t.stored() {
		s.Arrays[a.name] = make([]float32, a.size)
		a.get(s.Arrays[a.name])
	}
	return s, nil
}

// Restore implements backend.Trainer. On an error nothing is changed. Rollout
// latents are computed again from the frozen networks, to the same bits.
func (t *Trainer) Restore(s backend.TrainerState) error {
	list := t.stored()
	sizes := map[string]int{}
	for _, a := range list {
		sizes[a.name] = a.size
	}
	if err := t.cfg.CheckState("Restore", s, sizes); err != nil {
		return err
	}
	for _, a := range list {
		a.set(s.Arrays[a.name])
	}
	for _, n := range t.nets {
		for _, l := range n.layers {
			l.repack()
		}
	}
	t.manifoldSteps, t.rolloutSteps, t.rolloutPrepared = s.ManifoldSteps, s.RolloutSteps, false
	t.manifold.plan(t)
	if s.RolloutPrepared {
		return t.prepareLatents()
	}
	return nil
}
