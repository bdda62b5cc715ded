// Package tensor holds the batch-major float32 matrices that every other
// package exchanges. A Matrix is a batch of rows, one row per latent, state or
// action; it carries no arithmetic beyond copies. What every package asks of
// rows is beside it: Finite, Dot and SquaredDistance.
//
// The central type is Matrix. A row stride of zero repeats one row for the
// whole batch, which is how 4096 candidates share one observation without 4096
// copies of it.
package tensor

import "fmt"

// Matrix is a row-major [Rows][Cols] view into Data, with Stride elements
// between the starts of consecutive rows. Stride 0 is a broadcast: every row is
// the first. A Matrix is a small value and is passed as one; copies alias Data.
type Matrix struct {
	Rows, Cols, Stride int
	Data               []float32
}

// New returns a zeroed, densely packed rows × cols matrix. It panics on a
// negative dimension, which is a bug of the caller's.
func New(rows, cols int) Matrix {
	if rows < 0 || cols < 0 {
		panic(fmt.Sprintf("tensor: New(%d, %d): negative dimension", rows, cols))
	}
	return Matrix{Rows: rows, Cols: cols, Stride: cols, Data: make([]float32, rows*cols)}
}

// Broadcast views one row as a batch of rows identical rows (Stride 0). The
// result aliases row and must only be read.
func Broadcast(row []float32, rows int) Matrix {
	return Matrix{Rows: rows, Cols: len(row), Stride: 0, Data: row}
}

// Row returns row i, aliasing the matrix; its capacity ends with the row.
func (m Matrix) Row(i int) []float32 {
	o := i * m.Stride
	return m.Data[o : o+m.Cols : o+m.Cols]
}

// Slice returns the view of rows [from, to).
func (m Matrix) Slice(from, to int) Matrix {
	if from < 0 || to < from || to > m.Rows {
		panic(fmt.Sprintf("tensor: Slice(%d, %d) of a matrix with %d rows", from, to, m.Rows))
	}
	if m.Stride == 0 || from == to {
		return Matrix{Rows: to - from, Cols: m.Cols, Stride: m.Stride, Data: m.Data}
	}
	return Matrix{Rows: to - from, Cols: m.Cols, Stride: m.Stride, Data: m.Data[from*m.Stride : (to-1)*m.Stride+m.Cols]}
}

// Dense reports whether rows follow each other without gaps.
func (m Matrix) Dense() bool { return m.Stride == m.Cols || m.Rows <= 1 }

// Clone returns a dense deep copy.
func (m Matrix) Clone() Matrix {
	c := New(m.Rows, m.Cols)
	for i := range m.Rows {
		copy(c.Row(i), m.Row(i))
	}
	return c
}

// CopyFrom copies src into m; shapes must agree.
func (m Matrix) CopyFrom(src Matrix) error {
	if err := Check("tensor.CopyFrom", "src", src, m.Rows, m.Cols); err != nil {
		return err
	}
	for i := range m.Rows {
		copy(m.Row(i), src.Row(i))
	}
	return nil
}

// ShapeError says which argument of which operation had which shape, and which
// was needed.
type ShapeError struct {
	Op, What           string
	WantRows, WantCols int
	GotRows, GotCols   int
}

func (e *ShapeError) Error() string {
	return fmt.Sprintf("%s: %s is %d×%d, want %d×%d", e.Op, e.What, e.GotRows, e.GotCols, e.WantRows, e.WantCols)
}

// Check returns a *ShapeError unless m is rows × cols with a Data long enough
// for its stride. It is called once at the boundary of an operation; inner
// loops trust it.
func Check(op, what string, m Matrix, rows, cols int) error {
	if m.Rows != rows || m.Cols != cols {
		return &ShapeError{Op: op, What: what, WantRows: rows, WantCols: cols, GotRows: m.Rows, GotCols: m.Cols}
	}
	if rows == 0 || cols == 0 {
		return nil
	}
	if m.Stride != 0 && m.Stride < cols {
		return fmt.Errorf("%s: %s has stride %d for %d columns", op, what, m.Stride, cols)
	}
	if need := (rows-1)*m.Stride + cols; len(m.Data) < need {
		return fmt.Errorf("%s: %s holds %d elements, %d×%d with stride %d needs %d", op, what, len(m.Data), rows, cols, m.Stride, need)
	}
	return nil
}

// Narrow copies float64 src into float32 dst, element by element.
func Narrow(dst []float32, src []float64) {
	for i, v := range src {
		dst[i] = float32(v)
	}
}

// Widen copies float32 src into float64 dst, element by element.
func Widen(dst []float64, src []float32) {
	for i, v := range src {
		dst[i] = float64(v)
	}
}

// Finite reports whether no entry is NaN or infinite.
func Finite[T float32 | float64](v []T) bool {
	for _, x := range v {
		if x-x != 0 {
			return false
		}
	}
	return true
}

// Dot is Σ a_j b_j over the length of a, in four partial sums.
func Dot(a, b []float64) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += x[0] * y[0]
		s1 += x[1] * y[1]
		s2 += x[2] * y[2]
		s3 += x[3] * y[3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return (s0 + s1) + (s2 + s3)
}

// DotInOrder is Σ a_j b_j over the length of a, summed from the first entry to the last.
func DotInOrder(a, b []float64) float64 {
	b = b[:len(a)]
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// Axpy adds v·x to y, which is at least as long as x.
func Axpy(v float64, x, y []float64) {
	y = y[:len(x)]
	for i, w := range x {
		y[i] += v * w
	}
}

// SquaredDistance is ‖a − b‖², summed in float64 from the first entry to the last; b
// is at least as long as a.
func SquaredDistance(a, b []float32) float64 {
	sum := 0.0
	for i, v := range a {
		d := float64(v) - float64(b[i])
		sum += d * d
	}
	return sum
}
