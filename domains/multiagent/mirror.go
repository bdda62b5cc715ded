package multiagent

import (
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// mirror is a sample as seen in a mirror along the heading: y → −y, ω → −ω. The
// problem is the same there.
func (v *View) mirror(row *domain.Sample) domain.Sample {
	m := *row
	m.S, m.C, m.U, m.Target = slices.Clone(row.S), slices.Clone(row.C), slices.Clone(row.U), slices.Clone(row.Target)
	flip(m.S, m.C)
	flipPlan(m.U)
	flipPlan(m.Target)
	return m
}

// flip mirrors a view in place.
func flip(s, c []float64) {
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

// flipPlan mirrors a plan in place.
func flipPlan(plan []float64) {
	for k := 1; k < len(plan); k += actionSize {
		plan[k] = -plan[k]
	}
}
