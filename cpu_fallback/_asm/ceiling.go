package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// peak writes the loop that nothing can outrun: multiply-adds between registers
// only, as many independent chains as there are registers for.
func peak(v vectors) {
	TEXT("peak"+v.suffix, NOSPLIT, "func(rounds int)")
	n := reg.RAX
	Load(Param("rounds"), n)
	x, y := v.file[0], v.file[1]
	chains := v.file[2:]
	for _, r := range v.file {
		v.zero(r)
	}
	Label("loop")
	for range peakUnroll {
		for _, r := range chains {
			VFMADD231PS(x, y, r)
		}
	}
	DECQ(n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

const peakUnroll = 4

// triad writes a[i] = b[i] + s·c[i] with non-temporal stores, so that the bytes
// moved are the three arrays and no more.
func triad(v vectors) {
	TEXT("triad"+v.suffix, NOSPLIT, "func(a, b, c *float32, s *float32, n int)")
	a, b, c, s, n := reg.RDI, reg.RSI, reg.RDX, reg.RAX, reg.RCX
	Load(Param("a"), a)
	Load(Param("b"), b)
	Load(Param("c"), c)
	Load(Param("s"), s)
	Load(Param("n"), n)
	factor := v.file[0]
	VBROADCASTSS(Mem{Base: s}, factor)
	Label("loop")
	const unroll = 4
	for i := range unroll {
		VMOVUPS(at(b, i*v.bytes), v.file[1+i])
	}
	for i := range unroll {
		VFMADD231PS(at(c, i*v.bytes), factor, v.file[1+i])
		VMOVNTPS(v.file[1+i], at(a, i*v.bytes))
	}
	for _, p := range []reg.Register{a, b, c} {
		ADDQ(U32(unroll*v.bytes), p)
	}
	SUBQ(U32(unroll*v.bytes/4), n)
	JG(LabelRef("loop"))
	SFENCE()
	VZEROUPPER()
	RET()
}
