package view

import (
	"context"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
	"github.com/gpc-engine/gpc/tensor"
)

// NewPlanScorer is domain.ProblemAbilities.NewPlanScorer, on the CPU.
func (v *View) NewPlanScorer(domain.Accelerator) (domain.PlanScorer, error) { return v, nil }

// ScorePlans implements domain.PlanScorer. Step by step it says of a view only what
// the next action is scored by: the order of the bodies and what becomes of the fan,
// nearly all of Step, are for E_x.
func (v *View) ScorePlans(ctx context.Context, b domain.PlanBatch) error {
	if min(b.Threads, b.Plans.Rows) > 1 {
		v.inParallel(ctx, b)
	} else { // without allocating
		v.scoreRows(ctx, &b, 0, b.Plans.Rows)
	}
	return ctx.Err()
}

func (v *View) inParallel(ctx context.Context, b domain.PlanBatch) {
	parallel.Split(b.Threads, b.Plans.Rows, func(_, from, to int) { v.scoreRows(ctx, &b, from, to) })
}

// scoreRows scores plans from until to.
func (v *View) scoreRows(ctx context.Context, b *domain.PlanBatch, from, to int) {
	var first sight
	v.decode(b.S, b.C, &first)
	for i := from; i < to && ctx.Err() == nil; i++ {
		row := b.Projected[i*b.Plans.Cols:][:b.Plans.Cols]
		tensor.Widen(row, b.Plans.Row(i))
		b.Cost[i], b.Margin[i] = v.score(first, b, row)
	}
}

// score rolls one plan out, and projects it in place.
func (v *View) score(e sight, b *domain.PlanBatch, plan []float64) (cost, margin float64) {
	var nextS [viewMeasured]float64
	var nextC [viewContext]float64
	var J, sigma, delta [3]float64
	s, c := b.S, b.C
	margin = math.Inf(1)
	for h := range b.Steps {
		u := plan[h*world.ActionSize:][:world.ActionSize]
		if !tensor.Finite(u) {
			return cost, math.Inf(-1)
		}
		if !b.NoProjection {
			v.system.Params.Limits.Nearest(u, e.previous[:])
		}
		if copy(sigma[:], b.Preference.W); b.Preference.Adaptive {
			v.Indicators(s, u, c, delta[:])
			v.spec.Semantic.Priority(delta[:], sigma[:])
		}
		v.Objectives(s, u, c, J[:])
		for k, w := range sigma {
			cost += w * J[k]
		}
		margin = math.Min(margin, v.margin(&e, u))
		v.advance(&e, u)
		s, c = nextS[:], nextC[:]
		v.write(&e, s, c)
	}
	return cost, margin
}
