// Command asm generates the AVX2 and AVX-512 kernels of package neighbours.
// Each function below states the loop it emits; kernels.go has the same loops
// in Go.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64,!purego")
	distances512()
	distances256()
	project512()
	project256()
	boxes512()
	boxes256()
	quantize512()
	quantize256()
	filter512()
	filter256()
	Generate()
}

func header(name, signature, doc string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(doc)
}

// address is the place of a parameter on the stack.
func address(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

func at(base reg.Register, offset int) Mem { return Mem{Base: base, Disp: offset} }

// treeSum leaves in lane 0 of x the tree sum of its four lanes.
func treeSum(x reg.VecVirtual) {
	t := XMM()
	VMOVHLPS(x, x, t)
	VADDPS(t, x, x)
	VMOVSHDUP(x, t)
	VADDSS(t, x, x)
}

// treeSumY is treeSum for eight lanes.
func treeSumY(y reg.VecVirtual) reg.VecVirtual {
	t, x := XMM(), XMM()
	VEXTRACTF128(U8(1), y, t)
	VEXTRACTF128(U8(0), y, x)
	VADDPS(t, x, x)
	treeSum(x)
	return x
}

// treeSumZ is treeSum for sixteen lanes.
func treeSumZ(z reg.VecVirtual) reg.VecVirtual {
	hi, lo := YMM(), YMM()
	VEXTRACTF32X8(U8(1), z, hi)
	VEXTRACTF32X8(U8(0), z, lo)
	VADDPS(hi, lo, lo)
	return treeSumY(lo)
}

const (
	distancesSignature = "func(q, rows *float32, chunks int, list *int32, count int, out *float32)"
	projectSignature   = "func(q, mean, along *float32, dim int, out *float32)"
	boxesSignature     = "func(q *float32, dim int, lo, hi *float32, blocks int, scale float32, out *float32)"
	quantizeSignature  = "func(q, lo, hi *float32, chunks int, inverse float32, bytes *uint8, errors *float32, sums *int32)"
	filterSignature    = "func(bytes *uint8, packed *int8, norms *int32, groups, blocks int, limit int32, masks *uint32)"
)

// rowLoop walks the listed rows: body accumulates one chunk of 64 bytes, finish
// reduces and returns the register whose lane 0 is stored.
func rowLoop(name string, zero func(), body func(q, row Mem), finish func() reg.VecVirtual) {
	q := Load(Param("q"), GP64())
	rows := Load(Param("rows"), GP64())
	bytes := Load(Param("chunks"), GP64())
	list := Load(Param("list"), GP64())
	count := Load(Param("count"), GP64())
	out := Load(Param("out"), GP64())
	SHLQ(U8(6), bytes)
	TESTQ(count, count)
	JE(LabelRef(name + "_done"))
	Label(name + "_row")
	row, c := GP64(), GP64()
	MOVLQSX(Mem{Base: list}, row)
	IMULQ(bytes, row)
	ADDQ(rows, row)
	zero()
	XORQ(c, c)
	Label(name + "_chunk")
	body(Mem{Base: q, Index: c, Scale: 1}, Mem{Base: row, Index: c, Scale: 1})
	ADDQ(U8(64), c)
	CMPQ(c, bytes)
	JLT(LabelRef(name + "_chunk"))
	VMOVSS(finish().AsX(), Mem{Base: out})
	ADDQ(U8(4), list)
	ADDQ(U8(4), out)
	DECQ(count)
	JNE(LabelRef(name + "_row"))
	Label(name + "_done")
	VZEROUPPER()
	RET()
}

// for each listed row: sum l = Σ (q − row)² over coordinates ≡ l mod 16, each
// square rounded before it is added; tree sum.
func distances512() {
	header("distances512", distancesSignature, "distances512 is distancesGeneric in AVX-512, bit for bit.")
	acc, d := ZMM(), ZMM()
	rowLoop("d512", func() { VPXORD(acc, acc, acc) }, func(q, row Mem) {
		VMOVUPS(q, d)
		VSUBPS(row, d, d)
		VMULPS(d, d, d)
		VADDPS(d, acc, acc)
	}, func() reg.VecVirtual { return treeSumZ(acc) })
}

func distances256() {
	header("distances256", distancesSignature, "distances256 is distancesGeneric in AVX2, bit for bit.")
	lo, hi, d, e := YMM(), YMM(), YMM(), YMM()
	rowLoop("d256", func() { VXORPS(lo, lo, lo); VXORPS(hi, hi, hi) }, func(q, row Mem) {
		VMOVUPS(q, d)
		VMOVUPS(q.Offset(32), e)
		VSUBPS(row, d, d)
		VSUBPS(row.Offset(32), e, e)
		VMULPS(d, d, d)
		VMULPS(e, e, e)
		VADDPS(d, lo, lo)
		VADDPS(e, hi, hi)
	}, func() reg.VecVirtual {
		VADDPS(hi, lo, lo)
		return treeSumY(lo)
	})
}

// out = Σ_j (q_j − mean_j)·along_j for 16 axes.
func project(name string, vectors int, vector func() reg.VecVirtual) {
	header(name, projectSignature, name+" is projectGeneric; its sums are fused and rounded once less.")
	q := Load(Param("q"), GP64())
	mean := Load(Param("mean"), GP64())
	along := Load(Param("along"), GP64())
	dim := Load(Param("dim"), GP64())
	out := Load(Param("out"), GP64())
	width := 64 / vectors
	acc := make([]reg.VecVirtual, vectors)
	for v := range acc {
		acc[v] = vector()
		if vectors == 1 {
			VPXORD(acc[v], acc[v], acc[v])
		} else {
			VXORPS(acc[v], acc[v], acc[v])
		}
	}
	x, b := XMM(), vector()
	Label(name + "_coordinate")
	VMOVSS(Mem{Base: q}, x)
	VSUBSS(Mem{Base: mean}, x, x)
	VBROADCASTSS(x, b)
	for v, a := range acc {
		VFMADD231PS(at(along, v*width), b, a)
	}
	ADDQ(U8(4), q)
	ADDQ(U8(4), mean)
	ADDQ(U8(64), along)
	DECQ(dim)
	JNE(LabelRef(name + "_coordinate"))
	for v, a := range acc {
		VMOVUPS(a, at(out, v*width))
	}
	VZEROUPPER()
	RET()
}

func project512() { project("project512", 1, ZMM) }
func project256() { project("project256", 2, YMM) }

// out = scale·sqrt(Σ_j max(lo_j − q_j, q_j − hi_j, 0)²) for 16 boxes at a time.
func boxes(name string, vectors int, vector func() reg.VecVirtual) {
	header(name, boxesSignature, name+" is boxesGeneric; its sums are fused and rounded once less.")
	q := Load(Param("q"), GP64())
	dim := Load(Param("dim"), GP64())
	lo := Load(Param("lo"), GP64())
	hi := Load(Param("hi"), GP64())
	blocks := Load(Param("blocks"), GP64())
	scale, zero := vector(), vector()
	width := 64 / vectors
	VBROADCASTSS(address("scale"), scale)
	out := Load(Param("out"), GP64())
	acc := make([]reg.VecVirtual, vectors)
	for v := range acc {
		acc[v] = vector()
	}
	b, d, e := vector(), vector(), vector()
	clear := func(a reg.VecVirtual) {
		if vectors == 1 {
			VPXORD(a, a, a)
		} else {
			VXORPS(a, a, a)
		}
	}
	clear(zero)
	Label(name + "_block")
	for _, a := range acc {
		clear(a)
	}
	j := GP64()
	XORQ(j, j)
	Label(name + "_coordinate")
	VBROADCASTSS(Mem{Base: q, Index: j, Scale: 4}, b)
	for v, a := range acc {
		VMOVUPS(at(lo, v*width), d)
		VSUBPS(b, d, d)
		VSUBPS(at(hi, v*width), b, e)
		VMAXPS(e, d, d)
		VMAXPS(zero, d, d)
		VFMADD231PS(d, d, a)
	}
	ADDQ(U8(64), lo)
	ADDQ(U8(64), hi)
	INCQ(j)
	CMPQ(j, dim)
	JLT(LabelRef(name + "_coordinate"))
	for v, a := range acc {
		VSQRTPS(a, a)
		VMULPS(scale, a, a)
		VMOVUPS(a, at(out, v*width))
	}
	ADDQ(U8(64), out)
	DECQ(blocks)
	JNE(LabelRef(name + "_block"))
	VZEROUPPER()
	RET()
}

func boxes512() { boxes("boxes512", 1, ZMM) }
func boxes256() { boxes("boxes256", 2, YMM) }

// quantize: q' = min(max(q, lo), hi); ρ² += (q − q')²; t = (q' − lo)·inverse;
// r = round(t); err += (t − r)²; byte = r; sum += r; norm += r².
func quantize(name string, vectors int, vector func() reg.VecVirtual) {
	header(name, quantizeSignature, name+" is quantizeGeneric; its sums may be rounded in another order.")
	q := Load(Param("q"), GP64())
	lo := Load(Param("lo"), GP64())
	hi := Load(Param("hi"), GP64())
	chunks := Load(Param("chunks"), GP64())
	inverse := vector()
	VBROADCASTSS(address("inverse"), inverse)
	bytes := Load(Param("bytes"), GP64())
	errors := Load(Param("errors"), GP64())
	sums := Load(Param("sums"), GP64())
	width := 64 / vectors
	outside, err, sum, norm := vector(), vector(), vector(), vector()
	for _, a := range []reg.VecVirtual{outside, err, sum, norm} {
		if vectors == 1 {
			VPXORD(a, a, a)
		} else {
			VXORPS(a, a, a)
		}
	}
	Label(name + "_chunk")
	for v := range vectors {
		x, l, in, r := vector(), vector(), vector(), vector()
		VMOVUPS(at(q, v*width), x)
		VMOVUPS(at(lo, v*width), l)
		VMAXPS(l, x, in)
		VMINPS(at(hi, v*width), in, in)
		VSUBPS(in, x, x)
		VFMADD231PS(x, x, outside)
		VSUBPS(l, in, in)
		VMULPS(inverse, in, in)
		if vectors == 1 {
			VRNDSCALEPS(U8(8), in, r)
		} else {
			VROUNDPS(U8(8), in, r)
		}
		VSUBPS(r, in, in)
		VFMADD231PS(in, in, err)
		VCVTPS2DQ(r, r)
		VPADDD(r, sum, sum)
		if vectors == 1 {
			VPMOVDB(r, Mem{Base: bytes})
		} else {
			low, high := XMM(), XMM()
			VEXTRACTI128(U8(0), r, low)
			VEXTRACTI128(U8(1), r, high)
			VPACKUSDW(high, low, low)
			VPACKUSWB(low, low, low)
			VMOVQ(low, at(bytes, v*8))
		}
		VPMADDWD(r, r, r)
		VPADDD(r, norm, norm)
	}
	ADDQ(U8(64), q)
	ADDQ(U8(64), lo)
	ADDQ(U8(64), hi)
	ADDQ(U8(16), bytes)
	DECQ(chunks)
	JNE(LabelRef(name + "_chunk"))
	for i, a := range []reg.VecVirtual{outside, err} {
		var x reg.VecVirtual
		if vectors == 1 {
			x = treeSumZ(a)
		} else {
			x = treeSumY(a)
		}
		VMOVSS(x, at(errors, 4*i))
	}
	for i, a := range []reg.VecVirtual{sum, norm} {
		if vectors == 1 {
			high, low := YMM(), YMM()
			VEXTRACTI32X8(U8(1), a, high)
			VEXTRACTI32X8(U8(0), a, low)
			VPADDD(high, low, low)
			a = low
		}
		high, low := XMM(), XMM()
		VEXTRACTI128(U8(1), a, high)
		VEXTRACTI128(U8(0), a, low)
		VPADDD(high, low, low)
		VPSHUFD(U8(0x4e), low, high)
		VPADDD(high, low, low)
		VPSHUFD(U8(0xb1), low, high)
		VPADDD(high, low, low)
		VMOVD(low, at(sums, 4*i))
	}
	VZEROUPPER()
	RET()
}

func quantize512() { quantize("quantize512", 1, ZMM) }
func quantize256() { quantize("quantize256", 2, YMM) }

// filter: 32 points at a time, two runs of 16 points of four bytes a group;
// dot += bytes·packed as byte products in pairs, two groups added in 16 bits,
// then in 32; bit = norm − 2·dot ≤ limit.
func filter(name string, vectors int, vector func() reg.VecVirtual) {
	header(name, filterSignature, name+" is filterGeneric, bit for bit.")
	bytes := Load(Param("bytes"), GP64())
	packed := Load(Param("packed"), GP64())
	norms := Load(Param("norms"), GP64())
	groups := Load(Param("groups"), GP64())
	blocks := Load(Param("blocks"), GP64())
	limit, ones := vector(), vector()
	limit32 := XMM()
	VMOVD(Load(Param("limit"), GP32()), limit32)
	VPBROADCASTD(limit32, limit)
	masks := Load(Param("masks"), GP64())
	width := 64 / vectors
	if vectors == 1 {
		VPTERNLOGD(U8(0xff), ones, ones, ones)
	} else {
		VPCMPEQD(ones, ones, ones)
	}
	VPSRLW(U8(15), ones, ones)
	second := GP64() // from a run of 16 points to the next
	MOVQ(groups, second)
	SHLQ(U8(6), second)
	acc := make([]reg.VecVirtual, 2*vectors)
	for i := range acc {
		acc[i] = vector()
	}
	Label(name + "_block")
	for _, a := range acc {
		if vectors == 1 {
			VPXORD(a, a, a)
		} else {
			VPXOR(a, a, a)
		}
	}
	g, next := GP64(), GP64()
	XORQ(g, g)
	MOVQ(packed, next)
	ADDQ(second, next)
	Label(name + "_group")
	q0, q1 := vector(), vector()
	VPBROADCASTD(Mem{Base: bytes, Index: g, Scale: 4}, q0)
	VPBROADCASTD(Mem{Base: bytes, Index: g, Scale: 4, Disp: 4}, q1)
	for i, a := range acc {
		base := packed
		if i >= vectors {
			base = next
		}
		p0, p1 := vector(), vector()
		VPMADDUBSW(at(base, i%vectors*width), q0, p0)
		VPMADDUBSW(at(base, i%vectors*width+64), q1, p1)
		VPADDW(p1, p0, p0)
		VPMADDWD(ones, p0, p0)
		VPADDD(p0, a, a)
	}
	ADDQ(Imm(128), packed)
	ADDQ(Imm(128), next)
	ADDQ(U8(2), g)
	CMPQ(g, groups)
	JLT(LabelRef(name + "_group"))
	MOVQ(next, packed)
	for i, a := range acc {
		n := vector()
		VPADDD(a, a, a)
		VMOVUPS(at(norms, i*width), n)
		VPSUBD(a, n, n)
		if vectors == 1 {
			k := K()
			VPCMPD(U8(2), limit, n, k)
			KMOVW(k, at(masks, 2*i))
		} else {
			m := GP32()
			VPCMPGTD(limit, n, n)
			VMOVMSKPS(n, m)
			NOTL(m)
			MOVB(m.As8(), at(masks, i))
		}
	}
	ADDQ(Imm(128), norms)
	ADDQ(U8(4), masks)
	DECQ(blocks)
	JNE(LabelRef(name + "_block"))
	VZEROUPPER()
	RET()
}

func filter512() { filter("filter512", 1, ZMM) }
func filter256() { filter("filter256", 2, YMM) }
