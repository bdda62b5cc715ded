package ref

import "math"

// smallAngle is the rotation angle below which sin θ/θ and its kin are taken
// from their Taylor series; at it the first dropped term is below float64's
// rounding.
const smallAngle = 1e-3

// Rodrigues rotates v by the rotation vector w (axis times angle, radian):
//
//	R(w) v = v cos θ + (w×v) sin θ/θ + w (w·v)(1 − cos θ)/θ²,  θ = ‖w‖
func Rodrigues(w, v [3]float64) [3]float64 {
	theta2 := w[0]*w[0] + w[1]*w[1] + w[2]*w[2]
	theta := math.Sqrt(theta2)
	var sinc, cosc float64 // sin θ/θ, (1 − cos θ)/θ²
	if theta < smallAngle {
		sinc = 1 - theta2/6 + theta2*theta2/120
		cosc = 0.5 - theta2/24 + theta2*theta2/720
	} else {
		sinc = math.Sin(theta) / theta
		half := math.Sin(theta/2) / theta
		cosc = 2 * half * half
	}
	c := math.Cos(theta)
	wv := w[0]*v[0] + w[1]*v[1] + w[2]*v[2]
	return [3]float64{
		c*v[0] + sinc*(w[1]*v[2]-w[2]*v[1]) + cosc*wv*w[0],
		c*v[1] + sinc*(w[2]*v[0]-w[0]*v[2]) + cosc*wv*w[1],
		c*v[2] + sinc*(w[0]*v[1]-w[1]*v[0]) + cosc*wv*w[2],
	}
}

// Rotate turns local, block by block, by the rotation vectors in angle: leading
// blocks of three by Rodrigues, a remaining block of two in its plane,
// counter-clockwise by the first component of its angle, a remaining block of
// one is left (DESIGN §4.4).
func Rotate(local, angle []float64) []float64 {
	out := append([]float64(nil), local...)
	i := 0
	for ; i+3 <= len(local); i += 3 {
		r := Rodrigues([3]float64(angle[i:i+3]), [3]float64(local[i:i+3]))
		copy(out[i:], r[:])
	}
	if i+2 == len(local) {
		sin, cos := math.Sincos(angle[i])
		out[i] = cos*local[i] - sin*local[i+1]
		out[i+1] = sin*local[i] + cos*local[i+1]
	}
	return out
}

// LieResidual is Δz_Lie of eq. iclr-lie-residual:
//
//	ω = (Bᵀ slope) ⊘ √Λ
//	Δz_Lie = B [Rot(Bᵀ step; scale·ω) − Bᵀ step]
//
// vectors B is row-major n×k, values Λ its k eigenvalues; slope is k_2 of the
// online step, and scale is s_L·Δt. The result may be non-finite (a zero
// eigenvalue); the caller guards it.
func LieResidual(step, slope, vectors, values []float64, scale float64) []float64 {
	k := len(values)
	local, angle := make([]float64, k), make([]float64, k)
	for i := range step {
		axpy(local, step[i], vectors[i*k:(i+1)*k])
		axpy(angle, slope[i], vectors[i*k:(i+1)*k])
	}
	for j := range angle {
		angle[j] *= scale / math.Sqrt(values[j])
	}
	turned := sub(Rotate(local, angle), local)
	residual := make([]float64, len(step))
	for i := range residual {
		residual[i] = dot(vectors[i*k:(i+1)*k], turned)
	}
	return residual
}

// Quaternion is a unit quaternion (w, x, y, z).
type Quaternion [4]float64

// ExpSO3 is the exponential map of SO(3): the unit quaternion of a rotation
// vector.
func ExpSO3(r [3]float64) Quaternion {
	theta := math.Sqrt(r[0]*r[0] + r[1]*r[1] + r[2]*r[2])
	half := 0.5 - theta*theta/48 + theta*theta*theta*theta/3840 // sin(θ/2)/θ
	if theta >= smallAngle {
		half = math.Sin(theta/2) / theta
	}
	return Quaternion{math.Cos(theta / 2), half * r[0], half * r[1], half * r[2]}
}

// LogSO3 is the inverse of ExpSO3 with ‖r‖ ≤ π. The angle is 2 atan2(‖v‖, w) of
// the representative with w ≥ 0, which loses no digits near 0 nor near π.
func LogSO3(q Quaternion) [3]float64 {
	if q[0] < 0 {
		q = Quaternion{-q[0], -q[1], -q[2], -q[3]}
	}
	length := math.Sqrt(q[1]*q[1] + q[2]*q[2] + q[3]*q[3])
	factor := 2 / q[0] // θ/sin(θ/2) as θ → 0
	if length > 0 {
		factor = 2 * math.Atan2(length, q[0]) / length
	}
	return [3]float64{factor * q[1], factor * q[2], factor * q[3]}
}

// Mul is the Hamilton product: the rotation b followed by a.
func (a Quaternion) Mul(b Quaternion) Quaternion {
	return Quaternion{
		a[0]*b[0] - a[1]*b[1] - a[2]*b[2] - a[3]*b[3],
		a[0]*b[1] + a[1]*b[0] + a[2]*b[3] - a[3]*b[2],
		a[0]*b[2] - a[1]*b[3] + a[2]*b[0] + a[3]*b[1],
		a[0]*b[3] + a[1]*b[2] - a[2]*b[1] + a[3]*b[0],
	}
}

// Compose is z ⊕ v (eq. final-update): the leading rotationBlocks blocks of
// three are rotation vectors, composed as log(exp(z_b) exp(v_b)), with a result
// of length ≤ π; the rest is z + v. With rotation blocks, z ⊕ 0 is z with each
// rotation vector brought to length ≤ π.
func Compose(z, v []float64, rotationBlocks int) []float64 {
	out := append([]float64(nil), z...)
	axpy(out, 1, v)
	for b := range rotationBlocks {
		i := 3 * b
		r := LogSO3(ExpSO3([3]float64(z[i : i+3])).Mul(ExpSO3([3]float64(v[i : i+3]))))
		copy(out[i:], r[:])
	}
	return out
}
