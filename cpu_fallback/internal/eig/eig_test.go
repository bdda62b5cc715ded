package eig

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

// tolerance bounds residual and orthogonality relative to the norm: some tens of
// roundings of float32. The worst seen over 25 000 random matrices is 1e-6.
const tolerance = 3e-6

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
		for name, spectrum := range spectra {
			t.Run(fmt.Sprintf("%v/%s", level, name), func(t *testing.T) {
				for _, size := range [][2]int{{1, 1}, {2, 2}, {3, 3}, {4, 2}, {7, 7}, {12, 3}, {16, 3}, {17, 5}, {32, 3}, {32, 32}, {64, 3}, {64, 64}} {
					n, k := size[0], size[1]
					g := spectrum(rand.New(rand.NewPCG(uint64(n), uint64(k))), n)
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

// batch is count different matrices of every kind, at scales from denormal to
// nearly infinite.
func batch(rng *rand.Rand, n, count int) []float32 {
	kinds := slices.Sorted(maps.Keys(spectra))
	g := make([]float32, 0, count*n*n)
	for b := range count {
		one := spectra[kinds[b%len(kinds)]](rng, n)
		scale := []float32{1, 0x1p-140, 0x1p-80, 0x1p100, 3}[b/len(kinds)%5]
		for i := range one {
			one[i] *= scale
		}
		g = append(g, one...)
	}
	return g
}

// sparse draws a matrix that falls into blocks, has few distinct entries or
// entries of very different size: repeated eigenvalues, exact zeros and
// accidental ones, where inverse iteration and Gram–Schmidt are hard put.
func sparse(rng *rand.Rand, n int) []float32 {
	kind, density := rng.IntN(5), rng.Float64()
	g := make([]float32, n*n)
	for i := range n {
		for j := range i + 1 {
			v := 0.0
			switch {
			case kind == 0 || kind == 1 && rng.Float64() < density || kind == 2 && i-j <= 1:
				v = float64(rng.IntN(3) - 1)
			case kind == 3 && rng.Float64() < density:
				v = rng.NormFloat64() * math.Pow(10, -10*rng.Float64())
			case kind == 4:
				v = math.Pow(10, -40*rng.Float64())
			}
			g[i*n+j], g[j*n+i] = float32(v), float32(v)
		}
	}
	return g
}

func TestRepeatedAndAccidentalEigenvalues(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	rng := rand.New(rand.NewPCG(77, 1))
	for round := range rounds {
		n := 1 + rng.IntN(20)
		if round%15 == 0 {
			n = 20 + rng.IntN(45)
		}
		k := 1 + rng.IntN(n)
		const count = 40
		g := make([]float32, 0, count*n*n)
		for range count {
			g = append(g, sparse(rng, n)...)
		}
		for _, level := range isa.Available() {
			values, vectors := topK(level, g, n, k, count)
			for b := range count {
				checkPairs(t, g[b*n*n:(b+1)*n*n], n, k, values[b*k:(b+1)*k], vectors[b*n*k:(b+1)*n*k])
				if t.Failed() {
					t.Fatalf("%v: matrix %d of round %d, n=%d k=%d", level, b, round, n, k)
				}
			}
		}
	}
}

func TestScaleDoesNotMatter(t *testing.T) {
	const n, k = 12, 4
	g := pullback(rand.New(rand.NewPCG(3, 4)), n, n, 0.1)
	scaled := make([]float32, len(g))
	for _, level := range isa.Available() {
		values, vectors := topK(level, g, n, k, 1)
		for _, e := range []int{-110, -60, 60, 120} {
			for i, v := range g {
				scaled[i] = float32(math.Ldexp(float64(v), e))
			}
			gotValues, gotVectors := topK(level, scaled, n, k, 1)
			for j := range values {
				if want := float32(math.Ldexp(float64(values[j]), e)); gotValues[j] != want {
					t.Errorf("%v: value %d of 2^%d·G is %g, want %g", level, j, e, gotValues[j], want)
				}
			}
			if !slices.Equal(gotVectors, vectors) {
				t.Errorf("%v: the vectors of 2^%d·G are not those of G", level, e)
			}
		}
		// Denormals have few bits, so only the properties are left.
		for i, v := range g {
			scaled[i] = float32(math.Ldexp(float64(v), -135))
		}
		values, vectors = topK(level, scaled, n, k, 1)
		checkPairs(t, scaled, n, k, values, vectors)
	}
}

func TestPlaceInBatchDoesNotMatter(t *testing.T) {
	const n, k, count = 13, 5, 75
	g := batch(rand.New(rand.NewPCG(5, 6)), n, count)
	for _, level := range isa.Available() {
		values, vectors := topK(level, g, n, k, count)
		for _, from := range []int{0, 1, 5, 17, 60, count - 1} {
			for _, m := range []int{1, 7, 8, 9, 15} {
				m = min(m, count-from)
				gotValues, gotVectors := topK(level, g[from*n*n:], n, k, m)
				if !equalBits(gotValues, values[from*k:(from+m)*k]) || !equalBits(gotVectors, vectors[from*n*k:(from+m)*n*k]) {
					t.Errorf("%v: matrices %d to %d differ from the same in a batch of %d", level, from, from+m-1, count)
				}
			}
		}
	}
}

func TestStridesAreKept(t *testing.T) {
	const n, k, count, gap = 6, 2, 19, 5
	g := batch(rand.New(rand.NewPCG(7, 8)), n, count)
	for _, level := range isa.Available() {
		values, vectors := topK(level, g, n, k, count)
		wide := make([]float32, count*(n*n+gap))
		for b := range count {
			copy(wide[b*(n*n+gap):], g[b*n*n:(b+1)*n*n])
		}
		gotValues, gotVectors := make([]float32, count*(k+gap)), make([]float32, count*(n*k+gap))
		New(level, n, k).TopK(wide, n*n+gap, count, gotValues, k+gap, gotVectors, n*k+gap)
		for b := range count {
			o, v := b*(k+gap), b*(n*k+gap)
			if !equalBits(gotValues[o:o+k], values[b*k:(b+1)*k]) || !equalBits(gotVectors[v:v+n*k], vectors[b*n*k:(b+1)*n*k]) {
				t.Errorf("%v: matrix %d differs with strides", level, b)
			}
			for i := range gap {
				if gotValues[o+k+i] != 0 || gotVectors[v+n*k+i] != 0 {
					t.Errorf("%v: the gap after matrix %d was written", level, b)
				}
			}
		}
	}
}

func TestNonFiniteMatrix(t *testing.T) {
	const n, k, count = 9, 3, 40
	g := batch(rand.New(rand.NewPCG(9, 10)), n, count)
	bad := map[int]bool{}
	for b := 0; b < count; b += 3 {
		v := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[b%3]
		g[b*n*n+b%(n*n)] = float32(v)
		bad[b] = true
	}
	clean := slices.Clone(g)
	for b := range bad {
		clear(clean[b*n*n : (b+1)*n*n])
	}
	for _, level := range isa.Available() {
		values, vectors := topK(level, g, n, k, count)
		wantValues, wantVectors := topK(level, clean, n, k, count)
		for b := range count {
			va, ve := values[b*k:(b+1)*k], vectors[b*n*k:(b+1)*n*k]
			if !bad[b] {
				if !equalBits(va, wantValues[b*k:(b+1)*k]) || !equalBits(ve, wantVectors[b*n*k:(b+1)*n*k]) {
					t.Errorf("%v: matrix %d is changed by a non-finite neighbour", level, b)
				}
				continue
			}
			for _, v := range va {
				if !math.IsNaN(float64(v)) {
					t.Errorf("%v: non-finite matrix %d has the value %g, want NaN", level, b, v)
				}
			}
			for _, v := range ve {
				if v != 0 {
					t.Errorf("%v: non-finite matrix %d has a vector entry %g, want 0", level, b, v)
				}
			}
		}
	}
}

func TestZeroMatrixHasExactlyZeroValues(t *testing.T) {
	for _, level := range isa.Available() {
		values, _ := topK(level, make([]float32, 5*5), 5, 5, 1)
		for j, v := range values {
			if v != 0 {
				t.Errorf("%v: value %d of the zero matrix is %g", level, j, v)
			}
		}
	}
}

func TestSignOnATie(t *testing.T) {
	// The eigenvectors of [[2, -1], [-1, 2]] have two entries of one magnitude.
	for _, level := range isa.Available() {
		_, vectors := topK(level, []float32{2, -1, -1, 2}, 2, 2, 1)
		for j := range 2 {
			a, b := float64(vectors[j]), float64(vectors[2+j])
			first := a
			if math.Abs(b) > math.Abs(a) {
				first = b
			}
			if !(first > 0) {
				t.Errorf("%v: vector %d is (%g, %g)", level, j, a, b)
			}
		}
	}
}

// TestWidthsRoundAlike is what lets the narrow kernels finish a wide batch.
func TestWidthsRoundAlike(t *testing.T) {
	if !slices.Contains(isa.Available(), isa.AVX512) {
		return // one width only: nothing to compare, TestPairsHold covers it
	}
	for _, n := range []int{1, 2, 3, 8, 13, 32} {
		const count = 73
		k := min(n, 4)
		g := batch(rand.New(rand.NewPCG(uint64(n), 12)), n, count)
		v1, e1 := topK(isa.AVX512, g, n, k, count)
		v2, e2 := topK(isa.AVX2, g, n, k, count)
		if !equalBits(v1, v2) || !equalBits(e1, e2) {
			t.Errorf("n=%d: AVX-512 and AVX2 differ", n)
		}
	}
}

func TestTopKAllocatesNothing(t *testing.T) {
	const n, k, count = 16, 3, 21
	g := batch(rand.New(rand.NewPCG(13, 14)), n, count)
	values, vectors := make([]float32, count*k), make([]float32, count*n*k)
	for _, level := range isa.Available() {
		s := New(level, n, k)
		if got := testing.AllocsPerRun(5, func() { s.TopK(g, n*n, count, values, k, vectors, n*k) }); got != 0 {
			t.Errorf("%v: TopK makes %g allocations", level, got)
		}
	}
}

func equalBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

func BenchmarkTopK(b *testing.B) {
	for _, level := range isa.Available() {
		for _, n := range []int{16, 32, 64} {
			for _, count := range []int{1, 64} {
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
					best := time.Duration(math.MaxInt64)
					for b.Loop() {
						start := time.Now()
						s.TopK(g, n*n, count, values, k, vectors, n*k)
						best = min(best, time.Since(start))
					}
					seconds := best.Seconds() / float64(count)
					b.ReportMetric(seconds*1e6, "best-µs/matrix")
					b.ReportMetric(FLOPs(n, k)/seconds/1e9, "GFLOP/s")
				})
			}
		}
	}
}
