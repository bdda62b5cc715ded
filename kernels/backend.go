// Package kernels is the CUDA backend: every operation of internal/backend as CUDA
// kernels (the .cu files beside it), launched through kernels/driver.
//
// The central type is Backend. It lives on one driver.Context, whose goroutine
// makes every driver call. Networks, codes and the buffers of a stepper stay on
// the device; a Stepper's work is captured as one CUDA graph for each padded batch
// size and launched from then on. What an operation means is the specification of
// internal/ref; the numbers are held to it by internal/testing/backendtest, run through the
// host shim (kernels/shim) where there is no GPU.
//
// It promises no stability to other modules, which open an engine by package gpc
// (docs/reference/library.md).
package kernels

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/images"
)

// Options choose how the backend computes. The zero value is float32 throughout.
type Options struct {
	// TF32 lets products run on tensor cores, with inputs rounded to 11 significant
	// bits: those of training, of decoding, backward passes and metrics for more than a
	// few rows, and of the search for nearest codes before its exact re-check. Forward
	// passes whose derivatives are taken make three such products of each.
	TF32 bool
}

// MaxWidth is the widest layer, and MaxLatent the largest input of a network whose
// metric is taken, that the kernels hold in shared memory.
const (
	MaxWidth  = 1024
	MaxLatent = 64
)

// Backend computes on one CUDA device.
type Backend struct {
	context   *driver.Context
	options   Options
	device    driver.Device
	modules   *images.Modules
	domains   map[string]*images.Modules    // device functions of problems, by name
	functions map[[32]byte]problemFunctions // device functions of problems by their equations
	kernels   map[string]*driver.Kernel
	stream    driver.Stream
	// Work beside the stream's own: see queue.beside.
	side                      driver.Stream
	forked, halfway, finished driver.Event
	// Operations that are not captured share these; the context runs one at a time.
	shared workspace
	trace  *trace // nil: graphs are launched, and nothing is timed

	mutex    sync.Mutex
	garbage  []func(*driver.Thread) error // of objects that nobody holds any more
	closed   bool
	notice   func(string) // is told what the CPU does instead; nil: nobody is
	reported map[string]bool
}

var _ backend.Backend = (*Backend)(nil)

// New makes a backend on an open context, which it owns from then on, also when New
// fails. One kernel is loaded, so that a device that does not take the images is
// found here. A failure is one of the error types of kernels/driver.
func New(context *driver.Context, options Options) (*Backend, error) {
	b := &Backend{
		context: context, options: options, device: context.Device(),
		domains: map[string]*images.Modules{}, kernels: map[string]*driver.Kernel{}, functions: map[[32]byte]problemFunctions{}, reported: map[string]bool{},
	}
	err := context.Do(func(t *driver.Thread) error {
		set, err := images.Kernels()
		if err != nil {
			return err
		}
		b.modules = images.NewModules(set)
		if _, err := b.kernel(t, "gpc_eig"); err != nil {
			return err
		}
		for _, s := range []*driver.Stream{&b.stream, &b.side} {
			if *s, err = t.NewStream(); err != nil {
				return err
			}
		}
		for _, e := range []*driver.Event{&b.forked, &b.halfway, &b.finished} {
			if *e, err = t.NewEvent(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, context.Close())
	}
	return b, nil
}

// Describe implements backend.Backend.
func (b *Backend) Describe() backend.Description {
	d := backend.Description{Name: "cuda", ISA: b.device.ISA(), Device: b.device.Name, Threads: b.device.Multiprocessors, Places: policyShapes[0] * b.device.Multiprocessors}
	if b.options.TF32 {
		d.Precision = "tf32"
	}
	return d
}

// Context is the context that the backend computes on.
func (b *Backend) Context() *driver.Context { return b.context }

// Close ends the context and with it everything that the backend's objects hold on
// the device.
func (b *Backend) Close() error {
	b.mutex.Lock()
	closed := b.closed
	b.closed, b.garbage = true, nil
	b.mutex.Unlock()
	if closed {
		return nil
	}
	return b.context.Close()
}

// execute runs f on the context's thread, after releasing what has become garbage.
func (b *Backend) execute(f func(*driver.Thread) error) error {
	return b.context.Do(func(t *driver.Thread) error {
		b.mutex.Lock()
		garbage := b.garbage
		b.garbage = nil
		b.mutex.Unlock()
		for _, release := range garbage {
			if err := release(t); err != nil {
				return err
			}
		}
		return f(t)
	})
}

// discard releases something before the next operation.
func (b *Backend) discard(release func(*driver.Thread) error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if !b.closed {
		b.garbage = append(b.garbage, release)
	}
}

// kernel finds an entry point of the embedded images once.
func (b *Backend) kernel(t *driver.Thread, name string) (*driver.Kernel, error) {
	return b.kernelOf(t, b.modules, name)
}

func (b *Backend) kernelOf(t *driver.Thread, modules *images.Modules, name string) (*driver.Kernel, error) {
	if k, ok := b.kernels[name]; ok {
		return k, nil
	}
	k, err := modules.Kernel(t, name)
	if err != nil {
		return nil, err
	}
	b.kernels[name] = k
	return k, nil
}

// preload finds entry points before a capture begins: loading an image inside one
// would end it.
func (b *Backend) preload(t *driver.Thread, names ...string) error {
	for _, name := range names {
		if _, err := b.kernel(t, name); err != nil {
			return err
		}
	}
	return nil
}

// loadDomain finds the device functions of a problem, so that launch knows them.
func (b *Backend) loadDomain(t *driver.Thread, code domain.DeviceCode) error {
	modules := b.domains[code.Name]
	if modules == nil {
		var sets []*images.Set
		if code.Images != nil {
			set, err := images.New(code.Images)
			if err != nil {
				return err
			}
			sets = append(sets, set)
		}
		modules = images.NewModules(sets...)
		b.domains[code.Name] = modules
	}
	names := []string{"base_" + code.Name, "gradient_" + code.Name, "priority_" + code.Name, "rollout_" + code.Name}
	if code.Policy {
		for _, rows := range policyShapes {
			names = append(names, fmt.Sprintf("policy_%s_%dx%d", code.Name, rows, b.policyParts()))
		}
	}
	for _, name := range names {
		if _, err := b.kernelOf(t, modules, "gpc_domain_"+name); err != nil {
			return fmt.Errorf("device functions of %s: %w", code.Name, err)
		}
	}
	return nil
}

// Errors of sizes that the kernels do not take.
func tooWide(op, quantity string, value, most int) error {
	return fmt.Errorf("%s: %s is %d, the CUDA backend takes at most %d: %w", op, quantity, value, most, errors.ErrUnsupported)
}

func ceil(n, d int) int { return (n + d - 1) / d }

// memory is a set of device and pinned allocations that are released together.
type memory struct {
	device []driver.Pointer
	pinned []*driver.HostMemory
	graphs []*driver.Graph
}

func (m *memory) alloc(t *driver.Thread, bytes int) (driver.Pointer, error) {
	p, err := t.Alloc(bytes)
	if err == nil && p != 0 {
		m.device = append(m.device, p)
	}
	return p, err
}

func (m *memory) allocHost(t *driver.Thread, bytes int) (*driver.HostMemory, error) {
	h, err := t.AllocHost(max(bytes, 8))
	if err == nil {
		m.pinned = append(m.pinned, h)
	}
	return h, err
}

func (m *memory) free(t *driver.Thread) error {
	var err error
	for _, g := range m.graphs {
		err = errors.Join(err, t.DestroyGraph(g))
	}
	for _, p := range m.device {
		err = errors.Join(err, t.Free(p))
	}
	for _, h := range m.pinned {
		err = errors.Join(err, t.FreeHost(h))
	}
	m.device, m.pinned, m.graphs = nil, nil, nil
	return err
}

// rewind frees what was allocated after the given mark, as on an error half way.
func (m *memory) rewind(t *driver.Thread, device, pinned int) {
	late := memory{device: slices.Clone(m.device[device:]), pinned: slices.Clone(m.pinned[pinned:])}
	m.device, m.pinned = m.device[:device], m.pinned[:pinned]
	_ = late.free(t)
}
