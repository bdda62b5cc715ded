package eig

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/cpu_fallback/internal/isa"
)

// tolerance bounds residual and orthogonality relative to the norm: some n
// roundings of float32.
const tolerance = 1e-5

// spectra are matrices given by their eigenvalues, and some that are not.
var spectra = map[string]func(rng *rand.Rand, n int) []float32{
	"pullback": func(rng *rand.Rand, n int) []float32 { return pullback(rng, n, 2*n, 1e-3) },
	"rank-two": func(rng *rand.Rand, n int) []float32 { return pullback(rng, n, 2, 1e-3) },
	"zero":     func(_ *rand.Rand, n int) []float32 { return make([]float32, n*n) },
	"identity": func(_ *rand.Rand, n int) []float32 { return diagonal(n, func(int) float64 { return 0.37 }) },
	"diagonal": func(_ *rand.Rand, n int) []float32 {
		return diagonal(n, func(i int) float64 { return float64(1 + i*7%n) })
	},
	"geometric": func(rng *rand.Rand, n int) []float32 {
		return rotated(rng, n, func(i int) float64 { return math.Pow(0.5, float64(i)) })
	},
	"cluster": func(rng *rand.Rand, n int) []float32 {
		return rotated(rng, n, func(i int) float64 { return 1 + 1e-6*float64(i%3) - float64(i/3) })
	},
	"repeated": func(rng *rand.Rand, n int) []float32 {
		return rotated(rng, n, func(i int) float64 { return float64(i / 4) })
	},
	"negative": func(rng *rand.Rand, n int) []float32 {
		return rotated(rng, n, func(i int) float64 { return -1 - float64(i) })
	},
	"indefinite": func(rng *rand.Rand, n int) []float32 {
		g := make([]float32, n*n)
		for i := range n {
			for j := range i + 1 {
				g[i*n+j] = float32(rng.NormFloat64())
				g[j*n+i] = g[i*n+j]
			}
		}
		return g
	},
	"wilkinson": func(_ *rand.Rand, n int) []float32 {
		g := diagonal(n, func(i int) float64 { return math.Abs(float64(i) - float64(n-1)/2) })
		for i := 1; i < n; i++ {
			g[i*n+i-1], g[(i-1)*n+i] = 1, 1
		}
		return g
	},
	"blocks": func(rng *rand.Rand, n int) []float32 {
		g := pullback(rng, n, n, 0.1)
		for i := range n {
			for j := range n {
				if (i < n/2) != (j < n/2) {
					g[i*n+j] = 0
				}
			}
		}
		return g
	},
	"graded": func(rng *rand.Rand, n int) []float32 {
		g := pullback(rng, n, n, 0)
		for i := range n {
			for j := range n {
				g[i*n+j] *= float32(math.Pow(10, -12*float64(i+j)/float64(n)))
			}
		}
		return g
	},
	"ones": func(_ *rand.Rand, n int) []float32 {
		g := make([]float32, n*n)
		for i := range g {
			g[i] = 1
		}
		return g
	},
}

func diagonal(n int, value func(int) float64) []float32 {
	g := make([]float32, n*n)
	for i := range n {
		g[i*n+i] = float32(value(i))
	}
	return g
}

// pullback is JᵀJ + λI of a random m × n Jacobian.
func pullback(rng *rand.Rand, n, m int, lambda float64) []float32 {
	j := make([]float64, m*n)
	for i := range j {
		j[i] = rng.NormFloat64()
	}
	var g mat.Dense
	jm := mat.NewDense(m, n, j)
	g.Mul(jm.T(), jm)
	return symmetric(&g, n, lambda)
}

// rotated is Q·diag(value)·Qᵀ of a random orthogonal Q.
func rotated(rng *rand.Rand, n int, value func(int) float64) []float32 {
	r := make([]float64, n*n)
	for i := range r {
		r[i] = rng.NormFloat64()
	}
	var qr mat.QR
	qr.Factorize(mat.NewDense(n, n, r))
	var q, g mat.Dense
	qr.QTo(&q)
	v := mat.NewDiagDense(n, nil)
	for i := range n {
		v.SetDiag(i, value(i))
	}
	g.Mul(&q, v)
	g.Mul(&g, q.T())
	return symmetric(&g, n, 0)
}

func symmetric(g *mat.Dense, n int, lambda float64) []float32 {
	out := make([]float32, n*n)
	for i := range n {
		for j := range n {
			v := 0.5 * (g.At(i, j) + g.At(j, i))
			if i == j {
				v += lambda
			}
			out[i*n+j] = float32(v)
		}
	}
	return out
}

// eigenvalues are gonum's, descending, in float64.
func eigenvalues(t *testing.T, g []float32, n int) []float64 {
	t.Helper()
	w := make([]float64, n*n)
	for i, v := range g {
		w[i] = float64(v)
	}
	var eig mat.EigenSym
	if !eig.Factorize(mat.NewSymDense(n, w), false) {
		t.Fatal("gonum's eigendecomposition failed")
	}
	v := eig.Values(nil)
	for i := range n / 2 {
		v[i], v[n-1-i] = v[n-1-i], v[i]
	}
	return v
}

// checkPairs holds eigenpairs to the contract.
func checkPairs(t *testing.T, g []float32, n, k int, values, vectors []float32) {
	t.Helper()
	want := eigenvalues(t, g, n)
	norm := math.Max(math.Abs(want[0]), math.Abs(want[n-1]))
	for j := range k {
		lambda := float64(values[j])
		if !(math.Abs(lambda-want[j]) <= tolerance*norm) {
			t.Errorf("value %d is %g, gonum has %g (norm %g)", j, lambda, want[j], norm)
		}
		if j > 0 && !(values[j] <= values[j-1]) {
			t.Errorf("values %d and %d are not descending: %g, %g", j-1, j, values[j-1], values[j])
		}
		residual, top, entry := 0.0, 0.0, 0.0
		for i := range n {
			sum := 0.0
			for l := range n {
				sum += float64(g[i*n+l]) * float64(vectors[l*k+j])
			}
			v := float64(vectors[i*k+j])
			residual = math.Hypot(residual, sum-lambda*v)
			if math.Abs(v) > top {
				top, entry = math.Abs(v), v
			}
		}
		if !(residual <= tolerance*norm) {
			t.Errorf("‖Gv−λv‖ of pair %d is %g, norm %g", j, residual, norm)
		}
		if !(entry > 0) {
			t.Errorf("the largest entry of vector %d is %g, want it positive", j, entry)
		}
		for p := range j + 1 {
			dot, unit := 0.0, 0.0
			for i := range n {
				dot += float64(vectors[i*k+j]) * float64(vectors[i*k+p])
			}
			if p == j {
				unit = 1
			}
			if !(math.Abs(dot-unit) <= tolerance) {
				t.Errorf("v%d·v%d = %g", p, j, dot)
			}
		}
	}
}

func topK(level isa.Level, g []float32, n, k, count int) (values, vectors []float32) {
	values, vectors = make([]float32, count*k), make([]float32, count*n*k)
	New(level, n, k).TopK(g, n*n, count, values, k, vectors, n*k)
	return values, vectors
}

func TestPairsHoldOnEverySpectrum(t *testing.T) {
	for _, level := range isa.Available() {
		for name, make := range spectra {
			t.Run(fmt.Sprintf("%v/%s", level, name), func(t *testing.T) {
				for _, size := range [][2]int{{1, 1}, {2, 2}, {3, 3}, {4, 2}, {7, 7}, {12, 3}, {16, 3}, {17, 5}, {32, 3}, {32, 32}, {64, 3}, {64, 64}} {
					n, k := size[0], size[1]
					g := make(rand.New(rand.NewPCG(uint64(n), uint64(k))), n)
					values, vectors := topK(level, g, n, k, 1)
					checkPairs(t, g, n, k, values, vectors)
					if t.Failed() {
						t.Fatalf("at n=%d k=%d", n, k)
					}
				}
			})
		}
	}
}

func BenchmarkTopK(b *testing.B) {
	for _, level := range isa.Available() {
		for _, n := range []int{16, 32, 64} {
			for _, count := range []int{1, 512} {
				b.Run(fmt.Sprintf("%v/n=%d/batch=%d", level, n, count), func(b *testing.B) {
					const k = 3
					rng := rand.New(rand.NewPCG(1, 2))
					one := pullback(rng, n, 2*n, 1e-3)
					g := make([]float32, 0, count*n*n)
					for range count {
						g = append(g, one...)
					}
					values, vectors := make([]float32, count*k), make([]float32, count*n*k)
					s := New(level, n, k)
					for b.Loop() {
						s.TopK(g, n*n, count, values, k, vectors, n*k)
					}
					seconds := b.Elapsed().Seconds() / float64(b.N) / float64(count)
					b.ReportMetric(seconds*1e6, "µs/matrix")
					b.ReportMetric(FLOPs(n, k)/seconds/1e9, "GFLOP/s")
				})
			}
		}
	}
}
