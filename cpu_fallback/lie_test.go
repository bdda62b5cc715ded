package cpufallback

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/tensor"
)

// rotationTolerance of a matrix entry of a rotation whose vector is float32: a
// rounding of an angle of up to 4π.
const rotationTolerance = 4e-6

// matrix is the rotation by the first three entries of r, as columns.
func matrix(r []float32) (m [3][3]float64) {
	for i := range 3 {
		var unit [3]float64
		unit[i] = 1
		m[i] = ref.Rodrigues([3]float64{float64(r[0]), float64(r[1]), float64(r[2])}, unit)
	}
	return m
}

// after is the matrix product a·b of matrices as columns.
func after(a, b [3][3]float64) (c [3][3]float64) {
	for j := range 3 {
		for k := range 3 {
			for i := range 3 {
				c[j][i] += a[k][i] * b[j][k]
			}
		}
	}
	return c
}

func sameRotation(t *rapid.T, what string, got, want [3][3]float64) {
	for i := range 3 {
		for j := range 3 {
			if d := math.Abs(got[i][j] - want[i][j]); !(d <= rotationTolerance) {
				t.Fatalf("%s: entry %d,%d is %v, want %v", what, j, i, got[i][j], want[i][j])
			}
		}
	}
}

// drawRotation favours the angles where logarithms lose digits: 0, π and beyond.
func drawRotation(t *rapid.T, name string) []float32 {
	var axis [3]float64
	length := 0.0
	for i := range axis {
		axis[i] = rapid.Float64Range(-1, 1).Draw(t, name+" axis")
		length = math.Hypot(length, axis[i])
	}
	if length < 1e-3 {
		axis, length = [3]float64{1, 0, 0}, 1
	}
	angle := rapid.OneOf(
		rapid.Float64Range(0, 2*math.Pi), rapid.Float64Range(0, 1e-6), rapid.Just(0.0),
		rapid.Float64Range(math.Pi-1e-5, math.Pi+1e-5),
	).Draw(t, name+" angle")
	r := make([]float32, 3)
	for i := range r {
		r[i] = float32(axis[i] / length * angle)
	}
	return r
}

func composed(a, b []float32) []float32 {
	z := append([]float32(nil), a...)
	compose(z, b, backend.Group{RotationBlocks: 1})
	return z
}

func TestRotationGroupLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawRotation(t, "a"), drawRotation(t, "b"), drawRotation(t, "c")
		ab := composed(a, b)
		sameRotation(t, "exp(a ⊕ b) against exp(a)·exp(b)", matrix(ab), after(matrix(a), matrix(b)))
		if n := math.Sqrt(float64(ab[0])*float64(ab[0]) + float64(ab[1])*float64(ab[1]) + float64(ab[2])*float64(ab[2])); n > math.Pi*(1+1e-6) {
			t.Fatalf("a ⊕ b has length %v, want at most π", n)
		}
		sameRotation(t, "associativity", matrix(composed(ab, c)), matrix(composed(a, composed(b, c))))
		sameRotation(t, "identity", matrix(composed(a, make([]float32, 3))), matrix(a))
		inverse := []float32{-a[0], -a[1], -a[2]}
		for i, v := range composed(a, inverse) {
			if math.Abs(float64(v)) > rotationTolerance {
				t.Fatalf("a ⊕ −a has entry %d = %v, want 0", i, v)
			}
		}
	})
}

func TestSmallRotationKeepsItsDigits(t *testing.T) {
	r := composed([]float32{1e-20, 0, 0}, []float32{2e-20, -1e-30, 0})
	if math.Abs(float64(r[0])/3e-20-1) > 1e-6 || math.Abs(float64(r[1])/-1e-30-1) > 1e-6 {
		t.Errorf("two tiny rotations compose to %v", r)
	}
}

func TestTranslationIsExact(t *testing.T) {
	z := []float32{1, 2, 3, 4}
	compose(z, []float32{0.5, 0.25, -1, 8}, backend.Group{})
	for i, want := range []float32{1.5, 2.25, 2, 12} {
		if z[i] != want {
			t.Errorf("coordinate %d is %v, want %v", i, z[i], want)
		}
	}
}

// turn is the difference of a rotation, for block sizes of every kind and
// angles down to where cos − 1 would cancel in float64.
func TestTurnAgainstReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 1))
	for _, k := range []int{1, 2, 3, 4, 5, 6, 8} {
		for _, scale := range []float64{1e-12, 1e-3, 0.9e-3, 0.5, 10} {
			a, omega := make([]float64, k), make([]float64, k)
			for i := range a {
				a[i], omega[i] = rng.NormFloat64(), scale*rng.NormFloat64()
			}
			want := ref.Rotate(a, omega)
			for i := range want {
				want[i] -= a[i]
			}
			turn(a, omega)
			for i := range want {
				if d := math.Abs(a[i] - want[i]); !(d <= 1e-15*max(1, scale)*10) {
					t.Errorf("k=%d, angles of %g: entry %d is %v, want %v", k, scale, i, a[i], want[i])
				}
			}
		}
	}
	a := []float64{1, 0, 0}
	turn(a, []float64{0, 0, 1e-10})
	if math.Abs(a[0]/-0.5e-20-1) > 1e-9 || math.Abs(a[1]/1e-10-1) > 1e-9 {
		t.Errorf("a turn by 1e-10 changes (1, 0, 0) by %v", a)
	}
}

func TestCapSlope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := make([]float32, rapid.IntRange(1, 9).Draw(t, "size"))
		bound := float32(math.Pow(10, rapid.Float64Range(-30, 38).Draw(t, "exponent")))
		for i := range v {
			v[i] = rapid.Float32Range(-bound, bound).Draw(t, "v")
		}
		vmax := rapid.Float32Range(1e-3, 1e3).Draw(t, "vmax")
		norm := func(v []float32) float64 {
			s := 0.0
			for _, x := range v {
				s += float64(x) * float64(x)
			}
			return math.Sqrt(s)
		}
		before := append([]float32(nil), v...)
		capSlope(v, vmax)
		if got := norm(v); got > float64(vmax)*(1+1e-6) {
			t.Fatalf("a slope of length %g is capped to %g, limit %g", norm(before), got, vmax)
		}
		if norm(before) < float64(vmax)*(1-1e-6) {
			for i := range v {
				if v[i] != before[i] {
					t.Fatalf("a slope of length %g below the limit %g is changed", norm(before), vmax)
				}
			}
		}
		for i := range v {
			if want := float64(before[i]) * min(1, float64(vmax)/(norm(before)+slopeFloor)); math.Abs(float64(v[i])-want) > 1e-6*math.Abs(want)+1e-45 {
				t.Fatalf("entry %d is %v, want %v: the direction must stay", i, v[i], want)
			}
		}
	})
	for _, bad := range []float32{float32(math.NaN()), positiveInfinity, negativeInfinity} {
		v := []float32{1, bad}
		if capSlope(v, 1); tensor.Finite(v) {
			t.Errorf("a slope with %v is capped to the finite %v", bad, v)
		}
	}
}

// The residual turns Δz inside the span of B and leaves its length.
func TestLieResidualIsARotationInTheBasis(t *testing.T) {
	rng := rand.New(rand.NewPCG(32, 1))
	const n, k = 7, 3
	vectors := make([]float32, n*k) // the first k unit vectors: B·Bᵀ projects on them
	for j := range k {
		vectors[j*k+j] = 1
	}
	step, slope := make([]float32, n), make([]float32, n)
	for i := range step {
		step[i], slope[i] = float32(rng.NormFloat64()), float32(rng.NormFloat64())
	}
	turned, residual, scratch := append([]float32(nil), step...), make([]float32, n), make([]float64, 2*k)
	if !lieResidual(turned, slope, vectors, []float32{4, 1, 0.25}, 0.7, 1, residual, scratch) {
		t.Fatal("a finite residual is reported as not finite")
	}
	want := ref.Rodrigues([3]float64{0.7 * float64(slope[0]) / 2, 0.7 * float64(slope[1]), 0.7 * float64(slope[2]) * 2},
		[3]float64{float64(step[0]), float64(step[1]), float64(step[2])})
	for i := range n {
		w := float64(step[i])
		if i < k {
			w = want[i]
		}
		if math.Abs(float64(turned[i])-w) > 1e-6 {
			t.Errorf("with gain 1 entry %d is %v, want %v", i, turned[i], w)
		}
	}
	kept := append([]float32(nil), step...)
	if lieResidual(kept, slope, vectors, []float32{4, 1, 0}, 0.7, 1, residual, scratch) {
		t.Error("a zero eigenvalue gives a residual that is reported as finite")
	}
	for i := range kept {
		if kept[i] != step[i] {
			t.Errorf("a residual that is not finite changes entry %d", i)
		}
	}
}
