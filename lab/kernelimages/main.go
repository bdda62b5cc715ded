// Command kernelimages makes what the laboratory runs the CUDA path with, besides the committed images.
//
//	kernelimages stand-in F  the host shim as programs take it for a GPU's driver, copied to F
//	kernelimages extra F     cubins for the architectures that no image is committed for, in the folder F, with F/overlay.json for go build -overlay
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"

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
	if len(arguments) != 2 {
		return errors.New("usage: kernelimages stand-in FILE, kernelimages extra DIR")
	}
	dst, err := filepath.Abs(arguments[1])
	if err != nil {
		return err
	}
	m, err := images.Find(".")
	if err != nil {
		return err
	}
	// The compiler calls a source, and errors name it, by its path from the root.
	if err := os.Chdir(m.Root); err != nil {
		return err
	}
	switch arguments[0] {
	case "stand-in":
		return buildStandIn(m, dst)
	case "extra":
		return compileExtra(m, dst)
	}
	return fmt.Errorf("unknown command %q: want stand-in or extra", arguments[0])
}

// buildStandIn builds the host shim as programs take it for a GPU's driver.
func buildStandIn(m images.Module, dst string) error {
	sources, err := shim.Sources(m)
	if err != nil {
		return err
	}
	library, err := shim.StandIn(m, sources)
	if err != nil {
		return err
	}
	return durable.CopyFile(dst, library, 0o755)
}

// compileExtra compiles every kernel for the architectures that no image is committed
// for, but what dir holds of the same sources, and writes dir/overlay.json, which puts
// them beside the committed images in a build with -overlay.
func compileExtra(m images.Module, dir string) error {
	if err := m.Check(); err != nil {
		return err
	}
	program, err := os.CreateTemp("", "build")
	if err != nil {
		return err
	}
	program.Close()
	defer os.Remove(program.Name())
	if out, err := exec.Command("go", "build", "-o", program.Name(), "./kernels/build").CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	folders, err := m.Folders()
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for _, folder := range folders {
		dst := filepath.Join(dir, filepath.FromSlash(folder))
		manifest, err := images.ReadManifest(m.Images(folder))
		if err != nil {
			return err
		}
		previous, err := images.ReadManifest(dst)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dst, 0o755); err != nil {
			return err
		}
		failures := make([]error, len(manifest.Images))
		parallel.Each(atOnce, len(failures), func(_, i int) { failures[i] = extraImages(program.Name(), folder, dst, &manifest.Images[i], previous) })
		if err := errors.Join(failures...); err != nil {
			return err
		}
		for _, e := range manifest.Images {
			for _, t := range images.Extra {
				name := images.FileName(e.Name, t.Name)
				replace[filepath.Join(m.Images(folder), name)] = filepath.Join(dst, name)
			}
		}
		if err := durable.WriteJSON(filepath.Join(dst, "manifest.json"), manifest, "  "); err != nil {
			return err
		}
		replace[filepath.Join(m.Images(folder), "manifest.json")] = filepath.Join(dst, "manifest.json")
	}
	return durable.WriteJSON(filepath.Join(dir, "overlay.json"), map[string]any{"Replace": replace}, "  ")
}

// extraImages adds to an entry its images for the extra architectures, which lie in a
// folder.
func extraImages(program, folder, dst string, e *images.Entry, previous images.Manifest) error {
	e.Files = maps.Clone(e.Files)
	old, _ := previous.Entry(e.Name)
	source := path.Join(folder, e.Name+".cu")
	for _, target := range images.Extra {
		if old.Source == e.Source && old.Files[target.Name] != "" && old.CheckFile(dst, target) == nil {
			e.Files[target.Name] = old.Files[target.Name]
			continue
		}
		image, err := images.Compile(program, source, target)
		if err != nil {
			return err
		}
		if err := images.Write(dst, e.Name, target.Name, image); err != nil {
			return err
		}
		e.Files[target.Name] = images.Hash(image)
	}
	return nil
}
