//go:build unix

package nvrtc

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Compiler is an open library.
type Compiler struct {
	Library                                       string // its file, or the name by which the loader found it
	Major, Minor                                  int
	createProgram, compileProgram, destroyProgram uintptr
	logSize, log, ptxSize, ptx, cubinSize, cubin  uintptr
	architectureCount, architectures              uintptr // 0 where the library does not have them
}

// Find opens the library that the environment's GPC_NVRTC names, or else one that the loader, a CUDA toolkit or Python's packages have. driver is the
// CUDA version of the driver that is to load what it compiles, 12020 for 12.2, and 0 where none is: the first library that is not newer
// is taken, else one of the same major version, whose cubins the driver loads. Without any it is a *MissingError, with newer ones alone a
// *NewerError.
func Find(driver int) (*Compiler, error) {
	if path := os.Getenv(Variable); path != "" {
		return Open(path)
	}
	candidates := append(slices.Clone(names), machine{os.Getenv, "/"}.libraries()...)
	var compatible *Compiler
	var newer error
	for _, name := range candidates {
		c, err := Open(name)
		switch {
		case errors.As(err, new(*MissingError)):
		case err != nil:
			return nil, err
		case driver == 0 || c.version() <= driver:
			return c, nil
		case c.Major == driver/1000 && compatible == nil:
			compatible = c
		case newer == nil:
			newer = &NewerError{c.Library, c.Major, c.Minor, driver}
		}
	}
	switch {
	case compatible != nil:
		return compatible, nil
	case newer != nil:
		return nil, newer
	}
	return nil, &MissingError{Tried: append(candidates, "CUDA toolkits", "Python's packages")}
}

// version is that of CUDA, as a driver counts it.
func (c *Compiler) version() int { return 1000*c.Major + 10*c.Minor }

// Older reports whether a driver of that CUDA version is older than the compiler: it does not take its PTX.
func (c *Compiler) Older(driver int) bool { return driver > 0 && c.version() > driver }

// Architectures are the compute capabilities that it compiles for, 90 for 9.0, ascending; nil where it does not say.
func (c *Compiler) Architectures() []int {
	if c.architectureCount == 0 || c.architectures == 0 {
		return nil
	}
	var n int32
	if r, _, _ := purego.SyscallN(c.architectureCount, uintptr(unsafe.Pointer(&n))); r != 0 || n < 1 {
		return nil
	}
	list := make([]int32, n)
	if r, _, _ := purego.SyscallN(c.architectures, uintptr(unsafe.Pointer(&list[0]))); r != 0 {
		return nil
	}
	out := make([]int, n)
	for i, v := range list {
		out[i] = int(v)
	}
	return out
}

// Open opens a library, by its file or by a name that the loader finds. One that is not there is a *MissingError.
func Open(library string) (*Compiler, error) {
	if filepath.Base(library) != library {
		// The compiler finds its built-in headers only if they are loaded.
		builtins, err := filepath.Glob(filepath.Join(filepath.Dir(library), "libnvrtc-builtins.so.*"))
		if err != nil {
			return nil, err
		}
		for _, b := range builtins {
			if _, err := purego.Dlopen(b, purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
				return nil, &MissingError{Tried: []string{b}, Cause: err}
			}
		}
	}
	h, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, &MissingError{Tried: []string{library}, Cause: err}
	}
	c := &Compiler{Library: library}
	var version uintptr
	for name, entry := range map[string]*uintptr{
		"nvrtcVersion": &version, "nvrtcCreateProgram": &c.createProgram, "nvrtcCompileProgram": &c.compileProgram,
		"nvrtcDestroyProgram": &c.destroyProgram, "nvrtcGetProgramLogSize": &c.logSize, "nvrtcGetProgramLog": &c.log,
		"nvrtcGetPTXSize": &c.ptxSize, "nvrtcGetPTX": &c.ptx, "nvrtcGetCUBINSize": &c.cubinSize, "nvrtcGetCUBIN": &c.cubin,
	} {
		if *entry, err = purego.Dlsym(h, name); err != nil {
			return nil, fmt.Errorf("%s: %w", library, err)
		}
	}
	for name, entry := range map[string]*uintptr{"nvrtcGetNumSupportedArchs": &c.architectureCount, "nvrtcGetSupportedArchs": &c.architectures} {
		if symbol, err := purego.Dlsym(h, name); err == nil {
			*entry = symbol
		}
	}
	var major, minor int32
	purego.SyscallN(version, uintptr(unsafe.Pointer(&major)), uintptr(unsafe.Pointer(&minor)))
	c.Major, c.Minor = int(major), int(minor)
	return c, nil
}

// texts are strings of C, kept as long as the list.
func texts(list []string) []*byte {
	pointers := make([]*byte, len(list))
	for i, s := range list {
		pointers[i] = &append([]byte(s), 0)[0]
	}
	return pointers
}

// first is the address of a list's first element, 0 for none.
func first(list []*byte) uintptr {
	if len(list) == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(&list[0]))
}

// Compile gives the image of a source, and what the compiler said: PTX, or a cubin where the flags name a real
// architecture and ptx is false. name is what errors call the source; headers are those that it may include by their names, beside what
// the flags say.
func (c *Compiler) Compile(name string, source []byte, headers map[string]string, flags []string, ptx bool) (image []byte, messages string, err error) {
	names := slices.Sorted(maps.Keys(headers))
	var contents []string
	for _, n := range names {
		contents = append(contents, headers[n])
	}
	main, include, text := texts([]string{string(source), name}), texts(names), texts(contents)
	var program uintptr
	if r, _, _ := purego.SyscallN(c.createProgram, uintptr(unsafe.Pointer(&program)), uintptr(unsafe.Pointer(main[0])),
		uintptr(unsafe.Pointer(main[1])), uintptr(len(names)), first(text), first(include)); r != 0 {
		return nil, "", fmt.Errorf("%s: nvrtcCreateProgram: error %d", name, r)
	}
	runtime.KeepAlive([][]*byte{main, include, text})
	defer func() { purego.SyscallN(c.destroyProgram, uintptr(unsafe.Pointer(&program))) }()
	options := texts(flags)
	r, _, _ := purego.SyscallN(c.compileProgram, program, uintptr(len(options)), first(options))
	runtime.KeepAlive(options)
	log, err := c.get(program, c.logSize, c.log)
	if err != nil {
		return nil, "", err
	}
	messages = strings.TrimRight(string(log), "\x00\n")
	if r != 0 {
		return nil, messages, fmt.Errorf("%s does not compile:\n%s", name, messages)
	}
	if ptx {
		image, err = c.get(program, c.ptxSize, c.ptx)
		return []byte(strings.TrimRight(string(image), "\x00")), messages, err
	}
	image, err = c.get(program, c.cubinSize, c.cubin)
	return image, messages, err
}

func (c *Compiler) get(program, size, read uintptr) ([]byte, error) {
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
