//go:build !purego

package gemm

import (
	"math/bits"
	"unsafe"

	"github.com/gpc-engine/gpc/internal/simd/isa"
)

// lanes512[n] has the n low bits set: columns of the first register in bits 0 to
// 15, of the second in 16 to 31.
var lanes512 = func() (m [33]uint64) {
	for n := range m {
		m[n] = 1<<n - 1
	}
	return m
}()

// lanes2 read from element 16 − n is n valid lanes followed by invalid ones.
var lanes2 = func() (m [32]int32) {
	for i := range 16 {
		m[i] = -1
	}
	return m
}()

// setBits[m] lists the positions of the bits set in m, one byte each.
var setBits = func() (order [256]uint64) {
	for m := range order {
		for rest, n := uint(m), 0; rest != 0; rest, n = rest&(rest-1), n+8 {
			order[m] |= uint64(bits.TrailingZeros(rest)) << n
		}
	}
	return order
}()

var iota16 = [16]int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// run multiplies a tile, by lists of what is not zero where they are listed.
func (k Kernel) run(t *tile, listed bool) {
	switch k.level {
	case isa.AVX512:
		t.lanes = unsafe.Pointer(&lanes512[t.cols])
		switch wide := t.cols > 16; {
		case wide && listed:
			listed2xAVX512(t)
		case wide:
			tile2xAVX512(t)
		case listed:
			listed1xAVX512(t)
		default:
			tile1xAVX512(t)
		}
	case isa.AVX2:
		t.lanes = unsafe.Pointer(&lanes2[16-t.cols])
		switch wide := t.cols > 8; {
		case wide && listed:
			listed2xAVX2(t)
		case wide:
			tile2xAVX2(t)
		case listed:
			listed1xAVX2(t)
		default:
			tile1xAVX2(t)
		}
	default:
		tileGeneric(t)
	}
}

func (k Kernel) gemv(t *tile, sparse bool) {
	switch {
	case k.level == isa.AVX512 && sparse:
		gemvSparseAVX512(t)
	case k.level == isa.AVX512:
		gemvAVX512(t)
	case sparse:
		gemvSparseAVX2(t)
	default:
		gemvAVX2(t)
	}
}

func (k Kernel) compress(dst []float32, dstRow int, src []float32, srcRow int, index []int32, mask []uint16) {
	switch k.level {
	case isa.AVX512:
		compressAVX512(&dst[0], 4*uintptr(dstRow), &src[0], 4*uintptr(srcRow), &index[0], len(index), &mask[0], len(mask))
	case isa.AVX2:
		compressAVX2(&dst[0], 4*uintptr(dstRow), &src[0], 4*uintptr(srcRow), &index[0], len(index), &mask[0], len(mask), &setBits[0])
	default:
		compressGeneric(dst, dstRow, src, srcRow, index, mask)
	}
}

func (k Kernel) active(h []float32, mask []uint16, index []int32) (n int, nan bool) {
	var bits int
	switch k.level {
	case isa.AVX512:
		n, bits = activeAVX512(&h[0], len(mask), &mask[0], &index[0], &iota16[0])
	case isa.AVX2:
		n, bits = activeAVX2(&h[0], len(mask), &mask[0], &index[0], &setBits[0])
	default:
		return activeGeneric(h, mask, index)
	}
	return n, bits != 0
}
