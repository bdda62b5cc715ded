package tensor

import "math"

// Narrow copies float64 src into float32 dst, element by element.
func Narrow(dst []float32, src []float64) {
	for i, v := range src {
		dst[i] = float32(v)
	}
}

// Widen copies float32 src into float64 dst, element by element.
func Widen(dst []float64, src []float32) {
	for i, v := range src {
		dst[i] = float64(v)
	}
}

// Fill makes x every entry of v.
func Fill[T any](v []T, x T) {
	for i := range v {
		v[i] = x
	}
}

// Finite reports whether no entry is NaN or infinite.
func Finite[T float32 | float64](v []T) bool {
	for _, x := range v {
		if x-x != 0 {
			return false
		}
	}
	return true
}

// SameBits reports whether the entries of a are those of b bit by bit, which tells the zeros
// apart and makes a NaN itself; b is at least as long as a.
func SameBits(a, b []float64) bool {
	for i, v := range a {
		if math.Float64bits(v) != math.Float64bits(b[i]) {
			return false
		}
	}
	return true
}

// Dot is Σ a_j b_j over the length of a, in four partial sums.
func Dot(a, b []float64) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

// DotInOrder is Σ a_j b_j over the length of a, summed from the first entry to the last.
func DotInOrder(a, b []float64) float64 {
	b = b[:len(a)]
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// AllZero reports whether every entry is 0.
func AllZero(v []float64) bool {
	for _, x := range v {
		if x != 0 {
			return false
		}
	}
	return true
}

// Axpy adds v·x to y, which is at least as long as x.
func Axpy(v float64, x, y []float64) {
	y = y[:len(x)]
	for i, w := range x {
		y[i] += v * w
	}
}

// SquaredDistance is ‖a − b‖², summed in float64 from the first entry to the last; b
// is at least as long as a.
func SquaredDistance(a, b []float32) float64 {
	sum := 0.0
	for i, v := range a {
		d := float64(v) - float64(b[i])
		sum += d * d
	}
	return sum
}
