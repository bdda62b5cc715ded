// Package device puts the interpreter of kernels/ptx behind kernels/driver: a driver whose
// devices execute the PTX that a GPU's driver would compile.
//
// The central type is Device. Its contexts share what was found and counted.
//
// It promises no stability to other modules, which open an engine by package gpc
// (docs/reference/library.md).
package device

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/ptx"
)

// Device is a driver over the interpreter.
type Device struct {
	*Software
	// Edit changes the text of an image before it is read, to put faults into it; nil: none.
	// Launched is called behind each launch, where it is set: what Counts gives then and Forget drops is that launch's.
	Launched func()
	Edit     func(text []byte) []byte
	mutex    sync.Mutex
	options  ptx.Options
	machines []*ptx.Machine
}

// New makes a driver of one device; options hold for contexts that are opened later too.
func New(options ptx.Options) *Device {
	d := &Device{options: options}
	d.Software = NewSoftware(driver.InterpreterName, d.executor)
	return d
}

// ParseOptions reads what to check and count as a list with commas: shared, global, count,
// lanes (one lane at a time), tolerate (findings are listed, not errors), seed=N, errors=N; none
// alone asks for nothing.
func ParseOptions(text string) (o ptx.Options, err error) {
	lanes, noChecks := false, false
	words := map[string]*bool{"shared": &o.Shared, "global": &o.Global, "count": &o.Count, "tolerate": &o.Tolerate, "lanes": &lanes, "none": &noChecks}
	numbers := map[string]*uint64{"seed": &o.Seed, "errors": &o.Errors}
	for word := range strings.SplitSeq(text, ",") {
		name, value, isNumber := strings.Cut(word, "=")
		switch {
		case !isNumber && words[name] != nil:
			*words[name] = true
		case isNumber && numbers[name] != nil:
			if *numbers[name], err = strconv.ParseUint(value, 10, 31); err != nil {
				return o, fmt.Errorf("%q: %w", word, err)
			}
		default:
			return o, fmt.Errorf("%q: want shared, global, count, lanes, tolerate, seed=N, errors=N or none", word)
		}
	}
	if lanes {
		o.Order = ptx.Lanes
	}
	return o, nil
}

// SetSeed sets the order of warps and lanes in contexts that are opened from now on.
func (d *Device) SetSeed(seed uint64) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.options.Seed = seed
}

// Findings are those of all contexts; none may be computing.
func (d *Device) Findings() []ptx.Finding {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	var list []ptx.Finding
	for _, m := range d.machines {
		list = append(list, m.Findings()...)
	}
	return list
}

// Counts are those of all contexts, a kernel of each; none may be computing.
func (d *Device) Counts() []*ptx.Counts {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	var list []*ptx.Counts
	for _, m := range d.machines {
		list = append(list, m.Counts()...)
	}
	return list
}

// Forget drops what was found and counted.
func (d *Device) Forget() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, m := range d.machines {
		m.Forget()
	}
}

func (d *Device) executor(int) (Executor, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	m := ptx.NewMachine(d.options)
	d.machines = append(d.machines, m)
	return &executor{d, m}, nil
}

type executor struct {
	device  *Device
	machine *ptx.Machine
}

// parsed are the texts read so far, by their hash: contexts load the same again and again.
var parsed struct {
	sync.Mutex
	modules map[[32]byte]*ptx.Module
}

func (e *executor) Load(image []byte) (Program, error) {
	image, _, _ = bytes.Cut(image, []byte{0})
	if bytes.HasPrefix(image, []byte("\x7fELF")) {
		return nil, errors.New("a cubin: machine code is not executed, only PTX")
	}
	if e.device.Edit != nil {
		image = e.device.Edit(image)
	}
	hash := sha256.Sum256(image)
	parsed.Lock()
	defer parsed.Unlock()
	if m := parsed.modules[hash]; m != nil {
		return program{m}, nil
	}
	m, err := ptx.Parse(nameOf(image), image)
	if err != nil {
		return nil, err
	}
	if parsed.modules == nil {
		parsed.modules = map[[32]byte]*ptx.Module{}
	}
	parsed.modules[hash] = m
	return program{m}, nil
}

// nameOf calls a text by its first entry: a driver is not told a file.
func nameOf(image []byte) string {
	_, rest, ok := bytes.Cut(image, []byte(".entry "))
	if !ok {
		return "ptx"
	}
	name, _, _ := bytes.Cut(rest, []byte("("))
	return string(bytes.TrimSpace(name)) + ".ptx"
}

func (e *executor) Alloc(n int) (driver.Pointer, error) {
	return driver.Pointer(e.machine.Memory.Alloc(n)), nil
}
func (e *executor) Free(p driver.Pointer) bool { return e.machine.Memory.Free(uint64(p)) }
func (e *executor) Bytes(p driver.Pointer, n int, writes bool) ([]byte, error) {
	return e.machine.Memory.Bytes(uint64(p), n, writes)
}

func (e *executor) Launch(k Entry, grid, block driver.Dim, shared int, arguments []byte) error {
	l := ptx.Launch{Grid: [3]int{grid.X, grid.Y, grid.Z}, Block: [3]int{block.X, block.Y, block.Z}, Shared: shared}
	err := e.machine.Launch(k.(entry).kernel, l, arguments)
	if err == nil {
		if e.device.Launched != nil {
			e.device.Launched()
		}
		return nil
	}
	code := 719
	var fault *ptx.Fault
	if errors.As(err, &fault) {
		switch fault.Finding.Kind {
		case ptx.FaultBounds:
			code = 700
		case ptx.FaultMisaligned:
			code = 716
		}
	}
	return &launchError{err, code}
}

type launchError struct {
	error
	code int
}

func (e *launchError) Unwrap() error { return e.error }
func (e *launchError) Code() int     { return e.code }

type program struct{ module *ptx.Module }

func (p program) Entry(name string) (Entry, error) {
	if !slices.Contains(p.module.Entries(), name) {
		return nil, nil
	}
	k, err := p.module.Kernel(name)
	if err != nil {
		return nil, fmt.Errorf("entry %s: %w", name, err)
	}
	return entry{k}, nil
}

type entry struct{ kernel *ptx.Kernel }

func (e entry) Parameters() (list []driver.Parameter, offsets []int, n int) {
	for _, p := range e.kernel.Params {
		list = append(list, driver.Parameter{Size: p.Size, Kind: p.Kind})
		offsets = append(offsets, p.Offset)
		n = p.Offset + p.Size
	}
	return list, offsets, n
}

func (e entry) StaticShared() int { return e.kernel.Shared }

func (e entry) MaxThreads() int {
	m := e.kernel.MaxThreads
	if n := m[0] * m[1] * m[2]; n > 0 {
		return n
	}
	return 1024
}
