package multiagent

import (
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domains/multiagent/plan"
	"github.com/gpc-engine/gpc/domains/multiagent/world"
)

// smallBudget is the paper's for the reference, candidates per decision.
const smallBudget = 384

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
func controllers(y *world.System) map[string]func() (domain.Controller, error) {
	planner := func(budget int) func() (domain.Controller, error) {
		o := plan.Default(y.Moving())
		o.Candidates = budget
		return func() (domain.Controller, error) { return plan.NewPlanner(y, o) }
	}
	reference := func(budget int) func() (domain.Controller, error) {
		return func() (domain.Controller, error) { return plan.NewReference(y, budget) }
	}
	all := map[string]func() (domain.Controller, error){
		"gpc-no-latent":  planner(plan.Budget),
		"reference":      reference(smallBudget),
		"reference-4096": reference(plan.Budget),
	}
	for _, n := range budgets {
		all[fmt.Sprintf("gpc-no-latent-%d", n)] = planner(n)
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
func guided(y *world.System) map[string]func(domain.Proposer) (domain.Controller, error) {
	planner := func(budget int, set func(*plan.Options)) func(domain.Proposer) (domain.Controller, error) {
		o := plan.Guided(y.Moving(), budget)
		set(&o)
		return func(m domain.Proposer) (domain.Controller, error) { return plan.NewGuided(y, o, m) }
	}
	all := map[string]func(domain.Proposer) (domain.Controller, error){
		"gpc": planner(plan.Budget, func(*plan.Options) {}),
		"gpc-all-latent": planner(plan.Budget, func(o *plan.Options) {
			o.Latent, o.Descent, o.Noise, o.Gradient = 1, 0, 0, false
		}),
		"gpc-no-semantic":  planner(plan.Budget, func(o *plan.Options) { o.Uniform = true }),
		"gpc-no-lookahead": planner(plan.Budget, func(o *plan.Options) { o.LookAhead, o.Forgetful = world.Horizon, true }),
		"raw": planner(plan.Budget, func(o *plan.Options) {
			o.Raw, o.Propose = true, domain.ProposeOptions{}
		}),
	}
	for _, n := range budgets {
		all[fmt.Sprintf("gpc-%d", n)] = planner(n, func(*plan.Options) {})
	}
	return all
}
