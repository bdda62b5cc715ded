package gpc

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/klauspost/cpuid/v2"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/engine"
)

// Engine is what computes. Objects made on it are used by one goroutine each; it may
// serve many. Close it when they are done.
type Engine struct {
	backend engine.Engine
	about   About
}

// About says what an engine computes on.
type About struct {
	Backend string // "cpu", "cuda" or "ref"
	ISA     string // "avx512", "avx2", "generic"; "sm_90" and so on for a device
	Device  string // of a GPU
	Threads int
	Reason  string // why it was chosen
}

// OpenEngine opens an engine. Unless Threads says otherwise it uses every core.
func OpenEngine(opt engine.Options) (*Engine, error) {
	if opt.Threads < 0 {
		return nil, badOptionf("{Threads} %d: want 0 or more", opt.Threads)
	}
	e, reason, err := engine.Open(opt)
	if err != nil {
		return nil, BadInput(err)
	}
	d := e.Describe()
	return &Engine{e, About{d.Name, d.ISA, d.Device, d.Threads, reason}}, nil
}

// Close gives back what the engine holds.
func (e *Engine) Close() error { return e.backend.Close() }

// About says what computes and why.
func (e *Engine) About() About { return e.about }

// String is About in a line.
func (a About) String() string {
	return fmt.Sprintf("%s (%s, %d threads): %s", a.Backend, a.ISA, a.Threads, a.Reason)
}

// Ceiling measures what the engine's device can do at most: float32 multiply-adds in
// FLOP/s and a triad over memory in bytes/s; 0 where it cannot be measured.
func (e *Engine) Ceiling() (flops, bandwidth float64) {
	c, ok := e.backend.(engine.Ceiling)
	if !ok {
		return 0, 0
	}
	return c.PeakFMA(), c.PeakBandwidth()
}

// Bench measures operations on the engine beside its ceiling; see bench.Run. single,
// if not nil, is an engine in float32 throughout to compare errors with.
func (e *Engine) Bench(ctx context.Context, single *Engine, opt bench.Options) ([]bench.Result, error) {
	var ceiling bench.Ceiling
	if c, ok := e.backend.(engine.Ceiling); ok {
		ceiling = c.PeakFMA
	}
	if single != nil {
		opt.Float32 = single.backend
	}
	return bench.Run(ctx, e.backend, ceiling, opt)
}

// Scale measures costs along axes on the engine; see bench.Scale.
func (e *Engine) Scale(ctx context.Context, axes []bench.Axis, opt bench.Options) (*bench.Scaling, error) {
	var ceiling bench.Ceiling
	if c, ok := e.backend.(engine.Ceiling); ok {
		ceiling = c.PeakFMA
	}
	return bench.Scale(ctx, e.backend, ceiling, axes, opt)
}

// Device names what the engine computes on, for records.
func (e *Engine) Device() string {
	if a := e.about; a.Backend == "cuda" {
		return fmt.Sprintf("%s, %s; host %s", a.Device, a.ISA, Host())
	}
	return Host()
}

// Host names this machine, for records.
func Host() string {
	name := strings.TrimSpace(cpuid.CPU.BrandName)
	if name == "" {
		name = runtime.GOARCH
	}
	return fmt.Sprintf("%s, %d threads", name, runtime.GOMAXPROCS(0))
}
