// Package compare sets records of gpc bench side by side, with the tests of benchstat.
package compare

import (
	"fmt"

	"github.com/aclements/go-moremath/stats"
)

// significance is what a P is below that is not chance.
const significance = 0.05

// mannWhitney is the two-sided P that two samples are of one distribution; 1 where all their
// values are equal.
func mannWhitney(a, b []float64) float64 {
	r, err := stats.MannWhitneyUTest(a, b, stats.LocationDiffers)
	if err != nil {
		return 1
	}
	return r.P
}

// untested says why samples of two sizes cannot be told apart; "" where they can: where the
// least P that the test has for them, 2/C(n+m, n), is significant.
func untested(n, m int) string {
	switch {
	case n == 0 && m == 0:
		return "neither record has latencies"
	case n == 0:
		return "the first record has no latencies"
	case m == 0:
		return "the record has no latencies"
	}
	least := 2.0
	for i := 1; i <= n; i++ {
		least *= float64(i) / float64(m+i)
	}
	if least >= significance {
		return fmt.Sprintf("%d and %d calls are too few", n, m)
	}
	return ""
}
