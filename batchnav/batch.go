package batchnav

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/loops"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Observation is what one loop sees at one decision: measured state, context
// and preference, physical units.
type Observation struct {
	S, C       []float64
	Preference domain.Preference
	// Until is when a search is to have its best: it begins no round that would end later, as
	// far as the last one tells. The result then depends on the machine. Zero: whenever.
	Until time.Time
}

// Batch is many independent closed loops of one map that decide together: each
// backend call serves all rows. Where the backend keeps loops by itself
// (backend.LoopsBackend) their latents stay there from decision to decision, and of 32 that
// decide together or more so do projections. It is used by one goroutine.
type Batch struct {
	*loaded
	opt      Options
	size     int
	latents  backend.Loops
	onDevice bool
	loops    []loop
	every    []int // all loops
	// Of the decision that is made: the loops that make it, and their input and output.
	which []int
	in    backend.LoopsInput
	out   backend.LoopsOutput
	// room and answer are in and out for every loop.
	room   backend.LoopsInput
	answer backend.LoopsOutput
	search *search // nil: none
	ahead  *finder // nil: it does not search between decisions
	guard  *guard  // nil: none
	wrong  float64 // answerError of the map
	// uniform is the preference of the ablation without semantics.
	uniform domain.Preference
	slot    []float64
}

// loop is the memory of one closed loop.
type loop struct {
	row                          int // of the decision's input and output
	noise                        NoiseEstimator
	haveLatent                   bool
	haveSigma                    bool
	sigma                        []float64 // filtered priority
	haveState                    bool
	decided                      bool      // there is a last decision
	lastS, lastC, lastU          []float64 // as measured, or assumed where that was not finite
	state                        []float64 // what the loop works on: s_t, or the observer's estimate
	predictedS, predictedC       []float64
	innovation                   []float64
	u, raw, margins, alternative []float64
	alternativeMargins           []float64
	bad                          bool
	variance                     float64
	memory                       *memory // of the search
	prepared                     prepared
	watched                      watched // of the guard
}

// NewBatch prepares size loops; see NewNavigator.
func NewBatch(b backend.Backend, m *model.Model, p domain.Problem, opt Options, size int) (*Batch, error) {
	if size < 1 {
		return nil, fmt.Errorf("batchnav: a batch of %d loops, want at least 1", size)
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
		loops: make([]loop, size), every: make([]int, size),
		room: backend.NewLoopsInput(spec, size), answer: backend.NewLoopsOutput(spec, size),
		slot: make([]float64, spec.PreferenceSize()),
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
		a.every[i], a.loops[i] = i, newLoop(spec)
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
		u: action(), raw: action(), margins: margins(), alternative: action(), alternativeMargins: margins(),
	}
}

// leastProjected is how many loops have to decide together to be projected where their
// latents are kept: a core makes some 20 to 30 rows while a device makes the slowest of them
// (docs/contribute/cuda-kernels.md). A loop alone, as of an evaluation, is projected by the problem's
// own method on every backend.
const leastProjected = 32

// keep makes the loops' latents.
func (a *Batch) keep(projects bool) (err error) {
	a.latents, a.onDevice, err = a.keepLoops(backend.LoopsConfig{
		MapConfig: a.mapConfig(a.size), RetractionMix: a.nav.RetractionMix, PriorityFilter: a.nav.PriorityFilter, Direct: a.opt.Direct,
		Smooths: a.smooths(), Projects: projects,
	})
	return err
}

// smooths reports whether a decision may depend on the latent of the one before.
func (a *Batch) smooths() bool {
	return a.nav.Smoothing < 1 && !a.opt.Direct && !a.opt.Observer && !a.opt.NoiseFree
}

// keepLoops makes loops of the map: where the backend computes if it offers that, in its
// single operations otherwise.
func (l *loaded) keepLoops(cfg backend.LoopsConfig) (kept backend.Loops, onDevice bool, err error) {
	if b, ok := l.backend.(backend.LoopsBackend); ok {
		kept, err := b.NewLoops(cfg)
		switch {
		case err == nil:
			return kept, true, nil
		case !errors.Is(err, backend.ErrNoLoops):
			return nil, false, fmt.Errorf("batchnav: %w", err)
		}
	}
	if err := l.makeStepper(cfg.Step.MaxBatch); err != nil {
		return nil, false, err
	}
	kept, err = loops.Of(loops.Parts{Encoder: l.encoder, Index: l.index, Stepper: l.stepper}, cfg)
	return kept, false, err
}

// AnswerError is how wrong the map is about decisions that the problem knows by its own solver
// (domain.ProblemAbilities.Answers): what it misses of their variation, as a share, 0 where none are known. Above
// 0.5 no decision of the map is trusted: each has domain.FallbackMap.
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
	l.haveLatent, l.haveSigma, l.haveState, l.decided = false, false, false, false
	l.watched.forget()
	l.prepared.forget()
	copy(l.sigma, a.uniform.W)
	if l.memory != nil {
		l.memory.forget()
	}
}

// Decide makes one decision in every loop. len(obs) and len(out) must be the
// size of the batch. See Navigator.Decide.
func (a *Batch) Decide(obs []Observation, out []Decision) error {
	if len(obs) != a.size || len(out) != a.size {
		return fmt.Errorf("batchnav: %d observations and %d decisions for a batch of %d loops", len(obs), len(out), a.size)
	}
	return a.decide(a.every, obs, out)
}

// DecideSome makes one decision in the loops of these numbers alone, which obs and out are
// of in their order; the others stay as they are. A decision is, to the bit, what it would be
// among others on a backend whose rows do not depend on each other's place and which keeps no
// loops by itself, as the CPU's.
func (a *Batch) DecideSome(which []int, obs []Observation, out []Decision) error {
	if len(obs) != len(which) || len(out) != len(which) {
		return fmt.Errorf("batchnav: %d observations and %d decisions for %d loops", len(obs), len(out), len(which))
	}
	if len(which) == 0 {
		return nil
	}
	for i := range a.loops {
		a.loops[i].row = -1
	}
	for i, w := range which {
		if w < 0 || w >= a.size || a.loops[w].row >= 0 {
			return fmt.Errorf("batchnav: entry %[2]d names loop %[1]d, want each of 0 to %[3]d at most once", w, i, a.size-1)
		}
		a.loops[w].row = i
	}
	return a.decide(which, obs, out)
}

// at is the loop that entry i of a decision is of.
func (a *Batch) at(i int) *loop { return &a.loops[a.which[i]] }

// assignRows gives the loops of a decision their rows. On the host there are no others; where a
// backend keeps the latents every loop has its row, and those that do not decide are on hold.
func (a *Batch) assignRows(which []int) {
	a.which, a.in, a.out = which, a.room, a.answer
	if _, host := a.latents.(*loops.Loops); host {
		a.in, a.out = a.room.First(len(which)), a.answer.First(len(which))
		for i, w := range which {
			a.loops[w].row = i
		}
		return
	}
	if len(which) < leastProjected {
		a.in.State, a.out.Action, a.out.Margins = nil, nil, nil
	}
	for i := range a.loops {
		a.loops[i].row = i
		a.in.Hold[i], a.in.Smoothing[i], a.in.Steering[i] = true, 1, backend.SteerKeep
	}
}

// latent makes the decision's latents.
func (a *Batch) latent() error {
	if host, ok := a.latents.(*loops.Loops); ok {
		return host.DecideSome(a.which, a.in, a.out)
	}
	return a.latents.Decide(a.in, a.out)
}

func (a *Batch) decide(which []int, obs []Observation, out []Decision) error {
	start := time.Now()
	a.assignRows(which)
	defer func() { a.which = nil }()
	for i := range obs {
		if err := a.admit(i, &obs[i]); err != nil {
			return err
		}
	}
	if err := a.latent(); err != nil {
		return err
	}
	m := a.spec.ObjectiveSize()
	for i := range obs {
		l := a.at(i)
		copy(l.sigma, a.out.Sigma[l.row*m:])
	}
	if a.search != nil {
		for i := range obs {
			if err := a.refine(i, &obs[i], len(obs)-i); err != nil {
				return err
			}
		}
	}
	stepped := time.Now()
	for i := range obs {
		a.execute(i, &obs[i], &out[i])
	}
	if a.guard != nil {
		if err := a.guard.watch(a, obs, out); err != nil {
			return err
		}
	}
	for i := range obs {
		l := a.at(i)
		if a.ahead != nil {
			l.prepared.decided(a.preference(&obs[i]))
		}
		copy(l.lastU, l.u)
		l.haveState, l.decided = !l.bad, true
		out[i].Ahead = l.watched.accepted.actions
	}
	times := domain.Times{Step: stepped.Sub(start), Project: time.Since(stepped)}
	if host, ok := a.latents.(*loops.Loops); ok {
		times.Localize = host.Localized().Sub(start)
		times.Step -= times.Localize
	}
	for i := range out {
		out[i].Times = times
	}
	return nil
}

// preference is the one in force: the ablation without semantics replaces it.
func (a *Batch) preference(obs *Observation) domain.Preference {
	if a.opt.NoSemantic {
		return a.uniform
	}
	return obs.Preference
}

// refine replaces direct's plan of entry i by the one that the search finds. So many, this
// one included, are still to share the time.
func (a *Batch) refine(i int, obs *Observation, left int) (err error) {
	l := a.at(i)
	row := l.row
	if l.bad || a.out.Flags[row]&backend.LoopFinite == 0 {
		return nil
	}
	if l.prepared.ready {
		if l.prepared.preference.Equal(a.preference(obs)) {
			a.out.Displacement[row], err = a.ahead.bend(l.memory.Best(), obs.C, a.in.S.Row(row), a.out.Z.Row(row), a.out.U.Row(row))
			return err
		}
		l.memory.lose()
	}
	within := a.opt.Search.Within
	if !obs.Until.IsZero() {
		share := max(1, time.Until(obs.Until)/time.Duration(left))
		if within == 0 || share < within {
			within = share
		}
	}
	a.out.Displacement[row], err = a.search.decide(l.memory, l.state, obs.C, a.preference(obs), a.in.S.Row(row), a.out.Z.Row(row), a.out.U.Row(row), within)
	return err
}
