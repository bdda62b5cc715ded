// Package images holds the compiled kernels and gives a device the one it runs: the
// cubin of its own architecture or of an older one that it runs, or PTX, which the driver
// compiles.
//
// The central type is Set, the images of one folder of kernels. Kernels are those of
// kernels/*.cu, embedded here; a domain embeds its own. manifest.go ties every image
// to its source by a hash, so that a stale one does not pass the tests.
//
// It promises no stability to other modules, which open an engine by package gpc
// (docs/reference/library.md).
package images

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/kernels/driver"
)

//go:embed manifest.json *.zst
var embedded embed.FS

// Set is the images of one folder.
type Set struct {
	files    fs.FS
	manifest Manifest
}

// Kernels are the images of kernels/*.cu.
func Kernels() (*Set, error) { return New(embedded) }

// Embedded holds the images of kernels/*.cu, for a problem whose device functions are
// among them.
func Embedded() fs.FS { return embedded }

// New reads a folder of images: manifest.json and the files beside it.
func New(files fs.FS) (*Set, error) {
	text, err := fs.ReadFile(files, "manifest.json")
	if err != nil {
		return nil, fmt.Errorf("kernel images: %w", err)
	}
	s := &Set{files: files}
	if err := json.Unmarshal(text, &s.manifest); err != nil {
		return nil, fmt.Errorf("kernel images: manifest.json: %w", err)
	}
	return s, nil
}

// Kernels lists the entry points of all images.
func (s *Set) Kernels() []string {
	var names []string
	for _, e := range s.manifest.Images {
		names = append(names, e.Kernels...)
	}
	return names
}

// Modules are the images of one or more sets on one context: an image is loaded
// when the first of its kernels is asked for. They end with the context.
type Modules struct {
	sets   []*Set
	loaded map[string]*driver.Module
}

// NewModules looks for kernels in the sets in order.
func NewModules(sets ...*Set) *Modules {
	return &Modules{sets: sets, loaded: map[string]*driver.Module{}}
}

// Kernel finds an entry point by name. The host shim has every kernel built in and
// takes none of the images. A kernel that no set holds, and an image that does not
// load, is a *driver.ImageError.
func (m *Modules) Kernel(t *driver.Thread, kernel string) (*driver.Kernel, error) {
	for i, s := range m.sets {
		for _, e := range s.manifest.Images {
			if !slices.Contains(e.Kernels, kernel) {
				continue
			}
			key := fmt.Sprint(i, e.Name)
			if m.loaded[key] == nil {
				name, image, err := s.image(e, t.Context().Device())
				if err != nil {
					return nil, &driver.ImageError{Image: e.Name, Cause: err}
				}
				if t.Context().Driver().HostShim() {
					image = driver.HostShimImage
				}
				if m.loaded[key], err = t.LoadModule(name, image); err != nil {
					return nil, err
				}
			}
			return t.Kernel(m.loaded[key], kernel)
		}
	}
	if t.Context().Driver().HostShim() { // a source whose image is still to be compiled
		module, err := t.LoadModule("host shim", driver.HostShimImage)
		if err != nil {
			return nil, err
		}
		return t.Kernel(module, kernel)
	}
	return nil, &driver.ImageError{Image: "embedded", Kernel: kernel, Cause: errors.New("no image of this program holds it")}
}

// orin is the minor revision of 8.x of which NVIDIA promises no compatibility with the
// others: a system on a chip.
const orin = 7

// image is the cubin that the device runs: its own or, of the same major revision, the
// newest of an older minor one; without any, and for the interpreter of PTX, PTX.
func (s *Set) image(e Entry, d driver.Device) (name string, image []byte, err error) {
	target := "compute_80.ptx"
	for minor := d.Minor; minor >= 0 && !d.PTXAlone(); minor-- {
		cubin := fmt.Sprintf("sm_%d%d.cubin", d.Major, minor)
		if e.Files[cubin] != "" && (minor == d.Minor || d.Minor != orin && minor != orin) {
			target = cubin
			break
		}
	}
	blob, err := fs.ReadFile(s.files, FileName(e.Name, target))
	if err != nil {
		return "", nil, err
	}
	image, err = Unpack(blob)
	return e.Name + "." + target, image, err
}

// Write compresses an image into its file in a folder, which it makes.
func Write(dir, name, target string, image []byte) error {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err = cmp.Or(err, os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	defer w.Close()
	return durable.WriteFile(filepath.Join(dir, FileName(name, target)), w.EncodeAll(image, nil), 0o644)
}

// maxImage bounds what an image may unpack to.
const maxImage = 256 << 20

// Unpack undoes the compression of Write.
func Unpack(blob []byte) ([]byte, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxImage), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(blob, nil)
}
