package shim

import (
	"sync"
	"unsafe"

	"github.com/gpc-engine/gpc/kernels/driver"
)

// Metered is a driver whose calls are counted and whose devices can be given less than
// they have, on any library: what tests of a GPU ask and the library itself does not tell.
// It meters one context at a time. Attributes are read when that is opened. Its
// methods may be called from any goroutine.
type Metered struct {
	driver.Driver
	mutex      sync.Mutex
	calls      map[string]int
	memory     int // bytes of device memory that may be held; 0: all
	attributes map[driver.Attribute]int
	device     map[driver.Pointer]int // live allocations
	pinned     map[unsafe.Pointer]bool
	usage      int
	names      map[driver.FunctionHandle]string
	captured   map[string]int // kernels of the capture that is under way; nil: none is
	graphs     map[driver.GraphHandle]map[string]int
	runs       map[driver.Executable]map[string]int
}

// NewMetered counts from zero and bounds nothing.
func NewMetered(d driver.Driver) *Metered {
	return &Metered{
		Driver: d, calls: map[string]int{}, attributes: map[driver.Attribute]int{}, device: map[driver.Pointer]int{}, pinned: map[unsafe.Pointer]bool{},
		names: map[driver.FunctionHandle]string{}, graphs: map[driver.GraphHandle]map[string]int{}, runs: map[driver.Executable]map[string]int{},
	}
}

// Calls counts the calls of a driver symbol, "cuMemAlloc_v2", or the launches of a
// kernel by its name, of every kernel by "kernel": one that a graph holds counts at
// each launch of the graph.
func (m *Metered) Calls(symbol string) int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.calls[symbol]
}

// Allocations counts live allocations, on the device and pinned.
func (m *Metered) Allocations() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return len(m.device) + len(m.pinned)
}

// Used is the device memory that is held, in bytes.
func (m *Metered) Used() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.usage
}

// SetMemory bounds the device memory that may be held, in bytes.
func (m *Metered) SetMemory(bytes int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.memory = bytes
}

// SetAttribute makes devices say another value of an attribute.
func (m *Metered) SetAttribute(a driver.Attribute, value int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.attributes[a] = value
}

func (m *Metered) count(symbol string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.calls[symbol]++
}

// short is the error of memory beyond the bound; the mutex is held.
func (m *Metered) short(call string, bytes int) error {
	if m.memory == 0 || m.usage+bytes <= m.memory {
		return nil
	}
	return &driver.CallError{Call: call, Code: driver.CodeOutOfMemory, Name: "CUDA_ERROR_OUT_OF_MEMORY", Text: "the bound of a metered driver"}
}

// DeviceAttribute implements Driver.
func (m *Metered) DeviceAttribute(ordinal int, a driver.Attribute) (int, error) {
	m.mutex.Lock()
	v, ok := m.attributes[a]
	m.mutex.Unlock()
	if ok {
		return v, nil
	}
	return m.Driver.DeviceAttribute(ordinal, a)
}

// DeviceMemory implements Driver.
func (m *Metered) DeviceMemory(ordinal int) (uint64, error) {
	n, err := m.Driver.DeviceMemory(ordinal)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.memory > 0 {
		n = min(n, uint64(m.memory))
	}
	return n, err
}

func (m *Metered) CreateContext(ordinal int) (driver.ContextHandle, error) {
	m.count("cuCtxCreate_v2")
	return m.Driver.CreateContext(ordinal)
}

func (m *Metered) DestroyContext(c driver.ContextHandle) error {
	err := m.Driver.DestroyContext(c)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	clear(m.device)
	clear(m.pinned)
	m.usage = 0
	return err
}

func (m *Metered) MemoryInfo() (free, total uint64, err error) {
	free, total, err = m.Driver.MemoryInfo()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.memory > 0 {
		total = min(total, uint64(m.memory))
	}
	return min(free, total-min(total, uint64(m.usage))), total, err
}

func (m *Metered) Alloc(bytes int) (driver.Pointer, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.calls["cuMemAlloc_v2"]++
	if err := m.short("cuMemAlloc", bytes); err != nil {
		return 0, err
	}
	p, err := m.Driver.Alloc(bytes)
	if err == nil {
		m.device[p] = bytes
		m.usage += bytes
	}
	return p, err
}

func (m *Metered) Free(p driver.Pointer) error {
	m.mutex.Lock()
	m.usage -= m.device[p]
	delete(m.device, p)
	m.mutex.Unlock()
	return m.Driver.Free(p)
}

func (m *Metered) AllocHost(bytes int) (unsafe.Pointer, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.calls["cuMemHostAlloc"]++
	p, err := m.Driver.AllocHost(bytes)
	if err == nil {
		m.pinned[p] = true
	}
	return p, err
}

func (m *Metered) FreeHost(p unsafe.Pointer) error {
	m.mutex.Lock()
	delete(m.pinned, p)
	m.mutex.Unlock()
	return m.Driver.FreeHost(p)
}

func (m *Metered) CopyToDevice(dst driver.Pointer, src unsafe.Pointer, bytes int) error {
	m.count("cuMemcpyHtoD_v2")
	return m.Driver.CopyToDevice(dst, src, bytes)
}

func (m *Metered) CopyToHost(dst unsafe.Pointer, src driver.Pointer, bytes int) error {
	m.count("cuMemcpyDtoH_v2")
	return m.Driver.CopyToHost(dst, src, bytes)
}

func (m *Metered) CopyToDeviceAsync(dst driver.Pointer, src unsafe.Pointer, bytes int, s driver.Stream) error {
	m.count("cuMemcpyHtoDAsync_v2")
	return m.Driver.CopyToDeviceAsync(dst, src, bytes, s)
}

func (m *Metered) CopyToHostAsync(dst unsafe.Pointer, src driver.Pointer, bytes int, s driver.Stream) error {
	m.count("cuMemcpyDtoHAsync_v2")
	return m.Driver.CopyToHostAsync(dst, src, bytes, s)
}

func (m *Metered) RecordEvent(e driver.Event, s driver.Stream) error {
	m.count("cuEventRecord")
	return m.Driver.RecordEvent(e, s)
}

func (m *Metered) EventSynchronize(e driver.Event) error {
	m.count("cuEventSynchronize")
	return m.Driver.EventSynchronize(e)
}

func (m *Metered) StreamSynchronize(stream driver.Stream) error {
	m.count("cuStreamSynchronize")
	return m.Driver.StreamSynchronize(stream)
}

func (m *Metered) Function(module driver.ModuleHandle, name string) (driver.FunctionHandle, error) {
	f, err := m.Driver.Function(module, name)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.names[f] = name
	return f, err
}

func (m *Metered) Launch(f driver.FunctionHandle, grid, block driver.Dim, shared int, s driver.Stream, arguments []unsafe.Pointer) error {
	m.mutex.Lock()
	m.calls["cuLaunchKernel"]++
	counters := m.calls
	if m.captured != nil {
		counters = m.captured
	}
	counters["kernel"]++
	counters[m.names[f]]++
	m.mutex.Unlock()
	return m.Driver.Launch(f, grid, block, shared, s, arguments)
}

func (m *Metered) BeginCapture(s driver.Stream) error {
	err := m.Driver.BeginCapture(s)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.calls["cuStreamBeginCapture_v2"]++
	if err == nil {
		m.captured = map[string]int{}
	}
	return err
}

func (m *Metered) EndCapture(s driver.Stream) (driver.GraphHandle, error) {
	g, err := m.Driver.EndCapture(s)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.graphs[g], m.captured = m.captured, nil
	return g, err
}

func (m *Metered) Instantiate(g driver.GraphHandle) (driver.Executable, error) {
	e, err := m.Driver.Instantiate(g)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.calls["cuGraphInstantiateWithFlags"]++
	m.runs[e] = m.graphs[g]
	return e, err
}

func (m *Metered) LaunchGraph(e driver.Executable, s driver.Stream) error {
	m.mutex.Lock()
	m.calls["cuGraphLaunch"]++
	for kernel, n := range m.runs[e] {
		m.calls[kernel] += n
	}
	m.mutex.Unlock()
	return m.Driver.LaunchGraph(e, s)
}
