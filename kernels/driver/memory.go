package driver

import (
	"errors"
	"fmt"
	"unsafe"
)

// Element is what device memory holds: fixed-size plain values.
type Element interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// MemoryInfo tells the free and the total bytes of device memory.
func (t *Thread) MemoryInfo() (free, total uint64, err error) {
	if err := t.alive(); err != nil {
		return 0, 0, err
	}
	free, total, err = t.driver.MemoryInfo()
	return free, total, t.check(err)
}

// Alloc allocates device memory, aligned to 256 bytes, with undefined contents; 0
// bytes give address 0. A *MemoryError leaves the context usable.
func (t *Thread) Alloc(bytes int) (Pointer, error) {
	if err := t.alive(); err != nil || bytes == 0 {
		return 0, err
	}
	if bytes < 0 {
		return 0, fmt.Errorf("device memory: %d bytes asked for", bytes)
	}
	p, err := t.driver.Alloc(bytes)
	if err = t.check(err); err == nil {
		return p, nil
	}
	if failedWith(err, CodeOutOfMemory) {
		free, total, _ := t.driver.MemoryInfo()
		return 0, &MemoryError{Bytes: bytes, Free: free, Total: total, Cause: err}
	}
	return 0, err
}

// Free releases memory of Alloc after the work that uses it; address 0 and a lost
// context are no error.
func (t *Thread) Free(p Pointer) error {
	if p == 0 || t.alive() != nil {
		return nil
	}
	return t.check(t.driver.Free(p))
}

// HostMemory is pinned memory of the host: asynchronous copies go from and to it, and
// kernels reach it.
type HostMemory struct {
	pointer unsafe.Pointer
	bytes   int
	device  Pointer
}

// Bytes is the length.
func (h *HostMemory) Bytes() int { return h.bytes }

// Device is where kernels read and write the memory, over the bus: what a kernel has
// written is there once the stream has passed it.
func (h *HostMemory) Device() Pointer { return h.device }

// HostSlice views pinned memory from `offset` bytes on as n elements. Offset must
// be aligned for T; out of range it panics. The view ends with FreeHost.
func HostSlice[T Element](h *HostMemory, offset, n int) []T {
	var e T
	size := int(unsafe.Sizeof(e))
	if offset < 0 || n < 0 || offset%size != 0 || offset+n*size > h.bytes {
		panic(fmt.Sprintf("driver: view of %d elements of %d bytes at %d in %d bytes of pinned memory", n, size, offset, h.bytes))
	}
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Add(h.pointer, offset)), n)
}

// AllocHost allocates pinned host memory with undefined contents.
func (t *Thread) AllocHost(bytes int) (*HostMemory, error) {
	if err := t.alive(); err != nil {
		return nil, err
	}
	if bytes <= 0 {
		return nil, fmt.Errorf("pinned memory: %d bytes asked for", bytes)
	}
	p, err := t.driver.AllocHost(bytes)
	if err = t.check(err); err != nil {
		if failedWith(err, CodeOutOfMemory) {
			return nil, &MemoryError{Bytes: bytes, Pinned: true, Cause: err}
		}
		return nil, err
	}
	address, err := t.driver.HostAddress(p)
	if err = t.check(err); err != nil {
		return nil, errors.Join(err, t.FreeHost(&HostMemory{pointer: p, bytes: bytes}))
	}
	return &HostMemory{p, bytes, address}, nil
}

// FreeHost releases pinned memory after the work that uses it. On a lost context
// it does nothing: closing the context frees it.
func (t *Thread) FreeHost(h *HostMemory) error {
	if h == nil || h.pointer == nil || t.alive() != nil {
		return nil
	}
	p := h.pointer
	h.pointer, h.bytes = nil, 0
	return t.check(t.driver.FreeHost(p))
}

// Upload copies a slice to the device and waits for it; it runs after all work
// queued so far.
func Upload[T Element](t *Thread, dst Pointer, src []T) error {
	if err := t.alive(); err != nil || len(src) == 0 {
		return err
	}
	return t.check(t.driver.CopyToDevice(dst, unsafe.Pointer(&src[0]), len(src)*int(unsafe.Sizeof(src[0]))))
}

// Download copies from the device into a slice and waits for it; it runs after all
// work queued so far.
func Download[T Element](t *Thread, dst []T, src Pointer) error {
	if err := t.alive(); err != nil || len(dst) == 0 {
		return err
	}
	return t.check(t.driver.CopyToHost(unsafe.Pointer(&dst[0]), src, len(dst)*int(unsafe.Sizeof(dst[0]))))
}

// UploadAsync queues a copy of `bytes` bytes of pinned memory from `offset` on.
// The memory must keep its contents until the stream has passed the copy.
func (t *Thread) UploadAsync(dst Pointer, src *HostMemory, offset, bytes int, s Stream) error {
	if err := t.alive(); err != nil || bytes == 0 {
		return err
	}
	if err := src.checkRange(offset, bytes); err != nil {
		return err
	}
	return t.check(t.driver.CopyToDeviceAsync(dst, unsafe.Add(src.pointer, offset), bytes, s))
}

// DownloadAsync queues a copy of `bytes` bytes into pinned memory at `offset`.
// They are there once the stream has passed the copy.
func (t *Thread) DownloadAsync(dst *HostMemory, offset int, src Pointer, bytes int, s Stream) error {
	if err := t.alive(); err != nil || bytes == 0 {
		return err
	}
	if err := dst.checkRange(offset, bytes); err != nil {
		return err
	}
	return t.check(t.driver.CopyToHostAsync(unsafe.Add(dst.pointer, offset), src, bytes, s))
}

// CopyAsync queues a copy within device memory. The ranges may not overlap.
func (t *Thread) CopyAsync(dst, src Pointer, bytes int, s Stream) error {
	if err := t.alive(); err != nil || bytes == 0 {
		return err
	}
	return t.check(t.driver.CopyOnDeviceAsync(dst, src, bytes, s))
}

// ZeroAsync queues setting `bytes` bytes to zero.
func (t *Thread) ZeroAsync(dst Pointer, bytes int, s Stream) error {
	if err := t.alive(); err != nil || bytes == 0 {
		return err
	}
	return t.check(t.driver.Fill8Async(dst, 0, bytes, s))
}

// Fill32Async queues setting `count` 32-bit words to value.
func (t *Thread) Fill32Async(dst Pointer, value uint32, count int, s Stream) error {
	if err := t.alive(); err != nil || count == 0 {
		return err
	}
	return t.check(t.driver.Fill32Async(dst, value, count, s))
}

func (h *HostMemory) checkRange(offset, bytes int) error {
	if offset < 0 || bytes < 0 || offset+bytes > h.bytes {
		return fmt.Errorf("pinned memory: bytes %d to %d asked for, it has %d", offset, offset+bytes, h.bytes)
	}
	return nil
}
