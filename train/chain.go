package train

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Latents of a chain have weights e^{−m}. m is the smallest margin of their decoded action, in units of each margin's
// mean size over the data, clamped to ±riskReach. A violated margin weighs about seven times more than a wide one.
const riskReach = 1

// setChain gives the trainer its chain, where the rollout phase uses one.
func (r *run) setChain() error {
	if !r.opt.Chain {
		return nil
	}
	c, err := r.makeChain()
	if err != nil {
		return fmt.Errorf("train: the chains of the rollout phase: %w", err)
	}
	return r.trainer.SetChain(c)
}

// makeChain navigates with the map of the manifold phase from every row of the data (eq. iclr-rollout-loss). It gives
// the trainer's latents of the rollout phase. Step h executes the h-th action of the plan decoded at z̃_h, in the
// state that the earlier steps reach.
func (r *run) makeChain() (backend.Chain, error) {
	o, d := &r.opt, r.opt.Data
	spec, horizon := o.Problem.Spec(), o.rollout.Horizon
	m, err := r.startingMap()
	if err != nil {
		return backend.Chain{}, err
	}
	rows, nu, nm := d.S.Rows, spec.ActionSize(), len(spec.Margins)
	chain := backend.Chain{Z: tensor.New(rows*horizon, m.Latent()), Weight: make([]float32, rows*horizon)}
	margins, finite := make([]float64, rows*horizon*nm), make([]bool, rows*horizon)
	// Rows of a block take each step together, so every row has its own state.
	states, contexts := tensor.New(rows, d.S.Cols), tensor.New(rows, d.C.Cols)
	p := newPlanner(o.Problem)
	u := make([]float64, nu)
	visit := func(row, step int, z, plan []float32, ok bool) {
		place := row*horizon + step
		if step == 0 {
			copy(states.Row(row), d.S.Row(row))
			copy(contexts.Row(row), d.C.Row(row))
		}
		tensor.Widen(p.s, states.Row(row))
		tensor.Widen(p.c, contexts.Row(row))
		if finite[place] = ok && tensor.Finite(p.s) && tensor.Finite(p.c); !finite[place] {
			return
		}
		copy(chain.Z.Row(place), z)
		tensor.Widen(u, plan[step*nu:(step+1)*nu])
		o.Problem.Margins(p.s, p.c, u, margins[place*nm:(place+1)*nm])
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

// riskWeights are the weights of latents from their margins: of mean 1 over the finite ones, and 0 for the others.
func riskWeights(weight []float32, margins []float64, finite []bool) {
	nm := len(margins) / len(weight)
	size, count := make([]float64, nm), 0
	forFinite := func(visit func(i int, margins []float64)) {
		for i, ok := range finite {
			if ok {
				visit(i, margins[i*nm:(i+1)*nm])
			}
		}
	}
	forFinite(func(_ int, margins []float64) {
		count++
		for j, v := range margins {
			size[j] += math.Abs(v)
		}
	})
	sum := 0.0
	risk := make([]float64, len(weight))
	forFinite(func(i int, margins []float64) {
		smallest := float64(riskReach)
		for j, v := range margins {
			if scale := size[j] / float64(count); scale > 0 {
				smallest = math.Min(smallest, v/scale)
			}
		}
		risk[i] = math.Exp(-math.Max(smallest, -riskReach))
		sum += risk[i]
	})
	for i, v := range risk {
		if count > 0 {
			weight[i] = float32(v * float64(count) / sum)
		}
	}
}

// startingMap is the map that the rollout phase starts from, as a controller would load it.
func (r *run) startingMap() (*model.Model, error) {
	nets, err := r.trainer.Networks()
	if err != nil {
		return nil, err
	}
	nets.DecoderU = r.manifoldDecoder
	return r.calibratedModel(nets)
}
