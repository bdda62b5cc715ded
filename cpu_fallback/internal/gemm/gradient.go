package gemm

import "github.com/gpc-engine/gpc/tensor"

// Gradient adds the weight gradient of a layer, dW += dYᵀ·X, to dW [out][in]. The
// work is cut in Tasks, each a tile of dW over the whole batch, so threads never
// share an element and each element is one chain in batch order: the result does
// not depend on how tasks meet threads.
type Gradient struct {
	kernel             Kernel
	out, in            int
	rowTasks, colTasks int
	rowsPerTask        int
}

const (
	// gradientRows is how many outputs one task covers at most: enough tasks for
	// the threads of a narrow layer, few enough that packing X, once per task, is
	// small beside the products.
	gradientRows = 96
	// gradientDepth is how many batch rows are packed at a time: a panel of X
	// that stays in the first-level cache or just outside it.
	gradientDepth = 256
)

// NewGradient plans dW of an out×in layer.
func NewGradient(k Kernel, out, in int) Gradient {
	g := Gradient{kernel: k, out: out, in: in}
	g.rowTasks = (out + gradientRows - 1) / gradientRows
	g.rowsPerTask = (out + g.rowTasks - 1) / g.rowTasks
	g.colTasks = (in + k.cols - 1) / k.cols
	return g
}

// Tasks is the number of tasks, which depends on the layer's shape alone.
func (g Gradient) Tasks() int { return g.rowTasks * g.colTasks }

// GradientScratch is the number of elements of a Buffer that Add needs, one per
// worker.
const GradientScratch = gradientDepth * Padding

// Add runs one task in [0, Tasks()): dy is [B, out], x is [B, in], both of any
// stride, dw is [out, in]. With overwrite the old dW is not read and the result
// is dYᵀ·X. Shapes are the caller's to check. It allocates nothing.
func (g Gradient) Add(task int, dy, x, dw tensor.Matrix, overwrite bool, scratch []float32) {
	col := task % g.colTasks * g.kernel.cols
	row := task / g.colTasks * g.rowsPerTask
	rows, cols := min(g.rowsPerTask, g.out-row), min(g.kernel.cols, g.in-col)
	p := Product{
		Rows: rows, ARow: 1, AStep: dy.Stride,
		C: dw.Data[row*dw.Stride+col:], CRow: dw.Stride, Init: Accumulate,
	}
	if overwrite {
		p.Init = FromZero
	}
	width := tailWidth(cols%g.kernel.cols, g.kernel.cols)
	if width == 0 {
		width = g.kernel.cols
	}
	for from := 0; from < dy.Rows || from == 0; from += gradientDepth {
		depth := min(gradientDepth, dy.Rows-from)
		for k := range depth {
			copy(scratch[k*width:k*width+cols], x.Data[(from+k)*x.Stride+col:])
		}
		p.B = Panels{K: depth, N: cols, Data: scratch, Step: width, PanelStride: g.kernel.cols, TailStep: width, cols: g.kernel.cols}
		if depth > 0 {
			p.A = dy.Data[from*dy.Stride+row:]
		}
		g.kernel.Multiply(&p)
		p.Init = Accumulate
	}
}

// ones is the A operand of a column sum: a row of ones, read with stride zero.
var ones = []float32{1}

// ColumnSums adds the column sums of m to sums, or with overwrite sets them, each
// one chain in row order: db of a layer from dY. It allocates nothing.
func (k Kernel) ColumnSums(m tensor.Matrix, sums []float32, overwrite bool) {
	if overwrite {
		clear(sums[:m.Cols])
	}
	if m.Rows == 0 {
		return
	}
	// Whole panels are read by the kernel; what is left, where a vector load could
	// pass the end of the data, by a plain loop.
	whole := m.Cols / k.cols * k.cols
	if whole > 0 {
		k.Multiply(&Product{
			Rows: 1, A: ones,
			B: Panels{K: m.Rows, N: whole, Data: m.Data, Step: m.Stride, PanelStride: k.cols, cols: k.cols},
			C: sums, Init: Accumulate,
		})
	}
	for i := range m.Rows {
		row := m.Row(i)[whole:]
		for j, v := range row {
			sums[whole+j] += v
		}
	}
}
