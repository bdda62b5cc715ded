//go:build !amd64 || purego

package neighbours

// availableKernels lists what this CPU and build can run, widest last.
func availableKernels() []kernels { return []kernels{genericKernels} }
