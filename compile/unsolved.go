package compile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
)

// leastScenarios with samples are what training needs: some are held out.
const leastScenarios = 2

// unsolved says why too few scenarios have samples: the solver's counts, its error at one of them, and what would help.
func (r *run) unsolved(point []float64, total *dataset.Counters) error {
	def := r.c.Definition()
	text := fmt.Sprintf("compile: %d of %d scenarios have samples, want at least %d; %s", total.Retained, total.Scenarios, leastScenarios, total.Missing())
	help := "a longer budget, or a system whose solves take less time"
	if _, err := def.Solver.Solve(0, point, domain.Preference{Adaptive: true}, domain.WeightedSum, r.opt.Seed); err != nil {
		text += fmt.Sprintf("; of the scenario %.4g: %v", point, err)
		if help = "equations whose slopes do not jump (√(x² + ε²) for |x|), with costs and states of usual size (docs/how-to/fix-your-equations.md)"; errors.Is(err, domain.ErrInfeasible) {
			help = "limits that some plan keeps to the end of the episode from every start, or soft ones"
		}
	}
	if spec := def.Problem.Spec(); r.plant != nil && len(spec.Margins) > 0 {
		s, c := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
		u, m := make([]float64, spec.ActionSize()), make([]float64, len(spec.Margins))
		r.plant.Initial(point, s, c)
		if def.Problem.Fallback(s, c, u); !def.Problem.Project(s, c, u) {
			def.Problem.Margins(s, c, u, m)
			text += fmt.Sprintf("; there no action keeps the limits for one step: margin %s is %.3g", spec.Margins[slices.Index(m, slices.Min(m))].Name, slices.Min(m))
			help = "margins that are ≥ 0 where their limits are kept (limit − value, not value − limit), and starts within them with the room that stopping takes"
		}
	}
	return fmt.Errorf("%s; what would help: %s", text, help)
}
