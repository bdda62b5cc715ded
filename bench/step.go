package bench

import (
	"context"
	"fmt"
	"math"
	"slices"

	cpufallback "github.com/gpc-engine/gpc/cpu_fallback"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// repeatedStep is a step that is made again and again.
type repeatedStep struct {
	stepper backend.Stepper
	cfg     backend.StepperConfig
	in      backend.StepInput
	out     backend.StepOutput
}

func (st *repeatedStep) step() error { return st.stepper.Step(st.in, st.out) }

// stepper prepares a step over n latents.
func (r *Runner) stepper(s Shape, n int) (st repeatedStep, err error) {
	nets, err := s.networks(r.Rand())
	if err != nil {
		return st, err
	}
	rng := r.Rand()
	st.in = backend.StepInput{Z: random(rng, n, s.Latent), Weights: tensor.New(n, s.Objectives)}
	tensor.Fill(st.in.Weights.Data, 1/float32(s.Objectives))
	situation, err := s.situations(rng, r.opt.Seed, n)
	if err != nil {
		return st, err
	}
	st.in.X, st.in.Ctx = situation.x, situation.ctx
	st.out = backend.StepOutput{Z: tensor.New(n, s.Latent), U: tensor.New(n, s.Action)}
	st.cfg = backend.StepperConfig{
		DecoderS: nets.decoderS, DecoderU: nets.decoderU, NormS: situation.normS, NormU: situation.normU,
		Problem: situation.problem, MaxBatch: n,
		Params: backend.StepParams{Dt: 0.05, VMax: 1, Epsilon: 0.05, MetricLambda: metricLambda, TopK: min(topK, s.Latent), LieGain: 0.1, LieScale: 1},
	}
	if st.stepper, err = r.b.NewStepper(st.cfg); err != nil {
		return st, err
	}
	if err := st.step(); err != nil {
		return st, err
	}
	// A step over NaN is not the step that is to be timed.
	for i, v := range st.out.Z.Data {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return st, fmt.Errorf("row %d of the step is not finite", i/s.Latent)
		}
	}
	return st, nil
}

// step is one fused step without localization and retraction.
func step(ctx context.Context, r *Runner, s Shape) error {
	for _, n := range r.opt.Batches {
		st, err := r.stepper(s, n)
		if err != nil {
			return err
		}
		deviation, err := r.deviation(min(n, deviationRows), func(b backend.Backend) ([]float32, error) { return onStep(b, st.cfg, st.in) })
		if err != nil {
			return err
		}
		if r.opt.Record != "" && n == slices.Max(r.opt.Batches) {
			if err := record(r.opt.Record, st.cfg, st.in, st.out); err != nil {
				return err
			}
		}
		flops := cpufallback.StepFLOPs(st.cfg)
		var host []float64 // µs of each call in the problem's own gradients, where a device steps
		split, _ := st.stepper.(backend.SplitStepper)
		if err := r.row(ctx, "step", s, s.String(), n, work{float64(n) * flops, weightBytes(st.cfg.DecoderS) + weightBytes(st.cfg.DecoderU) + float64(n*s.latentBytes())}, deviation, func() error {
			if split == nil {
				return st.step()
			}
			start := split.Split().HostSeconds
			err := st.step()
			if elapsed := split.Split().HostSeconds - start; elapsed > 0 {
				host = append(host, 1e6*elapsed)
			}
			return err
		}); err != nil {
			return err
		}
		if len(host) > 0 {
			r.Add(r.result("step, gradients on the host", s, s.String(), n), host, 0, math.NaN())
		}
	}
	return nil
}

// onStep is what a step gives for the first rows: latents, then actions.
func onStep(b backend.Backend, cfg backend.StepperConfig, in backend.StepInput) ([]float32, error) {
	n := min(in.Z.Rows, deviationRows)
	cfg.MaxBatch = n
	st, err := b.NewStepper(cfg)
	if err != nil {
		return nil, err
	}
	in.Z, in.X = in.Z.Slice(0, n), in.X.Slice(0, n)
	in.Ctx, in.Weights = in.Ctx.Slice(0, n), in.Weights.Slice(0, n)
	out := backend.StepOutput{Z: tensor.New(n, in.Z.Cols), U: tensor.New(n, cfg.DecoderU.Out())}
	if err := st.Step(in, out); err != nil {
		return nil, err
	}
	return append(out.Z.Data, out.U.Data...), nil
}

// stepLocalize is localization among the smaller number of codes and one step. Its
// work counts the distances to every code, 2·n_z a code, which an index may spare:
// it has no rate.
func stepLocalize(ctx context.Context, r *Runner, s Shape) error {
	for _, n := range r.opt.Batches {
		st, err := r.stepper(s, n)
		if err != nil {
			return err
		}
		codes := slices.Min(r.opt.Codes)
		q, err := r.index(s, codes, n)
		if err != nil {
			return err
		}
		flops := float64(n) * (cpufallback.StepFLOPs(st.cfg) + 2*float64(s.Latent)*float64(codes))
		local := backend.LocalizeOutput{Z: st.in.Z}
		if s.controlCase == nil {
			st.in.X = q.x
		}
		if err := r.row(ctx, "step+localize", s, fmt.Sprintf("%s, %d codes", s, codes), n, work{}, nil, func() error {
			if err := q.localize(0, n, local); err != nil {
				return err
			}
			return st.step()
		}); err != nil {
			return err
		}
		r.results[len(r.results)-1].GFlop = flops / 1e9
	}
	return nil
}

// Step prepares steps of n latents at a shape: a call, and its work, FLOP.
func (r *Runner) Step(s Shape, n int) (call func() error, flops float64, err error) {
	st, err := r.stepper(s, n)
	return st.step, float64(n) * cpufallback.StepFLOPs(st.cfg), err
}
