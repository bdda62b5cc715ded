//go:build linux && (amd64 || arm64)

package driver_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

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
