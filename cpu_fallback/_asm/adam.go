package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// notLess is the predicate that holds too where one is not a number.
const notLess = 0x15

// adam writes Adam's update of n parameters, a multiple of the lanes. Square root and division
// bound it; everything else is beside them.
func adam(v vectors) {
	TEXT("update"+v.suffix, NOSPLIT, "func(w, d, m, v *float32, n int, f, least *float32)")
	w, g, m, second, n, f, least := reg.RDI, reg.RSI, reg.RDX, reg.RCX, reg.RAX, reg.RBX, reg.R8
	Load(Param("w"), w)
	Load(Param("d"), g)
	Load(Param("m"), m)
	Load(Param("v"), second)
	Load(Param("n"), n)
	Load(Param("f"), f)
	Load(Param("least"), least)
	// In the order of Factors, then the two least moments and a mask of the magnitude.
	constants := v.file[:10]
	beta1, beta2, rest1, rest2, rate, scale, epsilon, leastFirst, leastSecond, magnitude := constants[0], constants[1], constants[2], constants[3], constants[4], constants[5], constants[6], constants[7], constants[8], constants[9]
	for i, r := range constants[:7] {
		VBROADCASTSS(at(f, 4*i), r)
	}
	VBROADCASTSS(at(least, 0), leastFirst)
	VBROADCASTSS(at(least, 4), leastSecond)
	VPCMPEQD(reg.Y10, reg.Y10, reg.Y10)
	VPSRLD(Imm(1), reg.Y10, reg.Y10)
	if v.masked() {
		VPBROADCASTD(reg.X10, magnitude)
	} else {
		VMOVAPS(reg.Y10, magnitude)
	}
	x, y, z, t := v.file[11], v.file[12], v.file[13], v.file[14]
	// flush zeroes what is below least in magnitude, t.
	flush := func(of, t, least reg.VecPhysical) {
		if v.masked() {
			VCMPPS(Imm(notLess), least, t, reg.K1)
			VMOVAPS_Z(of, reg.K1, of)
		} else {
			VCMPPS(Imm(notLess), least, t, t)
			VANDPS(t, of, of)
		}
	}
	Label("loop")
	VMOVUPS(at(g, 0), x)
	VMULPS(at(m, 0), beta1, y)
	VMULPS(x, rest1, z)
	VADDPS(z, y, y)
	if v.masked() {
		VPANDD(magnitude, y, t)
	} else {
		VANDPS(magnitude, y, t)
	}
	flush(y, t, leastFirst)
	VMOVUPS(y, at(m, 0))
	VMULPS(x, rest2, z)
	VMULPS(x, z, z)
	VMULPS(at(second, 0), beta2, x)
	VADDPS(z, x, x)
	VMOVAPS(x, t)
	flush(x, t, leastSecond)
	VMOVUPS(x, at(second, 0))
	VMULPS(scale, x, x)
	VSQRTPS(x, x)
	VADDPS(epsilon, x, x)
	VMULPS(rate, y, y)
	VDIVPS(x, y, y)
	VMOVUPS(at(w, 0), z)
	VSUBPS(y, z, z)
	VMOVUPS(z, at(w, 0))
	for _, p := range []reg.Register{w, g, m, second} {
		ADDQ(U32(v.bytes), p)
	}
	SUBQ(U32(v.bytes/4), n)
	JG(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
