// Command eig generates the assembly of cpu_fallback/internal/eig. Every kernel
// is emitted twice by the same code, for 16 lanes (AVX-512) and 8 (AVX2). The
// loop each one computes is its Go twin in generic.go; the variables here have
// the same names.
package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The constants of generic.go.
const (
	negligible    = 0x1p-60
	floorE2       = 0x1p-100
	epsilon       = 0x1p-23
	blur          = 0x1p-22
	smallestBlur  = 0x1p-40
	smallestPivot = 0x1p-100
	chunk         = 3
)

func main() {
	ConstraintExpr("amd64,!purego")
	packHalf()
	for _, k := range []kernel{{lanes: 16, name: "AVX512"}, {lanes: 8, name: "AVX2"}} {
		k.largest()
		k.scale()
		k.tridiagonalise()
		k.bound()
		k.bisect()
		k.factor()
		k.solve()
		k.normalise()
		k.reflect()
	}
	Generate()
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

// packHalf transposes eight rows into eight of the lanes.
func packHalf() {
	TEXT("packHalf", NOSPLIT, "func(dst, src []float32, stride, lanes, count int)")
	Doc("packHalf writes dst[i·lanes+r] = src[r·stride+i] for r < 8, i < count; count is a multiple of 8.")
	dst, src := base("dst"), base("src")
	stride, lanes, count := scalar("stride"), scalar("lanes"), scalar("count")
	SHLQ(U8(2), stride)
	SHLQ(U8(2), lanes)
	three := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	src3, src6 := GP64(), GP64()
	LEAQ(Mem{Base: src, Index: three, Scale: 1}, src3)
	LEAQ(Mem{Base: src3, Index: three, Scale: 1}, src6)
	rows := []Mem{
		{Base: src}, {Base: src, Index: stride, Scale: 1}, {Base: src, Index: stride, Scale: 2}, {Base: src3},
		{Base: src, Index: stride, Scale: 4}, {Base: src3, Index: stride, Scale: 2}, {Base: src6}, {Base: src3, Index: stride, Scale: 4},
	}
	JMP(LabelRef("test"))
	Label("block")
	r := make([]VecVirtual, 8)
	for i := range r {
		r[i] = YMM()
		VMOVUPS(rows[i], r[i])
	}
	t := make([]VecVirtual, 8)
	for i := 0; i < 8; i += 2 {
		t[i], t[i+1] = YMM(), YMM()
		VUNPCKLPS(r[i+1], r[i], t[i])
		VUNPCKHPS(r[i+1], r[i], t[i+1])
	}
	for i := 0; i < 8; i += 4 {
		for j := range 2 {
			r[i+2*j], r[i+2*j+1] = YMM(), YMM()
			VUNPCKLPD(t[i+2+j], t[i+j], r[i+2*j])
			VUNPCKHPD(t[i+2+j], t[i+j], r[i+2*j+1])
		}
	}
	for half := range 2 {
		for i := range 4 {
			o := YMM()
			VPERM2F128(U8(0x20+0x11*half), r[i+4], r[i], o)
			VMOVUPS(o, Mem{Base: dst})
			ADDQ(lanes, dst)
		}
	}
	for _, p := range []Register{src, src3, src6} {
		ADDQ(U8(32), p)
	}
	SUBQ(U8(8), count)
	Label("test")
	CMPQ(count, U8(8))
	JGE(LabelRef("block"))
	finish()
}

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

func (k kernel) tridiagonalise() {
	k.text("tridiagonalise", "a []float32, n int, d, e, c, work []float32", "is tridiagonaliseGeneric on every lane.")
	a, n := base("a"), k.bytesOf(scalar("n"))
	b := k.bytes()

	q := base("work")
	p := GP64()
	LEAQ(at(q, n), p)
	zero := k.zero()
	j := GP64()
	XORQ(j, j)
	k.loop("clear", j, n, func() { VMOVUPS(zero, at(q, j)) })
	for _, name := range []string{"c", "e"} {
		VMOVUPS(zero, Mem{Base: base(name)})
	}

	// stride is one row of the matrix, i the byte offset of entry i in a row.
	stride := copyOf(scalar("n"))
	IMULQ(n, stride)
	i := copyOf(n)
	SUBQ(I32(b), i)
	JZ(LabelRef("done"))
	row := copyOf(stride)
	ADDQ(a, row)
	// row points one past the last row; step back by n vectors.
	SUBQ(n, row)
	last := copyOf(row)

	Label("step")
	lastI, qI := k.load(at(last, i)), k.load(at(q, i))
	updated := func(j Register) VecVirtual {
		v := k.load(at(row, j))
		VFNMADD231PS(at(q, j), lastI, v)
		VFNMADD231PS(at(last, j), qI, v)
		return v
	}
	sigma := k.zero()
	end := copyOf(i)
	SUBQ(I32(b), end)
	XORQ(j, j)
	k.loop("row", j, end, func() {
		v := updated(j)
		VMOVUPS(v, at(row, j))
		VFMADD231PS(v, v, sigma)
	})
	x, di := updated(j), updated(i)
	VMOVUPS(di, at(base("d"), i))
	norm, beta, u, h := k.vec(), k.vec(), k.vec(), k.vec()
	VMOVAPS(sigma, norm)
	VFMADD231PS(x, x, norm)
	VSQRTPS(norm, norm)
	sign := k.broadcast(signBit)
	VANDNPS(sign, x, beta)
	VORPS(norm, beta, beta)
	VSUBPS(beta, x, u)
	VMULPS(beta, u, h)
	minusOne := k.float(-1)
	VDIVPS(h, minusOne, h)
	reduce := k.greater(sigma, k.float(negligible))
	VMOVUPS(k.choose(reduce, beta, x), at(base("e"), i))
	none := k.zero()
	ci := k.choose(reduce, h, none)
	VMOVUPS(ci, at(base("c"), i))
	VMOVUPS(k.choose(reduce, u, x), at(row, j))

	// The leading block goes by height rows at a time, after the first
	// few, so that what the rows share is loaded once. ar are its rows r, r+1, …;
	// r is the byte offset of entry r in a row.
	height := k.height()
	ar := make([]GPVirtual, height)
	for t := range ar {
		ar[t] = GP64()
	}
	MOVQ(base("a"), ar[0])
	r, first := GP64(), copyOf(i)
	XORQ(r, r)
	ANDQ(I32(height*b-1), first)
	k.loop("single", r, first, func() {
		k.rows(ar[:1], r, j, q, last, row, p, "single")
		ADDQ(n, ar[0])
	})
	JMP(LabelRef("block_test"))
	Label("block")
	for t := 1; t < height; t++ {
		LEAQ(at(ar[t-1], n), ar[t])
	}
	k.rows(ar, r, j, q, last, row, p, "block")
	LEAQ(at(ar[height-1], n), ar[0])
	ADDQ(I32(height*b), r)
	Label("block_test")
	CMPQ(r, i)
	JL(LabelRef("block"))

	dot := k.zero()
	XORQ(j, j)
	k.loop("image", j, i, func() {
		pj := k.vec()
		VMULPS(at(p, j), ci, pj)
		VMOVUPS(pj, at(p, j))
		VFMADD231PS(at(row, j), pj, dot)
	})
	VMULPS(k.float(0.5), dot, dot)
	VMULPS(ci, dot, dot)
	XORQ(j, j)
	k.loop("correct", j, i, func() {
		pj := k.load(at(p, j))
		VFNMADD231PS(at(row, j), dot, pj)
		VMOVUPS(pj, at(p, j))
	})
	XCHGQ(q, p)
	MOVQ(row, last)
	SUBQ(n, row)
	SUBQ(I32(b), i)
	JNZ(LabelRef("step"))

	Label("done")
	VMOVUPS(k.load(Mem{Base: base("a")}), Mem{Base: base("d")})
	finish()
}

// height is how many rows of the leading block the registers hold at once.
func (k kernel) height() int {
	if k.wide() {
		return 4
	}
	return 2
}

// rows updates rows r, r+1, … of the leading block, at ar, by the last step's
// rank-two correction and multiplies them, and their mirror image, by u = row.
func (k kernel) rows(ar []GPVirtual, r, j GPVirtual, q, last, row, p Register, label string) {
	b := k.bytes()
	lr, qr, ur, sum := make([]VecVirtual, len(ar)), make([]VecVirtual, len(ar)), make([]VecVirtual, len(ar)), make([]VecVirtual, len(ar))
	for s := range ar {
		lr[s], qr[s], ur[s], sum[s] = k.load(at(last, r).Offset(s*b)), k.load(at(q, r).Offset(s*b)), k.load(at(row, r).Offset(s*b)), k.zero()
	}
	XORQ(j, j)
	k.loop(label+"_entry", j, r, func() {
		lj, qj, uj, pj := k.load(at(last, j)), k.load(at(q, j)), k.load(at(row, j)), k.load(at(p, j))
		for s := range ar {
			v := k.load(at(ar[s], j))
			VFNMADD231PS(qj, lr[s], v)
			VFNMADD231PS(lj, qr[s], v)
			VMOVUPS(v, at(ar[s], j))
			VFMADD231PS(uj, v, sum[s])
			VFMADD231PS(ur[s], v, pj)
		}
		VMOVUPS(pj, at(p, j))
	})
	for s := range ar {
		for t := range s + 1 {
			v := k.load(at(ar[s], r).Offset(t * b))
			VFNMADD231PS(qr[t], lr[s], v)
			VFNMADD231PS(lr[t], qr[s], v)
			VMOVUPS(v, at(ar[s], r).Offset(t*b))
			VFMADD231PS(ur[t], v, sum[s])
			if t < s {
				VFMADD231PS(ur[s], v, sum[t])
			}
		}
	}
	for s := range ar {
		VMOVUPS(sum[s], at(p, r).Offset(s*b))
	}
}

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

// finish returns with the upper halves clear: Go's own code uses SSE.
func finish() {
	VZEROUPPER()
	RET()
}
