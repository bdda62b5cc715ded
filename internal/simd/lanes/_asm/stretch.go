package main

import (
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// unstretched are the operations that are not repeated in stretches: those of blocks and rows.
var unstretched = map[string]bool{
	"pivot": true, "scale": true, "symmetric": true, "product": true, "forward": true, "backward": true, "lower": true, "upper": true,
	"row": true, "rowset": true, "rowsum": true,
}

// pace is by how many bytes each operand advances.
var (
	pace   = [4]reg.GPPhysical{reg.RBX, reg.R12, reg.R13, reg.R14}
	pace32 = [4]reg.GPPhysical{reg.EBX, reg.R12L, reg.R13L, reg.R14L}
)

// stretches writes a run of stretches. Operands are pointers, which advance by their paces. Where cells are of one lane four
// repetitions are done at once, unless they gather: an operand that stays is spread over four cells first.
func stretches(v vectors, r run, spread Mem) {
	many := v.single() && !reduces[r.name]
	step := v
	if many {
		step = avx2
	}
	if reduces[r.name] {
		openSum(v)
	}
	MOVL(Mem{Base: code}, reg.EAX)
	ADDQ(Imm(4), code)
	for q := range r.operands {
		MOVL(reg.EAX, pace32[q])
		SHRL(Imm(uint64(q)), pace32[q])
		ANDL(Imm(1), pace32[q])
		SHLQ(Imm(uint64(bits.TrailingZeros(uint(step.bytes)))), pace[q])
	}
	Label(r.label + "next")
	MOVL(Mem{Base: code}, reg.EAX)
	ADDQ(Imm(4), code)
	load(r.operands)
	ADDQ(Imm(uint64(4*r.operands)), code)
	for q := range r.operands {
		LEAQ(Mem{Base: cells, Index: arg[q], Scale: 8}, arg[q])
	}
	if many {
		fours(r, spread)
	} else {
		each(v, r, "one")
	}
	DECL(reg.ECX)
	JNE(LabelRef(r.label + "next"))
	if reduces[r.name] {
		closeSum(v)
	}
}

// each does one repetition at a time until EAX is none.
func each(v vectors, r run, name string) {
	v.near = true
	Label(r.label + name)
	r.body(v)
	for q := range r.operands {
		ADDQ(pace[q], arg[q])
	}
	DECL(reg.EAX)
	JNE(LabelRef(r.label + name))
}

// fours does four repetitions of one lane at a time, and the rest one by one.
func fours(r run, spread Mem) {
	quad := avx2
	quad.near = true
	for q := 1; q < r.operands; q++ {
		moves := r.label + "moves" + string(rune('0'+q))
		TESTQ(pace[q], pace[q])
		JNE(LabelRef(moves))
		VBROADCASTSD(Mem{Base: arg[q]}, quad.file[0])
		VMOVUPD(quad.file[0], spread.Offset(q*quad.bytes))
		LEAQ(spread.Offset(q*quad.bytes), arg[q])
		Label(moves)
	}
	SUBL(Imm(4), reg.EAX)
	JLT(LabelRef(r.label + "rest"))
	Label(r.label + "four")
	r.body(quad)
	for q := range r.operands {
		ADDQ(pace[q], arg[q])
	}
	SUBL(Imm(4), reg.EAX)
	JGE(LabelRef(r.label + "four"))
	Label(r.label + "rest")
	ADDL(Imm(4), reg.EAX)
	JEQ(LabelRef(r.label + "done"))
	scale := func(by func(imm, r Op)) {
		for q := range r.operands {
			by(Imm(2), pace[q])
		}
	}
	scale(func(i, p Op) { SHRQ(i, p) })
	each(avx2one, r, "one")
	scale(func(i, p Op) { SHLQ(i, p) })
	Label(r.label + "done")
}
