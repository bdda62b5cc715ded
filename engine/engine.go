// Package engine opens a compute backend by name. The central type is Engine,
// the contract of internal/backend under a public name.
package engine

import (
	"fmt"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/names"
	"github.com/gpc-engine/gpc/internal/option"
	"github.com/gpc-engine/gpc/internal/ref"
)

// Engine is an open backend. Close it when done.
type Engine = backend.Backend

// Ceiling is implemented by an engine that measures what its device can do at most.
type Ceiling interface {
	PeakFMA() float64       // float32 multiply-adds, FLOP/s; 0: not measured
	PeakBandwidth() float64 // triad over memory, bytes/s; 0: not measured
}

// Options choose a backend.
type Options struct {
	Backend string // "auto" (or ""), "cuda", "cpu" or "ref"
	Threads int    // CPU threads, 0: every core
	// Device is the GPU, by its place among those that CUDA_VISIBLE_DEVICES leaves, from 0; nil: the first usable one.
	Device *int
	// TF32 lets the CUDA backend round the inputs of large products to TF32, for the
	// tensor cores (kernels.Options). The CPU backends have no such thing and refuse it.
	TF32 bool
	// Notice is told when `auto` leaves a GPU that failed and goes on on the CPU, and where a GPU leaves
	// equations to the CPU, as there is no compiler for them; nil: nobody is.
	Notice func(string)
}

// Open opens the backend and says why it was chosen. "auto" is CUDA where a usable
// device answers, with the CPU behind it: if the device fails, work goes on there
// with the same state. Otherwise it is the CPU, and the reason says what CUDA lacks.
// "cuda" is CUDA alone, and an error where that cannot be had; a Device under "auto" is
// that too, as long as nothing has begun. The engines of a process share one context of a
// device; each is closed by itself.
func Open(o Options) (e Engine, reason string, err error) {
	if o.TF32 && (o.Backend == "cpu" || o.Backend == "ref") {
		return nil, "", option.Errorf("{Backend} %s: only the CUDA backend has {TF32}", o.Backend)
	}
	if err := o.checkDevice(); err != nil {
		return nil, "", err
	}
	switch o.Backend {
	case "", "auto":
		return openAuto(o)
	case "cpu":
		b, err := cpufallback.New(cpufallback.Options{Threads: o.Threads})
		if err != nil {
			return nil, "", err
		}
		return b, "asked for: cpu", nil
	case "ref":
		return ref.New(), "asked for: ref, float64 and slow", nil
	case "cuda":
		b, reason, err := openCUDA(o)
		if err != nil {
			return nil, "", option.Errorf("{Backend} cuda: %w", err)
		}
		return b, "asked for: cuda, " + reason, nil
	}
	return nil, "", fmt.Errorf("unknown backend %q%s (want auto, cuda, cpu or ref)", o.Backend, names.Meant(o.Backend, []string{"auto", "cuda", "cpu", "ref"}))
}

// OnDevice is a solver whose solves are those of an engine that is a GPU, where it can solve them; why it cannot is told once.
func OnDevice(e Engine, solver domain.Solver, name string) domain.Solver {
	planner, ok := e.(backend.Planner)
	if !ok || e.Describe().Name != "cuda" {
		return solver
	}
	device, err := domain.AbilitiesOfSolver(solver).Accelerate(planner.NewPlans)
	if err == nil {
		return device
	}
	if t, ok := e.(backend.Teller); ok {
		text := fmt.Sprintf("optima of %s are solved on the CPU: %v", name, err)
		t.Tell(text, text)
	}
	return solver
}
