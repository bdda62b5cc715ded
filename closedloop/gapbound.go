package closedloop

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// GapBounds describe what is known of how far decisions are above their optima, by domain.ProblemAbilities.Gap, %.
type GapBounds struct {
	N    int    `json:"n"`        // decisions with a bound
	Mean Number `json:"mean_pct"` // their mean bound
	P99  Number `json:"p99_pct"`  // 99th percentile
	Max  Number `json:"max_pct"`  // largest
	// Exceeding are the decisions that were more than domain.LargestGap above it, or had none.
	Exceeding int `json:"over"`
}

// gapOf is what bounds decisions of a problem; nil where it knows no bound.
type gapOf func(s, c []float64, pref domain.Preference, u []float64) float64

// bounded is a decision's record with its bound: the method's own, or else that of the problem.
func (gap gapOf) bounded(m domain.Decision, s, c []float64, pref domain.Preference, u []float64) domain.Decision {
	if gap != nil && m.Gap == 0 {
		m.Gap = gap(s, c, pref, u)
	}
	return m
}

// gapBounds describes shares, of which one that is not finite is none; nil where there are no decisions.
func gapBounds(shares []float64) *GapBounds {
	if len(shares) == 0 {
		return nil
	}
	b := &GapBounds{}
	var percent []float64
	for _, v := range shares {
		if !(v <= domain.LargestGap) {
			b.Exceeding++
		}
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			percent = append(percent, 100*v)
		}
	}
	b.N = len(percent)
	mean, _ := meanAndError(percent)
	q := quantiles(percent) // sorts
	b.Mean, b.P99, b.Max = Number(mean), q.P99, Number(math.NaN())
	if len(percent) > 0 {
		b.Max = Number(percent[len(percent)-1])
	}
	return b
}
