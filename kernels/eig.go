package kernels

import (
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

// EigTopK implements backend.Backend for n ≤ MaxLatent.
func (b *Backend) EigTopK(g tensor.Matrix, n, k int, values, vectors tensor.Matrix) error {
	if err := backend.CheckEigTopK(g, n, k, values, vectors); err != nil {
		return err
	}
	if n > MaxLatent {
		return tooWide("EigTopK", "n", n, MaxLatent)
	}
	return b.execute(func(t *driver.Thread) error {
		return rowsOf(g.Rows, mostRows, func(from, to int) error {
			rows := to - from
			var l layoutOf
			input, w, v := l.floats(rows*n*n, true), l.floats(rows*k, true), l.floats(rows*n*k, true)
			s := &b.shared
			if err := s.fit(t, &l, &input, &w, &v); err != nil {
				return err
			}
			q := b.queue(t)
			ld := s.upload(q, g, from, to, input)
			q.eig(rows, n, k, input.device, ld, w.device, v.device)
			s.get(q, w, rows*k)
			s.get(q, v, rows*n*k)
			if err := q.wait(); err != nil {
				return err
			}
			s.give(values, from, to, w)
			s.give(vectors, from, to, v)
			return nil
		})
	})
}

// eigSmall is the largest matrix that gpc_eig_32 holds in registers.
const eigSmall = 32

// eigShared is the shared memory of a matrix in gpc_eig_32 and gpc_eig: reflections or the
// matrix, the scales of the reflections, the tridiagonal form, which takes the last reflections'
// places where there are 32, eigenvalues and which are close, the factorisations of up to 8
// shifts, and vectors with an entry more behind and, of more than 8, before them.
func eigShared(n, k int) int {
	matrix, most, form := quads(n*(n|1)), MaxLatent, 2*MaxLatent
	if n <= eigSmall {
		matrix, most, form = eigSmall*eigSmall, eigSmall, 0
	}
	return 4 * quads(matrix+2*most+form+4+max(4*n*min(k, 8), 64)+max(k-8, 0)+(n+1)*k)
}

// eigWarps is how many matrices of a batch are a block, which iterates their vectors
// together; of few each has a multiprocessor.
func (b *Backend) eigWarps(rows, n, k int) int {
	if n > eigSmall || rows < 4*b.device.Multiprocessors || 4*eigShared(n, k) > b.device.SharedPerBlock {
		return 1
	}
	return 4
}

// eig queues the k largest eigenpairs of matrices ld apart.
func (q *queue) eig(rows, n, k int, g driver.Pointer, ld int, values, vectors driver.Pointer) {
	entry := "gpc_eig"
	if n <= eigSmall {
		entry = "gpc_eig_32"
	}
	warps := q.eigWarps(rows, n, k)
	shared := warps * eigShared(n, k)
	q.needs(func(*trace) work {
		resident := max(1, min(32/warps, q.device.SharedPerBlock/shared))
		matrices := min(ceil(rows, max(q.device.Multiprocessors, 1)), resident*warps) // matrices of a multiprocessor
		return work{cycles: eigCycles(n, k, matrices), resident: resident}
	})
	q.launch(entry, driver.Dim{X: ceil(rows, warps)}, 32*warps, shared,
		driver.Address(g), driver.Int64(ld), driver.Int32(rows), driver.Int32(n), driver.Int32(k), driver.Address(values), driver.Int64(k), driver.Address(vectors), driver.Int64(n*k))
}
