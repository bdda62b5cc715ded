package train

import (
	"runtime"

	"github.com/gpc-engine/gpc/internal/simd/neighbours"
	"github.com/gpc-engine/gpc/tensor"
)

// nearest returns the k nearest other rows of every row, ascending in distance,
// ties by index, and their squared distances. k must be below the number of
// rows.
func nearest(points tensor.Matrix, k int) (index []int32, dist2 []float32, err error) {
	ix, err := neighbours.New(points, neighbours.Threads(runtime.GOMAXPROCS(0)), 0)
	if err != nil {
		return nil, nil, err
	}
	n := points.Rows
	// One more than wanted: the row itself is among them, unless k other rows
	// coincide with it; then the last is as good as any and goes instead.
	ids, d := make([]int32, n*(k+1)), make([]float32, n*(k+1))
	if err := ix.Nearest(points, k+1, ids, d); err != nil {
		return nil, nil, err
	}
	index, dist2 = ids[:n*k], d[:n*k]
	for i := range n {
		to := i * k
		from := i * (k + 1)
		for j := from; j < from+k+1 && to < (i+1)*k; j++ {
			if ids[j] != int32(i) {
				index[to], dist2[to] = ids[j], d[j]
				to++
			}
		}
	}
	return index, dist2, nil
}
