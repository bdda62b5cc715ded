package closedloop

import (
	"fmt"

	"github.com/gpc-engine/gpc/domain"
)

// SteadyStateRemark says where the optimal steady state of a plant that runs on lies outside a state's declared range, and
// in how many of n episodes; "" for none.
func SteadyStateRemark(c *domain.Case, seed uint64, n int, pref domain.Preference) (text string) {
	spec, steady := c.Problem.Spec(), domain.AbilitiesOfProblem(c.Problem).PlanTerminalCost
	plant, ok := c.Plant.(*Simulation)
	if !ok || spec.Horizon == 0 || steady == nil {
		return ""
	}
	s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	const tolerance = 1e-6
	furthest, count := tolerance, 0
	for i := range n {
		p := plant.Start(seed, i)
		if p == nil {
			break
		}
		plant.Initial(p, s, cx)
		v, _ := steady(s, cx, 0, pref)
		if v == nil {
			continue
		}
		excess, k := domain.Excess(v.At, spec.Measured)
		if excess > tolerance {
			count++
		}
		if excess > furthest {
			x := &spec.Measured[k]
			furthest, text = excess, fmt.Sprintf("%s at %.4g %s, of a range of %g to %g", x.Name, v.At[k], x.Unit, x.Lo, x.Hi)
		}
	}
	if count > 0 {
		text = fmt.Sprintf("the optimal steady state lies outside a declared range in %d of %d episodes (%s), and plans end near it: is the range right, or does a margin lack?", count, n, text)
	}
	return text
}
