package batchnav

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/tensor"
)

// deviceRefiner is the backend's own refinement of the loaded model; nil where it
// has none, which is told.
func deviceRefiner(l *loaded, capacity int) (backend.Refiner, error) {
	b, ok := l.backend.(backend.RefinerBackend)
	if !ok {
		return nil, nil
	}
	r, err := b.NewRefiner(l.mapConfig(capacity))
	switch {
	case errors.Is(err, backend.ErrNoRefiner):
		if b, ok := l.backend.(backend.Teller); ok {
			if reason := reasonOf(err, backend.ErrNoRefiner); reason != "" {
				b.Tell("refinement "+l.spec.Name, fmt.Sprintf("the proposals for %s are made in single operations, and rolled out on the CPU: %s", l.spec.Name, reason))
			}
		}
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("refinement: %w", err)
	}
	return r, nil
}

// refineOnDevice is Refine by the backend itself: the same candidates, flow,
// roll-out and choice.
func (r *Refiner) refineOnDevice(ctx context.Context, opt *RefineOptions, steps int) (*Refinement, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	start := time.Now()
	q, draw := &r.question[0], newDraws()
	in := backend.RefineInput{
		S: q.S, C: q.C, Preference: q.Preference, Previous: q.Previous, Tau: float32(r.threshold(0)),
		Candidates: q.Count, FlowSteps: opt.FlowSteps, LookAhead: steps, NoProjection: opt.NoProjection,
		NoiseScales: r.noiseScales(), Seed: q.Seed,
	}
	var ok bool
	if in.TerminalCost, ok = r.ends.terminalCost(r.loaded, q.S, q.C, steps, q.Preference); !ok {
		return nil, backend.ErrNoRefiner
	}
	in.Neighbours, in.Sweep, in.Around = shares(q, opt.Mixture)
	if r.index == nil {
		in.Neighbours = 0
	}
	in.Preferences = func(i int, w []float64) { draw.preference(q.Seed, i, in.Sweep, w) }
	out, err := r.device.Refine(in)
	if err != nil {
		return nil, err
	}
	normal := make([]float32, len(q.S))
	tensor.Narrow(normal, q.S)
	r.model.NormS.Apply(normal, normal)
	result := r.refinement(&out, r.residual(normal, out.Decoded), q.Count, steps)
	result.Latency.Total = machine.Microseconds(time.Since(start))
	return result, nil
}
