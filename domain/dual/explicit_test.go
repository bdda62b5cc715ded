package dual

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// bounce is two masses of which the second is pushed by a wall that it is rarely at: there it
// has derivatives that other points do not show, by the first mass's place and the second's. Its
// last state is curved in nothing, and nothing depends on it.
func bounce[T Scalar](s, c, u, ds []T) {
	contact := Max(Const[T](0), s[1]+0.1*s[0]-4)
	ds[0], ds[1] = s[2]*s[2]+u[0], -contact*contact*contact+u[1]
	ds[2], ds[3] = c[0]-s[2]+Sin(s[0]), u[0]-u[1]
}

// TestTape: value, first and second derivatives of a step along random directions, against dual
// numbers and differences of them, with the structure of the ode, without, and where it does not hold.
func TestTape(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	some := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	const ns, nc, nu = 4, 1, 2
	inputs := ns + nc + nu
	p := &Explicit{Real: bounce[float64], Dual: bounce[complex128], Span: 0.4}
	sizes := slices.Repeat([]float64{1}, inputs)
	known := p.Structure([][]float64{some(inputs), some(inputs), some(inputs)}, sizes, ns, nc)
	if known.second.Has(1, 1) || known.second.Has(0, 2) || !known.second.Has(2, 2) || !known.second.Has(0, 0) || len(known.rows[3]) != 0 || len(known.groups) != 3 {
		t.Fatalf("the structure is %+v, %+v", known, known.second)
	}
	for _, vary := range [][]int{{0, 1, 2, 3, 4, 5, 6}, {0, 1, 2, 3, 5, 6}} {
		for _, structure := range []*Structure{nil, known} {
			for _, wall := range []float64{0, 6} {
				for _, substeps := range []int{1, 3} {
					p.Substeps = substeps
					const k = 3
					at, weights, along := some(inputs), some(ns), some(len(vary)*k)
					at[1] += wall
					step := func(derivative, h []float64) []complex128 {
						x, next := make([]complex128, inputs), make([]complex128, ns)
						for i, v := range at {
							x[i] = complex(v, 0)
						}
						for i, a := range vary {
							for q := range k {
								x[a] += complex(h[q]*along[i*k+q], derivative[q]*along[i*k+q]*Step)
							}
						}
						Integrate(p, x[:ns], x[ns:ns+nc], x[ns+nc:], next)
						return next
					}
					tape := p.Tape(ns, nc, nu, structure)
					x := make([]complex128, inputs)
					for i, v := range at {
						x[i] = complex(v, 0)
					}
					next, directions, adjoint, h := make([]float64, ns), make([]float64, ns*k), make([]float64, inputs), make([]float64, k*k)
					tape.Forward(x, vary, along, sizes[:len(vary)], k, next, directions)
					tape.Backward(weights, adjoint, h)
					unit := func(q int, size float64) []float64 {
						e := make([]float64, k)
						e[q] = size
						return e
					}
					for q := range k {
						first := step(unit(q, 1), unit(q, 0))
						sum, back := 0.0, 0.0
						for i, v := range first {
							if !near(next[i], real(v), 1e-14) || !near(directions[i*k+q], Derivative(v), 1e-12) {
								t.Errorf("next %d is %v along %v, of dual numbers %v", i, next[i], directions[i*k+q], v)
							}
							sum += weights[i] * Derivative(v)
						}
						for i, a := range vary {
							back += adjoint[a] * along[i*k+q]
						}
						if !near(back, sum, 1e-11) {
							t.Errorf("backwards the derivative along %d is %v, forwards %v", q, back, sum)
						}
						for r := range q + 1 {
							const d = 1e-5
							plus, minus := step(unit(q, 1), unit(r, d)), step(unit(q, 1), unit(r, -d))
							want, scale := 0.0, 0.0
							for i, w := range weights {
								v := w * (Derivative(plus[i]) - Derivative(minus[i])) / (2 * d)
								want, scale = want+v, scale+math.Abs(v)
							}
							if got := h[q*k+r]; !(math.Abs(got-want) <= 2e-5*(1+scale)) {
								t.Errorf("structure %t, wall %v, %d substeps: ∂² along %d and %d is %v, differences %v", structure != nil, wall, substeps, q, r, got, want)
							}
						}
					}
				}
			}
		}
	}
}

// TestStructureSavesEvaluations: a step of four stages takes its groups and one more each, and
// backwards the pairs.
func TestStructureSavesEvaluations(t *testing.T) {
	calls := 0
	p := &Explicit{Dual: func(s, c, u, ds []complex128) { calls++; bounce(s, c, u, ds) }, Span: 0.1, Substeps: 1}
	sizes := slices.Repeat([]float64{1}, 7)
	known := p.Structure([][]float64{{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}}, sizes, 4, 1)
	vary := []int{0, 1, 2, 3, 4, 5, 6}
	along, next := make([]float64, 7), make([]float64, 4)
	tape := p.Tape(4, 1, 2, known)
	x := []complex128{1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}
	calls = 0
	tape.Forward(x, vary, along, sizes, 1, next, next)
	if want := 4 * (3 + 1); calls != want {
		t.Errorf("%d evaluations forward, want %d", calls, want)
	}
	calls = 0
	tape.Backward([]float64{1, 1, 1, 1}, make([]float64, 7), make([]float64, 1))
	if want := 7 + 4*2; calls != want { // whether the structure holds, and two pairs a stage
		t.Errorf("%d evaluations backwards, want %d", calls, want)
	}
}
