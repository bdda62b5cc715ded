// Command build compiles the kernels of a Go module: this one, or any that requires it.
//
//	build compile [DIR]  every .cu whose source, headers or flags changed, to PTX and cubin
//	build verify [DIR]   compile everything again and compare with what is committed
//	build check [DIR]    compare hashes only: says which images are stale
//	build usage [DIR]    registers, spills and shared memory of every kernel on sm_90, as the assembler tells them
//	build image S T      one source for one target, to standard output, from the root: a process of its own for each
//	build shim           the host shim of the tests; without a C++ compiler one line says so
//	build shim F         the host shim with the kernels of its own tests too, copied to F
//
// The module is the one that DIR lies in, at first the working directory. All but
// check and shim need the compiler, whose wheel lies in build/nvcc of the module
// or of this one (make nvcc).
//
// The commands are promised to other modules, the names in this package are not
// (docs/reference/library.md).
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/kernels/images"
	"github.com/gpc-engine/gpc/kernels/shim"
)

// atOnce is the number of sources that are compiled side by side.
const atOnce = 2

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 3 && arguments[0] == "image" {
		return writeImage(arguments[1], arguments[2])
	}
	if len(arguments) != 1 && len(arguments) != 2 {
		return errors.New("usage: build compile|verify|check|usage [DIR], build shim [FILE]")
	}
	dir, copies := ".", arguments[1:]
	if arguments[0] == "shim" {
		for i, file := range copies {
			var err error
			if copies[i], err = filepath.Abs(file); err != nil {
				return err
			}
		}
	} else if len(copies) > 0 {
		dir = copies[0]
	}
	m, err := images.Find(dir)
	if err != nil {
		return err
	}
	// The compiler calls a source, and errors name it, by its path from the root.
	if err := os.Chdir(m.Root); err != nil {
		return err
	}
	switch arguments[0] {
	case "compile":
		return compileAll(m, false)
	case "verify":
		if err := m.Check(); err != nil {
			return err
		}
		return compileAll(m, true)
	case "check":
		return m.Check()
	case "usage":
		return usage(m)
	case "shim":
		return buildShim(m, copies)
	}
	return fmt.Errorf("unknown command %q: want compile, verify, check, usage or shim", arguments[0])
}

func buildShim(m images.Module, copies []string) error {
	sources, err := shim.Sources(m)
	if err != nil {
		return err
	}
	if len(copies) > 0 && m.Root == m.Engine {
		sources = append(sources, filepath.Join(m.Engine, "kernels/shim/testdata/sum.cu"))
	}
	library, err := shim.Build(m, sources)
	if errors.As(err, new(*shim.NoCompilerError)) && os.Getenv("GPC_REQUIRE_SHIM") != "1" {
		fmt.Printf("the CUDA path is not tested: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, dst := range copies {
		if err := durable.CopyFile(dst, library, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// compileAll compiles what is stale, or, to verify, everything, which then must be
// what the folder holds.
func compileAll(m images.Module, verify bool) error {
	if _, err := openCompiler(m); err != nil {
		return err
	}
	folders, err := m.Folders()
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if err := compileFolder(m, folder, verify); err != nil {
			return err
		}
	}
	return nil
}

func compileFolder(m images.Module, folder string, verify bool) error {
	dir := m.Images(folder)
	old, err := images.ReadManifest(dir)
	if err != nil && verify {
		return err
	} else if err != nil { // half merged, say
		fmt.Fprintf(os.Stderr, "%v: compiling all of %s again\n", err, folder)
	}
	sources, err := m.Sources(folder)
	if err != nil {
		return err
	}
	entries := make([]images.Entry, len(sources))
	failures := make([]error, len(sources))
	parallel.Each(atOnce, len(sources), func(_, i int) { entries[i], failures[i] = compileSource(m, sources[i], dir, old, verify) })
	if err := errors.Join(failures...); err != nil || verify {
		return err
	}
	manifest := images.Manifest{Compiler: images.Compiler, Images: entries}
	for _, e := range old.Images {
		if _, ok := manifest.Entry(e.Name); !ok {
			for _, t := range images.Targets {
				os.Remove(filepath.Join(dir, images.FileName(e.Name, t.Name)))
			}
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return durable.WriteJSON(filepath.Join(dir, "manifest.json"), manifest, "  ")
}

// usage prints what the assembler says of each kernel.
func usage(m images.Module) error {
	compiler, err := openCompiler(m)
	if err != nil {
		return err
	}
	folders, err := m.Folders()
	if err != nil {
		return err
	}
	target := images.Targets[len(images.Targets)-1]
	target.Flags = append(append([]string{}, target.Flags...), "--ptxas-options=-v")
	for _, folder := range folders {
		sources, err := m.Sources(folder)
		if err != nil {
			return err
		}
		for _, source := range sources {
			text, err := os.ReadFile(source)
			if err != nil {
				return err
			}
			_, log, err := compileFor(compiler, m, folder+"/"+filepath.Base(source), text, target)
			if err != nil {
				return err
			}
			fmt.Printf("%s/%s\n%s\n", folder, filepath.Base(source), log)
		}
	}
	return nil
}

func compileSource(m images.Module, source, dir string, old images.Manifest, verify bool) (images.Entry, error) {
	name := strings.TrimSuffix(filepath.Base(source), ".cu")
	hash, err := m.SourceHash(source)
	if err != nil {
		return images.Entry{}, err
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return images.Entry{}, err
	}
	entry := images.Entry{Name: name, Source: hash, Kernels: images.EntryPoints(text), Files: map[string]string{}}
	previous, exists := old.Entry(name)
	if exists && previous.Source == hash && old.Compiler == images.Compiler && !verify && filesWhole(dir, previous) {
		return previous, nil
	}
	relative, err := filepath.Rel(m.Root, source)
	if err != nil {
		return entry, err
	}
	for _, target := range images.Targets {
		image, err := compileApart(filepath.ToSlash(relative), target)
		if err != nil {
			return entry, err
		}
		for _, kernel := range entry.Kernels {
			if !bytes.Contains(image, []byte(kernel)) {
				return entry, fmt.Errorf("%s registers %s, which its image lacks: is it extern \"C\" __global__?", relative, kernel)
			}
		}
		entry.Files[target.Name] = images.Hash(image)
		if verify {
			if entry.Files[target.Name] != previous.Files[target.Name] {
				return entry, fmt.Errorf("%s: compiled again, the %s differs from the committed one", relative, target.Name)
			}
			continue
		}
		if err := images.Write(dir, name, target.Name, image); err != nil {
			return entry, err
		}
	}
	fmt.Println(relative)
	return entry, nil
}

// compileApart compiles one source in a process of its own. The compiler names
// some symbols by what it compiled before, so that within one process an image
// depends on the others' order.
func compileApart(path string, target images.Target) ([]byte, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return images.Compile(program, path, target)
}

// writeImage is the other side of compileApart.
func writeImage(path, name string) error {
	m, err := images.Find(".")
	if err != nil {
		return err
	}
	compiler, err := openCompiler(m)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		return err
	}
	for _, target := range slices.Concat(images.Targets, images.Extra) {
		if target.Name == name {
			image, _, err := compileFor(compiler, m, path, text, target)
			if err == nil {
				_, err = os.Stdout.Write(image)
			}
			return err
		}
	}
	return fmt.Errorf("no target %q", name)
}

func filesWhole(dir string, e images.Entry) bool {
	return !slices.ContainsFunc(images.Targets, func(t images.Target) bool { return e.CheckFile(dir, t) != nil })
}
