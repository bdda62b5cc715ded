package adam

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/testing/training"
)

func factors(step int, lr float64) Factors {
	const beta1, beta2 = 0.9, 0.999
	return Factors{
		Beta1: beta1, Beta2: beta2, Rest1: 1 - float32(beta1), Rest2: 1 - float32(beta2),
		Rate: float32(lr / (1 - math.Pow(beta1, float64(step)))), Second: float32(1 / (1 - math.Pow(beta2, float64(step)))), Epsilon: 1e-8,
	}
}

// drawn are gradients of all magnitudes, zeros and what is not finite among them.
func drawn(rng *rand.Rand, n int) []float32 {
	g := make([]float32, n)
	for i := range g {
		switch rng.IntN(12) {
		case 0:
		case 1:
			g[i] = float32(math.Ldexp(rng.NormFloat64(), -rng.IntN(149)))
		case 2:
			g[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.Copysign(0, -1))}[rng.IntN(4)]
		default:
			g[i] = float32(rng.NormFloat64())
		}
	}
	return g
}

// Every level has the bits of the loop in Go, whatever the length and the numbers.
func TestLevelsHaveTheSameBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, level := range isa.Available() {
		for _, n := range []int{0, 1, 7, 8, 15, 16, 17, 31, 33, 100, 257} {
			w := drawn(rng, n)
			wide := [4][]float32{w, nil, make([]float32, n), make([]float32, n)}
			plain := [4][]float32{slices.Clone(w), nil, make([]float32, n), make([]float32, n)}
			for step := 1; step <= 20; step++ {
				g, f := drawn(rng, n), factors(step, 1e-2)
				Update(level, wide[0], g, wide[2], wide[3], &f)
				generic(plain[0], g, plain[2], plain[3], &f)
				for k := range wide {
					for i := range wide[k] {
						a, b := wide[k][i], plain[k][i]
						if math.Float32bits(a) != math.Float32bits(b) && (a == a || b == b) {
							t.Fatalf("%v, %d parameters, step %d: array %d has %v at %d, Go's loop %v", level, n, step, k, a, i, b)
						}
					}
				}
			}
		}
	}
}

// The update is its specification's in float64.
func TestUpdateIsTheReference(t *testing.T) {
	const n = 50
	rng := rand.New(rand.NewPCG(3, 4))
	a := backend.Adam{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	for _, level := range isa.Available() {
		w, m, v := make([]float32, n), make([]float32, n), make([]float32, n)
		want, wantM, wantV := make([]float64, n), make([]float64, n), make([]float64, n)
		for step := 1; step <= 100; step++ {
			g, exact := make([]float32, n), make([]float64, n)
			for i := range g {
				g[i] = float32(rng.NormFloat64())
				exact[i] = float64(g[i])
			}
			f := factors(step, 1e-2)
			Update(level, w, g, m, v, &f)
			training.AdamUpdate(want, exact, wantM, wantV, int64(step), 1e-2, a)
		}
		for i := range w {
			if math.Abs(float64(w[i])-want[i]) > 1e-4 {
				t.Errorf("%v: parameter %d is %v, want %v", level, i, w[i], want[i])
			}
		}
	}
}

// With a constant gradient g the corrected moments are g and g² from the first
// step on, so each update moves by lr·g/(|g|+ε).
func TestConstantGradient(t *testing.T) {
	w, g := []float32{1, -2, 0.5}, []float32{0.3, -4, 0}
	m, v := make([]float32, 3), make([]float32, 3)
	want := []float64{1, -2, 0.5}
	for step := 1; step <= 50; step++ {
		f := factors(step, 1e-2)
		Update(isa.Generic, w, g, m, v, &f)
		for i := range want {
			want[i] -= 1e-2 * float64(g[i]) / (math.Abs(float64(g[i])) + 1e-8)
			if math.Abs(float64(w[i])-want[i]) > 1e-4*float64(step) {
				t.Fatalf("step %d: parameter %d is %v, closed form %v", step, i, w[i], want[i])
			}
		}
	}
}

// Moments of what has no gradient any more end at zero, and are at no time below the normal
// numbers, which are slow.
func TestMomentsEnd(t *testing.T) {
	const n = 19
	for _, level := range isa.Available() {
		w, g, m, v := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
		for i := range m {
			m[i], v[i] = float32(math.Pow(10, -float64(i))), 1e-30
		}
		for step := 1; step < 20000; step++ {
			f := factors(step, 1e-3)
			Update(level, w, g, m, v, &f)
			for i := range m {
				for _, x := range []float32{m[i], v[i]} {
					if x != 0 && math.Abs(float64(x)) < 0x1p-126 {
						t.Fatalf("%v, step %d: a moment of %v", level, step, x)
					}
				}
			}
		}
		if slices.ContainsFunc(m, func(x float32) bool { return x != 0 }) || slices.ContainsFunc(v, func(x float32) bool { return x != 0 }) {
			t.Errorf("%v: moments %v and %v", level, m, v)
		}
	}
}

// BenchmarkUpdate is of 100 000 parameters, with gradients and after they have ended.
func BenchmarkUpdate(b *testing.B) {
	const n = 100_000
	for _, level := range isa.Available() {
		for _, ended := range []bool{false, true} {
			b.Run(fmt.Sprintf("%v/ended=%v", level, ended), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(5, 6))
				w, g, m, v := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
				for i := range g {
					g[i] = float32(rng.NormFloat64())
				}
				f := factors(1000, 1e-3)
				Update(level, w, g, m, v, &f)
				if ended {
					clear(g)
					for range 2000 {
						Update(level, w, g, m, v, &f)
					}
				}
				for b.Loop() {
					Update(level, w, g, m, v, &f)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/parameter")
			})
		}
	}
}
