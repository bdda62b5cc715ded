package dual

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// swing is a pendulum with a torque and a context.
func swing[T Scalar](s, c, u, ds []T) {
	ds[0], ds[1] = s[1], -c[0]*Sin(s[0])-0.1*s[1]+u[0]
}

// stiff has the rates 1 and 2000, and a nonlinear coupling (after Robertson's).
func stiff[T Scalar](s, c, u, ds []T) {
	ds[0] = -s[0] + 0.1*s[1]*s[1] + u[0]
	ds[1] = 2000*(c[0]*Cos(s[0])-s[1]) - s[1]*s[1]*s[1]
}

type method struct {
	name  string
	order float64
	real  func(ode func(s, c, u, ds []float64), of func(s, c, u, ds []complex128), s, c, u, next []float64, seconds float64, substeps int)
	dual  func(ode func(s, c, u, ds []complex128), s, c, u, next []complex128, seconds float64, substeps int)
}

var methods = []method{
	{"RK4", 4, func(ode func(s, c, u, ds []float64), _ func(s, c, u, ds []complex128), s, c, u, next []float64, seconds float64, substeps int) {
		RK4(ode, s, c, u, next, seconds, substeps)
	}, RK4[complex128]},
	{"Radau", 3, func(_ func(s, c, u, ds []float64), of func(s, c, u, ds []complex128), s, c, u, next []float64, seconds float64, substeps int) {
		Radau(&Stiff{ODE: of, Span: seconds, Substeps: substeps}, s, c, u, next)
	}, func(of func(s, c, u, ds []complex128), s, c, u, next []complex128, seconds float64, substeps int) {
		Radau(&Stiff{ODE: of, Span: seconds, Substeps: substeps}, s, c, u, next)
	}},
}

// TestOrder: halving the step divides the error by 2 to the power of the order.
func TestOrder(t *testing.T) {
	s, c, u := []float64{1, 0}, []float64{9.81}, []float64{0.5}
	for _, m := range methods {
		end := func(substeps int) []float64 {
			next := make([]float64, 2)
			m.real(swing[float64], swing[complex128], s, c, u, next, 1, substeps)
			return next
		}
		exact := end(4096)
		wrong := func(of []float64) float64 { return math.Hypot(of[0]-exact[0], of[1]-exact[1]) }
		if got := math.Log2(wrong(end(40)) / wrong(end(80))); !(math.Abs(got-m.order) < 0.2) {
			t.Errorf("%s is of order %.2f, want %v", m.name, got, m.order)
		}
	}
}

// TestIntegratedDerivatives: by every input against central differences, and the values
// of both instantiations are the same.
func TestIntegratedDerivatives(t *testing.T) {
	for _, problem := range []struct {
		name     string
		real     func(s, c, u, ds []float64)
		dual     func(s, c, u, ds []complex128)
		seconds  float64
		substeps [2]int
	}{{"swing", swing[float64], swing[complex128], 0.5, [2]int{4, 4}}, {"stiff", stiff[float64], stiff[complex128], 0.02, [2]int{40, 2}}} {
		at := []float64{0.8, 0.3, 1.7, 0.4} // s, c, u
		for k, m := range methods {
			value := func(x []float64) []float64 {
				next := make([]float64, 2)
				m.real(problem.real, problem.dual, x[:2], x[2:3], x[3:], next, problem.seconds, problem.substeps[k])
				return next
			}
			for i := range at {
				x, h := make([]complex128, 4), 1e-4
				for j, v := range at {
					x[j] = complex(v, 0)
				}
				x[i] = Seed(at[i], 1)
				next := make([]complex128, 2)
				m.dual(problem.dual, x[:2], x[2:3], x[3:], next, problem.seconds, problem.substeps[k])
				var p [4][]float64
				for j, f := range []float64{1, -1, 2, -2} {
					moved := append([]float64(nil), at...)
					moved[i] += f * h
					p[j] = value(moved)
				}
				for j, v := range value(at) {
					if want := (8*(p[0][j]-p[1][j]) - (p[2][j] - p[3][j])) / (12 * h); !near(Derivative(next[j]), want, 1e-9) {
						t.Errorf("%s by %s: ∂next[%d] by input %d is %v, differences %v", problem.name, m.name, j, i, Derivative(next[j]), want)
					}
					if !near(real(next[j]), v, 1e-15) {
						t.Errorf("%s by %s: next[%d] is %v, dual %v", problem.name, m.name, j, v, real(next[j]))
					}
				}
			}
		}
	}
}

// TestRadauIsStable where the step is a hundred times what the explicit method stands, and
// keeps to the manifold that the fast state is on.
func TestRadauIsStable(t *testing.T) {
	s, c, u := []float64{0.8, 0.3}, []float64{1.7}, []float64{0.4}
	next := make([]float64, 2)
	RK4(stiff[float64], s, c, u, next, 1, 8)
	if !math.IsNaN(next[1]) && math.Abs(next[1]) < 1e6 {
		t.Fatalf("RK4 gives %v: the equations are not stiff", next)
	}
	fine := make([]float64, 2)
	Radau(&Stiff{ODE: stiff[complex128], Span: 1, Substeps: 8}, s, c, u, next)
	Radau(&Stiff{ODE: stiff[complex128], Span: 1, Substeps: 4000}, s, c, u, fine)
	if !near(next[0], fine[0], 1e-4) || !near(next[1], fine[1], 1e-4) {
		t.Errorf("8 steps give %v, 4000 %v", next, fine)
	}
}

// TestRadauWithoutASolution: equations that have none give NaN, not a number.
func TestRadauWithoutASolution(t *testing.T) {
	next := []float64{0}
	p := Stiff{ODE: func(s, c, u, ds []complex128) { ds[0] = 1e3 * (1 + s[0]*s[0]) }, Span: 1, Substeps: 1}
	Radau(&p, []float64{1}, nil, nil, next)
	if !math.IsNaN(next[0]) {
		t.Errorf("got %v", next)
	}
}

// TestRadauRemembersNothingElse: whatever it was solved at before, and in whatever
// direction, a result is that of a Stiff that was never solved.
func TestRadauRemembersNothingElse(t *testing.T) {
	p := Stiff{ODE: stiff[complex128], Span: 0.02, Substeps: 3}
	rng := rand.New(rand.NewPCG(1, 2))
	x := []complex128{0.8, 0.3, 1.7, 0.4}
	var before [][]complex128
	for range 1000 { // several times as many points as are remembered
		if before = append(before, slices.Clone(x)); rng.IntN(4) == 0 {
			x = slices.Clone(before[rng.IntN(len(before))])
		} else {
			i := rng.IntN(len(x))
			x[i] = complex(real(x[i])+0.1*rng.NormFloat64(), 0)
		}
		for i := range x {
			x[i] = Seed(real(x[i]), rng.NormFloat64())
		}
		got, want := make([]complex128, 2), make([]complex128, 2)
		Radau(&p, x[:2], x[2:3], x[3:], got)
		Radau(&Stiff{ODE: p.ODE, Span: p.Span, Substeps: p.Substeps}, x[:2], x[2:3], x[3:], want)
		if !slices.Equal(got, want) {
			t.Fatalf("at %v: %v, without a past %v", x, got, want)
		}
		value := []float64{real(x[0]), real(x[1])}
		next := make([]float64, 2)
		Radau(&p, value, []float64{real(x[2])}, []float64{real(x[3])}, next)
		if next[0] != real(want[0]) || next[1] != real(want[1]) {
			t.Fatalf("at %v: %v, of dual numbers %v", x, next, want)
		}
	}
}

func TestIntegratorsDoNotAllocate(t *testing.T) {
	s, c, u, next := []float64{1, 0}, []float64{9.81}, []float64{0.5}, make([]float64, 2)
	ds, dc, du, dnext := []complex128{Seed(1, 1), 0}, []complex128{9.81}, []complex128{0.5}, make([]complex128, 2)
	p := Stiff{ODE: swing[complex128], Span: 1, Substeps: 4}
	for name, f := range map[string]func(){
		"RK4":         func() { RK4(swing[float64], s, c, u, next, 1, 4) },
		"RK4, dual":   func() { RK4(swing[complex128], ds, dc, du, dnext, 1, 4) },
		"Radau":       func() { Radau(&p, s, c, u, next) },
		"Radau, dual": func() { Radau(&p, ds, dc, du, dnext) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkIntegrators(b *testing.B) {
	s, c, u, next := []float64{1, 0}, []float64{9.81}, []float64{0.5}, make([]float64, 2)
	ds, dc, du, dnext := []complex128{Seed(1, 1), 0}, []complex128{9.81}, []complex128{0.5}, make([]complex128, 2)
	p := Stiff{ODE: swing[complex128], Span: 0.1, Substeps: 1}
	for name, f := range map[string]func(){
		"RK4/float64":   func() { RK4(swing[float64], s, c, u, next, 0.1, 1) },
		"RK4/dual":      func() { RK4(swing[complex128], ds, dc, du, dnext, 0.1, 1) },
		"Radau/float64": func() { s[0] = 1 - s[0]; Radau(&p, s, c, u, next) },
		"Radau/dual":    func() { Radau(&p, ds, dc, du, dnext) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}

// monod is a substrate that is eaten at a rate which saturates at once, and runs out: Newton's steps from either side of
// its corner lead to the other.
func monod[T Scalar](s, _, u, ds []T) {
	food := Max(s[1], Const[T](0))
	ds[0] = 0.11 * Div(food, food+1e-6) * s[0]
	ds[1] = 500*u[0] - 2*ds[0]
}

// TestRadauWhereASubstrateRunsOut: steps that end beyond the corner are solved, and their derivatives are those of differences.
func TestRadauWhereASubstrateRunsOut(t *testing.T) {
	for _, substeps := range []int{1, 2, 4, 16} {
		for _, food := range []float64{12, 3, 1e-3, 0} {
			for _, feed := range []float64{0, 1e-3} {
				p := &Stiff{ODE: monod[complex128], Span: 4, Substeps: substeps}
				next, more := make([]float64, 2), make([]float64, 2)
				Radau(p, []float64{20, food}, nil, []float64{feed}, next)
				if !(math.Abs(next[1]) < 30) || !(next[0] >= 20) {
					t.Errorf("%d substeps from %v with %v: %v", substeps, food, feed, next)
				}
				d := make([]complex128, 2)
				Radau(p, []complex128{Seed(20, 1), Seed(food, 0)}, nil, []complex128{Seed(feed, 0)}, d)
				Radau(p, []float64{20 + 1e-6, food}, nil, []float64{feed}, more)
				if slope := (more[0] - next[0]) / 1e-6; !near(Derivative(d[0]), slope, 1e-3) {
					t.Errorf("%d substeps from %v with %v: slope %v, by differences %v", substeps, food, feed, Derivative(d[0]), slope)
				}
			}
		}
	}
}
