//go:build linux && (amd64 || arm64)

package shim

import (
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/gpc-engine/gpc/kernels/driver"
)

// Library is an opened shim: a driver, and what only the shim can do. Its state
// (faults, counts, order, memory) belongs to the process; Open resets it.
type Library struct {
	driver.Driver
	symbols map[string]uintptr
}

// Load opens a library that Build made.
func Load(path string) (*Library, error) {
	d, path, err := find(path)
	if err != nil {
		return nil, err
	}
	h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	l := &Library{Driver: d, symbols: map[string]uintptr{}}
	for _, name := range []string{"fail", "reset", "calls", "attribute", "memory", "order", "allocations", "kernel", "message"} {
		if l.symbols[name], err = purego.Dlsym(h, "gpc_shim_"+name); err != nil {
			return nil, err
		}
	}
	l.Reset()
	return l, nil
}

func cString(s string) *byte { return &append([]byte(s), 0)[0] }

func goString(p uintptr) string {
	if p == 0 {
		return ""
	}
	var s *byte
	*(*uintptr)(unsafe.Pointer(&s)) = p
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(s), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(s, n))
}

// Fail makes the n-th call from now (1: the next) of a driver symbol, "cuMemAlloc_v2",
// return a CUDA error. "kernel", or a kernel's name, fails the n-th execution of a
// kernel, which shows where its stream is waited for.
func (l *Library) Fail(symbol string, n, code int) { l.FailOn(-1, symbol, n, code) }

// FailOn is Fail of the calls on contexts of one device; −1: of all.
func (l *Library) FailOn(device int, symbol string, n, code int) {
	purego.SyscallN(l.symbols["fail"], uintptr(device), uintptr(unsafe.Pointer(cString(symbol))), uintptr(n), uintptr(code))
}

// Calls counts the calls of a symbol, or executions of a kernel, since Reset.
func (l *Library) Calls(symbol string) int {
	n, _, _ := purego.SyscallN(l.symbols["calls"], uintptr(unsafe.Pointer(cString(symbol))))
	return int(int32(n))
}

// Reset forgets faults and counts, and sets device, memory and order as at first.
func (l *Library) Reset() { purego.SyscallN(l.symbols["reset"]) }

// Attributes that are the shim's own.
const (
	DriverVersion = -1
	DeviceCount   = -2
)

// SetAttribute sets a device attribute, by its number in CUdevice_attribute.
func (l *Library) SetAttribute(attribute, value int) {
	purego.SyscallN(l.symbols["attribute"], uintptr(attribute), uintptr(value))
}

// SetMemory sets the bytes of device memory (1 GiB at first).
func (l *Library) SetMemory(bytes int) { purego.SyscallN(l.symbols["memory"], uintptr(bytes)) }

// SetOrder changes the order in which warps and lanes run: 0 ascending, 1
// descending, other values a permutation drawn from the value.
func (l *Library) SetOrder(order uint64) { purego.SyscallN(l.symbols["order"], uintptr(order)) }

// Allocations counts live allocations, on the device and pinned, of all contexts.
func (l *Library) Allocations() int {
	n, _, _ := purego.SyscallN(l.symbols["allocations"])
	return int(int32(n))
}

// Message is what the last error said.
func (l *Library) Message() string {
	p, _, _ := purego.SyscallN(l.symbols["message"])
	return goString(p)
}

// Kernels names the kernels in the library.
func (l *Library) Kernels() []string {
	var names []string
	for i := 0; ; i++ {
		p, _, _ := purego.SyscallN(l.symbols["kernel"], uintptr(i))
		if p == 0 {
			return names
		}
		names = append(names, goString(p))
	}
}
