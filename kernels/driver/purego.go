//go:build linux && (amd64 || arm64)

package driver

import (
	"bytes"
	"errors"
	"unsafe"

	"github.com/ebitengine/purego"
)

// libraries are the names under which a driver is looked for; the last is WSL's.
var libraries = []string{"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"}

// Load opens the driver library at path, or, if it is "", the system's, and
// initialises it. Errors: *LibraryError, *SymbolError, *DeviceError, *CallError.
func Load(path string) (Driver, error) {
	tried := libraries
	if path != "" {
		tried = []string{path}
	}
	var causes []error
	for _, name := range tried {
		h, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			causes = append(causes, err)
			continue
		}
		l := &library{path: name, handle: h}
		if err := l.bind(); err != nil {
			return nil, err
		}
		if err := l.call("cuInit", l.init, 0); err != nil {
			var ce *CallError
			if errors.As(err, &ce) && ce.Code == codeNoDevice {
				return nil, &DeviceError{Asked: -1, Cause: err}
			}
			return nil, err
		}
		return l, nil
	}
	return nil, &LibraryError{Tried: tried, Cause: errors.Join(causes...)}
}

// library is the driver through purego. Its fields are addresses of functions.
type library struct {
	path   string
	handle uintptr

	errorName, errorString                                            uintptr
	init, driverGetVersion                                            uintptr
	deviceGetCount, deviceGet, deviceGetName, deviceTotalMem          uintptr
	deviceGetAttribute                                                uintptr
	ctxCreate, ctxDestroy, ctxSynchronize                             uintptr
	moduleLoadDataEx, moduleUnload, moduleGetFunction                 uintptr
	funcSetAttribute, funcGetAttribute, occupancyBlocks               uintptr
	memGetInfo, memAlloc, memFree, memHostAlloc, memFreeHost          uintptr
	memcpyHtoD, memcpyDtoH                                            uintptr
	memcpyHtoDAsync, memcpyDtoHAsync, memcpyDtoDAsync                 uintptr
	memsetD8Async, memsetD32Async                                     uintptr
	streamCreate, streamDestroy, streamSynchronizeCall, streamWaitFor uintptr
	eventCreate, eventDestroy, eventRecord, eventSync, eventElapsed   uintptr
	launchKernel                                                      uintptr
	streamBeginCapture, streamEndCapture                              uintptr
	graphInstantiate, graphLaunch, graphDestroy, graphExecDestroy     uintptr
	funcGetParamInfo, parameterKind                                   uintptr // 0 where the library has none
}

func (l *library) bind() error {
	for _, s := range []struct {
		into *uintptr
		name string
	}{
		{&l.errorName, "cuGetErrorName"}, {&l.errorString, "cuGetErrorString"},
		{&l.init, "cuInit"}, {&l.driverGetVersion, "cuDriverGetVersion"},
		{&l.deviceGetCount, "cuDeviceGetCount"}, {&l.deviceGet, "cuDeviceGet"}, {&l.deviceGetName, "cuDeviceGetName"},
		{&l.deviceTotalMem, "cuDeviceTotalMem_v2"}, {&l.deviceGetAttribute, "cuDeviceGetAttribute"},
		{&l.ctxCreate, "cuCtxCreate_v2"}, {&l.ctxDestroy, "cuCtxDestroy_v2"}, {&l.ctxSynchronize, "cuCtxSynchronize"},
		{&l.moduleLoadDataEx, "cuModuleLoadDataEx"}, {&l.moduleUnload, "cuModuleUnload"}, {&l.moduleGetFunction, "cuModuleGetFunction"},
		{&l.funcSetAttribute, "cuFuncSetAttribute"}, {&l.funcGetAttribute, "cuFuncGetAttribute"},
		{&l.occupancyBlocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor"},
		{&l.memGetInfo, "cuMemGetInfo_v2"}, {&l.memAlloc, "cuMemAlloc_v2"}, {&l.memFree, "cuMemFree_v2"},
		{&l.memHostAlloc, "cuMemHostAlloc"}, {&l.memFreeHost, "cuMemFreeHost"},
		{&l.memcpyHtoD, "cuMemcpyHtoD_v2"}, {&l.memcpyDtoH, "cuMemcpyDtoH_v2"},
		{&l.memcpyHtoDAsync, "cuMemcpyHtoDAsync_v2"}, {&l.memcpyDtoHAsync, "cuMemcpyDtoHAsync_v2"},
		{&l.memcpyDtoDAsync, "cuMemcpyDtoDAsync_v2"},
		{&l.memsetD8Async, "cuMemsetD8Async"}, {&l.memsetD32Async, "cuMemsetD32Async"},
		{&l.streamCreate, "cuStreamCreate"}, {&l.streamDestroy, "cuStreamDestroy_v2"},
		{&l.streamSynchronizeCall, "cuStreamSynchronize"}, {&l.streamWaitFor, "cuStreamWaitEvent"},
		{&l.eventCreate, "cuEventCreate"}, {&l.eventDestroy, "cuEventDestroy_v2"}, {&l.eventRecord, "cuEventRecord"},
		{&l.eventSync, "cuEventSynchronize"}, {&l.eventElapsed, "cuEventElapsedTime"},
		{&l.launchKernel, "cuLaunchKernel"},
		{&l.streamBeginCapture, "cuStreamBeginCapture_v2"}, {&l.streamEndCapture, "cuStreamEndCapture"},
		{&l.graphInstantiate, "cuGraphInstantiateWithFlags"}, {&l.graphLaunch, "cuGraphLaunch"},
		{&l.graphDestroy, "cuGraphDestroy"}, {&l.graphExecDestroy, "cuGraphExecDestroy"},
	} {
		address, err := purego.Dlsym(l.handle, s.name)
		if err != nil {
			return &SymbolError{Library: l.path, Symbol: s.name}
		}
		*s.into = address
	}
	if a, err := purego.Dlsym(l.handle, "cuFuncGetParamInfo"); err == nil {
		l.funcGetParamInfo = a
	}
	if a, err := purego.Dlsym(l.handle, "gpc_shim_parameter_kind"); err == nil {
		l.parameterKind = a
	}
	return nil
}

// call makes a driver call; a result other than 0 becomes a *CallError.
//
//go:uintptrescapes
func (l *library) call(name string, f uintptr, arguments ...uintptr) error {
	r, _, _ := purego.SyscallN(f, arguments...)
	if r == 0 {
		return nil
	}
	code := int(int32(r))
	return &CallError{Call: name, Code: code, Name: l.text(l.errorName, code), Text: l.text(l.errorString, code)}
}

func (l *library) text(f uintptr, code int) string {
	var s *byte
	if r, _, _ := purego.SyscallN(f, uintptr(code), uintptr(unsafe.Pointer(&s))); r != 0 || s == nil {
		return ""
	}
	return cString(s)
}

func cString(s *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(s), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(s, n))
}

func (l *library) Name() string    { return "purego" }
func (l *library) Library() string { return l.path }
func (l *library) HostShim() bool  { return l.parameterKind != 0 }

func (l *library) Version() (int, error) {
	var v int32
	err := l.call("cuDriverGetVersion", l.driverGetVersion, uintptr(unsafe.Pointer(&v)))
	return int(v), err
}

func (l *library) DeviceCount() (int, error) {
	var n int32
	err := l.call("cuDeviceGetCount", l.deviceGetCount, uintptr(unsafe.Pointer(&n)))
	return int(n), err
}

func (l *library) device(ordinal int) (uintptr, error) {
	var d int32
	err := l.call("cuDeviceGet", l.deviceGet, uintptr(unsafe.Pointer(&d)), uintptr(ordinal))
	var ce *CallError
	if errors.As(err, &ce) && ce.Code == codeBadOrdinal {
		err = &DeviceError{Asked: ordinal, Cause: err}
	}
	return uintptr(d), err
}

func (l *library) DeviceName(ordinal int) (string, error) {
	d, err := l.device(ordinal)
	if err != nil {
		return "", err
	}
	name := make([]byte, 256)
	err = l.call("cuDeviceGetName", l.deviceGetName, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), d)
	end := bytes.IndexByte(name, 0)
	return string(name[:max(end, 0)]), err
}

func (l *library) DeviceAttribute(ordinal int, a Attribute) (int, error) {
	d, err := l.device(ordinal)
	if err != nil {
		return 0, err
	}
	var v int32
	err = l.call("cuDeviceGetAttribute", l.deviceGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a), d)
	return int(v), err
}

func (l *library) DeviceMemory(ordinal int) (uint64, error) {
	d, err := l.device(ordinal)
	if err != nil {
		return 0, err
	}
	var n uint64
	err = l.call("cuDeviceTotalMem", l.deviceTotalMem, uintptr(unsafe.Pointer(&n)), d)
	return n, err
}

func (l *library) createContext(ordinal int) (contextHandle, error) {
	d, err := l.device(ordinal)
	if err != nil {
		return 0, err
	}
	var c uintptr
	err = l.call("cuCtxCreate", l.ctxCreate, uintptr(unsafe.Pointer(&c)), 0, d)
	return contextHandle(c), err
}

func (l *library) destroyContext(c contextHandle) error {
	return l.call("cuCtxDestroy", l.ctxDestroy, uintptr(c))
}

func (l *library) synchronize() error { return l.call("cuCtxSynchronize", l.ctxSynchronize) }

// Options of cuModuleLoadDataEx.
const (
	jitErrorLog      = 5
	jitErrorLogBytes = 6
)

func (l *library) loadModule(image []byte) (moduleHandle, error) {
	log := make([]byte, 8192)
	options := []int32{jitErrorLog, jitErrorLogBytes}
	// An array of pointers to C, of which the second is an integer cast to one.
	values := &struct {
		log   unsafe.Pointer
		bytes uintptr
	}{unsafe.Pointer(&log[0]), uintptr(len(log))}
	var m uintptr
	err := l.call("cuModuleLoadDataEx", l.moduleLoadDataEx, uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&image[0])),
		uintptr(len(options)), uintptr(unsafe.Pointer(&options[0])), uintptr(unsafe.Pointer(values)))
	var ce *CallError
	if errors.As(err, &ce) {
		if end := bytes.IndexByte(log, 0); end > 0 {
			ce.Log = string(log[:end])
		}
	}
	return moduleHandle(m), err
}

func (l *library) unloadModule(m moduleHandle) error {
	return l.call("cuModuleUnload", l.moduleUnload, uintptr(m))
}

func (l *library) function(m moduleHandle, name string) (functionHandle, error) {
	text := append([]byte(name), 0)
	var f uintptr
	err := l.call("cuModuleGetFunction", l.moduleGetFunction, uintptr(unsafe.Pointer(&f)), uintptr(m), uintptr(unsafe.Pointer(&text[0])))
	return functionHandle(f), err
}

func (l *library) parameters(f functionHandle) ([]Parameter, error) {
	if l.funcGetParamInfo == 0 {
		return nil, nil
	}
	list := make([]Parameter, 0, 16)
	for i := 0; i < maxArguments; i++ {
		var offset, size uintptr
		// Past the last parameter the call fails; that is how the end is found.
		err := l.call("cuFuncGetParamInfo", l.funcGetParamInfo, uintptr(f), uintptr(i), uintptr(unsafe.Pointer(&offset)), uintptr(unsafe.Pointer(&size)))
		if err != nil {
			var ce *CallError
			if errors.As(err, &ce) && ce.Code == 1 {
				break
			}
			return nil, err
		}
		p := Parameter{Size: int(size)}
		if l.parameterKind != 0 {
			kind, _, _ := purego.SyscallN(l.parameterKind, uintptr(f), uintptr(i))
			p.Kind = byte(kind)
		}
		list = append(list, p)
	}
	return list, nil
}

// Attributes of functions.
const (
	functionMaxThreads       = 0
	functionMaxDynamicShared = 8
)

func (l *library) maxThreads(f functionHandle) (int, error) {
	var n int32
	err := l.call("cuFuncGetAttribute", l.funcGetAttribute, uintptr(unsafe.Pointer(&n)), functionMaxThreads, uintptr(f))
	return int(n), err
}

func (l *library) setSharedLimit(f functionHandle, bytes int) error {
	return l.call("cuFuncSetAttribute", l.funcSetAttribute, uintptr(f), functionMaxDynamicShared, uintptr(bytes))
}

func (l *library) occupancy(f functionHandle, threads, shared int) (int, error) {
	var n int32
	err := l.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", l.occupancyBlocks, uintptr(unsafe.Pointer(&n)), uintptr(f), uintptr(threads), uintptr(shared))
	return int(n), err
}

func (l *library) memoryInfo() (free, total uint64, err error) {
	err = l.call("cuMemGetInfo", l.memGetInfo, uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
	return free, total, err
}

func (l *library) alloc(n int) (Pointer, error) {
	var p Pointer
	err := l.call("cuMemAlloc", l.memAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n))
	return p, err
}

func (l *library) free(p Pointer) error { return l.call("cuMemFree", l.memFree, uintptr(p)) }

func (l *library) allocHost(n int) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	err := l.call("cuMemHostAlloc", l.memHostAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n), 0)
	return p, err
}

func (l *library) freeHost(p unsafe.Pointer) error {
	return l.call("cuMemFreeHost", l.memFreeHost, uintptr(p))
}

func (l *library) copyToDevice(dst Pointer, src unsafe.Pointer, n int) error {
	return l.call("cuMemcpyHtoD", l.memcpyHtoD, uintptr(dst), uintptr(src), uintptr(n))
}

func (l *library) copyToHost(dst unsafe.Pointer, src Pointer, n int) error {
	return l.call("cuMemcpyDtoH", l.memcpyDtoH, uintptr(dst), uintptr(src), uintptr(n))
}

func (l *library) copyToDeviceAsync(dst Pointer, src unsafe.Pointer, n int, s Stream) error {
	return l.call("cuMemcpyHtoDAsync", l.memcpyHtoDAsync, uintptr(dst), uintptr(src), uintptr(n), uintptr(s))
}

func (l *library) copyToHostAsync(dst unsafe.Pointer, src Pointer, n int, s Stream) error {
	return l.call("cuMemcpyDtoHAsync", l.memcpyDtoHAsync, uintptr(dst), uintptr(src), uintptr(n), uintptr(s))
}

func (l *library) copyOnDeviceAsync(dst, src Pointer, n int, s Stream) error {
	return l.call("cuMemcpyDtoDAsync", l.memcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(n), uintptr(s))
}

func (l *library) fill8Async(dst Pointer, value uint8, count int, s Stream) error {
	return l.call("cuMemsetD8Async", l.memsetD8Async, uintptr(dst), uintptr(value), uintptr(count), uintptr(s))
}

func (l *library) fill32Async(dst Pointer, value uint32, count int, s Stream) error {
	return l.call("cuMemsetD32Async", l.memsetD32Async, uintptr(dst), uintptr(value), uintptr(count), uintptr(s))
}

func (l *library) createStream() (Stream, error) {
	var s Stream
	err := l.call("cuStreamCreate", l.streamCreate, uintptr(unsafe.Pointer(&s)), 0)
	return s, err
}

func (l *library) destroyStream(s Stream) error {
	return l.call("cuStreamDestroy", l.streamDestroy, uintptr(s))
}

func (l *library) streamSynchronize(s Stream) error {
	return l.call("cuStreamSynchronize", l.streamSynchronizeCall, uintptr(s))
}

func (l *library) streamWait(s Stream, e Event) error {
	return l.call("cuStreamWaitEvent", l.streamWaitFor, uintptr(s), uintptr(e), 0)
}

func (l *library) createEvent() (Event, error) {
	var e Event
	err := l.call("cuEventCreate", l.eventCreate, uintptr(unsafe.Pointer(&e)), 0)
	return e, err
}

func (l *library) destroyEvent(e Event) error {
	return l.call("cuEventDestroy", l.eventDestroy, uintptr(e))
}

func (l *library) recordEvent(e Event, s Stream) error {
	return l.call("cuEventRecord", l.eventRecord, uintptr(e), uintptr(s))
}

func (l *library) eventSynchronize(e Event) error {
	return l.call("cuEventSynchronize", l.eventSync, uintptr(e))
}

func (l *library) elapsed(from, to Event) (ms float32, err error) {
	err = l.call("cuEventElapsedTime", l.eventElapsed, uintptr(unsafe.Pointer(&ms)), uintptr(from), uintptr(to))
	return ms, err
}

func (l *library) launch(f functionHandle, grid, block Dim, shared int, s Stream, arguments []unsafe.Pointer) error {
	var first unsafe.Pointer
	if len(arguments) > 0 {
		first = unsafe.Pointer(&arguments[0])
	}
	return l.call("cuLaunchKernel", l.launchKernel, uintptr(f),
		uintptr(grid.X), uintptr(grid.Y), uintptr(grid.Z), uintptr(block.X), uintptr(block.Y), uintptr(block.Z),
		uintptr(shared), uintptr(s), uintptr(first), 0)
}

// captureThreadLocal lets other threads go on with calls that a capture forbids.
const captureThreadLocal = 1

func (l *library) beginCapture(s Stream) error {
	return l.call("cuStreamBeginCapture", l.streamBeginCapture, uintptr(s), captureThreadLocal)
}

func (l *library) endCapture(s Stream) (graphHandle, error) {
	var g graphHandle
	err := l.call("cuStreamEndCapture", l.streamEndCapture, uintptr(s), uintptr(unsafe.Pointer(&g)))
	return g, err
}

func (l *library) instantiate(g graphHandle) (executable, error) {
	var e executable
	err := l.call("cuGraphInstantiate", l.graphInstantiate, uintptr(unsafe.Pointer(&e)), uintptr(g), 0)
	return e, err
}

func (l *library) launchGraph(e executable, s Stream) error {
	return l.call("cuGraphLaunch", l.graphLaunch, uintptr(e), uintptr(s))
}

func (l *library) destroyGraph(g graphHandle) error {
	return l.call("cuGraphDestroy", l.graphDestroy, uintptr(g))
}

func (l *library) destroyExecutable(e executable) error {
	return l.call("cuGraphExecDestroy", l.graphExecDestroy, uintptr(e))
}
