package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Blocks of cells of one lane are rows of four numbers, each a register. Every number is that of the operation by lanes, bitwise.
var quads = []reg.VecPhysical{
	reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12,
}

// columns reads the block of an operand by its columns into to, with registers t between.
func columns(v vectors, operand int, t, to []reg.VecPhysical) {
	for i, at := range [4][2]int{{0, 8}, {4, 12}, {2, 10}, {6, 14}} { // halves of rows 0 and 2, of 1 and 3
		VMOVUPD(v.cell(operand, at[0]), t[i].(reg.Vec).AsX())
		VINSERTF128(U8(1), v.cell(operand, at[1]), t[i], t[i])
	}
	for i := range 2 {
		VUNPCKLPD(t[2*i+1], t[2*i], to[2*i])
		VUNPCKHPD(t[2*i+1], t[2*i], to[2*i+1])
	}
}

// store writes columns x and y of a block, of numbers first and first + 1, with register t between.
func store(v vectors, operand, first int, x, y, t reg.VecPhysical) {
	for r := range 2 {
		if r == 0 {
			VUNPCKLPD(y, x, t)
		} else {
			VUNPCKHPD(y, x, t)
		}
		VMOVUPD(t.(reg.Vec).AsX(), v.cell(operand, 4*r+first))
		VEXTRACTF128(U8(1), t, v.cell(operand, 4*(r+2)+first))
	}
}

// productRows is product.
func productRows(v vectors, lower bool) {
	l, acc, w := quads[4:8], quads[8], quads[9]
	columns(v, 2, quads[0:4], l)
	for r := range 4 {
		VMOVUPD(v.cell(0, 4*r), acc)
		for k := range 4 {
			VBROADCASTSD(v.cell(1, 4*r+k), w)
			VFNMADD231PD(l[k], w, acc)
		}
		half := acc.(reg.Vec).AsX()
		switch {
		case !lower || r == 3:
			VMOVUPD(acc, v.cell(0, 4*r))
		case r == 0:
			VMOVSD(half, v.cell(0, 0))
		case r == 1:
			VMOVUPD(half, v.cell(0, 4))
		default:
			VMOVUPD(half, v.cell(0, 8))
			VEXTRACTF128(U8(1), acc, half)
			VMOVSD(half, v.cell(0, 10))
		}
	}
}

// scaleRows is scale.
func scaleRows(v vectors) {
	d, w, p := quads[0:4], quads[4:8], quads[8]
	columns(v, 1, d, w)
	part := func(k int) Op { VBROADCASTSD(v.cell(2, k), p); return p }
	for i, m := range []int{3, 5} {
		VFNMADD231PD(part(m), w[0], w[2+i])
		VFNMADD231PD(part(m+1), w[1], w[2+i])
	}
	for _, k := range []struct{ x, part int }{{0, 0}, {2, 7}} {
		for i := range 2 {
			VMULPD(part(k.part+i), w[k.x], d[k.x+i])
			VFMADD231PD(part(k.part+i+1), w[k.x+1], d[k.x+i])
		}
	}
	store(v, 1, 2, w[2], w[3], p)
	store(v, 0, 0, d[0], d[1], p)
	store(v, 0, 2, d[2], d[3], p)
}

// applyRows is apply, to the block or its transpose.
func applyRows(v vectors, forward bool) {
	a, y, x := quads[4:8], quads[8], quads[9]
	if forward {
		columns(v, 1, quads[0:4], a)
	}
	VMOVUPD(v.cell(0, 0), y)
	for k := range 4 {
		VBROADCASTSD(v.cell(2, k), x)
		if forward {
			VFNMADD231PD(a[k], x, y)
		} else {
			VFNMADD231PD(v.cell(1, 4*k), x, y)
		}
	}
	VMOVUPD(y, v.cell(0, 0))
}
