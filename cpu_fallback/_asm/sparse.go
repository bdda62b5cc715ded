package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The compression kernels keep, of every listed row, the columns whose bit is
// set, side by side: what is left of a weight matrix between two ReLU layers.

func compressAVX512() {
	TEXT("compressAVX512", NOSPLIT, "func(dst *float32, dstRow uintptr, src *float32, srcRow uintptr, index *int32, rows int, bits *uint16, blocks int)")
	p := compressPointers()
	block, from, to, n := reg.R12, reg.R13, reg.R15, reg.RAX
	Label("row")
	MOVLQSX(Mem{Base: p.index}, from)
	IMULQ(p.srcRow, from)
	ADDQ(p.src, from)
	MOVQ(p.dst, to)
	XORQ(block, block)
	Label("block")
	MOVWLZX(Mem{Base: p.bits, Index: block, Scale: 2}, n.As32())
	KMOVW(n.As32(), reg.K1)
	POPCNTL(n.As32(), n.As32())
	VMOVUPS(Mem{Base: from}, reg.Z0)
	VCOMPRESSPS_Z(reg.Z0, reg.K1, reg.Z0)
	VMOVUPS(reg.Z0, Mem{Base: to})
	LEAQ(Mem{Base: to, Index: n, Scale: 4}, to)
	ADDQ(Imm(64), from)
	INCQ(block)
	CMPQ(block, p.blocks)
	JNE(LabelRef("block"))
	p.nextRow()
}

func compressAVX2() {
	TEXT("compressAVX2", NOSPLIT, "func(dst *float32, dstRow uintptr, src *float32, srcRow uintptr, index *int32, rows int, bits *uint16, blocks int, order *uint64)")
	p := compressPointers()
	order := reg.RBX
	Load(Param("order"), order)
	block, from, to, n := reg.R12, reg.R13, reg.R15, reg.RAX
	// Bits are read bytewise: eight lanes each.
	SHLQ(Imm(1), p.blocks)
	Label("row")
	MOVLQSX(Mem{Base: p.index}, from)
	IMULQ(p.srcRow, from)
	ADDQ(p.src, from)
	MOVQ(p.dst, to)
	XORQ(block, block)
	Label("block")
	MOVBLZX(Mem{Base: p.bits, Index: block, Scale: 1}, n.As32())
	VPMOVZXBD(Mem{Base: order, Index: n, Scale: 8}, reg.Y1)
	POPCNTL(n.As32(), n.As32())
	VPERMPS(Mem{Base: from}, reg.Y1, reg.Y0)
	VMOVUPS(reg.Y0, Mem{Base: to})
	LEAQ(Mem{Base: to, Index: n, Scale: 4}, to)
	ADDQ(Imm(32), from)
	INCQ(block)
	CMPQ(block, p.blocks)
	JNE(LabelRef("block"))
	p.nextRow()
}

// The active kernels find the positive elements of a row: their bits, their
// indices, how many there are, and whether any element is a NaN.

func activeAVX512() {
	TEXT("activeAVX512", NOSPLIT, "func(h *float32, blocks int, mask *uint16, index *int32, iota *int32) (n, nan int)")
	p := activePointers()
	VPXORD(reg.Z0, reg.Z0, reg.Z0)
	VMOVDQU32(Mem{Base: p.iota}, reg.Z1)
	KXORW(reg.K3, reg.K3, reg.K3)
	MOVL(U32(16), p.bits.As32())
	VPBROADCASTD(p.bits.As32(), reg.Z2)
	Label("block")
	VMOVUPS(Mem{Base: p.h}, reg.Z3)
	VCMPPS(Imm(30), reg.Z0, reg.Z3, reg.K1) // h > 0, ordered
	VCMPPS(Imm(3), reg.Z3, reg.Z3, reg.K2)  // unordered
	KORW(reg.K2, reg.K3, reg.K3)
	KMOVW(reg.K1, p.bits.As32())
	MOVW(p.bits.As16(), Mem{Base: p.mask})
	VPCOMPRESSD_Z(reg.Z1, reg.K1, reg.Z3)
	VMOVDQU32(reg.Z3, Mem{Base: p.index, Index: p.n, Scale: 4})
	POPCNTL(p.bits.As32(), p.bits.As32())
	ADDQ(p.bits, p.n)
	VPADDD(reg.Z2, reg.Z1, reg.Z1)
	ADDQ(Imm(64), p.h)
	ADDQ(Imm(2), p.mask)
	DECQ(p.blocks)
	JNE(LabelRef("block"))
	KMOVW(reg.K3, p.bits.As32())
	p.results()
}

func activeAVX2() {
	TEXT("activeAVX2", NOSPLIT, "func(h *float32, blocks int, mask *uint16, index *int32, order *uint64) (n, nan int)")
	p := activePointers()
	VXORPS(reg.Y0, reg.Y0, reg.Y0)
	VPXOR(reg.Y1, reg.Y1, reg.Y1) // index of the block's first element
	VPXOR(reg.Y4, reg.Y4, reg.Y4)
	MOVL(U32(8), p.bits.As32())
	MOVQ(p.bits, reg.X2)
	VPBROADCASTD(reg.X2, reg.Y2)
	SHLQ(Imm(1), p.blocks)
	Label("block")
	VMOVUPS(Mem{Base: p.h}, reg.Y3)
	VCMPPS(Imm(3), reg.Y3, reg.Y3, reg.Y5)
	VORPS(reg.Y5, reg.Y4, reg.Y4)
	VCMPPS(Imm(30), reg.Y0, reg.Y3, reg.Y3)
	VMOVMSKPS(reg.Y3, p.bits.As32())
	MOVB(p.bits.As8(), Mem{Base: p.mask})
	VPMOVZXBD(Mem{Base: p.iota, Index: p.bits, Scale: 8}, reg.Y3)
	VPADDD(reg.Y1, reg.Y3, reg.Y3)
	VMOVDQU(reg.Y3, Mem{Base: p.index, Index: p.n, Scale: 4})
	POPCNTL(p.bits.As32(), p.bits.As32())
	ADDQ(p.bits, p.n)
	VPADDD(reg.Y2, reg.Y1, reg.Y1)
	ADDQ(Imm(32), p.h)
	INCQ(p.mask)
	DECQ(p.blocks)
	JNE(LabelRef("block"))
	VMOVMSKPS(reg.Y4, p.bits.As32())
	p.results()
}

type activation struct {
	h, blocks, mask, index, iota, n, bits reg.GPPhysical
}

func activePointers() activation {
	p := activation{reg.RSI, reg.RCX, reg.RDX, reg.RDI, reg.R8, reg.R9, reg.RAX}
	Load(Param("h"), p.h)
	Load(Param("blocks"), p.blocks)
	Load(Param("mask"), p.mask)
	Load(Param("index"), p.index)
	Load(ParamIndex(4), p.iota)
	XORQ(p.n, p.n)
	return p
}

func (p activation) results() {
	VZEROUPPER()
	Store(p.n, ReturnIndex(0))
	Store(p.bits, ReturnIndex(1))
	RET()
}

type compression struct {
	dst, dstRow, src, srcRow, index, rows, bits, blocks reg.GPPhysical
}

func compressPointers() compression {
	p := compression{reg.RDI, reg.RDX, reg.RSI, reg.RCX, reg.R8, reg.R9, reg.R10, reg.R11}
	Load(Param("dst"), p.dst)
	Load(Param("dstRow"), p.dstRow)
	Load(Param("src"), p.src)
	Load(Param("srcRow"), p.srcRow)
	Load(Param("index"), p.index)
	Load(Param("rows"), p.rows)
	Load(Param("bits"), p.bits)
	Load(Param("blocks"), p.blocks)
	return p
}

func (p compression) nextRow() {
	ADDQ(p.dstRow, p.dst)
	ADDQ(Imm(4), p.index)
	DECQ(p.rows)
	JNE(LabelRef("row"))
	VZEROUPPER()
	RET()
}
