package ref_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/training"
)

// The pendulum: smooth, and its flow has no closed form that RK2 meets by luck.
func pendulum(z []float64) []float64 { return []float64{z[1], -math.Sin(z[0])} }

func flow(z []float64, steps int, time float64) []float64 {
	z = append([]float64(nil), z...)
	for range steps {
		dz, _, _ := ref.RK2(pendulum, z, time/float64(steps), 1e9)
		for i := range z {
			z[i] += dz[i]
		}
	}
	return z
}

func TestRK2IsOfSecondOrder(t *testing.T) {
	start := []float64{1, 0.3}
	exact := flow(start, 1<<16, 2)
	last := 0.0
	for _, steps := range []int{32, 64, 128, 256} {
		err := maxDifference(flow(start, steps, 2), exact)
		if last > 0 {
			if order := math.Log2(last / err); order < 1.9 || order > 2.1 {
				t.Errorf("from %d to %d steps the global error falls as Δt^%.2f, want Δt²", steps/2, steps, order)
			}
		}
		last = err
	}
}

func TestRK2OfAConstantFieldIsEuler(t *testing.T) {
	k := []float64{0.5, -0.25, 1}
	dz, k2, fallback := ref.RK2(func([]float64) []float64 { return k }, []float64{1, 2, 3}, 0.1, 10)
	if fallback != 0 || maxDifference(k2, k) != 0 || maxDifference(dz, []float64{0.05, -0.025, 0.1}) > 1e-17 {
		t.Errorf("constant field: Δz %v, k_2 %v, fallback %b", dz, k2, fallback)
	}
}

func TestCapBoundsEverySlope(t *testing.T) {
	if v := ref.Cap([]float64{3, 4}, 1); math.Abs(math.Hypot(v[0], v[1])-1) > 1e-11 || math.Abs(v[0]/v[1]-0.75) > 1e-15 {
		t.Errorf("capped to %v, want length 1 in the same direction", v)
	}
	if v := ref.Cap([]float64{0.3, 0.4}, 1); v[0] != 0.3 || v[1] != 0.4 {
		t.Errorf("a short slope became %v", v)
	}
	if v := ref.Cap([]float64{0, 0}, 1); v[0] != 0 || v[1] != 0 {
		t.Errorf("the zero slope became %v", v)
	}
	dz, _, _ := ref.RK2(func(z []float64) []float64 { return []float64{1e6 * z[0]} }, []float64{1}, 0.2, 3)
	if math.Abs(dz[0]-0.6) > 1e-9 {
		t.Errorf("Δz %v, want V_max Δt = 0.6", dz)
	}
}

func TestFallbacks(t *testing.T) {
	z := []float64{1, 2}
	good := func([]float64) []float64 { return []float64{1, -1} }
	nan := func([]float64) []float64 { return []float64{math.NaN(), 1} }
	second := func(p []float64) []float64 {
		if p[0] != z[0] {
			return []float64{math.Inf(1), 0}
		}
		return good(p)
	}
	if dz, _, f := ref.RK2(nan, z, 0.1, 5); f != backend.FallbackNoStep || maxDifference(dz, []float64{0, 0}) != 0 {
		t.Errorf("NaN k_1: Δz %v, bits %b, want no step", dz, f)
	}
	if dz, _, f := ref.RK2(second, z, 0.1, 5); f != backend.FallbackSecondSlope || maxDifference(dz, []float64{0.1, -0.1}) > 1e-16 {
		t.Errorf("infinite k_2: Δz %v, bits %b, want Euler", dz, f)
	}
	// A midpoint beyond the largest number: the second slope is taken at z itself.
	steep := func([]float64) []float64 { return []float64{1e150, 0} }
	if _, k2, f := ref.RK2(steep, z, 1e200, 1e160); f != backend.FallbackMidpoint || k2[0] != 1e150 {
		t.Errorf("overflowing midpoint: k_2 %v, bits %b, want the slope at z", k2, f)
	}
}

func TestEigenpairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for _, n := range []int{1, 2, 3, 5, 16, 33} {
		a := mat.NewDense(n+2, n, normal(rng, (n+2)*n))
		var g mat.Dense
		g.Mul(a.T(), a)
		k := (n + 1) / 2
		values, vectors := ref.EigTopK(g.RawMatrix().Data, n, k)
		var svd mat.SVD
		if !svd.Factorize(a, mat.SVDNone) {
			t.Fatal("the singular value decomposition failed")
		}
		singular := svd.Values(nil)
		for j := range k {
			if want := singular[j] * singular[j]; math.Abs(values[j]-want) > 1e-12*singular[0]*singular[0] {
				t.Errorf("n = %d: eigenvalue %d is %v, squared singular value %v", n, j, values[j], want)
			}
			v := make([]float64, n)
			largest := 0
			for i := range v {
				v[i] = vectors[i*k+j]
				if math.Abs(v[i]) > math.Abs(v[largest]) {
					largest = i
				}
			}
			if v[largest] <= 0 || math.Abs(inner(v, v)-1) > 1e-13 {
				t.Errorf("n = %d: vector %d has sign %v and squared length %v", n, j, v[largest], inner(v, v))
			}
			for i := range v {
				if r := inner(g.RawRowView(i), v) - values[j]*v[i]; math.Abs(r) > 1e-12*values[0] {
					t.Errorf("n = %d: (G − λ)v of pair %d is %g at %d", n, j, r, i)
				}
			}
		}
	}
	values, vectors := ref.EigTopK([]float64{1, math.NaN(), math.NaN(), 1}, 2, 1)
	if !math.IsNaN(values[0]) || vectors[0] != 0 || vectors[1] != 0 {
		t.Errorf("a NaN matrix gives %v, %v, want NaN and zeros", values, vectors)
	}
}

func TestAdamFirstStepIsTheLearningRate(t *testing.T) {
	w, g := []float64{1, 1, 1}, []float64{3, -1e-3, 0}
	m, v := make([]float64, 3), make([]float64, 3)
	training.AdamUpdate(w, g, m, v, 1, 0.1, backend.Adam{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-12})
	if maxDifference(w, []float64{0.9, 1.1, 1}) > 1e-8 {
		t.Errorf("after one step %v, want a move of lr against the gradient's sign", w)
	}
}

func TestAdamMinimisesAQuadratic(t *testing.T) {
	w, m, v := []float64{3, -2}, make([]float64, 2), make([]float64, 2)
	for step := int64(1); step <= 2000; step++ {
		training.AdamUpdate(w, []float64{2 * (w[0] - 1), 20 * (w[1] - 0.5)}, m, v, step, 0.02, backend.Adam{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8})
	}
	if maxDifference(w, []float64{1, 0.5}) > 1e-3 {
		t.Errorf("minimum at %v, want (1, 0.5)", w)
	}
}

func TestSpectralBoundReachesTheTrueNorm(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	layer := ref.Layer{In: 6, Out: 9, W: normal(rng, 54), B: normal(rng, 9)}
	u := training.PowerStart(9)
	for range 300 {
		training.SpectralBound(layer, u, 1.25)
	}
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(9, 6, layer.W), mat.SVDNone) {
		t.Fatal("the singular value decomposition failed")
	}
	if s := svd.Values(nil)[0]; math.Abs(s-1.25) > 1e-9 {
		t.Errorf("spectral norm is %v after the bound 1.25", s)
	}
	small := ref.Layer{In: 1, Out: 2, W: []float64{0.3, 0.4}, B: []float64{0, 0}}
	if s := training.SpectralBound(small, training.PowerStart(2), 1); math.Abs(s-0.5) > 1e-15 || small.W[0] != 0.3 {
		t.Errorf("a layer below the bound: norm %v, weights %v", s, small.W)
	}
	zero := ref.Layer{In: 2, Out: 1, W: []float64{0, 0}, B: []float64{1}}
	if s := training.SpectralBound(zero, training.PowerStart(1), 1); s != 0 {
		t.Errorf("the norm of the zero matrix is %v", s)
	}
}
