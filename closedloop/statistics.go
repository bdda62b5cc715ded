package closedloop

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gpc-engine/gpc/batchnav"
)

// Number is a float64 whose JSON is null where it is not finite.
type Number = batchnav.Number

// Interval is a 95 % confidence interval, [lower, upper].
type Interval [2]float64

// OpenInterval is a 95 % confidence interval of which an end, or both, may be open. An open end is null in JSON: there
// are too few values to bound it.
type OpenInterval [2]Number

// RegretStatistics describe the distribution of what is given in %. Without values every
// figure is null.
type RegretStatistics struct {
	N    int    `json:"n"`        // episodes
	Mean Number `json:"mean_pct"` // mean
	// MeanCI95 is the percentile bootstrap's, of resamples that depend on N alone.
	MeanCI95 OpenInterval `json:"mean_ci95_pct"` // its percentile bootstrap's interval
	// Median and P90 are nearest-rank, their intervals between order statistics
	// (distribution-free, at least 95 %).
	Median     Number       `json:"median_pct"`      // nearest-rank median
	MedianCI95 OpenInterval `json:"median_ci95_pct"` // between order statistics; an end may be null
	P90        Number       `json:"p90_pct"`         // nearest-rank 90 % quantile
	P90CI95    OpenInterval `json:"p90_ci95_pct"`    // likewise
	Max        Number       `json:"max_pct"`         // largest
	BeyondCI95 Interval     `json:"beyond_max_ci95"` // share of all episodes that may lie above it
}

// bootstrapResamples of a mean.
const bootstrapResamples = 1000

// DescribeRegret sorts v and describes it, whatever order it came in.
func DescribeRegret(v []float64) RegretStatistics {
	slices.Sort(v)
	nan := Number(math.NaN())
	open := OpenInterval{nan, nan}
	r := RegretStatistics{len(v), nan, open, nan, open, nan, open, nan, ClopperPearson(0, len(v))}
	if len(v) == 0 {
		return r
	}
	quantile := func(p float64) Number { return Number(stat.Quantile(p, stat.Empirical, v, nil)) }
	r.Mean, r.Max = Number(stat.Mean(v, nil)), Number(v[len(v)-1])
	r.Median, r.P90 = quantile(0.5), quantile(0.9)
	r.MedianCI95, r.P90CI95 = orderInterval(v, 0.5), orderInterval(v, 0.9)
	if len(v) == 1 {
		return r
	}
	rng := rand.New(rand.NewPCG(uint64(len(v)), bootstrapResamples))
	means := make([]float64, bootstrapResamples)
	for k := range means {
		for range v {
			means[k] += v[rng.IntN(len(v))]
		}
		means[k] /= float64(len(v))
	}
	slices.Sort(means)
	tail := (1 - confidence) / 2
	r.MeanCI95 = OpenInterval{Number(stat.Quantile(tail, stat.Empirical, means, nil)), Number(stat.Quantile(1-tail, stat.Empirical, means, nil))}
	return r
}

// orderInterval is the interval of the p-quantile between two of the sorted values. The number of values below it is a
// binomial variable of n and p.
func orderInterval(v []float64, p float64) OpenInterval {
	n, tail := len(v), (1-confidence)/2
	binomial := distuv.Binomial{N: float64(n), P: p}
	interval := OpenInterval{Number(math.NaN()), Number(math.NaN())}
	if k := sort.Search(n, func(k int) bool { return binomial.CDF(float64(k)) > tail }); k > 0 {
		interval[0] = Number(v[k-1])
	}
	if k := sort.Search(n, func(k int) bool { return binomial.CDF(float64(k)) >= 1-tail }); k < n {
		interval[1] = Number(v[k])
	}
	return interval
}

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

// Latency are times of decisions, µs. A decision that begins an episode has no plan to continue, so that a solver's
// takes many times as long: these stand apart.
type Latency struct {
	Quantiles            // of all
	Cold      *Quantiles `json:"cold,omitempty"`    // of those that begin an episode; absent where these were not told apart
	Running   *Quantiles `json:"running,omitempty"` // of those behind them; absent alike
}

// decisionTimes are times of decisions, those that begin an episode apart.
type decisionTimes struct{ cold, running []float64 }

// add takes the time of an episode's i-th decision.
func (d *decisionTimes) add(i int, elapsed Number) {
	if i == 0 {
		d.cold = append(d.cold, float64(elapsed))
	} else {
		d.running = append(d.running, float64(elapsed))
	}
}

// latency sums them up; NaN for none.
func (d *decisionTimes) latency() Latency {
	l := Latency{Quantiles: quantiles(slices.Concat(d.cold, d.running))}
	if len(d.cold) > 0 {
		l.Cold = new(quantiles(slices.Clone(d.cold)))
	}
	if len(d.running) > 0 {
		l.Running = new(quantiles(slices.Clone(d.running)))
	}
	return l
}

// noLatency is that of no decisions.
func noLatency() Latency { return new(decisionTimes).latency() }

// Quantiles are the latencies that DESIGN §7 names, µs.
type Quantiles struct {
	P50  Number `json:"p50"`           // median
	P95  Number `json:"p95"`           // 95 % quantile
	P99  Number `json:"p99"`           // 99 % quantile
	Mean Number `json:"mean,omitzero"` // mean of all values; absent of an older record
}

// quantiles sorts v and reads its nearest-rank quantiles; NaN for no values.
func quantiles(v []float64) Quantiles {
	if len(v) == 0 {
		nan := Number(math.NaN())
		return Quantiles{nan, nan, nan, nan}
	}
	slices.Sort(v)
	quantile := func(p float64) Number { return Number(stat.Quantile(p, stat.Empirical, v, nil)) }
	return Quantiles{quantile(0.5), quantile(0.95), quantile(0.99), Number(stat.Mean(v, nil))}
}

// meanAndError returns the mean and its standard error; NaN where undefined.
func meanAndError(v []float64) (mean, sem float64) {
	mean, deviation := stat.MeanStdDev(v, nil)
	return mean, stat.StdErr(deviation, float64(len(v)))
}

// RatioAndError is Σ a/Σ b and its standard error, by the residuals a − ratio·b.
func RatioAndError(a, b []float64) (ratio, sem float64) {
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
