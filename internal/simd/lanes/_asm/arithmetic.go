package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// binaryOp is d = a ∘ b.
type binaryOp func(v vectors, b, a, d Op)

// pick is the instruction for vectors, or for one lane.
func (v vectors) pick(packed, scalar func(...Op), ops ...Op) {
	if v.single() {
		scalar(ops...)
	} else {
		packed(ops...)
	}
}

func (v vectors) mov(from, to Op) {
	if v.single() {
		VMOVSD(from, to)
	} else {
		VMOVUPD(from, to)
	}
}

func (v vectors) add(b, a, d Op)      { v.pick(VADDPD, VADDSD, b, a, d) }
func (v vectors) sub(b, a, d Op)      { v.pick(VSUBPD, VSUBSD, b, a, d) }
func (v vectors) mul(b, a, d Op)      { v.pick(VMULPD, VMULSD, b, a, d) }
func (v vectors) div(b, a, d Op)      { v.pick(VDIVPD, VDIVSD, b, a, d) }
func (v vectors) max(b, a, d Op)      { v.pick(VMAXPD, VMAXSD, b, a, d) }
func (v vectors) min(b, a, d Op)      { v.pick(VMINPD, VMINSD, b, a, d) }
func (v vectors) fma(b, a, d Op)      { v.pick(VFMADD231PD, VFMADD231SD, b, a, d) }
func (v vectors) fnma(b, a, d Op)     { v.pick(VFNMADD231PD, VFNMADD231SD, b, a, d) }
func (v vectors) fmsub213(b, a, d Op) { v.pick(VFMSUB213PD, VFMSUB213SD, b, a, d) }

func (v vectors) and(b, a, d Op)  { VANDPD(v.register(b), a, d) }
func (v vectors) or(b, a, d Op)   { VORPD(v.register(b), a, d) }
func (v vectors) xor(b, a, d Op)  { VXORPD(v.register(b), a, d) }
func (v vectors) andn(b, a, d Op) { VANDNPD(v.register(b), a, d) }

// register is an operand of an instruction that reads sixteen bytes at least: one lane is read by itself.
func (v vectors) register(b Op) Op {
	if _, memory := b.(Mem); !memory || !v.single() {
		return b
	}
	VMOVSD(b, v.file[10])
	return v.file[10]
}

func (v vectors) sqrt(a Op, d reg.VecPhysical) {
	if v.single() {
		VSQRTSD(a, d, d)
	} else {
		VSQRTPD(a, d)
	}
}

// floor is not for AVX-512.
func (v vectors) floor(a Op, d reg.VecPhysical) {
	if v.single() {
		VROUNDSD(U8(roundDown), a, d, d)
	} else {
		VROUNDPD(U8(roundDown), a, d)
	}
}

// blend is d = b where mask, and not for AVX-512.
func (v vectors) blend(mask, b Op, d reg.VecPhysical) { VBLENDVPD(mask, v.register(b), d, d) }

// compare is a mask in a, and not for AVX-512.
func (v vectors) compare(predicate uint8, b Op, a reg.VecPhysical) {
	if v.single() {
		VCMPSD(U8(predicate), b, a, a)
	} else {
		VCMPPD(U8(predicate), b, a, a)
	}
}
