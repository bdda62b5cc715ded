package device

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gpc-engine/gpc/kernels/driver"
)

// Executor is a device that is a program: the memory and the kernels of one context.
type Executor interface {
	// Load takes an image as a driver gets it, up to its zero byte.
	Load(image []byte) (Program, error)
	Alloc(bytes int) (driver.Pointer, error)
	// Free ends an allocation; false where there is none at the address.
	Free(driver.Pointer) bool
	// Bytes is memory from an address on, which must lie in one allocation; written says
	// that it is going to be written.
	Bytes(p driver.Pointer, n int, writes bool) ([]byte, error)
	// Launch runs a kernel to its end. arguments is the memory of its parameters. An error
	// with a method Code() int gives the driver's code; any other is 719, launch failed.
	Launch(k Entry, grid, block driver.Dim, shared int, arguments []byte) error
}

// Program is a loaded image.
type Program interface {
	// Entry finds an entry point; nil, nil where there is none of the name.
	Entry(name string) (Entry, error)
}

// Entry is an entry point of a program.
type Entry interface {
	// Parameters are its parameters and where each lies among the arguments.
	Parameters() (list []driver.Parameter, offsets []int, bytes int)
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
	attributes map[driver.Attribute]int
	devices    int
	memory     uint64
	contexts   map[driver.ContextHandle]*softContext
	current    map[int][]*softContext // by thread
	handles    uintptr
}

// NewSoftware makes a driver of devices that executor makes, one for each context. They say
// of themselves what an A100 does, but for one multiprocessor and 1 GiB.
func NewSoftware(name string, executor func(ordinal int) (Executor, error)) *Software {
	return &Software{
		name: name, executor: executor, devices: 1, memory: 1 << 30, contexts: map[driver.ContextHandle]*softContext{}, current: map[int][]*softContext{},
		attributes: map[driver.Attribute]int{
			driver.ClockKHz: 1410000, driver.Multiprocessors: 1, driver.MemoryClockKHz: 1215000, driver.MemoryBusBits: 5120,
			driver.L2Bytes: 41943040, driver.Major: 8, driver.Minor: 0, driver.SharedPerBlockOptin: 166912,
		},
	}
}

// SetDevices sets how many devices there are, SetMemory the bytes of each.
func (s *Software) SetDevices(n int) { s.mutex.Lock(); s.devices = n; s.mutex.Unlock() }

// SetMemory sets the bytes of device memory.
func (s *Software) SetMemory(bytes uint64) { s.mutex.Lock(); s.memory = bytes; s.mutex.Unlock() }

// SetAttribute sets what devices say of themselves.
func (s *Software) SetAttribute(a driver.Attribute, v int) {
	s.mutex.Lock()
	s.attributes[a] = v
	s.mutex.Unlock()
}

type softContext struct {
	ordinal  int
	executor Executor
	dead     error
	reserved uint64
	device   map[driver.Pointer]int
	pinned   map[uintptr]*softPinned
	legacy   softStream
	streams  map[driver.Stream]*softStream
	events   map[driver.Event]*softEvent
	modules  map[driver.ModuleHandle]Program
	entries  map[driver.FunctionHandle]*softFunction
	graphs   map[driver.GraphHandle]*softGraph
	runnable map[driver.Executable]*softGraph
}

type softPinned struct {
	bytes   []byte
	address driver.Pointer
}

type softFunction struct {
	Entry
	name  string
	limit int
}

type softNode struct {
	work         func() error
	predecessors []int
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
	position uint64
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
	codeInvalidValue: "CUDA_ERROR_INVALID_VALUE", driver.CodeOutOfMemory: "CUDA_ERROR_OUT_OF_MEMORY", driver.CodeBadOrdinal: "CUDA_ERROR_INVALID_DEVICE",
	codeInvalidImage: "CUDA_ERROR_INVALID_IMAGE", codeInvalidContext: "CUDA_ERROR_INVALID_CONTEXT", codeInvalidPTX: "CUDA_ERROR_INVALID_PTX",
	codeInvalidHandle: "CUDA_ERROR_INVALID_HANDLE", codeNotFound: "CUDA_ERROR_NOT_FOUND", codeNotReady: "CUDA_ERROR_NOT_READY",
	codeIllegalAddress: "CUDA_ERROR_ILLEGAL_ADDRESS", 716: "CUDA_ERROR_MISALIGNED_ADDRESS", codeLaunchFailed: "CUDA_ERROR_LAUNCH_FAILED",
	codeCaptureUnsupported: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", codeCaptureInvalidated: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	codeCaptureUnjoined: "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", codeCaptureImplicit: "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
}

func softError(call string, code int, format string, a ...any) error {
	return &driver.CallError{Call: call, Code: code, Name: softNames[code], Text: fmt.Sprintf(format, a...)}
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
		return &driver.DeviceError{Ordinal: ordinal, Cause: softError("cuDeviceGet", driver.CodeBadOrdinal, "there are %d devices", s.devices)}
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
func (s *Software) DeviceAttribute(ordinal int, a driver.Attribute) (int, error) {
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

func (s *Software) CreateContext(ordinal int) (driver.ContextHandle, error) {
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
		ordinal: ordinal, executor: e, device: map[driver.Pointer]int{}, pinned: map[uintptr]*softPinned{}, streams: map[driver.Stream]*softStream{}, events: map[driver.Event]*softEvent{},
		modules: map[driver.ModuleHandle]Program{}, entries: map[driver.FunctionHandle]*softFunction{}, graphs: map[driver.GraphHandle]*softGraph{},
		runnable: map[driver.Executable]*softGraph{},
	}
	h := driver.ContextHandle(s.handle())
	s.contexts[h] = c
	t := threadID()
	s.current[t] = append(s.current[t], c)
	return h, nil
}

func (s *Software) DestroyContext(h driver.ContextHandle) error {
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
	return nil
}

func (s *Software) SetContext(h driver.ContextHandle) error {
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

// drain executes what a stream holds, up to an operation; an error ends the context.
func (c *softContext) drain(s *softStream, position uint64) error {
	for len(s.queue) > 0 && s.executed < position && c.dead == nil {
		work := s.queue[0]
		s.queue = s.queue[1:]
		s.executed++
		if err := work(); err != nil {
			var ce *driver.CallError
			if errors.As(err, &ce) && driver.Fatal(ce.Code) {
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

func (s *Software) Synchronize() error {
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
