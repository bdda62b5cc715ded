package ocp

import (
	"errors"
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// functions is a problem made of three functions; the gradient is differences.
type functions struct {
	spec       domain.Spec
	step       func(s, c, u, sn, cn []float64)
	objectives func(s, u, c, j []float64)
	margins    func(s, c, u, m []float64)
}

func variablesOf(n int) []domain.Variable { return make([]domain.Variable, n) }

func newFunctions(ns, nc, nm int, actions []domain.Variable, step func(s, c, u, sn, cn []float64), objectives func(s, u, c, j []float64), margins func(s, c, u, m []float64)) *functions {
	return &functions{
		spec: domain.Spec{
			Name: "functions", Measured: variablesOf(ns), Context: variablesOf(nc), Action: actions, Objectives: variablesOf(1), Margins: variablesOf(nm),
			Plan: 1, Steps: 10, Semantic: domain.Semantic{K: []float64{1}, Epsilon: []float64{1}, Rho: 1},
		},
		step: step, objectives: objectives, margins: margins,
	}
}

func (f *functions) Spec() *domain.Spec              { return &f.spec }
func (f *functions) Base(_, _, plan []float64)       { clear(plan) }
func (f *functions) Fallback(_, _, u []float64)      { clear(u) }
func (f *functions) Project(_, _, _ []float64) bool  { return true }
func (f *functions) Indicators(_, _, _, d []float64) { clear(d) }
func (f *functions) Step(s, c, u, sn, cn []float64)  { f.step(s, c, u, sn, cn) }
func (f *functions) Objectives(s, u, c, j []float64) { f.objectives(s, u, c, j) }
func (f *functions) Margins(s, c, u, m []float64) {
	if f.margins != nil {
		f.margins(s, c, u, m)
	}
}
func (f *functions) Gradient(s, u, c, sigma, gs, gu []float64) {
	side := func(v []float64, i int, h float64) float64 {
		var j [1]float64
		at := v[i]
		v[i] = at + h
		f.objectives(s, u, c, j[:])
		v[i] = at
		return j[0]
	}
	s, u = append([]float64{}, s...), append([]float64{}, u...)
	for i := range s {
		gs[i] = sigma[0] * (side(s, i, 1e-6) - side(s, i, -1e-6)) / 2e-6
	}
	for i := range u {
		gu[i] = sigma[0] * (side(u, i, 1e-6) - side(u, i, -1e-6)) / 2e-6
	}
}

func (f *functions) solver(t *testing.T, opt Options) *Solver {
	t.Helper()
	s, err := New(f, nil, func(p, s, c []float64) {}, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var only = domain.Preference{W: []float64{1}}

// integrate is a chain of two integrators with a force.
func integrate(s, c, u, sn, cn []float64) { sn[0], sn[1] = s[0]+0.1*s[1], s[1]+0.1*u[0] }

func regulate(s, u, c, j []float64) { j[0] = s[0]*s[0] + 0.1*s[1]*s[1] + 0.01*u[0]*u[0] }

func TestUnboundedActions(t *testing.T) {
	problem := newFunctions(2, 0, 0, variablesOf(1), integrate, regulate, nil)
	got := minimise(t, problem.solver(t, Options{Tolerance: 1e-8}), []float64{1, 0}, nil, 30, only, "")
	// The same by the finite-horizon Riccati equation of the plain regulator.
	p := [3]float64{} // of (x, x), (x, v), (v, v)
	var gains [][2]float64
	for range 30 {
		// V(x + 0.1v, v + 0.1u) + stage
		huu := 0.01 + 0.01*p[2]
		hux := 0.1 * p[1]
		huv := 0.01*p[1] + 0.1*p[2]
		hxx := 1 + p[0]
		hxv := 0.1*p[0] + p[1]
		hvv := 0.1 + 0.01*p[0] + 0.2*p[1] + p[2]
		gains = append(gains, [2]float64{hux / huu, huv / huu})
		p = [3]float64{hxx - hux*hux/huu, hxv - hux*huv/huu, hvv - huv*huv/huu}
	}
	x, v := 1.0, 0.0
	for i, u := range got.U {
		k := gains[29-i]
		want := -k[0]*x - k[1]*v
		if !(math.Abs(u[0]-want) < 1e-5) {
			t.Errorf("u%d is %v, the regulator's %v", i, u[0], want)
		}
		x, v = x+0.1*v, v+0.1*want
	}
}

func TestAnActionWithoutEffectStaysFinite(t *testing.T) {
	// The second action is unbounded and appears nowhere: the Hessian is singular.
	problem := newFunctions(2, 0, 0, variablesOf(2), integrate, regulate, nil)
	got := minimise(t, problem.solver(t, Options{}), []float64{1, 0}, nil, 10, only, "")
	for i, u := range got.U {
		if !(math.Abs(u[1]) < 1) {
			t.Errorf("step %d: an action without effect is %v", i, u[1])
		}
	}
}

func TestHorizonOfOneStep(t *testing.T) {
	box := []domain.Variable{{Lo: -1, Hi: 1}}
	problem := newFunctions(2, 0, 1, box, integrate,
		func(s, u, c, j []float64) { j[0] = (u[0] - 0.8) * (u[0] - 0.8) },
		func(s, c, u, m []float64) { m[0] = 0.5 - s[1] - 0.1*u[0] })
	for _, v := range []struct{ speed, want float64 }{{0, 0.8}, {0.45, 0.5}} {
		got := minimise(t, problem.solver(t, Options{Tolerance: 1e-8}), []float64{0, v.speed}, nil, 1, only, "")
		if !(math.Abs(got.U[0][0]-v.want) < 1e-5) || len(got.S) != 2 {
			t.Errorf("from speed %v the action is %v, want %v", v.speed, got.U[0][0], v.want)
		}
	}
}

func TestRankDeficientMargins(t *testing.T) {
	box := []domain.Variable{{Lo: -5, Hi: 5}}
	// One limit three times over, one of them the sum of two, and one that no
	// variable moves.
	problem := newFunctions(2, 0, 4, box, integrate, regulate, func(s, c, u, m []float64) {
		m[0] = 0.3 + s[1] + 0.1*u[0]
		m[1], m[2], m[3] = m[0], 2*m[0], 1
	})
	once := newFunctions(2, 0, 1, box, integrate, regulate, func(s, c, u, m []float64) { m[0] = 0.3 + s[1] + 0.1*u[0] })
	a := minimise(t, problem.solver(t, Options{Tolerance: 1e-7}), []float64{1, 0}, nil, 30, only, "")
	b := minimise(t, once.solver(t, Options{Tolerance: 1e-7}), []float64{1, 0}, nil, 30, only, "")
	tight := 0
	for i := range a.U {
		if b.Margins[i][0] < 1e-4 {
			tight++
		}
		if !(math.Abs(a.U[i][0]-b.U[i][0]) < 1e-3) {
			t.Errorf("u%d is %v, with the limit stated once %v", i, a.U[i][0], b.U[i][0])
		}
	}
	if tight < 3 {
		t.Errorf("the limit binds in %d steps: the test is too easy", tight)
	}
}

func TestDynamicsThatLeaveTheirDomain(t *testing.T) {
	// The root of a negative level is not a number, and the first steps go there.
	problem := newFunctions(1, 0, 0, []domain.Variable{{Lo: -1, Hi: 1}},
		func(s, c, u, sn, cn []float64) { sn[0] = s[0] + 0.8*u[0] - 0.1*math.Sqrt(s[0]) },
		func(s, u, c, j []float64) { j[0] = (s[0]-0.05)*(s[0]-0.05) + 1e-3*math.Sqrt(s[0])*u[0]*u[0] }, nil)
	solver := problem.solver(t, Options{})
	got := minimise(t, solver, []float64{1}, nil, 8, only, "")
	for i, s := range got.S[:8] {
		if !(s[0] >= 0) {
			t.Errorf("the level before step %d is %v", i, s[0])
		}
	}
	// No start has finite values: neither solve claims anything.
	if _, err := solver.Minimise([]float64{-1}, nil, 8, only, "", 1); !errors.Is(err, domain.ErrNotConverged) {
		t.Errorf("a state outside the domain gives %v", err)
	}
	controller, err := solver.Receding(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := controller.Solve([]float64{-1}, nil, 8, only); !errors.Is(err, domain.ErrNotConverged) {
		t.Errorf("a decision outside the domain gives %v", err)
	}
	if status, err := controller.Solve([]float64{1}, nil, 8, only); err != nil || !status.Converged {
		t.Errorf("the decision after it: %+v, %v", status, err)
	}
}

// At the start no action moves the reserve, so that nothing says it is a variable.
func TestAComponentThatMovesLate(t *testing.T) {
	positive := func(x float64) float64 { return math.Pow(math.Max(0, x), 2) }
	problem := newFunctions(1, 1, 0, []domain.Variable{{Lo: -1, Hi: 1}},
		func(s, c, u, sn, cn []float64) {
			sn[0] = s[0] + 0.5*u[0]
			cn[0] = c[0] + positive(u[0]-0.2)
		},
		func(s, u, c, j []float64) {
			j[0] = (s[0]-2)*(s[0]-2) + 0.1*u[0]*u[0] + 0.7*c[0]*c[0]
		}, nil)
	got := minimise(t, problem.solver(t, Options{Tolerance: 1e-7}), []float64{0}, []float64{0}, 8, only, "")
	// The optimum of the same costs by coordinate descent on the roll-out.
	cost := func(u []float64) float64 {
		s, c, sum := 0.0, 0.0, 0.0
		for _, v := range u {
			sum += (s-2)*(s-2) + 0.1*v*v + 0.7*c*c
			s, c = s+0.5*v, c+positive(v-0.2)
		}
		return sum
	}
	u := make([]float64, 8)
	for step := 0.5; step > 1e-7; step *= 0.9 {
		for i := range u {
			for _, d := range []float64{step, -step} {
				at, now := u[i], cost(u)
				u[i] = math.Max(-1, math.Min(1, at+d))
				if cost(u) >= now {
					u[i] = at
				}
			}
		}
	}
	if want := cost(u); !(math.Abs(got.Cost-want) < 1e-4*want) {
		t.Errorf("cost %v, descent finds %v", got.Cost, want)
	}
}

func TestALongHorizonConverges(t *testing.T) {
	problem := newFunctions(2, 0, 1, []domain.Variable{{Lo: -5, Hi: 5}}, integrate, regulate, func(s, c, u, m []float64) { m[0] = 0.3 + s[1] + 0.1*u[0] })
	solver := problem.solver(t, Options{Tolerance: 1e-7})
	short := minimise(t, solver, []float64{3, 0}, nil, 200, only, "")
	long := minimise(t, solver, []float64{3, 0}, nil, 3000, only, "")
	// At rest at the end nothing is left to pay.
	if !(math.Abs(long.Cost-short.Cost) < 1e-5*short.Cost) || long.Iterations > 2*short.Iterations {
		t.Errorf("3000 steps cost %v in %d iterations, 200 steps %v in %d", long.Cost, long.Iterations, short.Cost, short.Iterations)
	}
}
