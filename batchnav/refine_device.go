package batchnav

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// deviceRefiner is the backend's own refinement of the loaded model; nil where it
// has none.
func deviceRefiner(l *loaded, capacity int) (backend.Refiner, error) {
	b, ok := l.backend.(backend.RefinerBackend)
	if !ok {
		return nil, nil
	}
	m := l.model
	cfg := backend.RefinerConfig{
		EncoderX: m.EncoderX, NormX: m.NormX,
		Step:       l.stepperConfig(capacity),
		Neighbours: l.nav.Neighbours, InverseRange: l.inverseRange,
	}
	if l.index != nil {
		cfg.Codes, cfg.Decoded = m.Codes, l.decoded
	}
	r, err := b.NewRefiner(cfg)
	switch {
	case errors.Is(err, backend.ErrNoRefiner):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("batchnav: refinement: %w", err)
	}
	return r, nil
}

// refineOnDevice is Refine by the backend itself: the same candidates, flow,
// roll-out and choice.
func (r *Refiner) refineOnDevice(ctx context.Context, obs *Observation, opt *RefineOptions) (*Refinement, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	start := time.Now()
	in := backend.RefineInput{
		S: obs.S, C: obs.C, Preference: obs.Preference, Tau: r.threshold(0),
		Candidates: opt.Candidates, FlowSteps: opt.FlowSteps, LookAhead: lookAhead(r.problem, obs.C, opt), NoProjection: opt.NoProjection,
		NoiseScales: r.noiseScales(), Seed: opt.Seed,
	}
	draw := newDraws()
	in.Noise = func(i int, normals []float64) { draw.noise(opt.Seed, i, normals) }
	in.Neighbours, in.Sweep = quotas(opt.Candidates, opt.Mixture)
	if r.index == nil {
		in.Neighbours = 0
	}
	in.Preferences = func(i int, w []float64) { draw.preference(opt.Seed, i, in.Sweep, w) }
	out, err := r.device.Refine(in)
	if err != nil {
		return nil, err
	}
	result := &Refinement{
		U: out.U, Cost: out.Cost, Margin: out.Margin, Feasible: out.Feasible, Candidates: opt.Candidates, Index: out.Index, Source: Source(out.Source),
		FeasibleCount: out.FeasibleCount, LookAhead: in.LookAhead, LocalizedCost: out.FirstCost, LocalizedFeasible: out.FirstMargin >= -r.spec.MarginTolerance,
		Sigma: out.Sigma, Consistent: out.Consistent,
	}
	for i, s := range out.Sources {
		if s.Candidates > 0 {
			result.Sources = append(result.Sources, SourceStatistics{Source: Source(i), Candidates: s.Candidates, Feasible: s.Feasible, BestCost: s.BestCost, MeanCost: s.MeanCost})
		}
	}
	r.observe(obs.S, obs.C, obs.Preference, r.slot, make([]float32, r.spec.ObservationSize()), r.state.Row(0), r.ctx.Row(0), r.normal.Row(0))
	r.model.NormS.Apply(out.Decoded, out.Decoded)
	result.Residual = tensor.SquaredDistance(r.normal.Row(0), out.Decoded)
	result.Latency.Total = microseconds(time.Since(start))
	return result, nil
}
