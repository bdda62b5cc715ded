//go:build !purego

package gemm

// The tile kernels compute, for rows up to 12 (AVX-512) or 6 (AVX2) and columns
// up to two registers (tile2…) or one (tile1…):
//
//	for i < rows, j < cols:
//		s = start[j], c[i][j] or 0
//		for k: s = fma(a[i·aRow + k·aStep], b[k·bStep + j], s)
//		if mode&relu && s < 0: s = 0
//		if where && !(where[i][j] > 0): s = 0
//		c[i][j] = s + 0
//
// The last addition makes −0 a +0.

//go:noescape
func tile2xAVX512(t *tile)

//go:noescape
func tile1xAVX512(t *tile)

//go:noescape
func tile2xAVX2(t *tile)

//go:noescape
func tile1xAVX2(t *tile)

// The listed kernels compute the same loop with the inner indices taken from two
// lists, aStep being one element:
//
//	for n < k: s = fma(a[i·aRow + aList[n]], b[bList[n]·bStep + j], s)

//go:noescape
func listed2xAVX512(t *tile)

//go:noescape
func listed1xAVX512(t *tile)

//go:noescape
func listed2xAVX2(t *tile)

//go:noescape
func listed1xAVX2(t *tile)

// gemvAVX512 computes the same loop for one row and four panels, bPanel bytes
// apart, all columns valid.
//
//go:noescape
func gemvAVX512(t *tile)

// gemvAVX2 computes the same loop for one row and four panels, bPanel bytes
// apart, all columns valid.
//
//go:noescape
func gemvAVX2(t *tile)

// gemvSparseAVX512 computes the loop of gemvAVX512 over the listed k alone, with
// aStep one element:
//
//	for n < t.k: s = fma(a[list[n]], b[list[n]·bStep + j], s)
//
//go:noescape
func gemvSparseAVX512(t *tile)

// gemvSparseAVX2 computes the loop of gemvSparseAVX512.
//
//go:noescape
func gemvSparseAVX2(t *tile)

// compressAVX512 keeps the columns whose bit is set:
//
//	for r < rows:
//		n = 0
//		for j < 16·blocks:
//			if bits[j/16]>>(j%16)&1: dst[r·dstRow + n] = src[index[r]·srcRow + j]; n++
//
// Strides are in bytes. Up to 16 elements behind the last kept one of each row
// are overwritten.
//
//go:noescape
func compressAVX512(dst *float32, dstRow uintptr, src *float32, srcRow uintptr, index *int32, rows int, bits *uint16, blocks int)

// compressAVX2 computes the loop of compressAVX512; byte i of order[m] is the
// position of the i-th bit that is set in m.
//
//go:noescape
func compressAVX2(dst *float32, dstRow uintptr, src *float32, srcRow uintptr, index *int32, rows int, bits *uint16, blocks int, order *uint64)

// activeAVX512 finds the positive elements; iota is 0, 1, …, 15:
//
//	for i < 16·blocks:
//		if h[i] > 0: mask[i/16] |= 1<<(i%16); index[n] = i; n++
//		if h[i] is NaN: nan = non-zero
//
// Up to 16 elements behind the last index are overwritten.
//
//go:noescape
func activeAVX512(h *float32, blocks int, mask *uint16, index *int32, iota *int32) (n, nan int)

// activeAVX2 computes the loop of activeAVX512, with the order of compressAVX2.
//
//go:noescape
func activeAVX2(h *float32, blocks int, mask *uint16, index *int32, order *uint64) (n, nan int)
