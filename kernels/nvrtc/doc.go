// Package nvrtc binds NVIDIA's CUDA C++ compiler as a library, the front end and back end of nvcc without its host half,
// which the kernels have no use for.
//
// The central type is Compiler. It needs neither cgo nor a GPU.
//
// It promises no stability to other modules, which open an engine by package gpc
// (docs/reference/library.md).
package nvrtc

import "strings"

// Variable is the environment's name of the library's file.
const Variable = "GPC_NVRTC"

// libraries are the names of the library, by the loader's search and of CUDA toolkits.
var libraries = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"}

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
