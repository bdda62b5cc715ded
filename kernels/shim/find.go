//go:build !gorgoniacu && linux && (amd64 || arm64)

package shim

import "github.com/gpc-engine/gpc/kernels/driver"

// find opens a library that Build made, and gives the path under which its own
// symbols are found.
func find(path string) (driver.Driver, string, error) {
	d, err := driver.Load(path)
	return d, path, err
}
