// Package planscore scores plans by a problem's functions alone, one decision after another: what every roll-out has to agree with.
package planscore

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// Plan executes a decoded plan, one action after another, for steps decisions:
// each is projected in the state it is taken in, unless project is false, and adds σᵀJ
// (with the weights of ProblemAbilities.Weights where it has some for σ) and its smallest margin, with
// Score where the problem has it. A plan that leaves the numbers, or meets a state that is
// lost (domain.ProblemAbilities.Failed), has the margin −Inf. It is what a domain.PlanScorer must agree with.
func Plan(p domain.Problem, s, c []float64, pref domain.Preference, plan []float64, steps int, project bool) (projected []float64, cost, margin float64) {
	nu, may := p.Spec().ActionSize(), domain.AbilitiesOfProblem(p)
	projected, margin = append([]float64(nil), plan...), math.Inf(1)
	for h := range steps {
		u := projected[h*nu : (h+1)*nu]
		if !tensor.Finite(s) || !tensor.Finite(c) || !tensor.Finite(u) {
			return projected, cost, math.Inf(-1)
		}
		added, low := Action(p, may, s, c, pref, u, project)
		cost, margin = cost+added, math.Min(margin, low)
		if s, c = Next(p, s, c, u); may.Lost(s, c) {
			margin = math.Inf(-1)
		}
	}
	if may.TerminalCost != nil && p.Spec().Horizon > 0 && tensor.Finite(s) && tensor.Finite(c) {
		cost += may.TerminalCost(s, c, pref)
	}
	return projected, cost, margin
}

// Action projects the action u of state s in place, unless project is false, and
// returns σᵀJ and the smallest margin there.
func Action(p domain.Problem, may *domain.ProblemAbilities, s, c []float64, pref domain.Preference, u []float64, project bool) (cost, margin float64) {
	spec := p.Spec()
	J, delta, sigma, m := make([]float64, spec.ObjectiveSize()), make([]float64, spec.ObjectiveSize()), make([]float64, spec.ObjectiveSize()), make([]float64, len(spec.Margins))
	if project {
		p.Project(s, c, u)
	}
	if !may.Weights(pref, sigma) {
		p.Indicators(s, u, c, delta)
		spec.Semantic.Priority(delta, sigma)
	}
	if may.Score != nil {
		may.Score(s, c, u, J, m)
	} else {
		p.Objectives(s, u, c, J)
		p.Margins(s, c, u, m)
	}
	return tensor.DotInOrder(sigma, J), domain.Smallest(m)
}

// Next is the state and context that an action leads to.
func Next(p domain.Problem, s, c, u []float64) (sNext, cNext []float64) {
	sNext, cNext = make([]float64, len(s)), make([]float64, len(c))
	p.Step(s, c, u, sNext, cNext)
	return sNext, cNext
}
