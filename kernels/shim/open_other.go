//go:build !(linux && (amd64 || arm64))

package shim

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/gpc-engine/gpc/kernels/driver"
)

// Library is none here.
type Library struct{ driver.Driver }

// Make has nothing to make: the host shim is built on Linux only.
func Make(...string) (*Library, error) {
	return nil, errors.New("the host shim is built on Linux only")
}

// Device skips the test: the host shim is built on Linux only. With GPC_REQUIRE_SHIM=1
// in the environment it fails.
func Device(t testing.TB) driver.Driver {
	t.Helper()
	fail := t.Skipf
	if os.Getenv("GPC_REQUIRE_SHIM") == "1" {
		fail = t.Fatalf
	}
	fail("the CUDA path was not tested: the host shim is built on Linux, not on %s/%s", runtime.GOOS, runtime.GOARCH)
	return nil
}
