package closedloop

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// SteadyStateRemark says of a plant that runs on in how many of n episodes the optimal steady state at the end of a first plan lies
// outside a state's declared range, and in how many there is none, so that plans have no terminal cost; "" for none.
func SteadyStateRemark(c *domain.Case, seed uint64, n int, pref domain.Preference) (text string) {
	spec, steady := c.Problem.Spec(), domain.AbilitiesOfProblem(c.Problem).PlanTerminalCost
	plant, ok := c.Plant.(*Simulation)
	if !ok || spec.Horizon == 0 || steady == nil {
		return ""
	}
	s, cx, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.PlanSize())
	next, nextContext := slices.Clone(s), slices.Clone(cx)
	const tolerance = 1e-6
	furthest, count := tolerance, 0
	missing, changes := 0, ""
	for i := range n {
		p := plant.Start(seed, i)
		if p == nil {
			break
		}
		plant.Initial(p, s, cx)
		v, _ := steady(s, cx, spec.Horizon, pref)
		if v == nil {
			if missing++; changes != "" {
				continue
			}
			for range spec.Horizon + 1 {
				c.Problem.Base(s, cx, u)
				c.Problem.Step(s, cx, u[:spec.ActionSize()], next, nextContext)
				s, next = next, s
				cx, nextContext = nextContext, cx
			}
			for k, v := range nextContext {
				if v != cx[k] && changes == "" {
					changes = fmt.Sprintf(" (%s of the context changes at their end)", spec.Context[k].Name)
				}
			}
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
	} else if missing > 0 {
		text = fmt.Sprintf("no steady state is found for the end of a plan in %d of %d episodes%s, so that plans have no terminal cost: does the horizon reach beyond what is known ahead, and far enough that the end does not matter?", missing, n, changes)
	}
	return text
}
