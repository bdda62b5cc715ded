package lanes

import (
	"fmt"
	"slices"
)

// Col is a column of cells, one per element (a bus, a branch, a limit). The
// operations of a Builder work element by element on columns of equal length; a
// column of length one is repeated.
type Col []Ref

// At returns the column of the listed elements.
func (c Col) At(index []int) Col {
	n := 0
	for n < len(index) && index[n] == index[0]+n {
		n++
	}
	if n > 0 && n == len(index) {
		return c[index[0] : index[0]+n : index[0]+n]
	}
	out := make(Col, len(index))
	for i, j := range index {
		out[i] = c[j]
	}
	return out
}

// Layout hands out cells.
type Layout struct {
	next, top Ref
	cells     Col // by number
}

// numbered is a list of cells by number, of n at least.
func numbered(cells Col, n int, kind Ref) Col {
	if n > len(cells) {
		cells = slices.Grow(cells, n-len(cells))
		for i := len(cells); i < cap(cells); i++ {
			cells = append(cells, Ref(i)|kind)
		}
	}
	return cells
}

// Reserve has a hint of the number of cells: columns of up to that many are found in one comparison to advance by one.
func (l *Layout) Reserve(n int) { l.cells = numbered(l.cells, n, 0) }

// New returns a column of n new cells.
func (l *Layout) New(n int) Col {
	first := int(l.next)
	l.Reserve(first + n)
	l.next += Ref(n)
	l.top = max(l.top, l.next)
	return l.cells[first : first+n : first+n]
}

// Blocks returns n new 4×4 blocks, each by its first cell.
func (l *Layout) Blocks(n int) Col {
	c := make(Col, n)
	for i := range c {
		c[i] = l.next
		l.next += BlockCells
	}
	l.top = max(l.top, l.next)
	return c
}

// Cells is the number of cells handed out so far, those of temporaries included.
func (l *Layout) Cells() int { return int(l.top) }

// Builder writes one program. Columns that its operations return are temporary:
// they get their cells when the program is complete, shared by those that are
// not needed at the same time, and their values are lost with the program's end.
// Cells that outlive it have to be taken from the layout, before.
type Builder struct {
	layout   *Layout
	code     [][]uint32 // chunks that are complete
	chunk    []uint32   // the one at work
	op       op         // of its last run, opEnd for none
	head     Ref        // of that run
	row      int
	count    int // place of that run's number of repetitions
	columns  []column
	columnOf []int32 // of each columnStep temporary cells
	cells    Col     // the temporary cells by number
	emitted  int32   // operations on columns
	size
}

// columnStep divides the number of a column's first temporary cell. One cell at least is unused after each.
const columnStep = 32

// column is one of temporary cells, with the operations on columns that write it first and use it last.
type column struct {
	first, n   Ref
	start, end int32
}

// temporaryBit marks a Ref that has no cell yet.
const temporaryBit Ref = 1 << 31

// NewBuilder returns a builder whose temporaries lie above the layout's cells.
func NewBuilder(l *Layout) *Builder { return &Builder{layout: l} }

// Program returns what was written. The builder begins the next one.
func (b *Builder) Program() *Program {
	b.close()
	b.place()
	p := &Program{code: b.code, cells: b.layout.Cells(), temporaries: uint32(b.layout.next), size: b.size}
	b.code, b.size = nil, size{}
	b.columns, b.columnOf, b.emitted = b.columns[:0], b.columnOf[:0], 0
	return p
}

// Join is one program of several, of one layout.
func Join(programs ...*Program) *Program {
	b, joined := Builder{}, &Program{}
	for _, p := range programs {
		forEachRun(p.code, func(r run) {
			head := Ref(0)
			if len(r.head) > 0 {
				head = Ref(r.head[0])
			}
			for args := r.args; len(args) > 0; {
				args = args[copy(b.extend(r.op, head, r.row, len(args)/r.op.words()), args):]
			}
		})
		joined.cells, joined.temporaries = max(joined.cells, p.cells), max(joined.temporaries, p.temporaries)
		joined.operations += p.operations
		joined.flops += p.flops
	}
	b.close()
	joined.code = b.code
	return joined
}

// close ends the chunk at work, and with it its last run.
func (b *Builder) close() {
	chunk := append(make([]uint32, 0, len(b.chunk)+1), b.chunk...)
	b.code = append(b.code, append(chunk, uint32(opEnd)))
	b.chunk, b.op = b.chunk[:0], opEnd
}

// grow makes room for n more words in the chunk at work and returns them.
func (b *Builder) grow(n int) []uint32 {
	offset := len(b.chunk)
	if offset+n > cap(b.chunk) && b.layout != nil {
		b.chunk = slices.Grow(b.chunk, min(chunkWords, int(b.layout.next)))
	}
	b.chunk = slices.Grow(b.chunk, n)[:offset+n]
	return b.chunk[offset:]
}

// extend returns the words of the operands of up to n repetitions or stretches of an operation, and at
// least of one, joined to the run before when that is of the same operation, head and row or strides.
func (b *Builder) extend(o op, head Ref, row, n int) []uint32 {
	const end = 1
	k, header := o.words(), o.header()
	joins := b.op == o && b.row == row && b.head == head
	if joins && len(b.chunk)+k+end > chunkWords || !joins && len(b.chunk)+header+k+end > chunkWords {
		b.close()
		joins = false
	}
	if !joins {
		words := b.grow(header)
		words[0], words[1] = uint32(o), 0
		b.op, b.head = o, head
		b.row, b.count = row, len(b.chunk)-header+1
		if o.headed() {
			words[2] = uint32(head)
		}
		if o.rowed() {
			words[header-1] = uint32(row)
		}
	}
	n = min(n, (chunkWords-end-len(b.chunk))/k)
	args := b.grow(n * k)
	b.chunk[b.count] += uint32(n)
	b.add(o, row, n)
	return args
}

// place gives temporaries their cells, a column's one behind another: a column that has been used for the last time
// leaves its cells to the next of its length that is written, the latest first, so that what is
// in use stays in the nearest cache.
func (b *Builder) place() {
	next := b.layout.next
	cell := make([]Ref, len(b.columns))
	// The columns that each operation uses last, as a list: one more than its first, and of each column one more than the next.
	expired, following := make([]int32, b.emitted), make([]int32, len(b.columns))
	for i, c := range b.columns {
		following[i], expired[c.end] = expired[c.end], int32(i+1)
	}
	free := map[Ref][]Ref{} // by length
	finished := int32(0)
	for i, c := range b.columns {
		for ; finished < c.start; finished++ {
			for e := expired[finished]; e > 0; e = following[e-1] {
				n := b.columns[e-1].n
				free[n] = append(free[n], cell[e-1])
			}
		}
		if f := free[c.n]; len(f) > 0 {
			cell[i], free[c.n] = f[len(f)-1], f[:len(f)-1]
		} else {
			cell[i] = next
			next += c.n
		}
	}
	for _, chunk := range b.code {
		for i, word := range chunk { // no number has the bit
			if id := Ref(word) &^ temporaryBit; id != Ref(word) {
				c := b.columnOf[id/columnStep]
				chunk[i] = uint32(cell[c] + id - b.columns[c].first)
			}
		}
	}
	b.layout.top = max(b.layout.top, next)
}

// emit appends one operation per element, in stretches where the operands allow them.
func (b *Builder) emit(o op, n int, cols ...Col) {
	if n == 0 {
		return
	}
	sequence := n
	for k, c := range cols {
		if len(c) != n && len(c) != 1 {
			panic(fmt.Sprintf("lanes: operand %d has %d cells, want %d or 1", k, len(c), n))
		}
		if s := b.use(c); len(c) > 1 {
			sequence = min(sequence, s)
		}
	}
	b.emitted++
	head := Ref(0)
	if reduces[o] {
		head, cols = cols[0][0], cols[1:]
	}
	if sequence < shortest || !o.stretches() {
		b.plain(o, head, cols, 0, n)
		return
	}
	for start := 0; start < n; {
		end, repeats, strides := start, 1, 0
		for ; end < n; end += max(1, repeats-1) { // the last one of a sequence may begin the next
			if repeats, strides = longest(o, cols, end, n, sequence < n); repeats >= shortest {
				break
			}
		}
		b.plain(o, head, cols, start, min(end, n))
		if start = end; end < n {
			words := b.extend(o+stretch, head, strides, 1)
			words[0] = uint32(repeats)
			b.add(o, 0, repeats-1)
			for k, c := range cols {
				words[1+k] = uint32(c[min(end, len(c)-1)])
			}
			start += repeats
		}
	}
}

// plain appends the repetitions from start to end.
func (b *Builder) plain(o op, head Ref, cols []Col, start, end int) {
	width := operands[o]
	for start < end {
		args := b.extend(o, head, 0, end-start)
		count := len(args) / width
		for k, c := range cols {
			if w := k; len(c) == 1 {
				for ; w < len(args); w += width {
					args[w] = uint32(c[0])
				}
			} else {
				for _, r := range c[start : start+count] {
					args[w] = uint32(r)
					w += width
				}
			}
		}
		start += count
	}
}

// use notes a column of the operation at work. It returns the length of the longest sequence of its cells that a stretch may
// have.
func (b *Builder) use(c Col) (sequence int) {
	const gathered = 2
	length, step, last := 1, Ref(gathered), c[0]
	b.useCell(last)
	cells := b.layout.cells
	if last&temporaryBit != 0 {
		cells = b.cells
	}
	if i := int(last &^ temporaryBit); i < len(cells) && &cells[i] == &c[0] {
		return len(c)
	}
	for _, r := range c[1:] {
		next := r - last
		if last = r; next == step {
			length++
			continue
		}
		sequence, length, step = max(sequence, length), 2, next
		if next > 1 {
			length, step = 1, gathered
		}
		b.useCell(r)
	}
	return max(sequence, length)
}

// useCell notes the column of a cell, if that is temporary.
func (b *Builder) useCell(r Ref) {
	if r&temporaryBit != 0 {
		b.columns[b.columnOf[r&^temporaryBit/columnStep]].end = b.emitted
	}
}

func length(cols ...Col) int {
	n := 1
	for _, c := range cols {
		if len(c) != 1 {
			n = len(c)
		}
	}
	return n
}

func (b *Builder) fresh(o op, cols ...Col) Col {
	n, first := length(cols...), len(b.columnOf)*columnStep
	for range n/columnStep + 1 {
		b.columnOf = append(b.columnOf, int32(len(b.columns)))
	}
	b.columns = append(b.columns, column{first: Ref(first), n: Ref(n), start: b.emitted})
	if first+n > len(b.cells) {
		b.cells = numbered(b.cells, first+max(n, int(b.layout.next)), temporaryBit)
	}
	d := b.cells[first : first+n : first+n]
	var operands [4]Col
	operands[0] = d
	b.emit(o, n, operands[:1+copy(operands[1:], cols)]...)
	return d
}

// Add returns x + y.
func (b *Builder) Add(x, y Col) Col { return b.fresh(opAdd, x, y) }

// Sub returns x − y.
func (b *Builder) Sub(x, y Col) Col { return b.fresh(opSub, x, y) }

// Mul returns x·y.
func (b *Builder) Mul(x, y Col) Col { return b.fresh(opMul, x, y) }

// FMA returns x·y + z.
func (b *Builder) FMA(x, y, z Col) Col { return b.fresh(opFMA, x, y, z) }

// FNMA returns z − x·y.
func (b *Builder) FNMA(x, y, z Col) Col { return b.fresh(opFNMA, x, y, z) }

// Div returns x/y.
func (b *Builder) Div(x, y Col) Col { return b.fresh(opDiv, x, y) }

// Max returns the larger of x and y.
func (b *Builder) Max(x, y Col) Col { return b.fresh(opMax, x, y) }

// Min returns the smaller of x and y.
func (b *Builder) Min(x, y Col) Col { return b.fresh(opMin, x, y) }

// Sqrt returns √x.
func (b *Builder) Sqrt(x Col) Col { return b.fresh(opSqrt, x) }

// Floor returns ⌊x⌋.
func (b *Builder) Floor(x Col) Col { return b.fresh(opFloor, x) }

// Select returns y where x < 0 and z elsewhere.
func (b *Builder) Select(x, y, z Col) Col { return b.fresh(opSelect, x, y, z) }

// Neg returns −x.
func (b *Builder) Neg(x Col) Col { return b.fresh(opNeg, x) }

// Abs returns |x|.
func (b *Builder) Abs(x Col) Col { return b.fresh(opAbs, x) }

// Less returns 1 where x < y, and 0 elsewhere.
func (b *Builder) Less(x, y Col) Col { return b.fresh(opLess, x, y) }

// AtMost returns 1 where x ≤ y, and 0 elsewhere.
func (b *Builder) AtMost(x, y Col) Col { return b.fresh(opAtMost, x, y) }

// Equal returns 1 where x = y, and 0 elsewhere.
func (b *Builder) Equal(x, y Col) Col { return b.fresh(opEqual, x, y) }

// Choose returns y where x is not 0, as a NaN is not, and z elsewhere.
func (b *Builder) Choose(x, y, z Col) Col { return b.fresh(opChoose, x, y, z) }

// Maximum returns the larger of x and y, NaN where one is; −0 is below 0.
func (b *Builder) Maximum(x, y Col) Col { return b.fresh(opMaximum, x, y) }

// Minimum returns the smaller likewise.
func (b *Builder) Minimum(x, y Col) Col { return b.fresh(opMinimum, x, y) }

// And returns the bits that x and y share.
func (b *Builder) And(x, y Col) Col { return b.fresh(opAnd, x, y) }

// Or returns the bits that x or y has.
func (b *Builder) Or(x, y Col) Col { return b.fresh(opOr, x, y) }

// ShiftUp returns the bits of x, 52 places up.
func (b *Builder) ShiftUp(x Col) Col { return b.fresh(opShiftUp, x) }

// ShiftDown returns the bits of x, 52 places down.
func (b *Builder) ShiftDown(x Col) Col { return b.fresh(opShiftDown, x) }

// Row adds a·x to the row d, both of n consecutive cells of the layout. Neither a nor x has a cell of d. Those of one row behind one
// another cost less.
func (b *Builder) Row(d, a, x Ref, n int) {
	if (d|x)&temporaryBit != 0 {
		panic("lanes: a row of temporary cells")
	}
	if n == 0 {
		return
	}
	args := b.extend(opRow, d, n, 1)
	args[0], args[1] = uint32(a), uint32(x)
}

// RowSum writes the row d = Σ a·x over the cells a and the rows x that begin there, one after the other from 0 on. No a or x has a cell of d.
func (b *Builder) RowSum(d Ref, a, x Col, n int) {
	if n == 0 || len(a) == 0 {
		return
	}
	b.op = opEnd // a sum before it is another one, even of the same row
	for i := range a {
		o := opRowSum
		if i > 0 && (b.op != opRowSum || len(b.chunk)+operands[o] >= chunkWords) {
			o = opRow // the chunk ends within the sum, which goes on
		}
		if (d|x[i])&temporaryBit != 0 {
			panic("lanes: a row of temporary cells")
		}
		args := b.extend(o, d, n, 1)
		args[0], args[1] = uint32(a[i]), uint32(x[i])
	}
}

// RowSet writes d = a·x likewise; x may be d.
func (b *Builder) RowSet(d, a, x Ref, n int) {
	if (d|x)&temporaryBit != 0 {
		panic("lanes: a row of temporary cells")
	}
	if n > 0 {
		b.emit(opRowSet, 1, Col{d}, Col{a}, Col{x}, Col{Ref(n)})
		b.flops += n
	}
}

// SetAdd writes d = x + y; the other Set methods likewise.
func (b *Builder) SetAdd(d, x, y Col) { b.emit(opAdd, len(d), d, x, y) }

// SetSub writes d = x − y.
func (b *Builder) SetSub(d, x, y Col) { b.emit(opSub, len(d), d, x, y) }

// SetMul writes d = x·y.
func (b *Builder) SetMul(d, x, y Col) { b.emit(opMul, len(d), d, x, y) }

// SetFMA writes d = x·y + z.
func (b *Builder) SetFMA(d, x, y, z Col) { b.emit(opFMA, len(d), d, x, y, z) }

// SetFNMA writes d = z − x·y.
func (b *Builder) SetFNMA(d, x, y, z Col) { b.emit(opFNMA, len(d), d, x, y, z) }

// SetDiv writes d = x/y.
func (b *Builder) SetDiv(d, x, y Col) { b.emit(opDiv, len(d), d, x, y) }

// SetChoose writes d = y where x is not 0, as a NaN is not, and d = z elsewhere.
func (b *Builder) SetChoose(d, x, y, z Col) { b.emit(opChoose, len(d), d, x, y, z) }

// Clone returns x in cells one behind another.
func (b *Builder) Clone(x Col) Col { return b.fresh(opCopy, x) }

// Copy writes d = x.
func (b *Builder) Copy(d, x Col) { b.emit(opCopy, len(d), d, x) }

// AbsMax raises the single cell d to the largest |x|. A NaN may be lost: use
// AbsSum to see one.
func (b *Builder) AbsMax(d, x Col) { b.emit(opAbsMax, len(x), d[:1], x) }

// AbsSum adds every |x| to the single cell d.
func (b *Builder) AbsSum(d, x Col) { b.emit(opAbsSum, len(x), d[:1], x) }

// Dot adds Σ x·y to the single cell d.
func (b *Builder) Dot(d, x, y Col) { b.emit(opDot, length(x, y), d[:1], x, y) }

// MaxNegProduct raises the single cell d to the largest −x·y.
func (b *Builder) MaxNegProduct(d, x, y Col) { b.emit(opMaxNegProduct, length(x, y), d[:1], x, y) }

// Pivot factors the symmetric block A = [I; M I] diag(D, S) [I; M I]ᵀ by 2×2
// pivots on its rows (0, 1) and (2, 3), reading its lower part only, and keeps
// D⁻¹, M and S⁻¹ in the block pivot. The number of A's negative eigenvalues is
// added to the single cell negative.
func (b *Builder) Pivot(block, pivot, negative Ref) {
	b.emit(opPivot, 1, Col{block}, Col{pivot}, Col{negative})
}

// Scale writes w ← w·[I; M I]⁻ᵀ and d = w·diag(D, S)⁻¹ for blocks w below a
// pivoted one: with them the rest of the matrix loses w·dᵀ. The two steps are kept
// apart, as w alone may be large where w·dᵀ is not.
func (b *Builder) Scale(d, w, pivot Col) { b.emit(opScale, len(d), d, w, pivot) }

// Symmetric writes the lower part of c −= w·lᵀ for blocks; w·lᵀ is symmetric.
func (b *Builder) Symmetric(c, w, l Col) { b.emit(opSymmetric, len(c), c, w, l) }

// Product writes c −= w·lᵀ for blocks.
func (b *Builder) Product(c, w, l Col) { b.emit(opProduct, len(c), c, w, l) }

// Forward writes y −= l·x for blocks l and four consecutive cells x and y.
func (b *Builder) Forward(y, l, x Col) { b.emit(opForward, len(l), y, l, x) }

// Backward writes y −= lᵀ·x.
func (b *Builder) Backward(y, l, x Col) { b.emit(opBackward, len(l), y, l, x) }

// Lower writes y ← [I; M I]⁻¹·y and z = diag(D, S)⁻¹·y with a pivoted block.
func (b *Builder) Lower(y, pivot, z Ref) { b.emit(opLower, 1, Col{y}, Col{pivot}, Col{z}) }

// Upper writes x ← [I; M I]⁻ᵀ·x.
func (b *Builder) Upper(x, pivot Ref) { b.emit(opUpper, 1, Col{x}, Col{pivot}) }
