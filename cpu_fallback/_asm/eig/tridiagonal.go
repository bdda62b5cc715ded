package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

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

	t := reduction{k, n, q, p, row, last, i, j}
	Label("step")
	ci := t.reflector()
	t.block()
	t.correct(ci)
	XCHGQ(q, p)
	MOVQ(row, last)
	SUBQ(n, row)
	SUBQ(I32(b), i)
	JNZ(LabelRef("step"))

	Label("done")
	VMOVUPS(k.load(Mem{Base: base("a")}), Mem{Base: base("d")})
	finish()
}

// reduction is a tridiagonalisation at one step: pointers to its row of the matrix and to the one of
// the last step, to the vectors q and p, and offsets in bytes, n of a whole row.
type reduction struct {
	kernel
	n, q, p, row, last GPVirtual
	i                  GPVirtual // of the entry on the diagonal, which the step ends at
	j                  GPVirtual // free to be used
}

// reflector updates the row by the last step's correction, stores its entries of d, e and c, leaves u
// in its place, and returns c.
func (t *reduction) reflector() (ci VecVirtual) {
	k, row, i, j, last, q := t.kernel, t.row, t.i, t.j, t.last, t.q
	lastI, qI := k.load(at(last, i)), k.load(at(q, i))
	updated := func(j Register) VecVirtual {
		v := k.load(at(row, j))
		VFNMADD231PS(at(q, j), lastI, v)
		VFNMADD231PS(at(last, j), qI, v)
		return v
	}
	sigma := k.zero()
	end := copyOf(i)
	SUBQ(I32(k.bytes()), end)
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
	ci = k.choose(reduce, h, none)
	VMOVUPS(ci, at(base("c"), i))
	VMOVUPS(k.choose(reduce, u, x), at(row, j))
	return ci
}

// block updates the leading block and writes its product with u to p. It goes by height rows at a
// time, after the first few, so that what the rows share is loaded once. ar are its rows r, r+1, …;
// r is the byte offset of entry r in a row.
func (t *reduction) block() {
	b, n, i := t.bytes(), t.n, t.i
	height := t.height()
	ar := make([]GPVirtual, height)
	for s := range ar {
		ar[s] = GP64()
	}
	MOVQ(base("a"), ar[0])
	r, first := GP64(), copyOf(i)
	XORQ(r, r)
	ANDQ(I32(height*b-1), first)
	t.loop("single", r, first, func() {
		t.rows(ar[:1], r, "single")
		ADDQ(n, ar[0])
	})
	JMP(LabelRef("block_test"))
	Label("block")
	for s := 1; s < height; s++ {
		LEAQ(at(ar[s-1], n), ar[s])
	}
	t.rows(ar, r, "block")
	LEAQ(at(ar[height-1], n), ar[0])
	ADDQ(I32(height*b), r)
	Label("block_test")
	CMPQ(r, i)
	JL(LabelRef("block"))
}

// correct turns p, the product with u, into the q of the next step.
func (t *reduction) correct(ci VecVirtual) {
	k, row, i, j, p := t.kernel, t.row, t.i, t.j, t.p
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
func (t *reduction) rows(ar []GPVirtual, r GPVirtual, label string) {
	k, j, q, last, row, p := t.kernel, t.j, t.q, t.last, t.row, t.p
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
		for other := range s + 1 {
			v := k.load(at(ar[s], r).Offset(other * b))
			VFNMADD231PS(qr[other], lr[s], v)
			VFNMADD231PS(lr[other], qr[s], v)
			VMOVUPS(v, at(ar[s], r).Offset(other*b))
			VFMADD231PS(ur[other], v, sum[s])
			if other < s {
				VFMADD231PS(ur[s], v, sum[other])
			}
		}
	}
	for s := range ar {
		VMOVUPS(sum[s], at(p, r).Offset(s*b))
	}
}
