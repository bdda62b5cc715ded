package integrator

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// methods are the case's own. All but the oracle see only what Decide is given. A
// method reports ok = false where it finds no feasible action: its own problem has
// no certified solution and the projection of its last plan is not feasible either.
// u is then that projection.
func methods(y *System) []domain.Method {
	receding := func(steps int, frozen bool) func(domain.Means) (domain.Controller, error) {
		return func(domain.Means) (domain.Controller, error) {
			return &recedingHorizon{system: y, work: newInterior(y), steps: steps, frozen: frozen}, nil
		}
	}
	return []domain.Method{
		{Name: "oracle", About: "the horizon optimum of the scene, which it knows", Group: domain.GroupExact,
			New: func(domain.Means) (domain.Controller, error) { return new(domain.Oracle), nil }},
		{Name: "online", About: "the scalarized problem of one step, σ at the current state (the paper's online scalarization)", Group: domain.GroupBaseline, Brief: true, New: receding(1, true)},
		{Name: "mpc", About: "5 steps of look-ahead with the known dynamics, σ held", Group: domain.GroupBaseline, Brief: true, New: receding(5, true)},
		{Name: "mpc8", About: "the same with 8 steps", Group: domain.GroupBaseline, Brief: true, New: receding(8, true)},
		{Name: "nmpc", About: "all remaining steps, σ along the prediction, from the shifted plan before", Group: domain.GroupBaseline, Brief: true, New: receding(Horizon, false)},
	}
}

// stepOf is t from the context's t/T.
func stepOf(c []float64) int {
	return int(math.Round(c[contextTime] * Horizon))
}

// remaining is the problem of the next steps decisions from an observation, p
// extrapolated at its rate. frozen holds σ at the current state.
func (y *System) remaining(h *horizonProblem, s, c []float64, pref domain.Preference, steps int, frozen bool) {
	*h = horizonProblem{
		steps:     min(steps, Horizon-stepOf(c)),
		s:         [4]float64{s[0], s[1], s[2], s[3]},
		previous:  [2]float64{c[contextPrevious], c[contextPrevious+1]},
		clearance: EvaluationClearance,
		adaptive:  pref.Adaptive && !frozen,
	}
	for t := range h.steps + 1 {
		h.p[t] = c[contextP] + c[contextRate]*float64(t)*y.Params.Dt
	}
	if !h.adaptive {
		y.priority(s, c, pref, h.weights[:])
	}
}

// recedingHorizon solves the problem of the next steps and applies the first
// action. It starts from the shifted previous plan, and on the first step, or
// where that fails, from holding u₋₁ and the cold starts.
type recedingHorizon struct {
	system *System
	work   *interior
	steps  int
	frozen bool
	plan   [2 * Horizon]float64
	warm   bool
}

func (r *recedingHorizon) Reset(domain.Episode) error {
	r.warm = false
	clear(r.plan[:])
	return nil
}

func (r *recedingHorizon) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	t := stepOf(c)
	if t < 0 || t >= Horizon {
		return domain.Decision{}, fmt.Errorf("step %d is past the horizon of %d", t, Horizon)
	}
	var h horizonProblem
	r.system.remaining(&h, s, c, pref, r.steps, r.frozen)
	best := solution{cost: math.Inf(1), plan: r.plan}
	if r.warm {
		r.work.improve(&h, r.plan[:2*h.steps], &best)
	}
	if math.IsInf(best.cost, 1) {
		var hold [2 * Horizon]float64
		for k := range Horizon {
			hold[2*k], hold[2*k+1] = c[contextPrevious], c[contextPrevious+1]
		}
		r.work.improve(&h, hold[:2*h.steps], &best)
		var start [2 * Horizon]float64
		for _, g := range guides {
			r.system.coldStart(&h, g, &start)
			r.work.improve(&h, start[:2*h.steps], &best)
		}
	}
	plan, solved := best.plan, !math.IsInf(best.cost, 1)
	u[0], u[1] = plan[0], plan[1]
	ok := solved
	if !solved {
		// The look-ahead has no feasible plan; one more step may still have a
		// feasible action.
		ok = r.system.Project(s, c, u)
	}
	// Shift by one step, the last action held.
	last := 2 * (h.steps - 1)
	copy(r.plan[:], plan[2:])
	for k := last; k+1 < len(r.plan); k += 2 {
		r.plan[k], r.plan[k+1] = plan[last], plan[last+1]
	}
	r.warm = solved
	return domain.Decided(ok), nil
}
