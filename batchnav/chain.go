package batchnav

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// chainRows observations go along their chains together.
const chainRows = 1024

// Chain takes horizon latent steps for every observation, as a decision takes one. An observation is a row of s, c and
// preference (a flag that is 0 in the adaptive mode, then w) in physical units. The first step begins at the localized
// code, each further one where the last ended. A step is priority, flow, Lie residual and retraction (z̃_1 … z̃_H of
// eq. iclr-rollout-loss). visit receives each latent with the clipped plan decoded there, in order of steps within a
// row. Both are valid during the call. finite is false where the guards left no number.
func Chain(b backend.Backend, m *model.Model, p domain.Problem, opt Options, horizon int, s, c, preference tensor.Matrix, visit func(row, step int, z, plan []float32, finite bool)) error {
	l, err := load(b, m, p, &opt)
	if err != nil {
		return err
	}
	n, nc, objectives := min(s.Rows, chainRows), l.spec.ContextSize(), l.spec.ObjectiveSize()
	latents, _, err := l.makeLoops(backend.LoopsConfig{
		MapConfig: l.mapConfig(n), RetractionMix: l.nav.RetractionMix, PriorityFilter: l.nav.PriorityFilter, Smooths: true,
	})
	if err != nil {
		return err
	}
	in, out := backend.NewLoopsInput(l.spec, n), backend.NewLoopsOutput(l.spec, n)
	out.Sigma, out.Z = in.Sigma, tensor.New(n, m.Latent())
	w, slot := make([]float64, objectives), make([]float64, preference.Cols)
	for start := 0; start < s.Rows; start += n {
		for i := range n {
			row := min(start+i, s.Rows-1) // the last block is filled up with the last row
			copy(in.S.Row(i), s.Row(row))
			tensor.Widen(in.C[i*nc:(i+1)*nc], c.Row(row))
			adaptive := preference.Row(row)[0] == 0
			tensor.Widen(w, preference.Row(row)[1:])
			domain.Preference{Adaptive: adaptive, W: w}.Slot(slot, m.Calibration.PreferenceFloor)
			tensor.Narrow(in.Slot.Row(i), slot)
			in.Tau[i], in.Smoothing[i], in.Steering[i] = float32(l.threshold(0)), 1, backend.SteerSet
			if !adaptive {
				in.Steering[i] = backend.SteerKeep
				copy(in.Sigma[i*objectives:(i+1)*objectives], w)
			}
		}
		for step := range horizon {
			if err := latents.Decide(in, out); err != nil {
				return err
			}
			for i := range min(n, s.Rows-start) {
				visit(start+i, step, out.Z.Row(i), out.U.Row(i), out.Flags[i]&backend.LoopFinite != 0)
			}
			clear(in.Smoothing) // z_t = z_{t−1}: no step but the first begins at the observation's place
		}
	}
	return nil
}
