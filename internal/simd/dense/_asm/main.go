// Command asm writes the kernels of package dense. It is a module of its own so that the generator's dependencies stay
// out of the project's. Regenerate with `go generate` in internal/simd/dense.
package main

import (
	"flag"
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// group of rows are computed at once, so that their sums hide one another's latency.
const group = 4

func main() {
	set := flag.String("isa", "", "instruction set: avx512 or avx2")
	flag.Parse()
	ConstraintExpr("amd64,!purego")
	switch *set {
	case "avx512":
		add("AVX512", newWide())
	case "avx2":
		add("AVX2", newNarrow())
	default:
		fmt.Fprintf(os.Stderr, "asm: -isa %q: want avx512 or avx2\n", *set)
		os.Exit(2)
	}
	Generate()
}

// vectors are an instruction set's: registers of so many numbers, of which the first ones are loaded and stored.
type vectors interface {
	size() int
	register() reg.VecVirtual
	begin()               // once
	mask(n reg.GPVirtual) // the first n are meant, from 1 to size
	load(from Mem, to reg.VecVirtual)
	store(from reg.VecVirtual, to Mem)
	multiplyAdd(by Mem, x, sum reg.VecVirtual)
}

// Sizes, as dense.go has them.
const (
	rows = iota
	terms
	columns
	first
	cRow
	aRow
	aColumn
	bRow
	dRow
)

// add writes, for groups of rows r and every column j that they have,
//
//	c_r[j] = d_r[j] + Σ_k a_r[k]·b_k[j]
//
// In the last group, rows that there are not are the one before: all are read before one is written.
func add(name string, v vectors) {
	TEXT("add"+name, NOSPLIT, "func(sizes *int, c, d, a, b *float64)")
	Doc("add" + name + " is Product.add, with the product's sizes.")
	Pragma("noescape")
	v.begin()
	sizes := Load(Param("sizes"), GP64())
	size := func(i int) Mem { return Mem{Base: sizes, Disp: 8 * i} }
	local := AllocLocal(8 * (2 + 2*group))
	left, limit, c, d := local, local.Offset(8), local.Offset(16), local.Offset(16+8*group)
	at, from, start := Load(Param("c"), GP64()), Load(Param("a"), GP64()), Load(Param("d"), GP64())
	t := GP64()
	for _, l := range []struct {
		to Mem
		of int
	}{{left, rows}, {limit, first}} {
		MOVQ(size(l.of), t)
		MOVQ(t, l.to)
	}
	var a [group]reg.GPVirtual
	for r := range a {
		a[r] = GP64()
	}
	j, remaining, b, k := GP64(), GP64(), GP64(), GP64()

	Label("rows")
	// at, start and from are left where the next group begins.
	MOVQ(from, a[0])
	MOVQ(at, c)
	MOVQ(start, d)
	for r := 1; r < group; r++ {
		CMPQ(left, Imm(uint64(r)))
		JLE(LabelRef(fmt.Sprintf("same%d", r)))
		ADDQ(size(aRow), from)
		ADDQ(size(cRow), at)
		ADDQ(size(dRow), start)
		Label(fmt.Sprintf("same%d", r))
		MOVQ(from, a[r])
		MOVQ(at, c.Offset(8*r))
		MOVQ(start, d.Offset(8*r))
	}
	ADDQ(size(aRow), from)
	ADDQ(size(cRow), at)
	ADDQ(size(dRow), start)
	MOVQ(size(columns), remaining)
	CMPQ(remaining, limit)
	CMOVQGT(limit, remaining)
	XORQ(j, j)

	Label("columns")
	v.mask(remaining)
	var sum [group]reg.VecVirtual
	for r := range sum {
		sum[r] = v.register()
		MOVQ(d.Offset(8*r), t)
		v.load(Mem{Base: t, Index: j, Scale: 8}, sum[r])
	}
	Load(Param("b"), b)
	LEAQ(Mem{Base: b, Index: j, Scale: 8}, b)
	MOVQ(size(terms), k)
	for r := range a { // from here to the end of the terms each is where the next is read
		if r > 0 {
			SUBQ(a[0], a[r])
		}
	}
	MOVQ(a[0], t)
	x := v.register()
	Label("terms")
	v.load(Mem{Base: b}, x)
	v.multiplyAdd(Mem{Base: t}, x, sum[0])
	for r := 1; r < group; r++ {
		v.multiplyAdd(Mem{Base: t, Index: a[r], Scale: 1}, x, sum[r])
	}
	ADDQ(size(bRow), b)
	ADDQ(size(aColumn), t)
	DECQ(k)
	JNZ(LabelRef("terms"))
	for r := 1; r < group; r++ {
		ADDQ(a[0], a[r])
	}
	for r := range sum {
		MOVQ(c.Offset(8*r), t)
		v.store(sum[r], Mem{Base: t, Index: j, Scale: 8})
	}
	ADDQ(Imm(uint64(v.size())), j)
	SUBQ(Imm(uint64(v.size())), remaining)
	JG(LabelRef("columns"))

	ADDQ(Imm(group), limit)
	SUBQ(Imm(group), left)
	JG(LabelRef("rows"))
	VZEROUPPER()
	RET()
}

// wide is AVX-512.
type wide struct{ first reg.Register }

func newWide() *wide { return new(wide) }

func (w *wide) size() int                { return 8 }
func (w *wide) register() reg.VecVirtual { return ZMM() }
func (w *wide) begin()                   { w.first = K() }

// mask takes the low bits of all ones; BZHI leaves all of them where n is larger than the register, and eight are read.
func (w *wide) mask(n reg.GPVirtual) {
	bits, few := GP64(), GP64()
	MOVQ(n, few)
	CMPQ(few, Imm(8))
	eight := GP64()
	MOVQ(U64(8), eight)
	CMOVQGT(eight, few)
	MOVQ(I64(-1), bits)
	BZHIQ(few, bits, bits)
	KMOVW(bits.As32(), w.first)
}

func (w *wide) load(from Mem, to reg.VecVirtual)          { VMOVUPD_Z(from, w.first, to) }
func (w *wide) store(from reg.VecVirtual, to Mem)         { VMOVUPD(from, w.first, to) }
func (w *wide) multiplyAdd(by Mem, x, sum reg.VecVirtual) { VFMADD231PD_BCST(by, x, sum) }

// narrow is AVX2.
type narrow struct {
	first reg.VecVirtual
	table Mem
}

func newNarrow() *narrow { return new(narrow) }

func (w *narrow) size() int                { return 4 }
func (w *narrow) register() reg.VecVirtual { return YMM() }

func (w *narrow) begin() {
	w.table = GLOBL("first", RODATA|NOPTR)
	for i := range 8 {
		v := int64(0)
		if i < 4 {
			v = -1
		}
		DATA(8*i, I64(v))
	}
	w.first = YMM()
}

// mask reads four of the table, from the place where n of them are ones.
func (w *narrow) mask(n reg.GPVirtual) {
	few, four, at := GP64(), GP64(), GP64()
	MOVQ(n, few)
	MOVQ(U64(4), four)
	CMPQ(few, four)
	CMOVQGT(four, few)
	SUBQ(few, four)
	LEAQ(w.table, at)
	VMOVUPD(Mem{Base: at, Index: four, Scale: 8}, w.first)
}

func (w *narrow) load(from Mem, to reg.VecVirtual)  { VMASKMOVPD(from, w.first, to) }
func (w *narrow) store(from reg.VecVirtual, to Mem) { VMASKMOVPD(from, w.first, to) }

func (w *narrow) multiplyAdd(by Mem, x, sum reg.VecVirtual) {
	factor := YMM()
	VBROADCASTSD(by, factor)
	VFMADD231PD(factor, x, sum)
}
