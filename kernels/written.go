package kernels

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/images"
	"github.com/gpc-engine/gpc/kernels/nvrtc"
)

// Device functions of problems that have none of their own but are given by equations (export.Equated): written by the
// exporter, compiled by NVRTC where there is one, and kept in the user's cache folder.

//go:embed include/gpc.cuh include/domain.cuh include/policy.cuh include/half.cuh
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

// written are the functions of one problem, or why it has none here.
type written struct {
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
	known, ok := b.written[key]
	if !ok {
		known.code, known.err = b.compile(t, p)
		b.written[key] = known
	}
	return known.code, known.err
}

func (b *Backend) compile(t *driver.Thread, p domain.Problem) (domain.DeviceCode, error) {
	text, err := export.DeviceOf(p)
	if err != nil {
		return domain.DeviceCode{}, err
	}
	// The interpreter has no products of half precision.
	code := domain.DeviceCode{Name: text.Name, Scored: true, Fails: true, Policy: b.device.Name != driver.InterpreterName}
	if !b.context.Driver().HostShim() { // which has what was built into it
		version, err := b.context.Driver().Version()
		if err != nil {
			return domain.DeviceCode{}, err
		}
		if code.Images, err = compiled(text, b.device, version); err != nil {
			return domain.DeviceCode{}, err
		}
	}
	return code, b.loadDomain(t, code)
}

// compiled are the images of written functions for a device under a driver of that CUDA version: those of the cache, or new ones. Where the
// compiler knows the device's architecture it makes a cubin, so that the driver has nothing to compile.
func compiled(d *export.Device, on driver.Device, version int) (fs.FS, error) {
	own, ptx := writtenTarget(on.ISA()), writtenTarget("compute_80")
	targets := []images.Target{own, ptx}
	if on.Emulated() { // an interpreter of PTX, which has no driver
		targets, version = targets[1:], 0
	}
	cache, err := WrittenCache()
	if err != nil {
		return nil, err
	}
	included := map[string]string{}
	for _, name := range []string{"gpc.cuh", "domain.cuh", "policy.cuh", "half.cuh"} {
		text, err := headers.ReadFile("include/" + name)
		if err != nil {
			return nil, err
		}
		included[name] = string(text)
	}
	for _, t := range targets {
		hash := hashOf(d, included, t)
		dir := writtenFolder(cache, d, hash, t)
		old, err := images.ReadManifest(dir)
		if e, ok := old.Entry(d.Name); err == nil && ok && e.Source == hash && e.CheckFile(dir, t) == nil {
			return os.DirFS(dir), nil
		}
	}
	c, err := nvrtc.Find(version)
	if err != nil {
		return nil, err
	}
	target := ptx
	switch knows := slices.Contains(c.Architectures(), 10*on.Major+on.Minor); {
	case knows && !on.Emulated():
		target = own
	case c.Older(version):
		return nil, &nvrtc.NewerError{Library: c.Library, Major: c.Major, Minor: c.Minor, Driver: version}
	}
	hash := hashOf(d, included, target)
	dir := writtenFolder(cache, d, hash, target)
	return os.DirFS(dir), compileInto(dir, c, target, hash, d, included)
}

// WrittenCache is the folder of the user's cache that has a folder for each image of written functions.
func WrittenCache() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "gpc", "kernels"), err
}

// Written is an image of the cache.
type Written struct {
	Name, Target, Compiler string // of the functions, "sm_90.cubin", "NVRTC 12.2"
	Bytes                  int    // as it lies there
}

// WrittenImages are the images of the cache, by their folders; one that cannot be read is left out.
func WrittenImages() ([]Written, error) {
	cache, err := WrittenCache()
	if err != nil {
		return nil, err
	}
	folders, err := os.ReadDir(cache)
	if err != nil {
		return nil, nil // there is none yet
	}
	var found []Written
	for _, f := range folders {
		m, err := images.ReadManifest(filepath.Join(cache, f.Name()))
		if err != nil {
			continue
		}
		for _, e := range m.Images {
			for target := range e.Files {
				if info, err := os.Stat(filepath.Join(cache, f.Name(), images.FileName(e.Name, target))); err == nil {
					found = append(found, Written{e.Name, target, m.Compiler, int(info.Size())})
				}
			}
		}
	}
	return found, nil
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

// hashOf is of all that an image is compiled from.
func hashOf(d *export.Device, included map[string]string, t images.Target) string {
	sum := sha256.New()
	fmt.Fprintln(sum, t.Flags)
	for _, name := range slices.Sorted(maps.Keys(included)) {
		fmt.Fprintln(sum, name, len(included[name]))
		sum.Write([]byte(included[name]))
	}
	sum.Write([]byte(d.Text))
	return hex.EncodeToString(sum.Sum(nil))
}

// writtenFolder is where an image lies.
func writtenFolder(cache string, d *export.Device, hash string, t images.Target) string {
	return filepath.Join(cache, d.Name+"-"+hash[:16]+"-"+t.Name)
}

// compileInto fills a folder of the cache, the manifest last.
func compileInto(dir string, c *nvrtc.Compiler, target images.Target, hash string, d *export.Device, included map[string]string) error {
	image, _, err := c.Compile(d.Name+".cu", []byte(d.Text), included, target.Flags, strings.HasSuffix(target.Name, ".ptx"))
	if err != nil {
		return err
	}
	blob, err := images.Pack(image)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(dir, images.FileName(d.Name, target.Name)), blob, 0o644); err != nil {
		return err
	}
	return durable.WriteJSON(filepath.Join(dir, "manifest.json"), images.Manifest{
		Compiler: fmt.Sprintf("NVRTC %d.%d", c.Major, c.Minor),
		Images:   []images.Entry{{Name: d.Name, Source: hash, Kernels: images.EntryPoints([]byte(d.Text)), Files: map[string]string{target.Name: images.Hash(image)}}},
	}, "  ")
}

// Notify has what the backend leaves to the CPU told to f, each thing once.
func (b *Backend) Notify(f func(string)) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.notice = f
}

// Notify is that of the first member: all have the same to say.
func (g *Group) Notify(f func(string)) { g.members[0].Notify(f) }

// Tell implements backend.Teller: it says what has a key that nothing had before.
func (b *Backend) Tell(key, text string) {
	b.mutex.Lock()
	f := b.notice
	if f == nil || b.told[key] {
		f = nil
	} else {
		b.told[key] = true
	}
	b.mutex.Unlock()
	if f != nil {
		f(text)
	}
}

// Tell is that of the first member.
func (g *Group) Tell(key, text string) { g.members[0].Tell(key, text) }
