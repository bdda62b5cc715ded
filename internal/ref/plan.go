package ref

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/adjoint"
)

// planDifference is the step of PlanGradient's differences relative to max(1, |v|), the
// truncation error of which is its fourth power.
const planDifference = 1e-5

// PlanGradient writes what a plan from state s costs and the derivatives of σᵀJ in s and
// in the plan, by central differences of the value alone (domain.PlanGradient's
// PlanObjectives, or the mean of the objectives along the plan): no adjoint enters.
func PlanGradient(p domain.Problem, s, plan, c, sigma, J, gs, gplan []float64) {
	says := adjoint.Of(p)
	says.PlanObjectives(s, plan, c, J)
	s, plan = append([]float64(nil), s...), append([]float64(nil), plan...)
	moved := make([]float64, len(J))
	differentiate := func(x, g []float64) {
		for j, v := range x {
			at := func(d float64) float64 {
				x[j] = v + d
				says.PlanObjectives(s, plan, c, moved)
				x[j] = v
				return dot(sigma, moved)
			}
			h := planDifference * math.Max(1, math.Abs(v))
			near, far := (at(h)-at(-h))/(2*h), (at(2*h)-at(-2*h))/(4*h)
			g[j] = near + (near-far)/3
		}
	}
	differentiate(s, gs)
	differentiate(plan, gplan)
}
