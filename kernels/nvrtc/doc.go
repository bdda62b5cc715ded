// Package nvrtc binds NVIDIA's CUDA C++ compiler as a library, the front end and back end of nvcc without its host half,
// which the kernels have no use for. It finds the library where a CUDA toolkit or a package of Python has put it.
//
// The central type is Compiler. It needs neither cgo nor a GPU, and runs no Python.
//
// It promises no stability to other modules, which open an engine by package gpc
// (docs/reference/library.md).
package nvrtc

import (
	"fmt"
	"strings"
)

// Variable is the environment's name of the library's file.
const Variable = "GPC_NVRTC"

// names are those that the loader is asked for.
var names = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}

// MissingError says that no library was found.
type MissingError struct {
	Tried []string
	Cause error
}

func (e *MissingError) Error() string {
	return "no CUDA compiler (tried " + strings.Join(e.Tried, ", ") + "): install a CUDA toolkit or the Python package nvidia-cuda-nvrtc-cu12, or set " +
		Variable + " to the file of its libnvrtc"
}

func (e *MissingError) Unwrap() error { return e.Cause }

// NewerError says that the libraries that were found compile for newer drivers only.
type NewerError struct {
	Library      string
	Major, Minor int
	Driver       int // CUDA version of the driver, 12020 for 12.2
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s is NVRTC %d.%d, and the driver loads what compilers up to CUDA %d.%d make: update the driver, or install that version of the Python package nvidia-cuda-nvrtc, -cu12 of CUDA 12",
		e.Library, e.Major, e.Minor, e.Driver/1000, e.Driver%1000/10)
}
