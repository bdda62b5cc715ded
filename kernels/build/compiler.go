package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/kernels/images"
	"github.com/gpc-engine/gpc/kernels/nvrtc"
)

// wheel is the compiler's package on PyPI.
const wheel = "nvidia-cuda-nvrtc-cu12==12.2.140"

// openCompiler opens the library of the compiler's wheel, unpacked in build/nvcc of
// the module or of the engine, and checks its version.
func openCompiler(m images.Module) (*nvrtc.Compiler, error) {
	var libraries []string
	for _, root := range []string{m.Root, m.Engine} {
		var err error
		if libraries, err = filepath.Glob(filepath.Join(root, "build", "nvcc", "nvidia", "cuda_nvrtc", "lib", "libnvrtc.so.*")); err != nil {
			return nil, err
		}
		if len(libraries) > 0 {
			break
		}
	}
	if len(libraries) == 0 {
		folder := filepath.Join(m.Root, "build", "nvcc")
		return nil, fmt.Errorf("no compiler in %s: run make nvcc, in another module python3 -m pip install --no-deps --target %s %s", folder, folder, wheel)
	}
	c, err := nvrtc.Open(libraries[0])
	if err != nil {
		return nil, err
	}
	if version := fmt.Sprintf("NVRTC %d.%d", c.Major, c.Minor); version != images.Compiler {
		return nil, fmt.Errorf("%s is %s, the images are compiled with %s: run make nvcc", libraries[0], version, images.Compiler)
	}
	return c, nil
}

// compileFor gives the image of a source for one target, and what the compiler said;
// path is what errors call the source.
func compileFor(c *nvrtc.Compiler, m images.Module, path string, source []byte, target images.Target) (image []byte, messages string, err error) {
	flags := slices.Clone(target.Flags)
	for i, f := range flags {
		flags[i] = strings.Replace(f, "kernels/include", m.Include(), 1)
	}
	image, messages, err = c.Compile(path, source, nil, flags, strings.HasSuffix(target.Name, ".ptx"))
	if err != nil {
		err = fmt.Errorf("to %s: %w", target.Name, err)
	}
	return image, messages, err
}
