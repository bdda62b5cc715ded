package view

import (
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Mirror is a sample as seen in a mirror along the heading: y → −y, ω → −ω. The
// problem is the same there.
func (v *View) Mirror(row *domain.Sample) domain.Sample {
	m := *row
	m.S, m.C = slices.Clone(row.S), slices.Clone(row.C)
	m.U, m.Target = slices.Clone(row.U), slices.Clone(row.Target)
	Flip(m.S, m.C)
	FlipPlan(m.U)
	FlipPlan(m.Target)
	return m
}

// Flip mirrors a view in place.
func Flip(s, c []float64) {
	s[viewGoal+1], s[viewWay+1] = -s[viewGoal+1], -s[viewWay+1]
	c[viewPrevious+1] = -c[viewPrevious+1]
	for w := range viewWays {
		c[viewWayAt+2*w+1] = -c[viewWayAt+2*w+1]
	}
	for n := range fanPairs {
		left, right := c[viewFanAt+2*n*fanSize:][:fanSize], c[viewFanAt+(2*n+1)*fanSize:][:fanSize]
		for k := range left {
			left[k], right[k] = right[k], left[k]
		}
	}
	for b := range viewBodies {
		f := c[viewBodyAt+b*bodySize:][:bodySize]
		for k := range viewKnots {
			f[bodyKnots+2*k+1] = -f[bodyKnots+2*k+1]
		}
		f[bodySide] = -f[bodySide]
	}
}

// FlipPlan mirrors a plan in place.
func FlipPlan(plan []float64) {
	for k := 1; k < len(plan); k += world.ActionSize {
		plan[k] = -plan[k]
	}
}
