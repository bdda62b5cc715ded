package multiagent

import (
	"fmt"

	"github.com/gpc-engine/gpc/domain"
)

// Budgets, candidates per decision: the paper's for the reference, and for the
// refinement.
const (
	smallBudget = 384
	largeBudget = 4096
)

// budgets are the candidates per decision at which the planner is compared with
// and without a map, beside the largest, which needs no number in its name.
var budgets = []int{96, 192, smallBudget, 768, 1536}

// controllers are the case's own methods that need no map, by name.
//
//	reference          the finite-budget optimiser with 384 candidates
//	reference-4096     the same with 4096
//	gpc-no-latent      look-ahead and commitment on primitives, perturbations and
//	                   gradients, 4096 candidates
//	gpc-no-latent-N    the same with N of the budgets
func controllers(y *System) map[string]func() (domain.Controller, error) {
	plan := func(budget int) func() (domain.Controller, error) {
		o := DefaultPlanner(y.scenes.Moving)
		o.Candidates = budget
		return func() (domain.Controller, error) { return NewPlanner(y, o) }
	}
	reference := func(budget int) func() (domain.Controller, error) {
		return func() (domain.Controller, error) { return NewReference(y, budget) }
	}
	all := map[string]func() (domain.Controller, error){
		"gpc-no-latent":  plan(largeBudget),
		"reference":      reference(smallBudget),
		"reference-4096": reference(largeBudget),
	}
	for _, n := range budgets {
		all[fmt.Sprintf("gpc-no-latent-%d", n)] = plan(n)
	}
	return all
}

// guided are the methods that ask a map, by name.
//
//	gpc               the planner with 4096 candidates, a share of them latents
//	gpc-N             the same with N of the budgets
//	gpc-all-latent    all 4096 are latents: no primitives, perturbations or descent
//	gpc-no-semantic   the map is asked under the preference (1/3, 1/3, 1/3)
//	gpc-no-lookahead  plans of H = 8 steps, and nobody commits to one
//	raw               the decoded plan of E_x is executed, without a search
func guided(y *System) map[string]func(domain.Proposer) (domain.Controller, error) {
	plan := func(budget int, set func(*PlannerOptions)) func(domain.Proposer) (domain.Controller, error) {
		o := GuidedPlanner(y.scenes.Moving, budget)
		set(&o)
		return func(m domain.Proposer) (domain.Controller, error) { return NewGuidedPlanner(y, o, m) }
	}
	all := map[string]func(domain.Proposer) (domain.Controller, error){
		"gpc": plan(largeBudget, func(*PlannerOptions) {}),
		"gpc-all-latent": plan(largeBudget, func(o *PlannerOptions) {
			o.Latent, o.Descent, o.Noise, o.Gradient = 1, 0, 0, false
		}),
		"gpc-no-semantic":  plan(largeBudget, func(o *PlannerOptions) { o.Uniform = true }),
		"gpc-no-lookahead": plan(largeBudget, func(o *PlannerOptions) { o.LookAhead, o.Forgetful = Horizon, true }),
		"raw": plan(largeBudget, func(o *PlannerOptions) {
			o.Raw, o.Propose = true, domain.ProposeOptions{}
		}),
	}
	for _, n := range budgets {
		all[fmt.Sprintf("gpc-%d", n)] = plan(n, func(*PlannerOptions) {})
	}
	return all
}
