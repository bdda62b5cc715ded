// Package images holds the compiled kernels and gives a device the one it runs: the
// cubin of its own architecture, or PTX, which the driver compiles.
//
// The central type is Set, the images of one folder of kernels. Kernels are those of
// kernels/*.cu, embedded here; a domain embeds its own. manifest.go ties every image
// to its source by a hash, so that a stale one does not pass the tests.
package images

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/klauspost/compress/zstd"

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

// Names lists the images, one for each source.
func (s *Set) Names() []string {
	names := make([]string, len(s.manifest.Images))
	for i, e := range s.manifest.Images {
		names[i] = e.Name
	}
	return names
}

// Load loads the image of one source on the device that t owns. The host shim has
// every kernel built in and takes none of the images. Errors are those of
// driver.Thread.LoadModule; a name that the set lacks is a *driver.ImageError.
func (s *Set) Load(t *driver.Thread, name string) (*driver.Module, error) {
	if t.Context().Driver().HostShim() {
		return t.LoadModule(name, driver.HostShimImage)
	}
	e, ok := s.manifest.Entry(name)
	if !ok {
		return nil, &driver.ImageError{Image: name, Cause: errors.New("this program holds no such image")}
	}
	target := "compute_80.ptx"
	if own := t.Context().Device().ISA() + ".cubin"; e.Files[own] != "" {
		target = own
	}
	blob, err := fs.ReadFile(s.files, FileName(name, target))
	if err != nil {
		return nil, &driver.ImageError{Image: name, Cause: err}
	}
	image, err := Unpack(blob)
	if err != nil {
		return nil, &driver.ImageError{Image: name, Cause: err}
	}
	return t.LoadModule(name+" ("+target+")", image)
}

// Pack and Unpack are the compression of a file of images.
func Pack(image []byte) ([]byte, error) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return w.EncodeAll(image, nil), nil
}

// maxImage bounds what an image may unpack to.
const maxImage = 256 << 20

// Unpack undoes Pack.
func Unpack(blob []byte) ([]byte, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxImage), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(blob, nil)
}
