package gemm

import (
	"fmt"
	"math/bits"
)

// Active finds the units that a ReLU lets through, those with h > 0: their bits,
// 16 to a word, and their indices in ascending order. It returns how many there
// are, and whether h has a NaN, which no comparison shows. h holds 16·len(mask)
// elements (zeros behind the last unit), index 16 more than that.
func (k Kernel) Active(h []float32, mask []uint16, index []int32) (n int, nan bool) {
	if len(mask) == 0 {
		return 0, false
	}
	if len(h) < 16*len(mask) || len(index) < 16*len(mask)+16 {
		panic(fmt.Sprintf("gemm: active units of %d elements into %d indices, need %d and 16 more", len(h), len(index), 16*len(mask)))
	}
	return k.active(h, mask, index)
}

func activeGeneric(h []float32, mask []uint16, index []int32) (n int, nan bool) {
	for w := range mask {
		var m uint16
		for i, v := range h[16*w : 16*w+16] {
			index[n] = int32(16*w + i)
			if v > 0 {
				m |= 1 << i
				n++
			}
			nan = nan || v != v
		}
		mask[w] = m
	}
	return n, nan
}

// Compress copies the listed rows of src, keeping of each only the columns whose
// bit is set in mask: dst[r·dstRow + i] = src[index[r]·srcRow + (i-th set bit)].
// src rows must be readable to 16·len(mask) elements and dst writable 16 beyond
// the last kept one: what stands behind the kept columns is overwritten.
func (k Kernel) Compress(dst []float32, dstRow int, src []float32, srcRow int, index []int32, mask []uint16) {
	if len(index) == 0 || len(mask) == 0 {
		return
	}
	if need := (len(index)-1)*dstRow + countBits(mask) + 16; len(dst) < need {
		panic(fmt.Sprintf("gemm: compression into %d elements, needs %d", len(dst), need))
	}
	if need := int(index[len(index)-1])*srcRow + 16*len(mask); len(src) < need {
		panic(fmt.Sprintf("gemm: compression of %d elements, needs %d", len(src), need))
	}
	k.compress(dst, dstRow, src, srcRow, index, mask)
}

func countBits(mask []uint16) int {
	n := 0
	for _, m := range mask {
		n += bits.OnesCount16(m)
	}
	return n
}

func compressGeneric(dst []float32, dstRow int, src []float32, srcRow int, index []int32, mask []uint16) {
	for r, source := range index {
		d, s := dst[r*dstRow:], src[int(source)*srcRow:]
		n := 0
		for w, m := range mask {
			for ; m != 0; m &= m - 1 {
				d[n] = s[16*w+bits.TrailingZeros16(m)]
				n++
			}
		}
	}
}
