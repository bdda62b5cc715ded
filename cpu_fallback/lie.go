package cpufallback

import (
	"math"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// The few vectors of one latent that the step turns, caps and composes. They are
// short (n_z and k numbers), so norms and angles are float64: neither overflows
// where float32 would, and the cost is a hundredth of the networks'.

const (
	// slopeFloor is δ_v of eq. rk2-cap: it only keeps a zero slope from dividing
	// by zero, and is far below any slope that matters.
	slopeFloor = 1e-12
	// smallAngle is the rotation angle below which sin θ/θ and (1−cos θ)/θ² come
	// from their Taylor series; there the first dropped term is below float64's
	// rounding.
	smallAngle = 1e-3
)

// capSlope scales v in place to the radius vmax: v·min{1, vmax/(‖v‖ + δ_v)} (eq.
// rk2-cap). It is the identity while ‖v‖ + δ_v ≤ vmax.
func capSlope(v []float32, vmax float32) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	scale := float64(vmax) / (math.Sqrt(sum) + slopeFloor)
	if scale >= 1 {
		return
	}
	for i, x := range v {
		v[i] = float32(float64(x) * scale)
	}
}

// lieResidual adds gain·Δz_Lie to step, Δz_Euc on entry (eq.
// iclr-lie-residual):
//
//	a = Bᵀ·Δz_Euc,  ω = scale·(Bᵀ·slope) ⊘ √Λ,  Δz_Lie = B·(Rot(a; ω) − a)
//
// vectors B is row-major n × k, values Λ its eigenvalues, scale is s_L·Δt, and
// scratch holds 2k numbers. It reports whether Δz_Lie is finite; if not, step is
// left as it was.
func lieResidual(step, slope, vectors, values []float32, scale, gain float32, residual []float32, scratch []float64) bool {
	k := len(values)
	a, omega := scratch[:k], scratch[k:2*k]
	clear(scratch[:2*k])
	for i := range step {
		row := vectors[i*k : i*k+k]
		for j, b := range row {
			a[j] += float64(step[i]) * float64(b)
			omega[j] += float64(slope[i]) * float64(b)
		}
	}
	for j, v := range values {
		omega[j] *= float64(scale) / math.Sqrt(float64(v))
	}
	turn(a, omega)
	for i := range residual {
		sum := 0.0
		for j, b := range vectors[i*k : i*k+k] {
			sum += a[j] * float64(b)
		}
		residual[i] = float32(sum)
	}
	if !tensor.Finite(residual) {
		return false
	}
	for i, r := range residual {
		step[i] += gain * r
	}
	return true
}

// turn replaces a by Rot(a; ω) − a, block by block: leading blocks of three
// turn by the rotation vector (Rodrigues), a last block of two in its plane by
// the first component of its ω, a last block of one does not turn. The
// difference is formed directly, so that a small angle loses no digits.
func turn(a, omega []float64) {
	i := 0
	for ; i+3 <= len(a); i += 3 {
		w, v := [3]float64(omega[i:]), [3]float64(a[i:])
		first, second := rotationFactors(math.Sqrt(w[0]*w[0] + w[1]*w[1] + w[2]*w[2]))
		c := cross(w, v)
		cc := cross(w, c)
		for j := range 3 {
			a[i+j] = first*c[j] + second*cc[j]
		}
	}
	switch len(a) - i {
	case 2:
		sin, half := math.Sin(omega[i]), math.Sin(omega[i]/2)
		less := -2 * half * half // cos − 1
		a[i], a[i+1] = less*a[i]-sin*a[i+1], sin*a[i]+less*a[i+1]
	case 1:
		a[i] = 0
	}
}

// rotationFactors are sin θ/θ and (1 − cos θ)/θ².
func rotationFactors(theta float64) (first, second float64) {
	if theta < smallAngle {
		t := theta * theta
		return 1 - t/6 + t*t/120, 0.5 - t/24 + t*t/720
	}
	half := math.Sin(theta/2) / theta
	return math.Sin(theta) / theta, 2 * half * half
}

func cross(a, b [3]float64) [3]float64 {
	return [3]float64{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}

// compose replaces z by z ⊕ v (eq. final-update): log(exp(z_b)·exp(v_b)) on the
// group's leading blocks of three, which are rotation vectors and come back with
// length at most π, z + v on the rest.
func compose(z, v []float32, g backend.Group) {
	rotated := 3 * g.RotationBlocks
	for i := 0; i < rotated; i += 3 {
		r := logarithm(exponential(z[i:]).times(exponential(v[i:])))
		for j, x := range r {
			z[i+j] = float32(x)
		}
	}
	for i := rotated; i < len(z); i++ {
		z[i] += v[i]
	}
}

// quaternion is a unit quaternion (w, x, y, z).
type quaternion [4]float64

// exponential is the rotation by the first three entries of r as a rotation
// vector.
func exponential(r []float32) quaternion {
	x, y, z := float64(r[0]), float64(r[1]), float64(r[2])
	theta := math.Sqrt(x*x + y*y + z*z)
	t := theta * theta
	half := 0.5 - t/48 + t*t/3840 // sin(θ/2)/θ
	if theta >= smallAngle {
		half = math.Sin(theta/2) / theta
	}
	return quaternion{math.Cos(theta / 2), half * x, half * y, half * z}
}

// logarithm is the rotation vector of q, of length at most π. The angle is
// 2·atan2(‖v‖, w) of the representative with w ≥ 0, which loses no digits near 0
// nor near π.
func logarithm(q quaternion) [3]float64 {
	if q[0] < 0 {
		q = quaternion{-q[0], -q[1], -q[2], -q[3]}
	}
	length := math.Sqrt(q[1]*q[1] + q[2]*q[2] + q[3]*q[3])
	factor := 2 / q[0] // as θ → 0
	if length > 0 {
		factor = 2 * math.Atan2(length, q[0]) / length
	}
	return [3]float64{factor * q[1], factor * q[2], factor * q[3]}
}

// times is the Hamilton product: the rotation b followed by a.
func (a quaternion) times(b quaternion) quaternion {
	return quaternion{
		a[0]*b[0] - a[1]*b[1] - a[2]*b[2] - a[3]*b[3],
		a[0]*b[1] + a[1]*b[0] + a[2]*b[3] - a[3]*b[2],
		a[0]*b[2] - a[1]*b[3] + a[2]*b[0] + a[3]*b[1],
		a[0]*b[3] + a[1]*b[2] - a[2]*b[1] + a[3]*b[0],
	}
}
