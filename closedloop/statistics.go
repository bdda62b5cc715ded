package closedloop

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gpc-engine/gpc/batchnav"
)

// Number is a float64 whose JSON is null where it is not finite.
type Number = batchnav.Number

// Interval is a 95 % confidence interval.
type Interval [2]float64

// confidence of every interval here.
const confidence = 0.95

// ClopperPearson is the exact binomial interval of k successes in n trials (C.
// Clopper and E. Pearson, Biometrika 26, 1934); [0, 1] for n = 0.
func ClopperPearson(k, n int) Interval {
	if n <= 0 {
		return Interval{0, 1}
	}
	tail := (1 - confidence) / 2
	interval := Interval{0, 1}
	if k > 0 {
		interval[0] = distuv.Beta{Alpha: float64(k), Beta: float64(n - k + 1)}.Quantile(tail)
	}
	if k < n {
		interval[1] = distuv.Beta{Alpha: float64(k + 1), Beta: float64(n - k)}.Quantile(1 - tail)
	}
	return interval
}

// Quantiles are the latencies that DESIGN §7 names, µs.
type Quantiles struct {
	P50 Number `json:"p50"`
	P95 Number `json:"p95"`
	P99 Number `json:"p99"`
}

// quantiles sorts v and reads its nearest-rank quantiles; NaN for no values.
func quantiles(v []float64) Quantiles {
	if len(v) == 0 {
		nan := Number(math.NaN())
		return Quantiles{nan, nan, nan}
	}
	slices.Sort(v)
	at := func(p float64) Number { return Number(stat.Quantile(p, stat.Empirical, v, nil)) }
	return Quantiles{at(0.5), at(0.95), at(0.99)}
}

// meanAndError returns the mean and its standard error; NaN where undefined.
func meanAndError(v []float64) (mean, sem float64) {
	mean, deviation := stat.MeanStdDev(v, nil)
	return mean, stat.StdErr(deviation, float64(len(v)))
}

// ratioAndError is Σ a/Σ b and its standard error, by the residuals a − ratio·b.
func ratioAndError(a, b []float64) (ratio, sem float64) {
	sumB := floats.Sum(b)
	ratio = floats.Sum(a) / sumB
	n := float64(len(a))
	if n < 2 {
		return ratio, math.NaN()
	}
	squares := 0.0
	for i := range a {
		d := a[i] - ratio*b[i]
		squares += d * d
	}
	return ratio, math.Sqrt(squares*n/(n-1)) / math.Abs(sumB)
}
