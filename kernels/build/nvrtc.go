//go:build unix

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/gpc-engine/gpc/kernels/images"
)

// nvrtc is NVIDIA's CUDA C++ compiler as a library, the front end and back end of
// nvcc without its host half, which the kernels have no use for.
type nvrtc struct {
	include                                       string // folder of the headers
	createProgram, compileProgram, destroyProgram uintptr
	logSize, log, ptxSize, ptx, cubinSize, cubin  uintptr
	errorString                                   uintptr
}

// openCompiler opens the library of the compiler's wheel, unpacked in build/nvcc of
// the module or of the engine, and checks its version.
func openCompiler(m images.Module) (*nvrtc, error) {
	var found []string
	pattern := ""
	for _, root := range []string{m.Root, m.Engine} {
		pattern = filepath.Join(root, "build", "nvcc", "nvidia", "cuda_nvrtc", "lib", "libnvrtc")
		var err error
		if found, err = filepath.Glob(pattern + ".so.*"); err != nil {
			return nil, err
		}
		if len(found) > 0 {
			break
		}
	}
	if len(found) == 0 {
		folder := filepath.Join(m.Root, "build", "nvcc")
		return nil, fmt.Errorf("no compiler in %s: run make nvcc, in another module python3 -m pip install --no-deps --target %s %s", folder, folder, wheel)
	}
	// The compiler finds its built-in headers only if they are loaded, or beside it.
	builtins, err := filepath.Glob(pattern + "-builtins.so.*")
	if err != nil {
		return nil, err
	}
	for _, b := range builtins {
		if _, err := purego.Dlopen(b, purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
			return nil, err
		}
	}
	h, err := purego.Dlopen(found[0], purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	c := &nvrtc{include: m.Include()}
	var version uintptr
	for name, into := range map[string]*uintptr{
		"nvrtcVersion": &version, "nvrtcCreateProgram": &c.createProgram, "nvrtcCompileProgram": &c.compileProgram,
		"nvrtcDestroyProgram": &c.destroyProgram, "nvrtcGetProgramLogSize": &c.logSize, "nvrtcGetProgramLog": &c.log,
		"nvrtcGetPTXSize": &c.ptxSize, "nvrtcGetPTX": &c.ptx, "nvrtcGetCUBINSize": &c.cubinSize, "nvrtcGetCUBIN": &c.cubin,
		"nvrtcGetErrorString": &c.errorString,
	} {
		if *into, err = purego.Dlsym(h, name); err != nil {
			return nil, err
		}
	}
	var major, minor int32
	purego.SyscallN(version, uintptr(unsafe.Pointer(&major)), uintptr(unsafe.Pointer(&minor)))
	if got := fmt.Sprintf("NVRTC %d.%d", major, minor); got != images.Compiler {
		return nil, fmt.Errorf("%s is %s, the images are compiled with %s: run make nvcc", found[0], got, images.Compiler)
	}
	return c, nil
}

// compile gives the image of a source for one target, and what the compiler said;
// path is what errors call the source.
func (c *nvrtc) compile(path string, source []byte, target images.Target) (image []byte, said string, err error) {
	text, name := append(append([]byte{}, source...), 0), append([]byte(path), 0)
	var program uintptr
	if r, _, _ := purego.SyscallN(c.createProgram, uintptr(unsafe.Pointer(&program)), uintptr(unsafe.Pointer(&text[0])),
		uintptr(unsafe.Pointer(&name[0])), 0, 0, 0); r != 0 {
		return nil, "", fmt.Errorf("%s: nvrtcCreateProgram: error %d", path, r)
	}
	defer func() { purego.SyscallN(c.destroyProgram, uintptr(unsafe.Pointer(&program))) }()
	flags := make([]*byte, len(target.Flags))
	for i, f := range target.Flags {
		flags[i] = &append([]byte(strings.Replace(f, "kernels/include", c.include, 1)), 0)[0]
	}
	r, _, _ := purego.SyscallN(c.compileProgram, program, uintptr(len(flags)), uintptr(unsafe.Pointer(&flags[0])))
	log, err := c.get(program, c.logSize, c.log)
	if err != nil {
		return nil, "", err
	}
	said = strings.TrimRight(string(log), "\x00\n")
	if r != 0 {
		return nil, said, fmt.Errorf("%s does not compile to %s:\n%s", path, target.Name, said)
	}
	if strings.HasSuffix(target.Name, ".ptx") {
		ptx, err := c.get(program, c.ptxSize, c.ptx)
		return []byte(strings.TrimRight(string(ptx), "\x00")), said, err
	}
	image, err = c.get(program, c.cubinSize, c.cubin)
	return image, said, err
}

func (c *nvrtc) get(program, size, read uintptr) ([]byte, error) {
	var n uintptr
	if r, _, _ := purego.SyscallN(size, program, uintptr(unsafe.Pointer(&n))); r != 0 || n == 0 {
		return nil, fmt.Errorf("the compiler gives no output: error %d", r)
	}
	out := make([]byte, n)
	if r, _, _ := purego.SyscallN(read, program, uintptr(unsafe.Pointer(&out[0]))); r != 0 {
		return nil, fmt.Errorf("the compiler gives no output: error %d", r)
	}
	return out, nil
}
