package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vectors is an instruction set as the generators see it: a register file of
// equal vectors, and how many rows a register tile has.
type vectors struct {
	suffix string // of function names
	bytes  int    // of one register
	rows   int    // largest tile height, two registers wide
	file   []reg.VecPhysical
}

var avx512 = vectors{"AVX512", 64, 12, []reg.VecPhysical{
	reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
	reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
	reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
	reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
}}

var avx2 = vectors{"AVX2", 32, 6, []reg.VecPhysical{
	reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
	reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15,
}}

func (v vectors) masked() bool { return v.bytes == 64 }

// zero clears a register.
func (v vectors) zero(r reg.VecPhysical) {
	if v.masked() {
		VPXORD(r, r, r)
	} else {
		VXORPS(r, r, r)
	}
}

// at is base + displacement.
func at(base reg.Register, displacement int) Mem { return Mem{Base: base, Disp: displacement} }
