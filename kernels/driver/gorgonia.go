//go:build gorgoniacu && cgo

package driver

/*
#cgo LDFLAGS: -lcuda
#cgo linux LDFLAGS: -ldl
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>

// Calls that are newer than the headers this is compiled with, or the shim's own.
static void *has_parameter_info(void) { return dlsym(RTLD_DEFAULT, "cuFuncGetParamInfo"); }
static CUresult parameter_info(CUfunction f, size_t i, size_t *offset, size_t *size) {
	CUresult (*call)(CUfunction, size_t, size_t *, size_t *) = has_parameter_info();
	return call(f, i, offset, size);
}
static int parameter_kind(CUfunction f, int i) {
	int (*call)(CUfunction, int) = dlsym(RTLD_DEFAULT, "gpc_shim_parameter_kind");
	return call ? call(f, i) : 0;
}
static int is_shim(void) { return dlsym(RTLD_DEFAULT, "gpc_shim_parameter_kind") != 0; }

static CUresult load_module(CUmodule *m, const void *image, char *log, size_t bytes) {
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)bytes};
	return cuModuleLoadDataEx(m, image, 2, options, values);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"
)

// linkedDriver is the driver that this build is linked with, through gorgonia.org/cu. That package
// initialises the driver when the program starts and ends the program where there is no device.
func linkedDriver() Driver { return linked{} }

// linked is the driver through gorgonia.org/cu, and through cgo where that package
// lacks the call: pinned memory, limits of shared memory, captured graphs, structures
// as arguments.
type linked struct{}

func (linked) Name() string    { return "gorgonia.org/cu" }
func (linked) Library() string { return "libcuda.so.1" }
func (linked) HostShim() bool  { return C.is_shim() != 0 }

// wrap makes a *CallError of an error of package cu, whose type is an integer.
func wrap(call string, err error) error {
	if err == nil {
		return nil
	}
	if v := reflect.ValueOf(err); v.CanInt() {
		return result(call, C.CUresult(v.Int()))
	}
	return fmt.Errorf("%s: %w", call, err)
}

func result(call string, code C.CUresult) error {
	if code == 0 {
		return nil
	}
	e := &CallError{Call: call, Code: int(code)}
	var s *C.char
	if C.cuGetErrorName(code, &s) == 0 && s != nil {
		e.Name = C.GoString(s)
	}
	if C.cuGetErrorString(code, &s) == 0 && s != nil {
		e.Text = C.GoString(s)
	}
	return e
}

func (linked) Version() (int, error) {
	var v C.int // cu.Version hides the error
	err := result("cuDriverGetVersion", C.cuDriverGetVersion(&v))
	return int(v), err
}

func (linked) DeviceCount() (int, error) {
	n, err := cu.NumDevices()
	return n, wrap("cuDeviceGetCount", err)
}

func (linked) device(ordinal int) (cu.Device, error) {
	d, err := cu.GetDevice(ordinal)
	err = wrap("cuDeviceGet", err)
	if failedWith(err, CodeBadOrdinal) {
		err = &DeviceError{Ordinal: ordinal, Cause: err}
	}
	return d, err
}

func (l linked) DeviceName(ordinal int) (string, error) {
	d, err := l.device(ordinal)
	if err != nil {
		return "", err
	}
	name, err := d.Name()
	return name, wrap("cuDeviceGetName", err)
}

func (l linked) DeviceAttribute(ordinal int, a Attribute) (int, error) {
	d, err := l.device(ordinal)
	if err != nil {
		return 0, err
	}
	v, err := d.Attribute(cu.DeviceAttribute(a))
	return v, wrap("cuDeviceGetAttribute", err)
}

func (l linked) DeviceMemory(ordinal int) (uint64, error) {
	d, err := l.device(ordinal)
	if err != nil {
		return 0, err
	}
	n, err := d.TotalMem()
	return uint64(n), wrap("cuDeviceTotalMem", err)
}

// Handles are C pointers; package cu keeps each in a structure of one field.
func handle[T any](v *T) uintptr { return *(*uintptr)(unsafe.Pointer(v)) }

func castHandle[T any](h uintptr) (v T) {
	*(*uintptr)(unsafe.Pointer(&v)) = h
	return v
}

func (l linked) CreateContext(ordinal int) (ContextHandle, error) {
	d, err := l.device(ordinal)
	if err != nil {
		return 0, err
	}
	c, err := d.MakeContext(cu.MapHost)
	return ContextHandle(handle(&c)), wrap("cuCtxCreate", err)
}

func (linked) DestroyContext(h ContextHandle) error {
	return result("cuCtxDestroy", C.cuCtxDestroy(castHandle[C.CUcontext](uintptr(h))))
}

func (linked) SetContext(h ContextHandle) error {
	return result("cuCtxSetCurrent", C.cuCtxSetCurrent(castHandle[C.CUcontext](uintptr(h))))
}

func (linked) Synchronize() error { return wrap("cuCtxSynchronize", cu.Synchronize()) }

func (linked) LoadModule(image []byte) (ModuleHandle, error) {
	log := make([]byte, 8192)
	var m C.CUmodule
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&image[0])
	pin.Pin(&log[0])
	err := result("cuModuleLoadDataEx", C.load_module(&m, unsafe.Pointer(&image[0]), (*C.char)(unsafe.Pointer(&log[0])), C.size_t(len(log))))
	if ce, ok := errors.AsType[*CallError](err); ok {
		ce.Log = C.GoString((*C.char)(unsafe.Pointer(&log[0])))
	}
	return ModuleHandle(handle(&m)), err
}

func (linked) Function(m ModuleHandle, name string) (FunctionHandle, error) {
	f, err := castHandle[cu.Module](uintptr(m)).Function(name)
	return FunctionHandle(handle(&f)), wrap("cuModuleGetFunction", err)
}

func (linked) Parameters(f FunctionHandle) ([]Parameter, error) {
	if C.has_parameter_info() == nil {
		return nil, nil
	}
	list := make([]Parameter, 0, 16)
	function := castHandle[C.CUfunction](uintptr(f))
	for i := 0; i < maxArguments; i++ {
		var offset, size C.size_t
		switch r := C.parameter_info(function, C.size_t(i), &offset, &size); r {
		case 0:
			list = append(list, Parameter{Size: int(size), Kind: byte(C.parameter_kind(function, C.int(i)))})
		case C.CUDA_ERROR_INVALID_VALUE:
			return list, nil
		default:
			return nil, result("cuFuncGetParamInfo", r)
		}
	}
	return list, nil
}

func (linked) SetSharedLimit(f FunctionHandle, n int) error {
	return result("cuFuncSetAttribute", C.cuFuncSetAttribute(castHandle[C.CUfunction](uintptr(f)),
		C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(n)))
}

func (linked) MaxThreads(f FunctionHandle) (int, error) {
	n, err := castHandle[cu.Function](uintptr(f)).Attribute(cu.FnMaxThreadsPerBlock)
	return n, wrap("cuFuncGetAttribute", err)
}

func (linked) StaticShared(f FunctionHandle) (int, error) {
	n, err := castHandle[cu.Function](uintptr(f)).Attribute(cu.SharedSizeBytes)
	return n, wrap("cuFuncGetAttribute", err)
}

func (linked) LocalBytes(f FunctionHandle) (int, error) {
	n, err := castHandle[cu.Function](uintptr(f)).Attribute(cu.LocalSizeBytes)
	return n, wrap("cuFuncGetAttribute", err)
}

func (linked) MemoryInfo() (free, total uint64, err error) {
	f, t, err := cu.MemInfo()
	return uint64(f), uint64(t), wrap("cuMemGetInfo", err)
}

func (linked) Alloc(n int) (Pointer, error) {
	p, err := cu.MemAlloc(int64(n))
	return Pointer(p), wrap("cuMemAlloc", err)
}

func (linked) Free(p Pointer) error { return wrap("cuMemFree", cu.MemFree(cu.DevicePtr(p))) }

func (linked) AllocHost(n int) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	err := result("cuMemHostAlloc", C.cuMemHostAlloc(&p, C.size_t(n), C.CU_MEMHOSTALLOC_DEVICEMAP))
	return p, err
}

func (linked) HostAddress(p unsafe.Pointer) (Pointer, error) {
	var address C.CUdeviceptr
	err := result("cuMemHostGetDevicePointer", C.cuMemHostGetDevicePointer(&address, p, 0))
	return Pointer(address), err
}

func (linked) FreeHost(p unsafe.Pointer) error { return wrap("cuMemFreeHost", cu.MemFreeHost(p)) }

func (linked) CopyToDevice(dst Pointer, src unsafe.Pointer, n int) error {
	return wrap("cuMemcpyHtoD", cu.MemcpyHtoD(cu.DevicePtr(dst), src, int64(n)))
}

func (linked) CopyToHost(dst unsafe.Pointer, src Pointer, n int) error {
	return wrap("cuMemcpyDtoH", cu.MemcpyDtoH(dst, cu.DevicePtr(src), int64(n)))
}

func stream(s Stream) cu.Stream { return castHandle[cu.Stream](uintptr(s)) }

func (linked) CopyToDeviceAsync(dst Pointer, src unsafe.Pointer, n int, s Stream) error {
	return wrap("cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(cu.DevicePtr(dst), src, int64(n), stream(s)))
}

func (linked) CopyToHostAsync(dst unsafe.Pointer, src Pointer, n int, s Stream) error {
	return wrap("cuMemcpyDtoHAsync", cu.MemcpyDtoHAsync(dst, cu.DevicePtr(src), int64(n), stream(s)))
}

func (linked) CopyOnDeviceAsync(dst, src Pointer, n int, s Stream) error {
	return wrap("cuMemcpyDtoDAsync", cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), int64(n), stream(s)))
}

func (linked) Fill8Async(dst Pointer, value uint8, count int, s Stream) error {
	return wrap("cuMemsetD8Async", cu.MemsetD8Async(cu.DevicePtr(dst), value, int64(count), stream(s)))
}

func (linked) Fill32Async(dst Pointer, value uint32, count int, s Stream) error {
	return wrap("cuMemsetD32Async", cu.MemsetD32Async(cu.DevicePtr(dst), uint(value), int64(count), stream(s)))
}

func (linked) CreateStream() (Stream, error) {
	s, err := cu.MakeStream(cu.DefaultStream)
	return Stream(handle(&s)), wrap("cuStreamCreate", err)
}

func (linked) StreamSynchronize(s Stream) error {
	return wrap("cuStreamSynchronize", stream(s).Synchronize())
}

func event(e Event) cu.Event { return castHandle[cu.Event](uintptr(e)) }

func (linked) StreamWait(s Stream, e Event) error {
	return wrap("cuStreamWaitEvent", stream(s).Wait(event(e), 0))
}

func (linked) CreateEvent() (Event, error) {
	e, err := cu.MakeEvent(cu.DefaultEvent)
	return Event(handle(&e)), wrap("cuEventCreate", err)
}

func (linked) DestroyEvent(e Event) error {
	c := event(e)
	return wrap("cuEventDestroy", cu.DestroyEvent(&c))
}

func (linked) RecordEvent(e Event, s Stream) error {
	return wrap("cuEventRecord", event(e).Record(stream(s)))
}

func (linked) EventSynchronize(e Event) error {
	return wrap("cuEventSynchronize", event(e).Synchronize())
}

func (linked) Elapsed(from, to Event) (float32, error) {
	ms, err := event(from).Elapsed(event(to))
	return float32(ms), wrap("cuEventElapsedTime", err)
}

func cStream(s Stream) C.CUstream { return castHandle[C.CUstream](uintptr(s)) }

func (linked) Launch(f FunctionHandle, grid, block Dim, shared int, s Stream, arguments []unsafe.Pointer) error {
	var first *unsafe.Pointer
	var pin runtime.Pinner
	defer pin.Unpin()
	if len(arguments) > 0 {
		// cgo looks at the whole object that it is given a pointer into: one of its own.
		list := append([]unsafe.Pointer(nil), arguments...)
		for _, a := range list {
			pin.Pin((*byte)(a))
		}
		first = &list[0]
	}
	return result("cuLaunchKernel", C.cuLaunchKernel(castHandle[C.CUfunction](uintptr(f)),
		C.uint(grid.X), C.uint(grid.Y), C.uint(grid.Z), C.uint(block.X), C.uint(block.Y), C.uint(block.Z),
		C.uint(shared), cStream(s), first, nil))
}

func (linked) BeginCapture(s Stream) error {
	return result("cuStreamBeginCapture", C.cuStreamBeginCapture(cStream(s), C.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
}

func (linked) EndCapture(s Stream) (GraphHandle, error) {
	var g C.CUgraph
	err := result("cuStreamEndCapture", C.cuStreamEndCapture(cStream(s), &g))
	return GraphHandle(handle(&g)), err
}

func (linked) Instantiate(g GraphHandle) (Executable, error) {
	var e C.CUgraphExec
	err := result("cuGraphInstantiate", C.cuGraphInstantiateWithFlags(&e, castHandle[C.CUgraph](uintptr(g)), 0))
	return Executable(handle(&e)), err
}

func (linked) LaunchGraph(e Executable, s Stream) error {
	return result("cuGraphLaunch", C.cuGraphLaunch(castHandle[C.CUgraphExec](uintptr(e)), cStream(s)))
}

func (linked) DestroyGraph(g GraphHandle) error {
	return wrap("cuGraphDestroy", castHandle[cu.Graph](uintptr(g)).Destroy())
}

func (linked) DestroyExecutable(e Executable) error {
	return wrap("cuGraphExecDestroy", castHandle[cu.ExecGraph](uintptr(e)).Destroy())
}
