package dual

import (
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// factor overwrites a, [n][n] for n pivots, with its factors by elimination with row pivots,
// the diagonal inverted: step k exchanged rows k and pivot[k]. It reports whether a is regular.
func factor(a []float64, pivot []int) bool {
	n := len(pivot)
	for k := range n {
		largest := k
		for i := k + 1; i < n; i++ {
			if math.Abs(a[i*n+k]) > math.Abs(a[largest*n+k]) {
				largest = i
			}
		}
		pivot[k] = largest
		top := a[k*n : (k+1)*n]
		if largest != k {
			row := a[largest*n : (largest+1)*n]
			for j, v := range row {
				row[j], top[j] = top[j], v
			}
		}
		if v := top[k]; v == 0 || math.IsNaN(v) {
			return false
		}
		inverse := 1 / top[k]
		top[k] = inverse
		for i := k + 1; i < n; i++ {
			q := a[i*n+k] * inverse
			if a[i*n+k] = q; q != 0 {
				tensor.Axpy(-q, top[k+1:], a[i*n+k+1:])
			}
		}
	}
	return true
}

// substitute overwrites b, [n], with the solution of the equations that factor has factored.
func substitute(a []float64, pivot []int, b []float64) {
	n := len(b)
	for k, row := range pivot {
		b[k], b[row] = b[row], b[k]
	}
	for i := range n {
		b[i] -= tensor.DotInOrder(a[i*n:i*n+i], b)
	}
	for i := n - 1; i >= 0; i-- {
		b[i] = (b[i] - tensor.DotInOrder(a[i*n+i+1:(i+1)*n], b[i+1:])) * a[i*n+i]
	}
}
