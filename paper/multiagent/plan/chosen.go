package plan

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// chose describes the last decision. Plan is everyone's, Cost and Margin are those of
// the plant's own arithmetic along it; Source is that of the ego's plan. Candidates are
// plans of single robots, and what their sources cost is the search's scores of them.
// The baseline is the first plan that the map decoded for each robot it was asked about,
// and the chosen one of the others; NaN where it was asked about nobody. Before a
// decision everything is zero.
func (p *Planner) chose() domain.Chosen {
	var c domain.Chosen
	for source, t := range p.search.statistics {
		if t.Candidates == 0 {
			continue
		}
		t.Source = domain.Source(source)
		c.Candidates += t.Candidates
		c.FeasibleCount += t.Feasible
		t.MeanCost /= math.Max(float64(t.Feasible), 1)
		c.Sources = append(c.Sources, t)
	}
	if c.Candidates == 0 {
		return c
	}
	h, steps := p.joint.Scene, p.options.LookAhead
	c.LookAhead, c.Source, c.Consistent = steps, p.adopted[0], true
	for k := range p.questions {
		c.Consistent = c.Consistent && p.answers[k].Consistent
	}
	c.Plan = make([]float64, steps*p.system.Spec().ActionSize())
	p.joint.Actions(c.Plan)
	c.Cost, c.Margin = h.Score(c.Plan, steps, p.w[:])
	c.Feasible = p.system.Spec().Keeps(c.Margin)
	if c.Baseline = math.NaN(); len(p.questions) == 0 {
		return c
	}
	base := p.joint.Clone()
	for i := range h.Robots {
		if len(p.offers[i]) > 0 {
			decoded := p.answers[p.offers[i][0].question].Plans.Row(0)
			for k := range steps {
				base.Robots[i].Plan[k] = [2]float32(decoded[2*k:])
			}
		}
	}
	joint := make([]float64, len(c.Plan))
	base.Actions(joint)
	var margin float64
	c.Baseline, margin = h.Score(joint, steps, p.w[:])
	c.BaselineFeasible = p.system.Spec().Keeps(margin)
	return c
}
