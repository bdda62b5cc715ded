// Package lanes runs straight-line numeric programs on the lanes of a vector:
// each lane of a cell belongs to another instance of the same problem, and no
// operation mixes lanes. What a lane computes therefore does not depend on what
// the others hold, nor on how many there are.
//
// The central type is Program: runs of equal operations over cells of float64,
// written down once by a Builder and then executed by a Machine many times, on
// eight lanes (AVX-512), four or one (AVX2 with FMA) or as many as wanted (Go). All
// operations round as IEEE 754 says, in an order fixed by the program, so that
// the instruction sets agree bitwise.
//
// Besides arithmetic on cells there are operations on 4×4 blocks of cells, what
// a block LDLᵀ factorisation and its solves are made of, and on rows of cells,
// what the chain rule along many directions is made of.
package lanes

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

// Ref names a cell: one float64 a lane.
type Ref uint32

// BlockCells is the number of cells of a 4×4 block, row after row; a block is
// named by its first cell.
const BlockCells = 16

// op is an operation; see run.
type op uint32

// The comment is the operands and what one repetition computes.
const (
	opEnd           op = iota
	opAdd              // d a b: d = a + b
	opSub              // d a b: d = a − b
	opMul              // d a b: d = a·b
	opFMA              // d a b c: d = a·b + c, rounded once
	opFNMA             // d a b c: d = c − a·b, rounded once
	opDiv              // d a b: d = a/b
	opMax              // d a b: d = a if a > b, else b
	opMin              // d a b: d = a if a < b, else b
	opSqrt             // d a: d = √a
	opFloor            // d a: d = ⌊a⌋
	opSelect           // d a b c: d = b if a < 0, else c
	opCopy             // d a: d = a
	opAbsMax           // d a: d = d if d > |a|, else |a|
	opAbsSum           // d a: d = d + |a|
	opDot              // d a b: d = a·b + d, rounded once
	opMaxNegProduct    // d a b: d = d if d > −(a·b), else −(a·b)
	opPivot            // A P n: A = [I; M I] diag(D, S) [I; M I]ᵀ (lower part read), P = (D⁻¹, M, S⁻¹), n += negative eigenvalues of A
	opScale            // L W P: W ← W [I; M I]⁻ᵀ, L = W diag(D, S)⁻¹
	opSymmetric        // C W L: C −= W·Lᵀ, lower part only
	opProduct          // C W L: C −= W·Lᵀ
	opForward          // y L x: y −= L·x, for four cells x and y
	opBackward         // y L x: y −= Lᵀ·x
	opLower            // y P z: y ← [I; M I]⁻¹ y, z = diag(D, S)⁻¹ y
	opUpper            // x P: x ← [I; M I]⁻ᵀ x
	opNeg              // d a: d = −a
	opAbs              // d a: d = |a|
	opLess             // d a b: d = 1 if a < b, else 0
	opAtMost           // d a b: d = 1 if a ≤ b, else 0
	opEqual            // d a b: d = 1 if a = b, else 0
	opChoose           // d a b c: d = b if a ≠ 0 or NaN, else c
	opMaximum          // d a b: d = the larger, NaN if one is, −0 being below 0
	opMinimum          // d a b: d = the smaller likewise
	opAnd              // d a b: the bits of both
	opOr               // d a b: the bits of either
	opShiftUp          // d a: the bits of a, 52 places up: those of an exponent from those of an integer
	opShiftDown        // d a: the bits of a, 52 places down
	opRow              // a x: d += a·x for n cells d and x each, rounded once
	opRowSet           // d a x n: d = a·x for n cells likewise
	opRowSum           // a x: d = Σ a·x over the run for n cells d and x each, rounded once at each term
	opCount
)

var operands = [opCount]int{
	opAdd: 3, opSub: 3, opMul: 3, opFMA: 4, opFNMA: 4, opDiv: 3, opMax: 3, opMin: 3, opSqrt: 2, opFloor: 2,
	opSelect: 4, opCopy: 2, opAbsMax: 1, opAbsSum: 1, opDot: 2, opMaxNegProduct: 2, opPivot: 3, opScale: 3,
	opSymmetric: 3, opProduct: 3, opForward: 3, opBackward: 3, opLower: 3, opUpper: 2,
	opNeg: 2, opAbs: 2, opLess: 3, opAtMost: 3, opEqual: 3, opChoose: 4, opMaximum: 3, opMinimum: 3,
	opAnd: 3, opOr: 3, opShiftUp: 2, opShiftDown: 2, opRow: 2, opRowSet: 4, opRowSum: 2,
}

// reduces tells the operations that gather all repetitions of a run in one
// cell d, which stands before the repetitions' operands.
var reduces = [opCount]bool{opAbsMax: true, opAbsSum: true, opDot: true, opMaxNegProduct: true}

// counts is the operand of opRowSet that is a number of cells and no cell. All repetitions of a run of opRow or opRowSum are of one row d, of
// as many cells as the run's: it stays in registers for as long.
const counts = 3

// Program is a sequence of runs. It is made by a Builder, does not change, and
// may be executed by any number of machines at once.
type Program struct {
	code        [][]uint32 // see run; nil once it has been taken
	cells       int        // one more than the largest cell that is used
	temporaries uint32     // cells from here on have no value after it
	size
}

// size counts the repetitions of all runs, and their floating-point operations.
type size struct{ operations, flops int }

// chunkWords is the most words of one chunk of a program, whose end costs one more run.
// Programs of millions of operations grow by chunks, without copies and slack.
const chunkWords = 1 << 18

// run is one operation with the operands of all its repetitions, or its stretches. In a chunk of code it is
// the operation, the number of these, the head of an operation that reduces or of
// opRow or opRowSum, the length of their row or the stretches' strides, and the operands. A chunk ends with opEnd.
type run struct {
	op   op
	head []uint32 // d of an operation that reduces, of opRow or opRowSum, else empty
	row  int      // cells of their row, or strides
	args []uint32
}

// A stretch is a number of repetitions whose operands are cells one behind another, or the same cell every time: that number
// and the operands of the first. Bit k of the strides of a run of stretches says that operand k advances. Nothing that a
// repetition writes is read by a later one of its stretch, so that one lane may take four at once.
// The operation is the one that is repeated, and stretch.
const stretch op = opCount

// plain is the operation that is repeated.
func (o op) plain() op {
	if o >= stretch {
		return o - stretch
	}
	return o
}

// words are those of one repetition or stretch.
func (o op) words() int {
	if o >= stretch {
		return 1 + operands[o-stretch]
	}
	return operands[o]
}

// onRow says that a run is of one row.
func (o op) onRow() bool  { return o == opRow || o == opRowSum }
func (o op) headed() bool { return reduces[o.plain()] || o.onRow() }
func (o op) rowed() bool  { return o.onRow() || o >= stretch }

// header is the number of words before the first repetition or stretch.
func (o op) header() int {
	n := 2
	if o.headed() {
		n++
	}
	if o.rowed() {
		n++
	}
	return n
}

// isNumber says that word i of the operands is no cell.
func (r *run) isNumber(i int) bool {
	return r.op >= stretch && i%r.op.words() == 0 || r.op == opRowSet && i%operands[opRowSet] == counts
}

// forEachRun calls f with the runs of chunks of code, whose operands f may change.
func forEachRun(code [][]uint32, f func(r run)) {
	for _, c := range code {
		for op(c[0]) != opEnd {
			r, rest := first(c)
			f(r)
			c = rest
		}
	}
}

// first is the first run of a chunk, and what follows.
func first(c []uint32) (r run, rest []uint32) {
	r.op = op(c[0])
	n, header := int(c[1])*r.op.words(), r.op.header()
	if r.op.headed() {
		r.head = c[2:3]
	}
	if r.op.rowed() {
		r.row = int(c[header-1])
	}
	r.args = c[header : header+n]
	return r, c[header+n:]
}

// Operations counts the repetitions of all runs.
func (p *Program) Operations() int { return p.operations }

// Flops counts the floating-point operations of one lane; a fused one counts
// twice.
func (p *Program) Flops() int { return p.flops }

var flops = [opCount]int{
	opAdd: 1, opSub: 1, opMul: 1, opFMA: 2, opFNMA: 2, opDiv: 1, opMax: 1, opMin: 1, opSqrt: 1, opFloor: 1,
	opAbsMax: 1, opAbsSum: 1, opDot: 2, opMaxNegProduct: 2, opPivot: 40, opScale: 56, opSymmetric: 80,
	opProduct: 128, opForward: 32, opBackward: 32, opLower: 20, opUpper: 8, opMaximum: 1, opMinimum: 1,
	opLess: 1, opAtMost: 1, opEqual: 1,
}

// add counts n repetitions, or one of a stretch.
func (s *size) add(o op, row, n int) {
	s.operations += n
	if o.onRow() {
		s.flops += 2 * row * n
	}
	s.flops += flops[o.plain()] * n
}

// widen turns offsets in cells of one width into those of another.
func widen(code [][]uint32, from, to int) {
	if from == to {
		return
	}
	oldWidth, newWidth := uint32(from), uint32(to)
	forEachRun(code, func(r run) {
		for i, a := range r.head {
			r.head[i] = a / oldWidth * newWidth
		}
		for i, a := range r.args {
			if !r.isNumber(i) {
				r.args[i] = a / oldWidth * newWidth
			}
		}
	})
}

// Machine holds the cells of one set of lanes and executes programs on them. It
// is for one goroutine at a time.
type Machine struct {
	width  int
	cells  []float64
	codes  [][][]uint32
	level  isa.Level
	native *native
}

// Widths lists the numbers of lanes that an instruction set runs, widest first:
// the first for many instances, the last for one alone. Generic Go runs others
// as well.
func Widths(level isa.Level) []int {
	switch level {
	case isa.AVX512:
		return []int{8}
	case isa.AVX2:
		return []int{4, 1}
	}
	return []int{4, 1}
}

// Compiled is a set of programs made ready for one width, shared by machines.
type Compiled struct {
	level isa.Level
	width int
	cells int
	codes [][][]uint32 // chunks of each program, operands as offsets in float64
	// Of Native: of each program, its temporaries.
	temporaries []uint32
	native      *native
}

// Native is Compile for programs that run often. Where the system allows it they become instructions of the processor, several times
// as fast as what is interpreted.
func Native(level isa.Level, width int, programs ...*Program) (*Compiled, error) {
	c, err := Compile(level, width, programs...)
	if err == nil {
		c.native = newNative(c)
	}
	return c, err
}

// maxOffset bounds the offsets in float64 that a program's operands hold.
const maxOffset = 1 << 31

// Compile prepares programs for cells of the given width on the instruction set.
// Assembly needs a width of its own (see Widths); generic Go runs any from 1.
func Compile(level isa.Level, width int, programs ...*Program) (*Compiled, error) {
	c, err := newCompiled(level, width, programs)
	if err != nil {
		return nil, err
	}
	c.codes = c.copied(1)
	return c, nil
}

// Take is Compile in the memory of the programs, which cannot be compiled any more.
func Take(level isa.Level, width int, programs ...*Program) (*Compiled, error) {
	c, err := newCompiled(level, width, programs)
	if err != nil {
		return nil, err
	}
	for i, code := range c.codes {
		widen(code, 1, width)
		programs[i].code = nil
	}
	return c, nil
}

// For is the same programs for another width.
func (c *Compiled) For(level isa.Level, width int) (*Compiled, error) {
	out := &Compiled{level: level, width: width, cells: c.cells, codes: c.codes, temporaries: c.temporaries}
	if err := out.check(); err != nil {
		return nil, err
	}
	out.codes = out.copied(c.width)
	return out, nil
}

// newCompiled has the programs' own code.
func newCompiled(level isa.Level, width int, programs []*Program) (*Compiled, error) {
	c := &Compiled{level: level, width: width}
	for i, p := range programs {
		if p.code == nil {
			return nil, fmt.Errorf("lanes: program %d of %d has been taken", i, len(programs))
		}
		c.cells = max(c.cells, p.cells)
		c.codes, c.temporaries = append(c.codes, p.code), append(c.temporaries, p.temporaries)
	}
	return c, c.check()
}

// Check returns what keeps programs from being compiled for a width.
func Check(level isa.Level, width int, programs ...*Program) error {
	_, err := newCompiled(level, width, programs)
	return err
}

func (c *Compiled) check() error {
	if c.width < 1 || c.level != isa.Generic && !slices.Contains(Widths(c.level), c.width) {
		return fmt.Errorf("lanes: %d lanes, %v has %v", c.width, c.level, Widths(c.level))
	}
	if c.cells*c.width >= maxOffset {
		return fmt.Errorf("lanes: %d cells of %d lanes are more than offsets of 32 bits reach", c.cells, c.width)
	}
	return nil
}

// copied is the code with offsets for the width, where they are for another.
func (c *Compiled) copied(oldWidth int) [][][]uint32 {
	out := make([][][]uint32, len(c.codes))
	for i, code := range c.codes {
		for _, chunk := range code {
			out[i] = append(out[i], slices.Clone(chunk))
		}
		widen(out[i], oldWidth, c.width)
	}
	return out
}

// NewMachine returns a machine whose cells are all zero.
func NewMachine(c *Compiled) *Machine {
	// Cells start on a cache line: a vector that straddles two costs two loads.
	return &Machine{width: c.width, level: c.level, codes: c.codes, native: c.native, cells: aligned(c.cells * c.width)}
}

// Lanes is the number of lanes.
func (m *Machine) Lanes() int { return m.width }

// Run executes the program with that index in Compile's list on all lanes.
func (m *Machine) Run(program int) {
	if m.native.run(program, m.cells) {
		return
	}
	for _, code := range m.codes[program] {
		execute(m.level, code, m.cells, m.width)
	}
}

// Get returns one lane of a cell.
func (m *Machine) Get(r Ref, lane int) float64 { return m.cells[int(r)*m.width+lane] }

// Set writes one lane of a cell.
func (m *Machine) Set(r Ref, lane int, v float64) { m.cells[int(r)*m.width+lane] = v }

// Cell is a cell's lanes, to read and to write.
func (m *Machine) Cell(r Ref) []float64 { return m.cells[int(r)*m.width : (int(r)+1)*m.width] }

// Cells are the lanes of n consecutive cells, cell by cell, to read and to write.
func (m *Machine) Cells(first Ref, n int) []float64 {
	return m.cells[int(first)*m.width : (int(first)+n)*m.width]
}

// SetAll writes a value into all lanes of a cell.
func (m *Machine) SetAll(r Ref, v float64) {
	lanes := m.cells[int(r)*m.width : (int(r)+1)*m.width]
	for l := range lanes {
		lanes[l] = v
	}
}

// Read copies all lanes of consecutive cells, and Write writes them back.
func (m *Machine) Read(out []float64, first Ref) { copy(out, m.cells[int(first)*m.width:]) }

// Write is described at Read.
func (m *Machine) Write(first Ref, values []float64) { copy(m.cells[int(first)*m.width:], values) }

// Gather copies one lane of consecutive cells into out.
func (m *Machine) Gather(out []float64, first Ref, lane int) {
	cell := int(first)*m.width + lane
	for i := range out {
		out[i] = m.cells[cell]
		cell += m.width
	}
}

// Scatter copies values into one lane of consecutive cells.
func (m *Machine) Scatter(first Ref, lane int, values []float64) {
	cell := int(first)*m.width + lane
	for _, v := range values {
		m.cells[cell] = v
		cell += m.width
	}
}

// ScatterRows copies n rows of columns, stride apart, into a lane each of consecutive cells. The last fills the other lanes.
func (m *Machine) ScatterRows(first Ref, rows []float64, stride, columns, n int) {
	if columns == 0 {
		return
	}
	if n == m.width && transposes(m.level) {
		rows = rows[:(n-1)*stride+columns]
		scatterRows(&m.Cells(first, columns)[0], &rows[0], uintptr(8*stride), columns)
		return
	}
	for lane := range m.width {
		m.Scatter(first, lane, rows[min(lane, n-1)*stride:][:columns])
	}
}

// GatherRows copies the first n lanes of consecutive cells into rows of columns, stride apart.
func (m *Machine) GatherRows(rows []float64, stride, columns, n int, first Ref) {
	if columns == 0 {
		return
	}
	if transposes(m.level) {
		rows = rows[:(n-1)*stride+columns]
		gatherRows(&rows[0], uintptr(8*stride), n, &m.Cells(first, columns)[0], columns)
		return
	}
	for lane := range n {
		m.Gather(rows[lane*stride:][:columns], first, lane)
	}
}

// Width is the number of lanes.
func (c *Compiled) Width() int { return c.width }
