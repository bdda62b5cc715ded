package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// kernel emits for one register width.
type kernel struct {
	lanes int
	name  string
}

func (k kernel) bytes() int { return 4 * k.lanes }
func (k kernel) wide() bool { return k.lanes == 16 }

func (k kernel) text(name, signature, doc string) {
	TEXT(name+k.name, NOSPLIT, "func("+signature+")")
	Doc(name + k.name + " " + doc)
}

func (k kernel) vec() VecVirtual {
	if k.wide() {
		return ZMM()
	}
	return YMM()
}

func (k kernel) zero() VecVirtual {
	v := k.vec()
	k.clear(v)
	return v
}

func (k kernel) clear(v VecVirtual) { VXORPS(v, v, v) }

func (k kernel) load(m Mem) VecVirtual {
	v := k.vec()
	VMOVUPS(m, v)
	return v
}

var constants = map[uint32]Mem{}

// constant is a float32 or its bits in read-only memory.
func constant(bits uint32) Mem {
	m, ok := constants[bits]
	if !ok {
		m = GLOBL(fmt.Sprintf("c%08x", bits), RODATA|NOPTR)
		DATA(0, U32(bits))
		constants[bits] = m
	}
	return m
}

func (k kernel) broadcast(bits uint32) VecVirtual {
	v := k.vec()
	VBROADCASTSS(constant(bits), v)
	return v
}

func (k kernel) float(x float32) VecVirtual { return k.broadcast(math.Float32bits(x)) }

const signBit = 1 << 31

// mask is a K register at 16 lanes and a vector of all-ones or zero at 8.
func (k kernel) greater(a, b Op) Register {
	const greaterOrdered = U8(30)
	if k.wide() {
		m := K()
		VCMPPS(greaterOrdered, b, a, m)
		return m
	}
	m := k.vec()
	VCMPPS(greaterOrdered, b, a, m)
	return m
}

func (k kernel) greaterInt(a, b Op) Register {
	if k.wide() {
		m := K()
		VPCMPGTD(b, a, m)
		return m
	}
	m := k.vec()
	VPCMPGTD(b, a, m)
	return m
}

func (k kernel) choose(mask Register, yes, no Op) VecVirtual {
	v := k.vec()
	if k.wide() {
		// A blend under a mask would count as reading what v held before.
		VMOVAPS(no, v)
		VMOVAPS(yes, mask, v)
	} else {
		VBLENDVPS(mask, yes, no, v)
	}
	return v
}

func (k kernel) storeMask(mask Register, to Mem) {
	if !k.wide() {
		VMOVUPS(mask, to)
		return
	}
	v := k.vec()
	VPMOVM2D(mask, v)
	VMOVUPS(v, to)
}

func (k kernel) loadMask(from Mem) Register {
	v := k.load(from)
	if !k.wide() {
		return v
	}
	m := K()
	VPMOVD2M(v, m)
	return m
}

func base(name string) GPVirtual { return Load(Param(name).Base(), GP64()).(GPVirtual) }

func scalar(name string) GPVirtual {
	return Load(Param(name), GP64()).(GPVirtual)
}

// at is the vector at base + offset.
func at(b, offset Register) Mem { return Mem{Base: b, Index: offset, Scale: 1} }

func copyOf(r Register) GPVirtual {
	c := GP64()
	MOVQ(r, c)
	return c
}

// bytesOf is count vectors in bytes.
func (k kernel) bytesOf(count Register) GPVirtual {
	b := copyOf(count)
	shift := 5
	if k.wide() {
		shift = 6
	}
	SHLQ(U8(shift), b)
	return b
}

// loop runs body for offset from the given start, step by step, while offset <
// end.
func (k kernel) loop(label string, offset, end Register, body func()) {
	JMP(LabelRef(label + "_test"))
	Label(label)
	body()
	ADDQ(I32(k.bytes()), offset)
	Label(label + "_test")
	CMPQ(offset, end)
	JL(LabelRef(label))
}

// finish returns with the upper halves clear: Go's own code uses SSE.
func finish() {
	VZEROUPPER()
	RET()
}
