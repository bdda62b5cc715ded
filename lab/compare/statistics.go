// Package compare sets records of gpc bench side by side, with the tests of benchstat.
package compare

import (
	"fmt"
	"math"

	"github.com/aclements/go-moremath/stats"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gpc-engine/gpc/bench"
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

// confidence is that of every interval.
const confidence = 0.95

// MedianInterval is the 95 % interval of the median between order statistics of ascending values:
// as many values lie below it as above it. NaN where there are too few.
func MedianInterval(sorted []float64) (interval [2]float64) {
	n := len(sorted)
	binomial := distuv.Binomial{N: float64(n), P: 0.5}
	k := 0 // values outside at each end
	for k < n/2 && 1-2*binomial.CDF(float64(k)) >= confidence {
		k++
	}
	if k == 0 {
		return [2]float64{math.NaN(), math.NaN()}
	}
	return [2]float64{sorted[k-1], sorted[n-k]}
}

// Peak is the largest ceiling of multiply-adds beside a record's results, GFLOP/s; 0 where there is none.
func Peak(r *bench.Record) (most float64) {
	for i := range r.Results {
		most = max(most, r.Results[i].PeakGFlops)
	}
	return most
}
