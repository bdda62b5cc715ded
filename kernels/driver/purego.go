//go:build linux && (amd64 || arm64)

package driver

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// libraries are the names under which a driver is looked for: by the loader's own
// search, then where containers and distributions put it without telling the loader;
// the last is WSL's.
var libraries = []string{
	"libcuda.so.1", "libcuda.so", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/" + triplet + "/libcuda.so.1", "/usr/lib64/libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
}

// triplet names the folder of the machine's libraries on Debian and Ubuntu.
var triplet = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]

// Load opens the driver library at path, or, if it is "", the system's, and
// initialises it. Errors: *LibraryError, *SymbolError, *DeviceError, *CallError.
func Load(path string) (Driver, error) {
	paths := libraries
	if path != "" {
		paths = []string{path}
	}
	var causes []error
	for _, name := range paths {
		h, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			causes = append(causes, err)
			continue
		}
		l := &library{path: name, handle: h}
		if err := l.bind(); err != nil {
			return nil, err
		}
		switch err := l.call("cuInit", 0); {
		case failedWith(err, codeStub): // the toolkit's, to link with; the driver's own may lie further on
			causes = append(causes, err)
			continue
		case failedWith(err, codeNoDevice):
			return nil, &DeviceError{Ordinal: -1, Cause: err}
		case err != nil:
			return nil, err
		}
		return l, nil
	}
	return nil, &LibraryError{Tried: paths, Cause: errors.Join(causes...)}
}

// library is the driver through purego.
type library struct {
	path    string
	handle  uintptr
	symbols map[string]uintptr
}

// required are the symbols that a driver must have; optional ones are newer than
// MinVersion, or the host shim's own.
var (
	required = []string{
		"cuGetErrorName", "cuGetErrorString", "cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet",
		"cuDeviceGetName", "cuDeviceTotalMem_v2", "cuDeviceGetAttribute", "cuCtxCreate_v2", "cuCtxDestroy_v2",
		"cuCtxSetCurrent", "cuCtxSynchronize", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncSetAttribute", "cuFuncGetAttribute",
		"cuMemGetInfo_v2", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc", "cuMemHostGetDevicePointer_v2", "cuMemFreeHost", "cuMemcpyHtoD_v2",
		"cuMemcpyDtoH_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async",
		"cuMemsetD32Async", "cuStreamCreate", "cuStreamSynchronize", "cuStreamWaitEvent", "cuEventCreate",
		"cuEventDestroy_v2", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime", "cuLaunchKernel",
		"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphDestroy",
		"cuGraphExecDestroy",
	}
	optional = []string{parameterInfo, parameterKind}
)

const (
	parameterInfo = "cuFuncGetParamInfo"
	parameterKind = "gpc_shim_parameter_kind"
)

func (l *library) bind() error {
	l.symbols = map[string]uintptr{}
	for _, name := range slices.Concat(required, optional) {
		address, err := purego.Dlsym(l.handle, name)
		if err == nil {
			l.symbols[name] = address
		} else if slices.Contains(required, name) {
			return &SymbolError{Library: l.path, Symbol: name}
		}
	}
	return nil
}

// call makes the call of a symbol; a result other than 0 becomes a *CallError.
//
//go:uintptrescapes
func (l *library) call(symbol string, arguments ...uintptr) error {
	r, _, _ := purego.SyscallN(l.symbols[symbol], arguments...)
	if r == 0 {
		return nil
	}
	code := int(int32(r))
	return &CallError{Call: strings.TrimSuffix(symbol, "_v2"), Code: code, Name: l.text("cuGetErrorName", code), Text: l.text("cuGetErrorString", code)}
}

func (l *library) text(symbol string, code int) string {
	var s *byte
	if r, _, _ := purego.SyscallN(l.symbols[symbol], uintptr(code), uintptr(unsafe.Pointer(&s))); r != 0 || s == nil {
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
func (l *library) HostShim() bool  { return l.symbols[parameterKind] != 0 }

func (l *library) Version() (int, error) {
	var v int32
	err := l.call("cuDriverGetVersion", uintptr(unsafe.Pointer(&v)))
	return int(v), err
}

func (l *library) DeviceCount() (int, error) {
	var n int32
	err := l.call("cuDeviceGetCount", uintptr(unsafe.Pointer(&n)))
	return int(n), err
}

func (l *library) device(ordinal int) (uintptr, error) {
	var d int32
	err := l.call("cuDeviceGet", uintptr(unsafe.Pointer(&d)), uintptr(ordinal))
	if failedWith(err, CodeBadOrdinal) {
		err = &DeviceError{Ordinal: ordinal, Cause: err}
	}
	return uintptr(d), err
}

func (l *library) DeviceName(ordinal int) (string, error) {
	d, err := l.device(ordinal)
	if err != nil {
		return "", err
	}
	name := make([]byte, 256)
	err = l.call("cuDeviceGetName", uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), d)
	end := bytes.IndexByte(name, 0)
	return string(name[:max(end, 0)]), err
}

func (l *library) DeviceAttribute(ordinal int, a Attribute) (int, error) {
	d, err := l.device(ordinal)
	if err != nil {
		return 0, err
	}
	var v int32
	err = l.call("cuDeviceGetAttribute", uintptr(unsafe.Pointer(&v)), uintptr(a), d)
	return int(v), err
}

func (l *library) DeviceMemory(ordinal int) (uint64, error) {
	d, err := l.device(ordinal)
	if err != nil {
		return 0, err
	}
	var n uint64
	err = l.call("cuDeviceTotalMem_v2", uintptr(unsafe.Pointer(&n)), d)
	return n, err
}

// Flags by which kernels reach pinned memory.
const (
	contextMapHost = 8
	hostDeviceMap  = 2
)

func (l *library) CreateContext(ordinal int) (ContextHandle, error) {
	d, err := l.device(ordinal)
	if err != nil {
		return 0, err
	}
	var c uintptr
	err = l.call("cuCtxCreate_v2", uintptr(unsafe.Pointer(&c)), contextMapHost, d)
	return ContextHandle(c), err
}

func (l *library) DestroyContext(c ContextHandle) error {
	return l.call("cuCtxDestroy_v2", uintptr(c))
}

func (l *library) SetContext(c ContextHandle) error { return l.call("cuCtxSetCurrent", uintptr(c)) }

func (l *library) Synchronize() error { return l.call("cuCtxSynchronize") }

// Options of cuModuleLoadDataEx.
const (
	jitErrorLog      = 5
	jitErrorLogBytes = 6
)

func (l *library) LoadModule(image []byte) (ModuleHandle, error) {
	log := make([]byte, 8192)
	options := []int32{jitErrorLog, jitErrorLogBytes}
	// An array of pointers to C, of which the second is an integer cast to one.
	values := &struct {
		log   unsafe.Pointer
		bytes uintptr
	}{unsafe.Pointer(&log[0]), uintptr(len(log))}
	var m uintptr
	err := l.call("cuModuleLoadDataEx", uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&image[0])),
		uintptr(len(options)), uintptr(unsafe.Pointer(&options[0])), uintptr(unsafe.Pointer(values)))
	if ce, ok := errors.AsType[*CallError](err); ok {
		if end := bytes.IndexByte(log, 0); end > 0 {
			ce.Log = string(log[:end])
		}
	}
	return ModuleHandle(m), err
}

func (l *library) Function(m ModuleHandle, name string) (FunctionHandle, error) {
	text := append([]byte(name), 0)
	var f uintptr
	err := l.call("cuModuleGetFunction", uintptr(unsafe.Pointer(&f)), uintptr(m), uintptr(unsafe.Pointer(&text[0])))
	return FunctionHandle(f), err
}

func (l *library) Parameters(f FunctionHandle) ([]Parameter, error) {
	if l.symbols[parameterInfo] == 0 {
		return nil, nil
	}
	list := make([]Parameter, 0, 16)
	for i := 0; i < maxArguments; i++ {
		var offset, size uintptr
		// Past the last parameter the call fails; that is how the end is found.
		err := l.call(parameterInfo, uintptr(f), uintptr(i), uintptr(unsafe.Pointer(&offset)), uintptr(unsafe.Pointer(&size)))
		if failedWith(err, 1) {
			break
		}
		if err != nil {
			return nil, err
		}
		p := Parameter{Size: int(size)}
		if l.HostShim() {
			kind, _, _ := purego.SyscallN(l.symbols[parameterKind], uintptr(f), uintptr(i))
			p.Kind = byte(kind)
		}
		list = append(list, p)
	}
	return list, nil
}

// Attributes of functions.
const (
	functionMaxThreads       = 0
	functionStaticShared     = 1
	functionLocalBytes       = 3
	functionMaxDynamicShared = 8
)

func (l *library) functionAttribute(f FunctionHandle, attribute uintptr) (int, error) {
	var n int32
	err := l.call("cuFuncGetAttribute", uintptr(unsafe.Pointer(&n)), attribute, uintptr(f))
	return int(n), err
}

func (l *library) MaxThreads(f FunctionHandle) (int, error) {
	return l.functionAttribute(f, functionMaxThreads)
}

func (l *library) StaticShared(f FunctionHandle) (int, error) {
	return l.functionAttribute(f, functionStaticShared)
}

func (l *library) LocalBytes(f FunctionHandle) (int, error) {
	return l.functionAttribute(f, functionLocalBytes)
}

func (l *library) SetSharedLimit(f FunctionHandle, bytes int) error {
	return l.call("cuFuncSetAttribute", uintptr(f), functionMaxDynamicShared, uintptr(bytes))
}

func (l *library) MemoryInfo() (free, total uint64, err error) {
	err = l.call("cuMemGetInfo_v2", uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
	return free, total, err
}

func (l *library) Alloc(n int) (Pointer, error) {
	var p Pointer
	err := l.call("cuMemAlloc_v2", uintptr(unsafe.Pointer(&p)), uintptr(n))
	return p, err
}

func (l *library) Free(p Pointer) error { return l.call("cuMemFree_v2", uintptr(p)) }

func (l *library) AllocHost(n int) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	err := l.call("cuMemHostAlloc", uintptr(unsafe.Pointer(&p)), uintptr(n), hostDeviceMap)
	return p, err
}

func (l *library) HostAddress(p unsafe.Pointer) (Pointer, error) {
	var address Pointer
	err := l.call("cuMemHostGetDevicePointer_v2", uintptr(unsafe.Pointer(&address)), uintptr(p), 0)
	return address, err
}

func (l *library) FreeHost(p unsafe.Pointer) error {
	return l.call("cuMemFreeHost", uintptr(p))
}

func (l *library) CopyToDevice(dst Pointer, src unsafe.Pointer, n int) error {
	return l.call("cuMemcpyHtoD_v2", uintptr(dst), uintptr(src), uintptr(n))
}

func (l *library) CopyToHost(dst unsafe.Pointer, src Pointer, n int) error {
	return l.call("cuMemcpyDtoH_v2", uintptr(dst), uintptr(src), uintptr(n))
}

func (l *library) CopyToDeviceAsync(dst Pointer, src unsafe.Pointer, n int, s Stream) error {
	return l.call("cuMemcpyHtoDAsync_v2", uintptr(dst), uintptr(src), uintptr(n), uintptr(s))
}

func (l *library) CopyToHostAsync(dst unsafe.Pointer, src Pointer, n int, s Stream) error {
	return l.call("cuMemcpyDtoHAsync_v2", uintptr(dst), uintptr(src), uintptr(n), uintptr(s))
}

func (l *library) CopyOnDeviceAsync(dst, src Pointer, n int, s Stream) error {
	return l.call("cuMemcpyDtoDAsync_v2", uintptr(dst), uintptr(src), uintptr(n), uintptr(s))
}

func (l *library) Fill8Async(dst Pointer, value uint8, count int, s Stream) error {
	return l.call("cuMemsetD8Async", uintptr(dst), uintptr(value), uintptr(count), uintptr(s))
}

func (l *library) Fill32Async(dst Pointer, value uint32, count int, s Stream) error {
	return l.call("cuMemsetD32Async", uintptr(dst), uintptr(value), uintptr(count), uintptr(s))
}

func (l *library) CreateStream() (Stream, error) {
	var s Stream
	err := l.call("cuStreamCreate", uintptr(unsafe.Pointer(&s)), 0)
	return s, err
}

func (l *library) StreamSynchronize(s Stream) error {
	return l.call("cuStreamSynchronize", uintptr(s))
}

func (l *library) StreamWait(s Stream, e Event) error {
	return l.call("cuStreamWaitEvent", uintptr(s), uintptr(e), 0)
}

func (l *library) CreateEvent() (Event, error) {
	var e Event
	err := l.call("cuEventCreate", uintptr(unsafe.Pointer(&e)), 0)
	return e, err
}

func (l *library) DestroyEvent(e Event) error {
	return l.call("cuEventDestroy_v2", uintptr(e))
}

func (l *library) RecordEvent(e Event, s Stream) error {
	return l.call("cuEventRecord", uintptr(e), uintptr(s))
}

func (l *library) EventSynchronize(e Event) error {
	return l.call("cuEventSynchronize", uintptr(e))
}

func (l *library) Elapsed(from, to Event) (ms float32, err error) {
	err = l.call("cuEventElapsedTime", uintptr(unsafe.Pointer(&ms)), uintptr(from), uintptr(to))
	return ms, err
}

func (l *library) Launch(f FunctionHandle, grid, block Dim, shared int, s Stream, arguments []unsafe.Pointer) error {
	var first unsafe.Pointer
	if len(arguments) > 0 {
		first = unsafe.Pointer(&arguments[0])
	}
	return l.call("cuLaunchKernel", uintptr(f),
		uintptr(grid.X), uintptr(grid.Y), uintptr(grid.Z), uintptr(block.X), uintptr(block.Y), uintptr(block.Z),
		uintptr(shared), uintptr(s), uintptr(first), 0)
}

// captureThreadLocal lets other threads go on with calls that a capture forbids.
const captureThreadLocal = 1

func (l *library) BeginCapture(s Stream) error {
	return l.call("cuStreamBeginCapture_v2", uintptr(s), captureThreadLocal)
}

func (l *library) EndCapture(s Stream) (GraphHandle, error) {
	var g GraphHandle
	err := l.call("cuStreamEndCapture", uintptr(s), uintptr(unsafe.Pointer(&g)))
	return g, err
}

func (l *library) Instantiate(g GraphHandle) (Executable, error) {
	var e Executable
	err := l.call("cuGraphInstantiateWithFlags", uintptr(unsafe.Pointer(&e)), uintptr(g), 0)
	return e, err
}

func (l *library) LaunchGraph(e Executable, s Stream) error {
	return l.call("cuGraphLaunch", uintptr(e), uintptr(s))
}

func (l *library) DestroyGraph(g GraphHandle) error {
	return l.call("cuGraphDestroy", uintptr(g))
}

func (l *library) DestroyExecutable(e Executable) error {
	return l.call("cuGraphExecDestroy", uintptr(e))
}
