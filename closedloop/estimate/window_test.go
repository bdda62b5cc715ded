package estimate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// over is a measurement that is estimated over so many decisions.
func over(m *domain.Measurement, decisions int) *domain.Measurement {
	own := *m
	own.Window = decisions
	return &own
}

// Of a linear plant the moving horizon is the Kalman filter, whatever its length: estimates of position, speed and wind are the same,
// with missing values, an outlier and a decision that was missed among what is measured.
func TestAWindowOfALinearPlantIsTheKalmanFilter(t *testing.T) {
	p := require.Get(equations.New(cart()))(t)
	for _, length := range []int{1, 3, 12, 60} {
		filter := require.Get(estimate.New(p, seen(), []float64{-0.5, 0}, []float64{0.15, 0.1}))(t)
		window := require.Get(estimate.New(p, over(seen(), length), []float64{-0.5, 0}, []float64{0.15, 0.1}))(t)
		rng := rand.New(rand.NewPCG(7, 2))
		s, c := []float64{-0.4, 0.05}, []float64{0.1, 0}
		next, after := make([]float64, 2), make([]float64, 2)
		a, ac, b, bc := make([]float64, 2), make([]float64, 2), make([]float64, 2), make([]float64, 2)
		for k := range 40 {
			y := []float64{s[0] + 0.01*rng.NormFloat64()}
			switch k {
			case 11, 12:
				y[0] = math.NaN()
			case 20:
				y[0] += 5
			}
			c[1] = float64(k) / 40
			if k != 15 { // which is missed
				require.OK(t, filter.Update(y, c, a, ac))
				require.OK(t, window.Update(y, c, b, bc))
				if math.Abs(a[0]-b[0]) > 1e-6 || math.Abs(a[1]-b[1]) > 1e-6 || math.Abs(ac[0]-bc[0]) > 1e-6 || filter.Faults()[0] != window.Faults()[0] {
					t.Fatalf("a window of %d, decision %d: %v and wind %v, %v; the filter's %v and %v, %v", length, k, b, bc[0], window.Faults(), a, ac[0], filter.Faults())
				}
			}
			u := []float64{math.Sin(0.4 * float64(k))}
			filter.Predict(u)
			window.Predict(u)
			p.Step(s, c, u, next, after)
			s[0], s[1] = next[0], next[1]+0.003*rng.NormFloat64()
		}
		if n := window.Unsolved(); n > 0 {
			t.Errorf("a window of %d: %d were not solved", length, n)
		}
	}
}

// reaction is 2A → B in a vessel of which the total pressure alone is measured: of E. L. Haseltine and J. B. Rawlings, "Critical
// evaluation of extended Kalman filtering and moving-horizon estimation" (Ind. Eng. Chem. Res. 44, 2005), their first example.
func reactionOf[T dual.Scalar](s, _, _, ds []T) {
	r := 0.16 * s[0] * s[0]
	ds[0], ds[1] = -2*r, r
}

func reaction(t *testing.T) domain.Problem {
	f := func(_, _, u, n, j []float64) { j[0], j[1] = n[0]*n[0], u[0]*u[0] }
	g := func(_, _, u, n, j []complex128) { j[0], j[1] = n[0]*n[0], u[0]*u[0] }
	return require.Get(equations.New(equations.System{
		Name: "reaction", State: []domain.Variable{{Name: "A", Unit: "atm"}, {Name: "B", Unit: "atm"}}, Action: []domain.Variable{{Name: "none", Lo: -1, Hi: 1}},
		Objectives: []domain.Variable{{Name: "left"}, {Name: "effort"}}, Scenario: []domain.Variable{{Name: "A", Lo: 2, Hi: 4}},
		Initial: func(p, s, _ []float64) { s[0], s[1] = p[0], 1 }, Steps: 100, StepSeconds: 0.1,
		Real: equations.Functions[float64]{Objectives: f}, Dual: equations.Functions[complex128]{Objectives: g},
		ODE: &dual.Explicit{Real: reactionOf[float64], Dual: reactionOf[complex128], Span: 0.1, Substeps: 2},
	}))(t)
}

// pressure has their deviations and their poor guess, and says that no pressure is below zero.
func pressure() *domain.Measurement {
	return &domain.Measurement{
		Outputs: []domain.Variable{{Name: "total", Unit: "atm"}}, Deviation: []float64{0.1}, Process: []float64{1e-3, 1e-3},
		Real: func(s, _, _, y []float64) { y[0] = s[0] + s[1] }, Dual: func(s, _, _, y []complex128) { y[0] = s[0] + s[1] },
		Mean: []float64{0.1, 4.5}, Initial: []float64{6, 6}, Lo: []float64{0, 0}, Hi: []float64{math.Inf(1), math.Inf(1)},
	}
}

// offAt is how far an estimate of the reaction is off at the end of 100 decisions, and the least pressure that it was ever of.
func offAt(t *testing.T, p domain.Problem, m *domain.Measurement, seed uint64) (off, least float64) {
	f := require.Get(estimate.New(p, m, nil, nil))(t)
	rng := rand.New(rand.NewPCG(seed, 5))
	s, c, e, ec := []float64{3, 1}, []float64{0}, make([]float64, 2), make([]float64, 1)
	next, after, u := make([]float64, 2), make([]float64, 1), []float64{0}
	for k := range 100 {
		c[0] = float64(k) / 100
		require.OK(t, f.Update([]float64{s[0] + s[1] + 0.1*rng.NormFloat64()}, c, e, ec))
		off, least = math.Hypot(e[0]-s[0], e[1]-s[1]), math.Min(least, math.Min(e[0], e[1]))
		f.Predict(u)
		p.Step(s, c, u, next, after)
		s[0], s[1] = next[0]+1e-3*rng.NormFloat64(), next[1]+1e-3*rng.NormFloat64()
	}
	if n := f.Unsolved(); n > 5 {
		t.Errorf("seed %d: %d of 100 windows were not solved", seed, n)
	}
	return off, least
}

// Where two mixtures have one total pressure, the filter goes to the wrong one from a poor guess and stays there; a window of the same
// measurements within the bounds finds the right one.
func TestAWindowFindsWhatTheFilterDoesNot(t *testing.T) {
	p := reaction(t)
	free := pressure()
	free.Lo, free.Hi = nil, nil
	const runs = 10
	lost, clipped, found, negative := 0, 0, 0, 0
	for seed := range uint64(runs) {
		off, least := offAt(t, p, free, seed)
		if off > 0.5 {
			lost++
		}
		if least < -0.1 {
			negative++
		}
		if off, _ = offAt(t, p, pressure(), seed); off > 0.5 {
			clipped++
		}
		off, least = offAt(t, p, over(pressure(), 20), seed)
		if off < 0.25 {
			found++
		}
		if least < 0 {
			t.Errorf("seed %d: the window's estimate was of a pressure of %v", seed, least)
		}
	}
	t.Logf("of %d runs the filter is lost in %d (%d through negative pressures), within bounds in %d; the window finds %d", runs, lost, negative, clipped, found)
	if lost < runs*8/10 || found < runs*9/10 {
		t.Errorf("of %d runs the filter is lost in %d and the window finds %d: want most of each", runs, lost, found)
	}
}

// A pendulum of which a sine is measured: over the same runs the window's errors are no larger than the filter's, and its parameters
// keep their bounds.
func TestAWindowIsNoWorseOnAPendulum(t *testing.T) {
	p := pendulum(t)
	filter, window := require.Get(estimate.New(p, angle(), nil, nil))(t), require.Get(estimate.New(p, over(angle(), 15), nil, nil))(t)
	squares := func(f *estimate.Filter, seed uint64) (sum float64) {
		run(t, f, p, seed, 80, nil, func(k int, truth, x []float64, _ *mat.Dense, _, _ float64) {
			if x[2] < 5 || x[2] > 15 {
				t.Errorf("gravity is estimated as %v, want 5 to 15", x[2])
			}
			if k >= 20 {
				sum += (x[0]-truth[0])*(x[0]-truth[0]) + (x[1]-truth[1])*(x[1]-truth[1])
			}
		})
		return sum
	}
	ofFilter, ofWindow := 0.0, 0.0
	for seed := range uint64(10) {
		ofFilter, ofWindow = ofFilter+squares(filter, 900+seed), ofWindow+squares(window, 900+seed)
	}
	t.Logf("squared errors: filter %.4g, window %.4g", ofFilter, ofWindow)
	if !(ofWindow < 1.05*ofFilter) {
		t.Errorf("the squared errors of the window are %.4g, of the filter %.4g", ofWindow, ofFilter)
	}
}
