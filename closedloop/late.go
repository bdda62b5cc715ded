package closedloop

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// Computing declares how long decisions take, so that what is late depends on the seed and not on the machine. Times
// are lognormal, in µs. A decision has the period of its case: one that comes later is late, and what Hold writes is
// executed. The computer finishes what it has begun. A decision that could not begin in its period is not made.
type Computing struct {
	P50 float64 `json:"p50"` // declared median time of a decision (`--computing`); absent: decisions take no time, as is the next
	P99 float64 `json:"p99"` // its declared 99th percentile
}

// Validate says what in the times cannot be.
func (c *Computing) Validate() error {
	if !(c.P50 > 0) || !(c.P99 >= c.P50) || math.IsInf(c.P99, 0) {
		return fmt.Errorf("a median computing time of %v ms and a 99th percentile of %v ms: want times above 0, the second at least the first", c.P50/1e3, c.P99/1e3)
	}
	return nil
}

// Hold writes the action for a period whose decision is late. It is next, the action of the plan before, if that keeps
// the limits or breaks them by less than the problem's fallback. Otherwise it is the fallback. next is nil where there
// is none. Where exact is false, s and c are not those of the action, and next is taken as it is. It returns the
// smallest margin, NaN where that is not known.
func Hold(p domain.Problem, s, c, next []float64, exact bool, u []float64) (margin float64, source domain.Fallback) {
	spec := p.Spec()
	marginOf := func(u []float64) float64 {
		margins := make([]float64, len(spec.Margins))
		p.Margins(s, c, u, margins)
		return domain.Smallest(margins)
	}
	available := next != nil && tensor.Finite(next)
	if available && !exact {
		copy(u, next)
		return math.NaN(), domain.FallbackIncumbent
	}
	rest := make([]float64, len(u))
	p.Fallback(s, c, rest)
	margin = marginOf(rest)
	if available {
		if m := marginOf(next); spec.Keeps(m) || m >= margin {
			copy(u, next)
			return m, domain.FallbackIncumbent
		}
	}
	copy(u, rest)
	return margin, domain.FallbackConservative
}
