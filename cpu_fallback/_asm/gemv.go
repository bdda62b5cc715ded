package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gemv writes the kernels for a single row: four panels at once, because the two
// accumulators of one panel would wait for the latency of the multiply-add
// instead of for the cache. All columns are valid. The sparse one reads only the
// rows of B that are listed.
func gemv(v vectors, sparse bool) {
	const panels = 4
	n := 2 * panels
	name := "gemv"
	if sparse {
		name = "gemvSparse"
	}
	TEXT(name+v.suffix, NOSPLIT, "func(t *byte)")
	Load(Param("t"), args)
	panel, panel3 := aRow, aRow3
	MOVQ(at(args, fieldA), a0)
	MOVQ(at(args, fieldAStep), aStep)
	MOVQ(at(args, fieldB), b)
	MOVQ(at(args, fieldBStep), bStep)
	MOVQ(at(args, fieldBPanel), panel)
	MOVQ(at(args, fieldC), c)
	LEAQ(Mem{Base: panel, Index: panel, Scale: 2}, panel3)
	list, row := reg.RBX, reg.RCX
	if sparse {
		MOVQ(at(args, fieldLanes), list)
	} else {
		row = b
	}
	acc := v.file[:n]
	bAt := func(j int) Mem {
		m := Mem{Base: row, Disp: j % 2 * v.bytes}
		switch j / 2 {
		case 1:
			m.Index, m.Scale = panel, 1
		case 2:
			m.Index, m.Scale = panel, 2
		case 3:
			m.Index, m.Scale = panel3, 1
		}
		return m
	}

	MOVQ(at(args, fieldStart), tmp)
	TESTQ(tmp, tmp)
	JNE(LabelRef("load"))
	MOVQ(c, tmp)
	MOVQ(at(args, fieldMode), k)
	TESTQ(U32(modeAccumulate), k)
	JNE(LabelRef("load"))
	for j := range n {
		v.zero(acc[j])
	}
	JMP(LabelRef("begin"))
	Label("load")
	for j := range n {
		VMOVUPS(at(tmp, j*v.bytes), acc[j])
	}
	Label("begin")

	MOVQ(at(args, fieldK), k)
	TESTQ(k, k)
	JE(LabelRef("done"))
	Label("k")
	broadcast := v.file[n]
	if sparse {
		MOVLQSX(Mem{Base: list}, row)
		VBROADCASTSS(Mem{Base: a0, Index: row, Scale: 4}, broadcast)
		IMULQ(bStep, row)
		ADDQ(b, row)
	} else {
		VBROADCASTSS(Mem{Base: a0}, broadcast)
	}
	for j := range n {
		VFMADD231PS(bAt(j), broadcast, acc[j])
	}
	if sparse {
		ADDQ(Imm(4), list)
	} else {
		ADDQ(bStep, b)
		ADDQ(aStep, a0)
	}
	DECQ(k)
	JNE(LabelRef("k"))
	Label("done")

	zero := v.file[n]
	v.zero(zero)
	MOVQ(at(args, fieldMode), k)
	TESTQ(U32(modeReLU), k)
	JE(LabelRef("linear"))
	for j := range n {
		VMAXPS(acc[j], zero, acc[j])
	}
	Label("linear")
	MOVQ(at(args, fieldWhere), where)
	TESTQ(where, where)
	JE(LabelRef("open"))
	for j := range n {
		h := v.file[n+1]
		VMOVUPS(at(where, j*v.bytes), h)
		if v.masked() {
			VCMPPS(Imm(30), zero, h, reg.K1)
			VMOVAPS_Z(acc[j], reg.K1, acc[j])
		} else {
			VCMPPS(Imm(30), zero, h, h)
			VANDPS(h, acc[j], acc[j])
		}
	}
	Label("open")
	for j := range n {
		VADDPS(zero, acc[j], acc[j])
		VMOVUPS(acc[j], at(c, j*v.bytes))
	}
	VZEROUPPER()
	RET()
}
