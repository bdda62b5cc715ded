//go:build linux && (amd64 || arm64)

package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/images"
	"github.com/gpc-engine/gpc/kernels/ptx/device"
)

var opened struct {
	sync.Once
	library *Library
	err     error
}

// Open builds the shim from every kernel of the module that the test is run in, and
// the engine's, opens it and resets it. It is for what no device does on demand, faults
// and other answers of the driver; with GPC_TEST_GPU=1 such a test is skipped. Every other
// is run on Device.
// Where there is no compiler the test is skipped, with one line that says so and
// how to install one; with GPC_REQUIRE_SHIM=1 it fails.
func Open(t testing.TB) *Library {
	t.Helper()
	if OnPTX() {
		t.Skip("faults are injected by the host shim alone, GPC_TEST_PTX=1 asks for the interpreter of PTX")
	}
	if OnGPU() {
		t.Skip("faults are injected by the host shim alone, GPC_TEST_GPU=1 asks for a GPU")
	}
	opened.Do(func() { opened.library, opened.err = Make() })
	return answer(t, opened.library, opened.err)
}

// Device is the driver that a test of the kernels runs on: the host shim of Open, or,
// with GPC_TEST_GPU=1, the machine's own, so that the same tests run on a GPU, or, with
// GPC_TEST_PTX=1, the interpreter of the images' PTX (kernels/ptx).
func Device(t testing.TB) driver.Driver {
	t.Helper()
	if OnPTX() {
		return interpreter(t)
	}
	if !OnGPU() {
		return Open(t)
	}
	d, err := driver.Find("")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// OnGPU tells that tests run on a GPU; those that need the shim are skipped then.
func OnGPU() bool { return os.Getenv("GPC_TEST_GPU") == "1" }

// OnPTX tells that tests run on the interpreter of PTX.
func OnPTX() bool { return os.Getenv("GPC_TEST_PTX") == "1" }

// interpreter makes a device that checks what GPC_TEST_PTX_CHECK names, "shared,global" where
// it is empty; "lanes" and "seed=N" set the order of lanes. What it finds fails the test.
// The names of the kernels that the test launched are appended to the file that
// GPC_TEST_PTX_EXECUTED names, a line each.
func interpreter(t testing.TB) driver.Driver {
	t.Helper()
	checks := os.Getenv("GPC_TEST_PTX_CHECK")
	if checks == "" {
		checks = "shared,global"
	}
	o, err := device.ParseOptions(checks)
	if err != nil {
		t.Fatalf("GPC_TEST_PTX_CHECK: %v", err)
	}
	d := device.New(o)
	if path := os.Getenv("GPC_TEST_PTX_EXECUTED"); path != "" {
		t.Cleanup(func() {
			var names strings.Builder
			for _, c := range d.Counts() {
				names.WriteString(c.Kernel + "\n")
			}
			f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			if err == nil {
				_, err = f.WriteString(names.String())
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Errorf("GPC_TEST_PTX_EXECUTED: %v", err)
			}
		})
	}
	return d
}

// SetOrder is Library.SetOrder where the driver is the shim, metered or not; a GPU has an
// order of its own, another at every run.
func SetOrder(d driver.Driver, order uint64) {
	if m, ok := d.(*Metered); ok {
		d = m.Driver
	}
	switch l := d.(type) {
	case *Library:
		l.SetOrder(order)
	case *device.Device:
		l.SetSeed(order)
	}
}

// OpenFiles is Open with the given kernels, by their paths in the module, instead of
// all of the module's.
func OpenFiles(t testing.TB, sources ...string) *Library {
	t.Helper()
	l, err := Make(sources...)
	return answer(t, l, err)
}

// Make builds and loads a library of the given kernels, by their paths in the module of
// the working directory; without any, of all of the module's and the engine's.
func Make(sources ...string) (*Library, error) {
	m, err := images.Find(".")
	if err != nil {
		return nil, err
	}
	if sources == nil {
		if sources, err = Sources(m); err != nil {
			return nil, err
		}
	}
	for i, s := range sources {
		if !filepath.IsAbs(s) {
			sources[i] = filepath.Join(m.Root, s)
		}
	}
	path, err := Build(m, sources)
	if err != nil {
		return nil, err
	}
	return Load(path)
}

var notice sync.Once

func answer(t testing.TB, l *Library, err error) *Library {
	t.Helper()
	var missing *NoCompilerError
	switch {
	case errors.As(err, &missing) && os.Getenv("GPC_REQUIRE_SHIM") != "1":
		notice.Do(func() { fmt.Fprintf(os.Stderr, "the CUDA path was not tested: %v\n", err) })
		t.Skipf("the CUDA path was not tested: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	l.Reset()
	if text := os.Getenv("GPC_SHIM_ORDER"); text != "" {
		order, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("GPC_SHIM_ORDER=%q: want a number, see Library.SetOrder", text)
		}
		l.SetOrder(order)
	}
	t.Cleanup(l.Reset)
	return l
}
