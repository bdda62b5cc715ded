package gemm

import (
	"fmt"
	"unsafe"

	"github.com/gpc-engine/gpc/tensor"
)

// Padding is the widest panel of any kernel, in elements. A matrix whose row
// stride is Pad(cols) may be used as B as it stands (RowMajor).
const Padding = 32

// Pad rounds n up to a multiple of Padding.
func Pad(n int) int { return (n + Padding - 1) / Padding * Padding }

// Buffer returns n zeroed elements that begin at a cache line, so that no
// vector load of a panel straddles two.
func Buffer(n int) []float32 {
	const line = 64
	b := make([]float32, n+line/4)
	skip := 0
	if r := uintptr(unsafe.Pointer(unsafe.SliceData(b))) % line; r != 0 {
		skip = int(line-r) / 4
	}
	return b[skip : skip+n : skip+n]
}

// Panels is the second operand B, K×N: panels of the tile's width, each with its
// K rows one after the other. Element (k, j) of panel q is
// Data[q·PanelStride + k·Step + j]; the last, narrower one steps by TailStep.
// Every row of a panel can be read to the panel's full width (the last: to
// half of it when that holds the remaining columns).
type Panels struct {
	K, N                        int
	Data                        []float32
	Bias                        []float32 // of FromBias; padded to whole panels
	Step, PanelStride, TailStep int
	cols                        int
}

// tailWidth is how many elements of a row of the last panel are read.
func (p Panels) tailWidth() int {
	switch n := p.N % p.cols; {
	case n == 0:
		return 0
	case p.cols > 4 && n <= p.cols/2: // the Go kernel has no half-width form
		return p.cols / 2
	default:
		return p.cols
	}
}

func (p Panels) paddedN() int { return p.N/p.cols*p.cols + p.tailWidth() }

func (p Panels) need() int {
	if p.K == 0 || p.N == 0 {
		return 0
	}
	full := p.N / p.cols
	if w := p.tailWidth(); w > 0 {
		return full*p.PanelStride + (p.K-1)*p.TailStep + w
	}
	return (full-1)*p.PanelStride + (p.K-1)*p.Step + p.cols
}

// RowMajor views a K×N matrix with the given row stride as B without packing.
// Every row must be readable to Pad(n) elements; what stands behind column n is
// never part of a result. Packing is faster when B is used for many rows.
func (k Kernel) RowMajor(data []float32, rows, n, stride int) Panels {
	return Panels{K: rows, N: n, Data: data, Step: stride, PanelStride: k.cols, TailStep: stride, cols: k.cols}
}

// NewPanels returns zeroed storage for a packed K×N operand and its bias.
func (k Kernel) NewPanels(rows, n int) Panels {
	p := Panels{K: rows, N: n, Step: k.cols, PanelStride: rows * k.cols, cols: k.cols}
	p.TailStep = p.tailWidth()
	p.Data = Buffer(n/k.cols*p.PanelStride + rows*p.TailStep)
	p.Bias = Buffer(p.paddedN())
	return p
}

// Pack fills p, made for w.Rows × w.Cols, with w itself: B = W, as dX = dY·W
// needs it. It panics on another shape, which is a bug of the caller's.
func (p Panels) Pack(w tensor.Matrix) {
	p.mustBe(w.Rows, w.Cols)
	for j := 0; j < p.N; j += p.cols {
		dst, step, cols := p.panel(j)
		for k := range p.K {
			copy(dst[k*step:k*step+cols], w.Data[k*w.Stride+j:])
		}
	}
}

// PackTransposed fills p, made for w.Cols × w.Rows, with the transpose and the
// bias: B = Wᵀ, as Y = X·Wᵀ + b needs it. A nil bias is zero. It panics on
// another shape, which is a bug of the caller's.
func (p Panels) PackTransposed(w tensor.Matrix, bias []float32) {
	p.mustBe(w.Cols, w.Rows)
	for j := 0; j < p.N; j += p.cols {
		dst, step, cols := p.panel(j)
		c := 0
		for ; c+4 <= cols; c += 4 {
			// Four rows at once: one panel line is written in one go.
			r0, r1 := w.Row(j+c), w.Row(j+c+1)
			r2, r3 := w.Row(j+c+2), w.Row(j+c+3)
			o := c
			for k := range r0 {
				d := dst[o : o+4 : o+4]
				d[0], d[1] = r0[k], r1[k]
				d[2], d[3] = r2[k], r3[k]
				o += step
			}
		}
		for ; c < cols; c++ {
			for k, v := range w.Row(j + c) {
				dst[k*step+c] = v
			}
		}
	}
	clear(p.Bias)
	copy(p.Bias[:p.N], bias)
}

// panel returns the storage of the panel that begins at column j.
func (p Panels) panel(j int) (dst []float32, step, cols int) {
	dst, step, cols = p.Data[j/p.cols*p.PanelStride:], p.Step, p.cols
	if p.N-j < p.cols {
		step, cols = p.TailStep, p.N-j
	}
	return dst, step, cols
}

func (p Panels) mustBe(rows, n int) {
	if p.K != rows || p.N != n {
		panic(fmt.Sprintf("gemm: packing %d×%d into panels made for %d×%d", rows, n, p.K, p.N))
	}
}
