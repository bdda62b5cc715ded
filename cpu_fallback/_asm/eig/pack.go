package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// packHalf transposes eight rows into eight of the lanes.
func packHalf() {
	TEXT("packHalf", NOSPLIT, "func(dst, src []float32, stride, lanes, count int)")
	Doc("packHalf writes dst[i·lanes+r] = src[r·stride+i] for r < 8, i < count; count is a multiple of 8.")
	dst, src := base("dst"), base("src")
	stride, lanes, count := scalar("stride"), scalar("lanes"), scalar("count")
	SHLQ(U8(2), stride)
	SHLQ(U8(2), lanes)
	three := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	src3, src6 := GP64(), GP64()
	LEAQ(Mem{Base: src, Index: three, Scale: 1}, src3)
	LEAQ(Mem{Base: src3, Index: three, Scale: 1}, src6)
	rows := []Mem{
		{Base: src}, {Base: src, Index: stride, Scale: 1}, {Base: src, Index: stride, Scale: 2}, {Base: src3},
		{Base: src, Index: stride, Scale: 4}, {Base: src3, Index: stride, Scale: 2}, {Base: src6}, {Base: src3, Index: stride, Scale: 4},
	}
	JMP(LabelRef("test"))
	Label("block")
	r := make([]VecVirtual, 8)
	for i := range r {
		r[i] = YMM()
		VMOVUPS(rows[i], r[i])
	}
	t := make([]VecVirtual, 8)
	for i := 0; i < 8; i += 2 {
		t[i], t[i+1] = YMM(), YMM()
		VUNPCKLPS(r[i+1], r[i], t[i])
		VUNPCKHPS(r[i+1], r[i], t[i+1])
	}
	for i := 0; i < 8; i += 4 {
		for j := range 2 {
			r[i+2*j], r[i+2*j+1] = YMM(), YMM()
			VUNPCKLPD(t[i+2+j], t[i+j], r[i+2*j])
			VUNPCKHPD(t[i+2+j], t[i+j], r[i+2*j+1])
		}
	}
	for half := range 2 {
		for i := range 4 {
			o := YMM()
			VPERM2F128(U8(0x20+0x11*half), r[i+4], r[i], o)
			VMOVUPS(o, Mem{Base: dst})
			ADDQ(lanes, dst)
		}
	}
	for _, p := range []Register{src, src3, src6} {
		ADDQ(U8(32), p)
	}
	SUBQ(U8(8), count)
	Label("test")
	CMPQ(count, U8(8))
	JGE(LabelRef("block"))
	finish()
}
