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

// startsExamined are those that are asked for an action within the limits.
const startsExamined = 32

// unsolved says why the scenarios at points have too few samples: how the solver failed, at which start, and what
// would help.
func (r *run) unsolved(points [][]float64, total *dataset.Counters) error {
	text := fmt.Sprintf("compile: %d of %d scenarios have samples, want at least %d; %s", total.Retained, total.Scenarios, leastScenarios, total.Missing())
	help := "a longer budget, or a system whose solves take less time"
	if _, err := r.c.Definition().Solver.Solve(0, points[0], domain.Preference{Adaptive: true}, domain.WeightedSum, r.opt.Seed); err != nil {
		text += fmt.Sprintf("; of the scenario %.4g: %v", points[0], err)
		if help = "equations whose slopes do not jump (√(x² + ε²) for |x|), with costs and states of usual size (docs/how-to/fix-your-equations.md)"; errors.Is(err, domain.ErrInfeasible) {
			help = "limits that some plan keeps to the end of the episode from every start, or soft ones"
		}
	}
	if margin := r.violatedAtStarts(points[:min(len(points), startsExamined)]); margin != "" {
		text += "; " + margin
		help = "margins that are ≥ 0 where their limits are kept (limit − value, not value − limit), and starts within them with the room that stopping takes"
	}
	for _, remark := range r.c.Remarks() {
		text += "; " + remark
	}
	return fmt.Errorf("%s; what would help: %s", text, help)
}

// violatedAtStarts says at how many starts no action keeps the limits, and the margin that is lowest there; "" for few.
func (r *run) violatedAtStarts(points [][]float64) string {
	if r.plant == nil {
		return ""
	}
	p := r.c.Definition().Problem
	spec := p.Spec()
	s, c := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	u, m := make([]float64, spec.ActionSize()), make([]float64, len(spec.Margins))
	lost, least, name := 0, 0.0, ""
	for _, point := range points {
		r.plant.Initial(point, s, c)
		if p.Fallback(s, c, u); p.Project(s, c, u) {
			continue
		}
		lost++
		p.Margins(s, c, u, m)
		if low := slices.Min(m); low < least {
			least, name = low, spec.Margins[slices.Index(m, low)].Name
		}
	}
	if 4*lost <= len(points) {
		return ""
	}
	return fmt.Sprintf("at %d of %d starts no action keeps the limits for one step: margin %s is %.3g", lost, len(points), name, least)
}
