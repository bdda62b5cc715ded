package train

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Latents of a chain weigh e^{−m}, m the smallest margin of the action decoded there in
// units of each margin's mean size over the data, held to ±riskReach: about seven times
// more on a broken margin than on a wide one.
const riskReach = 1

// setChain gives the trainer its chain where the rollout phase is of one.
func (r *run) setChain() error {
	if !r.opt.Chain {
		return nil
	}
	c, err := r.chain()
	if err != nil {
		return fmt.Errorf("train: the chains of the rollout phase: %w", err)
	}
	return r.trainer.SetChain(c)
}

// chain lets the map as the manifold phase left it navigate from every row of the data
// (eq. iclr-rollout-loss): the trainer's latents of the rollout phase. Step h executes
// the h-th action of the plan decoded at z̃_h in the state that those before it lead to.
func (r *run) chain() (backend.Chain, error) {
	o, d := &r.opt, r.opt.Data
	spec, horizon := o.Problem.Spec(), o.rollout.Horizon
	m, err := r.navigable()
	if err != nil {
		return backend.Chain{}, err
	}
	rows, nu, nm := d.S.Rows, spec.ActionSize(), len(spec.Margins)
	chain := backend.Chain{Z: tensor.New(rows*horizon, m.Latent()), Weight: make([]float32, rows*horizon)}
	margins, finite := make([]float64, rows*horizon*nm), make([]bool, rows*horizon)
	// Rows of a block take each step together, so that every row keeps its own state.
	states, contexts := tensor.New(rows, d.S.Cols), tensor.New(rows, d.C.Cols)
	p := newPlanner(o.Problem)
	u := make([]float64, nu)
	visit := func(row, step int, z, plan []float32, ok bool) {
		at := row*horizon + step
		if step == 0 {
			copy(states.Row(row), d.S.Row(row))
			copy(contexts.Row(row), d.C.Row(row))
		}
		tensor.Widen(p.s, states.Row(row))
		tensor.Widen(p.c, contexts.Row(row))
		if finite[at] = ok && tensor.Finite(p.s) && tensor.Finite(p.c); !finite[at] {
			return
		}
		copy(chain.Z.Row(at), z)
		tensor.Widen(u, plan[step*nu:(step+1)*nu])
		o.Problem.Margins(p.s, p.c, u, margins[at*nm:(at+1)*nm])
		if step+1 < horizon {
			o.Problem.Step(p.s, p.c, u, p.sNext, p.next)
			tensor.Narrow(states.Row(row), p.sNext)
			tensor.Narrow(contexts.Row(row), p.next)
		}
	}
	if err := batchnav.Chain(o.Backend, m, o.Problem, batchnav.Options{}, horizon, d.S, d.C, d.Preference, visit); err != nil {
		return backend.Chain{}, err
	}
	riskWeights(chain.Weight, margins, finite)
	return chain, nil
}

// riskWeights are the weights of latents from their margins, of mean 1 over those that
// are finite and 0 for the others.
func riskWeights(weight []float32, margins []float64, finite []bool) {
	nm := len(margins) / len(weight)
	size, count := make([]float64, nm), 0
	each := func(visit func(i int, margins []float64)) {
		for i, ok := range finite {
			if ok {
				visit(i, margins[i*nm:(i+1)*nm])
			}
		}
	}
	each(func(_ int, margins []float64) {
		count++
		for j, v := range margins {
			size[j] += math.Abs(v)
		}
	})
	sum := 0.0
	risk := make([]float64, len(weight))
	each(func(i int, margins []float64) {
		least := float64(riskReach)
		for j, v := range margins {
			if scale := size[j] / float64(count); scale > 0 {
				least = math.Min(least, v/scale)
			}
		}
		risk[i] = math.Exp(-math.Max(least, -riskReach))
		sum += risk[i]
	})
	for i, v := range risk {
		if count > 0 {
			weight[i] = float32(v * float64(count) / sum)
		}
	}
}

// navigable is the map that the rollout phase begins with, as a controller would load it.
func (r *run) navigable() (*model.Model, error) {
	nets, err := r.trainer.Networks()
	if err != nil {
		return nil, err
	}
	nets.DecoderU = r.manifoldDecoder
	return r.calibrated(nets)
}
