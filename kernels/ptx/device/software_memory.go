package device

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/gpc-engine/gpc/kernels/driver"
)

func (s *Software) MemoryInfo() (free, total uint64, err error) {
	c, err := s.enter("cuMemGetInfo")
	if err != nil {
		return 0, 0, err
	}
	defer s.mutex.Unlock()
	return s.memory - min(c.reserved, s.memory), s.memory, nil
}

func (s *Software) Alloc(n int) (driver.Pointer, error) {
	c, err := s.enter("cuMemAlloc")
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	if n <= 0 {
		return 0, softError("cuMemAlloc", codeInvalidValue, "%d bytes", n)
	}
	if c.reserved+uint64(n) > s.memory {
		return 0, softError("cuMemAlloc", driver.CodeOutOfMemory, "%d bytes beside %d of %d", n, c.reserved, s.memory)
	}
	p, err := c.executor.Alloc(n)
	if err != nil {
		return 0, err
	}
	c.device[p] = n
	c.reserved += uint64(n)
	return p, nil
}

func (s *Software) Free(p driver.Pointer) error {
	c, err := s.enter("cuMemFree")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	n, ok := c.device[p]
	if !ok {
		return softError("cuMemFree", codeInvalidValue, "an address that is no allocation")
	}
	if err := c.drainAll(); err != nil {
		return err
	}
	delete(c.device, p)
	c.reserved -= uint64(n)
	c.executor.Free(p)
	return nil
}

func (s *Software) AllocHost(n int) (unsafe.Pointer, error) {
	c, err := s.enter("cuMemHostAlloc")
	if err != nil {
		return nil, err
	}
	defer s.mutex.Unlock()
	if n <= 0 {
		return nil, softError("cuMemHostAlloc", codeInvalidValue, "%d bytes", n)
	}
	device, err := c.executor.Alloc(n)
	if err != nil {
		return nil, err
	}
	b, err := c.executor.Bytes(device, n, true) // what the host writes there nobody sees
	if err != nil {
		return nil, err
	}
	p := unsafe.Pointer(&b[0])
	c.pinned[uintptr(p)] = &softPinned{b, device}
	return p, nil
}

func (s *Software) HostAddress(p unsafe.Pointer) (driver.Pointer, error) {
	c, err := s.enter("cuMemHostGetDevicePointer")
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	h := c.pinned[uintptr(p)]
	if h == nil {
		return 0, softError("cuMemHostGetDevicePointer", codeInvalidValue, "memory that is not pinned")
	}
	return h.address, nil
}

func (s *Software) FreeHost(p unsafe.Pointer) error {
	c, err := s.enter("cuMemFreeHost")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	h := c.pinned[uintptr(p)]
	if h == nil {
		return softError("cuMemFreeHost", codeInvalidValue, "memory that is not pinned")
	}
	if err := c.drainAll(); err != nil {
		return err
	}
	c.executor.Free(h.address)
	delete(c.pinned, uintptr(p))
	return nil
}

// hostBytes is pinned memory from an address on, nil where it is not pinned.
func (c *softContext) hostBytes(p unsafe.Pointer, n int) []byte {
	address := uintptr(p)
	for start, h := range c.pinned {
		if address >= start && address-start <= uintptr(len(h.bytes)) && uintptr(n) <= uintptr(len(h.bytes))-(address-start) {
			return h.bytes[address-start : address-start+uintptr(n)]
		}
	}
	return nil
}

// bytes is device memory for a copy; pinned memory is none.
func (c *softContext) bytes(call string, p driver.Pointer, n int, writes bool) ([]byte, error) {
	b, err := c.executor.Bytes(p, n, writes)
	if err != nil {
		return nil, softError(call, codeInvalidValue, "%v", err)
	}
	return b, nil
}

func (s *Software) CopyToDevice(dst driver.Pointer, src unsafe.Pointer, n int) error {
	c, err := s.enter("cuMemcpyHtoD")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	if err := errors.Join(c.uncaptured("cuMemcpyHtoD", codeCaptureImplicit)); err != nil {
		return err
	}
	if err := c.drainAll(); err != nil {
		return err
	}
	view, err := c.bytes("cuMemcpyHtoD", dst, n, true)
	if err != nil {
		return err
	}
	copy(view, unsafe.Slice((*byte)(src), n))
	return nil
}

func (s *Software) CopyToHost(dst unsafe.Pointer, src driver.Pointer, n int) error {
	c, err := s.enter("cuMemcpyDtoH")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	if err := c.uncaptured("cuMemcpyDtoH", codeCaptureImplicit); err != nil {
		return err
	}
	if err := c.drainAll(); err != nil {
		return err
	}
	view, err := c.bytes("cuMemcpyDtoH", src, n, false)
	if err != nil {
		return err
	}
	copy(unsafe.Slice((*byte)(dst), n), view)
	return nil
}

// enqueue puts work on a stream, or in the graph that it captures. What prepare finds wrong
// is an error of the call itself.
func (s *Software) enqueue(call string, h driver.Stream, prepare func(c *softContext) (func() error, error)) error {
	c, err := s.enter(call)
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	stream, err := c.stream(call, h)
	if err != nil {
		return err
	}
	work, err := prepare(c)
	if err != nil {
		return err
	}
	return c.enqueue(call, stream, work)
}

func (c *softContext) enqueue(call string, stream *softStream, work func() error) error {
	if stream.capture != nil {
		if stream.invalid {
			return softError(call, codeCaptureInvalidated, "the capture has failed")
		}
		g := stream.capture
		g.nodes = append(g.nodes, softNode{work, slices.Clone(stream.tail)})
		stream.tail = []int{len(g.nodes) - 1}
		return nil
	}
	// The default stream waits for the others, and they for it.
	if stream == &c.legacy {
		if err := c.uncaptured(call, codeCaptureImplicit); err != nil {
			return err
		}
		if err := c.drainAll(); err != nil {
			return err
		}
	} else if err := c.drain(&c.legacy, everything); err != nil {
		return err
	}
	stream.queue = append(stream.queue, work)
	stream.enqueued++
	return nil
}

func (c *softContext) stream(call string, h driver.Stream) (*softStream, error) {
	if h == 0 || h == 1 {
		return &c.legacy, nil
	}
	if s := c.streams[h]; s != nil {
		return s, nil
	}
	return nil, softError(call, codeInvalidHandle, "no such stream")
}

func (s *Software) CopyToDeviceAsync(dst driver.Pointer, src unsafe.Pointer, n int, h driver.Stream) error {
	return s.copyAsync("cuMemcpyHtoDAsync", dst, src, n, h, true)
}

func (s *Software) CopyToHostAsync(dst unsafe.Pointer, src driver.Pointer, n int, h driver.Stream) error {
	return s.copyAsync("cuMemcpyDtoHAsync", src, dst, n, h, false)
}

// copyAsync copies between memory of the device and pinned memory of the host when the stream comes to it.
func (s *Software) copyAsync(call string, device driver.Pointer, host unsafe.Pointer, n int, h driver.Stream, toDevice bool) error {
	return s.enqueue(call, h, func(c *softContext) (func() error, error) {
		if c.hostBytes(host, n) == nil {
			return nil, softError(call, codeInvalidValue, "a copy of memory that is not pinned")
		}
		if _, err := c.bytes(call, device, n, false); err != nil {
			return nil, err
		}
		return func() error {
			pinned := c.hostBytes(host, n)
			if pinned == nil {
				return softError(call, codeIllegalAddress, "pinned memory freed before its copy ran")
			}
			view, err := c.bytes(call, device, n, toDevice)
			if toDevice {
				copy(view, pinned)
			} else {
				copy(pinned, view)
			}
			return err
		}, nil
	})
}

func (s *Software) CopyOnDeviceAsync(dst, src driver.Pointer, n int, h driver.Stream) error {
	const call = "cuMemcpyDtoDAsync"
	return s.enqueue(call, h, func(c *softContext) (func() error, error) {
		work := func() error {
			from, err := c.bytes(call, src, n, false)
			if err != nil {
				return err
			}
			to, err := c.bytes(call, dst, n, true)
			copy(to, from)
			return err
		}
		if _, err := c.bytes(call, src, n, false); err != nil {
			return nil, err
		}
		_, err := c.bytes(call, dst, n, false)
		return work, err
	})
}

func (s *Software) fill(call string, p driver.Pointer, pattern []byte, count int, h driver.Stream) error {
	n := count * len(pattern)
	return s.enqueue(call, h, func(c *softContext) (func() error, error) {
		if uint64(p)%uint64(len(pattern)) != 0 {
			return nil, softError(call, codeInvalidValue, "a misaligned address")
		}
		if _, err := c.bytes(call, p, n, false); err != nil {
			return nil, err
		}
		return func() error {
			b, err := c.bytes(call, p, n, true)
			for i := range b {
				b[i] = pattern[i%len(pattern)]
			}
			return err
		}, nil
	})
}

func (s *Software) Fill8Async(dst driver.Pointer, value uint8, count int, h driver.Stream) error {
	return s.fill("cuMemsetD8Async", dst, []byte{value}, count, h)
}

func (s *Software) Fill32Async(dst driver.Pointer, v uint32, count int, h driver.Stream) error {
	return s.fill("cuMemsetD32Async", dst, []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)}, count, h)
}
