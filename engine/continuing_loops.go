package engine

import (
	"math"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// survivingLoops are closed loops that survive the loss of their backend. Where decisions are
// smoothed, and so depend on the latents of the decision before, these are asked for
// at each decision and kept here, n_z numbers a loop; elsewhere they stay on the
// device.
type survivingLoops struct {
	*movable[backend.Loops]
	smooths bool
	width   int           // n_z
	latents tensor.Matrix // of the decision before; no rows: there was none
	fresh   tensor.Matrix
	sigma   []float64
}

// NewLoops is that of the first backend, where it has one; on the second backend the
// same loops are made of single operations.
func (c *continuing) NewLoops(cfg backend.LoopsConfig) (backend.Loops, error) {
	if _, ok := c.first.(backend.LoopsBackend); !ok || c.isFirstLost() {
		return nil, backend.ErrNoLoops
	}
	if cfg.Validate() == nil {
		cfg.EncoderX, cfg.Step.DecoderS, cfg.Step.DecoderU = cfg.EncoderX.Clone(), cfg.Step.DecoderS.Clone(), cfg.Step.DecoderU.Clone()
		cfg.Codes, cfg.Decoded = cfg.Codes.Clone(), cfg.Decoded.Clone()
		cfg.InverseRange = append([]float64(nil), cfg.InverseRange...)
	}
	k := &survivingLoops{smooths: cfg.Smooths}
	if cfg.Step.DecoderS != nil {
		k.width = cfg.Step.DecoderS.In()
	}
	var err error
	k.movable, err = newMovable(c, "navigation", func(b backend.Backend) (backend.Loops, error) {
		if d, ok := b.(backend.LoopsBackend); ok {
			return d.NewLoops(cfg)
		}
		l, err := backend.NewHostLoops(b, cfg)
		if err != nil || k.latents.Rows == 0 {
			return l, err
		}
		return l, l.SetLatents(k.latents)
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Decide asks for the latents where a later decision depends on them. What a failed
// call has overwritten of its input is given to the second backend as it was.
func (k *survivingLoops) Decide(in backend.LoopsInput, out backend.LoopsOutput) error {
	if k.onSecond {
		return k.inner.Decide(in, out)
	}
	k.sigma = append(k.sigma[:0], in.Sigma...)
	in.Sigma = k.sigma
	if k.smooths && out.Z.Rows == 0 {
		if k.fresh.Rows == 0 {
			k.fresh = tensor.New(in.S.Rows, k.width)
		}
		out.Z = k.fresh
	}
	if err := k.call(func(l backend.Loops) error { return l.Decide(in, out) }); err != nil {
		return err
	}
	if !k.smooths || k.onSecond {
		return nil
	}
	if k.latents.Rows == 0 {
		k.latents = tensor.New(out.Z.Rows, out.Z.Cols)
		tensor.Fill(k.latents.Data, float32(math.NaN()))
	}
	for i, flags := range out.Flags {
		if flags&backend.LoopFinite != 0 && !in.Hold[i] {
			copy(k.latents.Row(i), out.Z.Row(i))
		}
	}
	return nil
}

func (k *survivingLoops) Latents(z tensor.Matrix) error {
	return k.call(func(l backend.Loops) error { return l.Latents(z) })
}

func (k *survivingLoops) SetLatents(z tensor.Matrix) error {
	err := k.call(func(l backend.Loops) error { return l.SetLatents(z) })
	if err == nil && !k.onSecond {
		k.latents = z.Clone()
	}
	return err
}
