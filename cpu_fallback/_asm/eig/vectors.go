package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func (k kernel) factor() {
	k.text("factor", "d, e []float32, n int, lambda, bounds, work []float32", "is factorGeneric on every lane.")
	d, e, n, work := base("d"), base("e"), scalar("n"), base("work")
	b := k.bytes()
	x := k.load(Mem{Base: base("lambda")})
	minusDelta := k.zero()
	VSUBPS(Mem{Base: base("bounds"), Disp: 2 * b}, minusDelta, minusDelta)
	diagR, diagI, superR, superI := k.load(Mem{Base: d}), k.vec(), k.zero(), k.zero()
	VSUBPS(x, diagR, diagR)
	VMOVAPS(minusDelta, diagI)
	to := func(v Op, place int) { VMOVUPS(v, Mem{Base: work, Disp: place * b}) }
	from := func(place int) Mem { return Mem{Base: work, Disp: place * b} }
	v := AllocLocal(2 * b)

	// row factors row i, of which inside entries to the right of the diagonal
	// belong to the matrix; what is outside is zero. Results go to memory as soon
	// as they are known: 8 lanes have only 16 registers.
	row := func(inside int) {
		sub, nextR := k.zero(), k.zero()
		if inside > 0 {
			VMOVUPS(Mem{Base: e, Disp: b}, sub)
			VMOVUPS(Mem{Base: d, Disp: b}, nextR)
			VSUBPS(x, nextR, nextR)
		}
		square, sizes := k.vec(), k.vec()
		VMULPS(sub, sub, square)
		VMULPS(diagR, diagR, sizes)
		VFMADD231PS(diagI, diagI, sizes)
		swap := k.greater(square, sizes)
		k.storeMask(swap, from(7))
		to(k.choose(swap, nextR, superR), 2)
		to(k.choose(swap, minusDelta, superI), 3)
		VMOVUPS(k.choose(swap, superR, nextR), v)
		VMOVUPS(k.choose(swap, superI, minusDelta), v.Offset(b))

		none := k.zero()
		inR, inI := k.choose(swap, sub, diagR), k.choose(swap, none, diagI)
		VMULPS(inR, inR, sizes)
		VFMADD231PS(inI, inI, sizes)
		VMAXPS(k.float(smallestPivot), sizes, sizes)
		scale := k.float(1)
		VDIVPS(sizes, scale, scale)
		VMULPS(scale, inR, inR)
		VMULPS(scale, inI, inI)
		VSUBPS(inI, none, inI)
		to(inR, 0)
		to(inI, 1)

		oR, oI := k.choose(swap, diagR, sub), k.choose(swap, diagI, none)
		mR, mI := k.vec(), k.vec()
		VMULPS(inR, oR, mR)
		VFNMADD231PS(inI, oI, mR)
		VMULPS(inI, oR, mI)
		VFMADD231PS(inR, oI, mI)
		to(mR, 5)
		to(mI, 6)

		VMOVUPS(v, diagR)
		VFNMADD231PS(from(2), mR, diagR)
		VFMADD231PS(from(3), mI, diagR)
		VMOVUPS(v.Offset(b), diagI)
		VFNMADD231PS(from(3), mR, diagI)
		VFNMADD231PS(from(2), mI, diagI)

		superNext := k.zero()
		if inside > 1 {
			VMOVUPS(Mem{Base: e, Disp: 2 * b}, superNext)
		}
		u2, v2 := k.choose(swap, superNext, none), k.choose(swap, none, superNext)
		to(u2, 4)
		VFNMADD231PS(u2, mR, v2)
		VMOVAPS(v2, superR)
		VMULPS(u2, mI, mI)
		VSUBPS(mI, none, superI)
		for _, p := range []Register{d, e} {
			ADDQ(I32(b), p)
		}
		ADDQ(I32(8*b), work)
	}
	DECQ(n)
	JZ(LabelRef("last"))
	VMOVUPS(Mem{Base: e, Disp: b}, superR)
	DECQ(n)
	JZ(LabelRef("two"))
	Label("row")
	row(2)
	DECQ(n)
	JNZ(LabelRef("row"))
	Label("two")
	row(1)
	Label("last")
	row(0)
	finish()
}

func (k kernel) solve() {
	k.text("solve", "work []float32, n int, y, x []float32", "is solveGeneric on every lane.")
	work, n, y, x := base("work"), scalar("n"), base("y"), base("x")
	b := k.bytes()
	left := copyOf(n)
	factor := func(place int) Mem { return Mem{Base: work, Disp: place * b} }
	vR, vI := k.load(Mem{Base: y}), k.zero()
	none := k.zero()
	DECQ(left)
	JZ(LabelRef("back"))
	Label("forward")
	next := k.load(Mem{Base: y, Disp: b})
	swap := k.loadMask(factor(7))
	firstR, secondR := k.choose(swap, next, vR), k.choose(swap, vR, next)
	firstI, secondI := k.choose(swap, none, vI), k.choose(swap, vI, none)
	VMOVUPS(firstR, Mem{Base: x})
	VMOVUPS(firstI, Mem{Base: x, Disp: b})
	mR, mI := k.load(factor(5)), k.load(factor(6))
	VFNMADD231PS(mR, firstR, secondR)
	VFMADD231PS(mI, firstI, secondR)
	VFNMADD231PS(mR, firstI, secondI)
	VFNMADD231PS(mI, firstR, secondI)
	VMOVAPS(secondR, vR)
	VMOVAPS(secondI, vI)
	ADDQ(I32(b), y)
	ADDQ(I32(2*b), x)
	ADDQ(I32(8*b), work)
	DECQ(left)
	JNZ(LabelRef("forward"))

	Label("back")
	VMOVUPS(vR, Mem{Base: x})
	VMOVUPS(vI, Mem{Base: x, Disp: b})
	r1, i1, r2, i2 := k.zero(), k.zero(), k.zero(), k.zero()
	Label("backward")
	wR, wI := k.load(Mem{Base: x}), k.load(Mem{Base: x, Disp: b})
	u2, uR, uI := k.load(factor(4)), k.load(factor(2)), k.load(factor(3))
	VFNMADD231PS(u2, r2, wR)
	VFNMADD231PS(uR, r1, wR)
	VFMADD231PS(uI, i1, wR)
	VFNMADD231PS(u2, i2, wI)
	VFNMADD231PS(uR, i1, wI)
	VFNMADD231PS(uI, r1, wI)
	VMOVAPS(r1, r2)
	VMOVAPS(i1, i2)
	inR, inI := k.load(factor(0)), k.load(factor(1))
	VMULPS(inR, wR, r1)
	VFNMADD231PS(inI, wI, r1)
	VMULPS(inI, wR, i1)
	VFMADD231PS(inR, wI, i1)
	VMOVUPS(i1, Mem{Base: y})
	SUBQ(I32(b), y)
	SUBQ(I32(2*b), x)
	SUBQ(I32(8*b), work)
	DECQ(n)
	JNZ(LabelRef("backward"))
	finish()
}

func (k kernel) normalise() {
	k.text("normalise", "y []float32, n int", "is normaliseGeneric on every lane.")
	y, n := base("y"), k.bytesOf(scalar("n"))
	sum := k.zero()
	j := GP64()
	XORQ(j, j)
	k.loop("square", j, n, func() {
		v := k.load(at(y, j))
		VFMADD231PS(v, v, sum)
	})
	f := k.float(1)
	VSQRTPS(sum, sum)
	VDIVPS(sum, f, f)
	XORQ(j, j)
	k.loop("scale", j, n, func() {
		v := k.vec()
		VMULPS(at(y, j), f, v)
		VMOVUPS(v, at(y, j))
	})
	finish()
}

func (k kernel) reflect() {
	k.text("reflect", "u []float32, m int, c, y []float32", "is reflectGeneric on every lane.")
	u, m, y := base("u"), k.bytesOf(scalar("m")), base("y")
	b := k.bytes()
	// Two sums hide half of the latency of the chain.
	dot, odd := k.zero(), k.zero()
	j, even := GP64(), copyOf(m)
	XORQ(j, j)
	SUBQ(I32(b), even)
	JMP(LabelRef("pair_test"))
	Label("pair")
	v := k.load(at(u, j))
	VFMADD231PS(at(y, j), v, dot)
	v = k.load(at(u, j).Offset(b))
	VFMADD231PS(at(y, j).Offset(b), v, odd)
	ADDQ(I32(2*b), j)
	Label("pair_test")
	CMPQ(j, even)
	JL(LabelRef("pair"))
	k.loop("rest", j, m, func() {
		v := k.load(at(u, j))
		VFMADD231PS(at(y, j), v, dot)
	})
	VADDPS(odd, dot, dot)
	VMULPS(Mem{Base: base("c")}, dot, dot)
	XORQ(j, j)
	k.loop("subtract", j, m, func() {
		v := k.load(at(y, j))
		VFNMADD231PS(at(u, j), dot, v)
		VMOVUPS(v, at(y, j))
	})
	finish()
}
