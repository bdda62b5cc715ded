package backendtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/tensor"
)

// loopsDecisions are as many as show that the latents are a state.
const loopsDecisions = 3

// runLoops takes closed loops through a few decisions: the backend's own loops where
// it keeps them, those of single operations otherwise. Loops differ in smoothing,
// steering and, at the second decision, in having an observation at all.
func runLoops(b backend.Backend, cfg backend.LoopsConfig, seed uint64) (out []backend.LoopsOutput, err error) {
	var l backend.Loops
	kept, ok := b.(backend.LoopsBackend)
	if ok {
		l, err = kept.NewLoops(cfg)
	}
	if !ok || errors.Is(err, backend.ErrNoLoops) {
		l, err = backend.NewHostLoops(b, cfg)
	}
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	spec, rows := cfg.Step.Problem.Spec(), cfg.Step.MaxBatch
	m := spec.ObjectiveSize()
	sigma := make([]float64, rows*m)
	for i := range sigma {
		sigma[i] = 1 / float64(m)
	}
	for step := range loopsDecisions {
		in := backend.NewLoopsInput(spec, rows)
		in.S = testdomain.Matrix(rng, rows, spec.MeasuredSize())
		copy(in.Sigma, sigma)
		for i := range in.C {
			in.C[i] = rng.NormFloat64()
		}
		for i := range rows {
			in.Slot.Row(i)[0] = 1
			in.Tau[i], in.Smoothing[i], in.Steering[i] = 2, 1, backend.Steering(i%3)
			if step > 0 {
				in.Smoothing[i] = []float32{1, 0.5, 0}[i%3]
			}
			in.Hold[i] = step == 1 && i == 1
		}
		o := backend.NewLoopsOutput(spec, rows)
		o.U, o.Z = output(rows, spec.PlanSize()), output(rows, cfg.Step.DecoderS.In())
		if err := l.Decide(in, o); err != nil {
			return nil, fmt.Errorf("decision %d: %w", step, err)
		}
		copy(sigma, o.Sigma)
		out = append(out, o)
	}
	z := tensor.New(rows, cfg.Step.DecoderS.In())
	if err := l.Latents(z); err != nil {
		return nil, err
	}
	for i := range rows {
		for j, v := range z.Row(i) {
			if v != out[loopsDecisions-1].Z.Row(i)[j] {
				return nil, fmt.Errorf("the latent of loop %d is %v, its last decision ended at %v", i, z.Row(i), out[loopsDecisions-1].Z.Row(i))
			}
		}
	}
	return out, nil
}

// checkLoops holds decisions of closed loops to those of the reference: errors of
// one decision enter the next, so that the tolerance is the step's times their count.
func checkLoops(t testing.TB, open Open) {
	for k, s := range []stepShape{{3, 33, 4, 9, 2, 1, 3, 9}, {5, 33, 12, 3, 2, 6, 4, 33}} {
		rng := rand.New(rand.NewPCG(uint64(k), 0x100b))
		step := s.config(rng)
		step.Params.LieGain = 0 // whose eigenframe may not be resolved
		step.Params.Dt = 0.02
		spec := step.Problem.Spec()
		codes := testdomain.Matrix(rng, 40, s.latent)
		decoded := tensor.New(40, s.measured)
		require.OK(t, step.DecoderS.Forward(codes, decoded))
		cfg := backend.LoopsConfig{
			MapConfig: backend.MapConfig{
				EncoderX: testdomain.Network(rng, 0.2, spec.ObservationSize(), s.hidden, s.latent), NormX: randomNormalizer(rng, spec.ObservationSize()), Step: step,
				Codes: codes, Decoded: decoded, Neighbours: 4, InverseRange: []float64{1, 0.5, 2},
			},
			RetractionMix: 0.3, PriorityFilter: 0.5, Smooths: true,
		}
		for _, direct := range []bool{false, true} {
			cfg.Direct = direct
			want := require.Get(runLoops(ref.New(), cfg, uint64(k)))(t)
			b := open(t, 0)
			got, err := runLoops(b, cfg, uint64(k))
			if err != nil {
				t.Errorf("shape %v, direct %v: %v", s, direct, err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			for d := range got {
				if err := sameDecision(got[d], want[d], loopsDecisions*tolStepAction.Relative); err != nil {
					t.Errorf("shape %v, direct %v, decision %d: %v", s, direct, d, err)
				}
			}
		}
	}
}

func sameDecision(got, want backend.LoopsOutput, tolerance float64) error {
	for i := range want.Flags {
		if got.Flags[i] != want.Flags[i] || got.Fallbacks[i] != want.Fallbacks[i] {
			return fmt.Errorf("loop %d: flags %b and guards %b, want %b and %b", i, got.Flags[i], got.Fallbacks[i], want.Flags[i], want.Fallbacks[i])
		}
		m := len(want.Sigma) / len(want.Flags)
		row := func(o backend.LoopsOutput) []float32 {
			v := append(append([]float32(nil), o.U.Row(i)...), o.Z.Row(i)...)
			for _, x := range append([]float64{o.Residual[i], o.Displacement[i]}, o.Sigma[i*m:(i+1)*m]...) {
				v = append(v, float32(x))
			}
			return v
		}
		g, w := row(got), row(want)
		scale := 1.0
		for _, v := range w {
			scale = max(scale, float64(v), -float64(v))
		}
		for j, v := range w {
			if d := float64(g[j]) - float64(v); !(d <= tolerance*scale && d >= -tolerance*scale) {
				return fmt.Errorf("loop %d: value %d of plan, latent, residual, displacement and σ is %v, want %v", i, j, g[j], v)
			}
		}
	}
	return nil
}
