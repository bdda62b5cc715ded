package closedloop

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// The standard error of a ratio is the spread of the ratios of many such samples.
func TestRatioAndError(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, repeats = 50, 4000
	var ratios []float64
	said := 0.0
	for range repeats {
		var a, b []float64
		for range n {
			y := 1 + 4*rng.Float64()
			a, b = append(a, 0.9*y+0.2*rng.NormFloat64()), append(b, y)
		}
		r, sem := RatioAndError(a, b)
		ratios = append(ratios, r)
		said += sem / repeats
	}
	mean, sem := meanAndError(ratios)
	spread := sem * math.Sqrt(repeats)
	if math.Abs(mean-0.9) > 1e-3 || math.Abs(said/spread-1) > 0.05 {
		t.Errorf("ratio %v, standard error %v; want 0.9 and %v", mean, said, spread)
	}
	if r, sem := RatioAndError([]float64{3}, []float64{2}); r != 1.5 || !math.IsNaN(sem) {
		t.Errorf("one pair gives %v ± %v, want 1.5 and none", r, sem)
	}
}

// The interval of a quantile holds it in 95 % of samples or a little more, whatever the
// distribution, and its ends are those of the binomial sums.
func TestOrderIntervalCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const repeats = 4000
	for _, c := range []struct {
		n int
		p float64
	}{{20, 0.5}, {101, 0.5}, {60, 0.9}, {200, 0.9}} {
		held := 0
		v := make([]float64, c.n)
		for range repeats {
			for i := range v {
				v[i] = math.Exp(2 * rng.NormFloat64())
			}
			slices.Sort(v)
			truth := math.Exp(2 * math.Sqrt2 * math.Erfinv(2*c.p-1))
			if i := orderInterval(v, c.p); float64(i[0]) <= truth && truth <= float64(i[1]) {
				held++
			}
		}
		if rate := float64(held) / repeats; rate < 0.945 || rate > 0.985 {
			t.Errorf("n %d, p %v: the interval holds the quantile in %v of samples", c.n, c.p, rate)
		}
	}
	// 10 values, the median: P(B ≤ 1) = 11/1024 ≤ 0.025 < P(B ≤ 2), so between the
	// second and the ninth. Of 20 values none bounds p90 from above: 0.9²⁰ > 0.025.
	v := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	if i := orderInterval(v, 0.5); i != (OpenInterval{2, 9}) {
		t.Errorf("the median of 1 … 10 is within %v, want [2, 9]", i)
	}
	if i := orderInterval(slices.Concat(v, v), 0.9); math.IsNaN(float64(i[0])) || !math.IsNaN(float64(i[1])) {
		t.Errorf("p90 of 20 values is within %v, want no upper end", i)
	}
}

func TestRegretStatistics(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	// The bootstrap's interval of a mean is near Student's where the distribution is
	// mild, and the same for another order of the values.
	v := make([]float64, 400)
	for i := range v {
		v[i] = rng.ExpFloat64()
	}
	mean, sem := meanAndError(v)
	back := slices.Clone(v)
	slices.Reverse(back)
	r := DescribeRegret(v)
	if r != DescribeRegret(back) {
		t.Error("the statistics depend on the order of the values")
	}
	if math.Abs(float64(r.Mean)-mean) > 1e-12 || math.Abs(float64(r.MeanCI95[0])-(mean-1.96*sem)) > 0.3*sem || math.Abs(float64(r.MeanCI95[1])-(mean+1.96*sem)) > 0.3*sem {
		t.Errorf("mean %v within %v, want about %v ± %v", r.Mean, r.MeanCI95, mean, 1.96*sem)
	}
	// v is sorted now: nearest ranks 200 and 360 of 400.
	if float64(r.Median) != v[199] || float64(r.P90) != v[359] || float64(r.Max) != v[399] || r.N != 400 {
		t.Errorf("median %v, p90 %v, max %v; want %v, %v, %v", r.Median, r.P90, r.Max, v[199], v[359], v[399])
	}
	// All of 400 lie at or below the largest: so do all but 0.92 % of a population.
	if want := 1 - math.Pow(0.025, 1./400); r.BeyondCI95[0] != 0 || math.Abs(r.BeyondCI95[1]-want) > 1e-12 {
		t.Errorf("above the largest may lie %v, want up to %v", r.BeyondCI95, want)
	}
	none := DescribeRegret(nil)
	for _, x := range []Number{none.Mean, none.Median, none.P90, none.Max, none.MeanCI95[0], none.P90CI95[1]} {
		if !math.IsNaN(float64(x)) {
			t.Errorf("no values give %+v", none)
		}
	}
}

// The first decision of an episode stands apart from the others, whatever their number, and both are among all.
func TestFirstDecisionsStandApart(t *testing.T) {
	spec := &domain.Spec{Name: "test", Steps: 4}
	a := newTally(spec, 0)
	for episode := range 10 {
		e := &EpisodeRecord{Episode: episode, Lines: make([]Line, 4)}
		for i := range e.Lines {
			e.Lines[i].T, e.Lines[i].Latency = i, 2
		}
		e.Lines[0].Latency = 1000
		a.add(e)
	}
	l := a.result(&Header{}).Latency
	if l.Cold == nil || l.Running == nil || *l.Cold != (Quantiles{1000, 1000, 1000, 1000}) || *l.Running != (Quantiles{2, 2, 2, 2}) || l.P50 != 2 || l.P99 != 1000 {
		t.Errorf("all %+v, first %+v, behind them %+v", l.Quantiles, l.Cold, l.Running)
	}
	if none := noLatency(); none.Cold != nil || none.Running != nil || !math.IsNaN(float64(none.P50)) {
		t.Errorf("no decisions have %+v", none)
	}
}
