package train

import (
	"github.com/gpc-engine/gpc/tensor"
)

// nearest returns the k nearest other rows of every row, ascending in distance,
// ties by index, and their squared distances.
func nearest(points tensor.Matrix, k int) (index []int32, dist2 []float32) {
	n := points.Rows
	index, dist2 = make([]int32, n*k), make([]float32, n*k)
	for i := range n {
		ids, ds, have := index[i*k:(i+1)*k], dist2[i*k:(i+1)*k], 0
		for j := range n {
			if j == i {
				continue
			}
			d := squaredDistance(points.Row(i), points.Row(j))
			if have == k && d >= ds[k-1] {
				continue
			}
			if have < k {
				have++
			}
			at := have - 1
			for at > 0 && ds[at-1] > d {
				ids[at], ds[at] = ids[at-1], ds[at-1]
				at--
			}
			ids[at], ds[at] = int32(j), d
		}
	}
	return index, dist2
}
