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
			VMOVUPD(v.cell(2, k), l[k])
		}
	}
	for r := range 4 {
		columns := 4
		if lower {
			columns = r + 1
		}
		for c := range columns {
			VMOVUPD(v.cell(0, 4*r+c), acc[c])
		}
		for k := range 4 {
			VMOVUPD(v.cell(1, 4*r+k), w[k])
			for c := range columns {
				var x Op = v.cell(2, 4*c+k)
				if v.wide() {
					x = l[4*c+k]
				}
				VFNMADD231PD(x, w[k], acc[c])
			}
		}
		for c := range columns {
			VMOVUPD(acc[c], v.cell(0, 4*r+c))
		}
	}
}

// scale is L = W·P.
func scale(v vectors) {
	acc, w, p := v.file[0:4], v.file[4:8], v.file[16%len(v.file):]
	if v.wide() {
		for k := range 16 {
			VMOVUPD(v.cell(2, k), p[k])
		}
	}
	for r := range 4 {
		for k := range 4 {
			VMOVUPD(v.cell(1, 4*r+k), w[k])
			for c := range 4 {
				var x Op = v.cell(2, 4*k+c)
				if v.wide() {
					x = p[4*k+c]
				}
				if k == 0 {
					VMULPD(x, w[k], acc[c])
				} else {
					VFMADD231PD(x, w[k], acc[c])
				}
			}
		}
		for c := range 4 {
			VMOVUPD(acc[c], v.cell(0, 4*r+c))
		}
	}
}

// apply is y −= A·x, or y = A·x, with A's entry (r, k) in the block's cell at(r, k).
func apply(v vectors, at func(r, k int) int, subtract bool) {
	y, x := v.file[0:4], v.file[4]
	if subtract {
		for r := range 4 {
			VMOVUPD(v.cell(0, r), y[r])
		}
	}
	for k := range 4 {
		VMOVUPD(v.cell(2, k), x)
		for r := range 4 {
			switch {
			case subtract:
				VFNMADD231PD(v.cell(1, at(r, k)), x, y[r])
			case k == 0:
				VMULPD(v.cell(1, at(r, k)), x, y[r])
			default:
				VFMADD231PD(v.cell(1, at(r, k)), x, y[r])
			}
		}
	}
	for r := range 4 {
		VMOVUPD(y[r], v.cell(0, r))
	}
}

// pivot inverts a symmetric block by its 2×2 corner and the complement, and
// counts negative eigenvalues.
func pivot(v vectors) {
	f := v.file
	cell := func(r, c int) Mem { return v.cell(0, 4*r+c) }
	out := func(x reg.VecPhysical, at ...int) {
		for _, k := range at {
			VMOVUPD(x, v.cell(1, k))
		}
	}
	// invert2 of [a b; b c]: a and c become c·r and a·r for the inverse's corners, b
	// becomes −b·r; det, t are free registers.
	tally := func(det, a, t, t2 reg.VecPhysical) {
		if v.wide() {
			VCMPPD(U8(lessThan), v.zero(), det, reg.K1)
			VCMPPD(U8(lessThan), v.zero(), a, reg.K2)
			KANDNW(reg.K2, reg.K1, reg.K2)
			VMOVAPD_Z(v.one(), reg.K1, t)
			VMOVAPD_Z(v.one(), reg.K2, t2)
			VADDPD(v.cell(2, 0), t, t)
			VADDPD(t2, t, t)
			VADDPD(t2, t, t)
			VMOVUPD(t, v.cell(2, 0))
			return
		}
		VCMPPD(U8(lessThan), v.zero(), det, t)
		VCMPPD(U8(lessThan), v.zero(), a, t2)
		VANDNPD(t2, t, t2)
		VANDPD(v.one(), t, t)
		VANDPD(v.one(), t2, t2)
		VADDPD(v.cell(2, 0), t, t)
		VADDPD(t2, t, t)
		VADDPD(t2, t, t)
		VMOVUPD(t, v.cell(2, 0))
	}
	determinant := func(a, b, c, t, det reg.VecPhysical) {
		VMULPD(b, b, t)
		VMOVAPD(a, det)
		VFMSUB213PD(t, c, det)
	}

	VMOVUPD(cell(0, 0), f[0])
	VMOVUPD(cell(1, 0), f[1])
	VMOVUPD(cell(1, 1), f[2])
	determinant(f[0], f[1], f[2], f[3], f[4])
	tally(f[4], f[0], f[5], f[6])
	VDIVPD(f[4], v.one(), f[4])
	VMULPD(f[4], f[2], f[5]) // p00
	VMULPD(f[4], f[1], f[6]) // p10
	VXORPD(v.sign(), f[6], f[6])
	VMULPD(f[4], f[0], f[7]) // p11

	VMOVUPD(cell(2, 0), f[0])
	VMOVUPD(cell(2, 1), f[1])
	VMOVUPD(cell(3, 0), f[2])
	VMOVUPD(cell(3, 1), f[3])
	for _, m := range []struct{ d, x, y, p, q int }{
		{4, 0, 1, 5, 6}, {8, 0, 1, 6, 7}, {9, 2, 3, 5, 6}, {10, 2, 3, 6, 7},
	} {
		VMULPD(f[m.p], f[m.x], f[m.d])
		VFMADD231PD(f[m.q], f[m.y], f[m.d])
	}
	m20, m21, m30, m31 := f[4], f[8], f[9], f[10]
	s22, s32, s33 := f[11], f[12], f[0]
	VMOVUPD(cell(2, 2), s22)
	VFNMADD231PD(m20, f[0], s22)
	VFNMADD231PD(m21, f[1], s22)
	VMOVUPD(cell(3, 2), s32)
	VFNMADD231PD(m30, f[0], s32)
	VFNMADD231PD(m31, f[1], s32)
	VMOVUPD(cell(3, 3), s33)
	VFNMADD231PD(m30, f[2], s33)
	VFNMADD231PD(m31, f[3], s33)
	determinant(s22, s32, s33, f[1], f[2])
	tally(f[2], s22, f[1], f[3])
	VDIVPD(f[2], v.one(), f[2])
	q22, q32, q33 := f[1], f[3], f[11]
	VMULPD(f[2], s33, q22)
	VMULPD(f[2], s32, q32)
	VXORPD(v.sign(), q32, q32)
	VMULPD(f[2], s22, q33)
	x20, x21, x30, x31 := f[0], f[2], f[12], f[1]
	VMULPD(m20, q22, x20)
	VFMADD231PD(m30, q32, x20)
	VMULPD(m21, q22, x21)
	VFMADD231PD(m31, q32, x21)
	out(q22, 10) // its register is x31's
	VMULPD(m20, q32, x30)
	VFMADD231PD(m30, q33, x30)
	VMULPD(m21, q32, x31)
	VFMADD231PD(m31, q33, x31)
	out(q32, 11, 14)
	out(q33, 15)
	p00, p10, p11 := f[5], f[6], f[7]
	VFMADD231PD(x20, m20, p00)
	VFMADD231PD(x30, m30, p00)
	VFMADD231PD(x20, m21, p10)
	VFMADD231PD(x30, m31, p10)
	VFMADD231PD(x21, m21, p11)
	VFMADD231PD(x31, m31, p11)
	out(p00, 0)
	out(p10, 1, 4)
	out(p11, 5)
	for _, x := range []struct {
		r      reg.VecPhysical
		at, by int
	}{{x20, 2, 8}, {x30, 3, 12}, {x21, 6, 9}, {x31, 7, 13}} {
		VXORPD(v.sign(), x.r, x.r)
		out(x.r, x.at, x.by)
	}
}
