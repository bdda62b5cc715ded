package gemm

import "unsafe"

// tile is one call of a kernel. The assembly reads it by offset; _asm/tile.go
// has the same order. Strides are in bytes.
type tile struct {
	a           *float32
	aRow, aStep uintptr
	b           *float32
	bStep       uintptr
	c           *float32
	cRow        uintptr
	start       *float32 // bias, full width; nil: mode decides
	mask        *float32 // mask source; nil: no mask
	whereRow    uintptr
	k           int
	rows, cols  int
	mode        int
	lanes       unsafe.Pointer // mask of the valid columns; of gemvSparse: the list
	bPanel      uintptr
	aList       *int32 // inner indices, of the listed kernels
	bList       *int32
}

const (
	modeAccumulate = 1
	modeReLU       = 2
)

// genericCols is the panel width of the Go kernel.
const genericCols = 4

// offset is p moved by n bytes.
func offset(p *float32, n uintptr) *float32 {
	return (*float32)(unsafe.Add(unsafe.Pointer(p), n))
}

// tileGeneric is the Go twin of the assembly kernels, up to 2×4:
//
//	for i < rows, j < cols:
//		s = start[j], c[i][j] or 0
//		for k: s += a[i·aRow + k·aStep] · b[k·bStep + j]
//		if mode&relu && s < 0: s = 0
//		if where && !(where[i][j] > 0): s = 0
//		c[i][j] = s + 0
func tileGeneric(t *tile) {
	var acc [2][genericCols]float32
	cols := t.cols
	for i := range t.rows {
		for j := range cols {
			switch {
			case t.start != nil:
				acc[i][j] = *offset(t.start, 4*uintptr(j))
			case t.mode&modeAccumulate != 0:
				acc[i][j] = *offset(t.c, uintptr(i)*t.cRow+4*uintptr(j))
			}
		}
	}
	switch {
	case t.k == 0:
	case t.aList != nil:
		chainsListed(t, &acc)
	case t.rows == 2:
		chains2(t, &acc)
	default:
		chains1(t, &acc)
	}
	for i := range t.rows {
		for j := range cols {
			s := acc[i][j]
			if t.mode&modeReLU != 0 && s < 0 {
				s = 0
			}
			if t.mask != nil && !(*offset(t.mask, uintptr(i)*t.whereRow+4*uintptr(j)) > 0) {
				s = 0
			}
			*offset(t.c, uintptr(i)*t.cRow+4*uintptr(j)) = s + 0
		}
	}
}

// chainsListed is the loop over listed inner indices, k-th terms
// a[i·aRow + 4·aList[k]] · b[bList[k]·bStep + j].
func chainsListed(t *tile, acc *[2][genericCols]float32) {
	aList, bList := unsafe.Slice(t.aList, t.k), unsafe.Slice(t.bList, t.k)
	for i := range t.rows {
		s0, s1 := acc[i][0], acc[i][1]
		s2, s3 := acc[i][2], acc[i][3]
		row := offset(t.a, uintptr(i)*t.aRow)
		for n, k := range aList {
			a := *offset(row, 4*uintptr(k))
			b := (*[genericCols]float32)(unsafe.Pointer(offset(t.b, uintptr(bList[n])*t.bStep)))
			s0 += a * b[0]
			s1 += a * b[1]
			s2 += a * b[2]
			s3 += a * b[3]
		}
		acc[i] = [genericCols]float32{s0, s1, s2, s3}
	}
}

func chains2(t *tile, acc *[2][genericCols]float32) {
	s00, s01 := acc[0][0], acc[0][1]
	s02, s03 := acc[0][2], acc[0][3]
	s10, s11 := acc[1][0], acc[1][1]
	s12, s13 := acc[1][2], acc[1][3]
	var aAt, bAt uintptr
	for range t.k {
		a0, a1 := *offset(t.a, aAt), *offset(t.a, aAt+t.aRow)
		b := (*[genericCols]float32)(unsafe.Pointer(offset(t.b, bAt)))
		s00 += a0 * b[0]
		s01 += a0 * b[1]
		s02 += a0 * b[2]
		s03 += a0 * b[3]
		s10 += a1 * b[0]
		s11 += a1 * b[1]
		s12 += a1 * b[2]
		s13 += a1 * b[3]
		aAt += t.aStep
		bAt += t.bStep
	}
	acc[0] = [genericCols]float32{s00, s01, s02, s03}
	acc[1] = [genericCols]float32{s10, s11, s12, s13}
}

func chains1(t *tile, acc *[2][genericCols]float32) {
	s0, s1 := acc[0][0], acc[0][1]
	s2, s3 := acc[0][2], acc[0][3]
	var aAt, bAt uintptr
	for range t.k {
		a := *offset(t.a, aAt)
		b := (*[genericCols]float32)(unsafe.Pointer(offset(t.b, bAt)))
		s0 += a * b[0]
		s1 += a * b[1]
		s2 += a * b[2]
		s3 += a * b[3]
		aAt += t.aStep
		bAt += t.bStep
	}
	acc[0] = [genericCols]float32{s0, s1, s2, s3}
}
