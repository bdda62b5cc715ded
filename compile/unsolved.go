package compile

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/diagnosis"
)

// leastScenarios with samples are what training needs: some are held out.
const leastScenarios = 2

// unsolved says why too few scenarios have samples: the solver's counts, its error at one of them, what a check of the system
// finds, and what would help.
func (r *run) unsolved(ctx context.Context, point []float64, total *dataset.Counters) error {
	text := fmt.Sprintf("compile: %d of %d scenarios have samples, want at least %d; %s", total.Retained, total.Scenarios, leastScenarios, total.Missing())
	help := ""
	if _, err := domain.SolverUntil(ctx, r.c.Definition().Solver).Solve(0, point, adaptive, domain.WeightedSum, r.opt.Seed); err != nil {
		text += fmt.Sprintf("; of the scenario %.4g: %v", point, err)
		_, help = diagnosis.Unsolved(err.Error())
	}
	for i, f := range r.c.Check() {
		if text += "; " + f.Message; i == 0 && f.Severity != diagnosis.Hint {
			help = f.Fix
		}
	}
	return fmt.Errorf("%s; what would help: %s", text, cmp.Or(help, "a longer budget, or a system whose solves take less time"))
}
