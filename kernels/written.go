package kernels

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/images"
	"github.com/gpc-engine/gpc/kernels/nvrtc"
)

// Device functions of problems that have none of their own but are given by equations (export.Equated): written by the
// exporter, compiled by NVRTC where there is one, and kept in the user's cache folder.

//go:embed include/gpc.cuh include/domain.cuh
var headers embed.FS

// writtenTarget is PTX, which the driver compiles for its device and keeps.
var writtenTarget = images.Target{Name: "compute_80.ptx", Flags: []string{"--gpu-architecture=compute_80", "--std=c++17", "--device-as-default-execution-space"}}

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
	code := domain.DeviceCode{Name: text.Name, Scored: true, Fails: true}
	if !b.context.Driver().HostShim() { // which has what was built into it
		if code.Images, err = compiled(text); err != nil {
			return domain.DeviceCode{}, err
		}
	}
	return code, b.loadDomain(t, code)
}

// compiled are the images of written functions: those of the cache, or new ones.
func compiled(d *export.Device) (fs.FS, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	included := map[string]string{}
	sum := sha256.New()
	fmt.Fprintln(sum, writtenTarget.Flags)
	for _, name := range []string{"gpc.cuh", "domain.cuh"} {
		text, err := headers.ReadFile("include/" + name)
		if err != nil {
			return nil, err
		}
		included[name] = string(text)
		fmt.Fprintln(sum, name, len(text))
		sum.Write(text)
	}
	sum.Write([]byte(d.Text))
	hash := hex.EncodeToString(sum.Sum(nil))
	dir := filepath.Join(cache, "gpc", "kernels", d.Name+"-"+hash[:16])
	old, err := images.ReadManifest(dir)
	if e, ok := old.Entry(d.Name); err == nil && ok && e.Source == hash && e.CheckFile(dir, writtenTarget) == nil {
		return os.DirFS(dir), nil
	}
	return os.DirFS(dir), compileInto(dir, hash, d, included)
}

// compileInto fills a folder of the cache, the manifest last.
func compileInto(dir, hash string, d *export.Device, included map[string]string) error {
	c, err := nvrtc.Find()
	if err != nil {
		return err
	}
	image, _, err := c.Compile(d.Name+".cu", []byte(d.Text), included, writtenTarget.Flags, true)
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
	if err := durable.WriteFile(filepath.Join(dir, images.FileName(d.Name, writtenTarget.Name)), blob, 0o644); err != nil {
		return err
	}
	return durable.WriteJSON(filepath.Join(dir, "manifest.json"), images.Manifest{
		Compiler: fmt.Sprintf("NVRTC %d.%d", c.Major, c.Minor),
		Images:   []images.Entry{{Name: d.Name, Source: hash, Kernels: images.EntryPoints([]byte(d.Text)), Files: map[string]string{writtenTarget.Name: images.Hash(image)}}},
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
