package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// product is C −= W·Lᵀ, or its lower part.
func product(v vectors, lower bool) {
	acc, w, l := v.file[0:4], v.file[4:8], v.file[16%len(v.file):]
	if v.wide() {
		for k := range 16 {
			v.mov(v.cell(2, k), l[k])
		}
	}
	for r := range 4 {
		columns := 4
		if lower {
			columns = r + 1
		}
		for c := range columns {
			v.mov(v.cell(0, 4*r+c), acc[c])
		}
		for k := range 4 {
			v.mov(v.cell(1, 4*r+k), w[k])
			for c := range columns {
				var x Op = v.cell(2, 4*c+k)
				if v.wide() {
					x = l[4*c+k]
				}
				v.fnma(x, w[k], acc[c])
			}
		}
		for c := range columns {
			v.mov(acc[c], v.cell(0, 4*r+c))
		}
	}
}

// pivoted is where a pivoted block keeps its parts: D⁻¹, M and S⁻¹.
type pivoted struct {
	v    vectors
	at   int // operand
	regs []reg.VecPhysical
}

// openPivoted reads the block into registers where there are enough.
func openPivoted(v vectors, operand int) pivoted {
	p := pivoted{v: v, at: operand}
	if v.wide() {
		p.regs = v.file[16:26]
		for k, r := range p.regs {
			v.mov(v.cell(operand, k), r)
		}
	}
	return p
}

func (p pivoted) part(k int) Op {
	if p.regs != nil {
		return p.regs[k]
	}
	return p.v.cell(p.at, k)
}

// lower is x ← x·[I; M I]⁻ᵀ for four registers x.
func (p pivoted) lower(x []reg.VecPhysical) {
	for i, m := range []int{3, 5} {
		p.v.fnma(p.part(m), x[0], x[2+i])
		p.v.fnma(p.part(m+1), x[1], x[2+i])
	}
}

// divide is d = x·diag(D, S)⁻¹.
func (p pivoted) divide(x, d []reg.VecPhysical) {
	for _, k := range []struct{ x, part int }{{0, 0}, {2, 7}} {
		for i := range 2 {
			p.v.mul(p.part(k.part+i), x[k.x], d[k.x+i])
			p.v.fma(p.part(k.part+i+1), x[k.x+1], d[k.x+i])
		}
	}
}

// scale is W ← W·[I; M I]⁻ᵀ and L = W·diag(D, S)⁻¹.
func scale(v vectors) {
	p := openPivoted(v, 2)
	d, w := v.file[0:4], v.file[4:8]
	for r := range 4 {
		for k := range 4 {
			v.mov(v.cell(1, 4*r+k), w[k])
		}
		p.lower(w)
		p.divide(w, d)
		for k := range 4 {
			if k >= 2 {
				v.mov(w[k], v.cell(1, 4*r+k))
			}
			v.mov(d[k], v.cell(0, 4*r+k))
		}
	}
}

// lower is y ← [I; M I]⁻¹·y and z = diag(D, S)⁻¹·y.
func lower(v vectors) {
	p := pivoted{v: v, at: 1}
	d, y := v.file[0:4], v.file[4:8]
	for k := range 4 {
		v.mov(v.cell(0, k), y[k])
	}
	p.lower(y)
	p.divide(y, d)
	for k := range 4 {
		if k >= 2 {
			v.mov(y[k], v.cell(0, k))
		}
		v.mov(d[k], v.cell(2, k))
	}
}

// upper is x ← [I; M I]⁻ᵀ·x.
func upper(v vectors) {
	x := v.file[0:4]
	for k := range 4 {
		v.mov(v.cell(0, k), x[k])
	}
	for i := range 2 {
		v.fnma(v.cell(1, 3+i), x[2], x[i])
		v.fnma(v.cell(1, 5+i), x[3], x[i])
		v.mov(x[i], v.cell(0, i))
	}
}

// apply is y −= A·x, with A's entry (r, k) in the block's cell at(r, k).
func apply(v vectors, at func(r, k int) int) {
	y, x := v.file[0:4], v.file[4]
	for r := range 4 {
		v.mov(v.cell(0, r), y[r])
	}
	for k := range 4 {
		v.mov(v.cell(2, k), x)
		for r := range 4 {
			v.fnma(v.cell(1, at(r, k)), x, y[r])
		}
	}
	for r := range 4 {
		v.mov(y[r], v.cell(0, r))
	}
}

// pivot factors a symmetric block by its 2×2 corner and the complement, and
// counts negative eigenvalues.
func pivot(v vectors) {
	f := v.file
	cell := func(r, c int) Mem { return v.cell(0, 4*r+c) }
	out := func(x reg.VecPhysical, k int) { v.mov(x, v.cell(1, k)) }
	// invert2 of [a b; b c]: a and c become c·r and a·r for the inverse's corners, b
	// becomes −b·r; det, t are free registers.
	tally := func(det, a, t, t2 reg.VecPhysical) {
		if v.wide() {
			VCMPPD(U8(lessThan), v.zero(), det, reg.K1)
			VCMPPD(U8(lessThan), v.zero(), a, reg.K2)
			KANDNW(reg.K2, reg.K1, reg.K2)
			VMOVAPD_Z(v.one(), reg.K1, t)
			VMOVAPD_Z(v.one(), reg.K2, t2)
			v.add(v.cell(2, 0), t, t)
			v.add(t2, t, t)
			v.add(t2, t, t)
			v.mov(t, v.cell(2, 0))
			return
		}
		VCMPPD(U8(lessThan), v.zero(), det, t)
		VCMPPD(U8(lessThan), v.zero(), a, t2)
		v.andn(t2, t, t2)
		v.and(v.one(), t, t)
		v.and(v.one(), t2, t2)
		v.add(v.cell(2, 0), t, t)
		v.add(t2, t, t)
		v.add(t2, t, t)
		v.mov(t, v.cell(2, 0))
	}
	determinant := func(a, b, c, t, det reg.VecPhysical) {
		v.mul(b, b, t)
		VMOVAPD(a, det)
		v.fmsub213(t, c, det)
	}

	v.mov(cell(0, 0), f[0])
	v.mov(cell(1, 0), f[1])
	v.mov(cell(1, 1), f[2])
	determinant(f[0], f[1], f[2], f[3], f[4])
	tally(f[4], f[0], f[5], f[6])
	v.div(f[4], v.one(), f[4])
	v.mul(f[4], f[2], f[5]) // p00
	v.mul(f[4], f[1], f[6]) // p10
	v.xor(v.sign(), f[6], f[6])
	v.mul(f[4], f[0], f[7]) // p11

	v.mov(cell(2, 0), f[0])
	v.mov(cell(2, 1), f[1])
	v.mov(cell(3, 0), f[2])
	v.mov(cell(3, 1), f[3])
	for _, m := range []struct{ d, x, y, p, q int }{
		{4, 0, 1, 5, 6}, {8, 0, 1, 6, 7}, {9, 2, 3, 5, 6}, {10, 2, 3, 6, 7},
	} {
		v.mul(f[m.p], f[m.x], f[m.d])
		v.fma(f[m.q], f[m.y], f[m.d])
	}
	m20, m21, m30, m31 := f[4], f[8], f[9], f[10]
	for i, part := range []reg.VecPhysical{f[5], f[6], f[7], m20, m21, m30, m31} {
		out(part, i)
	}
	s22, s32, s33 := f[11], f[12], f[0]
	v.mov(cell(2, 2), s22)
	v.fnma(m20, f[0], s22)
	v.fnma(m21, f[1], s22)
	v.mov(cell(3, 2), s32)
	v.fnma(m30, f[0], s32)
	v.fnma(m31, f[1], s32)
	v.mov(cell(3, 3), s33)
	v.fnma(m30, f[2], s33)
	v.fnma(m31, f[3], s33)
	determinant(s22, s32, s33, f[1], f[2])
	tally(f[2], s22, f[1], f[3])
	v.div(f[2], v.one(), f[2])
	q22, q32, q33 := f[1], f[3], f[11]
	v.mul(f[2], s33, q22)
	v.mul(f[2], s32, q32)
	v.xor(v.sign(), q32, q32)
	v.mul(f[2], s22, q33)
	out(q22, 7)
	out(q32, 8)
	out(q33, 9)
}
