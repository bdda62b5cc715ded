package dual

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCurvature of a function that two of five inputs enter linearly, and one not at all, along
// random directions, against its second derivatives by hand.
func TestCurvature(t *testing.T) {
	calls := 0
	f := Curvature{F: func(x []complex128) float64 {
		calls++
		return imag(Exp(x[0]*x[3]) + 3*x[1] + Sin(x[3]) - 2*x[4])
	}}
	rng := rand.New(rand.NewPCG(1, 2))
	const k = 3
	for range 50 {
		at := make([]complex128, 5)
		for i := range at {
			at[i] = complex(rng.NormFloat64(), 0)
		}
		before := slices.Clone(at)
		vary, sizes, slopes := []int{3, 2, 1, 0, 4}, []float64{1, 1, 1, 1, 1}, make([]float64, 5)
		directions, h := make([]float64, 5*k), make([]float64, k*k)
		for i := range directions {
			directions[i] = rng.NormFloat64()
		}
		for i := range h {
			h[i] = 1
		}
		f.Slopes(at, vary, slopes)
		calls = 0
		f.Add(at, vary, slopes, sizes, directions, k, h)
		if want := 5 + 3; calls != want { // each input once, and three pairs of the two that are curved
			t.Fatalf("%d calls, want %d", calls, want)
		}
		if !slices.Equal(at, before) {
			t.Fatalf("the inputs are %v, were %v", at, before)
		}
		x0, x3 := real(at[0]), real(at[3])
		e := math.Exp(x0 * x3)
		h00, h03, h33 := x3*x3*e, (1+x0*x3)*e, x0*x0*e-math.Sin(x3)
		for i := range k {
			for j := range k {
				want := 1.0
				if j <= i {
					a, b := directions[i:], directions[j:]
					want += h33*a[0]*b[0] + h03*(a[0]*b[3*k]+a[3*k]*b[0]) + h00*a[3*k]*b[3*k]
				}
				if got := h[i*k+j]; math.Abs(got-want) > 1e-5*(1+math.Abs(h00)+math.Abs(h03)+math.Abs(h33)) {
					t.Errorf("at %v: h[%d][%d] is %v, want %v", at, i, j, got, want)
				}
			}
		}
	}
}

// TestRadauCurvature: first and second derivatives of the implicit step against differences of
// values and of dual numbers.
func TestRadauCurvature(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, problem := range []struct {
		name     string
		ode      func(s, c, u, ds []complex128)
		span     float64
		substeps int
	}{{"swing", swing[complex128], 0.5, 1}, {"swing in substeps", swing[complex128], 0.9, 3}, {"stiff", stiff[complex128], 0.02, 1}, {"stiff in substeps", stiff[complex128], 0.02, 2}} {
		for _, by := range [][]int{{0, 1, 2, 3}, {3}, {2, 0}, {3, 1}} {
			at := []float64{0.8 + 0.1*rng.NormFloat64(), 0.3 + 0.1*rng.NormFloat64(), 1.7, 0.4}
			weights, size, k := []float64{rng.NormFloat64(), rng.NormFloat64()}, []float64{1, 2, 0.5, 3}, len(by)
			p := &Stiff{ODE: problem.ode, Span: problem.span, Substeps: problem.substeps}
			slope := func(x []float64, by int) (next []complex128) {
				z := make([]complex128, len(x))
				for i, v := range x {
					z[i] = complex(v, 0)
				}
				z[by] = Seed(x[by], 1)
				next = make([]complex128, 2)
				Radau(p, z[:2], z[2:3], z[3:], next)
				return next
			}
			next, jacobian, h := make([]float64, 2), make([]float64, 2*k), make([]float64, k*k)
			p.Jacobian(at[:2], at[2:3], at[3:], by, next, jacobian)
			p.AddCurvature(at[:2], at[2:3], at[3:], weights, by, size, h)
			for i, a := range by {
				first := slope(at, a)
				for j := range 2 {
					if !near(jacobian[j*k+i], Derivative(first[j]), 1e-15) || next[j] != real(first[j]) {
						t.Errorf("%s: next %d is %v with ∂ %v by input %d, of dual numbers %v", problem.name, j, next[j], jacobian[j*k+i], a, first[j])
					}
				}
				for j, b := range by[:i+1] {
					const d = 1e-5
					up, down := slices.Clone(at), slices.Clone(at)
					up[a] += d
					down[a] -= d
					plus, minus := slope(up, b), slope(down, b)
					want, scale := 0.0, 0.0
					for r, w := range weights {
						v := w * (Derivative(plus[r]) - Derivative(minus[r])) / (2 * d) * size[a] * size[b]
						want += v
						scale += math.Abs(v)
					}
					if got := h[i*k+j]; math.Abs(got-want) > 1e-5*(1+scale) {
						t.Errorf("%s: ∂²by %d and %d is %v, differences %v", problem.name, a, b, got, want)
					}
				}
			}
		}
	}
}

// TestWhatRadauEvaluates: a value takes as many evaluations of the equations as Newton's method
// with few factors needs, a remembered one none, and second derivatives of linear equations one
// for each input of each stage.
func TestWhatRadauEvaluates(t *testing.T) {
	calls := 0
	p := &Stiff{ODE: func(s, c, u, ds []complex128) {
		calls++
		ds[0], ds[1] = 100*(s[1]-s[0])+u[0], s[0]-c[0]*s[1]
	}, Span: 0.1, Substeps: 1}
	next, jacobian, h := make([]float64, 2), make([]float64, 4), make([]float64, 4)
	by, size := []int{0, 3}, []float64{1, 1, 1, 1}
	for _, x := range []struct {
		name string
		want int
		f    func(s []float64)
	}{
		{"a value", 2 + 2, func(s []float64) { Radau(p, s, []float64{2}, []float64{3}, next) }},
		{"the same again", 0, func(s []float64) { Radau(p, s, []float64{2}, []float64{3}, next) }},
		{"first derivatives", 4 + 2, func(s []float64) { p.Jacobian(s, []float64{2}, []float64{3}, by, next, jacobian) }},
		{"the same derivatives again", 0, func(s []float64) { p.Jacobian(s, []float64{2}, []float64{3}, by, next, jacobian) }},
		{"second derivatives", 2 * 3, func(s []float64) { p.AddCurvature(s, []float64{2}, []float64{3}, []float64{1, 1}, by, size, h) }},
	} {
		calls = 0
		if x.f([]float64{1, 2}); calls != x.want {
			t.Errorf("%s: %d evaluations, want %d", x.name, calls, x.want)
		}
	}
	for i, v := range h {
		if v != 0 {
			t.Errorf("linear equations have the second derivative %v at %d", v, i)
		}
	}
}
