package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
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
	{"add", 3, binary(vectors.add)},
	{"sub", 3, binary(vectors.sub)},
	{"mul", 3, binary(vectors.mul)},
	{"fma", 4, func(v vectors) {
		x, c := v.file[0], v.file[1]
		v.mov(v.cell(1, 0), x)
		v.mov(v.cell(3, 0), c)
		v.fma(v.cell(2, 0), x, c)
		v.mov(c, v.cell(0, 0))
	}},
	{"fnma", 4, func(v vectors) {
		x, c := v.file[0], v.file[1]
		v.mov(v.cell(1, 0), x)
		v.mov(v.cell(3, 0), c)
		v.fnma(v.cell(2, 0), x, c)
		v.mov(c, v.cell(0, 0))
	}},
	{"div", 3, binary(vectors.div)},
	{"max", 3, binary(vectors.max)},
	{"min", 3, binary(vectors.min)},
	{"sqrt", 2, func(v vectors) {
		v.sqrt(v.cell(1, 0), v.file[0])
		v.mov(v.file[0], v.cell(0, 0))
	}},
	{"floor", 2, func(v vectors) {
		if v.wide() {
			VRNDSCALEPD(U8(roundDown), v.cell(1, 0), v.file[0])
		} else {
			v.floor(v.cell(1, 0), v.file[0])
		}
		v.mov(v.file[0], v.cell(0, 0))
	}},
	{"select", 4, func(v vectors) {
		a, d := v.file[0], v.file[1]
		v.mov(v.cell(1, 0), a)
		v.mov(v.cell(3, 0), d)
		if v.wide() {
			VCMPPD(U8(lessThan), v.zero(), a, reg.K1)
			VMOVUPD(v.cell(2, 0), reg.K1, d)
		} else {
			VCMPPD(U8(lessThan), v.zero(), a, a)
			v.blend(a, v.cell(2, 0), d)
		}
		v.mov(d, v.cell(0, 0))
	}},
	{"copy", 2, func(v vectors) {
		v.mov(v.cell(1, 0), v.file[0])
		v.mov(v.file[0], v.cell(0, 0))
	}},
	{"absmax", 1, func(v vectors) {
		v.andn(v.cell(0, 0), v.sign(), v.file[0])
		v.max(v.file[0], v.sum(), v.sum())
	}},
	{"abssum", 1, func(v vectors) {
		v.andn(v.cell(0, 0), v.sign(), v.file[0])
		v.add(v.file[0], v.sum(), v.sum())
	}},
	{"dot", 2, func(v vectors) {
		v.mov(v.cell(0, 0), v.file[0])
		v.fma(v.cell(1, 0), v.file[0], v.sum())
	}},
	{"maxnegproduct", 2, func(v vectors) {
		v.mov(v.cell(0, 0), v.file[0])
		v.mul(v.cell(1, 0), v.file[0], v.file[0])
		v.xor(v.sign(), v.file[0], v.file[0])
		v.max(v.file[0], v.sum(), v.sum())
	}},
	{"pivot", 3, pivot},
	{"scale", 3, either(scale, scaleRows)},
	{"symmetric", 3, either(func(v vectors) { product(v, true) }, func(v vectors) { productRows(v, true) })},
	{"product", 3, either(func(v vectors) { product(v, false) }, func(v vectors) { productRows(v, false) })},
	{"forward", 3, either(func(v vectors) { apply(v, func(r, k int) int { return 4*r + k }) }, func(v vectors) { applyRows(v, true) })},
	{"backward", 3, either(func(v vectors) { apply(v, func(r, k int) int { return 4*k + r }) }, func(v vectors) { applyRows(v, false) })},
	{"lower", 3, lower},
	{"upper", 2, upper},
	{"neg", 2, func(v vectors) {
		v.xor(v.cell(1, 0), v.sign(), v.file[0])
		v.mov(v.file[0], v.cell(0, 0))
	}},
	{"abs", 2, func(v vectors) {
		VMOVAPD(v.sign(), v.file[0])
		v.andn(v.cell(1, 0), v.file[0], v.file[0])
		v.mov(v.file[0], v.cell(0, 0))
	}},
	{"less", 3, compare(lessThan)},
	{"atmost", 3, compare(atMost)},
	{"equal", 3, compare(equalTo)},
	{"choose", 4, func(v vectors) {
		a, d := v.file[0], v.file[1]
		v.mov(v.cell(1, 0), a)
		v.mov(v.cell(3, 0), d)
		if v.wide() {
			VCMPPD(U8(notEqual), v.zero(), a, reg.K1)
			VMOVUPD(v.cell(2, 0), reg.K1, d)
		} else {
			VCMPPD(U8(notEqual), v.zero(), a, a)
			v.blend(a, v.cell(2, 0), d)
		}
		v.mov(d, v.cell(0, 0))
	}},
	{"maximum", 3, extreme(vectors.max, vectors.and)},
	{"minimum", 3, extreme(vectors.min, vectors.or)},
	{"and", 3, binary(vectors.and)},
	{"or", 3, binary(vectors.or)},
	{"shiftup", 2, func(v vectors) {
		v.mov(v.cell(1, 0), v.file[0])
		VPSLLQ(U8(52), v.file[0], v.file[0])
		v.mov(v.file[0], v.cell(0, 0))
	}},
	{"shiftdown", 2, func(v vectors) {
		v.mov(v.cell(1, 0), v.file[0])
		VPSRLQ(U8(52), v.file[0], v.file[0])
		v.mov(v.file[0], v.cell(0, 0))
	}},
	{"row", 2, nil}, // by row
	{"rowset", 4, rowset},
	{"rowsum", 2, nil}, // by row
}

// either is an operation on blocks: of cells of many lanes, or of one, whose blocks are rows of four.
func either(lanes, one func(v vectors)) func(v vectors) {
	return func(v vectors) {
		if v.single() {
			one(v)
		} else {
			lanes(v)
		}
	}
}

// compare is d = 1 where the predicate holds for a and b, else 0.
func compare(predicate uint8) func(v vectors) {
	return func(v vectors) {
		a := v.file[0]
		v.mov(v.cell(1, 0), a)
		if v.wide() {
			VCMPPD(U8(predicate), v.cell(2, 0), a, reg.K1)
			VMOVUPD_Z(v.one(), reg.K1, a)
		} else {
			v.compare(predicate, v.cell(2, 0), a)
			v.and(v.one(), a, a)
		}
		v.mov(a, v.cell(0, 0))
	}
}

// extreme is a maximum or minimum: in either order the processor's differ in zeros and NaN alone. join makes one zero of
// two, and the sum is a NaN where one of them is.
func extreme(of, join binaryOp) func(v vectors) {
	return func(v vectors) {
		a, b, d, other := v.file[0], v.file[1], v.file[2], v.file[3]
		v.mov(v.cell(1, 0), a)
		v.mov(v.cell(2, 0), b)
		of(v, b, a, d)
		of(v, a, b, other)
		join(v, other, d, d)
		v.add(b, a, other)
		if v.wide() {
			VCMPPD(U8(unordered), b, a, reg.K1)
			VMOVUPD(other, reg.K1, d)
		} else {
			VCMPPD(U8(unordered), b, a, a)
			VBLENDVPD(a, other, d, d)
		}
		v.mov(d, v.cell(0, 0))
	}
}

// rowset runs over the cells of two rows, four at a time and then one. R11, the fourth operand, counts.
func rowset(v vectors) {
	const unrolled = 4
	a := v.file[unrolled]
	v.mov(v.cell(1, 0), a)
	step := func(n int) {
		for k := range n {
			v.mul(v.cell(2, k), a, v.file[k])
			v.mov(v.file[k], v.cell(0, k))
		}
		ADDQ(Imm(uint64(n*v.bytes/8)), arg[0])
		ADDQ(Imm(uint64(n*v.bytes/8)), arg[2])
	}
	SUBL(Imm(unrolled), arg32[3])
	JLT(LabelRef("rowsetrest"))
	Label("rowsetfour")
	step(unrolled)
	SUBL(Imm(unrolled), arg32[3])
	JGE(LabelRef("rowsetfour"))
	Label("rowsetrest")
	ADDL(Imm(unrolled), arg32[3])
	JEQ(LabelRef("rowsetdone"))
	Label("rowsetone")
	step(1)
	DECL(arg32[3])
	JNE(LabelRef("rowsetone"))
	Label("rowsetdone")
}

// row keeps a part of d in registers for all repetitions of the run: eight cells, then four, then single ones. R8 is d, RDX
// how far in it the part is, R11 counts the cells that are left, R12 and R13 the repetitions. A sum begins at 0.
func row(v vectors, label string, sum bool) {
	d, far, left := arg[0], reg.RDX, arg32[3]
	MOVL(Mem{Base: code}, arg32[0])
	MOVL(Mem{Base: code, Disp: 4}, left)
	ADDQ(Imm(8), code)
	XORL(reg.EDX, reg.EDX)
	for _, n := range [3]int{8, 4, 1} {
		name, end := fmt.Sprintf("%s%d", label, n), fmt.Sprintf("%s%dend", label, n)
		Label(name)
		CMPL(left, Imm(uint64(n)))
		JLT(LabelRef(end))
		for k := range n {
			if sum {
				v.xor(v.file[k], v.file[k], v.file[k])
			} else {
				v.mov(v.cell(0, k), v.file[k])
			}
		}
		MOVQ(code, reg.R12)
		MOVL(reg.ECX, reg.R13L)
		Label(name + "term")
		MOVL(Mem{Base: reg.R12}, arg32[1])
		MOVL(Mem{Base: reg.R12, Disp: 4}, arg32[2])
		ADDQ(far, arg[2])
		v.mov(v.cell(1, 0), v.file[8])
		for k := range n {
			v.fma(v.cell(2, k), v.file[8], v.file[k])
		}
		ADDQ(Imm(8), reg.R12)
		DECL(reg.R13L)
		JNE(LabelRef(name + "term"))
		for k := range n {
			v.mov(v.file[k], v.cell(0, k))
		}
		ADDQ(Imm(uint64(n*v.bytes/8)), d)
		ADDQ(Imm(uint64(n*v.bytes/8)), far)
		SUBL(Imm(uint64(n)), left)
		JMP(LabelRef(name))
		Label(end)
	}
	LEAQ(Mem{Base: code, Index: reg.RCX, Scale: 8}, code)
}

// reduces are the operations that gather a run in one cell.
var reduces = map[string]bool{"absmax": true, "abssum": true, "dot": true, "maxnegproduct": true}

// binary is d = a ∘ b.
func binary(f binaryOp) func(v vectors) {
	return func(v vectors) {
		v.mov(v.cell(1, 0), v.file[0])
		f(v, v.cell(2, 0), v.file[0], v.file[0])
		v.mov(v.file[0], v.cell(0, 0))
	}
}

// interpreter writes
//
//	func run<ISA>(code *uint32, cells *float64)
//
// which executes code until its end. Every operation ends with a jump of its own through a
// table, so that the processor can tell the places apart when it predicts what follows. The table is
// of jumps, in the function itself: the assembler writes no address of a label into data.
func interpreter(v vectors) {
	TEXT("run"+v.suffix, NOSPLIT, "func(code *uint32, cells *float64)")
	Load(Param("code"), code)
	Load(Param("cells"), cells)
	v.constants()
	var spread Mem
	if v.single() {
		spread = AllocLocal(4 * avx2.bytes)
	}
	runs := allRuns()
	JMP(LabelRef("begin"))
	jumps(runs)
	Label("begin")
	LEAQ(Mem{Symbol: Symbol{Name: "·run" + v.suffix}, Base: reg.StaticBase, Disp: tableAt}, table)
	next()
	for _, r := range runs {
		Label(r.label)
		switch {
		case r.number == 0:
			VZEROUPPER()
			RET()
			continue
		case r.operation.name == "row" || r.operation.name == "rowsum":
			row(v, r.label, r.operation.name == "rowsum")
		case r.stretch:
			stretches(v, r, spread)
		default:
			repetitions(v, r)
		}
		next()
	}
}

const (
	tableAt = 128 // bytes from the beginning of the function to the table; what is before it is shorter
	slot    = 8   // bytes of a jump in the table
)

// table is the register that holds where it is. The linker of plugins alone would want it.
var table = reg.R15

// jumps writes the table of jumps to the operations, by number; no code has a number between theirs.
func jumps(runs []run) {
	align(tableAt)
	at := 0
	for _, r := range runs {
		for ; at < r.number; at++ {
			align(slot)
			UD2()
		}
		align(slot)
		JMP(LabelRef(r.label))
		at++
	}
}

func align(bytes uint64) {
	Instruction(&ir.Instruction{Opcode: "PCALIGN", Operands: []Op{Imm(bytes)}})
}

// next goes on with the next run.
func next() {
	MOVL(Mem{Base: code}, reg.EAX)
	MOVL(Mem{Base: code, Disp: 4}, reg.ECX)
	ADDQ(Imm(8), code)
	LEAQ(Mem{Base: table, Index: reg.RAX, Scale: slot}, reg.RAX)
	Instruction(&ir.Instruction{Opcode: "JMP", Operands: []Op{reg.RAX}, Inputs: []Op{reg.RAX}, IsTerminal: true})
}

// run is what the code at a label does.
type run struct {
	operation
	number  int
	label   string
	stretch bool
}

// allRuns are those of package lanes, by their numbers.
func allRuns() []run {
	runs := []run{{label: "end"}}
	for i, o := range operations {
		runs = append(runs, run{operation: o, number: i + 1, label: o.name})
	}
	for i, o := range operations {
		if !unstretched[o.name] {
			runs = append(runs, run{operation: o, number: len(operations) + 1 + i + 1, label: o.name + "stretch", stretch: true})
		}
	}
	return runs
}

// repetitions writes a run of an operation whose operands are all written out.
func repetitions(v vectors, r run) {
	loop := r.label
	if reduces[r.name] {
		loop += "loop"
		openSum(v)
		Label(loop)
	}
	load(r.operands)
	ADDQ(Imm(uint64(4*r.operands)), code)
	r.body(v)
	DECL(reg.ECX)
	JNE(LabelRef(loop))
	if reduces[r.name] {
		closeSum(v)
	}
}

// openSum reads the cell that gathers a run; RDX keeps where it is.
func openSum(v vectors) {
	MOVL(Mem{Base: code}, reg.EDX)
	ADDQ(Imm(4), code)
	v.mov(Mem{Base: cells, Index: reg.RDX, Scale: 8}, v.sum())
}

func closeSum(v vectors) { v.mov(v.sum(), Mem{Base: cells, Index: reg.RDX, Scale: 8}) }
