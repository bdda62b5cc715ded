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
