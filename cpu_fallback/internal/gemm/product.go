// Package gemm holds the float32 matrix products of the CPU backend: one
// register-tiled kernel per instruction set with the epilogues of a ReLU network
// (bias, ReLU, mask by the sign of a stored activation) fused into it, and the
// column compression that lets a Jacobian skip inactive units.
//
// The central type is Product, one product on one thread; Kernel runs it. The
// register tile is 12×32 on AVX-512 and 6×16 on AVX2, and the second operand is
// packed in panels as wide as the tile (the scheme of Goto and van de Geijn,
// "Anatomy of High-Performance Matrix Multiplication", 2008, with the level that
// a network's layers need: a whole panel stays in the second-level cache).
//
// Every element of a result is one chain of multiply-adds, in ascending order of
// the inner index, that begins at the bias, at zero or at the old value. No
// chain depends on how rows are grouped in tiles, so a row's result is bitwise the same
// wherever it stands in a batch and however a batch is cut.
package gemm

import (
	"fmt"
	"unsafe"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

// Init says where the chain of multiply-adds of each element begins.
type Init int

const (
	FromZero   Init = iota
	FromBias        // at the bias packed with B
	Accumulate      // at the old value of C
)

// Product is C = epilogue(init + A·B): A is Rows×K, B is K×N, C is Rows×N.
type Product struct {
	Rows int

	// A's element (i, k) is A[i·ARow + k·AStep]. ARow 0 repeats one row; ARow 1
	// with AStep the row stride reads a transposed matrix.
	A           []float32
	ARow, AStep int

	B Panels

	// AList and BList, if not nil, make the sum run over listed inner indices:
	// C[i][j] = Σ_n A[i·ARow + AList[n]]·B[BList[n]][j]. They are of one length,
	// ascending, and AStep must be 1.
	AList, BList []int32

	// C's element (i, j) is C[i·CRow + j]. It must not overlap A or B.
	C    []float32
	CRow int

	Init Init

	// ReLU replaces negative results by zero; NaN stays.
	ReLU bool

	// Where, if not nil, keeps element (i, j) only where Where[i·WhereRow + j] > 0
	// and writes zero elsewhere (the derivative of ReLU, 0 at the kink, from the
	// stored activation). WhereRow 0 applies one mask to all rows.
	Where    []float32
	WhereRow int
}

// Kernel is the product kernel of one instruction set.
type Kernel struct {
	level      isa.Level
	rows, cols int // register tile
}

// For returns the kernel of an instruction set that this CPU has.
func For(level isa.Level) Kernel {
	switch level {
	case isa.AVX512:
		return Kernel{level: level, rows: 12, cols: 32}
	case isa.AVX2:
		return Kernel{level: level, rows: 6, cols: 16}
	default:
		return Kernel{level: isa.Generic, rows: 2, cols: 4}
	}
}

// TileRows is the height of the register tile: batches cut at its multiples
// leave no short tile.
func (k Kernel) TileRows() int { return k.rows }

// Multiply computes p on the calling goroutine. It allocates nothing. It panics
// when a slice is too short for the shape, which is a bug of the caller's.
//
// B is taken to be finite where A is zero: a single row may leave those products
// out, so 0·Inf is not promised to be NaN. A NaN or infinity in A is never lost.
func (k Kernel) Multiply(p *Product) {
	if p.Rows == 0 || p.B.N == 0 {
		return
	}
	p.check()
	blocks := (p.Rows + k.rows - 1) / k.rows
	from := 0
	for r := 1; r <= blocks; r++ {
		// Blocks of nearly equal height beat full ones and a thin remainder.
		to := r * p.Rows / blocks
		k.rowBlock(p, from, to-from)
		from = to
	}
}

// rowBlock runs along the panels of one block of rows, whose part of A stays in
// the first-level cache.
func (k Kernel) rowBlock(p *Product, row, rows int) {
	var t tile
	t.rows = rows
	depth := p.B.K
	if p.AList != nil {
		depth = len(p.AList)
	}
	t.aRow, t.aStep = 4*uintptr(p.ARow), 4*uintptr(p.AStep)
	t.cRow = 4 * uintptr(p.CRow)
	t.bPanel = 4 * uintptr(p.B.PanelStride)
	if p.Where != nil {
		t.whereRow = 4 * uintptr(p.WhereRow)
	}
	t.k, t.mode = depth, p.mode()
	if depth > 0 {
		t.a = &p.A[row*p.ARow]
	}
	first := 0 // column
	if rows == 1 && p.AList == nil && p.B.N >= gemvPanels*k.cols && k.level != isa.Generic {
		first = k.singleRow(p, row, t)
	}
	if p.AList != nil && depth > 0 {
		t.aList, t.bList = &p.AList[0], &p.BList[0]
	}
	for j := first; j < p.B.N; j += k.cols {
		cols := min(k.cols, p.B.N-j)
		step := p.B.Step
		if cols < k.cols {
			step = p.B.TailStep
		}
		t.bStep, t.cols = 4*uintptr(step), cols
		t.point(p, row, j, k.cols)
		k.run(&t, p.AList != nil)
	}
}

// mode says where chains begin and whether they end in a ReLU.
func (p *Product) mode() (mode int) {
	if p.Init == Accumulate {
		mode |= modeAccumulate
	}
	if p.ReLU {
		mode |= modeReLU
	}
	return mode
}

// point sets the addresses of the tile at row from and column j.
func (t *tile) point(p *Product, row, j, width int) {
	if p.B.K > 0 {
		t.b = &p.B.Data[j/width*p.B.PanelStride]
	}
	t.c = &p.C[row*p.CRow+j]
	if p.Init == FromBias {
		t.start = &p.B.Bias[j]
	}
	if p.Where != nil {
		t.mask = &p.Where[row*p.WhereRow+j]
	}
}

// singleRow multiplies one row with the panels that come in whole groups, and
// returns the first column it left.
func (k Kernel) singleRow(p *Product, row int, t tile) int {
	t.bStep = 4 * uintptr(p.B.Step)
	t.cols = gemvPanels * k.cols
	var storage [sparseDepth]int32
	sparse := false
	if p.AStep == 1 && p.B.K >= sparseDepth/16 && p.B.K <= sparseDepth {
		if n := nonZero(p.A[row*p.ARow:][:p.B.K], &storage); n <= p.B.K*7/8 {
			sparse = true
			t.k, t.lanes = n, unsafe.Pointer(&storage)
		}
	}
	j := 0
	for ; j+t.cols <= p.B.N; j += t.cols {
		t.point(p, row, j, k.cols)
		k.gemv(&t, sparse)
	}
	return j
}

// gemvPanels is how many panels the single-row kernels take at once.
const gemvPanels = 4

// sparseDepth is the largest inner dimension for which a single row is looked
// through for zeros.
const sparseDepth = 512

// nonZero lists the non-zero elements of a row. Leaving out the others is worth
// it for a single row, whose product takes the time of reading B: behind a ReLU
// about half are zero.
func nonZero(a []float32, list *[sparseDepth]int32) int {
	n := 0
	for i, v := range a {
		list[n] = int32(i)
		if v != 0 {
			n++
		}
	}
	return n
}

func (p *Product) check() {
	last := func(rows, row, cols, step int) int {
		if rows == 0 || cols == 0 {
			return 0
		}
		return (rows-1)*row + (cols-1)*step + 1
	}
	columns := p.B.K
	if p.AList != nil {
		columns = p.checkLists()
	}
	for _, s := range [...]struct {
		name         string
		length, need int
	}{
		{"A", len(p.A), last(p.Rows, p.ARow, columns, p.AStep)},
		{"C", len(p.C), last(p.Rows, p.CRow, p.B.N, 1)},
		{"B", len(p.B.Data), p.B.need()},
	} {
		if s.length < s.need {
			panic(fmt.Sprintf("gemm: %s of a %d×%d×%d product holds %d elements, needs %d", s.name, p.Rows, p.B.K, p.B.N, s.length, s.need))
		}
	}
	if p.Where != nil && len(p.Where) < last(p.Rows, p.WhereRow, p.B.N, 1) {
		panic(fmt.Sprintf("gemm: mask of a %d×%d product holds %d elements", p.Rows, p.B.N, len(p.Where)))
	}
	if p.Init == FromBias && len(p.B.Bias) < p.B.paddedN() {
		panic(fmt.Sprintf("gemm: %d biases for %d padded columns", len(p.B.Bias), p.B.paddedN()))
	}
}

// checkLists returns the number of columns of A that AList reaches.
func (p *Product) checkLists() int {
	if len(p.AList) != len(p.BList) || p.AStep != 1 {
		panic(fmt.Sprintf("gemm: lists of %d and %d inner indices, A with step %d", len(p.AList), len(p.BList), p.AStep))
	}
	if len(p.AList) == 0 {
		return 0
	}
	if last := int(p.BList[len(p.BList)-1]); last >= p.B.K {
		panic(fmt.Sprintf("gemm: inner index %d of %d rows of B", last, p.B.K))
	}
	return int(p.AList[len(p.AList)-1]) + 1
}
