package cpufallback

import (
	"slices"

	"github.com/gpc-engine/gpc/internal/backend"
)

// SetChain implements backend.Trainer.
func (t *Trainer) SetChain(c backend.Chain) error {
	if err := t.cfg.CheckChain("SetChain", t.rolloutPrepared, t.nets[0].out(), c); err != nil {
		return err
	}
	t.rollout.chain = backend.Chain{Z: c.Z.Clone(), Weight: slices.Clone(c.Weight)}
	return nil
}

func (t *Trainer) chained() bool { return t.rollout != nil && t.rollout.chain.Z.Rows > 0 }

// chainChunk is chunk for the loss along chains (training.ChainLoss is the specification):
// latent 0 of a row is its code, latent h its z̃_h.
func (w *rolloutWork) chainChunk(t *Trainer, chunk int) {
	d, k := &t.cfg.Data, t.kernel
	r, n := chunkSpan(len(w.rows), chunk)
	nz, nu, horizon := w.z.Cols, d.U.Cols, w.latents-1
	part := nu / horizon
	for i := r; i < r+n; i++ {
		row := int(w.rows[i])
		copy(w.in.row(i, nz), w.z.Row(row))
		for h := range horizon {
			copy(w.in.row((1+h)*rolloutRows+i, nz), w.chain.Z.Row(row*horizon+h))
		}
	}
	for l := range w.latents {
		w.action.forward(k, l*rolloutRows+r, n)
	}
	var sum backend.RolloutLosses
	for i := r; i < r+n; i++ {
		row := int(w.rows[i])
		u, now := d.U.Row(row), w.out.row(i, nu)
		var act float32
		for j := range nu {
			e := now[j] - u[j]
			act += e * e
			now[j] = 2 * w.share * e
		}
		sum.Act += float64(act)
		for h := range horizon {
			weight := w.chain.Weight[row*horizon+h]
			next := w.out.row((1+h)*rolloutRows+i, nu)
			var rolled float32
			for j := range nu {
				if j < h*part || j >= (h+1)*part {
					next[j] = 0
					continue
				}
				e := next[j] - u[j]
				rolled += e * e
				next[j] = 2 * w.share * weight * t.cfg.Rollout.Roll * e
			}
			sum.Roll += float64(weight) * float64(rolled)
		}
	}
	w.partial[chunk] = sum
	if w.train {
		for l := range w.latents {
			w.action.backward(k, l*rolloutRows+r, n)
		}
	}
}
