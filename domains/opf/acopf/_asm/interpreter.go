package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// operation is one operation's code: its operands and what a repetition does
// with them.
type operation struct {
	name     string
	operands int
	body     func(v vectors)
}

// operations in the order of package lanes, after end.
var operations = []operation{
	{"add", 3, binary(func(b Op, a, d reg.VecPhysical) { VADDPD(b, a, d) })},
	{"sub", 3, binary(func(b Op, a, d reg.VecPhysical) { VSUBPD(b, a, d) })},
	{"mul", 3, binary(func(b Op, a, d reg.VecPhysical) { VMULPD(b, a, d) })},
	{"fma", 4, func(v vectors) {
		x, c := v.file[0], v.file[1]
		VMOVUPD(v.cell(1, 0), x)
		VMOVUPD(v.cell(3, 0), c)
		VFMADD231PD(v.cell(2, 0), x, c)
		VMOVUPD(c, v.cell(0, 0))
	}},
	{"fnma", 4, func(v vectors) {
		x, c := v.file[0], v.file[1]
		VMOVUPD(v.cell(1, 0), x)
		VMOVUPD(v.cell(3, 0), c)
		VFNMADD231PD(v.cell(2, 0), x, c)
		VMOVUPD(c, v.cell(0, 0))
	}},
	{"div", 3, binary(func(b Op, a, d reg.VecPhysical) { VDIVPD(b, a, d) })},
	{"max", 3, binary(func(b Op, a, d reg.VecPhysical) { VMAXPD(b, a, d) })},
	{"min", 3, binary(func(b Op, a, d reg.VecPhysical) { VMINPD(b, a, d) })},
	{"sqrt", 2, func(v vectors) {
		VSQRTPD(v.cell(1, 0), v.file[0])
		VMOVUPD(v.file[0], v.cell(0, 0))
	}},
	{"floor", 2, func(v vectors) {
		if v.wide() {
			VRNDSCALEPD(U8(roundDown), v.cell(1, 0), v.file[0])
		} else {
			VROUNDPD(U8(roundDown), v.cell(1, 0), v.file[0])
		}
		VMOVUPD(v.file[0], v.cell(0, 0))
	}},
	{"select", 4, func(v vectors) {
		a, d := v.file[0], v.file[1]
		VMOVUPD(v.cell(1, 0), a)
		VMOVUPD(v.cell(3, 0), d)
		if v.wide() {
			VCMPPD(U8(lessThan), v.zero(), a, reg.K1)
			VMOVUPD(v.cell(2, 0), reg.K1, d)
		} else {
			VCMPPD(U8(lessThan), v.zero(), a, a)
			VBLENDVPD(a, v.cell(2, 0), d, d)
		}
		VMOVUPD(d, v.cell(0, 0))
	}},
	{"copy", 2, func(v vectors) {
		VMOVUPD(v.cell(1, 0), v.file[0])
		VMOVUPD(v.file[0], v.cell(0, 0))
	}},
	{"absmax", 1, func(v vectors) {
		VANDNPD(v.cell(0, 0), v.sign(), v.file[0])
		VMAXPD(v.file[0], v.sum(), v.sum())
	}},
	{"abssum", 1, func(v vectors) {
		VANDNPD(v.cell(0, 0), v.sign(), v.file[0])
		VADDPD(v.file[0], v.sum(), v.sum())
	}},
	{"dot", 2, func(v vectors) {
		VMOVUPD(v.cell(0, 0), v.file[0])
		VFMADD231PD(v.cell(1, 0), v.file[0], v.sum())
	}},
	{"maxnegproduct", 2, func(v vectors) {
		VMOVUPD(v.cell(0, 0), v.file[0])
		VMULPD(v.cell(1, 0), v.file[0], v.file[0])
		VXORPD(v.sign(), v.file[0], v.file[0])
		VMAXPD(v.file[0], v.sum(), v.sum())
	}},
	{"pivot", 3, pivot},
	{"scale", 3, scale},
	{"symmetric", 3, func(v vectors) { product(v, true) }},
	{"product", 3, func(v vectors) { product(v, false) }},
	{"forward", 3, func(v vectors) { apply(v, func(r, k int) int { return 4*r + k }) }},
	{"backward", 3, func(v vectors) { apply(v, func(r, k int) int { return 4*k + r }) }},
	{"lower", 3, lower},
	{"upper", 2, upper},
}

// reduces are the operations that gather a run in one cell.
var reduces = map[string]bool{"absmax": true, "abssum": true, "dot": true, "maxnegproduct": true}

// binary is d = a ∘ b.
func binary(f func(b Op, a, d reg.VecPhysical)) func(v vectors) {
	return func(v vectors) {
		VMOVUPD(v.cell(1, 0), v.file[0])
		f(v.cell(2, 0), v.file[0], v.file[0])
		VMOVUPD(v.file[0], v.cell(0, 0))
	}
}

// interpreter writes
//
//	func run<ISA>(code *uint32, cells *float64)
//
// which executes code until its end. Every operation ends with a search for the
// next one of its own, so that the processor can tell the places apart when it
// predicts what follows.
func interpreter(v vectors) {
	TEXT("run"+v.suffix, NOSPLIT, "func(code *uint32, cells *float64)")
	Load(Param("code"), code)
	Load(Param("cells"), cells)
	v.constants()
	places := 0
	next := func() {
		MOVL(Mem{Base: code}, reg.EAX)
		MOVL(Mem{Base: code, Disp: 4}, reg.ECX)
		ADDQ(Imm(8), code)
		var search func(lo, hi int)
		search = func(lo, hi int) {
			if hi-lo == 1 {
				JMP(LabelRef(label(lo)))
				return
			}
			mid := (lo + hi) / 2
			places++
			upper := fmt.Sprintf("search%d", places)
			CMPL(reg.EAX, U32(mid))
			JGE(LabelRef(upper))
			search(lo, mid)
			Label(upper)
			search(mid, hi)
		}
		search(0, len(operations)+1)
	}
	next()
	Label(label(0))
	VZEROUPPER()
	RET()
	for i, o := range operations {
		Label(label(i + 1))
		loop := label(i + 1)
		if reduces[o.name] {
			loop += "loop"
			MOVL(Mem{Base: code}, reg.EDX)
			ADDQ(Imm(4), code)
			VMOVUPD(Mem{Base: cells, Index: reg.RDX, Scale: 8}, v.sum())
			Label(loop)
		}
		load(o.operands)
		ADDQ(Imm(uint64(4*o.operands)), code)
		o.body(v)
		DECL(reg.ECX)
		JNE(LabelRef(loop))
		if reduces[o.name] {
			VMOVUPD(v.sum(), Mem{Base: cells, Index: reg.RDX, Scale: 8})
		}
		next()
	}
}

func label(op int) string {
	if op == 0 {
		return "end"
	}
	return operations[op-1].name
}
