//go:build gorgoniacu && linux && (amd64 || arm64)

package shim

import "github.com/gpc-engine/gpc/kernels/driver"

// find gives the driver that the tests are linked with, which lab/run test-cu
// makes a shim of every kernel, those of testdata included.
func find(string) (driver.Driver, string, error) {
	d, err := driver.Find("")
	return d, "libcuda.so.1", err
}
