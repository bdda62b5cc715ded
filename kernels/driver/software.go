package driver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unsafe"
)

// Executor is a device that is a program: the memory and the kernels of one context.
// kernels/ptx/device is one.
type Executor interface {
	// Load takes an image as a driver gets it, up to its zero byte.
	Load(image []byte) (Program, error)
	Alloc(bytes int) (Pointer, error)
	// Free ends an allocation; false where there is none at the address.
	Free(Pointer) bool
	// Bytes is memory from an address on, which must lie in one allocation; written says
	// that it is going to be written.
	Bytes(p Pointer, n int, written bool) ([]byte, error)
	// Launch runs a kernel to its end. arguments is the memory of its parameters. An error
	// with a method Code() int gives the driver's code; any other is 719, launch failed.
	Launch(k Entry, grid, block Dim, shared int, arguments []byte) error
}

// Program is a loaded image.
type Program interface {
	// Entry finds an entry point; nil, nil where there is none of the name.
	Entry(name string) (Entry, error)
}

// Entry is an entry point of a program.
type Entry interface {
	// Parameters are its parameters and where each lies among the arguments.
	Parameters() (list []Parameter, offsets []int, bytes int)
	StaticShared() int
	MaxThreads() int
}

// Software is a driver whose devices are Executors: memory, streams, events and captured
// graphs in Go. Work on a stream waits until something asks for it, so that a wait that is
// missing shows; fresh memory is NaN; what a driver refuses, it refuses. Its methods may be
// called from any goroutine and run one at a time.
type Software struct {
	mutex      sync.Mutex
	name       string
	executor   func(ordinal int) (Executor, error)
	attributes map[Attribute]int
	devices    int
	memory     uint64
	contexts   map[contextHandle]*softContext
	current    map[int][]*softContext // by thread
	handles    uintptr
}

// NewSoftware makes a driver of devices that executor makes, one for each context. They say
// of themselves what an A100 does, but for one multiprocessor and 1 GiB.
func NewSoftware(name string, executor func(ordinal int) (Executor, error)) *Software {
	return &Software{
		name: name, executor: executor, devices: 1, memory: 1 << 30, contexts: map[contextHandle]*softContext{}, current: map[int][]*softContext{},
		attributes: map[Attribute]int{
			attributeClockKHz: 1410000, attributeMultiprocessors: 1, attributeMemoryClockKHz: 1215000, attributeMemoryBusBits: 5120,
			attributeL2Bytes: 41943040, attributeMajor: 8, attributeMinor: 0, attributeSharedPerBlockOptin: 166912,
		},
	}
}

// SetDevices sets how many devices there are, SetMemory the bytes of each.
func (s *Software) SetDevices(n int) { s.mutex.Lock(); s.devices = n; s.mutex.Unlock() }

// SetMemory sets the bytes of device memory.
func (s *Software) SetMemory(bytes uint64) { s.mutex.Lock(); s.memory = bytes; s.mutex.Unlock() }

// SetAttribute sets what devices say of themselves.
func (s *Software) SetAttribute(a Attribute, v int) {
	s.mutex.Lock()
	s.attributes[a] = v
	s.mutex.Unlock()
}

type softContext struct {
	ordinal  int
	executor Executor
	dead     error
	used     uint64
	device   map[Pointer]int
	pinned   map[uintptr]*softPinned
	legacy   softStream
	streams  map[Stream]*softStream
	events   map[Event]*softEvent
	modules  map[moduleHandle]Program
	entries  map[functionHandle]*softFunction
	graphs   map[graphHandle]*softGraph
	runnable map[executable]*softGraph
	peers    map[*softContext]bool
}

type softPinned struct {
	bytes []byte
	at    Pointer
}

type softFunction struct {
	Entry
	name  string
	limit int
}

type softNode struct {
	work  func() error
	after []int
}

type softGraph struct{ nodes []softNode }

type softStream struct {
	queue              []func() error
	enqueued, executed uint64
	capture            *softGraph
	tail               []int
	origin, invalid    bool
}

type softEvent struct {
	stream   *softStream
	at       uint64
	capture  *softGraph
	tail     []int
	time     time.Time
	recorded bool
}

// Codes of errors that Software gives.
const (
	codeInvalidValue       = 1
	codeInvalidImage       = 200
	codeInvalidContext     = 201
	codeInvalidPTX         = 218
	codePeerUnsupported    = 217
	codeInvalidHandle      = 400
	codeNotFound           = 500
	codeNotReady           = 600
	codeIllegalAddress     = 700
	codeLaunchFailed       = 719
	codeCaptureUnsupported = 900
	codeCaptureInvalidated = 901
	codeCaptureUnjoined    = 904
	codeCaptureImplicit    = 906
)

var softNames = map[int]string{
	codeInvalidValue: "CUDA_ERROR_INVALID_VALUE", codeOutOfMemory: "CUDA_ERROR_OUT_OF_MEMORY", codeBadOrdinal: "CUDA_ERROR_INVALID_DEVICE",
	codeInvalidImage: "CUDA_ERROR_INVALID_IMAGE", codeInvalidContext: "CUDA_ERROR_INVALID_CONTEXT", codeInvalidPTX: "CUDA_ERROR_INVALID_PTX",
	codePeerUnsupported: "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", codePeerEnabled: "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
	codeInvalidHandle: "CUDA_ERROR_INVALID_HANDLE", codeNotFound: "CUDA_ERROR_NOT_FOUND", codeNotReady: "CUDA_ERROR_NOT_READY",
	codeIllegalAddress: "CUDA_ERROR_ILLEGAL_ADDRESS", 716: "CUDA_ERROR_MISALIGNED_ADDRESS", codeLaunchFailed: "CUDA_ERROR_LAUNCH_FAILED",
	codeCaptureUnsupported: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", codeCaptureInvalidated: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	codeCaptureUnjoined: "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", codeCaptureImplicit: "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
}

func softError(call string, code int, format string, a ...any) error {
	return &CallError{Call: call, Code: code, Name: softNames[code], Text: fmt.Sprintf(format, a...)}
}

// Name, Library and HostShim implement Driver.
func (s *Software) Name() string    { return s.name }
func (s *Software) Library() string { return s.name }
func (s *Software) HostShim() bool  { return false }

// Version implements Driver.
func (s *Software) Version() (int, error) { return 12080, nil }

// DeviceCount implements Driver.
func (s *Software) DeviceCount() (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.devices, nil
}

func (s *Software) exists(ordinal int) error {
	if ordinal < 0 || ordinal >= s.devices {
		return &DeviceError{Ordinal: ordinal, Cause: softError("cuDeviceGet", codeBadOrdinal, "there are %d devices", s.devices)}
	}
	return nil
}

// DeviceName implements Driver.
func (s *Software) DeviceName(ordinal int) (string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.name, s.exists(ordinal)
}

// DeviceAttribute implements Driver.
func (s *Software) DeviceAttribute(ordinal int, a Attribute) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	v, ok := s.attributes[a]
	if !ok {
		return 0, softError("cuDeviceGetAttribute", codeInvalidValue, "attribute %d is not known", a)
	}
	return v, s.exists(ordinal)
}

// DeviceMemory implements Driver.
func (s *Software) DeviceMemory(ordinal int) (uint64, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.memory, s.exists(ordinal)
}

func (s *Software) canAccessPeer(ordinal, peer int) (bool, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return ordinal != peer, errors.Join(s.exists(ordinal), s.exists(peer))
}

func (s *Software) handle() uintptr {
	s.handles += 16
	return s.handles
}

// enter gives the context that is current on the thread, with the mutex held; its error
// once it is dead.
func (s *Software) enter(call string) (*softContext, error) {
	s.mutex.Lock()
	list := s.current[threadID()]
	if len(list) == 0 || s.contexts == nil {
		s.mutex.Unlock()
		return nil, softError(call, codeInvalidContext, "no context is current on the thread")
	}
	c := list[len(list)-1]
	if c.dead != nil {
		s.mutex.Unlock()
		return nil, c.dead
	}
	return c, nil
}

func (s *Software) createContext(ordinal int) (contextHandle, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := s.exists(ordinal); err != nil {
		return 0, err
	}
	e, err := s.executor(ordinal)
	if err != nil {
		return 0, err
	}
	c := &softContext{
		ordinal: ordinal, executor: e, device: map[Pointer]int{}, pinned: map[uintptr]*softPinned{}, streams: map[Stream]*softStream{}, events: map[Event]*softEvent{},
		modules: map[moduleHandle]Program{}, entries: map[functionHandle]*softFunction{}, graphs: map[graphHandle]*softGraph{},
		runnable: map[executable]*softGraph{}, peers: map[*softContext]bool{},
	}
	h := contextHandle(s.handle())
	s.contexts[h] = c
	t := threadID()
	s.current[t] = append(s.current[t], c)
	return h, nil
}

func (s *Software) destroyContext(h contextHandle) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	c := s.contexts[h]
	if c == nil {
		return softError("cuCtxDestroy", codeInvalidContext, "no such context")
	}
	delete(s.contexts, h)
	for t, list := range s.current {
		if list = slices.DeleteFunc(list, func(o *softContext) bool { return o == c }); len(list) == 0 {
			delete(s.current, t)
		} else {
			s.current[t] = list
		}
	}
	for _, o := range s.contexts {
		delete(o.peers, c)
	}
	return nil
}

func (s *Software) setContext(h contextHandle) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	t := threadID()
	list := s.current[t]
	if len(list) > 0 {
		list = list[:len(list)-1]
	}
	if h != 0 {
		c := s.contexts[h]
		if c == nil {
			return softError("cuCtxSetCurrent", codeInvalidContext, "no such context")
		}
		list = append(list, c)
	}
	if s.current[t] = list; len(list) == 0 {
		delete(s.current, t)
	}
	return nil
}

func (s *Software) enablePeer(h contextHandle) error {
	c, err := s.enter("cuCtxEnablePeerAccess")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	peer := s.contexts[h]
	switch {
	case peer == nil || peer == c:
		return softError("cuCtxEnablePeerAccess", codeInvalidContext, "no such peer")
	case peer.ordinal == c.ordinal:
		return softError("cuCtxEnablePeerAccess", codePeerUnsupported, "a device is no peer of itself")
	case c.peers[peer]:
		return softError("cuCtxEnablePeerAccess", codePeerEnabled, "enabled before")
	}
	c.peers[peer] = true
	return nil
}

// drain executes what a stream holds, up to an operation; an error ends the context.
func (c *softContext) drain(s *softStream, until uint64) error {
	for len(s.queue) > 0 && s.executed < until && c.dead == nil {
		work := s.queue[0]
		s.queue = s.queue[1:]
		s.executed++
		if err := work(); err != nil {
			var ce *CallError
			if errors.As(err, &ce) && fatal[ce.Code] {
				c.dead = err
			}
			return err
		}
	}
	return c.dead
}

const everything = ^uint64(0)

func (c *softContext) drainAll() error {
	if err := c.drain(&c.legacy, everything); err != nil {
		return err
	}
	for _, h := range slices.Sorted(maps.Keys(c.streams)) {
		if err := c.drain(c.streams[h], everything); err != nil {
			return err
		}
	}
	return nil
}

// uncaptured fails, and spoils the capture, where a stream captures.
func (c *softContext) uncaptured(call string, code int) error {
	for _, s := range c.streams {
		if s.capture != nil {
			s.invalid = true
			return softError(call, code, "a stream captures")
		}
	}
	return nil
}

func (s *Software) synchronize() error {
	c, err := s.enter("cuCtxSynchronize")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	if err := c.uncaptured("cuCtxSynchronize", codeCaptureUnsupported); err != nil {
		return err
	}
	return c.drainAll()
}

func (s *Software) loadModule(image []byte) (moduleHandle, error) {
	c, err := s.enter("cuModuleLoadDataEx")
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	p, err := c.executor.Load(image)
	if err != nil {
		return 0, &CallError{Call: "cuModuleLoadDataEx", Code: codeInvalidPTX, Name: softNames[codeInvalidPTX], Log: err.Error()}
	}
	h := moduleHandle(s.handle())
	c.modules[h] = p
	return h, nil
}

func (s *Software) function(m moduleHandle, name string) (functionHandle, error) {
	c, err := s.enter("cuModuleGetFunction")
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	p := c.modules[m]
	if p == nil {
		return 0, softError("cuModuleGetFunction", codeInvalidHandle, "no such module")
	}
	e, err := p.Entry(name)
	if err != nil {
		return 0, softError("cuModuleGetFunction", codeInvalidPTX, "%v", err)
	}
	if e == nil {
		return 0, softError("cuModuleGetFunction", codeNotFound, "no entry %s", name)
	}
	h := functionHandle(s.handle())
	c.entries[h] = &softFunction{Entry: e, name: name, limit: max(0, defaultShared-e.StaticShared())}
	return h, nil
}

// ofFunction calls f with an entry point.
func (s *Software) ofFunction(call string, h functionHandle, f func(*softFunction) error) error {
	c, err := s.enter(call)
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	e := c.entries[h]
	if e == nil {
		return softError(call, codeInvalidHandle, "no such function")
	}
	return f(e)
}

func (s *Software) parameters(h functionHandle) (list []Parameter, err error) {
	err = s.ofFunction("cuFuncGetParamInfo", h, func(f *softFunction) error { list, _, _ = f.Parameters(); return nil })
	return list, err
}

func (s *Software) maxThreads(h functionHandle) (n int, err error) {
	err = s.ofFunction("cuFuncGetAttribute", h, func(f *softFunction) error { n = f.MaxThreads(); return nil })
	return n, err
}

func (s *Software) staticShared(h functionHandle) (n int, err error) {
	err = s.ofFunction("cuFuncGetAttribute", h, func(f *softFunction) error { n = f.StaticShared(); return nil })
	return n, err
}

func (s *Software) setSharedLimit(h functionHandle, bytes int) error {
	return s.ofFunction("cuFuncSetAttribute", h, func(f *softFunction) error {
		if most := s.attributes[attributeSharedPerBlockOptin]; bytes < 0 || bytes+f.StaticShared() > most {
			return softError("cuFuncSetAttribute", codeInvalidValue, "%s: %d bytes of shared memory beside %d of its own, a block has %d", f.name, bytes, f.StaticShared(), most)
		}
		f.limit = bytes
		return nil
	})
}

func (s *Software) memoryInfo() (free, total uint64, err error) {
	c, err := s.enter("cuMemGetInfo")
	if err != nil {
		return 0, 0, err
	}
	defer s.mutex.Unlock()
	return s.memory - min(c.used, s.memory), s.memory, nil
}

func (s *Software) alloc(n int) (Pointer, error) {
	c, err := s.enter("cuMemAlloc")
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	if n <= 0 {
		return 0, softError("cuMemAlloc", codeInvalidValue, "%d bytes", n)
	}
	if c.used+uint64(n) > s.memory {
		return 0, softError("cuMemAlloc", codeOutOfMemory, "%d bytes beside %d of %d", n, c.used, s.memory)
	}
	p, err := c.executor.Alloc(n)
	if err != nil {
		return 0, err
	}
	c.device[p] = n
	c.used += uint64(n)
	return p, nil
}

func (s *Software) free(p Pointer) error {
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
	c.used -= uint64(n)
	c.executor.Free(p)
	return nil
}

func (s *Software) allocHost(n int) (unsafe.Pointer, error) {
	c, err := s.enter("cuMemHostAlloc")
	if err != nil {
		return nil, err
	}
	defer s.mutex.Unlock()
	if n <= 0 {
		return nil, softError("cuMemHostAlloc", codeInvalidValue, "%d bytes", n)
	}
	at, err := c.executor.Alloc(n)
	if err != nil {
		return nil, err
	}
	b, err := c.executor.Bytes(at, n, true) // what the host writes there nobody sees
	if err != nil {
		return nil, err
	}
	p := unsafe.Pointer(&b[0])
	c.pinned[uintptr(p)] = &softPinned{b, at}
	return p, nil
}

func (s *Software) hostAddress(p unsafe.Pointer) (Pointer, error) {
	c, err := s.enter("cuMemHostGetDevicePointer")
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	h := c.pinned[uintptr(p)]
	if h == nil {
		return 0, softError("cuMemHostGetDevicePointer", codeInvalidValue, "memory that is not pinned")
	}
	return h.at, nil
}

func (s *Software) freeHost(p unsafe.Pointer) error {
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
	c.executor.Free(h.at)
	delete(c.pinned, uintptr(p))
	return nil
}

// hostBytes is pinned memory from an address on, nil where it is not pinned.
func (c *softContext) hostBytes(p unsafe.Pointer, n int) []byte {
	at := uintptr(p)
	for start, h := range c.pinned {
		if at >= start && at-start <= uintptr(len(h.bytes)) && uintptr(n) <= uintptr(len(h.bytes))-(at-start) {
			return h.bytes[at-start : at-start+uintptr(n)]
		}
	}
	return nil
}

// bytes is device memory for a copy; pinned memory is none.
func (c *softContext) bytes(call string, p Pointer, n int, written bool) ([]byte, error) {
	b, err := c.executor.Bytes(p, n, written)
	if err != nil {
		return nil, softError(call, codeInvalidValue, "%v", err)
	}
	return b, nil
}

func (s *Software) copyToDevice(dst Pointer, src unsafe.Pointer, n int) error {
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
	to, err := c.bytes("cuMemcpyHtoD", dst, n, true)
	if err != nil {
		return err
	}
	copy(to, unsafe.Slice((*byte)(src), n))
	return nil
}

func (s *Software) copyToHost(dst unsafe.Pointer, src Pointer, n int) error {
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
	from, err := c.bytes("cuMemcpyDtoH", src, n, false)
	if err != nil {
		return err
	}
	copy(unsafe.Slice((*byte)(dst), n), from)
	return nil
}

// enqueue puts work on a stream, or in the graph that it captures. What prepare finds wrong
// is an error of the call itself.
func (s *Software) enqueue(call string, h Stream, prepare func(c *softContext) (func() error, error)) error {
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
	return c.put(call, stream, work)
}

func (c *softContext) put(call string, stream *softStream, work func() error) error {
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

func (c *softContext) stream(call string, h Stream) (*softStream, error) {
	if h == 0 || h == 1 {
		return &c.legacy, nil
	}
	if s := c.streams[h]; s != nil {
		return s, nil
	}
	return nil, softError(call, codeInvalidHandle, "no such stream")
}

func (s *Software) copyToDeviceAsync(dst Pointer, src unsafe.Pointer, n int, h Stream) error {
	const call = "cuMemcpyHtoDAsync"
	return s.enqueue(call, h, func(c *softContext) (func() error, error) {
		if c.hostBytes(src, n) == nil {
			return nil, softError(call, codeInvalidValue, "a copy from memory that is not pinned")
		}
		if _, err := c.bytes(call, dst, n, false); err != nil {
			return nil, err
		}
		return func() error {
			from := c.hostBytes(src, n)
			if from == nil {
				return softError(call, codeIllegalAddress, "pinned memory freed before its copy ran")
			}
			to, err := c.bytes(call, dst, n, true)
			copy(to, from)
			return err
		}, nil
	})
}

func (s *Software) copyToHostAsync(dst unsafe.Pointer, src Pointer, n int, h Stream) error {
	const call = "cuMemcpyDtoHAsync"
	return s.enqueue(call, h, func(c *softContext) (func() error, error) {
		if c.hostBytes(dst, n) == nil {
			return nil, softError(call, codeInvalidValue, "a copy to memory that is not pinned")
		}
		if _, err := c.bytes(call, src, n, false); err != nil {
			return nil, err
		}
		return func() error {
			to := c.hostBytes(dst, n)
			if to == nil {
				return softError(call, codeIllegalAddress, "pinned memory freed before its copy ran")
			}
			from, err := c.bytes(call, src, n, false)
			copy(to, from)
			return err
		}, nil
	})
}

func (s *Software) copyOnDeviceAsync(dst, src Pointer, n int, h Stream) error {
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

func (s *Software) copyPeerAsync(dst Pointer, to contextHandle, src Pointer, from contextHandle, n int, h Stream) error {
	const call = "cuMemcpyPeerAsync"
	return s.enqueue(call, h, func(*softContext) (func() error, error) {
		target, source := s.contexts[to], s.contexts[from]
		if target == nil || source == nil {
			return nil, softError(call, codeInvalidContext, "no such context")
		}
		if _, err := source.bytes(call, src, n, false); err != nil {
			return nil, err
		}
		if _, err := target.bytes(call, dst, n, false); err != nil {
			return nil, err
		}
		return func() error {
			if source.dead != nil {
				return source.dead
			}
			a, err := source.bytes(call, src, n, false)
			if err != nil {
				return err
			}
			b, err := target.bytes(call, dst, n, true)
			copy(b, a)
			return err
		}, nil
	})
}

func (s *Software) fill(call string, p Pointer, pattern []byte, count int, h Stream) error {
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

func (s *Software) fill8Async(dst Pointer, value uint8, count int, h Stream) error {
	return s.fill("cuMemsetD8Async", dst, []byte{value}, count, h)
}

func (s *Software) fill32Async(dst Pointer, v uint32, count int, h Stream) error {
	return s.fill("cuMemsetD32Async", dst, []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)}, count, h)
}

func (s *Software) createStream() (Stream, error) {
	c, err := s.enter("cuStreamCreate")
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	h := Stream(s.handle())
	c.streams[h] = &softStream{}
	return h, nil
}

func (s *Software) streamSynchronize(h Stream) error {
	c, err := s.enter("cuStreamSynchronize")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	stream, err := c.stream("cuStreamSynchronize", h)
	if err != nil {
		return err
	}
	if stream.capture != nil {
		stream.invalid = true
		return softError("cuStreamSynchronize", codeCaptureUnsupported, "the stream captures")
	}
	if stream == &c.legacy {
		return c.drainAll()
	}
	return c.drain(stream, everything)
}

func (s *Software) streamWait(h Stream, ev Event) error {
	c, err := s.enter("cuStreamWaitEvent")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	stream, err := c.stream("cuStreamWaitEvent", h)
	if err != nil {
		return err
	}
	e := c.events[ev]
	switch {
	case e == nil:
		return softError("cuStreamWaitEvent", codeInvalidHandle, "no such event")
	case e.capture != nil: // the stream joins the capture, or waits within it
		if stream.capture != e.capture {
			stream.tail = nil
		}
		stream.capture = e.capture
		for _, n := range e.tail {
			if !slices.Contains(stream.tail, n) {
				stream.tail = append(stream.tail, n)
			}
		}
		return nil
	case !e.recorded:
		return nil
	}
	other, at := e.stream, e.at
	return c.put("cuStreamWaitEvent", stream, func() error { return c.drain(other, at) })
}

func (s *Software) createEvent() (Event, error) {
	c, err := s.enter("cuEventCreate")
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	h := Event(s.handle())
	c.events[h] = &softEvent{}
	return h, nil
}

// ofEvent calls f with an event.
func (s *Software) ofEvent(call string, h Event, f func(*softContext, *softEvent) error) error {
	c, err := s.enter(call)
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	e := c.events[h]
	if e == nil {
		return softError(call, codeInvalidHandle, "no such event")
	}
	return f(c, e)
}

func (s *Software) destroyEvent(h Event) error {
	return s.ofEvent("cuEventDestroy", h, func(c *softContext, _ *softEvent) error {
		delete(c.events, h)
		return c.drainAll()
	})
}

func (s *Software) recordEvent(h Event, on Stream) error {
	return s.ofEvent("cuEventRecord", h, func(c *softContext, e *softEvent) error {
		stream, err := c.stream("cuEventRecord", on)
		if err != nil {
			return err
		}
		if stream.capture != nil {
			e.capture, e.tail = stream.capture, slices.Clone(stream.tail)
			return nil
		}
		err = c.put("cuEventRecord", stream, func() error { e.time = time.Now(); return nil })
		e.capture, e.stream, e.recorded, e.at = nil, stream, true, stream.enqueued
		return err
	})
}

func (s *Software) eventSynchronize(h Event) error {
	return s.ofEvent("cuEventSynchronize", h, func(c *softContext, e *softEvent) error {
		if !e.recorded {
			return nil
		}
		return c.drain(e.stream, e.at)
	})
}

func (s *Software) elapsed(from, to Event) (ms float32, err error) {
	const call = "cuEventElapsedTime"
	err = s.ofEvent(call, from, func(c *softContext, a *softEvent) error {
		b := c.events[to]
		if b == nil || !a.recorded || !b.recorded {
			return softError(call, codeInvalidHandle, "an event that was not recorded")
		}
		if a.stream.executed < a.at || b.stream.executed < b.at {
			return softError(call, codeNotReady, "an event that has not passed")
		}
		ms = float32(b.time.Sub(a.time).Seconds() * 1000)
		return nil
	})
	return ms, err
}

func (s *Software) launch(h functionHandle, grid, block Dim, shared int, on Stream, arguments []unsafe.Pointer) error {
	const call = "cuLaunchKernel"
	return s.enqueue(call, on, func(c *softContext) (func() error, error) {
		f := c.entries[h]
		if f == nil {
			return nil, softError(call, codeInvalidHandle, "no such function")
		}
		if grid.X < 1 || grid.Y < 1 || grid.Z < 1 || block.X < 1 || block.Y < 1 || block.Z < 1 || grid.X > 1<<31-1 || grid.Y > 65535 || grid.Z > 65535 ||
			block.X > 1024 || block.Y > 1024 || block.Z > 64 || block.X*block.Y*block.Z > f.MaxThreads() {
			return nil, softError(call, codeInvalidValue, "%s: grid %v or block %v out of range", f.name, grid, block)
		}
		if shared < 0 || shared > f.limit {
			return nil, softError(call, codeInvalidValue, "%s: %d bytes of dynamic shared memory, the function's limit is %d", f.name, shared, f.limit)
		}
		list, offsets, n := f.Parameters()
		if len(list) != len(arguments) {
			return nil, softError(call, codeInvalidValue, "%s: %d arguments, it takes %d", f.name, len(arguments), len(list))
		}
		values := make([]byte, n)
		for i, p := range list {
			copy(values[offsets[i]:], unsafe.Slice((*byte)(arguments[i]), p.Size))
		}
		return func() error {
			err := c.executor.Launch(f.Entry, grid, block, shared, values)
			if err == nil {
				return nil
			}
			code := codeLaunchFailed
			var coded interface{ Code() int }
			if errors.As(err, &coded) {
				code = coded.Code()
			}
			return softError(call, code, "%v", err)
		}, nil
	})
}

func (s *Software) beginCapture(h Stream) error {
	c, err := s.enter("cuStreamBeginCapture")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	stream, err := c.stream("cuStreamBeginCapture", h)
	switch {
	case err != nil:
		return err
	case stream == &c.legacy:
		return softError("cuStreamBeginCapture", codeCaptureUnsupported, "the default stream")
	case stream.capture != nil:
		return softError("cuStreamBeginCapture", codeInvalidValue, "the stream captures already")
	}
	stream.capture, stream.tail, stream.origin, stream.invalid = &softGraph{}, nil, true, false
	return nil
}

// earlier lists for each node those that come before it.
func (g *softGraph) earlier() []map[int]bool {
	before := make([]map[int]bool, len(g.nodes))
	for i, n := range g.nodes {
		before[i] = map[int]bool{}
		for _, j := range n.after {
			before[i][j] = true
			maps.Copy(before[i], before[j])
		}
	}
	return before
}

func (s *Software) endCapture(h Stream) (graphHandle, error) {
	const call = "cuStreamEndCapture"
	c, err := s.enter(call)
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	stream, err := c.stream(call, h)
	if err != nil {
		return 0, err
	}
	if stream.capture == nil || !stream.origin {
		return 0, softError(call, codeInvalidValue, "the stream began no capture")
	}
	g, invalid := stream.capture, false
	before := g.earlier()
	joined := map[int]bool{}
	for _, n := range stream.tail {
		joined[n] = true
		maps.Copy(joined, before[n])
	}
	for _, o := range c.streams {
		if o.capture == g {
			invalid = invalid || o.invalid
			o.capture, o.origin, o.invalid = nil, false, false
		}
	}
	for _, e := range c.events {
		if e.capture == g {
			e.capture = nil
		}
	}
	if invalid {
		return 0, softError(call, codeCaptureInvalidated, "the capture has failed")
	}
	if len(joined) != len(g.nodes) {
		return 0, softError(call, codeCaptureUnjoined, "a branch has not come back")
	}
	handle := graphHandle(s.handle())
	c.graphs[handle] = g
	return handle, nil
}

func (s *Software) instantiate(h graphHandle) (executable, error) {
	c, err := s.enter("cuGraphInstantiate")
	if err != nil {
		return 0, err
	}
	defer s.mutex.Unlock()
	g := c.graphs[h]
	if g == nil {
		return 0, softError("cuGraphInstantiate", codeInvalidHandle, "no such graph")
	}
	e := executable(s.handle())
	c.runnable[e] = &softGraph{slices.Clone(g.nodes)}
	return e, nil
}

func (s *Software) launchGraph(e executable, h Stream) error {
	return s.enqueue("cuGraphLaunch", h, func(c *softContext) (func() error, error) {
		g := c.runnable[e]
		if g == nil {
			return nil, softError("cuGraphLaunch", codeInvalidHandle, "no such graph")
		}
		if stream, _ := c.stream("cuGraphLaunch", h); stream.capture != nil {
			return nil, softError("cuGraphLaunch", codeCaptureUnsupported, "the stream captures")
		}
		return func() error {
			for _, n := range g.nodes {
				if err := n.work(); err != nil {
					return err
				}
			}
			return nil
		}, nil
	})
}

func (s *Software) destroyGraph(h graphHandle) error {
	c, err := s.enter("cuGraphDestroy")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	delete(c.graphs, h)
	return nil
}

func (s *Software) destroyExecutable(e executable) error {
	c, err := s.enter("cuGraphExecDestroy")
	if err != nil {
		return err
	}
	defer s.mutex.Unlock()
	delete(c.runnable, e)
	return c.drainAll()
}
