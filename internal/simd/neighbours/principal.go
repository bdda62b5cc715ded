package neighbours

import (
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

const (
	// mostAxes bound leaves: sixteen numbers are one register, and hold most of the
	// spread of points that lie near a manifold.
	mostAxes = lanes
	// principalSample bounds the points from which the axes are estimated, and
	// principalRounds the iterations: any axes are correct, good ones prune better.
	principalSample = 2048
	principalRounds = 8
)

// principal are orthonormal axes along which points spread most. A point's coordinates
// along them are never farther apart than the points.
type principal struct {
	axes           int
	mean           []float32 // [stride]
	directions     []float32 // [stride][mostAxes]: of every coordinate, its share in each axis
	per, magnitude float64   // see slack
}

// newPrincipal estimates the axes by orthogonal iteration on an evenly spaced sample,
// from the coordinates of largest variance.
func newPrincipal(points tensor.Matrix, stride int) *principal {
	dim := points.Cols
	p := &principal{axes: min(dim, mostAxes), mean: make([]float32, stride), directions: make([]float32, stride*mostAxes)}
	step := max(1, points.Rows/principalSample)
	var sample [][]float64
	mean, variance := make([]float64, dim), make([]float64, dim)
	for i := 0; i < points.Rows; i += step {
		row := make([]float64, dim)
		tensor.Widen(row, points.Row(i))
		tensor.Axpy(1, row, mean)
		sample = append(sample, row)
	}
	for j := range mean {
		mean[j] /= float64(len(sample))
	}
	tensor.Narrow(p.mean, mean)
	for _, row := range sample {
		for j := range row {
			row[j] -= mean[j]
			variance[j] += row[j] * row[j]
		}
	}
	axes, next := make([][]float64, p.axes), make([][]float64, p.axes)
	for a := range axes {
		axes[a], next[a] = make([]float64, dim), make([]float64, dim)
		widest := 0
		for j, v := range variance {
			if v > variance[widest] {
				widest = j
			}
		}
		axes[a][widest] = 1
		variance[widest] = -1
	}
	for range principalRounds {
		for a, axis := range axes {
			clear(next[a])
			for _, row := range sample {
				tensor.Axpy(tensor.Dot(axis, row), row, next[a])
			}
		}
		for a, n := range next {
			size := math.Sqrt(tensor.Dot(n, n))
			for range 2 { // the second time takes away what rounding has left
				for _, axis := range axes[:a] {
					tensor.Axpy(-tensor.Dot(axis, n), axis, n)
				}
			}
			// An axis without spread, or within those before, is left out.
			if norm := math.Sqrt(tensor.Dot(n, n)); norm > 1e-9*size && !math.IsInf(norm, 0) {
				for j, v := range n {
					axes[a][j] = v / norm
				}
			} else {
				clear(axes[a])
			}
		}
	}
	for a, axis := range axes {
		for j, v := range axis {
			p.directions[j*mostAxes+a] = float32(v)
		}
	}
	p.per = math.Sqrt(float64(mostAxes*dim)) * float64(dim+4) * 0x1p-24
	p.magnitude = float64(magnitude(p.mean))
	for i := range points.Rows {
		p.magnitude = max(p.magnitude, float64(magnitude(points.Row(i))))
	}
	return p
}

// slack bounds what rounding adds to the distance, along the axes, of a point with this
// largest coordinate from one of the index: a sum of dim products errs by dim + 2 half
// units of ‖x − mean‖ ≤ √dim·(|x| + |mean|), for each axis and both points.
func (p *principal) slack(largest float32) float64 {
	return p.per * (float64(largest) + 3*p.magnitude)
}
