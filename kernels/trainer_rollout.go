package kernels

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

// rolloutData is what the frozen networks determine, on the device: the codes of
// all rows and, of rows with a successor, z̃, ‖z̃ − ẑ^α‖² and ‖Δz_Lie‖².
type rolloutData struct {
	z, lie      address // [rows][quads(n_z)]
	anchor, reg address // [rows]
}

const (
	maxFrame = 64 // eigenpairs that gpc_train_lie takes
	// encodeRows are encoded at a time, and frameRows given their eigenframes.
	frameRows = 4096
)

// rollout plans a step of D_u, or its losses. A network of three layers takes 10
// launches and two copies per micro-batch of a step: the latents, 3 forward, the
// losses, their sums; then 2 backward, the weight gradients, Adam, the spectral
// bound.
func (p *planner) rollout(key planKey) {
	t, c := p.t, &p.t.cfg.Rollout
	share := 1 / float32(key.rows)
	nz, nu := t.layout.nets[2].in(), t.layout.nets[2].out()
	var parts []layerParts
	for from := 0; from < key.rows; from += t.micro {
		n := min(t.micro, key.rows-from)
		space := t.layout.rolloutSpace(&carver{base: t.space}, n)
		index := floats(t.batch, batchHeader+from)
		action := &pass{
			net: 2, rows: rolloutLatents * n, input: space.in, ldInput: quads(nz), output: space.out, delta: space.out, space: space.action,
		}
		p.launch("gpc_train_rollout_latents", min(blocks(n*nz, 256), 4096), 256, 0,
			driver.Int32(n), driver.Int32(nz), driver.Int32(quads(nz)), driver.Address(index), driver.Address(t.data.next),
			driver.Address(t.latents.z), driver.Address(t.latents.lie), driver.Float32(c.RollFraction), driver.Float32(c.FlowFraction),
			driver.Address(space.in))
		p.forward(action)
		blocks := blocks(n, latentBlock)
		p.launch("gpc_train_rollout_loss", blocks, 32*latentBlock, 0,
			driver.Int32(n), driver.Int32(nu), driver.Int32(quads(nu)), driver.Address(space.out), driver.Address(index), driver.Address(t.data.next),
			driver.Address(t.data.u.at), driver.Int32(t.data.u.ld), driver.Address(t.data.risk),
			driver.Address(t.latents.anchor), driver.Address(t.latents.reg), driver.Address(t.batch), driver.Float32(share),
			driver.Float32(c.Delta), driver.Float32(c.Roll), driver.Float32(c.Flow), driver.Float32(c.Lie), driver.Float32(c.FlowFraction),
			driver.Address(space.partial))
		spans := make([]span, rolloutLossCount)
		for i := range spans {
			spans[i] = span{i * blocks, blocks, 1}
		}
		p.sums(space.partial, from > 0, spans...)
		p.plan.early = len(p.plan.launches)
		if key.train {
			p.backward(action)
			if from == 0 {
				parts = p.parts(action)
			}
			p.gradients(parts, from > 0, action)
		}
	}
	if key.train {
		p.update(parts)
	}
}

// PrepareRollout implements backend.Trainer.
func (t *Trainer) PrepareRollout() error {
	const op = "PrepareRollout"
	if !t.hasPairs() {
		return errors.New(op + ": no row of the data set has a successor")
	}
	if err := t.prepareLatents(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	net := t.layout.nets[2]
	from, last := net[0].offset, net[len(net)-1]
	err := t.backend.context.Do(func(th *driver.Thread) error {
		for _, moments := range []address{t.first, t.second} {
			if err := th.ZeroAsync(floats(moments, from), 4*(last.offset+last.size-from), t.stream); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	t.rolloutSteps, t.rolloutPrepared = 0, true
	return nil
}

func (t *Trainer) hasPairs() bool {
	return slices.ContainsFunc(t.cfg.Data.Next, func(n int32) bool { return n >= 0 })
}

// prepareLatents computes the codes of all rows and the Lie rollout latents of
// those with a successor (eq. du_lie_latent).
func (t *Trainer) prepareLatents() error {
	rows, nz := t.cfg.Data.X.Rows, t.layout.nets[0].out()
	codes := tensor.New(rows, quads(nz))
	err := t.backend.context.Do(func(th *driver.Thread) error {
		if err := t.dropRollout(th); err != nil {
			return err
		}
		for _, a := range []struct {
			to *address
			n  int
		}{{&t.latents.z, rows * quads(nz)}, {&t.latents.lie, rows * quads(nz)}, {&t.latents.anchor, rows}, {&t.latents.reg, rows}} {
			var err error
			if *a.to, err = t.memory.alloc(th, 4*a.n); err != nil {
				return err
			}
		}
		if err := t.encode(th); err != nil {
			return err
		}
		return driver.Download(th, codes.Data, t.latents.z)
	})
	if err != nil {
		return err
	}
	codes.Cols = nz
	return t.lieLatents(codes)
}

// dropRollout frees what an earlier preparation left, with the plans that use it.
func (t *Trainer) dropRollout(th *driver.Thread) error {
	var err error
	for _, key := range slices.Clone(t.order) {
		if key.rollout {
			err = errors.Join(err, t.dropPlan(th, key))
		}
	}
	l := t.latents
	t.latents = rolloutData{}
	for _, p := range []address{l.z, l.lie, l.anchor, l.reg} {
		err = errors.Join(err, t.memory.free(th, p))
	}
	return err
}

// encode writes E_x of all rows to latents.z.
func (t *Trainer) encode(th *driver.Thread) error {
	p := &planner{t: t}
	x, z := t.data.x, quads(t.layout.nets[0].out())
	for from := 0; from < t.cfg.Data.X.Rows; from += t.micro {
		n := min(t.micro, t.cfg.Data.X.Rows-from)
		p.forward(&pass{
			net: 0, rows: n, input: floats(x.at, from*x.ld), ldInput: x.ld, output: floats(t.latents.z, from*z),
			space: t.layout.manifoldSpace(&carver{base: t.space}, n, 0).nets[0],
		})
	}
	if err := t.place(th, p); err != nil {
		return err
	}
	err := t.start(th, p.plan.launches)
	return errors.Join(err, th.Wait(t.stream), t.memory.free(th, p.plan.table))
}

// lieLatents fills latents.lie, anchor and reg from the metric's eigenframes.
func (t *Trainer) lieLatents(codes tensor.Matrix) error {
	c, nz := t.cfg.Rollout, codes.Cols
	var pairs []int32
	for i, next := range t.cfg.Data.Next {
		if next >= 0 {
			pairs = append(pairs, int32(i))
		}
	}
	nets, err := t.Networks()
	if err != nil {
		return err
	}
	decoder, err := t.backend.NewNet(nets.DecoderS)
	if err != nil {
		return err
	}
	size := min(frameRows, len(pairs))
	z, g := tensor.New(size, nz), tensor.New(size, nz*nz)
	values, vectors := tensor.New(size, c.TopK), tensor.New(size, nz*c.TopK)
	for from := 0; from < len(pairs); from += size {
		rows := pairs[from:min(from+size, len(pairs))]
		n := len(rows)
		for i, r := range rows {
			copy(z.Row(i), codes.Row(int(r)))
		}
		if c.TopK > 0 {
			if err := decoder.Metric(z.Slice(0, n), c.MetricLambda, g.Slice(0, n)); err != nil {
				return err
			}
			if err := t.backend.EigTopK(g.Slice(0, n), nz, c.TopK, values.Slice(0, n), vectors.Slice(0, n)); err != nil {
				return err
			}
		}
		if err := t.backend.context.Do(func(th *driver.Thread) error { return t.lieChunk(th, rows, values.Data, vectors.Data) }); err != nil {
			return err
		}
	}
	return nil
}

// lieChunk runs gpc_train_lie on some transitions.
func (t *Trainer) lieChunk(th *driver.Thread, rows []int32, values, vectors []float32) error {
	c, n, nz := t.cfg.Rollout, len(rows), t.layout.nets[0].out()
	var at [3]address
	defer func() {
		for _, p := range at {
			_ = t.memory.free(th, p) // the work that used it has been waited for
		}
	}()
	var err error
	if at[0], err = upload(t, th, rows); err != nil {
		return err
	}
	if at[1], err = upload(t, th, vectors[:n*nz*c.TopK]); err != nil {
		return err
	}
	if at[2], err = upload(t, th, values[:n*c.TopK]); err != nil {
		return err
	}
	k, err := t.backend.kernel(th, "gpc_train_lie")
	if err != nil {
		return err
	}
	err = th.Launch(k, driver.Launch{Grid: driver.Dim{X: blocks(n, latentBlock)}, Block: driver.Dim{X: 32 * latentBlock}, Stream: t.stream},
		driver.Int32(n), driver.Int32(nz), driver.Int32(quads(nz)), driver.Int32(c.TopK), driver.Address(at[0]), driver.Address(t.data.next),
		driver.Address(t.latents.z), driver.Address(at[1]), driver.Address(at[2]), driver.Float32(c.RollFraction),
		driver.Float32(c.LieScale*c.LieDt), driver.Float32(c.LieGain),
		driver.Address(t.latents.lie), driver.Address(t.latents.anchor), driver.Address(t.latents.reg))
	if err != nil {
		return err
	}
	return th.Wait(t.stream)
}

// RolloutStep implements backend.Trainer. The losses are those before the
// update.
func (t *Trainer) RolloutStep(rows []int32, lr float32) (backend.RolloutLosses, error) {
	if err := backend.CheckRate("RolloutStep", lr); err != nil {
		return backend.RolloutLosses{}, err
	}
	loss, err := t.rollout("RolloutStep", rows, true, t.adamHeader(t.rolloutSteps+1, lr))
	if err == nil {
		t.rolloutSteps++
	}
	return loss, err
}

// RolloutLoss implements backend.Trainer.
func (t *Trainer) RolloutLoss(rows []int32) (backend.RolloutLosses, error) {
	return t.rollout("RolloutLoss", rows, false, [batchHeader]float32{})
}

func (t *Trainer) rollout(op string, rows []int32, train bool, header [batchHeader]float32) (backend.RolloutLosses, error) {
	if !t.rolloutPrepared {
		return backend.RolloutLosses{}, fmt.Errorf("%s: call PrepareRollout first", op)
	}
	if err := t.cfg.CheckRows(op, rows); err != nil {
		return backend.RolloutLosses{}, err
	}
	// Eq. traj_weight: numerators over their batch mean.
	mean := 0.0
	for i, r := range rows {
		if t.cfg.Data.Next[r] < 0 {
			return backend.RolloutLosses{}, fmt.Errorf("%s: rows[%d] = %d has no successor", op, i, r)
		}
		mean += float64(t.cfg.Data.RiskWeight[r])
	}
	if mean /= float64(len(rows)); mean > 0 {
		header[batchRisk] = float32(1 / mean)
	}
	var sums [rolloutLossCount]float64
	err := t.call(planKey{rollout: true, rows: len(rows), train: train}, header, func(words []int32, _ []float32) { copy(words, rows) }, sums[:])
	if err != nil {
		return backend.RolloutLosses{}, fmt.Errorf("%s: %w", op, err)
	}
	for i := range sums {
		sums[i] /= float64(len(rows))
	}
	c := t.cfg.Rollout
	loss := backend.RolloutLosses{
		Act: sums[0], ActNext: sums[1], Delta: sums[2], Roll: sums[3], Flow: sums[4],
		LieAct: sums[5], LieDelta: sums[6], LieAnchor: sums[7], LieReg: sums[8],
	}
	delta, roll, flow, lie := float64(c.Delta), float64(c.Roll), float64(c.Flow), float64(c.Lie)
	loss.Total = loss.Act + loss.ActNext + delta*loss.Delta + roll*loss.Roll + flow*loss.Flow +
		lie*(loss.LieAct+delta*loss.LieDelta+loss.LieAnchor+loss.LieReg)
	return loss, nil
}
