package dense

// LU factors matrices A = LU with pivots in their order, none of which is chosen by size.
type LU struct {
	n, stride int
	a         []float64 // by rows: −L, whose diagonal is 1, and U
	inverse   []float64 // of U's diagonal
}

// Resize has room for a matrix of n rows, whose first rows and columns are those before.
func (f *LU) Resize(n int) {
	if n > f.stride {
		larger := LU{stride: max(n, 2*f.stride)}
		larger.a, larger.inverse = make([]float64, larger.stride*larger.stride), make([]float64, larger.stride)
		for i := range f.n {
			copy(larger.a[i*larger.stride:], f.Row(i))
		}
		copy(larger.inverse, f.inverse)
		*f = larger
	}
	f.n = n
}

// Row is row i, to be written before Factor, which writes over it.
func (f *LU) Row(i int) []float64 { return f.a[i*f.stride : i*f.stride+f.n] }

// Factor factors the matrix, of which the first rows and columns may be factored already. Of those rows the other columns alone
// are to be written. Where a pivot is 0 or no number, Solve gives none.
func (f *LU) Factor(factored int) {
	n := f.n
	for start := 0; start < n; start += group {
		end := min(start+group, n)
		for i := start; i < n; i++ {
			row, last := f.Row(i), end
			if i < end {
				last = n
			} else if i = max(i, factored); i == n {
				break
			} else {
				row = f.Row(i)
			}
			for k := start; k < min(i, end); k++ {
				first := factored
				if i >= factored {
					row[k], first = -float64(row[k]*f.inverse[k]), k+1
				}
				l := row[k]
				for j, v := range f.Row(k)[first:last] {
					row[first+j] += float64(l * v)
				}
			}
			if i < end {
				f.inverse[i] = 1 / row[i]
			}
		}
		f.take(start, end, end, factored, max(end, factored))
		f.take(start, end, max(end, factored), n, end)
	}
}

// take takes the rows of a group from others, in the columns from one on.
func (f *LU) take(start, end, first, last, column int) {
	for j := column; j < f.n && first < last; j += nearColumns {
		p := New(last-first, end-start, min(nearColumns, f.n-j)).Left(f.stride).Right(f.stride).Within(f.stride).Into(f.stride)
		p.Add(f.a[first*f.stride+j:], f.a[first*f.stride+start:], f.a[start*f.stride+j:])
	}
}

// Solve writes A⁻¹·x over x.
func (f *LU) Solve(x []float64) {
	f.Lower(x, 0)
	f.Upper(x)
}

// Lower writes L⁻¹·x over x, of which the first numbers may be written already.
func (f *LU) Lower(x []float64, written int) {
	for i := written; i < f.n; i++ {
		x[i] += dot(f.Row(i)[:i], x)
	}
}

// Upper writes U⁻¹·x over x.
func (f *LU) Upper(x []float64) {
	for k := f.n - 1; k >= 0; k-- {
		x[k] = float64((x[k] - dot(f.Row(k)[k+1:], x[k+1:])) * f.inverse[k])
	}
}

// UpperTransposed writes U⁻ᵀ·x over x, of which the first numbers may be written already.
func (f *LU) UpperTransposed(x []float64, written int) {
	for k := range f.n {
		if k >= written {
			x[k] = float64(x[k] * f.inverse[k])
		}
		first := max(k+1, written)
		for j, u := range f.Row(k)[first:] {
			x[first+j] -= float64(u * x[k])
		}
	}
}
