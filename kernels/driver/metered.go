package driver

import (
	"sync"
	"unsafe"
)

// Metered is a driver whose calls are counted and whose devices can be given less than
// they have, on any library: what tests of a GPU ask and the library itself does not tell.
// It meters one context at a time. Attributes are read when that is opened. Its
// methods may be called from any goroutine.
type Metered struct {
	Driver
	mutex      sync.Mutex
	calls      map[string]int
	memory     int // bytes of device memory that may be held; 0: all
	attributes map[Attribute]int
	device     map[Pointer]int // live allocations
	pinned     map[unsafe.Pointer]bool
	usage      int
	names      map[functionHandle]string
	captured   map[string]int // kernels of the capture that is under way; nil: none is
	graphs     map[graphHandle]map[string]int
	runs       map[executable]map[string]int
}

// NewMetered counts from zero and bounds nothing.
func NewMetered(d Driver) *Metered {
	return &Metered{
		Driver: d, calls: map[string]int{}, attributes: map[Attribute]int{}, device: map[Pointer]int{}, pinned: map[unsafe.Pointer]bool{},
		names: map[functionHandle]string{}, graphs: map[graphHandle]map[string]int{}, runs: map[executable]map[string]int{},
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
func (m *Metered) SetAttribute(a Attribute, value int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.attributes[a] = value
}

// Attributes by which kernels, tiles and images are chosen.
const (
	Multiprocessors = attributeMultiprocessors
	Major           = attributeMajor
	Minor           = attributeMinor
)

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
	return &CallError{Call: call, Code: codeOutOfMemory, Name: "CUDA_ERROR_OUT_OF_MEMORY", Text: "the bound of a metered driver"}
}

// DeviceAttribute implements Driver.
func (m *Metered) DeviceAttribute(ordinal int, a Attribute) (int, error) {
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

func (m *Metered) createContext(ordinal int) (contextHandle, error) {
	m.count("cuCtxCreate_v2")
	return m.Driver.createContext(ordinal)
}

func (m *Metered) destroyContext(c contextHandle) error {
	err := m.Driver.destroyContext(c)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	clear(m.device)
	clear(m.pinned)
	m.usage = 0
	return err
}

func (m *Metered) memoryInfo() (free, total uint64, err error) {
	free, total, err = m.Driver.memoryInfo()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.memory > 0 {
		total = min(total, uint64(m.memory))
	}
	return min(free, total-min(total, uint64(m.usage))), total, err
}

func (m *Metered) alloc(bytes int) (Pointer, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.calls["cuMemAlloc_v2"]++
	if err := m.short("cuMemAlloc", bytes); err != nil {
		return 0, err
	}
	p, err := m.Driver.alloc(bytes)
	if err == nil {
		m.device[p] = bytes
		m.usage += bytes
	}
	return p, err
}

func (m *Metered) free(p Pointer) error {
	m.mutex.Lock()
	m.usage -= m.device[p]
	delete(m.device, p)
	m.mutex.Unlock()
	return m.Driver.free(p)
}

func (m *Metered) allocHost(bytes int) (unsafe.Pointer, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.calls["cuMemHostAlloc"]++
	p, err := m.Driver.allocHost(bytes)
	if err == nil {
		m.pinned[p] = true
	}
	return p, err
}

func (m *Metered) freeHost(p unsafe.Pointer) error {
	m.mutex.Lock()
	delete(m.pinned, p)
	m.mutex.Unlock()
	return m.Driver.freeHost(p)
}

func (m *Metered) copyToDevice(dst Pointer, src unsafe.Pointer, bytes int) error {
	m.count("cuMemcpyHtoD_v2")
	return m.Driver.copyToDevice(dst, src, bytes)
}

func (m *Metered) copyToHost(dst unsafe.Pointer, src Pointer, bytes int) error {
	m.count("cuMemcpyDtoH_v2")
	return m.Driver.copyToHost(dst, src, bytes)
}

func (m *Metered) copyToDeviceAsync(dst Pointer, src unsafe.Pointer, bytes int, s Stream) error {
	m.count("cuMemcpyHtoDAsync_v2")
	return m.Driver.copyToDeviceAsync(dst, src, bytes, s)
}

func (m *Metered) copyToHostAsync(dst unsafe.Pointer, src Pointer, bytes int, s Stream) error {
	m.count("cuMemcpyDtoHAsync_v2")
	return m.Driver.copyToHostAsync(dst, src, bytes, s)
}

func (m *Metered) copyPeerAsync(dst Pointer, to contextHandle, src Pointer, from contextHandle, bytes int, s Stream) error {
	m.count("cuMemcpyPeerAsync")
	return m.Driver.copyPeerAsync(dst, to, src, from, bytes, s)
}

func (m *Metered) recordEvent(e Event, s Stream) error {
	m.count("cuEventRecord")
	return m.Driver.recordEvent(e, s)
}

func (m *Metered) eventSynchronize(e Event) error {
	m.count("cuEventSynchronize")
	return m.Driver.eventSynchronize(e)
}

func (m *Metered) streamSynchronize(stream Stream) error {
	m.count("cuStreamSynchronize")
	return m.Driver.streamSynchronize(stream)
}

func (m *Metered) function(module moduleHandle, name string) (functionHandle, error) {
	f, err := m.Driver.function(module, name)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.names[f] = name
	return f, err
}

func (m *Metered) launch(f functionHandle, grid, block Dim, shared int, s Stream, arguments []unsafe.Pointer) error {
	m.mutex.Lock()
	m.calls["cuLaunchKernel"]++
	counters := m.calls
	if m.captured != nil {
		counters = m.captured
	}
	counters["kernel"]++
	counters[m.names[f]]++
	m.mutex.Unlock()
	return m.Driver.launch(f, grid, block, shared, s, arguments)
}

func (m *Metered) beginCapture(s Stream) error {
	err := m.Driver.beginCapture(s)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.calls["cuStreamBeginCapture_v2"]++
	if err == nil {
		m.captured = map[string]int{}
	}
	return err
}

func (m *Metered) endCapture(s Stream) (graphHandle, error) {
	g, err := m.Driver.endCapture(s)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.graphs[g], m.captured = m.captured, nil
	return g, err
}

func (m *Metered) instantiate(g graphHandle) (executable, error) {
	e, err := m.Driver.instantiate(g)
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.calls["cuGraphInstantiateWithFlags"]++
	m.runs[e] = m.graphs[g]
	return e, err
}

func (m *Metered) launchGraph(e executable, s Stream) error {
	m.mutex.Lock()
	m.calls["cuGraphLaunch"]++
	for kernel, n := range m.runs[e] {
		m.calls[kernel] += n
	}
	m.mutex.Unlock()
	return m.Driver.launchGraph(e, s)
}
