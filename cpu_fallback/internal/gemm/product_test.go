package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/tensor"
)

// relative is the error that a chain of k float32 multiply-adds may make,
// relative to the sum of absolute products: k/2 units in the last place is the
// usual pessimistic bound; these sizes stay far below it.
func relative(k int) float64 { return float64(k+4) * 0x1p-24 }

func random(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

func randomMatrix(rng *rand.Rand, rows, cols, stride int) tensor.Matrix {
	return tensor.Matrix{Rows: rows, Cols: cols, Stride: stride, Data: random(rng, max(0, (rows-1)*stride+cols))}
}

// expect is the plain float64 loop of Product, and the magnitude its rounding
// error is relative to.
func expect(p *Product, b func(k, j int) float64, bias []float32, i, j int) (want, scale float64) {
	switch p.Init {
	case FromBias:
		want = float64(bias[j])
	case Accumulate:
		want = float64(p.C[i*p.CRow+j])
	}
	scale = math.Abs(want)
	terms := p.B.K
	if p.AList != nil {
		terms = len(p.AList)
	}
	for n := range terms {
		ka, kb := n, n
		if p.AList != nil {
			ka, kb = int(p.AList[n]), int(p.BList[n])
		}
		term := float64(p.A[i*p.ARow+ka*p.AStep]) * b(kb, j)
		want += term
		scale += math.Abs(term)
	}
	if p.ReLU && want < 0 {
		want = 0
	}
	if p.Where != nil && !(p.Where[i*p.WhereRow+j] > 0) {
		want = 0
	}
	return want, scale
}

// randomSublists draws two ascending lists of one length from [0, n).
func randomSublists(rng *rand.Rand, n int) (a, b []int32) {
	draw := func(length int) []int32 {
		list := make([]int32, 0, length)
		for i := range n {
			if rng.IntN(n-i) < length-len(list) {
				list = append(list, int32(i))
			}
		}
		return list
	}
	length := rng.IntN(n + 1)
	return draw(length), draw(length)
}

func TestProductAgainstFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var sizes [][3]int
	for _, b := range []int{1, 2, 3, 31, 32, 33, 100} {
		sizes = append(sizes, [3]int{b, 1 + rng.IntN(70), 1 + rng.IntN(70)}, [3]int{b, 33, 150})
	}
	for w := 1; w <= 70; w++ {
		sizes = append(sizes, [3]int{1 + rng.IntN(26), 1 + rng.IntN(40), w}, [3]int{13, w, 7})
	}
	for _, level := range isa.Available() {
		k := For(level)
		t.Run(level.String(), func(t *testing.T) {
			for i, s := range sizes {
				checkProduct(t, k, rng, s[0], s[1], s[2], i)
			}
		})
	}
}

// checkProduct runs one shape with a variant of operand layout and epilogue
// that changes with every call.
func checkProduct(t *testing.T, k Kernel, rng *rand.Rand, rows, inner, cols, variant int) {
	t.Helper()
	const sentinel = 12345
	p := &Product{Rows: rows, Init: Init(variant % 3), ReLU: variant%2 == 0}
	var what string
	switch variant % 4 {
	case 0, 1:
		what = "row-major A"
		p.ARow, p.AStep = inner+variant%3, 1
	case 2:
		what = "transposed A"
		p.ARow, p.AStep = 1, rows+3
	case 3:
		what = "broadcast A"
		p.ARow, p.AStep = 0, 1
	}
	p.A = random(rng, (rows-1)*p.ARow+(inner-1)*p.AStep+1)

	var b func(k, j int) float64
	bias := random(rng, cols)
	switch w := variant % 5; {
	case w < 2:
		what += ", B = Wᵀ"
		m := randomMatrix(rng, cols, inner, inner+2)
		p.B = k.NewPanels(inner, cols)
		p.B.PackTransposed(m, bias)
		b = func(k, j int) float64 { return float64(m.Row(j)[k]) }
	case w < 4 || p.Init == FromBias:
		what += ", B = W"
		m := randomMatrix(rng, inner, cols, cols+1)
		p.B = k.NewPanels(inner, cols)
		p.B.Pack(m)
		copy(p.B.Bias, bias)
		b = func(k, j int) float64 { return float64(m.Row(k)[j]) }
	default:
		what += ", B row-major"
		m := random(rng, inner*Pad(cols))
		p.B = k.RowMajor(m, inner, cols, Pad(cols))
		b = func(k, j int) float64 { return float64(m[k*Pad(cols)+j]) }
	}
	if variant%7 < 4 {
		p.WhereRow = (variant % 2) * (cols + 1)
		p.Where = random(rng, (rows-1)*p.WhereRow+cols)
		what += fmt.Sprintf(", mask stride %d", p.WhereRow)
	}
	if p.AStep == 1 && variant%3 != 1 {
		p.AList, p.BList = randomSublists(rng, inner)
		what += fmt.Sprintf(", %d terms listed", len(p.AList))
	}
	p.CRow = cols + variant%6
	p.C = random(rng, (rows-1)*p.CRow+cols+40)
	for i := range p.C {
		if i%p.CRow >= cols || i >= (rows-1)*p.CRow+cols {
			p.C[i] = sentinel
		}
	}
	old := *p
	old.C = append([]float32(nil), p.C...)
	k.Multiply(p)
	for i, v := range p.C {
		if row, col := i/p.CRow, i%p.CRow; row < rows && col < cols {
			want, scale := expect(&old, b, bias, row, col)
			if d := math.Abs(float64(v) - want); !(d <= relative(inner)*scale) {
				t.Fatalf("%s %d×%d×%d (%s, init %d, relu %v): C[%d,%d] = %v, want %v", k.level, rows, inner, cols, what, p.Init, p.ReLU, row, col, v, want)
			}
		} else if v != sentinel {
			t.Fatalf("%s %d×%d×%d (%s): element %d outside C was overwritten", k.level, rows, inner, cols, what, i)
		}
	}
}

// A row's result is one chain, so neither the block it is computed in nor the
// instruction set with fused multiply-add changes a bit of it.
func TestRowsDoNotDependOnTheirBlock(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	const rows, inner, cols = 29, 65, 333
	a, w, bias := random(rng, rows*inner), randomMatrix(rng, cols, inner, inner), random(rng, cols)
	var fused []float32
	for _, level := range isa.Available() {
		k := For(level)
		b := k.NewPanels(inner, cols)
		b.PackTransposed(w, bias)
		whole := make([]float32, rows*cols)
		k.Multiply(&Product{Rows: rows, A: a, ARow: inner, AStep: 1, B: b, C: whole, CRow: cols, Init: FromBias, ReLU: true})
		for height := 1; height <= 13; height++ {
			got := make([]float32, rows*cols)
			for i := 0; i < rows; i += height {
				k.Multiply(&Product{Rows: min(height, rows-i), A: a[i*inner:], ARow: inner, AStep: 1, B: b, C: got[i*cols:], CRow: cols, Init: FromBias, ReLU: true})
			}
			same(t, fmt.Sprintf("%s, %d rows at a time", level, height), got, whole)
		}
		if level != isa.Generic {
			if fused != nil {
				same(t, "AVX2 and AVX-512", whole, fused)
			}
			fused = whole
		}
	}
}

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %v and %v", what, i, got[i], want[i])
		}
	}
}

func TestNaNPassesReLUAndInfinityIsKept(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, level := range isa.Available() {
		k := For(level)
		for _, cols := range []int{1, 4, 20, 40, 150} {
			for rows := 1; rows <= 13; rows++ {
				a := make([]float32, rows*2)
				for i := range rows {
					a[2*i], a[2*i+1] = 1, float32(-i-1)
				}
				a[2*(rows/2)] = nan
				a[2*(rows-1)] = inf
				b := k.NewPanels(2, cols)
				for j := range cols {
					panel, step, _ := b.panel(j / b.cols * b.cols)
					panel[j%b.cols], panel[step+j%b.cols] = 1, 1
				}
				c := make([]float32, rows*cols)
				k.Multiply(&Product{Rows: rows, A: a, ARow: 2, AStep: 1, B: b, C: c, CRow: cols, ReLU: true})
				for i, v := range c {
					switch row := i / cols; {
					case row == rows-1:
						if v != inf {
							t.Fatalf("%s %d×%d: infinity became %v", level, rows, cols, v)
						}
					case row == rows/2:
						if v == v {
							t.Fatalf("%s %d×%d: NaN became %v", level, rows, cols, v)
						}
					case v != 0:
						t.Fatalf("%s %d×%d: ReLU left %v", level, rows, cols, v)
					}
				}
			}
		}
	}
}

func TestCompressKeepsActiveColumnsOfListedRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, level := range isa.Available() {
		k := For(level)
		for width := 1; width <= 70; width++ {
			blocks := (width + 15) / 16
			h := random(rng, 16*blocks)
			clear(h[width:])
			switch width % 5 {
			case 0:
				clear(h)
			case 1:
				for i := range width {
					h[i] = 1
				}
			case 2:
				h[rng.IntN(width)] = float32(math.NaN())
			}
			mask, index := make([]uint16, blocks), make([]int32, 16*blocks+16)
			n, nan := k.Active(h, mask, index)
			if nan != (width%5 == 2) {
				t.Fatalf("%s width %d: NaN reported as %v", level, width, nan)
			}
			const rows = 9
			stride := 16*blocks + 5
			src := random(rng, rows*stride)
			list := []int32{0, 3, 4, 8}
			dst := make([]float32, 4*(n+2)+16)
			k.Compress(dst, n+2, src, stride, list, mask)
			at := 0
			for j, v := range h {
				if !(v > 0) {
					continue
				}
				if index[at] != int32(j) {
					t.Fatalf("width %d: active unit %d is listed as %d", width, j, index[at])
				}
				for r, from := range list {
					if got, want := dst[r*(n+2)+at], src[int(from)*stride+j]; got != want {
						t.Fatalf("%s width %d: row %d column %d is %v, want %v", level, width, from, j, got, want)
					}
				}
				at++
			}
			if at != n {
				t.Fatalf("width %d: %d active, want %d", width, n, at)
			}
		}
	}
}

func TestTileLayout(t *testing.T) {
	var v tile
	for i, offset := range []uintptr{
		unsafe.Offsetof(v.a), unsafe.Offsetof(v.aRow), unsafe.Offsetof(v.aStep), unsafe.Offsetof(v.b), unsafe.Offsetof(v.bStep),
		unsafe.Offsetof(v.c), unsafe.Offsetof(v.cRow), unsafe.Offsetof(v.start), unsafe.Offsetof(v.mask), unsafe.Offsetof(v.whereRow),
		unsafe.Offsetof(v.k), unsafe.Offsetof(v.rows), unsafe.Offsetof(v.cols), unsafe.Offsetof(v.mode), unsafe.Offsetof(v.lanes),
		unsafe.Offsetof(v.bPanel), unsafe.Offsetof(v.aList), unsafe.Offsetof(v.bList),
	} {
		if offset != uintptr(8*i) {
			t.Fatalf("field %d of tile is at %d, the assembly reads it at %d", i, offset, 8*i)
		}
	}
}

func TestMultiplyAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, level := range isa.Available() {
		k := For(level)
		b := k.NewPanels(20, 50)
		a, c := random(rng, 14*20), make([]float32, 14*50)
		if n := testing.AllocsPerRun(10, func() {
			k.Multiply(&Product{Rows: 14, A: a, ARow: 20, AStep: 1, B: b, C: c, CRow: 50, ReLU: true})
		}); n != 0 {
			t.Errorf("%s: %v allocations", level, n)
		}
	}
}
