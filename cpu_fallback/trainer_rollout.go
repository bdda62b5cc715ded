package cpufallback

import (
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// rolloutLatents are the codes of a transition at which D_u is trained, in the
// order they stand in the workspace: z_t, z_{t+1}, ẑ^α, ẑ^{α_f}, z̃
// (training.RolloutLatents).
const (
	latentNow = iota
	latentNext
	latentRoll
	latentFlow
	latentLie
	rolloutLatents
)

// rolloutRows is the micro-batch of the rollout phase, in transitions or in rows with
// their chains; each is so many rows of D_u as it has latents.
const rolloutRows = microRows / 2

// rolloutWork is the frozen data and the workspace of rollout training
// (training.RolloutLoss and training.ChainLoss are the specification).
type rolloutWork struct {
	// Frozen: codes z of all rows, z̃ of rows with a successor, and per row
	// ‖z̃ − ẑ^α‖² and ‖Δz_Lie‖².
	z, lie      tensor.Matrix
	anchor, reg []float32
	chain       backend.Chain // without rows: none
	latents     int           // of one transition, or 1 + Horizon

	in, out activations // latent l of transition r at row l·rolloutRows + r
	action  *branch
	uses    []use

	rows     []int32 // the micro-batch in progress
	risk     float32 // 1 / mean risk of the whole batch; 0: weight 1 for all
	share    float32
	train    bool
	partial  [rolloutRows / trainChunk]backend.RolloutLosses
	runChunk func(worker, chunk int)
}

// PrepareRollout implements backend.Trainer.
func (t *Trainer) PrepareRollout() error {
	if err := t.cfg.CheckPairs("PrepareRollout"); err != nil {
		return err
	}
	if err := t.prepareLatents(); err != nil {
		return err
	}
	for _, l := range t.nets[2].layers {
		clear(l.m)
		clear(l.v)
	}
	t.rolloutSteps = 0
	return nil
}

// encodeRows are encoded, and given their metric and eigenpairs, at a time.
const encodeRows = 4096

// prepareLatents computes what the frozen networks determine and sets up the
// workspace.
func (t *Trainer) prepareLatents() error {
	d, nz, horizon := &t.cfg.Data, t.nets[0].out(), t.cfg.Rollout.Horizon
	latents := rolloutLatents
	if horizon > 0 {
		latents = 1 + horizon
	}
	w := &rolloutWork{
		z: tensor.New(d.X.Rows, nz), latents: latents,
		in: newActivations(latents*rolloutRows, nz, true), out: newActivations(latents*rolloutRows, d.U.Cols, false),
	}
	encoder, err := t.backend.NewNet(t.nets[0].mlp())
	if err != nil {
		return err
	}
	if err := encoder.Forward(d.X, w.z); err != nil {
		return err
	}
	w.runChunk = func(_, chunk int) { w.chunk(t, chunk) }
	if horizon > 0 {
		w.runChunk = func(_, chunk int) { w.chainChunk(t, chunk) }
	} else if err := t.lieLatents(w); err != nil {
		return err
	}
	w.action = newBranch(t.nets[2], latents*rolloutRows, place{activations: w.in}, place{activations: w.out}, place{activations: w.out}, place{})
	w.uses = make([]use, latents)
	for l := range w.uses {
		w.uses[l] = use{branch: w.action, row: l * rolloutRows}
	}
	t.rollout, t.rolloutPrepared = w, true
	t.plan(t.nets[2:3], []*[]use{&w.uses})
	return nil
}

// lieLatents computes z̃ of eq. du_lie_latent for every row with a successor: the
// step Δz_Euc = ẑ^α − z, turned in the top-k eigenframe of the pullback metric.
func (t *Trainer) lieLatents(w *rolloutWork) error {
	c, nz, samples := t.cfg.Rollout, t.nets[0].out(), t.cfg.Data.X.Rows
	w.lie, w.anchor, w.reg = tensor.New(samples, nz), make([]float32, samples), make([]float32, samples)
	var pairs []int32
	for i, next := range t.cfg.Data.Next {
		if next >= 0 {
			pairs = append(pairs, int32(i))
		}
	}
	decoder, err := t.backend.NewNet(t.nets[3].mlp())
	if err != nil {
		return err
	}
	size := min(encodeRows, len(pairs))
	z, g := tensor.New(size, nz), tensor.New(size, nz*nz)
	values, vectors := tensor.New(size, c.TopK), tensor.New(size, nz*c.TopK)
	step, residual, scratch := make([]float32, nz), make([]float32, nz), make([]float64, 2*c.TopK)
	for start := 0; start < len(pairs); start += encodeRows {
		rows := pairs[start:min(start+encodeRows, len(pairs))]
		n := len(rows)
		for i, r := range rows {
			copy(z.Row(i), w.z.Row(int(r)))
		}
		if c.TopK > 0 {
			if err := decoder.Metric(z.Slice(0, n), c.MetricLambda, g.Slice(0, n)); err != nil {
				return err
			}
			if err := t.backend.EigTopK(g.Slice(0, n), nz, c.TopK, values.Slice(0, n), vectors.Slice(0, n)); err != nil {
				return err
			}
		}
		for i, r := range rows {
			now, next := w.z.Row(int(r)), w.z.Row(int(t.cfg.Data.Next[r]))
			for k := range step {
				step[k] = c.RollFraction * (next[k] - now[k])
			}
			lie := w.lie.Row(int(r))
			copy(lie, step)
			if c.TopK == 0 || !lieResidual(lie, step, vectors.Row(i), values.Row(i), c.LieScale*c.LieDt, c.LieGain, residual, scratch) {
				clear(residual)
			}
			for k, v := range residual {
				lie[k] += now[k]
				w.anchor[r] += c.LieGain * v * c.LieGain * v
				w.reg[r] += v * v
			}
		}
	}
	return nil
}

// RolloutStep implements backend.Trainer. The losses are those before the
// update.
func (t *Trainer) RolloutStep(rows []int32, lr float32) (backend.RolloutLosses, error) {
	const op = "RolloutStep"
	if err := backend.CheckRate(op, lr); err != nil {
		return backend.RolloutLosses{}, err
	}
	if err := t.cfg.CheckRollout(op, t.rolloutPrepared, t.chained(), rows); err != nil {
		return backend.RolloutLosses{}, err
	}
	loss := t.rollout.pass(t, rows, true)
	t.rolloutSteps++
	t.update(t.rolloutSteps, lr)
	return loss, nil
}

// RolloutLoss implements backend.Trainer.
func (t *Trainer) RolloutLoss(rows []int32) (backend.RolloutLosses, error) {
	if err := t.cfg.CheckRollout("RolloutLoss", t.rolloutPrepared, t.chained(), rows); err != nil {
		return backend.RolloutLosses{}, err
	}
	return t.rollout.pass(t, rows, false), nil
}

func (w *rolloutWork) pass(t *Trainer, rows []int32, train bool) backend.RolloutLosses {
	var sum backend.RolloutLosses
	w.risk = 0
	if w.chain.Z.Rows == 0 {
		// Eq. traj_weight: numerators over their batch mean.
		mean := 0.0
		for _, r := range rows {
			mean += float64(t.cfg.Data.RiskWeight[r])
		}
		if mean /= float64(len(rows)); mean > 0 {
			w.risk = float32(1 / mean)
		}
	}
	w.share, w.train = 1/float32(len(rows)), train
	for start := 0; start < len(rows); start += rolloutRows {
		w.rows = rows[start:min(start+rolloutRows, len(rows))]
		chunks := chunksOf(len(w.rows))
		t.backend.pool.Run(chunks, w.runChunk)
		for _, p := range w.partial[:chunks] {
			sum.Add(p, 1)
		}
		if train {
			for l := range w.uses {
				w.uses[l].n = len(w.rows)
			}
			t.first = start == 0
			t.backend.pool.Run(len(t.gradients), t.runGradient)
		}
	}
	for _, v := range []*float64{&sum.Act, &sum.ActNext, &sum.Delta, &sum.Roll, &sum.Flow, &sum.LieAct, &sum.LieDelta, &sum.LieAnchor, &sum.LieReg} {
		*v /= float64(len(rows))
	}
	sum.Total = t.cfg.Rollout.Total(sum)
	return sum
}

func (w *rolloutWork) chunk(t *Trainer, chunk int) {
	d, c, k := &t.cfg.Data, &t.cfg.Rollout, t.kernel
	r, n := chunkSpan(len(w.rows), chunk)
	nz := w.z.Cols
	latentRow := func(b activations, latent, i, cols int) []float32 { return b.row(latent*rolloutRows+i, cols) }
	for i := r; i < r+n; i++ {
		row := int(w.rows[i])
		now, next := w.z.Row(row), w.z.Row(int(d.Next[row]))
		roll, flow := latentRow(w.in, latentRoll, i, nz), latentRow(w.in, latentFlow, i, nz)
		copy(latentRow(w.in, latentNow, i, nz), now)
		copy(latentRow(w.in, latentNext, i, nz), next)
		copy(latentRow(w.in, latentLie, i, nz), w.lie.Row(row))
		for j, v := range now {
			move := next[j] - v
			roll[j] = v + c.RollFraction*move
			flow[j] = v + c.FlowFraction*move
		}
	}
	for l := range rolloutLatents {
		w.action.forward(k, l*rolloutRows+r, n)
	}
	var sum backend.RolloutLosses
	nu := d.U.Cols
	for i := r; i < r+n; i++ {
		row := int(w.rows[i])
		risk := float32(1)
		if w.risk > 0 {
			risk = d.RiskWeight[row] * w.risk
		}
		u, uNext := d.U.Row(row), d.U.Row(int(d.Next[row]))
		now, next := latentRow(w.out, latentNow, i, nu), latentRow(w.out, latentNext, i, nu)
		roll, flow, lie := latentRow(w.out, latentRoll, i, nu), latentRow(w.out, latentFlow, i, nu), latentRow(w.out, latentLie, i, nu)
		f, g := 2*w.share, 2*w.share*risk
		var act, actNext, delta, rolled, flowed, lieAct, lieDelta float32
		for j := range nu {
			du := uNext[j] - u[j]
			a, an := now[j]-u[j], next[j]-uNext[j]
			e := next[j] - now[j] - du
			ro, fl := roll[j]-uNext[j], flow[j]-(u[j]+c.FlowFraction*du)
			la, ld := lie[j]-uNext[j], lie[j]-now[j]-du
			act += a * a
			actNext += an * an
			delta += e * e
			rolled += ro * ro
			flowed += fl * fl
			lieAct += la * la
			lieDelta += ld * ld
			now[j] = f*(a-c.Delta*e) - g*c.Lie*c.Delta*ld
			next[j] = f * (an + c.Delta*e)
			roll[j] = g * c.Roll * ro
			flow[j] = g * c.Flow * fl
			lie[j] = g * c.Lie * (la + c.Delta*ld)
		}
		weight := float64(risk)
		sum.Act += float64(act)
		sum.ActNext += float64(actNext)
		sum.Delta += float64(delta)
		sum.Roll += weight * float64(rolled)
		sum.Flow += weight * float64(flowed)
		sum.LieAct += weight * float64(lieAct)
		sum.LieDelta += weight * float64(lieDelta)
		sum.LieAnchor += weight * float64(w.anchor[row])
		sum.LieReg += weight * float64(w.reg[row])
	}
	w.partial[chunk] = sum
	if w.train {
		for l := range rolloutLatents {
			w.action.backward(k, l*rolloutRows+r, n)
		}
	}
}
