package kernels

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/images"
	"github.com/gpc-engine/gpc/kernels/nvrtc"
)

// Device functions of problems that have none of their own but are given by equations (export.Equated): written by the
// exporter, compiled by NVRTC where there is one, and kept in the user's cache folder.

//go:embed include/gpc.cuh include/domain.cuh include/policy.cuh include/half.cuh include/warp.cuh
var headers embed.FS

// writtenTarget is what written functions are compiled to: a cubin of an architecture, "sm_90", or, for "compute_80", PTX that the driver
// compiles for its device and keeps.
func writtenTarget(architecture string) images.Target {
	kind := ".cubin"
	if strings.HasPrefix(architecture, "compute_") {
		kind = ".ptx"
	}
	return images.Target{Name: architecture + kind, Flags: []string{"--gpu-architecture=" + architecture, "--std=c++17", "--device-as-default-execution-space"}}
}

// problemFunctions are the functions of one problem, or why it has none here.
type problemFunctions struct {
	code domain.DeviceCode
	err  error
}

// mayHaveDevice reports whether a problem has device functions, or equations that they can be written from.
func mayHaveDevice(p domain.Problem) bool {
	_, equated := p.(export.Equated)
	return equated || domain.AbilitiesOfProblem(p).Device != nil
}

// deviceCode are the device functions of a problem. Where those of its equations are not to be had, that is told, and the
// problem is one without.
func (b *Backend) deviceCode(t *driver.Thread, p domain.Problem) domain.DeviceCode {
	if device := domain.AbilitiesOfProblem(p).Device; device != nil {
		return device()
	}
	equated, ok := p.(export.Equated)
	if !ok {
		return domain.DeviceCode{}
	}
	code, err := b.write(t, p, equated)
	if err != nil {
		text := fmt.Sprintf("%s is decoded on the GPU, its equations are evaluated on the CPU: %v", p.Spec().Name, err)
		b.Tell(text, text)
		return domain.DeviceCode{Reason: err.Error()}
	}
	return code
}

func (b *Backend) write(t *driver.Thread, p domain.Problem, equated export.Equated) (domain.DeviceCode, error) {
	// One that keeps off its limits has no equations, and the fingerprint of the one that does not.
	if _, err := equated.Equations(); err != nil {
		return domain.DeviceCode{}, err
	}
	key := domain.FingerprintOf(p)
	functions, ok := b.functions[key]
	if !ok {
		functions.code, functions.err = b.compile(t, p)
		b.functions[key] = functions
	}
	return functions.code, functions.err
}

func (b *Backend) compile(t *driver.Thread, p domain.Problem) (domain.DeviceCode, error) {
	text, err := export.DeviceOf(p)
	if err != nil {
		return domain.DeviceCode{}, err
	}
	code := domain.DeviceCode{Name: text.Name, Lanes: text.Lanes, GradientLanes: text.Lanes, Scored: true, Fails: true, Policy: true}
	if code.Images, err = b.imagesOf(text, b.policyParts()); err != nil {
		return domain.DeviceCode{}, err
	}
	return code, b.loadDomain(t, code)
}

// imagesOf are the images of written functions; nil on the host shim, which has what was built into it.
func (b *Backend) imagesOf(d *export.Device, parts int) (fs.FS, error) {
	if b.context.Driver().HostShim() {
		return nil, nil
	}
	version, err := b.context.Driver().Version()
	if err != nil {
		return nil, err
	}
	return compiled(d, b.device, version, parts, func(text string) { b.Tell(text, text) })
}

// compiled are the images of written functions for a device under a driver of that CUDA version, whole roll-outs with so many parts, 0 without them: those of the
// cache, or new ones, before which report is called. Where the compiler knows the device's architecture it makes a cubin, so that the driver has
// nothing to compile.
func compiled(d *export.Device, device driver.Device, version, parts int, report func(string)) (fs.FS, error) {
	cubin, ptx := writtenTarget(device.ISA()), writtenTarget("compute_80")
	targets := []images.Target{cubin, ptx}
	if device.Emulated() { // an interpreter of PTX, which has no driver
		targets, version = targets[1:], 0
	}
	cache, err := WrittenCache()
	if err != nil {
		return nil, err
	}
	w := writing{Device: d, pieces: d.Pieces(parts), included: map[string]string{}}
	for _, name := range []string{"gpc.cuh", "domain.cuh", "policy.cuh", "half.cuh", "warp.cuh"} {
		text, err := headers.ReadFile("include/" + name)
		if err != nil {
			return nil, err
		}
		w.included[name] = string(text)
	}
	for _, w.target = range targets {
		if w.place(cache); len(w.missing()) == 0 {
			return os.DirFS(w.dir), nil
		}
	}
	c, err := nvrtc.Find(version)
	if err != nil {
		return nil, err
	}
	w.target = ptx
	switch knows := slices.Contains(c.Architectures(), 10*device.Major+device.Minor); {
	case knows && !device.Emulated():
		w.target = cubin
	case c.Older(version):
		return nil, &nvrtc.NewerError{Library: c.Library, Major: c.Major, Minor: c.Minor, Driver: version}
	}
	w.place(cache)
	report(fmt.Sprintf("NVRTC %d.%d compiles %s to %s, once: %s", c.Major, c.Minor, d.Name, w.target.Name, w.dir))
	return os.DirFS(w.dir), w.compile(c)
}

// writing is a folder of the cache, and what is to lie there.
type writing struct {
	*export.Device
	pieces    []export.Piece
	included  map[string]string
	target    images.Target
	dir, hash string
}

// place names the folder by all that its images are compiled from.
func (w *writing) place(cache string) {
	sum := sha256.New()
	fmt.Fprintln(sum, w.target.Flags)
	for _, name := range slices.Sorted(maps.Keys(w.included)) {
		fmt.Fprintln(sum, name, len(w.included[name]))
		sum.Write([]byte(w.included[name]))
	}
	sum.Write([]byte(w.Text))
	w.hash = hex.EncodeToString(sum.Sum(nil))
	w.dir = filepath.Join(cache, w.Name+"-"+w.hash[:16]+"-"+w.target.Name)
}

// missing are the pieces that are not there.
func (w *writing) missing() (pieces []export.Piece) {
	m, err := images.ReadManifest(w.dir)
	for _, p := range w.pieces {
		if e, ok := m.Entry(p.Name); err != nil || !ok || e.Source != w.hash || e.CheckFile(w.dir, w.target) != nil {
			pieces = append(pieces, p)
		}
	}
	return pieces
}

// compile makes the pieces that are missing, side by side, the manifest last. What another program has made there meanwhile is kept, or
// made again.
func (w *writing) compile(c *nvrtc.Compiler) error {
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return err
	}
	pieces := w.missing()
	entries, errs := make([]images.Entry, len(pieces)), make([]error, len(pieces))
	var all sync.WaitGroup
	for i, p := range pieces {
		all.Go(func() { entries[i], errs[i] = w.piece(c, p) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	m, err := images.ReadManifest(w.dir)
	if err != nil {
		m = images.Manifest{}
	}
	m.Compiler = fmt.Sprintf("NVRTC %d.%d", c.Major, c.Minor)
	for _, e := range entries {
		m.Images = append(slices.DeleteFunc(m.Images, func(old images.Entry) bool { return old.Name == e.Name }), e)
	}
	return durable.WriteJSON(filepath.Join(w.dir, "manifest.json"), m, "  ")
}

// piece compiles one.
func (w *writing) piece(c *nvrtc.Compiler, p export.Piece) (images.Entry, error) {
	flags := append(slices.Clone(w.target.Flags), fmt.Sprintf("--define-macro=GPC_PIECE=%d", p.Number))
	image, _, err := c.Compile(w.Name+".cu", []byte(w.Text), w.included, flags, strings.HasSuffix(w.target.Name, ".ptx"))
	if err != nil {
		return images.Entry{}, err
	}
	e := images.Entry{Name: p.Name, Source: w.hash, Kernels: p.Kernels, Files: map[string]string{w.target.Name: images.Hash(image)}}
	return e, images.Write(w.dir, p.Name, w.target.Name, image)
}

// WrittenCache is the folder of the user's cache that has a folder for each image of written functions.
func WrittenCache() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "gpc", "kernels"), err
}

// Written are the images of one system's functions in the cache.
type Written struct {
	Name, Target, Compiler string // of the functions, "sm_90.cubin", "NVRTC 12.2"
	Bytes                  int    // as they lie there
}

// WrittenImages are those of the cache, by their names; what cannot be read is left out.
func WrittenImages() ([]Written, error) {
	cache, err := WrittenCache()
	if err != nil {
		return nil, err
	}
	folders, err := os.ReadDir(cache)
	if err != nil {
		return nil, nil // there is none yet
	}
	var result []Written
	for _, f := range folders {
		m, err := images.ReadManifest(filepath.Join(cache, f.Name()))
		if err != nil || len(m.Images) == 0 {
			continue
		}
		name, rest, _ := strings.Cut(f.Name(), "-") // writing.place
		_, target, _ := strings.Cut(rest, "-")
		w := Written{Name: name, Target: target, Compiler: m.Compiler}
		for _, e := range m.Images {
			if info, err := os.Stat(filepath.Join(cache, f.Name(), images.FileName(e.Name, target))); err == nil {
				w.Bytes += int(info.Size())
			}
		}
		result = append(result, w)
	}
	return result, nil
}

// Compiler is the compiler of written functions that a machine has.
type Compiler struct {
	Library       string // its file, or the name by which the loader found it
	Version       string // of CUDA, "12.2"
	Architectures []int  // compute capabilities that it compiles for, 90 for 9.0
}

// FindCompiler is the compiler for a driver of that CUDA version, 12020 for 12.2, or 0 without one; a *nvrtc.MissingError or *nvrtc.NewerError where there is none.
func FindCompiler(version int) (Compiler, error) {
	c, err := nvrtc.Find(version)
	if err != nil {
		return Compiler{}, err
	}
	return Compiler{c.Library, fmt.Sprintf("%d.%d", c.Major, c.Minor), c.Architectures()}, nil
}

// Notify has what the backend leaves to the CPU told to f, each thing once.
func (b *Backend) Notify(f func(string)) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.notice = f
}

// Tell implements backend.Teller: it says what has a key that nothing had before.
func (b *Backend) Tell(key, text string) {
	b.mutex.Lock()
	f := b.notice
	if f == nil || b.reported[key] {
		f = nil
	} else {
		b.reported[key] = true
	}
	b.mutex.Unlock()
	if f != nil {
		f(text)
	}
}
