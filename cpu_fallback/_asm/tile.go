package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of gemm.tile; the test TestTileLayout holds them to the
// Go struct.
const (
	fieldA = 8 * iota
	fieldARow
	fieldAStep
	fieldB
	fieldBStep
	fieldC
	fieldCRow
	fieldStart
	fieldWhere
	fieldWhereRow
	fieldK
	fieldRows
	fieldCols
	fieldMode
	fieldLanes
	fieldBPanel
	fieldAList
	fieldBList
)

// Bits of gemm.tile.mode.
const (
	modeAccumulate = 1
	modeReLU       = 2
)

// prefetch is how far ahead of the multiply-adds the packed operand is asked
// for: it streams from the second-level cache.
const prefetch = 1024

// Registers shared by all tile bodies.
var (
	args  = reg.RDI
	a0    = reg.RAX // row 0 of A; row 4 and 8 (or 3) are a1 and a2
	a1    = reg.RBX
	a2    = reg.RCX
	aRow  = reg.RDX
	aRow3 = reg.RSI
	aStep = reg.R8
	b     = reg.R9
	bStep = reg.R10
	k     = reg.R11
	c     = reg.R12
	cRow  = reg.R13
	where = reg.R14
	tmp   = reg.R15

	// Of the listed bodies' loop, which needs neither C nor the mask.
	column0 = reg.R8 // A's rows 0, 4 and 8 at the current column
	column1 = reg.R12
	column2 = reg.R13
	aList   = reg.R14
	bList   = reg.R15
)

// tile writes two functions, one and two registers wide. Each holds a body for
// every height, because a height that is a constant is what lets the
// accumulators stay in registers. The listed ones take the inner index from two
// lists.
func tile(v vectors, listed bool) {
	name := "tile"
	if listed {
		name = "listed"
	}
	for width := 2; width >= 1; width-- {
		TEXT(fmt.Sprintf("%s%dx%s", name, width, v.suffix), NOSPLIT, "func(t *byte)")
		Load(Param("t"), args)
		MOVQ(at(args, fieldRows), tmp)
		for rows := v.rows; rows >= 1; rows-- {
			CMPQ(tmp, Imm(uint64(rows)))
			JE(LabelRef(fmt.Sprintf("rows%d", rows)))
		}
		RET()
		for rows := v.rows; rows >= 1; rows-- {
			Label(fmt.Sprintf("rows%d", rows))
			t := body{v: v, rows: rows, width: width, listed: listed, name: fmt.Sprintf("r%d", rows)}
			t.emit()
		}
	}
}

// body is one tile of fixed height and width.
type body struct {
	v           vectors
	rows, width int
	listed      bool
	name        string
}

func (t body) acc(i, j int) reg.VecPhysical { return t.v.file[i*t.width+j] }

// b and temporaries take what the largest tile leaves.
func (t body) b(j int) reg.VecPhysical { return t.v.file[2*t.v.rows+j] }
func (t body) temp(i int) reg.VecPhysical {
	first := 2*t.v.rows + 2
	return t.v.file[first+i%(len(t.v.file)-first)]
}

// group is how many rows one A pointer serves: row, row+1, row+2 and row+3
// strides are all an address can reach from it with two stride registers.
const group = 4

// aAt is the address of A's row i at the current step.
func (t body) aAt(i int) Mem {
	base := []reg.Register{a0, a1, a2}[i/group]
	if t.listed {
		base = []reg.Register{column0, column1, column2}[i/group]
	}
	switch i % group {
	case 0:
		return Mem{Base: base}
	case 1:
		return Mem{Base: base, Index: aRow, Scale: 1}
	case 2:
		return Mem{Base: base, Index: aRow, Scale: 2}
	default:
		return Mem{Base: base, Index: aRow3, Scale: 1}
	}
}

func (t body) label(s string) string { return t.name + "_" + s }

func (t body) emit() {
	t.pointers()
	t.start()
	t.loop()
	t.finish()
	t.positiveZero()
	t.store()
	VZEROUPPER()
	RET()
}

func (t body) pointers() {
	MOVQ(at(args, fieldA), a0)
	MOVQ(at(args, fieldARow), aRow)
	MOVQ(at(args, fieldAStep), aStep)
	MOVQ(at(args, fieldB), b)
	MOVQ(at(args, fieldBStep), bStep)
	MOVQ(at(args, fieldC), c)
	MOVQ(at(args, fieldCRow), cRow)
	LEAQ(Mem{Base: aRow, Index: aRow, Scale: 2}, aRow3)
	if t.rows > group {
		LEAQ(Mem{Base: a0, Index: aRow, Scale: 4}, a1)
	}
	if t.rows > 2*group {
		LEAQ(Mem{Base: a1, Index: aRow, Scale: 4}, a2)
	}
	if t.v.masked() {
		// Lane masks of the valid columns: K1, and K2 of the second register.
		MOVQ(at(args, fieldLanes), tmp)
		MOVQ(Mem{Base: tmp}, tmp)
		KMOVW(tmp.As32(), reg.K1)
		SHRQ(Imm(16), tmp)
		KMOVW(tmp.As32(), reg.K2)
	}
}

// start puts the bias, C itself or zero in the accumulators.
func (t body) start() {
	MOVQ(at(args, fieldStart), tmp)
	TESTQ(tmp, tmp)
	JNE(LabelRef(t.label("bias")))
	MOVQ(at(args, fieldMode), k)
	TESTQ(U32(modeAccumulate), k)
	JNE(LabelRef(t.label("accumulate")))
	for i := range t.rows {
		for j := range t.width {
			t.v.zero(t.acc(i, j))
		}
	}
	JMP(LabelRef(t.label("begin")))

	Label(t.label("bias"))
	for j := range t.width {
		VMOVUPS(at(tmp, j*t.v.bytes), t.acc(0, j))
	}
	for i := 1; i < t.rows; i++ {
		for j := range t.width {
			VMOVAPS(t.acc(0, j), t.acc(i, j))
		}
	}
	JMP(LabelRef(t.label("begin")))

	Label(t.label("accumulate"))
	t.loadLanes()
	for i := range t.rows {
		for j := range t.width {
			t.loadMasked(at(c, j*t.v.bytes), j, t.acc(i, j))
		}
		if i < t.rows-1 {
			ADDQ(cRow, c)
		}
	}
	MOVQ(at(args, fieldC), c)
	Label(t.label("begin"))
}

func (t body) loop() {
	MOVQ(at(args, fieldK), k)
	TESTQ(k, k)
	JE(LabelRef(t.label("done")))
	if t.listed {
		MOVQ(at(args, fieldAList), aList)
		MOVQ(at(args, fieldBList), bList)
	}
	Label(t.label("k"))
	row := b
	if t.listed {
		row = column0
		MOVLQSX(Mem{Base: bList}, row)
		IMULQ(bStep, row)
		ADDQ(b, row)
	}
	for j := range t.width {
		VMOVUPS(at(row, j*t.v.bytes), t.b(j))
	}
	if t.listed {
		MOVLQSX(Mem{Base: aList}, column0)
		if t.rows > 2*group {
			LEAQ(Mem{Base: a2, Index: column0, Scale: 4}, column2)
		}
		if t.rows > group {
			LEAQ(Mem{Base: a1, Index: column0, Scale: 4}, column1)
		}
		LEAQ(Mem{Base: a0, Index: column0, Scale: 4}, column0)
	} else {
		for j := 0; j < t.width*t.v.bytes; j += 64 {
			PREFETCHT0(at(b, prefetch+j))
		}
	}
	for i := range t.rows {
		VBROADCASTSS(t.aAt(i), t.temp(i))
		for j := range t.width {
			VFMADD231PS(t.b(j), t.temp(i), t.acc(i, j))
		}
	}
	if t.listed {
		ADDQ(Imm(4), aList)
		ADDQ(Imm(4), bList)
	} else {
		ADDQ(bStep, b)
		ADDQ(aStep, a0)
		if t.rows > group {
			ADDQ(aStep, a1)
		}
		if t.rows > 2*group {
			ADDQ(aStep, a2)
		}
	}
	DECQ(k)
	JNE(LabelRef(t.label("k")))
	if t.listed {
		MOVQ(at(args, fieldC), c)
		MOVQ(at(args, fieldCRow), cRow)
	}
	Label(t.label("done"))
}

// finish applies ReLU and the mask. VMAXPS returns its last source when either
// is NaN, which is why the accumulator is that one.
func (t body) finish() {
	zero := t.temp(0)
	MOVQ(at(args, fieldMode), k)
	TESTQ(U32(modeReLU), k)
	JE(LabelRef(t.label("linear")))
	t.v.zero(zero)
	for i := range t.rows {
		for j := range t.width {
			VMAXPS(t.acc(i, j), zero, t.acc(i, j))
		}
	}
	Label(t.label("linear"))

	MOVQ(at(args, fieldWhere), where)
	TESTQ(where, where)
	JE(LabelRef(t.label("open")))
	MOVQ(at(args, fieldWhereRow), tmp)
	t.v.zero(zero)
	t.loadLanes()
	for i := range t.rows {
		for j := range t.width {
			if t.v.masked() {
				h := t.b(j)
				t.loadMasked(at(where, j*t.v.bytes), j, h)
				VCMPPS(Imm(30), zero, h, reg.K3) // h > 0, ordered
				VMOVAPS_Z(t.acc(i, j), reg.K3, t.acc(i, j))
			} else {
				h := t.temp(1)
				t.loadMasked(at(where, j*t.v.bytes), j, h)
				VCMPPS(Imm(30), zero, h, h)
				VANDPS(h, t.acc(i, j), t.acc(i, j))
			}
		}
		if i < t.rows-1 {
			ADDQ(tmp, where)
		}
	}
	Label(t.label("open"))
}

// positiveZero makes −0 a +0. Then leaving out a product by zero, which can
// change the sign of a zero and nothing else, changes no result.
func (t body) positiveZero() {
	zero := t.temp(0)
	t.v.zero(zero)
	for i := range t.rows {
		for j := range t.width {
			VADDPS(zero, t.acc(i, j), t.acc(i, j))
		}
	}
}

// loadLanes puts the AVX2 lane masks where B was; AVX-512 has them in K1, K2.
func (t body) loadLanes() {
	if t.v.masked() {
		return
	}
	MOVQ(at(args, fieldLanes), k)
	for j := range t.width {
		VMOVUPS(at(k, j*t.v.bytes), t.b(j))
	}
}

func (t body) loadMasked(m Mem, j int, r reg.VecPhysical) {
	if t.v.masked() {
		VMOVUPS_Z(m, maskRegister(j), r)
	} else {
		VMASKMOVPS(m, t.b(j), r)
	}
}

func (t body) store() {
	full := t.width * t.v.bytes / 4
	if t.v.masked() {
		for i := range t.rows {
			for j := range t.width {
				VMOVUPS(t.acc(i, j), maskRegister(j), at(c, j*t.v.bytes))
			}
			if i < t.rows-1 {
				ADDQ(cRow, c)
			}
		}
		return
	}
	// A masked store of AVX2 costs far more than a whole one.
	CMPQ(at(args, fieldCols), Imm(uint64(full)))
	JNE(LabelRef(t.label("edge")))
	for i := range t.rows {
		for j := range t.width {
			VMOVUPS(t.acc(i, j), at(c, j*t.v.bytes))
		}
		if i < t.rows-1 {
			ADDQ(cRow, c)
		}
	}
	VZEROUPPER()
	RET()
	Label(t.label("edge"))
	t.loadLanes()
	for i := range t.rows {
		for j := range t.width {
			VMASKMOVPS(t.acc(i, j), t.b(j), at(c, j*t.v.bytes))
		}
		if i < t.rows-1 {
			ADDQ(cRow, c)
		}
	}
}

func maskRegister(j int) reg.Register { return []reg.Register{reg.K1, reg.K2}[j] }
