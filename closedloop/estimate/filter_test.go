package estimate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// pendulum is an angle and a rate under a torque, with a gravity and a torque of the wind in its context.
func pendulumOf[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{
		Step: func(s, c, u, n, _ []T) {
			n[1] = s[1] + 0.05*(u[0]+c[1]-c[0]*dual.Sin(s[0]))
			n[0] = s[0] + 0.05*n[1]
		},
		Objectives: func(_, _, u, n, j []T) { j[0], j[1] = n[0]*n[0], u[0]*u[0] },
	}
}

func pendulum(t *testing.T) domain.Problem {
	return require.Get(equations.New(equations.System{
		Name: "pendulum", State: []domain.Variable{{Name: "angle"}, {Name: "rate"}}, Context: []domain.Variable{{Name: "gravity"}, {Name: "wind"}},
		Action: []domain.Variable{{Name: "torque", Lo: -5, Hi: 5}}, Objectives: []domain.Variable{{Name: "angle"}, {Name: "effort"}},
		Scenario: []domain.Variable{{Name: "angle", Lo: -1, Hi: 1}}, Initial: func(p, s, c []float64) { s[0], s[1], c[0], c[1] = p[0], 0, 9.81, 0 },
		Steps: 200, StepSeconds: 0.05, Real: pendulumOf[float64](), Dual: pendulumOf[complex128](),
	}))(t)
}

// angle measures the angle alone, by its sine, and does not know gravity and wind.
func angle() *domain.Measurement {
	return &domain.Measurement{
		Outputs: []domain.Variable{{Name: "sine"}}, Deviation: []float64{0.01},
		Real: func(s, _, _, y []float64) { y[0] = math.Sin(s[0]) }, Dual: func(s, _, _, y []complex128) { y[0] = dual.Sin(s[0]) },
		Process: []float64{0, 0.002},
		Unknown: []domain.Unknown{{Context: 0, Mean: 9, Deviation: 1, Lo: 5, Hi: 15}, {Context: 1, Deviation: 0.5, Drift: 0.01}},
		Mean:    []float64{0, 0}, Initial: []float64{0.6, 0.1},
	}
}

// run drives the pendulum by a torque that swings, and gives each estimate with its covariance beside the
// truth, (angle, rate, gravity, wind).
func run(t *testing.T, f *estimate.Filter, p domain.Problem, seed uint64, steps int, spoil func(k int, y []float64), visit func(k int, truth, x []float64, cov *mat.Dense, u float64, y float64)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	s, c := []float64{0.6 * rng.NormFloat64(), 0.1 * rng.NormFloat64()}, []float64{9 + rng.NormFloat64(), 0.5 * rng.NormFloat64(), 0}
	next, after, y, e, ec := make([]float64, 2), make([]float64, 3), make([]float64, 1), make([]float64, 2), make([]float64, 3)
	f.Reset()
	for k := range steps {
		y[0] = math.Sin(s[0]) + 0.01*rng.NormFloat64()
		if spoil != nil {
			spoil(k, y)
		}
		require.OK(t, f.Update(y, []float64{math.NaN(), math.NaN(), float64(k) / 200}, e, ec))
		root := mat.NewDense(4, 4, append([]float64(nil), f.Root()...))
		var cov mat.Dense
		cov.Mul(root, root.T())
		u := []float64{2 * math.Sin(0.3*float64(k))}
		visit(k, []float64{s[0], s[1], c[0], c[1]}, []float64{e[0], e[1], ec[0], ec[1]}, &cov, u[0], y[0])
		f.Predict(u)
		p.Step(s, c, u, next, after)
		s[0], s[1] = next[0], next[1]+0.002*rng.NormFloat64()
		c[1] += 0.01 * rng.NormFloat64()
	}
}

// textbook is the extended Kalman filter of the same pendulum in full covariances, with derivatives by hand.
type textbook struct {
	x   *mat.VecDense
	cov *mat.Dense
}

func newTextbook() *textbook {
	return &textbook{mat.NewVecDense(4, []float64{0, 0, 9, 0}), mat.NewDense(4, 4, []float64{0.36, 0, 0, 0, 0, 0.01, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0.25})}
}

func (b *textbook) update(y float64) {
	h := mat.NewVecDense(4, []float64{math.Cos(b.x.AtVec(0)), 0, 0, 0})
	var ph mat.VecDense
	ph.MulVec(b.cov, h)
	v := mat.Dot(h, &ph) + 1e-4
	b.x.AddScaledVec(b.x, (y-math.Sin(b.x.AtVec(0)))/v, &ph)
	var outer mat.Dense
	outer.Outer(1/v, &ph, &ph)
	b.cov.Sub(b.cov, &outer)
}

func (b *textbook) predict(u float64) {
	q, w, g, d := b.x.AtVec(0), b.x.AtVec(1), b.x.AtVec(2), b.x.AtVec(3)
	rate := []float64{-0.05 * g * math.Cos(q), 1, -0.05 * math.Sin(q), 0.05}
	jac := mat.NewDense(4, 4, []float64{1 + 0.05*rate[0], 0.05, 0.05 * rate[2], 0.05 * rate[3], rate[0], rate[1], rate[2], rate[3], 0, 0, 1, 0, 0, 0, 0, 1})
	w += 0.05 * (u + d - g*math.Sin(q))
	b.x = mat.NewVecDense(4, []float64{q + 0.05*w, w, g, d})
	var fp mat.Dense
	fp.Mul(jac, b.cov)
	b.cov.Mul(&fp, jac.T())
	b.cov.Set(1, 1, b.cov.At(1, 1)+0.002*0.002)
	b.cov.Set(3, 3, b.cov.At(3, 3)+0.01*0.01)
}

// The square-root form with dual derivatives is the filter of the textbook: estimates and covariances of
// state, parameter and disturbance are the same.
func TestFilterIsTheTextbooks(t *testing.T) {
	p := pendulum(t)
	f := require.Get(estimate.New(p, angle(), nil, nil))(t)
	want := newTextbook()
	run(t, f, p, 3, 100, nil, func(k int, _, x []float64, cov *mat.Dense, u, y float64) {
		want.update(y)
		for i := range x {
			if math.Abs(x[i]-want.x.AtVec(i)) > 1e-8*(1+math.Abs(x[i])) {
				t.Fatalf("decision %d: entry %d is %v, the textbook's %v", k, i, x[i], want.x.AtVec(i))
			}
			for j := range x {
				if scale := math.Sqrt(want.cov.At(i, i) * want.cov.At(j, j)); math.Abs(cov.At(i, j)-want.cov.At(i, j)) > 1e-6*scale {
					t.Fatalf("decision %d: covariance %d, %d is %v, the textbook's %v", k, i, j, cov.At(i, j), want.cov.At(i, j))
				}
			}
		}
		want.predict(u)
	})
}

// Over many runs the errors are as large as the covariance says: their mean normalised square is that of
// four entries, and the parameter and the wind are found from a sine alone.
func TestErrorsAreAsLargeAsTheySay(t *testing.T) {
	p := pendulum(t)
	f := require.Get(estimate.New(p, angle(), nil, nil))(t)
	const runs = 200
	nees, gravity := 0.0, 0.0
	for seed := range uint64(runs) {
		run(t, f, p, 100+seed, 120, nil, func(k int, truth, x []float64, cov *mat.Dense, _, _ float64) {
			if k != 119 {
				return
			}
			e := mat.NewVecDense(4, nil)
			for i := range x {
				e.SetVec(i, x[i]-truth[i])
			}
			var solved mat.VecDense
			require.OK(t, solved.SolveVec(cov, e))
			nees += mat.Dot(e, &solved) / runs
			gravity += math.Abs(x[2]-truth[2]) / runs
		})
	}
	// χ² of 4 degrees over 200 runs: a standard deviation of 0.2.
	if !(nees > 3.2 && nees < 5.2) {
		t.Errorf("the mean normalised squared error is %.2f, want about 4", nees)
	}
	if gravity > 0.4 {
		t.Errorf("gravity is off by %.2f in the mean; at first it was by 0.8", gravity)
	}
}

// An outlier, a missing value and a frozen sensor are said and not believed.
func TestFaultsAreLeftOut(t *testing.T) {
	p := pendulum(t)
	f := require.Get(estimate.New(p, angle(), nil, nil))(t)
	frozen := 0.0
	for _, fault := range []struct {
		want  estimate.Fault
		from  int
		spoil func(k int, y []float64)
	}{
		{estimate.Outlier, 60, func(k int, y []float64) {
			if k == 60 || k == 62 {
				y[0] += 3
			}
		}},
		{estimate.Missing, 60, func(k int, y []float64) {
			if k >= 60 && k < 66 {
				y[0] = math.NaN()
			}
		}},
		{estimate.Frozen, 66, func(k int, y []float64) {
			if k == 60 {
				frozen = y[0]
			}
			if k >= 60 && k < 72 {
				y[0] = frozen
			}
		}},
	} {
		said, worst := 0, 0.0
		run(t, f, p, 7, 100, fault.spoil, func(k int, truth, x []float64, _ *mat.Dense, _, _ float64) {
			got := f.Faults()[0]
			if got == fault.want {
				said++
			} else if got != estimate.Fine && fault.want != estimate.Frozen {
				t.Errorf("%v: decision %d says %v", fault.want, k, got)
			}
			if k >= 60 {
				worst = math.Max(worst, math.Abs(x[0]-truth[0]))
			}
		})
		if said == 0 {
			t.Errorf("no decision says %v", fault.want)
		}
		if worst > 0.15 {
			t.Errorf("%v: the angle is off by %.2f rad", fault.want, worst)
		}
	}
}

func TestADecisionAllocatesNothing(t *testing.T) {
	p := pendulum(t)
	f := require.Get(estimate.New(p, angle(), nil, nil))(t)
	y, c, s, known, u := []float64{0.1}, make([]float64, 3), make([]float64, 2), make([]float64, 3), []float64{0.2}
	if n := testing.AllocsPerRun(20, func() {
		y[0] += 0.001
		_ = f.Update(y, c, s, known)
		f.Predict(u)
	}); n > 0 {
		t.Errorf("%v allocations a decision", n)
	}
}

// A description that does not fit is refused by its field.
func TestWrongMeasurementsAreRefused(t *testing.T) {
	p := pendulum(t)
	for name, spoil := range map[string]func(m *domain.Measurement){
		"no deviation":      func(m *domain.Measurement) { m.Deviation = nil },
		"zero deviation":    func(m *domain.Measurement) { m.Deviation[0] = 0 },
		"half a function":   func(m *domain.Measurement) { m.Dual = nil },
		"process of one":    func(m *domain.Measurement) { m.Process = m.Process[:1] },
		"the clock":         func(m *domain.Measurement) { m.Unknown[0].Context = 2 },
		"mean without size": func(m *domain.Measurement) { m.Initial = nil },
		"bounds":            func(m *domain.Measurement) { m.Unknown[0].Lo = 20 },
	} {
		m := angle()
		spoil(m)
		if _, err := estimate.New(p, m, nil, nil); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// A state that is measured by itself is estimated as by the function that says so, to the last bit.
func TestStatesAreMeasuredAsByAFunction(t *testing.T) {
	p := pendulum(t)
	by := angle()
	by.Real, by.Dual = func(s, _, _, y []float64) { y[0] = s[1] }, func(s, _, _, y []complex128) { y[0] = s[1] }
	own := *by
	own.Real, own.Dual, own.States = nil, nil, []int{1}
	var estimates [2][]float64
	for i, m := range []*domain.Measurement{by, &own} {
		f := require.Get(estimate.New(p, m, []float64{0, 0}, []float64{1, 1}))(t)
		y, s, known := []float64{0}, make([]float64, 2), make([]float64, 3)
		f.Reset()
		for k := range 20 {
			y[0] = math.Sin(float64(k))
			require.OK(t, f.Update(y, []float64{9.81, 0, 0}, s, known))
			estimates[i] = append(estimates[i], s...)
			f.Predict([]float64{1})
		}
	}
	if !slices.Equal(estimates[0], estimates[1]) {
		t.Errorf("estimates\n%v\nby the function, and\n%v", estimates[0], estimates[1])
	}
	for _, states := range [][]int{{}, {2}, {0, 1}} {
		m := own
		m.States = states
		if err := m.Validate(p.Spec()); err == nil {
			t.Errorf("States %v of one output are taken", states)
		}
	}
}

// Neither an entry of the context that nobody measured nor a prediction that leaves the numbers ends an estimate for good.
func TestAnEstimateComesBack(t *testing.T) {
	p, m := pendulum(t), angle()
	m.Unknown = m.Unknown[:1]
	for _, what := range []string{"context", "action"} {
		f := require.Get(estimate.New(p, m, nil, nil))(t)
		s, c, y, e, ec := []float64{0.4, 0}, []float64{9.5, 0, 0}, make([]float64, 1), make([]float64, 2), make([]float64, 3)
		next, after := make([]float64, 2), make([]float64, 3)
		for k := range 200 {
			y[0] = math.Sin(s[0])
			shown, u := []float64{math.NaN(), 0, float64(k) / 200}, []float64{2 * math.Sin(0.3*float64(k))}
			if k == 40 && what == "context" {
				shown[1] = math.NaN()
			}
			require.OK(t, f.Update(y, shown, e, ec))
			if math.IsNaN(ec[1]) != math.IsNaN(shown[1]) {
				t.Errorf("decision %d: the wind is %v, estimated %v", k, shown[1], ec[1])
			}
			p.Step(s, c, u, next, after)
			copy(s, next)
			if k == 40 && what == "action" {
				u[0] = math.NaN()
			}
			f.Predict(u)
		}
		if !(math.Abs(e[0]-s[0]) < 0.2 && math.Abs(ec[0]-9.5) < 0.5) {
			t.Errorf("%s: the estimate is %v and %v, the state %v", what, e, ec, s)
		}
	}
}
