package neighbours

import "unsafe"

// view is the slice of n elements at p, the Go side of a kernel's pointer.
func view[T any](p *T, n int) []T { return unsafe.Slice(p, n) }

// offset is the pointer n elements after p.
func offset[T any](p *T, n int) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(p), uintptr(n)*unsafe.Sizeof(*p)))
}
