package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func (k kernel) bound() {
	k.text("bound", "d, e []float32, n int, e2, bounds []float32", "is boundGeneric on every lane.")
	d, e, n, e2, bounds := base("d"), base("e"), k.bytesOf(scalar("n")), base("e2"), base("bounds")
	b := k.bytes()
	magnitude, floor := k.broadcast(signBit-1), k.float(floorE2)
	lo, hi, left, right := k.float(float32(math.Inf(1))), k.float(float32(math.Inf(-1))), k.zero(), k.vec()
	j := GP64()
	XORQ(j, j)
	k.loop("entry", j, n, func() {
		k.clear(right)
		next := copyOf(j)
		ADDQ(I32(b), next)
		CMPQ(next, n)
		JGE(LabelRef("last"))
		VANDPS(at(e, next), magnitude, right)
		Label("last")
		radius, v := k.vec(), k.vec()
		VADDPS(left, right, radius)
		di := k.load(at(d, j))
		VSUBPS(radius, di, v)
		VMINPS(v, lo, lo)
		VADDPS(radius, di, v)
		VMAXPS(v, hi, hi)
		VMOVAPS(right, left)
		square := k.load(at(e, j))
		VMULPS(square, square, square)
		VMAXPS(floor, square, square)
		VMOVUPS(square, at(e2, j))
	})
	norm := k.zero()
	VSUBPS(lo, norm, norm)
	VMAXPS(hi, norm, norm)
	two := k.float(2 * epsilon)
	VFNMADD231PS(two, norm, lo)
	VFMADD231PS(two, norm, hi)
	VMULPS(k.float(blur), norm, norm)
	VMAXPS(k.float(smallestBlur), norm, norm)
	VMOVUPS(lo, Mem{Base: bounds})
	VMOVUPS(hi, Mem{Base: bounds, Disp: b})
	VMOVUPS(norm, Mem{Base: bounds, Disp: 2 * b})
	finish()
}

func (k kernel) bisect() {
	k.text("bisect", "d, e2 []float32, n, below, iterations int, bounds, lambda []float32", "is bisectGeneric on every lane.")
	d, e2, n, iterations, bounds := base("d"), base("e2"), k.bytesOf(scalar("n")), scalar("iterations"), base("bounds")
	b := k.bytes()
	// The intervals and the wanted counts live on the stack: 8 lanes have only
	// 16 registers.
	lo, hi, below := AllocLocal(chunk*b), AllocLocal(chunk*b), AllocLocal((chunk+1)/2*8)
	bl, bh := k.load(Mem{Base: bounds}), k.load(Mem{Base: bounds, Disp: b})
	want := scalar("below")
	for s := range chunk {
		VMOVUPS(bl, lo.Offset(s*b))
		VMOVUPS(bh, hi.Offset(s*b))
		MOVL(want.As32(), below.Offset(4*s))
		DECQ(want)
	}
	x, q, count := make([]VecVirtual, chunk), make([]VecVirtual, chunk), make([]VecVirtual, chunk)
	for s := range chunk {
		x[s], q[s], count[s] = k.vec(), k.vec(), k.vec()
	}
	middle := func(s int, to VecVirtual) {
		half := k.float(0.5)
		VMOVUPS(lo.Offset(s*b), to)
		VADDPS(hi.Offset(s*b), to, to)
		VMULPS(half, to, to)
	}
	j := GP64()
	Label("halve")
	for s := range chunk {
		middle(s, x[s])
		VBROADCASTSS(constant(math.Float32bits(float32(math.Inf(1)))), q[s])
		k.clear(count[s])
	}
	XORQ(j, j)
	k.loop("sturm", j, n, func() {
		dj, ej := k.load(at(d, j)), k.load(at(e2, j))
		for s := range chunk {
			ratio := k.vec()
			VDIVPS(q[s], ej, ratio)
			VSUBPS(x[s], dj, q[s])
			VSUBPS(ratio, q[s], q[s])
			VPSRLD(U8(31), q[s], ratio)
			VPADDD(ratio, count[s], count[s])
		}
	})
	for s := range chunk {
		limit := k.vec()
		VBROADCASTSS(below.Offset(4*s), limit)
		above := k.greaterInt(count[s], limit)
		l, h := k.load(lo.Offset(s*b)), k.load(hi.Offset(s*b))
		VMOVUPS(k.choose(above, l, x[s]), lo.Offset(s*b))
		VMOVUPS(k.choose(above, x[s], h), hi.Offset(s*b))
	}
	DECQ(iterations)
	JNZ(LabelRef("halve"))
	lambda := base("lambda")
	for s := range chunk {
		middle(s, x[s])
		VMOVUPS(x[s], Mem{Base: lambda, Disp: s * b})
	}
	finish()
}
