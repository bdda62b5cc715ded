package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

func (k kernel) largest() {
	k.text("largest", "a []float32, count int, largest []uint32", "is largestGeneric on every lane.")
	a, end := base("a"), k.bytesOf(scalar("count"))
	magnitude := k.broadcast(signBit - 1)
	top := k.zero()
	j := GP64()
	XORQ(j, j)
	k.loop("element", j, end, func() {
		v := k.vec()
		VANDPS(at(a, j), magnitude, v)
		VPMAXUD(v, top, top)
	})
	VMOVUPS(top, Mem{Base: base("largest")})
	finish()
}

func (k kernel) scale() {
	k.text("scale", "a []float32, count int, factor []float32", "is scaleGeneric on every lane.")
	a, end := base("a"), k.bytesOf(scalar("count"))
	f := k.load(Mem{Base: base("factor")})
	j := GP64()
	XORQ(j, j)
	k.loop("element", j, end, func() {
		v := k.vec()
		VMULPS(at(a, j), f, v)
		VMOVUPS(v, at(a, j))
	})
	finish()
}
