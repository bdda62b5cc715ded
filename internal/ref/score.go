package ref

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// ScorePlan executes a decoded plan, one action after another, for steps decisions:
// each is projected in the state it is taken in, unless project is false, and adds σᵀJ
// (of a user's preference what domain.Weigh makes of it) and its smallest margin, with
// Score where the problem has it. A plan that leaves the numbers has the margin −Inf. It is what a domain.PlanScorer must agree with.
func ScorePlan(p domain.Problem, s, c []float64, pref domain.Preference, plan []float64, steps int, project bool) (projected []float64, cost, margin float64) {
	spec := p.Spec()
	scored, _ := p.(domain.Scored)
	nu, objectives := spec.ActionSize(), spec.ObjectiveSize()
	J, delta, sigma, m := make([]float64, objectives), make([]float64, objectives), make([]float64, objectives), make([]float64, len(spec.Margins))
	projected, margin = append([]float64(nil), plan...), math.Inf(1)
	for h := range steps {
		u := projected[h*nu : (h+1)*nu]
		if !tensor.Finite(s) || !tensor.Finite(c) || !tensor.Finite(u) {
			return projected, cost, math.Inf(-1)
		}
		if project {
			p.Project(s, c, u)
		}
		if pref.Adaptive {
			p.Indicators(s, u, c, delta)
			spec.Semantic.Priority(delta, sigma)
		} else {
			domain.Weigh(p, pref.W, sigma)
		}
		if scored != nil {
			scored.Score(s, c, u, J, m)
		} else {
			p.Objectives(s, u, c, J)
			p.Margins(s, c, u, m)
		}
		for i, v := range J {
			cost += sigma[i] * v
		}
		for _, v := range m {
			margin = math.Min(margin, v)
		}
		sNext, cNext := make([]float64, len(s)), make([]float64, len(c))
		p.Step(s, c, u, sNext, cNext)
		s, c = sNext, cNext
	}
	return projected, cost, margin
}
