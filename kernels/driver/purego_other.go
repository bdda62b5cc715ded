//go:build !(linux && (amd64 || arm64))

package driver

import (
	"errors"
	"runtime"
)

// Load is a *LibraryError on this platform: the driver is reached on Linux, amd64
// and arm64.
func Load(path string) (Driver, error) {
	return nil, &LibraryError{Tried: []string{path}, Cause: errors.New("no CUDA driver is supported on " + runtime.GOOS + "/" + runtime.GOARCH)}
}
