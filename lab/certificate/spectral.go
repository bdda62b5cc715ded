package certificate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// singularValues returns the singular values of a row-major rows × cols matrix,
// descending, each row scaled by scale (nil: 1).
func singularValues(data []float32, rows, cols int, scale []float32) ([]float64, error) {
	d := mat.NewDense(rows, cols, nil)
	for i := range rows {
		k := 1.0
		if scale != nil {
			k = float64(scale[i])
		}
		for j := range cols {
			v := k * float64(data[i*cols+j])
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("certificate: a Jacobian has the entry %v at (%d, %d)", v, i, j)
			}
			d.Set(i, j, v)
		}
	}
	var svd mat.SVD
	if !svd.Factorize(d, mat.SVDNone) {
		return nil, fmt.Errorf("certificate: the singular values of a %d×%d matrix did not converge", rows, cols)
	}
	return svd.Values(nil), nil
}

// layerBound is Π‖W_l‖₂, an upper bound of a ReLU network's Lipschitz constant;
// the last layer's rows are scaled by scale (nil: 1).
func layerBound(mlp *model.MLP, scale []float32) (float64, error) {
	bound := 1.0
	for i, l := range mlp.Layers {
		var s []float32
		if i == len(mlp.Layers)-1 {
			s = scale
		}
		v, err := singularValues(l.W.Data, l.W.Rows, l.W.Cols, s)
		if err != nil {
			return 0, err
		}
		bound *= v[0]
	}
	return bound, nil
}

// extremes are the largest and, for the given ranks, smallest singular values of
// a network's Jacobian over points.
type extremes struct {
	largest   float64
	injective float64 // min over points of the n-th singular value, 0 if m < n
	rowSpace  float64 // min over points of the min(m, n)-th singular value
}

// jacobianExtremes samples the Jacobian [m×n] of net at every row of z.
func jacobianExtremes(net backend.Net, m int, z tensor.Matrix, scale []float32) (extremes, error) {
	n := z.Cols
	jac := tensor.New(z.Rows, m*n)
	if err := net.Jacobian(z, jac); err != nil {
		return extremes{}, err
	}
	e := extremes{injective: math.Inf(1), rowSpace: math.Inf(1)}
	for i := range z.Rows {
		v, err := singularValues(jac.Row(i), m, n, scale)
		if err != nil {
			return extremes{}, err
		}
		e.largest = math.Max(e.largest, v[0])
		e.rowSpace = math.Min(e.rowSpace, v[len(v)-1])
	}
	e.injective = e.rowSpace
	if m < n {
		e.injective = 0
	}
	return e, nil
}

// bending is the normal curvature of M* over the neighbours of its codes.
type bending struct {
	largest, p95 float64
	dimension    int // of the tangent space
}

// curvature estimates the second fundamental form of M* at codes from their neighbours. The leading principal
// directions of the neighbours around a code span its tangent space. A neighbour at tangent offset t and normal offset
// ν lies on a surface of normal curvature 2‖ν‖/‖t‖². The result has the largest and the 95th percentile over all
// neighbours. Its dimension is the median number of directions that hold tangentEnergy of the squared offsets.
func curvature(index backend.Index, codes tensor.Matrix, samples, neighbours int) (bending, error) {
	n, nz := codes.Rows, codes.Cols
	samples, k := min(samples, n), min(neighbours+1, n)
	if k < 3 {
		return bending{math.NaN(), math.NaN(), 0}, nil
	}
	query := tensor.New(samples, nz)
	for i := range samples {
		copy(query.Row(i), codes.Row(i*n/samples))
	}
	idx := make([]int32, samples*k)
	if err := index.Nearest(query, k, idx, make([]float32, samples*k)); err != nil {
		return bending{}, err
	}
	var frames []*mat.Dense // neighbours in principal coordinates
	var dimensions []float64
	for i := range samples {
		offsets := mat.NewDense(k-1, nz, nil)
		row := 0
		for _, j := range idx[i*k : (i+1)*k] {
			if int(j) == i*n/samples || row == k-1 || j < 0 {
				continue
			}
			for c, v := range codes.Row(int(j)) {
				offsets.Set(row, c, float64(v)-float64(query.Row(i)[c]))
			}
			row++
		}
		var svd mat.SVD
		if !svd.Factorize(offsets, mat.SVDThin) {
			return bending{}, fmt.Errorf("certificate: the neighbours of a code have no singular values")
		}
		var v, rotated mat.Dense
		svd.VTo(&v)
		rotated.Mul(offsets, &v)
		frames = append(frames, &rotated)
		dimensions = append(dimensions, float64(principal(svd.Values(nil))))
	}
	dimension := int(quantile(dimensions, 0.5))
	var kappa []float64
	for _, offsets := range frames {
		rows, cols := offsets.Dims()
		for r := range rows {
			t, nu := 0.0, 0.0
			for c := range cols {
				if x := offsets.At(r, c); c < dimension {
					t += x * x
				} else {
					nu += x * x
				}
			}
			if t > 0 {
				kappa = append(kappa, 2*math.Sqrt(nu)/t)
			}
		}
	}
	if len(kappa) == 0 {
		return bending{math.NaN(), math.NaN(), dimension}, nil
	}
	return bending{quantile(kappa, 1), quantile(kappa, 0.95), dimension}, nil
}

// tangentEnergy is the share of squared offsets that the tangent space holds.
const tangentEnergy = 0.95

// principal counts the singular values that hold tangentEnergy.
func principal(values []float64) int {
	total, sum := tensor.DotInOrder(values, values), 0.0
	for i, v := range values {
		if sum += v * v; sum >= tangentEnergy*total {
			return i + 1
		}
	}
	return len(values)
}
