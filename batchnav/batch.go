package batchnav

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Observation is what one loop sees at one decision: measured state, context
// and preference, physical units.
type Observation struct {
	S, C       []float64
	Preference domain.Preference
	// Deadline is when a search is to have its best: it begins no round that would end later, as
	// far as the last one tells. The result then depends on the machine. Zero: whenever.
	Deadline time.Time
}

// Batch is many independent closed loops of one map that decide together: each
// backend call serves all rows. Where the backend keeps loops by itself
// (backend.LoopsBackend) their latents stay there from decision to decision. From 32 loops on
// their projections are made there too. It is used by one goroutine.
type Batch struct {
	*loaded
	opt      Options
	size     int
	latents  backend.Loops
	onDevice bool
	loops    []loop
	allLoops []int // all loops
	// Of the decision that is made: the loops that make it, and their input and output.
	active []int
	in     backend.LoopsInput
	out    backend.LoopsOutput
	// room and answer are in and out for every loop.
	room   backend.LoopsInput
	answer backend.LoopsOutput
	search *search // nil: none
	ahead  *finder // nil: it does not search between decisions
	guard  *guard  // nil: none
	// fronts are those that goals are reached by, weighed the observations with a goal's weights.
	fronts  *Fronts // nil: none had a goal yet
	weighed []Observation
	wrong   float64 // answerError of the map
	// uniform is the preference of the ablation without semantics.
	uniform domain.Preference
	// Of the host's part of a decision, which threads share: its observations and decisions, and what is done with entries from until to.
	threads            int
	obs                []Observation
	decisions          []Decision
	takeSome, executes func(part, from, to int)
}

// history says which values of the last decision a loop has: its latent, its filtered priority, its measured state, and
// the decision itself.
type history struct{ latent, sigma, state, decision bool }

// loop is the memory of one closed loop.
type loop struct {
	row                          int // of the decision's input and output
	noise                        NoiseEstimator
	history                      history
	sigma                        []float64 // filtered priority
	lastS, lastC, lastU          []float64 // as measured, or assumed where that was not finite
	state                        []float64 // what the loop works on: s_t, or the observer's estimate
	predictedS, predictedC       []float64
	innovation                   []float64
	u, raw, margins, alternative []float64
	alternativeMargins, slot     []float64
	bad                          bool
	variance                     float64
	memory                       *memory // of the search
	prepared                     prepared
	guard                        guardState // of the guard
	pursuit                      pursuit    // of a goal
}

// NewBatch prepares size loops; see NewNavigator.
func NewBatch(b backend.Backend, m *model.Model, p domain.Problem, opt Options, size int) (*Batch, error) {
	if size < 1 {
		return nil, fmt.Errorf("a batch of %d loops, want at least 1", size)
	}
	searches := opt.Search != SearchOptions{}
	opt.Direct = opt.Direct || searches
	l, err := load(b, m, p, &opt)
	if err != nil {
		return nil, err
	}
	spec, objectives := l.spec, l.spec.ObjectiveSize()
	a := &Batch{
		loaded: l, opt: opt, size: size,
		loops: make([]loop, size), allLoops: make([]int, size),
		room: backend.NewLoopsInput(spec, size), answer: backend.NewLoopsOutput(spec, size),
		threads: b.Describe().HostThreads(),
	}
	a.takeSome = func(_, from, to int) {
		for i := from; i < to; i++ {
			a.take(a.loopAt(i), &a.obs[i])
		}
	}
	a.executes = func(_, from, to int) {
		for i := from; i < to; i++ {
			a.execute(i, &a.obs[i], &a.decisions[i])
		}
	}
	a.answer.Sigma = a.room.Sigma
	if opt.Latents || searches {
		a.answer.Z = tensor.New(size, m.Latent())
	}
	projects := size >= leastProjected && !searches && !opt.NoProjection
	if err := a.keep(projects); err != nil {
		return nil, err
	}
	if projects && a.onDevice {
		a.room.State = make([]float64, size*spec.MeasuredSize())
		a.answer.Action, a.answer.Margins = make([]float64, size*spec.ActionSize()), make([]float64, size*len(spec.Margins))
	}
	if searches {
		if a.search, err = newSearch(l, &opt); err != nil {
			return nil, err
		}
		if opt.Search.Ahead {
			f := newFinder(a.search)
			a.ahead = &f
		}
	}
	if opt.Guard != nil && !opt.NoGuard {
		if a.guard, err = newGuard(l, &opt, size); err != nil {
			return nil, err
		}
	}
	if a.wrong, err = l.answerError(); err != nil {
		return nil, err
	}
	a.uniform.W = slices.Repeat([]float64{1 / float64(objectives)}, objectives)
	for i := range a.loops {
		a.allLoops[i], a.loops[i] = i, newLoop(spec)
		if searches {
			a.loops[i].memory = &memory{Memory: a.search.sampler.NewMemory()}
		}
		a.ResetLoop(i)
	}
	return a, nil
}

func newLoop(spec *domain.Spec) loop {
	state := func() []float64 { return make([]float64, spec.MeasuredSize()) }
	context := func() []float64 { return make([]float64, spec.ContextSize()) }
	action := func() []float64 { return make([]float64, spec.ActionSize()) }
	margins := func() []float64 { return make([]float64, len(spec.Margins)) }
	return loop{
		sigma: make([]float64, spec.ObjectiveSize()),
		lastS: state(), lastC: context(), lastU: action(), state: state(), predictedS: state(), predictedC: context(), innovation: state(),
		u: action(), raw: action(), margins: margins(), alternative: action(), alternativeMargins: margins(), slot: make([]float64, spec.PreferenceSize()),
	}
}

// leastProjected is the least number of loops that decide together and are projected where their latents are kept. A
// core makes some 20 to 30 rows while a device makes the slowest of them (docs/contribute/cuda-kernels.md). A single
// loop, as of an evaluation, is projected by the problem's own method on every backend.
const leastProjected = 32

// keep makes the loops' latents.
func (a *Batch) keep(projects bool) (err error) {
	a.latents, a.onDevice, err = a.makeLoops(backend.LoopsConfig{
		MapConfig: a.mapConfig(a.size), RetractionMix: a.nav.RetractionMix, PriorityFilter: a.nav.PriorityFilter, Direct: a.opt.Direct,
		Smooths: a.smooths(), Projects: projects,
	})
	return err
}

// smooths reports whether a decision may depend on the latent of the one before.
func (a *Batch) smooths() bool {
	return a.nav.Smoothing < 1 && !a.opt.Direct && !a.opt.Observer && !a.opt.NoiseFree
}

// makeLoops makes loops of the map: where the backend computes if it offers that, in its
// single operations otherwise.
func (l *loaded) makeLoops(cfg backend.LoopsConfig) (latents backend.Loops, onDevice bool, err error) {
	if b, ok := l.backend.(backend.LoopsBackend); ok {
		latents, err := b.NewLoops(cfg)
		switch {
		case err == nil:
			return latents, true, nil
		case !errors.Is(err, backend.ErrNoLoops):
			return nil, false, err
		}
	}
	if err := l.makeStepper(cfg.Step.MaxBatch); err != nil {
		return nil, false, err
	}
	latents, err = backend.HostLoopsOf(backend.LoopParts{Encoder: l.encoder, Index: l.index, Stepper: l.stepper}, cfg)
	return latents, false, err
}

// AnswerError is the error of the map at decisions that the problem knows by its own solver
// (domain.ProblemAbilities.Answers). It is the share of their variation that the map misses, 0 where none are known.
// Above 0.5 no decision of the map is trusted: each has domain.FallbackMap.
func (a *Batch) AnswerError() float64 { return a.wrong }

// OnDevice tells whether the latents stay where the backend computes.
func (a *Batch) OnDevice() bool { return a.onDevice }

// Reset starts an episode in every loop.
func (a *Batch) Reset() {
	for i := range a.loops {
		a.ResetLoop(i)
	}
}

// ResetLoop starts an episode in loop i alone.
func (a *Batch) ResetLoop(i int) {
	l := &a.loops[i]
	l.noise.Reset()
	l.history = history{}
	l.pursuit.goal = nil
	l.guard.forget()
	l.prepared.forget()
	copy(l.sigma, a.uniform.W)
	if l.memory != nil {
		l.memory.forget()
	}
}
