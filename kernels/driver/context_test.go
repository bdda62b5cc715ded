//go:build linux && (amd64 || arm64)

package driver_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
)

func open(t *testing.T) (*shim.Library, *driver.Context) {
	t.Helper()
	l := shim.OpenFiles(t, testKernels)
	c := require.Get(driver.Open(l, 0))(t)
	t.Cleanup(func() {
		c.Close()
		if n := l.Allocations(); n != 0 {
			t.Errorf("%d allocations outlive their context", n)
		}
	})
	return l, c
}

// workload uses every operation of Thread once, and tells whether the sum it
// computes is right.
func workload(th *driver.Thread) (err error) {
	const n = 64
	step := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	var (
		module   *driver.Module
		kernel   *driver.Kernel
		a, b, o  driver.Pointer
		pinned   *driver.HostMemory
		s, other driver.Stream
		e, f     driver.Event
		graph    *driver.Graph
	)
	step(func() (err error) { _, _, err = th.MemoryInfo(); return })
	step(func() (err error) { module, err = th.LoadModule("test", driver.HostShimImage); return })
	step(func() (err error) { kernel, err = th.Kernel(module, "gpc_test_sum"); return })
	for _, p := range []*driver.Pointer{&a, &b, &o} {
		step(func() (err error) { *p, err = th.Alloc(4 * n); return })
	}
	step(func() (err error) { pinned, err = th.AllocHost(4*n + 4); return })
	step(func() (err error) { s, err = th.NewStream(); return })
	step(func() (err error) { other, err = th.NewStream(); return })
	step(func() (err error) { e, err = th.NewEvent(); return })
	step(func() (err error) { f, err = th.NewEvent(); return })
	ones := make([]float32, n)
	for i := range ones {
		ones[i] = 1
	}
	step(func() error { return driver.Upload(th, a, ones) })
	step(func() (err error) {
		graph, err = th.Capture(s, func() error {
			if err := th.UploadAsync(b, pinned, 0, 4*n, s); err != nil {
				return err
			}
			if err := th.Launch(kernel, driver.Launch{Block: driver.Dim{X: n}, Shared: 64 << 10, Stream: s},
				driver.Address(o), driver.Address(a), driver.Address(b), driver.Int32(n)); err != nil {
				return err
			}
			return th.DownloadAsync(pinned, 4*n, o, 4, s)
		})
		return err
	})
	if err == nil {
		copy(driver.HostSlice[float32](pinned, 0, n), ones)
	}
	step(func() error { return th.ZeroAsync(o, 4*n, s) })
	step(func() error { return th.Fill32Async(o, 7, n, s) })
	step(func() error { return th.Record(e, s) })
	step(func() error { return th.WaitFor(other, e) })
	step(func() error { return th.CopyAsync(o, a, 4*n, other) })
	step(func() error { return th.LaunchGraph(graph, s) })
	step(func() error { return th.Record(f, s) })
	step(func() error { return th.WaitEvent(f) })
	step(func() (err error) { _, err = th.Elapsed(e, f); return })
	step(func() error { return th.Wait(s) })
	if err == nil {
		if sum := driver.HostSlice[float32](pinned, 4*n, 1)[0]; sum != 2*n {
			return fmt.Errorf("the sum is %v", sum)
		}
	}
	step(func() error { return th.Wait(other) })
	step(func() error { return driver.Download(th, ones[:1], o) })
	step(th.Synchronize)
	step(func() error { return th.DestroyGraph(graph) })
	step(func() error { return th.DestroyEvent(e) })
	step(func() error { return th.DestroyEvent(f) })
	step(func() error { return th.FreeHost(pinned) })
	for _, p := range []driver.Pointer{a, b, o} {
		step(func() error { return th.Free(p) })
	}
	return err
}

// calls are the driver's symbols that a Thread uses.
var calls = []string{
	"cuMemGetInfo_v2", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncGetParamInfo", "cuFuncGetAttribute",
	"cuFuncSetAttribute", "cuMemAlloc_v2", "cuMemHostAlloc", "cuMemHostGetDevicePointer_v2", "cuStreamCreate",
	"cuEventCreate", "cuMemcpyHtoD_v2", "cuStreamBeginCapture_v2", "cuMemcpyHtoDAsync_v2", "cuLaunchKernel",
	"cuMemcpyDtoHAsync_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuMemsetD8Async",
	"cuMemsetD32Async", "cuEventRecord", "cuStreamWaitEvent", "cuMemcpyDtoDAsync_v2", "cuGraphLaunch", "cuEventSynchronize",
	"cuEventElapsedTime", "cuStreamSynchronize", "cuMemcpyDtoH_v2", "cuCtxSynchronize", "cuGraphExecDestroy",
	"cuEventDestroy_v2", "cuMemFreeHost", "cuMemFree_v2",
}

// A fault at any call of any symbol is an error of that call; one that is fatal
// ends the context, any other leaves it able to do everything.
func TestFaultAtEveryCall(t *testing.T) {
	l, c := open(t)
	require.OK(t, c.Do(workload))
	count := map[string]int{}
	for _, symbol := range calls {
		if count[symbol] = l.Calls(symbol); count[symbol] == 0 {
			t.Errorf("%s is not called", symbol)
		}
	}
	c.Close()
	for _, symbol := range calls {
		for n := 1; n <= count[symbol]; n++ {
			for _, code := range []int{801, 700} { // not supported; illegal address
				l.Reset()
				c := require.Get(driver.Open(l, 0))(t)
				l.Fail(symbol, n, code)
				err := c.Do(workload)
				var lost *driver.LostError
				var call *driver.CallError
				switch {
				case !errors.As(err, &call) || call.Code != code:
					t.Errorf("call %d of %s with error %d: %v", n, symbol, code, err)
				case code == 700 && (!errors.As(err, &lost) || c.Lost() == nil):
					t.Errorf("call %d of %s: an illegal address does not end the context: %v", n, symbol, err)
				case code == 700 && !errors.As(c.Do((*driver.Thread).Synchronize), &lost):
					t.Errorf("call %d of %s: a lost context still synchronises", n, symbol)
				case code == 801 && c.Lost() != nil:
					t.Errorf("call %d of %s: an error that is not fatal ends the context", n, symbol)
				case code == 801:
					if err := c.Do(workload); err != nil {
						t.Errorf("after call %d of %s failed, the same work again: %v", n, symbol, err)
					}
				}
				if err := c.Close(); err != nil {
					t.Errorf("close after call %d of %s: %v", n, symbol, err)
				}
				if left := l.Allocations(); left != 0 {
					t.Errorf("%d allocations left after call %d of %s", left, n, symbol)
				}
			}
		}
	}
}

// An error of a kernel shows where its stream is waited for, and everything after
// it says that the context is lost.
func TestAsynchronousFault(t *testing.T) {
	l, c := open(t)
	l.Fail("kernel", 1, 719)
	err := c.Do(workload)
	var lost *driver.LostError
	var call *driver.CallError
	if !errors.As(err, &lost) || !errors.As(err, &call) || call.Call != "cuEventSynchronize" || call.Name != "CUDA_ERROR_LAUNCH_FAILED" {
		t.Errorf("%v, want CUDA_ERROR_LAUNCH_FAILED from cuEventSynchronize", err)
	}
	before := l.Calls("cuMemAlloc_v2")
	if err := c.Do(workload); !errors.As(err, &lost) || l.Calls("cuMemAlloc_v2") != before {
		t.Errorf("work on a lost context: %v", err)
	}
}

func TestMemoryIsShort(t *testing.T) {
	l, c := open(t)
	l.SetMemory(1 << 20)
	err := c.Do(func(th *driver.Thread) error {
		_, err := th.Alloc(2 << 20)
		return err
	})
	var memory *driver.MemoryError
	if !errors.As(err, &memory) || memory.Bytes != 2<<20 || memory.Free != 1<<20 || !strings.Contains(err.Error(), "lower the batch") {
		t.Errorf("%v", err)
	}
	if err := c.Do(workload); err != nil {
		t.Errorf("after memory was short: %v", err)
	}
	l.Fail("cuMemHostAlloc", 1, 2)
	err = c.Do(func(th *driver.Thread) error {
		_, err := th.AllocHost(1 << 20)
		return err
	})
	if !errors.As(err, &memory) || !memory.Pinned {
		t.Errorf("pinned memory is short: %v", err)
	}
}

func TestImageErrors(t *testing.T) {
	l, c := open(t)
	load := func(image []byte) error {
		return c.Do(func(th *driver.Thread) error {
			_, err := th.LoadModule("eig", image)
			return err
		})
	}
	var image *driver.ImageError
	for _, bad := range [][]byte{nil, []byte("no image at all"), {0}} {
		if err := load(bad); !errors.As(err, &image) || !strings.Contains(err.Error(), `"eig"`) {
			t.Errorf("image %q: %v", bad, err)
		}
	}
	l.Fail("cuModuleLoadDataEx", 1, 222)
	if err := load(driver.HostShimImage); !errors.As(err, &image) || !strings.Contains(err.Error(), "UNSUPPORTED_PTX_VERSION") {
		t.Errorf("PTX too new: %v", err)
	}
	l.Fail("cuModuleLoadDataEx", 1, 2)
	var memory *driver.MemoryError
	if err := load(driver.HostShimImage); !errors.As(err, &memory) {
		t.Errorf("no memory for an image: %v", err)
	}
	err := c.Do(func(th *driver.Thread) error {
		m, err := th.LoadModule("eig", driver.HostShimImage)
		if err != nil {
			return err
		}
		_, err = th.Kernel(m, "gpc_nowhere")
		return err
	})
	if !errors.As(err, &image) || image.Kernel != "gpc_nowhere" {
		t.Errorf("a kernel that is not there: %v", err)
	}
	if c.Lost() != nil {
		t.Errorf("the context is lost: %v", c.Lost())
	}
}

func TestLaunchChecksItsArguments(t *testing.T) {
	_, c := open(t)
	good := func(p driver.Pointer) []driver.Argument {
		return []driver.Argument{driver.Address(p), driver.Address(p), driver.Address(p), driver.Int32(32)}
	}
	pair := struct{ A, B, C float32 }{}
	for name, test := range map[string]struct {
		change func(a []driver.Argument) []driver.Argument
		launch driver.Launch
		want   string
	}{
		"too few":             {func(a []driver.Argument) []driver.Argument { return a[:3] }, driver.Launch{}, "3 arguments given, it takes 4"},
		"float for int":       {func(a []driver.Argument) []driver.Argument { a[3] = driver.Float32(1); return a }, driver.Launch{}, "argument 3 is a float"},
		"wide for narrow":     {func(a []driver.Argument) []driver.Argument { a[3] = driver.Int64(1); return a }, driver.Launch{}, "argument 3"},
		"int for pointer":     {func(a []driver.Argument) []driver.Argument { a[0] = driver.Int64(1); return a }, driver.Launch{}, "argument 0"},
		"structure":           {func(a []driver.Argument) []driver.Argument { a[3] = driver.Struct(&pair); return a }, driver.Launch{}, "a structure of 12 bytes"},
		"block too large":     {nil, driver.Launch{Block: driver.Dim{X: 1025}}, "a block of 1025 threads"},
		"too much shared":     {nil, driver.Launch{Shared: 200 << 10}, "a block of this device has"},
		"grid too high":       {nil, driver.Launch{Grid: driver.Dim{Y: 65536}}, "INVALID_VALUE"},
		"no stream of ours":   {nil, driver.Launch{Stream: 12345}, "INVALID_HANDLE"},
		"shared with opt-in":  {nil, driver.Launch{Block: driver.Dim{X: 32}, Shared: 160 << 10}, ""},
		"everything in order": {nil, driver.Launch{Block: driver.Dim{X: 32}, Shared: 4}, ""},
	} {
		err := c.Do(func(th *driver.Thread) error {
			m, err := th.LoadModule("test", driver.HostShimImage)
			if err != nil {
				return err
			}
			k, err := th.Kernel(m, "gpc_test_sum")
			if err != nil {
				return err
			}
			p, err := th.Alloc(128)
			if err != nil {
				return err
			}
			defer th.Free(p)
			a := good(p)
			if test.change != nil {
				a = test.change(a)
			}
			if err := th.Launch(k, test.launch, a...); err != nil {
				return err
			}
			return th.Synchronize()
		})
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestCaptureThatFailsLeavesTheStream(t *testing.T) {
	_, c := open(t)
	own := errors.New("not today")
	err := c.Do(func(th *driver.Thread) error {
		s, err := th.NewStream()
		if err != nil {
			return err
		}
		if _, err := th.Capture(s, func() error { return own }); !errors.Is(err, own) {
			t.Errorf("an error of the captured function: %v", err)
		}
		if _, err := th.Capture(s, func() error { return th.Wait(s) }); err == nil {
			t.Error("waiting inside a capture is allowed")
		}
		if _, err := th.Capture(s, func() error { th.Wait(s); return nil }); err == nil || !strings.Contains(err.Error(), "INVALIDATED") {
			t.Errorf("a capture that was spoilt: %v", err)
		}
		g, err := th.Capture(s, func() error { return nil })
		if err != nil {
			return err
		}
		if err := th.LaunchGraph(g, s); err != nil {
			return err
		}
		return th.Wait(s)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCallsFromManyGoroutines(t *testing.T) {
	_, c := open(t)
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			for range 4 {
				err := c.Do(func(th *driver.Thread) error {
					p, err := th.Alloc(4)
					if err != nil {
						return err
					}
					got := []int32{-1}
					if err := errors.Join(driver.Upload(th, p, []int32{int32(i)}), driver.Download(th, got, p), th.Free(p)); err != nil {
						return err
					}
					if got[0] != int32(i) {
						return fmt.Errorf("%d came back as %d", i, got[0])
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}

// TestDoStaysOnItsGoroutine: no other goroutine runs a call, and one that ends its
// goroutine leaves the context as it was.
func TestDoStaysOnItsGoroutine(t *testing.T) {
	goroutine := func() string {
		text := make([]byte, 64)
		name, _, _ := strings.Cut(string(text[:runtime.Stack(text, false)]), " [") // "goroutine 7"
		return name
	}
	l, c := open(t)
	caller := goroutine()
	require.OK(t, c.Do(func(th *driver.Thread) error {
		if ran := goroutine(); ran != caller {
			t.Errorf("%s runs a call of %s", ran, caller)
		}
		return th.Synchronize()
	}))
	var wait sync.WaitGroup
	wait.Go(func() {
		c.Do(func(*driver.Thread) error { runtime.Goexit(); return nil })
	})
	wait.Wait()
	require.OK(t, c.Do((*driver.Thread).Synchronize))
	l.Fail("cuCtxSetCurrent", 1, 801)
	var call *driver.CallError
	if err := c.Do((*driver.Thread).Synchronize); !errors.As(err, &call) || call.Call != "cuCtxSetCurrent" {
		t.Errorf("a context that cannot be made current: %v", err)
	}
	require.OK(t, c.Do((*driver.Thread).Synchronize))
}

func TestCloseWaitsForCalls(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	l := shim.OpenFiles(t, testKernels)
	c := require.Get(driver.Open(l, 0))(t)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if err := c.Do((*driver.Thread).Synchronize); err != nil && !errors.Is(err, driver.ErrClosed) {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if err := c.Do((*driver.Thread).Synchronize); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestPanicReachesTheCaller(t *testing.T) {
	_, c := open(t)
	func() {
		defer func() {
			if p := recover(); p != "mine" {
				t.Errorf("recovered %v", p)
			}
		}()
		c.Do(func(*driver.Thread) error { panic("mine") })
	}()
	if err := c.Do((*driver.Thread).Synchronize); err != nil {
		t.Errorf("after a panic: %v", err)
	}
}

func TestRangesOfPinnedMemory(t *testing.T) {
	_, c := open(t)
	err := c.Do(func(th *driver.Thread) error {
		h, err := th.AllocHost(16)
		if err != nil {
			return err
		}
		p, err := th.Alloc(64)
		if err != nil {
			return err
		}
		for _, bad := range [][2]int{{-4, 4}, {0, 17}, {16, 1}} {
			if th.UploadAsync(p, h, bad[0], bad[1], 0) == nil || th.DownloadAsync(h, bad[0], p, bad[1], 0) == nil {
				t.Errorf("bytes %d+%d of 16 are copied", bad[0], bad[1])
			}
		}
		for _, bad := range [][2]int{{-4, 1}, {2, 1}, {0, 5}, {4, 4}} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("a view of %d floats at %d of 16 bytes", bad[1], bad[0])
					}
				}()
				driver.HostSlice[float32](h, bad[0], bad[1])
			}()
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
