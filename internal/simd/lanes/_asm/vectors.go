package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vectors is an instruction set: its registers and the bytes of one, which is
// one cell.
type vectors struct {
	suffix string
	bytes  int
	file   []reg.VecPhysical
	near   bool // operands are pointers to cells, not their offsets
}

var avx512 = vectors{suffix: "AVX512", bytes: 64, file: []reg.VecPhysical{
	reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
	reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
	reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
	reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
}}

var avx2 = vectors{suffix: "AVX2", bytes: 32, file: []reg.VecPhysical{
	reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
	reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15,
}}

// avx2one is for one problem, whose time is that of reaching its cells: a lane, and blocks by rows of four.
var avx2one = vectors{suffix: "AVX2One", bytes: 8, file: []reg.VecPhysical{
	reg.X0, reg.X1, reg.X2, reg.X3, reg.X4, reg.X5, reg.X6, reg.X7,
	reg.X8, reg.X9, reg.X10, reg.X11, reg.X12, reg.X13, reg.X14, reg.X15,
}}

func (v vectors) wide() bool   { return v.bytes == 64 }
func (v vectors) single() bool { return v.bytes == 8 }

// Registers that keep their value throughout.
func (v vectors) one() reg.VecPhysical  { return v.file[13] }
func (v vectors) zero() reg.VecPhysical { return v.file[14] }
func (v vectors) sign() reg.VecPhysical { return v.file[15] } // −0

// sum gathers a run.
func (v vectors) sum() reg.VecPhysical { return v.file[12] }

// constants fills them.
func (v vectors) constants() {
	if v.single() {
		v = avx2 // stretches take four lanes
	}
	VXORPD(v.zero(), v.zero(), v.zero())
	for _, c := range []struct {
		bits uint64
		r    reg.VecPhysical
		low  reg.VecPhysical
	}{{0x3ff0000000000000, v.one(), reg.X13}, {1 << 63, v.sign(), reg.X15}} {
		MOVQ(U64(c.bits), reg.RAX)
		MOVQ(reg.RAX, c.low)
		VPBROADCASTQ(c.low, c.r)
	}
}

const (
	equalTo   = 0x00 // ordered, quiet, as the next two
	lessThan  = 0x11
	atMost    = 0x12
	notEqual  = 0x04 // or unordered
	unordered = 0x03
	roundDown = 0x09
)

// General registers.
var (
	code  = reg.RSI
	cells = reg.RDI
	count = reg.RCX
	arg   = [4]reg.GPPhysical{reg.R8, reg.R9, reg.R10, reg.R11}
	arg32 = [4]reg.GPPhysical{reg.R8L, reg.R9L, reg.R10L, reg.R11L}
)

// load reads the first n operands of the next repetition.
func load(n int) {
	for i := range n {
		MOVL(Mem{Base: code, Disp: 4 * i}, arg32[i])
	}
}

// cell is the k-th cell from an operand's.
func (v vectors) cell(operand, k int) Mem {
	if v.near {
		return Mem{Base: arg[operand], Disp: k * v.bytes}
	}
	return Mem{Base: cells, Index: arg[operand], Scale: 8, Disp: k * v.bytes}
}
