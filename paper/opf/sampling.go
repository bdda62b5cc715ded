package opf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/tensor"
)

// The range of the scenario axes: the load level of the whole network (paper,
// Experimental Setup) and the factor of every single load about it. The factors
// cover the test loads, 1 ± 0.08 and its noise.
const (
	levelLo, levelHi = 0.6, 1.4
	factorHalfRange  = 0.09
)

// Constants of the pre-dispatch states. A sample's state is not that of its own
// solution: the previous dispatch is solved at other loads, disturbed, and then
// the loads change. Training on the solution's own state costs a third of the
// feasible steps.
const (
	adaptiveChains   = 8     // trajectories per scenario with the adaptive priority
	adaptiveSteps    = 6     // steps of each
	slowChange       = 0.006 // standard deviation of the level's relative change a step
	fastChange       = 0.07  // largest relative change a step: a swing of 16 steps over 0.62–0.90
	busChange        = 0.006 // standard deviation of a single load's change a step
	powerDisturbance = 0.02  // pu: standard deviation of the larger disturbance of the previous P_G
	voltDisturbance  = 0.006 // pu: the same of V_G
	smallDisturbance = 0.1   // share of the above in half of the samples
)

// Constants of the trajectories of a secure dispatch on a large network. A solve far from the last one takes ten times
// as long as one near it, and most large changes leave no secure dispatch within the ramp. So loads walk, each step is
// solved from the last one, and the dispatch before each step is disturbed.
const (
	walkGens  = 18 // from as many units, where the projection's metric is no longer kept whole (docs/explain/opf.md)
	walkSteps = 20 // of the adaptive priority
	walkFixed = 4  // of a fixed preference
	// walkChange takes the place of slowChange and busChange.
	walkChange = 0.003
	// walkRamp is the most of powerDisturbance as a share of a unit's ramp: with more, many steps have no secure
	// dispatch within the ramp.
	walkRamp = 0.25
)

// DatasetTightening is what samples stay away from the limits of the network, pu
// (measured: with it the decoder's errors stay inside in nearly every step). Box
// and ramp limits need none, since the projection's clip keeps them exactly.
var DatasetTightening = acopf.Tightening{VLoad: 0.002, Q: 0.004, S: 0.0025}

// Solver makes the Pareto samples of a System. It is safe for concurrent use.
type Solver struct {
	system *System
}

func newSolver(y *System) *Solver { return &Solver{system: y} }

// Parameters are the level and one factor a load.
func (v *Solver) Parameters() []domain.Variable {
	y := v.system
	axes := []domain.Variable{{Name: "level", Lo: levelLo, Hi: levelHi}}
	if y.security != nil {
		axes[0].Lo, axes[0].Hi = secureScenario[0], secureScenario[1]
	}
	for _, part := range []struct {
		name  string
		buses []int
	}{{"P", y.layout.loadP}, {"Q", y.layout.loadQ}} {
		for _, i := range part.buses {
			axes = append(axes, domain.Variable{Name: fmt.Sprint(part.name, y.Network.BusID[i]), Lo: 1 - factorHalfRange, Hi: 1 + factorHalfRange})
		}
	}
	return axes
}

// Abilities implements domain.Able.
func (v *Solver) Abilities() *domain.SolverAbilities {
	return &domain.SolverAbilities{SolveAll: v.SolveAll, Optimal: v.Optimal}
}

// Prepare implements domain.Solver; there is nothing to build.
func (v *Solver) Prepare(context.Context, uint64, func(done, total int)) error { return nil }

// Solve returns the samples of one scenario under one preference: see SolveAll.
func (v *Solver) Solve(scenario int, p []float64, pref domain.Preference, scalarization domain.Scalarization, seed uint64) ([]domain.Sample, error) {
	samples, errs := v.SolveAll(scenario, p, []domain.Preference{pref}, scalarization, []uint64{seed})
	return samples[0], errs[0]
}

// SolveAll solves all preferences of a scenario, side by side in the lanes of the
// batched interior point, and returns for each its samples or why there are none;
// each is what Solve returns.
//
// The adaptive priority gives trajectories of a few steps, coupled by their ramp,
// each accepted as a whole or not at all; a fixed preference one sample. Trajectories
// of a secure dispatch on a large network end where a step fails; see walkSteps. A
// preference all of whose trajectories fail is domain.ErrInfeasible, or
// domain.ErrNotConverged where the solver gave up.
func (v *Solver) SolveAll(scenario int, p []float64, prefs []domain.Preference, scalarization domain.Scalarization, seeds []uint64) ([][]domain.Sample, []error) {
	samples, errs := make([][]domain.Sample, len(prefs)), make([]error, len(prefs))
	y := v.system
	var chains []*trainingChain
	first, outcome := v.possible(p)
	for i, pref := range prefs {
		if errs[i] = cmp.Or(v.check(p, pref, scalarization), outcome); errs[i] != nil {
			continue
		}
		count, steps := 1, 1
		switch walks := y.walks(); {
		case walks && pref.Adaptive:
			steps = walkSteps
		case walks:
			steps = walkFixed
		case pref.Adaptive:
			count, steps = adaptiveChains, adaptiveSteps
		}
		rng := rand.New(rand.NewPCG(seeds[i], 0x7472_6169_6e))
		for k := range count {
			h := y.newTrainingChain(rng, p, pref, i, k, steps)
			h.survives, h.walk = first, y.walks()
			chains = append(chains, h)
		}
	}
	if err := y.solveChains(chains); err != nil {
		return samples, slices.Repeat([]error{err}, len(prefs))
	}
	for _, c := range chains {
		i := c.preference
		if c.err == nil || c.walk {
			samples[i] = append(samples[i], c.samples...)
		}
		if c.err != nil && !errors.Is(errs[i], domain.ErrNotConverged) {
			errs[i] = c.err
		}
	}
	for i := range prefs {
		if len(samples[i]) > 0 {
			errs[i] = nil
		}
		for k := range samples[i] {
			samples[i][k].Scenario = scenario
		}
	}
	return samples, errs
}

// possible says why the load of a scenario has no dispatch at all in the network
// as the file has it; then no preference and no ramp has one. A secure dispatch is
// what the trajectories of the scenario begin at; nil of one that survives nothing.
func (v *Solver) possible(p []float64) (*secure.Result, error) {
	y := v.system
	if len(p) != len(v.Parameters()) {
		return nil, nil // check's to say
	}
	h := y.newTrainingChain(rand.New(rand.NewPCG(0, 0)), p, domain.Preference{}, 0, 0, 1)
	if y.walks() {
		h.survives = y.first()
	}
	err := y.advance([]*trainingChain{h}, func(int, *trainingChain) (acopf.Problem, bool) {
		return y.problem(h.pd, h.qd, nil, nil, totalWeights, DatasetTightening, nil), true
	})
	return h.survives, cmp.Or(err, h.err)
}

// firstDispatch is the secure dispatch that all scenarios begin at where trajectories walk: of the file's loads at the
// upper end of secureLevels. Nil where there is none.
func (y *System) firstDispatch() *secure.Result {
	n := y.Network
	pd, qd := make([]float64, n.Buses()), make([]float64, n.Buses())
	floats.AddScaled(pd, secureLevels[1], n.Pd)
	floats.AddScaled(qd, secureLevels[1], n.Qd)
	r, err := y.security.attempt(context.Background(), y.problem(pd, qd, nil, nil, totalWeights, DatasetTightening, nil), nil)
	if err != nil || r.Status != secure.Secure {
		return nil
	}
	return r
}

// outcomeOf is nil for a result that is used, else why there is none.
func outcomeOf(r *acopf.Result) error {
	switch {
	case usable(r):
		return nil
	case r.Status == acopf.Infeasible:
		return domain.ErrInfeasible
	}
	return domain.ErrNotConverged
}

func (v *Solver) check(p []float64, pref domain.Preference, scalarization domain.Scalarization) error {
	if want := 1 + len(v.system.layout.loadP) + len(v.system.layout.loadQ); len(p) != want {
		return fmt.Errorf("opf: a scenario of %d parameters, want %d", len(p), want)
	}
	if scalarization != domain.WeightedSum {
		return fmt.Errorf("opf: scalarization %q; this case has %q", scalarization, domain.WeightedSum)
	}
	return pref.Validate(objectives)
}

// Optimal writes the exact dispatch for an observation: within the ramp of the
// context's previous P_G, without tightening. See domain.SolverAbilities.Optimal.
func (v *Solver) Optimal(s, c []float64, pref domain.Preference, u []float64) bool {
	results := make([]acopf.Result, 1)
	if v.system.solve(context.Background(), []acopf.Problem{v.system.problemAt(s, c, pref, nil)}, results) != nil || !usable(&results[0]) {
		return false
	}
	v.system.setPoints(&results[0], u)
	return true
}

// Why a trajectory ends, as datasets count it.
var (
	errBefore       = &domain.Reason{Kind: domain.ErrInfeasible, Text: "infeasible at the load before"}
	errNoFlow       = &domain.Reason{Kind: domain.ErrInfeasible, Text: "no power flow before the dispatch"}
	errOutsideRamp  = &domain.Reason{Kind: domain.ErrInfeasible, Text: "outside ramp"}
	errNotConfirmed = &domain.Reason{Kind: domain.ErrNotConverged, Text: "not confirmed by the power flow"}
)

// trainingChain is one trajectory of a scenario under way.
type trainingChain struct {
	preference int // whose
	pref       domain.Preference
	id         int64
	single     bool
	walk       bool // each step begins at a disturbed dispatch; see walkSteps
	steps      int
	rng        *rand.Rand
	change     float64   // relative change of the level a step
	pd, qd     []float64 // present loads
	factors    []float64
	applied    []float64 // set-points in force
	pg         []float64 // what the units gave last
	s, c       []float64
	err        error          // domain.ErrInfeasible or ErrNotConverged of a step; nil: under way, or complete
	last       *acopf.Result  // of the last solve
	survives   *secure.Result // the same of a secure dispatch
	samples    []domain.Sample
}

// newTrainingChain draws the trajectory: branch factors, the pace of the load, and
// the loads before the scenario's own.
func (y *System) newTrainingChain(source *rand.Rand, p []float64, pref domain.Preference, preference, number, steps int) *trainingChain {
	n, l := y.Network, &y.layout
	rng := rand.New(rand.NewPCG(source.Uint64(), source.Uint64()))
	h := &trainingChain{
		preference: preference, pref: pref, id: int64(number), single: steps == 1, steps: steps, rng: rng,
		pd: make([]float64, l.buses), qd: make([]float64, l.buses), s: make([]float64, 2*l.buses), c: make([]float64, l.context),
	}
	for k, i := range l.loadP {
		h.pd[i] = n.Pd[i] * p[0] * p[1+k]
	}
	for k, i := range l.loadQ {
		h.qd[i] = n.Qd[i] * p[0] * p[1+len(l.loadP)+k]
	}
	if l.uncertain {
		h.factors = branchDraw(rng, l.branches)
	}
	if rng.IntN(2) == 0 {
		h.change = slowChange * rng.NormFloat64()
	} else {
		h.change = fastChange * (2*rng.Float64() - 1)
	}
	return h
}

// walks says whether trajectories are those of walkSteps.
func (y *System) walks() bool { return y.security != nil && y.layout.gens >= walkGens }

// move changes the loads by one step.
func (h *trainingChain) move(sign float64) {
	spread := busChange
	if h.walk {
		h.change, spread = walkChange*h.rng.NormFloat64(), walkChange
	}
	for _, load := range [2][]float64{h.pd, h.qd} {
		for i := range load {
			load[i] *= 1 + sign*h.change + spread*h.rng.NormFloat64()
		}
	}
}

// solveChains runs all trajectories step by step: first the dispatch before, at
// the loads before, disturbed; then the loads come and each step is solved within
// the ramp.
func (y *System) solveChains(chains []*trainingChain) error {
	w := y.pool.Get().(*workspace)
	defer y.pool.Put(w)
	loads := make([][2][]float64, len(chains))
	err := y.advance(chains, func(k int, h *trainingChain) (acopf.Problem, bool) {
		loads[k] = [2][]float64{slices.Clone(h.pd), slices.Clone(h.qd)}
		h.move(-1)
		return y.problem(h.pd, h.qd, h.factors, nil, y.priorWeights(h), DatasetTightening, nil), true
	})
	if err != nil {
		return err
	}
	for k, h := range chains {
		switch {
		case h.err == domain.ErrInfeasible:
			h.err = errBefore
		case h.err == nil && !y.disturb(w, h):
			h.err = errNoFlow
		}
		h.pd, h.qd = loads[k][0], loads[k][1]
	}
	for step := range max(adaptiveSteps, walkSteps) {
		err := y.advance(chains, func(_ int, h *trainingChain) (acopf.Problem, bool) {
			if step > 0 && h.walk && !y.disturb(w, h) {
				h.err = errNoFlow
				return acopf.Problem{}, false
			}
			if step > 0 {
				h.move(1)
			}
			y.Context(h.c, h.pd, h.qd, h.pg, h.factors)
			if !w.dispatch(h.s, h.c, h.applied) {
				h.err = errNoFlow // the set-points in force do not survive the change
				return acopf.Problem{}, false
			}
			w.state(h.s)
			return y.problem(h.pd, h.qd, h.factors, h.pg, y.weightsAt(h.s, h.c, h.pref), DatasetTightening, h.last), true
		})
		if err != nil {
			return err
		}
		for _, h := range chains {
			if h.err == domain.ErrInfeasible {
				h.err = errOutsideRamp // possible has found a dispatch without
			}
			if h.err == nil && h.steps > 0 && !y.record(w, h, step) {
				h.err = errNotConfirmed
			}
		}
	}
	return nil
}

// solveSteps solves the problems of trajectories.
func (y *System) solveSteps(live []*trainingChain, problems []acopf.Problem, results []acopf.Result) error {
	if y.security == nil {
		return y.solve(context.Background(), problems, results)
	}
	for i, h := range live {
		solve := y.security.solve
		if h.walk && h.survives != nil {
			solve = y.security.attempt // from nothing takes as long as a whole trajectory
		}
		r, err := solve(context.Background(), problems[i], h.survives)
		if err != nil {
			return err
		}
		if results[i] = optimum(r); r.Status == secure.Secure {
			h.survives = r
		}
	}
	return nil
}

// advance solves one step of every trajectory that is under way.
func (y *System) advance(chains []*trainingChain, prepare func(k int, h *trainingChain) (acopf.Problem, bool)) error {
	var problems []acopf.Problem
	var live []*trainingChain
	for k, h := range chains {
		if h.err != nil || h.steps == 0 {
			continue
		}
		if p, ok := prepare(k, h); ok {
			problems, live = append(problems, p), append(live, h)
		}
	}
	results := make([]acopf.Result, len(problems))
	if err := y.solveSteps(live, problems, results); err != nil {
		return err
	}
	for i, h := range live {
		h.last = &results[i]
		h.err = outcomeOf(h.last)
	}
	return nil
}

// priorWeights are those of the dispatch before: in most cases the preference's
// own, sometimes J_total's, as after a change of preference.
func (y *System) priorWeights(h *trainingChain) [objectives]float64 {
	if h.pref.Adaptive || h.rng.IntN(5) == 0 {
		return totalWeights
	}
	return fixedWeights(h.pref.W)
}

// disturb makes the set-points in force from the solved dispatch before.
func (y *System) disturb(w *workspace, h *trainingChain) bool {
	gens := y.layout.gens
	scale := 1.0
	if h.rng.IntN(2) == 0 {
		scale = smallDisturbance
	}
	h.applied = make([]float64, 2*gens)
	y.setPoints(h.last, h.applied)
	for g := range gens {
		power := powerDisturbance
		if h.walk {
			power = min(power, walkRamp*y.Ramp[g])
		}
		h.applied[g] += scale * power * h.rng.NormFloat64()
		h.applied[gens+g] += scale * voltDisturbance * h.rng.NormFloat64()
	}
	for g, b := range y.Network.GenBus {
		h.applied[g] = min(max(h.applied[g], y.Network.PMin[g]), y.Network.PMax[g])
		h.applied[gens+g] = min(max(h.applied[gens+g], y.Network.VMin[b]), y.Network.VMax[b])
	}
	copy(h.s, h.last.Vm)
	copy(h.s[y.layout.buses:], h.last.Va)
	y.Context(h.c, h.pd, h.qd, h.last.Pg, h.factors)
	if !w.dispatch(h.s, h.c, h.applied) {
		return false
	}
	w.state(h.s)
	h.pg = slices.Clone(w.solution.Pg)
	for g := range h.pg {
		h.pg[g] = min(max(h.pg[g], y.Network.PMin[g]), y.Network.PMax[g])
	}
	return true
}

// record appends the sample of a solved step and applies it. It reports false
// where the power flow of the solution does not confirm it.
func (y *System) record(w *workspace, h *trainingChain, step int) bool {
	u := make([]float64, 2*y.layout.gens)
	y.setPoints(h.last, u)
	if !w.dispatch(h.s, h.c, u) || !y.spec.Keeps(w.smallest()) {
		return false
	}
	sample := domain.Sample{
		Trajectory: h.id, Step: step, Perturbed: h.single || h.walk, S: slices.Clone(h.s), C: slices.Clone(h.c), Preference: h.pref,
		U: slices.Clone(u), Target: slices.Clone(u), Sigma: make([]float64, objectives), J: make([]float64, objectives),
		Margins: slices.Clone(w.margin), KKT: h.last.KKT.Max(),
	}
	base := make([]float64, len(u))
	y.Base(h.s, h.c, base)
	tensor.Axpy(-1, base, sample.Target)
	y.priority(h.s, h.c, h.pref, sample.Sigma)
	w.objectives(h.c, sample.J)
	h.samples = append(h.samples, sample)
	copy(h.pg, w.solution.Pg)
	h.applied = slices.Clone(u)
	h.steps--
	return true
}
