// Command asm generates the kernels of package dots.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64,!purego")
	four()
	add()
	Generate()
}

// four is Sums.Four: for n numbers, a multiple of four and not none,
//
//	for i = 0, 4, …: sums[k][l] += a[i+l]·rows[k·stride+i+l]   for k, l < 4
func four() {
	TEXT("four", NOSPLIT, "func(a, rows *float64, stride, n int, sums *float64)")
	Doc("four is sums for four rows.")
	Pragma("noescape")
	a, n, sums := Load(Param("a"), GP64()), Load(Param("n"), GP64()), Load(Param("sums"), GP64())
	row := rows()
	var sum [4]reg.VecVirtual
	for k := range sum {
		sum[k] = YMM()
		VXORPD(sum[k], sum[k], sum[k])
	}
	i := GP64()
	XORQ(i, i)
	Label("next")
	x := YMM()
	VMOVUPD(Mem{Base: a, Index: i, Scale: 8}, x)
	for k, r := range row {
		product := YMM()
		VMULPD(Mem{Base: r, Index: i, Scale: 8}, x, product)
		VADDPD(product, sum[k], sum[k])
	}
	ADDQ(Imm(4), i)
	CMPQ(i, n)
	JLT(LabelRef("next"))
	for k, v := range sum {
		VMOVUPD(v, Mem{Base: sums}.Offset(32*k))
	}
	VZEROUPPER()
	RET()
}

// add is Add: for n numbers, a multiple of four and not none,
//
//	for i: y[i] = (((y[i] + v[0]·rows[i]) + v[1]·rows[stride+i]) + …)
func add() {
	TEXT("add", NOSPLIT, "func(y, v, rows *float64, stride, n int)")
	Doc("add is the loop of Add for four rows.")
	Pragma("noescape")
	y, v, n := Load(Param("y"), GP64()), Load(Param("v"), GP64()), Load(Param("n"), GP64())
	row := rows()
	var by [4]reg.VecVirtual
	for k := range by {
		by[k] = YMM()
		VBROADCASTSD(Mem{Base: v}.Offset(8*k), by[k])
	}
	i := GP64()
	XORQ(i, i)
	Label("next")
	sum := YMM()
	VMOVUPD(Mem{Base: y, Index: i, Scale: 8}, sum)
	for k, r := range row {
		product := YMM()
		VMULPD(Mem{Base: r, Index: i, Scale: 8}, by[k], product)
		VADDPD(product, sum, sum)
	}
	VMOVUPD(sum, Mem{Base: y, Index: i, Scale: 8})
	ADDQ(Imm(4), i)
	CMPQ(i, n)
	JLT(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// rows are the addresses of four rows.
func rows() (row [4]reg.Register) {
	stride := Load(Param("stride"), GP64())
	SHLQ(Imm(3), stride)
	row[0] = Load(Param("rows"), GP64())
	for k := 1; k < 4; k++ {
		next := GP64()
		MOVQ(row[k-1], next)
		ADDQ(stride, next)
		row[k] = next
	}
	return row
}
