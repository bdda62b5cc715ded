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
