package ref

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/tensor"
)

// EigTopK returns the k largest eigenvalues of the symmetric n×n row-major
// matrix g, descending, and their eigenvectors as the columns of a row-major
// n×k matrix, each of unit length with its largest-magnitude entry positive (the
// first such entry on a tie). Of a matrix that is not exactly symmetric the
// symmetric part is taken. A non-finite entry, or a failure of the
// eigensolver, gives NaN values and zero vectors.
func EigTopK(g []float64, n, k int) (values, vectors []float64) {
	values, vectors = make([]float64, k), make([]float64, n*k)
	sym := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			sym.SetSym(i, j, (g[i*n+j]+g[j*n+i])/2)
		}
	}
	var eig mat.EigenSym
	if !tensor.Finite(g) || !eig.Factorize(sym, true) {
		tensor.Fill(values, math.NaN())
		return values, vectors
	}
	ascending := eig.Values(nil)
	var basis mat.Dense
	eig.VectorsTo(&basis)
	for j := range k {
		column := n - 1 - j
		values[j] = ascending[column]
		largest, sign := 0.0, 1.0
		for i := range n {
			if v := basis.At(i, column); math.Abs(v) > largest {
				largest, sign = math.Abs(v), math.Copysign(1, v)
			}
		}
		for i := range n {
			vectors[i*k+j] = sign * basis.At(i, column)
		}
	}
	return values, vectors
}
