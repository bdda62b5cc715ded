package kernels

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/model"
)

// rolloutData is what the frozen networks determine, on the device: the codes of
// all rows and, of rows with a successor, z̃, ‖z̃ − ẑ^α‖² and ‖Δz_Lie‖². With a horizon
// there are chains in place of these three, 0 until they are given.
type rolloutData struct {
	z, lie        address // [rows][quads(n_z)]
	anchor, reg   address // [rows]
	chain, weight address // [rows·horizon][quads(n_z)] and [rows·horizon]
}

// rollout plans a step of D_u, or its losses. A network of three layers takes 11
// launches and two copies per micro-batch of a step: the latents, 3 forward, the
// losses, their sums; then 2 backward, the weight gradients, Adam, the spectral
// bound.
func (p *planner) rollout(key planKey) {
	t, c := p.t, &p.t.cfg.Rollout
	share := 1 / float32(key.rows)
	nz, latents := t.layout.nets[2].inputSize(), t.layout.rolloutLatents()
	var parts []layerParts
	for start := 0; start < key.rows; start += t.micro {
		n := min(t.micro, key.rows-start)
		space := t.layout.rolloutSpace(&carver{base: t.space}, n)
		index := floats(t.batch, batchHeader+start)
		p.partial, p.partials = space.partial, 0
		action := &pass{
			net: 2, rows: latents * n, input: space.in, ldInput: quads(nz), output: space.out, delta: space.out, space: space.action,
		}
		blocks, losses := ceil(n, latentBlock), rolloutLossCount
		if c.Horizon > 0 {
			losses = chainLossCount
			p.chains(n, index, space, action, share)
		} else {
			p.transitions(n, index, space, action, share)
		}
		spans := make([]span, losses)
		for i := range spans {
			spans[i] = p.sumsOf(blocks)
		}
		p.sums(start > 0, spans...)
		p.plan.early = len(p.plan.launches)
		if key.train {
			p.backward(action)
			if start == 0 {
				parts = p.parts(action)
			}
			p.gradients(parts, start > 0, action)
		}
	}
	if key.train {
		p.update(parts)
	}
}

// transitions launches the latents, D_u and the losses of n transitions (eq. du_obj).
func (p *planner) transitions(n int, index address, space rolloutSpace, action *pass, share float32) {
	t, c := p.t, &p.t.cfg.Rollout
	nz, nu := t.layout.nets[2].inputSize(), t.layout.nets[2].outputSize()
	p.launch("gpc_train_rollout_latents", min(ceil(n*nz, 256), 4096), 256, 0,
		driver.Int32(n), driver.Int32(nz), driver.Int32(quads(nz)), driver.Address(index), driver.Address(t.data.next),
		driver.Address(t.latents.z), driver.Address(t.latents.lie), driver.Float32(c.RollFraction), driver.Float32(c.FlowFraction),
		driver.Address(space.in))
	p.forward(action)
	p.launch("gpc_train_rollout_loss", ceil(n, latentBlock), 32*latentBlock, 0,
		driver.Int32(n), driver.Int32(nu), driver.Int32(quads(nu)), driver.Address(space.out), driver.Address(index), driver.Address(t.data.next),
		driver.Address(t.data.u.base), driver.Int32(t.data.u.ld), driver.Address(t.data.risk),
		driver.Address(t.latents.anchor), driver.Address(t.latents.reg), driver.Address(t.batch), driver.Float32(share),
		driver.Float32(c.Delta), driver.Float32(c.Roll), driver.Float32(c.Flow), driver.Float32(c.Lie), driver.Float32(c.FlowFraction),
		driver.Address(p.partial))
}

// chains launches those of n rows with their chains (eq. iclr-rollout-loss).
func (p *planner) chains(n int, index address, space rolloutSpace, action *pass, share float32) {
	t, c := p.t, &p.t.cfg.Rollout
	nz, nu := t.layout.nets[2].inputSize(), t.layout.nets[2].outputSize()
	p.launch("gpc_train_chain_latents", min(ceil(n*nz, 256), 4096), 256, 0,
		driver.Int32(n), driver.Int32(nz), driver.Int32(quads(nz)), driver.Int32(c.Horizon), driver.Address(index),
		driver.Address(t.latents.z), driver.Address(t.latents.chain), driver.Address(space.in))
	p.forward(action)
	p.launch("gpc_train_chain_loss", ceil(n, latentBlock), 32*latentBlock, 0,
		driver.Int32(n), driver.Int32(nu), driver.Int32(quads(nu)), driver.Int32(c.Horizon), driver.Address(space.out), driver.Address(index),
		driver.Address(t.data.u.base), driver.Int32(t.data.u.ld), driver.Address(t.latents.weight),
		driver.Float32(share), driver.Float32(c.Roll), driver.Address(p.partial))
}

// PrepareRollout implements backend.Trainer.
func (t *Trainer) PrepareRollout() error {
	const op = "PrepareRollout"
	if err := t.cfg.CheckPairs(op); err != nil {
		return err
	}
	if !t.rolloutPrepared || t.cfg.Rollout.Horizon > 0 { // what the latents depend on is frozen since
		if err := t.prepareLatents(); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
	}
	net := t.layout.nets[2]
	first, last := net[0].offset, net[len(net)-1]
	err := t.backend.execute(func(th *driver.Thread) error {
		zero := func(moments address) error {
			return th.ZeroAsync(floats(moments, first), 4*(last.offset+last.size-first), t.backend.stream)
		}
		return errors.Join(zero(t.first), zero(t.second))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	t.rolloutSteps, t.rolloutPrepared = 0, true
	return nil
}

// prepareLatents computes the codes of all rows and the Lie rollout latents of
// those with a successor (eq. du_lie_latent), all on the device.
func (t *Trainer) prepareLatents() error {
	nets, err := t.Networks()
	if err != nil {
		return err
	}
	rows, nz := t.cfg.Data.X.Rows, quads(t.layout.nets[0].outputSize())
	return t.backend.execute(func(th *driver.Thread) error {
		for _, key := range slices.Clone(t.memory.plans.order) {
			if key.rollout {
				if err := t.dropPlan(th, t.memory.plans.take(key)); err != nil {
					return err
				}
			}
		}
		m := &t.memory.latents
		if err := m.free(th); err != nil {
			return err
		}
		q := t.backend.queue(th)
		room := func(n int) address { return q.alloc(m, 4*n) }
		t.latents = rolloutData{z: room(rows * nz)}
		if t.cfg.Rollout.Horizon == 0 {
			t.latents.lie, t.latents.anchor, t.latents.reg = room(rows*nz), room(rows), room(rows)
		}
		if q.err != nil {
			return q.err
		}
		if err := t.encode(th); err != nil || t.cfg.Rollout.Horizon > 0 {
			return err
		}
		var scratch memory
		return errors.Join(t.lieLatents(th, &scratch, nets.DecoderS), scratch.free(th))
	})
}

// SetChain implements backend.Trainer.
func (t *Trainer) SetChain(c backend.Chain) error {
	const op = "SetChain"
	nz := t.layout.nets[0].outputSize()
	if err := t.cfg.CheckChain(op, t.rolloutPrepared, nz, c); err != nil {
		return err
	}
	err := t.backend.execute(func(th *driver.Thread) error {
		q := t.backend.queue(th)
		z, weight := dataMatrix{t.latents.chain, quads(nz)}, t.latents.weight
		if z.base == 0 {
			z.base, weight = q.alloc(&t.memory.latents, 4*c.Z.Rows*z.ld), q.alloc(&t.memory.latents, 4*c.Z.Rows)
		}
		z.fill(q, c.Z)
		fill(q, weight, c.Weight)
		if err := q.wait(); err != nil {
			return err
		}
		t.latents.chain, t.latents.weight = z.base, weight
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// encode writes E_x of all rows to latents.z.
func (t *Trainer) encode(th *driver.Thread) error {
	p := &planner{t: t}
	x, z := t.data.x, quads(t.layout.nets[0].outputSize())
	for start := 0; start < t.cfg.Data.X.Rows; start += t.micro {
		n := min(t.micro, t.cfg.Data.X.Rows-start)
		p.forward(&pass{
			net: 0, rows: n, input: floats(x.base, start*x.ld), ldInput: x.ld, output: floats(t.latents.z, start*z),
			space: t.layout.manifoldSpace(&carver{base: t.space}, n, 0).nets[0],
		})
	}
	if err := t.place(th, p); err != nil {
		return err
	}
	q := t.backend.queue(th)
	t.start(q, p.plan.launches)
	return errors.Join(q.wait(), p.plan.memory.free(th))
}

// frameRows are given their eigenframes at a time.
const frameRows = 1 << 14

// lieLatents fills latents.lie, anchor and reg from the eigenframes of the metric
// of D_s, of some rows of the data set at a time.
func (t *Trainer) lieLatents(th *driver.Thread, scratch *memory, decoder *model.MLP) error {
	b, c := t.backend, t.cfg.Rollout
	rows, nz := t.cfg.Data.X.Rows, t.layout.nets[0].outputSize()
	q := b.queue(th)
	packed := packNet(q, scratch, "decoder D_s", decoder)
	if q.err != nil {
		return q.err
	}
	jac := 0
	if !b.fused(packed) {
		jac = packed.in * packed.out
	}
	chunk := min(rows, frameRows, max(1, maxElements/max(jac, nz*nz)))
	room := func(n int) address { return q.alloc(scratch, 4*chunk*n) }
	mask, jacobians, metrics := room(packed.maskWords), room(jac), room(nz*nz)
	values, vectors := room(c.TopK), room(nz*c.TopK)
	for start := 0; start < rows; start += chunk {
		n := min(chunk, rows-start)
		if c.TopK > 0 {
			job := forwardJob{net: packed.device, z: floats(t.latents.z, start*quads(nz)), mask: mask, ldz: int32(quads(nz))}
			q.forward(n, packed.width, &job)
			q.metric(packed, n, mask, c.MetricLambda, jacobians, metrics)
			q.eig(n, nz, c.TopK, metrics, nz*nz, values, vectors)
		}
		q.launch("gpc_train_lie", driver.Dim{X: ceil(n, latentBlock)}, 32*latentBlock, 0,
			driver.Int32(start), driver.Int32(n), driver.Int32(nz), driver.Int32(quads(nz)), driver.Int32(c.TopK), driver.Address(t.data.next),
			driver.Address(t.latents.z), driver.Address(vectors), driver.Address(values), driver.Float32(c.RollFraction),
			driver.Float32(c.LieScale*c.LieDt), driver.Float32(c.LieGain),
			driver.Address(t.latents.lie), driver.Address(t.latents.anchor), driver.Address(t.latents.reg))
	}
	return q.wait()
}

// RolloutStep implements backend.Trainer. The losses are those before the
// update.
func (t *Trainer) RolloutStep(rows []int32, lr float32) (backend.RolloutLosses, error) {
	if err := backend.CheckRate(rolloutStep, lr); err != nil {
		return backend.RolloutLosses{}, err
	}
	loss, err := t.rollout(rolloutStep, rows, true, t.adamHeader(t.rolloutSteps+1, lr))
	if err == nil {
		t.rolloutSteps++
	}
	return loss, err
}

// RolloutLoss implements backend.Trainer.
func (t *Trainer) RolloutLoss(rows []int32) (backend.RolloutLosses, error) {
	return t.rollout(rolloutLoss, rows, false, [batchHeader]float32{})
}

func (t *Trainer) rollout(op string, rows []int32, train bool, header [batchHeader]float32) (backend.RolloutLosses, error) {
	if err := t.cfg.CheckRollout(op, t.rolloutPrepared, t.latents.chain != 0, rows); err != nil {
		return backend.RolloutLosses{}, err
	}
	header[batchRisk] = riskFactor(&t.cfg, rows)
	var sums [rolloutLossCount]float64
	if err := t.call(planKey{rollout: true, rows: len(rows), train: train}, header, func(words []int32, _ []float32) { copy(words, rows) }, sums[:]); err != nil {
		return backend.RolloutLosses{}, fmt.Errorf("%s: %w", op, err)
	}
	return rolloutLosses(&t.cfg, sums, len(rows)), nil
}

// riskFactor is one over the mean of the numerators of eq. traj_weight in a batch, 0
// where every weight is 1 or there are none.
func riskFactor(cfg *backend.TrainerConfig, rows []int32) float32 {
	if cfg.Rollout.Horizon > 0 {
		return 0
	}
	mean := 0.0
	for _, r := range rows {
		mean += float64(cfg.Data.RiskWeight[r])
	}
	if mean /= float64(len(rows)); mean > 0 {
		return float32(1 / mean)
	}
	return 0
}

// rolloutLosses are the means over so many rows.
func rolloutLosses(cfg *backend.TrainerConfig, sums [rolloutLossCount]float64, rows int) backend.RolloutLosses {
	for i := range sums {
		sums[i] /= float64(rows)
	}
	loss := backend.RolloutLosses{Act: sums[0], Roll: sums[1]}
	if cfg.Rollout.Horizon == 0 {
		loss = backend.RolloutLosses{
			Act: sums[0], ActNext: sums[1], Delta: sums[2], Roll: sums[3], Flow: sums[4],
			LieAct: sums[5], LieDelta: sums[6], LieAnchor: sums[7], LieReg: sums[8],
		}
	}
	loss.Total = cfg.Rollout.Total(loss)
	return loss
}
