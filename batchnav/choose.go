package batchnav

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
)

// localizedRow is the candidate of the localized code; the one before is E_x's.
const localizedRow = 1

// choose takes the least cost among the feasible plans, ties to the lowest index. Without a feasible plan it takes the
// largest margin, and the first plan where no margin is a number. It reports the contribution of each source. The
// caller adds the latents of the plans.
func choose(b *domain.PlanBatch, sources []domain.Source, spec *domain.Spec) backend.RefineOutput {
	var out backend.RefineOutput
	best, widest := -1, -1
	for i, source := range sources {
		st := &out.Sources[source]
		st.Candidates++
		cost, margin := b.Cost[i], b.Margin[i]
		if !math.IsNaN(margin) && (widest < 0 || margin > b.Margin[widest]) {
			widest = i
		}
		if !spec.Keeps(margin) || math.IsNaN(cost) {
			continue
		}
		if st.Feasible == 0 || cost < st.BestCost {
			st.BestCost = cost
		}
		st.Feasible++
		st.MeanCost += cost
		out.FeasibleCount++
		if best < 0 || cost < b.Cost[best] {
			best = i
		}
	}
	for i := range out.Sources {
		out.Sources[i].MeanCost /= float64(max(1, out.Sources[i].Feasible))
	}
	out.Feasible = best >= 0
	if best < 0 {
		best = max(widest, 0)
	}
	localized := min(localizedRow, len(sources)-1)
	out.Index, out.Source = best, sources[best]
	out.Cost, out.Margin = b.Cost[best], b.Margin[best]
	out.LocalizedCost, out.LocalizedMargin = b.Cost[localized], b.Margin[localized]
	out.U = slices.Clone(row(b.Projected, best, b.Plans.Cols))
	return out
}
