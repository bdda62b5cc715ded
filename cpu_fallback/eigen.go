package cpufallback

import (
	"github.com/gpc-engine/gpc/cpu_fallback/internal/eig"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// eigenGroups is how many register-wide groups of matrices make one chunk of
// EigTopK: enough that handing it out costs nothing.
const eigenGroups = 2

// eigenState is the workspace of EigTopK, kept between calls of one size.
type eigenState struct {
	n, k            int
	solvers         []*eig.Solver // one per worker
	g               tensor.Matrix
	values, vectors tensor.Matrix
	run             func(worker, chunk int)
}

// EigTopK implements backend.Backend. The workspace is kept for the next call of
// the same n and k, which then allocates nothing. The bits of a result depend
// only on its matrix, not on its place, its batch or the number of threads.
func (b *Backend) EigTopK(g tensor.Matrix, n, k int, values, vectors tensor.Matrix) error {
	if err := backend.CheckEigTopK(g, n, k, values, vectors); err != nil {
		return err
	}
	if g.Rows == 0 {
		return nil
	}
	e := &b.eigen
	if e.n != n || e.k != k {
		*e = eigenState{n: n, k: k}
		for range b.pool.Threads() {
			e.solvers = append(e.solvers, eig.New(b.level, n, k))
		}
		rows := eigenGroups * e.solvers[0].Lanes()
		e.run = func(worker, chunk int) {
			start := chunk * rows
			m := min(rows, e.g.Rows-start)
			e.solvers[worker].TopK(e.g.Data[start*e.g.Stride:], e.g.Stride, m,
				e.values.Data[start*e.values.Stride:], e.values.Stride,
				e.vectors.Data[start*e.vectors.Stride:], e.vectors.Stride)
		}
	}
	e.g, e.values, e.vectors = g, values, vectors
	rows := eigenGroups * e.solvers[0].Lanes()
	b.pool.Run((g.Rows+rows-1)/rows, e.run)
	e.g, e.values, e.vectors = tensor.Matrix{}, tensor.Matrix{}, tensor.Matrix{}
	return nil
}
