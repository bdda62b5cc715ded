package dense

import "slices"

// LU factors matrices A = LU with pivots in their order, none of which is chosen by size.
type LU struct {
	n       int
	a       []float64 // by rows: −L, whose diagonal is 1, and U
	inverse []float64 // of U's diagonal
}

// Resize has room for a matrix of n rows.
func (f *LU) Resize(n int) {
	f.n, f.a, f.inverse = n, slices.Grow(f.a[:0], n*n)[:n*n], slices.Grow(f.inverse[:0], n)[:n]
}

// Row is row i, to be written before Factor, which writes over it.
func (f *LU) Row(i int) []float64 { return f.a[i*f.n : (i+1)*f.n] }

// Factor factors the matrix. Where a pivot is 0 or no number, Solve gives none.
func (f *LU) Factor() {
	n := f.n
	for start := 0; start < n; start += group {
		end := min(start+group, n)
		for i := start; i < n; i++ {
			row, last := f.Row(i), end
			if i < end {
				last = n
			}
			for k := start; k < min(i, end); k++ {
				l := -float64(row[k] * f.inverse[k])
				row[k] = l
				for j, v := range f.Row(k)[k+1 : last] {
					row[k+1+j] += float64(l * v)
				}
			}
			if i < end {
				f.inverse[i] = 1 / row[i]
			}
		}
		for j := end; j < n; j += nearColumns {
			p := New(n-end, end-start, min(nearColumns, n-j)).Left(n).Right(n).Within(n).Into(n)
			p.Add(f.a[end*n+j:], f.a[end*n+start:], f.a[start*n+j:])
		}
	}
}

// Solve writes A⁻¹·x over x.
func (f *LU) Solve(x []float64) {
	for i := range f.n {
		x[i] += dot(f.Row(i)[:i], x)
	}
	for k := f.n - 1; k >= 0; k-- {
		x[k] = float64((x[k] - dot(f.Row(k)[k+1:], x[k+1:])) * f.inverse[k])
	}
}
