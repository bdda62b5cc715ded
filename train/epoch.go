package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/internal/backend"
)

// cursor is the position of a run: the next update is Step of Epoch of Phase, all from 0. The sums belong to the
// epoch so far.
type cursor struct {
	Phase    int                    `json:"phase"`
	Epoch    int                    `json:"epoch"`
	Step     int                    `json:"step"`
	Epochs   int                    `json:"epochs,omitempty"` // of the phase, where it is shortened
	Samples  int                    `json:"samples"`
	Seconds  float64                `json:"seconds"`
	Manifold backend.ManifoldLosses `json:"manifold"`
	Rollout  backend.RolloutLosses  `json:"rollout"`
}

// phasePlan is one part of the run.
type phasePlan struct {
	phase  Phase
	rows   []int32
	epochs int
	rate   float64
	stream uint64
}

func (r *run) stepsPerEpoch(phase int) int { return steps(len(r.phases[phase].rows), r.opt.Batch) }

// epoch makes the remaining updates of the current epoch and moves the cursor to the next.
func (r *run) epoch(ctx context.Context) error {
	c := &r.cursor
	p := r.phases[c.Phase]
	if p.phase == Rollout && c.Epoch == 0 && c.Step == 0 {
		if err := r.beginRollout(); err != nil {
			return err
		}
	}
	if err := r.orderRows(p); err != nil {
		return err
	}
	perEpoch := r.stepsPerEpoch(c.Phase)
	for c.Step < perEpoch {
		if err := ctx.Err(); err != nil {
			return r.interrupted(err)
		}
		// A run can stop and save between calls.
		perCall := 1
		if p.phase == Manifold {
			perCall = backend.Together(r.trainer)
		}
		start := time.Now()
		losses, err := r.makeUpdates(p, min(perCall, perEpoch-c.Step))
		if err != nil {
			return err
		}
		elapsed := time.Since(start).Seconds()
		c.Seconds += elapsed
		r.seconds += elapsed
		for _, l := range losses {
			if math.IsNaN(l.loss) || math.IsInf(l.loss, 0) {
				return fmt.Errorf("train: the %s loss became %v in epoch %d, update %d of %d; try a smaller learning rate than %g or a smaller spectral bound than %g",
					p.phase, l.loss, c.Epoch+1, c.Step+1, perEpoch, p.rate, r.opt.SpectralBound)
			}
			c.Manifold.Add(l.manifold, float64(l.samples))
			c.Rollout.Add(l.rollout, float64(l.samples))
			c.Samples += l.samples
			c.Step++
			r.samples += int64(l.samples)
			report := r.report(l.loss, l.samples)
			if c.Step == perEpoch {
				return r.closeEpoch(p, l.rate, report)
			}
			r.progress(report)
		}
		if err := r.saveIfDue(); err != nil {
			return err
		}
	}
	return nil
}

// closeEpoch ends an epoch after its last update.
func (r *run) closeEpoch(p phasePlan, rate float64, report Progress) error {
	c := &r.cursor
	record, err := r.endEpoch(p, rate)
	if err != nil {
		return err
	}
	r.history = append(r.history, *record)
	report.Record = record
	*c = cursor{Phase: c.Phase, Epoch: c.Epoch + 1}
	if r.opt.Shorten != nil && p.phase == Manifold {
		p.epochs = min(r.opt.ManifoldEpochs, max(c.Epoch, r.opt.Shorten(c.Epoch)))
		r.phases[c.Phase].epochs, c.Epochs = p.epochs, p.epochs
	}
	if c.Epoch == p.epochs {
		*c = cursor{Phase: c.Phase + 1}
		r.emphasis.reset()
	}
	if err := r.saveIfDue(); err != nil {
		return err
	}
	r.progress(report)
	return nil
}

// beginRollout stores the decoder of the manifold phase and prepares the losses of the rollout phase.
func (r *run) beginRollout() error {
	nets, err := r.trainer.Networks()
	if err != nil {
		return err
	}
	r.manifoldDecoder = nets.DecoderU
	if err := r.trainer.PrepareRollout(); err != nil {
		return err
	}
	return r.setChain()
}

// orderRows orders the rows of the current epoch.
func (r *run) orderRows(p phasePlan) error {
	c := &r.cursor
	current := [2]int{c.Phase, c.Epoch}
	if r.orderEpoch == current {
		return nil
	}
	if len(r.order) != len(p.rows) {
		r.order = make([]int32, len(p.rows))
	}
	if c.Step == 0 && r.emphasis.isDue(p.phase, c.Epoch) {
		if err := r.emphasis.measure(r, p.rows); err != nil {
			return err
		}
	}
	r.emphasis.order(r.order, p.rows, r.opt.Seed, p.stream, c.Epoch)
	if p.phase == Manifold && r.neighbourhood != nil {
		r.neighbourhood.drawEpoch(r.order, r.opt.Batch, r.opt.Seed, c.Epoch*r.stepsPerEpoch(c.Phase))
	}
	r.orderEpoch = current
	return nil
}

func (r *run) interrupted(cause error) error {
	c := r.cursor
	message := fmt.Sprintf("train: interrupted at phase %d, epoch %d, update %d", c.Phase+1, c.Epoch+1, c.Step+1)
	if r.opt.Checkpoint == "" {
		return fmt.Errorf("%s, without a checkpoint: %w", message, cause)
	}
	if err := r.save(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", message, cause), err)
	}
	return fmt.Errorf("%s, saved to %s: %w", message, r.opt.Checkpoint, cause)
}

// update is a finished update.
type update struct {
	samples    int
	rate, loss float64
	manifold   backend.ManifoldLosses // of its phase
	rollout    backend.RolloutLosses
}

// makeUpdates makes the next count updates of the epoch.
func (r *run) makeUpdates(p phasePlan, count int) ([]update, error) {
	c := r.cursor
	updates := make([]update, count)
	manifold := make([]backend.ManifoldUpdate, count)
	for i := range updates {
		step := c.Step + i
		from, to := step*r.opt.Batch, min((step+1)*r.opt.Batch, len(r.order))
		perEpoch := r.stepsPerEpoch(c.Phase)
		updates[i] = update{samples: to - from, rate: cosine(p.rate, c.Epoch*perEpoch+step, p.epochs*perEpoch)}
		manifold[i] = backend.ManifoldUpdate{Rows: r.order[from:to], Rate: float32(updates[i].rate)}
		if p.phase == Manifold && r.neighbourhood != nil {
			manifold[i].Neighbours, manifold[i].Kernel = r.neighbourhood.drawnFor(from, to)
		}
	}
	if p.phase == Rollout {
		for i, u := range manifold {
			l, err := r.trainer.RolloutStep(u.Rows, u.Rate)
			if err != nil {
				return nil, err
			}
			updates[i].loss, updates[i].rollout = l.Total, l
		}
		return updates, nil
	}
	losses := make([]backend.ManifoldLosses, count)
	if err := backend.ManifoldSteps(r.trainer, manifold, losses); err != nil {
		return nil, err
	}
	for i, l := range losses {
		updates[i].loss, updates[i].manifold = l.Total, l
	}
	return updates, nil
}

func (r *run) report(loss float64, samples int) Progress {
	c, finished, total := r.cursor, 0, 0
	for k, p := range r.phases {
		n := p.epochs * r.stepsPerEpoch(k)
		total += n
		if k < c.Phase {
			finished += n
		}
	}
	p := r.phases[c.Phase]
	return Progress{
		Phase: p.phase, Epoch: c.Epoch + 1, Epochs: p.epochs,
		Step: finished + c.Epoch*r.stepsPerEpoch(c.Phase) + c.Step, Steps: total,
		Samples: samples, Loss: loss,
	}
}

// endEpoch closes the sums and evaluates on held-out rows.
func (r *run) endEpoch(p phasePlan, rate float64) (*EpochRecord, error) {
	c := &r.cursor
	record := &EpochRecord{Phase: p.phase, Epoch: c.Epoch + 1, LearningRate: rate, Seconds: c.Seconds, Samples: c.Samples}
	if p.phase == Manifold {
		record.Manifold, record.ManifoldValidation = &backend.ManifoldLosses{}, &backend.ManifoldLosses{}
		record.Manifold.Add(c.Manifold, 1/float64(c.Samples))
		var validation backend.ManifoldLosses
		for rows := range slices.Chunk(r.probe, r.opt.Batch) {
			l, err := r.trainer.ManifoldLoss(rows, nil, nil)
			if err != nil {
				return nil, err
			}
			validation.Add(l, float64(len(rows)))
		}
		record.ManifoldValidation.Add(validation, 1/float64(len(r.probe)))
	} else {
		record.Rollout = &backend.RolloutLosses{}
		record.Rollout.Add(c.Rollout, 1/float64(c.Samples))
		if len(r.rolloutProbe) > 0 {
			var validation backend.RolloutLosses
			for rows := range slices.Chunk(r.rolloutProbe, r.opt.Batch) {
				l, err := r.trainer.RolloutLoss(rows)
				if err != nil {
					return nil, err
				}
				validation.Add(l, float64(len(rows)))
			}
			record.RolloutValidation = &backend.RolloutLosses{}
			record.RolloutValidation.Add(validation, 1/float64(len(r.rolloutProbe)))
		}
	}
	nets, err := r.trainer.Networks()
	if err != nil {
		return nil, err
	}
	d, err := evaluate(r.opt.Backend, r.opt.Problem, &r.opt.Data, r.set, nets, r.probe)
	if err != nil {
		return nil, err
	}
	record.TauGeom = d.tauGeom
	record.DeltaDec, record.DeltaDecP99, record.DeltaDecMean = d.deltaMax, d.deltaP99, d.delta
	return record, nil
}
