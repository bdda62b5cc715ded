// Package driver reaches NVIDIA GPUs through the CUDA driver API, without cgo.
//
// The central type is Context: one device. Context.Do runs a function on the caller's
// goroutine, locked to its OS thread with the context current there, and hands it the
// Thread, whose methods are the operations: memory, copies, modules, launches,
// captured graphs. Calls of Do from any goroutine are safe; they run one at a time.
//
// Driver is the narrow interface below it, one method per driver call, made on the calling
// thread. It has two implementations: Load opens libcuda.so.1 at run time through purego; a
// build with the tag gorgoniacu is linked with it, too, and calls it through gorgonia.org/cu where
// GPC_DRIVER=gorgonia. Find gives the one that is asked for. kernels/shim makes a library with the same symbols that runs kernels on
// the host, for tests.
//
// A missing library, no device, too old a driver, memory that is short, an image
// that does not load and a lost context each have an error type of their own,
// which says what to do about it (errors.go).
//
// It promises no stability to other modules, which open an engine by package gpc
// (docs/reference/library.md).
package driver

import (
	"fmt"
	"unsafe"
)

// MinVersion is the oldest driver API that loads the embedded images, as
// cuDriverGetVersion counts: 1000·major + 10·minor.
const MinVersion = 12020

// MinMajor is the oldest compute capability that the kernels are compiled for.
const MinMajor = 8

// Pointer is an address in device memory. It is never dereferenced in Go.
type Pointer uint64

// Offset is the address n bytes further on.
func (p Pointer) Offset(n int) Pointer { return p + Pointer(n) }

// Handles of driver objects; 0 is none, and for a Stream the default stream.
type (
	ContextHandle  uintptr
	ModuleHandle   uintptr
	FunctionHandle uintptr
	GraphHandle    uintptr
	Executable     uintptr
	// Stream orders work: what is put on one runs in that order.
	Stream uintptr
	// Event marks a place in a stream.
	Event uintptr
)

// Dim is the extent of a grid or a block; 0 counts as 1.
type Dim struct{ X, Y, Z int }

// Attribute numbers a device property as CUdevice_attribute does.
type Attribute int

// The attributes that Devices reads, and by which kernels, tiles and images are chosen.
const (
	ClockKHz            Attribute = 13
	Multiprocessors     Attribute = 16
	MemoryClockKHz      Attribute = 36
	MemoryBusBits       Attribute = 37
	L2Bytes             Attribute = 38
	Major               Attribute = 75
	Minor               Attribute = 76
	SharedPerBlockOptin Attribute = 97
)

// HostShimImage is the image that the host shim loads: it has every kernel built in.
var HostShimImage = []byte("gpc shim")

// HostShimName is what the host shim calls its device, also where it stands in for a GPU's
// driver.
const HostShimName = "gpc host shim"

// InterpreterName is what the interpreter of PTX calls its device.
const InterpreterName = "gpc PTX interpreter"

// Parameter describes one argument of a kernel as the driver knows it.
type Parameter struct {
	Size int  // bytes
	Kind byte // 'p' pointer, 'f' float, 'i' signed, 'u' unsigned, 's' structure; 0: not known
}

// Driver is an open driver library: one method per call, made on the calling OS
// thread. Errors are those of errors.go.
type Driver interface {
	// Name tells the implementation ("purego", "gorgonia.org/cu"), Library the file.
	Name() string
	Library() string
	// HostShim tells whether the library is that of kernels/shim.
	HostShim() bool

	Version() (int, error)
	DeviceCount() (int, error)
	DeviceName(ordinal int) (string, error)
	DeviceAttribute(ordinal int, a Attribute) (int, error)
	DeviceMemory(ordinal int) (uint64, error)

	// CreateContext makes a context and leaves it current on this thread.
	CreateContext(ordinal int) (ContextHandle, error)
	DestroyContext(ContextHandle) error
	// SetContext makes a context current on this thread, or with 0 none.
	SetContext(ContextHandle) error
	Synchronize() error

	LoadModule(image []byte) (ModuleHandle, error)
	Function(m ModuleHandle, name string) (FunctionHandle, error)
	// Parameters is nil where the driver cannot tell (before CUDA 12.4).
	Parameters(FunctionHandle) ([]Parameter, error)
	SetSharedLimit(f FunctionHandle, bytes int) error
	// MaxThreads is the largest block; asking makes a driver that loads functions
	// lazily load this one, which it could not while a stream captures.
	MaxThreads(f FunctionHandle) (int, error)
	// StaticShared is the shared memory that a function has of its own, in bytes.
	StaticShared(f FunctionHandle) (int, error)
	// LocalBytes is the local memory of a thread of a function; 0 of emulated ones.
	LocalBytes(f FunctionHandle) (int, error)

	MemoryInfo() (free, total uint64, err error)
	Alloc(bytes int) (Pointer, error)
	Free(Pointer) error
	// AllocHost gives pinned memory that kernels reach at the address of HostAddress.
	AllocHost(bytes int) (unsafe.Pointer, error)
	HostAddress(unsafe.Pointer) (Pointer, error)
	FreeHost(unsafe.Pointer) error
	CopyToDevice(dst Pointer, src unsafe.Pointer, bytes int) error
	CopyToHost(dst unsafe.Pointer, src Pointer, bytes int) error
	CopyToDeviceAsync(dst Pointer, src unsafe.Pointer, bytes int, s Stream) error
	CopyToHostAsync(dst unsafe.Pointer, src Pointer, bytes int, s Stream) error
	CopyOnDeviceAsync(dst, src Pointer, bytes int, s Stream) error
	Fill8Async(dst Pointer, value uint8, count int, s Stream) error
	Fill32Async(dst Pointer, value uint32, count int, s Stream) error

	CreateStream() (Stream, error)
	StreamSynchronize(Stream) error
	StreamWait(Stream, Event) error
	CreateEvent() (Event, error)
	DestroyEvent(Event) error
	RecordEvent(Event, Stream) error
	EventSynchronize(Event) error
	Elapsed(from, to Event) (milliseconds float32, err error)

	Launch(f FunctionHandle, grid, block Dim, shared int, s Stream, arguments []unsafe.Pointer) error
	BeginCapture(Stream) error
	EndCapture(Stream) (GraphHandle, error)
	Instantiate(GraphHandle) (Executable, error)
	LaunchGraph(Executable, Stream) error
	DestroyGraph(GraphHandle) error
	DestroyExecutable(Executable) error
}

// Device is what the driver says of one GPU.
type Device struct {
	Ordinal         int    `json:"ordinal"` // as counted after `CUDA_VISIBLE_DEVICES`
	Name            string `json:"name"`    // of the device
	Major           int    `json:"-"`       // compute capability Major.Minor
	Minor           int    `json:"-"`
	Memory          uint64 `json:"memory_bytes"`           // device memory
	Multiprocessors int    `json:"multiprocessors"`        // number of them
	SharedPerBlock  int    `json:"shared_bytes_per_block"` // the most that one block may have
	L2              int    `json:"l2_bytes"`               // level-2 cache
	ClockKHz        int    `json:"clock_khz"`              // 0: not told
	MemoryClockKHz  int    `json:"memory_clock_khz"`       // 0: not told
	MemoryBusBits   int    `json:"memory_bus_bits"`        // width of the memory's bus
}

// ISA is the architecture's name, "sm_90".
func (d Device) ISA() string { return fmt.Sprintf("sm_%d%d", d.Major, d.Minor) }

// String names the device as doctor and traces print it.
func (d Device) String() string {
	return fmt.Sprintf("%s (%s, %.1f GiB, %d SMs)", d.Name, d.ISA(), float64(d.Memory)/(1<<30), d.Multiprocessors)
}

// Emulated tells that the device is no GPU but a program, whose times say nothing of one.
func (d Device) Emulated() bool { return d.Name == HostShimName || d.Name == InterpreterName }

// PTXAlone tells that the device executes PTX and no machine code, whatever its architecture.
func (d Device) PTXAlone() bool { return d.Name == InterpreterName }

// Usable is nil if the kernels run on the device, otherwise a *CapabilityError.
func (d Device) Usable() error {
	if d.Major < MinMajor {
		return &CapabilityError{Device: d}
	}
	return nil
}

// CheckVersion reads the driver's version; older than MinVersion it is a *VersionError.
func CheckVersion(d Driver) (int, error) {
	v, err := d.Version()
	if err != nil {
		return 0, err
	}
	if v < MinVersion {
		return v, &VersionError{Have: v, Need: MinVersion}
	}
	return v, nil
}

// Devices lists the GPUs that the driver shows, usable or not. None is a *DeviceError.
func Devices(d Driver) ([]Device, error) {
	n, err := d.DeviceCount()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, &DeviceError{Ordinal: -1}
	}
	devices := make([]Device, n)
	for i := range devices {
		if devices[i], err = describe(d, i); err != nil {
			return nil, err
		}
	}
	return devices, nil
}

func describe(d Driver, ordinal int) (Device, error) {
	dev := Device{Ordinal: ordinal}
	var err error
	if dev.Name, err = d.DeviceName(ordinal); err != nil {
		return dev, err
	}
	if dev.Memory, err = d.DeviceMemory(ordinal); err != nil {
		return dev, err
	}
	for _, a := range []struct {
		attribute Attribute
		value     *int
		optional  bool // some drivers no longer tell clocks
	}{
		{Major, &dev.Major, false},
		{Minor, &dev.Minor, false},
		{Multiprocessors, &dev.Multiprocessors, false},
		{SharedPerBlockOptin, &dev.SharedPerBlock, false},
		{L2Bytes, &dev.L2, true},
		{ClockKHz, &dev.ClockKHz, true},
		{MemoryClockKHz, &dev.MemoryClockKHz, true},
		{MemoryBusBits, &dev.MemoryBusBits, true},
	} {
		v, err := d.DeviceAttribute(ordinal, a.attribute)
		if err != nil && !a.optional {
			return dev, err
		}
		if err == nil {
			*a.value = v
		}
	}
	return dev, nil
}
