package lanes

import "unsafe"

const cacheLine = 64

// aligned returns n zeros that start on a cache line.
func aligned(n int) []float64 {
	const extra = cacheLine / 8
	buf := make([]float64, n+extra)
	skip := 0
	if misalignment := uintptr(unsafe.Pointer(&buf[0])) % cacheLine; misalignment != 0 {
		skip = int(cacheLine-misalignment) / 8
	}
	return buf[skip : skip+n : skip+n]
}
