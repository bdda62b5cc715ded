package dense

// LDL factors symmetric matrices A = LDLᵀ with pivots in their order, none of which is chosen by size: those that are
// positive definite, and others whose pivots keep their digits.
type LDL struct {
	n        int
	a        []float64 // by rows: D and the rows of D·Lᵀ from the diagonal on, and before it those of −L
	inverse  []float64 // of D
	negative int
}

// NewLDL has room for matrices of n rows.
func NewLDL(n int) *LDL { return &LDL{n: n, a: make([]float64, n*n), inverse: make([]float64, n)} }

// Row is row i from the diagonal on, to be written before Factor, which writes over it.
func (f *LDL) Row(i int) []float64 { return f.a[i*f.n+i : (i+1)*f.n] }

// Factor factors the matrix and returns how many pivots are not positive. Where one is 0 or no number, Solve gives none.
func (f *LDL) Factor() (notPositive int) {
	f.negative = 0
	f.factor(0, f.n)
	return f.negative
}

// factor factors rows that those before have been taken from, the second half after the first.
func (f *LDL) factor(from, to int) {
	if to-from <= group {
		f.pivots(from, to)
		return
	}
	middle := from + ((to-from)/2+group-1)/group*group
	f.factor(from, middle)
	f.take(from, middle, to)
	f.factor(middle, to)
}

// A product of so many terms and columns reads its right factor from the nearest cache.
const nearTerms, nearColumns = 64, 32

// take takes the rows before the middle from those behind it. In blocks on the diagonal, entries before it are written that
// pivots writes later.
func (f *LDL) take(from, middle, to int) {
	n := f.n
	for k := from; k < middle; k += nearTerms {
		for j := middle; j < n; j += nearColumns {
			columns := min(nearColumns, n-j)
			p := New(min(to, j+columns)-middle, min(nearTerms, middle-k), columns).Left(n).Right(n).Within(n).Into(n)
			p.Add(f.a[middle*n+j:], f.a[middle*n+k:], f.a[k*n+j:])
		}
	}
}

// pivots factors a few rows.
func (f *LDL) pivots(from, to int) {
	n := f.n
	for k := from; k < to; k++ {
		row := f.a[k*n : (k+1)*n]
		if !(row[k] > 0) {
			f.negative++
		}
		f.inverse[k] = 1 / row[k]
		for i := k + 1; i < to; i++ {
			l, tail, other := float64(row[i]*f.inverse[k]), row[i:], f.a[i*n+i:(i+1)*n]
			for j, v := range tail[:len(other)] {
				other[j] -= float64(l * v)
			}
		}
	}
	for i := from + 1; i < n; i++ {
		for k := from; k < min(i, to); k++ {
			f.a[i*n+k] = -float64(f.a[k*n+i] * f.inverse[k])
		}
	}
}

// Solve writes A⁻¹·x over x.
func (f *LDL) Solve(x []float64) {
	n := f.n
	for i := range n {
		x[i] += dot(f.a[i*n:i*n+i], x)
	}
	for k := n - 1; k >= 0; k-- {
		x[k] = float64((x[k] - dot(f.a[k*n+k+1:(k+1)*n], x[k+1:])) * f.inverse[k])
	}
}

// dot is a·b over the entries of a, in four sums.
func dot(a, b []float64) float64 {
	var sum [4]float64
	b = b[:len(a)]
	for len(a) >= 4 {
		sum[0] += float64(a[0] * b[0])
		sum[1] += float64(a[1] * b[1])
		sum[2] += float64(a[2] * b[2])
		sum[3] += float64(a[3] * b[3])
		a, b = a[4:], b[4:]
	}
	for i, v := range a {
		sum[i] += float64(v * b[i])
	}
	return sum[0] + sum[1] + (sum[2] + sum[3])
}
