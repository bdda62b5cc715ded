package estimate

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// errorSet is the set of errors with stated bounds, e = Σ_j g_j ξ_j with every |ξ_j| ≤ 1. It is a zonotope, which the gains
// of the filter move as they do in C. Combastel, "Zonotopes and Kalman observers" (2015). A column is g_j, [2n]: the error of
// the estimate, then the estimate's deviation from a plan under the same ξ_j.
type errorSet struct {
	n       int
	columns [][]float64 // [2n] each
	spare   [][]float64 // have been columns
	image   []float64
	box     []float64
}

// mostColumns of each entry are kept by a filter; a sum of more is enclosed in one of fewer.
const mostColumns = 12

func newErrorSet(n int) *errorSet {
	return &errorSet{n: n, image: make([]float64, 2*n), box: make([]float64, n)}
}

// column appends one of zeros.
func (b *errorSet) column() []float64 {
	var g []float64
	if last := len(b.spare) - 1; last >= 0 {
		g, b.spare = b.spare[last], b.spare[:last]
		clear(g)
	} else {
		g = make([]float64, 2*b.n)
	}
	b.columns = append(b.columns, g)
	return g
}

// cut leaves the first columns.
func (b *errorSet) cut(count int) {
	b.spare = append(b.spare, b.columns[count:]...)
	b.columns = b.columns[:count]
}

// add adds a box of half widths to what the errors may be.
func (b *errorSet) add(widths []float64) {
	for i, v := range widths {
		if v != 0 {
			b.column()[i] = math.Abs(v)
		}
	}
}

// copyOf makes the set that of a filter, nothing off the plan.
func (b *errorSet) copyOf(source *errorSet) {
	b.cut(0)
	for _, g := range source.columns {
		copy(b.column()[:b.n], g[:b.n])
	}
}

// move is a step of derivatives a, [n][n] in rows of row numbers. closed are the derivatives under the feedback, which
// move the deviation from a plan.
func (b *errorSet) move(a []float64, row int, closed []float64) {
	n := b.n
	for _, g := range b.columns {
		clear(b.image)
		for i := range n {
			b.image[i] = tensor.Dot(a[i*row:i*row+n], g[:n])
			if closed != nil {
				b.image[n+i] = tensor.Dot(closed[i*n:(i+1)*n], g[n:])
			}
		}
		copy(g, b.image)
	}
}

// tell takes what an output of derivatives h, whose error is at most bound, tells through a gain.
func (b *errorSet) tell(h, gain []float64, bound float64) {
	for _, g := range b.columns {
		tensor.Axpy(-tensor.Dot(h, g[:b.n]), gain, g[:b.n])
	}
	tensor.Axpy(-bound, gain, b.column()[:b.n])
}

// addEstimate adds a multiple of the estimate to the deviation from the plan: 1 before an output is used, −1 after it.
func (b *errorSet) addEstimate(factor float64) {
	for _, g := range b.columns {
		tensor.Axpy(factor, g[:b.n], g[b.n:])
	}
}

// most is the largest of |hᵀe + wᵀd|.
func (b *errorSet) most(h, w []float64) (sum float64) {
	for _, g := range b.columns {
		sum += math.Abs(tensor.Dot(h, g[:b.n]) + tensor.Dot(w, g[b.n:]))
	}
	return sum
}

// enclose replaces the least columns by a box where there are too many, sizes in units of scale.
func (b *errorSet) enclose(scale []float64) {
	if len(b.columns) <= mostColumns*b.n {
		return
	}
	size := func(g []float64) (sum float64) {
		for i, v := range g[:b.n] {
			sum += math.Abs(v) / scale[i]
		}
		return sum
	}
	slices.SortStableFunc(b.columns, func(x, y []float64) int { return cmp.Compare(size(y), size(x)) })
	clear(b.box)
	count := (mostColumns - 1) * b.n
	for _, g := range b.columns[count:] {
		for i, v := range g[:b.n] {
			b.box[i] += math.Abs(v)
		}
	}
	b.cut(count)
	b.add(b.box)
}

// widths are bounds of errors of these deviations.
func widths(deviations []float64) []float64 {
	out := slices.Clone(deviations)
	for i := range out {
		out[i] *= domain.UniformBound
	}
	return out
}
