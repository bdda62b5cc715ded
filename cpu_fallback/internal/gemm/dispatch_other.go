//go:build !amd64 || purego

package gemm

func (k Kernel) run(t *tile, _ bool) { tileGeneric(t) }

// gemv is called at instruction sets with assembly only.
func (k Kernel) gemv(t *tile, sparse bool) { panic("gemm: no assembly in this build") }

func (k Kernel) compress(dst []float32, dstRow int, src []float32, srcRow int, index []int32, mask []uint16) {
	compressGeneric(dst, dstRow, src, srcRow, index, mask)
}

func (k Kernel) active(h []float32, mask []uint16, index []int32) (n int, nan bool) {
	return activeGeneric(h, mask, index)
}
