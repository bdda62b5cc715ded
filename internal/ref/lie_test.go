package ref_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/training"
)

// skewExp is the rotation matrix exp([w]×) by gonum's matrix exponential.
func skewExp(w [3]float64) *mat.Dense {
	var r mat.Dense
	r.Exp(mat.NewDense(3, 3, []float64{0, -w[2], w[1], w[2], 0, -w[0], -w[1], w[0], 0}))
	return &r
}

func times(r *mat.Dense, v [3]float64) [3]float64 {
	var y mat.VecDense
	y.MulVec(r, mat.NewVecDense(3, v[:]))
	return [3]float64{y.AtVec(0), y.AtVec(1), y.AtVec(2)}
}

func maxDifference(a, b []float64) float64 {
	d := 0.0
	for i := range a {
		if x := math.Abs(a[i] - b[i]); !(x <= d) {
			d = x
		}
	}
	return d
}

func vector(t *rapid.T, name string, bound float64) [3]float64 {
	var v [3]float64
	for i := range v {
		v[i] = rapid.Float64Range(-bound, bound).Draw(t, name)
	}
	return v
}

func TestRodriguesIsTheMatrixExponential(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := vector(t, "w", math.Pow(10, rapid.Float64Range(-9, 1).Draw(t, "exponent")))
		v := vector(t, "v", 2)
		got, want := ref.Rodrigues(w, v), times(skewExp(w), v)
		if d := maxDifference(got[:], want[:]); !(d < 1e-12) {
			t.Fatalf("rotation of %v by %v is %v, matrix exponential %v", v, w, got, want)
		}
	})
}

func TestLogInvertsExp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		axis := vector(t, "axis", 1)
		length := math.Sqrt(axis[0]*axis[0] + axis[1]*axis[1] + axis[2]*axis[2])
		if length < 1e-3 {
			t.Skip("no axis")
		}
		// Angles through the middle, next to 0 and next to π.
		angle := rapid.OneOf(rapid.Float64Range(0, 3.14), rapid.Float64Range(0, 1e-7), rapid.Map(rapid.Float64Range(1e-9, 1e-6), func(d float64) float64 { return math.Pi - d })).Draw(t, "angle")
		var w [3]float64
		for i := range w {
			w[i] = axis[i] / length * angle
		}
		got := ref.LogSO3(ref.ExpSO3(w))
		if d := maxDifference(got[:], w[:]); !(d < 1e-14*(1+angle)) {
			t.Fatalf("log exp of %v is %v, off by %g", w, got, d)
		}
		// A rotation by more than π comes back as the same rotation, shorter.
		long := w
		for i := range long {
			long[i] *= (angle + 2*math.Pi) / math.Max(angle, 1e-300)
		}
		if angle > 1e-3 {
			back := ref.LogSO3(ref.ExpSO3(long))
			if d := maxDifference(back[:], w[:]); !(d < 1e-13) {
				t.Fatalf("log exp of %v is %v, want %v", long, back, w)
			}
		}
	})
}

func TestLogAtPiIsOfLengthPi(t *testing.T) {
	got := ref.LogSO3(ref.ExpSO3([3]float64{0, math.Pi, 0}))
	if math.Abs(math.Abs(got[1])-math.Pi) > 1e-15 || got[0] != 0 || got[2] != 0 {
		t.Errorf("log of half a turn is %v", got)
	}
}

func TestComposeIsTheMatrixProductAndTranslation(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for range 200 {
		z, v := normal(rng, 8), normal(rng, 8)
		got := ref.Compose(z, v, 2)
		for b := range 2 {
			var want mat.Dense
			want.Mul(skewExp([3]float64(z[3*b:])), skewExp([3]float64(v[3*b:])))
			have := skewExp([3]float64(got[3*b:]))
			if !mat.EqualApprox(have, &want, 1e-12) {
				t.Fatalf("block %d: exp of the composition differs from the product", b)
			}
			if n := math.Sqrt(inner(got[3*b:3*b+3], got[3*b:3*b+3])); n > math.Pi+1e-12 {
				t.Errorf("block %d has length %v, want at most π", b, n)
			}
		}
		for i := 6; i < 8; i++ {
			if got[i] != z[i]+v[i] {
				t.Errorf("coordinate %d is %v, want the sum %v", i, got[i], z[i]+v[i])
			}
		}
	}
	z, v := normal(rng, 5), normal(rng, 5)
	if got := ref.Compose(z, v, 0); got[0] != z[0]+v[0] {
		t.Errorf("translation gives %v, want %v", got[0], z[0]+v[0])
	}
}

func TestRotateBlocks(t *testing.T) {
	local, angle := []float64{1, 2, 3, 4, 5}, []float64{0.1, 0.2, 0.3, math.Pi / 2, 99}
	got := ref.Rotate(local, angle)
	three := ref.Rodrigues([3]float64{0.1, 0.2, 0.3}, [3]float64{1, 2, 3})
	if d := maxDifference(got, []float64{three[0], three[1], three[2], -5, 4}); !(d < 1e-14) {
		t.Errorf("block of three by Rodrigues, of two by its first angle: got %v", got)
	}
	if got := ref.Rotate([]float64{1, 0, 0, 7}, []float64{0, 0, math.Pi / 2, 3}); maxDifference(got, []float64{0, 1, 0, 7}) > 1e-15 {
		t.Errorf("a block of one must be left: got %v", got)
	}
	if got := ref.Rotate([]float64{7}, []float64{3}); got[0] != 7 {
		t.Errorf("a single coordinate must be left: got %v", got)
	}
}

func TestLieResidualKeepsLengthInTheBasisAndVanishesOutside(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for _, k := range []int{1, 2, 3, 4, 5, 6} {
		net := randomNet(rng, 6, 9, 8)
		z, step, slope := normal(rng, 6), normal(rng, 6), normal(rng, 6)
		values, vectors := ref.EigTopK(net.Metric(z, 0.1), 6, k)
		residual := ref.LieResidual(step, slope, vectors, values, 0.4)
		project := func(v []float64) []float64 {
			p := make([]float64, k)
			for j := range k {
				for i := range v {
					p[j] += vectors[i*k+j] * v[i]
				}
			}
			return p
		}
		before, change := project(step), project(residual)
		after := make([]float64, k)
		for j := range after {
			after[j] = before[j] + change[j]
		}
		if a, b := inner(after, after), inner(before, before); math.Abs(a-b) > 1e-12*b {
			t.Errorf("k = %d: the rotated step has squared length %v in the basis, want %v", k, a, b)
		}
		if a, b := inner(residual, residual), inner(change, change); math.Abs(a-b) > 1e-12*(1+b) {
			t.Errorf("k = %d: the residual leaves the span of the basis", k)
		}
		if k == 1 && inner(residual, residual) != 0 {
			t.Errorf("k = 1 has nothing to rotate, residual %v", residual)
		}
		if k > 1 && !(inner(residual, residual) > 0) {
			t.Errorf("k = %d: no residual", k)
		}
		if r := ref.LieResidual(step, slope, vectors, values, 0); inner(r, r) != 0 {
			t.Errorf("k = %d: angle 0 gives the residual %v", k, r)
		}
	}
}

// In a basis of unit vectors the residual turns the step by scale·slope/√Λ about each axis,
// the right way round: by hand, a quarter turn about the third axis takes the first to the second.
func TestLieResidualByHand(t *testing.T) {
	quarter := math.Pi / 2
	identity := []float64{1, 0, 0, 0, 1, 0, 0, 0, 1}
	// √Λ = 4 of the third axis, scale 0.5: a slope of 8 quarter turns is one.
	if r := ref.LieResidual([]float64{1, 0, 0}, []float64{0, 0, 8 * quarter}, identity, []float64{4, 9, 16}, 0.5); maxDifference(r, []float64{-1, 1, 0}) > 1e-14 {
		t.Errorf("about the third axis: %v, want (−1, 1, 0)", r)
	}
	// In the plane of two the first component of the slope is the angle, counter-clockwise.
	if r := ref.LieResidual([]float64{2, 0}, []float64{6 * quarter, 5}, []float64{1, 0, 0, 1}, []float64{9, 4}, 0.5); maxDifference(r, []float64{-2, 2}) > 1e-14 {
		t.Errorf("in the plane: %v, want (−2, 2)", r)
	}
}

// A step with the Lie residual is the one without it and γ_L times the residual of its own
// step and second slope, by the angle s_L Δt.
func TestStepAddsTheLieResidual(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 1))
	e := testEnergy(rng, 1)
	z, x, c, w := normal(rng, 3), normal(rng, 4), normal(rng, 2), []float64{0.75, 0.25}
	p := backend.StepParams{Dt: 0.05, VMax: 10, Epsilon: 0.25, MetricLambda: 0.01, TopK: 3, LieGain: 0.25, LieScale: 4}
	with, _ := e.Step(z, x, c, w, p)
	p.LieGain = 0
	without, _ := e.Step(z, x, c, w, p)
	step, k2, _ := ref.RK2(func(z []float64) []float64 { f, _ := e.Field(z, x, c, w); return f }, z, float64(p.Dt), 10)
	values, vectors := ref.EigTopK(e.DecoderS.Metric(z, float64(p.MetricLambda)), 3, 3)
	residual := ref.LieResidual(step, k2, vectors, values, 4*float64(p.Dt))
	if inner(residual, residual) < 1e-8 {
		t.Fatalf("the residual %v is too small to tell", residual)
	}
	for i := range with {
		if d := with[i] - without[i] - 0.25*residual[i]; math.Abs(d) > 1e-12 {
			t.Errorf("component %d: the residual moves by %v, want %v", i, with[i]-without[i], 0.25*residual[i])
		}
	}
}

// The rollout latent is z + Δz + γ_L Δz_Lie with the residual of Δz = α(z' − z) as step and
// slope, by the angle s_L Δt.
func TestRolloutTakesTheLieStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 1))
	nets := testNetworks(rng)
	z, next := normal(rng, 3), normal(rng, 3)
	w := testRollout
	r := training.Rollout(nets.DecoderS, z, next, w)
	step := make([]float64, 3)
	for i := range step {
		step[i] = float64(w.RollFraction) * (next[i] - z[i])
	}
	values, vectors := ref.EigTopK(nets.DecoderS.Metric(z, float64(w.MetricLambda)), 3, w.TopK)
	residual := ref.LieResidual(step, step, vectors, values, float64(w.LieScale)*float64(w.LieDt))
	for i := range z {
		if want := z[i] + step[i] + float64(w.LieGain)*residual[i]; math.Abs(r.Lie[i]-want) > 1e-12 || math.Abs(r.Residual[i]-residual[i]) > 1e-12 || residual[i] == 0 {
			t.Errorf("component %d: z̃ is %v, want %v; the residual %v, want %v", i, r.Lie[i], want, r.Residual[i], residual[i])
		}
	}
}
