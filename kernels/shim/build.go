package shim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/gpc-engine/gpc/kernels/images"
)

// NoCompilerError says that no C++20 compiler was found.
type NoCompilerError struct{ Tried []string }

func (e *NoCompilerError) Error() string {
	return fmt.Sprintf("no C++20 compiler (tried %s): install one, on Debian apt-get install g++, or set CXX", strings.Join(e.Tried, ", "))
}

// Compiler finds a C++20 compiler: $CXX, g++ or clang++. version is its first line
// of --version. None is a *NoCompilerError.
func Compiler() (path, version string, err error) {
	commands := []string{"g++", "clang++"}
	if cxx := os.Getenv("CXX"); cxx != "" {
		commands = []string{cxx}
	}
	for _, name := range commands {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		probe := exec.Command(path, "-std=c++20", "-fsyntax-only", "-x", "c++", "-")
		probe.Stdin = strings.NewReader("#include <tuple>\n")
		if probe.Run() != nil {
			continue
		}
		out, err := exec.Command(path, "--version").Output()
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(string(out), "\n")
		return path, first, nil
	}
	return "", "", &NoCompilerError{Tried: commands}
}

// Sources lists what a module's tests run: its own kernels, and those of the engine.
func Sources(m images.Module) ([]string, error) {
	folders, err := m.Folders()
	if err != nil {
		return nil, err
	}
	sources, err := m.Sources(folders...)
	if err != nil || m.Root == m.Engine {
		return sources, err
	}
	engine, err := images.Module{Root: m.Engine}.Sources("kernels")
	return append(sources, engine...), err
}

// keep is how long a compiled file that nobody used stays in the cache.
const keep = 14 * 24 * time.Hour

// Build compiles the given kernels with the shim, each apart and at most two at a
// time, and links them to one library. Everything is cached in the user's cache
// folder by the hash of what it is made from. A *NoCompilerError says that there
// is no compiler; a kernel that does not compile gives the compiler's own words.
func Build(m images.Module, sources []string) (library string, err error) {
	return build(m, sources, append(slices.Clone(host), "test.cpp"))
}

// StandIn is Build without what only tests see: a program that opens the library takes it
// for a GPU's driver. It loads the images that it would load there, of which the library
// runs the kernels of the same names, and GPC_SHIM_ATTRIBUTES ("16=132,75=9") in its
// environment makes the device another by numbers of CUdevice_attribute.
func StandIn(m images.Module, sources []string) (library string, err error) {
	return build(m, sources, host)
}

// host is the shim's own half of a library.
var host = []string{"access.cpp", "block.cpp", "cuda.cpp", "streams.cpp"}

func build(m images.Module, sources, engine []string) (library string, err error) {
	compiler, version, err := Compiler()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	b := builder{compiler: compiler, version: version, root: m.Engine, cache: filepath.Join(cache, "gpc", "shim")}
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := lockFile(filepath.Join(b.cache, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	b.clean()
	all := slices.Clone(sources)
	for _, name := range engine {
		all = append(all, filepath.Join(b.root, "kernels/shim/host", name))
	}
	static, err := b.staticShared(m)
	if err != nil {
		return "", err
	}
	return b.build(append(all, static))
}

// units are those of staticShared by module, whose images a process reads once.
var units sync.Map

// staticShared writes a unit that tells the shim the static shared memory of every kernel
// with an image, which the host's compiler does not tell.
func (b *builder) staticShared(m images.Module) (unit string, err error) {
	if cached, ok := units.Load(m); ok {
		return cached.(string), nil
	}
	folders, err := m.Folders()
	if err != nil {
		return "", err
	}
	for i, f := range folders {
		folders[i] = m.Images(f)
	}
	if m.Root != m.Engine {
		folders = append(folders, images.Module{Root: m.Engine, Engine: m.Engine}.Images("kernels"))
	}
	all := map[string]int{}
	for _, folder := range folders {
		static, err := staticShared(folder) // of kernels whose images are still to be compiled, none
		if err != nil {
			return "", err
		}
		maps.Copy(all, static)
	}
	var text strings.Builder
	text.WriteString("#include \"device.h\"\nnamespace gpc_shim {\nconst std::map<std::string, int> static_shared = {\n")
	for _, kernel := range slices.Sorted(maps.Keys(all)) {
		if all[kernel] > 0 {
			fmt.Fprintf(&text, "{\"%s\", %d},\n", kernel, all[kernel])
		}
	}
	text.WriteString("};\n}\n")
	hash := sha256.Sum256([]byte(text.String()))
	unit = filepath.Join(b.cache, "static-"+sum(hash[:])+".cpp")
	if err := os.WriteFile(unit, []byte(text.String()), 0o644); err != nil {
		return "", err
	}
	units.Store(m, unit)
	return unit, nil
}

type builder struct {
	compiler, version, root, cache string // root: of the engine
}

func (b *builder) flags(kernel bool) []string {
	flags := []string{"-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-strict-aliasing",
		"-Wno-unknown-pragmas", "-DGPC_SHIM", "-I", "kernels/include", "-I", "kernels/shim/host"}
	// Without these a fused multiply-add is a call of the C library.
	if runtime.GOARCH == "amd64" && cpuid.CPU.Supports(cpuid.FMA3, cpuid.AVX2) {
		flags = append(flags, "-mfma", "-mavx2")
	}
	if os.Getenv("GPC_SHIM_CHECK") == "1" {
		flags = append(flags, "-DGPC_SHIM_RECORD")
		if kernel { // host/access.cpp answers the calls of the latter
			flags = append(flags, "-fsanitize=alignment,bounds,thread")
		}
	}
	return flags
}

func (b *builder) build(units []string) (string, error) {
	objects := make([]string, len(units))
	failures := make([]error, len(units))
	slots := make(chan struct{}, 2)
	var wait sync.WaitGroup
	for i, unit := range units {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			objects[i], failures[i] = b.objectFile(unit)
		})
	}
	wait.Wait()
	if err := errors.Join(failures...); err != nil {
		return "", err
	}
	h := sha256.New()
	for _, o := range objects {
		fmt.Fprintln(h, filepath.Base(o))
	}
	library := filepath.Join(b.cache, "gpcshim-"+sum(h.Sum(nil))+".so")
	return library, b.compile(library, append([]string{"-shared"}, objects...))
}

func (b *builder) objectFile(source string) (string, error) {
	files, err := images.Text(source, filepath.Join(b.root, "kernels/include"), filepath.Join(b.root, "kernels/shim/host"))
	if err != nil {
		return "", err
	}
	flags := b.flags(filepath.Ext(source) == ".cu")
	h := sha256.New()
	fmt.Fprintln(h, b.version, flags)
	for _, f := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintln(h, filepath.Base(f), len(files[f]))
		h.Write(files[f])
	}
	name := strings.TrimSuffix(filepath.Base(source), filepath.Ext(source))
	object := filepath.Join(b.cache, name+"-"+sum(h.Sum(nil))+".o")
	if rel, err := filepath.Rel(b.root, source); err == nil && filepath.IsLocal(rel) {
		source = rel // what the compiler notes of the path is then the same in every checkout
	}
	return object, b.compile(object, append(flags, "-x", "c++", "-c", source))
}

// compile runs the compiler unless its output is there already.
func (b *builder) compile(output string, arguments []string) error {
	now := time.Now()
	if os.Chtimes(output, now, now) == nil {
		return nil
	}
	partial := output + ".tmp"
	cmd := exec.Command(b.compiler, append(arguments, "-o", partial)...)
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return os.Rename(partial, output)
}

// clean removes what was not used for a while.
func (b *builder) clean() {
	_ = filepath.WalkDir(b.cache, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(path) == "lock" {
			return nil
		}
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > keep {
			os.Remove(path)
		}
		return nil
	})
}

func sum(b []byte) string { return hex.EncodeToString(b[:12]) }
