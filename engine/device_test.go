package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
)

// What contradicts itself, and what is not there, is refused by name under every backend.
func TestDevicesThatCannotBe(t *testing.T) {
	d := onDevice(t)
	count := require.Get(d.DeviceCount())(t)
	absent := fmt.Sprintf("no CUDA device %d", count)
	for _, c := range []struct {
		backend string
		device  int
		says    string
	}{
		{"cuda", count, absent},
		{"auto", count, absent},
		{"cuda", -1, "no CUDA device"},
		{"cpu", 0, "Backend cpu with Device 0: only the CUDA backend has devices"},
		{"ref", 1, "Backend ref with Device 1"},
	} {
		if e, reason, err := Open(Options{Backend: c.backend, Device: &c.device}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s on %v: %v, %q, %v; want %q", c.backend, c.device, e, reason, err, c.says)
		}
	}
	d.SetAttribute(driver.Major, 7)
	var old *driver.CapabilityError
	if _, _, err := Open(Options{Device: new(int)}); !errors.As(err, &old) {
		t.Errorf("an old device that was asked for: %v", err)
	}
	if n := d.Allocations(); n != 0 {
		t.Errorf("%d allocations outlive what was refused", n)
	}
}

// Asked for by name, a driver that is not there is no reason to compute elsewhere.
func TestDevicesWithoutADriver(t *testing.T) {
	before := findDriver
	defer func() { findDriver = before }()
	findDriver = func() (driver.Driver, error) { return nil, &driver.LibraryError{Tried: []string{"libcuda.so.1"}} }
	one := 1
	for _, name := range []string{"auto", "cuda"} {
		var library *driver.LibraryError
		if _, _, err := Open(Options{Backend: name, Device: &one}); !errors.As(err, &library) || !strings.Contains(err.Error(), "Device 1: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One device that is asked for is that device, under its own number.
func TestOneDeviceByName(t *testing.T) {
	d := onDevice(t)
	last := require.Get(d.DeviceCount())(t) - 1
	e, reason, err := Open(Options{Backend: "cuda", Device: &last})
	require.OK(t, err)
	if !strings.Contains(reason, fmt.Sprintf("device %d of %d", last, last+1)) {
		t.Errorf("%q, %+v", reason, e.Describe())
	}
	require.OK(t, e.Close())
}
