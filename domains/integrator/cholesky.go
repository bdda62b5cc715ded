package integrator

import "math"

// factor overwrites the lower triangle of the n × n matrix m (row stride
// maxVariables) with L of m = L·Lᵀ, and reports false where m is not
// numerically positive definite (m is then destroyed).
func factor(m *[maxVariables * maxVariables]float64, n int) bool {
	for i := range n {
		row := m[i*maxVariables : i*maxVariables+i+1]
		for j := range i {
			other := m[j*maxVariables : j*maxVariables+j+1]
			row[j] = (row[j] - dot(row[:j], other[:j])) * other[j]
		}
		pivot := row[i]
		rest := pivot - dot(row[:i], row[:i])
		if !(rest > 1e-13*math.Abs(pivot)) {
			return false
		}
		// The diagonal holds 1/L_ii: one division a row.
		row[i] = 1 / math.Sqrt(rest)
	}
	return true
}

// solve replaces b by the solution of L·Lᵀ·x = b, L as factor leaves it.
func solve(l *[maxVariables * maxVariables]float64, n int, b []float64) {
	for i := range n {
		row := l[i*maxVariables : i*maxVariables+i+1]
		b[i] = (b[i] - dot(row[:i], b[:i])) * row[i]
	}
	for i := n - 1; i >= 0; i-- {
		row := l[i*maxVariables : i*maxVariables+i+1]
		x := b[i] * row[i]
		b[i] = x
		for j, r := range row[:i] {
			b[j] -= x * r
		}
	}
}

// dot is the inner product of two slices of equal length, in four partial sums.
func dot(a, b []float64) float64 {
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
