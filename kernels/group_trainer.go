package kernels

import (
	"fmt"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
)

// groupTrainer trains on several devices. Each holds the data set and the networks, and
// takes a block of every batch. Their gradients are copied to every device, which adds
// them up in the order of the devices and makes the same update; so the networks are the
// same bits everywhere, and at every run on so many devices. Losses are added up on the
// host in that order.
type groupTrainer struct {
	group   *Group
	members []*Trainer
	cfg     backend.TrainerConfig
	failure error // after which the members need not agree any more
}

var _ backend.Trainer = (*groupTrainer)(nil)

// NewTrainer implements backend.Backend: a trainer on every device, each with room for
// its block of a batch.
func (g *Group) NewTrainer(cfg backend.TrainerConfig) (backend.Trainer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	memberCfg := cfg
	memberCfg.MaxBatch = ceil(cfg.MaxBatch, len(g.members))
	members, err := everywhere[*Trainer](g, func(i int, b *Backend) (*Trainer, error) {
		return b.newTrainer(memberCfg, share{index: i, count: len(g.members)})
	})
	if err != nil {
		return nil, err
	}
	t := &groupTrainer{group: g, members: members, cfg: members[0].cfg}
	t.cfg.MaxBatch = cfg.MaxBatch
	return t, nil
}

// forEach calls f for the first n members. Behind a fault nobody knows which have made an
// update, and nothing is given out any more.
func (g *groupTrainer) forEach(n int, f func(i int, t *Trainer) error) error {
	if g.failure != nil {
		return g.failure
	}
	err := g.group.forEach(n, func(i int) error { return f(i, g.members[i]) })
	if driver.IsFault(err) {
		g.failure = err
	}
	return err
}

// all is each of all members.
func (g *groupTrainer) all(f func(t *Trainer) error) error {
	return g.forEach(len(g.members), func(_ int, t *Trainer) error { return f(t) })
}

// step takes the blocks of a batch through losses, adds these up in total, and with train
// makes the update.
func (g *groupTrainer) step(rows int, rollout, train bool, header [batchHeader]float32, total []float64, losses func(t *Trainer, b block, sums []float64) error) error {
	blocks := g.group.deal(rows)
	sums := make([][maxLosses]float64, len(blocks))
	if err := g.forEach(len(blocks), func(i int, t *Trainer) error { return losses(t, blocks[i], sums[i][:len(total)]) }); err != nil {
		return err
	}
	for i := range sums {
		for j := range total {
			total[j] += sums[i][j]
		}
	}
	if !train {
		return nil
	}
	if err := g.all(func(t *Trainer) error { return t.exchange(g.members[:len(blocks)], rollout, header) }); err != nil {
		return err
	}
	return g.all(func(t *Trainer) error { return t.advance(len(blocks), rollout) })
}

// ManifoldStep implements backend.Trainer.
func (g *groupTrainer) ManifoldStep(rows, neighbours []int32, kernel []float32, lr float32) (backend.ManifoldLosses, error) {
	header, err := g.members[0].manifoldHeader(lr)
	if err != nil {
		return backend.ManifoldLosses{}, err
	}
	loss, err := g.manifold(manifoldStep, rows, neighbours, kernel, true, header)
	if err == nil {
		for _, t := range g.members {
			t.manifoldSteps++
		}
	}
	return loss, err
}

// ManifoldLoss implements backend.Trainer.
func (g *groupTrainer) ManifoldLoss(rows, neighbours []int32, kernel []float32) (backend.ManifoldLosses, error) {
	return g.manifold(manifoldLoss, rows, neighbours, kernel, false, [batchHeader]float32{})
}

func (g *groupTrainer) manifold(op string, rows, neighbours []int32, kernel []float32, train bool, header [batchHeader]float32) (backend.ManifoldLosses, error) {
	if err := g.cfg.CheckManifold(op, rows, neighbours, kernel); err != nil {
		return backend.ManifoldLosses{}, err
	}
	kappa := len(neighbours) / len(rows)
	var total [manifoldLossCount]float64
	err := g.step(len(rows), false, train, header, total[:], func(t *Trainer, b block, sums []float64) error {
		key := planKey{rows: b.rows(), whole: len(rows), kappa: kappa, train: train}
		return t.manifoldSums(key, entriesOf(b, rows), entriesOf(b.wide(kappa), neighbours), entriesOf(b.wide(kappa), kernel), header, sums)
	})
	if err != nil {
		return backend.ManifoldLosses{}, fmt.Errorf("%s: %w", op, err)
	}
	return manifoldLosses(&g.cfg, total, len(rows)), nil
}

// PrepareRollout implements backend.Trainer: the latents of all rows are computed on
// every device.
func (g *groupTrainer) PrepareRollout() error { return g.all((*Trainer).PrepareRollout) }

// SetChain implements backend.Trainer.
func (g *groupTrainer) SetChain(c backend.Chain) error {
	return g.all(func(t *Trainer) error { return t.SetChain(c) })
}

// RolloutStep implements backend.Trainer.
func (g *groupTrainer) RolloutStep(rows []int32, lr float32) (backend.RolloutLosses, error) {
	if err := backend.CheckRate(rolloutStep, lr); err != nil {
		return backend.RolloutLosses{}, err
	}
	first := g.members[0]
	loss, err := g.rollout(rolloutStep, rows, true, first.adamHeader(first.rolloutSteps+1, lr))
	if err == nil {
		for _, t := range g.members {
			t.rolloutSteps++
		}
	}
	return loss, err
}

// RolloutLoss implements backend.Trainer.
func (g *groupTrainer) RolloutLoss(rows []int32) (backend.RolloutLosses, error) {
	return g.rollout(rolloutLoss, rows, false, [batchHeader]float32{})
}

func (g *groupTrainer) rollout(op string, rows []int32, train bool, header [batchHeader]float32) (backend.RolloutLosses, error) {
	first := g.members[0]
	if err := g.cfg.CheckRollout(op, first.rolloutPrepared, first.latents.chain != 0, rows); err != nil {
		return backend.RolloutLosses{}, err
	}
	header[batchRisk] = riskFactor(&g.cfg, rows)
	var total [rolloutLossCount]float64
	err := g.step(len(rows), true, train, header, total[:], func(t *Trainer, b block, sums []float64) error {
		return t.rolloutSums(planKey{rollout: true, rows: b.rows(), whole: len(rows), train: train}, entriesOf(b, rows), header, sums)
	})
	if err != nil {
		return backend.RolloutLosses{}, fmt.Errorf("%s: %w", op, err)
	}
	return rolloutLosses(&g.cfg, total, len(rows)), nil
}

// Networks implements backend.Trainer.
func (g *groupTrainer) Networks() (nets backend.Networks, err error) {
	err = g.forEach(1, func(_ int, t *Trainer) (err error) { nets, err = t.Networks(); return err })
	return nets, err
}

// State implements backend.Trainer. An update that another device has still to make is
// waited for: what it loses is not in a state that is written.
func (g *groupTrainer) State() (s backend.TrainerState, err error) {
	if err := g.all((*Trainer).settle); err != nil {
		return s, fmt.Errorf("State: %w", err)
	}
	err = g.forEach(1, func(_ int, t *Trainer) (err error) { s, err = t.State(); return err })
	return s, err
}

// Restore implements backend.Trainer.
func (g *groupTrainer) Restore(s backend.TrainerState) error {
	return g.all(func(t *Trainer) error { return t.Restore(s) })
}
