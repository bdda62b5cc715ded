package multiagent

import "github.com/gpc-engine/gpc/domain"

// Budgets of the reference, candidates per decision: the paper's, and that of
// the refinement it is compared with.
const (
	referenceBudget      = 384
	referenceLargeBudget = 4096
)

// controllers are the case's own methods by name.
//
//	reference       the finite-budget optimiser with 384 candidates
//	reference-4096  the same with 4096
//	gpc-no-latent   look-ahead and commitment on primitives, perturbations and
//	                gradients, without candidates from a learned map
func controllers(y *System) map[string]func() (domain.Controller, error) {
	reference := func(budget int) func() (domain.Controller, error) {
		return func() (domain.Controller, error) { return NewReference(y, budget) }
	}
	return map[string]func() (domain.Controller, error){
		"gpc-no-latent":  func() (domain.Controller, error) { return NewPlanner(y, DefaultPlanner(y.scenes.Moving)) },
		"reference":      reference(referenceBudget),
		"reference-4096": reference(referenceLargeBudget),
	}
}
