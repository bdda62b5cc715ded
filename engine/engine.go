// Package engine opens a compute backend by name. The central type is Engine,
// the contract of internal/backend under a public name.
package engine

import (
	"fmt"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
)

// Engine is an open backend. Close it when done.
type Engine = backend.Backend

// Options choose a backend.
type Options struct {
	Backend string // "auto" (or ""), "cuda", "cpu" or "ref"
	Threads int    // CPU threads, 0: every core
}

// Open opens the backend and says why it was chosen.
func Open(o Options) (e Engine, reason string, err error) {
	switch o.Backend {
	case "", "auto":
		b, err := cpufallback.New(cpufallback.Options{Threads: o.Threads})
		if err != nil {
			return nil, "", err
		}
		return b, "auto: this version computes on the CPU, it has no CUDA backend", nil
	case "cpu":
		b, err := cpufallback.New(cpufallback.Options{Threads: o.Threads})
		if err != nil {
			return nil, "", err
		}
		return b, "asked for by --backend cpu", nil
	case "ref":
		return ref.New(), "asked for by --backend ref: float64 and slow", nil
	case "cuda":
		return nil, "", fmt.Errorf("--backend cuda: this version has no CUDA backend; use cpu, or auto")
	}
	return nil, "", fmt.Errorf("unknown backend %q: want auto, cuda, cpu or ref", o.Backend)
}
