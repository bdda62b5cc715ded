package integrator

import (
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// randomProblem is a test scene's horizon problem with some steps already
// taken.
func randomProblem(y *System, rng *rand.Rand, pref domain.Preference, steps int) horizonProblem {
	var v [scenarioSize]float64
	for i, axis := range testRange() {
		v[i] = axis.Lo + (axis.Hi-axis.Lo)*rng.Float64()
	}
	scene := y.scene(v[:])
	var h horizonProblem
	y.sceneProblem(&h, &scene, pref)
	if steps < Horizon {
		h.steps = steps
		h.s = [4]float64{-1.5 + rng.Float64(), 0.5 * rng.NormFloat64(), 1 + rng.Float64(), 0.5 * rng.Float64()}
		h.previous = [2]float64{rng.Float64(), rng.Float64() - 0.5}
	}
	return h
}

// lagrangian is cost + epigraph − zᵀg.
func lagrangian(y *System, h *horizonProblem, x, z []float64) float64 {
	var e evaluation
	y.value(h, x, &e)
	v := e.cost
	if h.epigraph != 0 {
		v += h.epigraph * x[2*h.steps]
	}
	for i, m := range z {
		v -= m * e.g[i]
	}
	return v
}

// The reduced matrix with vanishing barrier weights is the Hessian of the
// Lagrangian, and the gradient and Jacobian are those of cost and constraints.
func TestHorizonDerivativesAgainstDifferences(t *testing.T) {
	limited := horizonProblem{epigraph: 1, limited: 2, limits: [2]horizonLimit{
		{weights: [2]float64{0.3, 0}, bound: 20, slope: 1},
		{weights: [2]float64{0, 0.7}, bound: 30, slope: 1},
	}}
	for _, y := range systems(t) {
		rng := rand.New(rand.NewPCG(21, 22))
		for trial := range 24 {
			pref := domain.Preference{Adaptive: trial%2 == 0, W: []float64{0.4, 0.6}}
			h := randomProblem(y, rng, pref, []int{Horizon, 7, 1}[trial%3])
			if trial%4 == 3 {
				h.epigraph, h.limited, h.limits = limited.epigraph, limited.limited, limited.limits
				h.weights = [2]float64{0.01, 0.02}
			}
			n, m := h.variables(), h.constraints()
			w := newInterior(y)
			for j := range n {
				w.x[j] = rng.NormFloat64()
			}
			for i := range m {
				w.z[i] = rng.Float64()
				w.s[i] = 1e12 // barrier weight z/s ≈ 0
			}
			x, z := w.x[:n], w.z[:m]
			y.value(&h, x, &w.current)
			y.derivatives(&h, x, z, &w.current)
			w.gradients(&h, n)
			slope := func(x []float64) []float64 {
				g := make([]float64, n)
				v := newInterior(y)
				copy(v.x[:], x)
				y.value(&h, x, &v.current)
				y.derivatives(&h, x, z, &v.current)
				v.gradients(&h, n)
				copy(g, v.gradient[:n])
				minus := make([]float64, m)
				for i := range minus {
					minus[i] = -z[i]
				}
				v.transposed(&h, x, minus, g)
				return g
			}
			g := slope(x)
			for j := range n {
				want := difference(&x[j], 1e-5, func() float64 { return lagrangian(y, &h, x, z) })
				checkClose(t, "∂L", g[j], want, 10*tolGradient)
			}
			direction := make([]float64, n)
			for j := range direction {
				direction[j] = rng.NormFloat64()
			}
			along := make([]float64, m)
			w.jacobianProduct(&h, x, direction, along)
			for i := range m {
				eps := 0.0
				at := append([]float64(nil), x...)
				want := difference(&eps, 1e-5, func() float64 {
					for j := range at {
						at[j] = x[j] + eps*direction[j]
					}
					var e evaluation
					y.value(&h, at, &e)
					return e.g[i]
				})
				checkClose(t, "G·d", along[i], want, 10*tolGradient)
			}
			w.direction(&h, n, m, 0)
			for j := range n {
				at := x[j]
				x[j] = at + 1e-5
				up := slope(x)
				x[j] = at - 1e-5
				down := slope(x)
				x[j] = at
				for i := j; i < n; i++ {
					checkClose(t, "∂²L", w.matrix[i*maxVariables+j], (up[i]-down[i])/2e-5, 10*tolHessian)
				}
			}
		}
	}
}

func TestFactorAndSolve(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := 1; n <= maxVariables; n++ {
		var m, l [maxVariables * maxVariables]float64
		b := make([][]float64, n)
		for i := range b {
			b[i] = make([]float64, n)
			for j := range b[i] {
				b[i][j] = rng.NormFloat64()
			}
		}
		for i := range n {
			for j := range i + 1 {
				m[i*maxVariables+j] = tensor.Dot(b[i], b[j])
				if i == j {
					m[i*maxVariables+j] += 1
				}
			}
		}
		l = m
		if !factor(&l, n) {
			t.Fatalf("n = %d: a positive definite matrix was refused", n)
		}
		x := make([]float64, n)
		for j := range x {
			x[j] = rng.NormFloat64()
		}
		rhs := make([]float64, n)
		for i := range n {
			for j := range n {
				rhs[i] += m[max(i, j)*maxVariables+min(i, j)] * x[j]
			}
		}
		solve(&l, n, rhs)
		for j := range x {
			checkClose(t, "x", rhs[j], x[j], 1e-9)
		}
		l = m
		l[(n-1)*maxVariables+n-1] -= 1e6
		if factor(&l, n) {
			t.Fatalf("n = %d: an indefinite matrix was accepted", n)
		}
	}
}

func BenchmarkSolve(b *testing.B) {
	for _, y := range systems(b) {
		b.Run(y.spec.Name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(31, 32))
			var problems []horizonProblem
			for range 100 {
				problems = append(problems, randomProblem(y, rng, domain.Preference{Adaptive: true}, Horizon))
			}
			w := newInterior(y)
			var sol solution
			var plan [2 * Horizon]float64
			iterations, certified := 0, 0
			b.ResetTimer()
			b.ReportAllocs()
			for i := range b.N {
				y.coldStart(&problems[i%100], guides[(i/100)%len(guides)], &plan)
				w.solve(&problems[i%100], plan[:], &sol)
				iterations += sol.iterations
				if sol.certified() {
					certified++
				}
			}
			b.ReportMetric(float64(iterations)/float64(b.N), "iterations/op")
			b.ReportMetric(float64(certified)/float64(b.N), "certified/op")
		})
	}
}
