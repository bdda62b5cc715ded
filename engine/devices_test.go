package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/shim"
)

// What contradicts itself, and what is not there, is refused by name under every backend.
func TestDevicesThatCannotBe(t *testing.T) {
	d := onDevice(t)
	count := require.Get(d.DeviceCount())(t)
	absent := fmt.Sprintf("no CUDA device %d", count)
	for _, c := range []struct {
		backend string
		devices []int
		says    string
	}{
		{"cuda", []int{0, 0}, "Devices 0,0: device 0 is named twice"},
		{"auto", []int{0, 0}, "Devices 0,0: device 0 is named twice"},
		{"cuda", []int{count}, absent},
		{"auto", []int{count}, absent},
		{"auto", []int{0, count}, absent},
		{"cuda", []int{-1}, "no CUDA device"},
		{"cpu", []int{0}, "Backend cpu with Devices 0: only the CUDA backend has devices"},
		{"ref", []int{0, 1}, "Backend ref with Devices 0,1"},
	} {
		if e, reason, err := Open(Options{Backend: c.backend, Devices: c.devices}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s on %v: %v, %q, %v; want %q", c.backend, c.devices, e, reason, err, c.says)
		}
	}
	d.SetAttribute(driver.Major, 7)
	var old *driver.CapabilityError
	if _, _, err := Open(Options{Devices: []int{0}}); !errors.As(err, &old) {
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
	for _, name := range []string{"auto", "cuda"} {
		var library *driver.LibraryError
		if _, _, err := Open(Options{Backend: name, Devices: []int{1}}); !errors.As(err, &library) || !strings.Contains(err.Error(), "Devices 1: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One device that is asked for is that device, under its own number.
func TestOneDeviceByName(t *testing.T) {
	d := onDevice(t)
	last := require.Get(d.DeviceCount())(t) - 1
	e, reason, err := Open(Options{Backend: "cuda", Devices: []int{last}})
	require.OK(t, err)
	if !strings.Contains(reason, fmt.Sprintf("device %d of %d", last, last+1)) || e.Describe().Devices != 0 {
		t.Errorf("%q, %+v", reason, e.Describe())
	}
	require.OK(t, e.Close())
}

// A device lost in the midst of work on two: under `cuda` it is an error that names it, and
// the next engine has both again; under `auto` the work goes on on the CPU, which is told
// once. Without a loss the results are those of one device.
func TestALostDeviceOfSeveral(t *testing.T) {
	l := onShim(t)
	tasks := map[string]func(backend.Backend) ([]float32, error){
		"work":   work,
		"refine": func(b backend.Backend) ([]float32, error) { return refine(t, b) },
		"search": func(b backend.Backend) ([]float32, error) { return searching(t, b) },
		"loops":  func(b backend.Backend) ([]float32, error) { return navigate(t, b, 33) },
		"study":  func(b backend.Backend) ([]float32, error) { return study(t, b) },
	}
	open := func(name string, devices []int, notice func(string)) Engine {
		t.Helper()
		e, reason, err := Open(Options{Backend: name, Devices: devices, Threads: 1, Notice: notice})
		require.OK(t, err)
		if len(devices) == 2 && !strings.Contains(reason, "devices 1,0 of 2") {
			t.Errorf("reason %q", reason)
		}
		return e
	}
	for name, task := range tasks {
		l.Reset()
		l.SetAttribute(shim.DeviceCount, 2)
		one, two := open("cuda", nil, nil), open("cuda", []int{1, 0}, nil)
		want, got := require.Get(task(one))(t), require.Get(task(two))(t)
		if name == "study" { // whose sums are in the order of the devices
			if err := differ(got, want); err != nil {
				t.Errorf("%s on two devices: %v", name, err)
			}
		} else if !slices.Equal(got, want) {
			t.Errorf("%s on two devices is another", name)
		}
		if d := two.Describe(); d.Devices != 2 || d.Device != "2 × gpc host shim" {
			t.Errorf("%+v", d)
		}
		require.OK(t, errors.Join(one.Close(), two.Close()))
		if n := l.Allocations(); n != 0 {
			t.Errorf("%s: %d allocations outlive the engines", name, n)
		}

		lose := func() { l.FailOn(1, "cuMemcpyHtoDAsync_v2", 2, 700) }
		if name == "study" {
			lose = func() { l.FailOn(1, "cuMemcpyPeerAsync", 3, 700) }
		}
		two = open("cuda", []int{1, 0}, nil)
		lose()
		var lost *driver.LostError
		if _, err := task(two); !errors.As(err, &lost) || !strings.Contains(err.Error(), "device 1: ") {
			t.Errorf("%s, device 1 lost: %v", name, err)
		}
		again := open("cuda", []int{1, 0}, nil)
		if _, err := task(again); err != nil {
			t.Errorf("%s, a new engine behind a loss: %v", name, err)
		}
		_, _ = two.Close(), again.Close()

		var notices []string
		auto := open("auto", []int{1, 0}, func(s string) { notices = append(notices, s) })
		lose()
		got, err := task(auto)
		if err == nil {
			err = differ(got, require.Get(task(cpu(t)))(t))
		}
		if err != nil || len(notices) != 1 || !strings.Contains(notices[0], "goes on on the CPU: ") || !strings.Contains(notices[0], "device 1: ") {
			t.Errorf("%s under auto: %v, notices %q", name, err, notices)
		}
		_ = auto.Close()
	}
}
