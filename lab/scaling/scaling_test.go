package scaling

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Costs that are a power have its exponent, and an interval of no width.
func TestExponentOfAPower(t *testing.T) {
	x := []int{1, 2, 4, 8, 32, 100}
	for _, want := range []float64{-1, 0, 0.5, 1, 2.25} {
		var y []float64
		for _, v := range x {
			y = append(y, 7*math.Pow(float64(v), want))
		}
		p := require.Get(FitPower(x, y))(t)
		if math.Abs(p.Exponent-want) > 1e-12 || math.Abs(p.Lo-want) > 1e-6 || math.Abs(p.Hi-want) > 1e-6 || math.Abs(p.Constant-7) > 1e-9 || p.From != 1 || p.To != 100 || p.N != 6 {
			t.Errorf("exponent %v: %+v", want, p)
		}
	}
}

// Four points with a known answer: log y is 0, 1, 1, 2 at log x of 0, 1, 2, 3, so that the slope
// is 0.6, the residuals are −0.1, 0.3, −0.3 and 0.1, their squares 0.2 together, the standard error is
// √(0.2/2/5), and Student's quantile of two degrees of freedom 4.302653.
func TestIntervalOfAnExponent(t *testing.T) {
	e := math.E
	x := []int{1_000_000, 2_718_282, 7_389_056, 20_085_537} // 10⁶ eᵏ, rounded
	p := require.Get(FitPower(x, []float64{1, e, e, e * e}))(t)
	half := 4.302653 * math.Sqrt(0.2/2/5)
	if math.Abs(p.Exponent-0.6) > 1e-6 || math.Abs(p.Lo-(0.6-half)) > 1e-5 || math.Abs(p.Hi-(0.6+half)) > 1e-5 {
		t.Errorf("%+v, want 0.6 ± %v", p, half)
	}
}

// Of noisy costs the interval holds the exponent in 95 of 100 draws.
func TestIntervalsHoldTheExponent(t *testing.T) {
	rng := rand.New(rand.NewPCG(991, 0))
	x, held := []int{1, 2, 4, 8, 16, 32, 64}, 0
	const draws = 2000
	for range draws {
		var y []float64
		for _, v := range x {
			y = append(y, math.Pow(float64(v), 1.5)*math.Exp(0.1*rng.NormFloat64()))
		}
		if p := require.Get(FitPower(x, y))(t); p.Lo <= 1.5 && 1.5 <= p.Hi {
			held++
		}
	}
	if share := float64(held) / draws; math.Abs(share-0.95) > 0.02 {
		t.Errorf("%.3f of the intervals hold the exponent", share)
	}
}

func TestPowersThatCannotBeFitted(t *testing.T) {
	for name, v := range map[string]struct {
		x []int
		y []float64
	}{
		"one point": {[]int{1}, []float64{1}}, "more sizes than costs": {[]int{1, 2}, []float64{1}}, "a cost of nothing": {[]int{1, 2}, []float64{1, 0}},
		"no number": {[]int{1, 2}, []float64{1, math.NaN()}}, "size 0": {[]int{0, 2}, []float64{1, 1}}, "twice the same size": {[]int{2, 2}, []float64{1, 1}},
	} {
		if p, err := FitPower(v.x, v.y); err == nil {
			t.Errorf("%s is fitted: %+v", name, p)
		}
	}
	if p, err := FitPower([]int{1, 2}, []float64{1, 2}); err != nil || !math.IsNaN(p.Lo) || math.Abs(p.Exponent-1) > 1e-12 {
		t.Errorf("two points: %+v, %v", p, err)
	}
}

func open(t *testing.T) *gpc.Engine {
	t.Helper()
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	t.Cleanup(func() { e.Close() })
	return e
}

func unseen(string, int, int) {}

// Axes are measured in their order, each value once; the fit of the end is over half of them.
func TestScalingMeasuresEveryAxis(t *testing.T) {
	var values []int
	axis := Axis{Name: "size", What: "nothing", Values: []int{1, 2, 4, 8, 16, 32, 64, 128}, Measure: func(_ context.Context, _ *bench.Runner, v int) ([]float64, float64, error) {
		values = append(values, v)
		us := []float64{float64(v), float64(v), float64(v)}
		if v > 8 {
			us = []float64{float64(v * v), float64(v*v) + 1, float64(v*v) - 1}
		}
		return us, 1e9 * float64(v), nil
	}}
	s := require.Get(Measure(t.Context(), open(t), []Axis{axis}, bench.Options{}, unseen))(t)
	c := &s.Curves[0]
	if len(values) != 8 || len(c.Points) != 8 || c.Upper() != 4 || !(s.Peak > 0) {
		t.Errorf("%v, %+v", values, s)
	}
	if p := require.Get(c.Cost(c.Upper()))(t); math.Abs(p.Exponent-2) > 1e-9 || p.From != 16 {
		t.Errorf("the end: %+v", p)
	}
	if p := require.Get(c.Work(0))(t); math.Abs(p.Exponent-1) > 1e-9 {
		t.Errorf("the work: %+v", p)
	}
	if p := c.Points[7]; p.Median != 128*128 || p.Interval != [2]float64{128*128 - 1, 128*128 + 1} || p.Calls != 3 || p.GFlop != 128 {
		t.Errorf("a point: %+v", p)
	}
	require.OK(t, s.Validate())
	axis.Measure = func(context.Context, *bench.Runner, int) ([]float64, float64, error) {
		return nil, 0, errors.New("no room")
	}
	if _, err := Measure(t.Context(), open(t), []Axis{axis}, bench.Options{}, unseen); err == nil || !strings.Contains(err.Error(), "size 1: no room") {
		t.Errorf("an axis that fails: %v", err)
	}
}

// Every axis of the engine measures its smallest size.
func TestAxesOfTheEngine(t *testing.T) {
	axes := Axes()
	for i := range axes {
		if len(axes[i].Values) < 4 {
			t.Errorf("axis %s has %d sizes", axes[i].Name, len(axes[i].Values))
		}
		axes[i].Values = axes[i].Values[:1]
	}
	s := require.Get(Measure(t.Context(), open(t), axes, bench.Options{Budget: bench.Budget{Time: 1, MinCalls: 2}}, unseen))(t)
	for _, c := range s.Curves {
		if p := c.Points[0]; !(p.Median > 0) || (p.GFlop > 0) != (c.Axis != "codes") || c.What == "" {
			t.Errorf("%s: %+v", c.Axis, p)
		}
	}
}

func TestMalformedScaling(t *testing.T) {
	point := `{"x":1,"median_us":2,"median_ci95_us":[1,3],"calls":4,"gflop":0}`
	for text, says := range map[string]string{
		`{}`:                            "curves is missing",
		`{"curves":[{}]}`:               "curves[0].axis",
		`{"curves":[{"axis":"batch"}]}`: "curves[0].points has 0",
		`{"curves":[{"axis":"batch","points":[` + point + `,` + point + `]}]}`:                                                         "curves[0].points[1].x: 1",
		`{"curves":[{"axis":"batch","points":[` + strings.Replace(point, `"median_us":2`, `"median_us":0`, 1) + `,` + point + `]}]}`:   "curves[0].points[0].median_us: 0",
		`{"curves":[{"axis":"batch","points":[` + strings.Replace(point, `[1,3]`, `[3,1]`, 1) + `,` + point + `]}]}`:                   "curves[0].points[0].median_ci95_us",
		`{"curves":[{"axis":"batch","points":[` + strings.Replace(point, `"gflop":0`, `"gflop":-1`, 1) + `,` + point + `]}]}`:          "curves[0].points[0].gflop: -1",
		`{"curves":[{"axis":"batch","points":[` + point + `,` + strings.Replace(point, `"x":1`, `"x":2`, 1) + `]},{"axis":"","x":0}]}`: "curves[1].axis",
	} {
		var s Scaling
		require.OK(t, json.Unmarshal([]byte(text), &s))
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want %q", text, err, says)
		}
	}
}
