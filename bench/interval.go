package bench

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

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
