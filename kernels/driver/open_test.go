//go:build linux && (amd64 || arm64)

package driver_test

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
)

const testKernels = "kernels/shim/testdata/sum.cu"

func TestLoadSaysWhatIsMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	_, err := driver.Load(path)
	var library *driver.LibraryError
	if !errors.As(err, &library) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "install NVIDIA's driver") {
		t.Errorf("a missing library: %v", err)
	}
	_, err = driver.Load("libm.so.6")
	var symbol *driver.SymbolError
	if !errors.As(err, &symbol) || !strings.Contains(err.Error(), "update it") {
		t.Errorf("a library that is no driver: %v", err)
	}
}

func TestInitialisationErrors(t *testing.T) {
	l := shim.OpenFiles(t, testKernels)
	l.Fail("cuInit", 1, 100)
	var device *driver.DeviceError
	if _, err := driver.Load(l.Library()); !errors.As(err, &device) || !strings.Contains(err.Error(), "CUDA_VISIBLE_DEVICES") {
		t.Errorf("no device: %v", err)
	}
	l.Fail("cuInit", 1, 803)
	var call *driver.CallError
	if _, err := driver.Load(l.Library()); !errors.As(err, &call) || call.Code != 803 || call.Call != "cuInit" {
		t.Errorf("cuInit with 803: %v", err)
	}
}

// A driver is looked for where containers and distributions put it, too.
func TestWhereADriverIsLookedFor(t *testing.T) {
	_, err := driver.Load("")
	if err == nil {
		return // this machine has one
	}
	var library *driver.LibraryError
	if !errors.As(err, &library) {
		t.Skipf("this machine has a driver that does not start: %v", err)
	}
	folder := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	for _, want := range []string{"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/" + folder + "/libcuda.so.1"} {
		if !slices.Contains(library.Tried, want) {
			t.Errorf("%s is not tried: %q", want, library.Tried)
		}
	}
}

// Errors of the machine say what to do, wherever they come from; those after which the
// process cannot use the device end the context.
func TestErrorsOfTheMachineSayWhatToDo(t *testing.T) {
	l := shim.OpenFiles(t, testKernels)
	for code, want := range map[int]string{802: "nvidia-fabricmanager", 803: "reboot", 804: "LD_LIBRARY_PATH", 226: "start it again", 721: "start it again"} {
		l.Fail("cuInit", 1, code)
		var call *driver.CallError
		if _, err := driver.Load(l.Library()); !errors.As(err, &call) || call.Code != code || !strings.Contains(err.Error(), want) {
			t.Errorf("cuInit with %d: %v, want advice with %q", code, err, want)
		}
	}
	l.Fail("cuInit", 1, 34) // the toolkit's library to link with: another is looked for
	var library *driver.LibraryError
	if _, err := driver.Load(l.Library()); !errors.As(err, &library) || !strings.Contains(err.Error(), "the driver's own libcuda.so.1") {
		t.Errorf("a library to link with: %v", err)
	}
	for _, code := range []int{226, 721} {
		l.Reset()
		c := require.Get(driver.Open(l, 0))(t)
		l.Fail("cuCtxSynchronize", 1, code)
		var lost *driver.LostError
		if err := c.Do((*driver.Thread).Synchronize); !errors.As(err, &lost) || !strings.Contains(err.Error(), "start it again") || c.Lost() == nil {
			t.Errorf("error %d: %v, want a *LostError that says to start again", code, err)
		}
		require.OK(t, c.Close())
	}
}

func TestOpenRefusesWhatCannotRun(t *testing.T) {
	l := shim.OpenFiles(t, testKernels)
	refuse := func(name string, ordinal int, target any, want string) {
		t.Helper()
		c, err := driver.Open(l, ordinal)
		if err == nil {
			c.Close()
			t.Errorf("%s: opened", name)
		} else if !errors.As(err, target) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want a %T with %q", name, err, target, want)
		}
		l.Reset()
	}
	l.SetAttribute(shim.DriverVersion, 11080)
	refuse("an old driver", 0, new(*driver.VersionError), "supports CUDA 11.8, the kernels need 12.2")
	l.SetAttribute(shim.DeviceCount, 0)
	refuse("no device", 0, new(*driver.DeviceError), "nvidia-smi -L")
	refuse("a device that is not there", 3, new(*driver.DeviceError), "no CUDA device 3")
	refuse("a negative device", -1, new(*driver.DeviceError), "")
	l.SetAttribute(75, 7)
	l.SetAttribute(76, 5)
	refuse("an old device", 0, new(*driver.CapabilityError), "compute capability 7.5")
	for _, symbol := range []string{"cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
		"cuDeviceTotalMem_v2", "cuDeviceGetAttribute", "cuCtxCreate_v2"} {
		l.Fail(symbol, 1, 999)
		refuse(symbol, 0, new(*driver.CallError), "CUDA_ERROR_UNKNOWN")
	}
}

func TestDevices(t *testing.T) {
	l := shim.OpenFiles(t, testKernels)
	l.SetAttribute(shim.DeviceCount, 2)
	devices, err := driver.Devices(l)
	if err != nil || len(devices) != 2 {
		t.Fatalf("%d devices, %v", len(devices), err)
	}
	d := devices[1]
	if d.Ordinal != 1 || d.Name != "gpc host shim" || d.ISA() != "sm_80" || d.Memory != 1<<30 || d.SharedPerBlock != 166912 || d.Usable() != nil {
		t.Errorf("%+v", d)
	}
	// Newer drivers no longer tell clocks.
	l.Fail("cuDeviceGetAttribute", 6, 1)
	if devices, err = driver.Devices(l); err != nil || devices[0].ClockKHz != 0 || devices[1].ClockKHz == 0 {
		t.Errorf("without a clock: %+v, %v", devices, err)
	}
}
