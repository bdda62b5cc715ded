package integrator

import (
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// factor overwrites the lower triangle of the n × n matrix m (row stride
// maxVariables) with L of m = L·Lᵀ, and reports false where m is not
// numerically positive definite (m is then destroyed).
func factor(m *[maxVariables * maxVariables]float64, n int) bool {
	for i := range n {
		row := m[i*maxVariables : i*maxVariables+i+1]
		for j := range i {
			other := m[j*maxVariables : j*maxVariables+j+1]
			row[j] = (row[j] - tensor.Dot(row[:j], other[:j])) * other[j]
		}
		pivot := row[i]
		rest := pivot - tensor.Dot(row[:i], row[:i])
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
		b[i] = (b[i] - tensor.Dot(row[:i], b[:i])) * row[i]
	}
	for i := n - 1; i >= 0; i-- {
		row := l[i*maxVariables : i*maxVariables+i+1]
		x := b[i] * row[i]
		b[i] = x
		tensor.Axpy(-x, row[:i], b)
	}
}
