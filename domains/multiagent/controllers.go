package multiagent

import "github.com/gpc-engine/gpc/domain"

// Budgets, candidates per decision: the paper's for the reference, and for the
// refinement.
const (
	smallBudget = 384
	largeBudget = 4096
)

// controllers are the case's own methods by name.
//
//	reference          the finite-budget optimiser with 384 candidates
//	reference-4096     the same with 4096
//	gpc-no-latent      look-ahead and commitment on primitives, perturbations and
//	                   gradients, 4096 candidates, none from a learned map
//	gpc-no-latent-384  the same with 384 candidates
func controllers(y *System) map[string]func() (domain.Controller, error) {
	reference := func(budget int) func() (domain.Controller, error) {
		return func() (domain.Controller, error) { return NewReference(y, budget) }
	}
	return map[string]func() (domain.Controller, error){
		"gpc-no-latent":  func() (domain.Controller, error) { return NewPlanner(y, DefaultPlanner(y.scenes.Moving)) },
		"reference":      reference(smallBudget),
		"reference-4096": reference(largeBudget),
	}
}
