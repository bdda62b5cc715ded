package kernels

import (
	"fmt"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
)

// manifold plans a step of all four networks, or its losses. Networks of three
// layers take 19 launches and two copies for a step: 6 forward, 3 through the decoders,
// the codes' losses, the sums; then 2 through the encoders, and of these and the decoders,
// side by side, the weight gradients, Adam and the spectral bound.
func (p *planner) manifold(key planKey) {
	t, m := p.t, &p.t.cfg.Manifold
	share := 1 / float32(key.rows)
	index := floats(t.batch, batchHeader)
	kernel := floats(index, key.rows*(1+key.kappa))
	nz, nu := t.layout.nets[0].outputSize(), t.layout.nets[2].outputSize()
	var parts []layerParts
	for start := 0; start < key.rows; start += t.micro {
		n := min(t.micro, key.rows-start)
		neighbours := n * key.kappa
		space := t.layout.manifoldSpace(&carver{base: t.space}, n, key.kappa)
		rows := floats(index, neighbours)
		z := func(row int) address { return floats(space.z, row*quads(nz)) }
		zbar := func(row int) address { return floats(space.zbar, row*quads(nz)) }

		p.partial, p.partials = space.partial, 0
		encode := &pass{
			net: 0, rows: neighbours + n, input: t.data.x.base, ldInput: t.data.x.ld, gather: index,
			output: z(0), delta: zbar(0), space: space.nets[0],
		}
		encodeOracle := &pass{
			net: 1, rows: n, input: t.data.o.base, ldInput: t.data.o.ld, gather: rows,
			output: z(neighbours + n), delta: zbar(neighbours + n), space: space.nets[1],
		}
		action := &pass{
			net: 2, rows: n, input: z(neighbours), ldInput: quads(nz), output: space.u, delta: space.u, inputDelta: space.byU, space: space.nets[2],
			targets: []target{{first: 0, rows: n, data: t.data.u, index: rows, scale: 2 * m.Action * share}},
		}
		state := &pass{
			net: 3, rows: 2 * n, input: z(neighbours), ldInput: quads(nz), output: space.s, delta: space.s, inputDelta: space.byS, space: space.nets[3],
			targets: []target{
				{first: 0, rows: n, data: t.data.s, index: rows, scale: 2 * m.ReconX * share},
				{first: n, rows: n, data: t.data.s, index: rows, scale: 2 * m.ReconO * share},
			},
		}
		p.forward(encode, encodeOracle)
		p.forward(state, action)
		if key.train {
			p.backward(state, action)
		}
		weights := floats(kernel, start*key.kappa)
		if m.Isometry {
			weights = 0
		}
		blocks := ceil(n, latentBlock)
		consistency, locality := p.sumsOf(blocks), p.sumsOf(blocks)
		p.launch("gpc_train_latent", blocks, 32*latentBlock, 0,
			driver.Int32(n), driver.Int32(key.kappa), driver.Int32(nz), driver.Int32(quads(nz)),
			driver.Address(space.z), driver.Address(space.zbar), driver.Address(space.byU), driver.Address(space.byS),
			driver.Address(index), driver.Address(weights), driver.Address(t.data.u.base), driver.Int32(nu), driver.Int32(t.data.u.ld),
			driver.Float32(m.Consistency*share), driver.Float32(m.ConsistencyBeta), driver.Float32(m.Locality*share),
			driver.Float32(m.IsometryAlpha), driver.Address(floats(p.partial, consistency.offset)))
		// One micro-batch alone: the losses are added up beside the way back, and so is the
		// update of the decoders, which are done with.
		p.side = key.train && n == key.rows
		// In the order of backend.ManifoldLosses.
		p.sums(start > 0, state.targets[0].sums, action.targets[0].sums, state.targets[1].sums, consistency, locality)
		p.plan.early = len(p.plan.launches)
		if key.train {
			decoders, encoders := []*pass{action, state}, []*pass{encode, encodeOracle}
			if p.side {
				list := p.parts(decoders...)
				p.gradients(list, false, decoders...)
				p.update(list)
				p.side = false
				decoders = nil
			}
			p.backward(encoders...)
			passes := append(encoders, decoders...)
			if start == 0 {
				parts = p.parts(passes...)
			}
			p.gradients(parts, start > 0, passes...)
		}
		index = floats(index, neighbours+n)
	}
	if key.train {
		p.update(parts)
	}
}

// ManifoldStep implements backend.Trainer. The losses are those before the
// update. After PrepareRollout it is an error: E_x, E_o and D_s are frozen.
func (t *Trainer) ManifoldStep(rows, neighbours []int32, kernel []float32, lr float32) (backend.ManifoldLosses, error) {
	header, err := t.manifoldHeader(lr)
	if err != nil {
		return backend.ManifoldLosses{}, err
	}
	loss, err := t.manifold(manifoldStep, rows, neighbours, kernel, true, header)
	if err == nil {
		t.manifoldSteps++
	}
	return loss, err
}

// Operations that errors name.
const (
	manifoldStep = "ManifoldStep"
	manifoldLoss = "ManifoldLoss"
	rolloutStep  = "RolloutStep"
	rolloutLoss  = "RolloutLoss"
)

// manifoldHeader is what the next update is made with, where there may be one.
func (t *Trainer) manifoldHeader(lr float32) (h [batchHeader]float32, err error) {
	if t.rolloutPrepared {
		return h, fmt.Errorf("%s: PrepareRollout has frozen E_x, E_o and D_s", manifoldStep)
	}
	if err := backend.CheckRate(manifoldStep, lr); err != nil {
		return h, err
	}
	return t.adamHeader(t.manifoldSteps+1, lr), nil
}

// ManifoldLoss implements backend.Trainer.
func (t *Trainer) ManifoldLoss(rows, neighbours []int32, kernel []float32) (backend.ManifoldLosses, error) {
	return t.manifold(manifoldLoss, rows, neighbours, kernel, false, [batchHeader]float32{})
}

func (t *Trainer) manifold(op string, rows, neighbours []int32, kernel []float32, train bool, header [batchHeader]float32) (backend.ManifoldLosses, error) {
	if err := t.cfg.CheckManifold(op, rows, neighbours, kernel); err != nil {
		return backend.ManifoldLosses{}, err
	}
	var sums [manifoldLossCount]float64
	key := planKey{rows: len(rows), kappa: len(neighbours) / len(rows), train: train}
	if err := t.call(key, header, t.manifoldBatch(key.kappa, rows, neighbours, kernel), sums[:]); err != nil {
		return backend.ManifoldLosses{}, fmt.Errorf("%s: %w", op, err)
	}
	return manifoldLosses(&t.cfg, sums, len(rows)), nil
}

// manifoldBatch writes a batch in the order of its micro-batches.
func (t *Trainer) manifoldBatch(kappa int, rows, neighbours []int32, kernel []float32) func(words []int32, weights []float32) {
	return func(words []int32, weights []float32) {
		for start := 0; start < len(rows); start += t.micro {
			n := min(t.micro, len(rows)-start)
			words = words[copy(words, neighbours[start*kappa:(start+n)*kappa]):]
			words = words[copy(words, rows[start:start+n]):]
		}
		copy(weights, kernel)
	}
}

// ManifoldSteps implements backend.SequenceTrainer: as many updates as have a slot are
// queued before their losses are waited for.
func (t *Trainer) ManifoldSteps(updates []backend.ManifoldUpdate, losses []backend.ManifoldLosses) error {
	for _, u := range updates {
		if _, err := t.manifoldHeader(u.Rate); err != nil {
			return err
		}
		if err := t.cfg.CheckManifold(manifoldStep, u.Rows, u.Neighbours, u.Kernel); err != nil {
			return err
		}
	}
	for len(updates) > 0 {
		n := min(len(updates), t.slots)
		if err := t.manifoldSequence(updates[:n], losses[:n]); err != nil {
			return fmt.Errorf("%s: %w", manifoldStep, err)
		}
		updates, losses = updates[n:], losses[n:]
	}
	return nil
}

func (t *Trainer) manifoldSequence(updates []backend.ManifoldUpdate, losses []backend.ManifoldLosses) error {
	err := t.backend.execute(func(th *driver.Thread) error {
		q := t.backend.queue(th)
		for i, u := range updates {
			key := planKey{rows: len(u.Rows), kappa: len(u.Neighbours) / len(u.Rows), train: true}
			plan, err := t.planFor(th, key)
			if err != nil {
				return err
			}
			t.fillSlot(i, key, t.adamHeader(t.manifoldSteps+1+int64(i), u.Rate), t.manifoldBatch(key.kappa, u.Rows, u.Neighbours, u.Kernel))
			t.launchWhole(q, plan, i)
		}
		return q.wait()
	})
	if err != nil {
		return err
	}
	t.manifoldSteps += int64(len(updates))
	for i, u := range updates {
		losses[i] = manifoldLosses(&t.cfg, [manifoldLossCount]float64(driver.HostSlice[float64](t.lossesHost, 8*maxLosses*i, manifoldLossCount)), len(u.Rows))
	}
	return nil
}

// manifoldLosses are the means over so many rows.
func manifoldLosses(cfg *backend.TrainerConfig, sums [manifoldLossCount]float64, rows int) backend.ManifoldLosses {
	for i := range sums {
		sums[i] /= float64(rows)
	}
	loss := backend.ManifoldLosses{ReconX: sums[0], Action: sums[1], ReconO: sums[2], Consistency: sums[3], Locality: sums[4]}
	loss.Total = cfg.Manifold.Total(loss)
	return loss
}
