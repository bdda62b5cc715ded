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

// cursor is where a run stands: the next update is Step of Epoch of Phase, all
// from 0. The sums belong to the epoch so far.
type cursor struct {
	Phase    int                    `json:"phase"`
	Epoch    int                    `json:"epoch"`
	Step     int                    `json:"step"`
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

// epoch makes the updates of the current epoch from the cursor on and moves the
// cursor to the next.
func (r *run) epoch(ctx context.Context) error {
	c := &r.cursor
	p := r.phases[c.Phase]
	if p.phase == Rollout && c.Epoch == 0 && c.Step == 0 {
		if err := r.beginRollout(); err != nil {
			return err
		}
	}
	if err := r.arrange(p); err != nil {
		return err
	}
	perEpoch := r.stepsPerEpoch(c.Phase)
	for c.Step < perEpoch {
		if err := ctx.Err(); err != nil {
			return r.interrupted(err)
		}
		began := time.Now()
		from, to := c.Step*r.opt.Batch, min((c.Step+1)*r.opt.Batch, len(r.order))
		update := c.Epoch*perEpoch + c.Step
		rate := cosine(p.rate, update, p.epochs*perEpoch)
		loss, err := r.update(p.phase, from, to, float32(rate))
		if err != nil {
			return err
		}
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return fmt.Errorf("train: the %s loss became %v in epoch %d, update %d of %d; try a smaller learning rate than %g or a smaller spectral bound than %g",
				p.phase, loss, c.Epoch+1, c.Step+1, perEpoch, p.rate, r.opt.SpectralBound)
		}
		elapsed := time.Since(began).Seconds()
		c.Seconds += elapsed
		c.Samples += to - from
		c.Step++
		r.seconds += elapsed
		r.samples += int64(to - from)
		report := r.report(loss, to-from)
		if c.Step == perEpoch {
			record, err := r.endEpoch(p, rate)
			if err != nil {
				return err
			}
			r.history = append(r.history, *record)
			report.Record = record
			*c = cursor{Phase: c.Phase, Epoch: c.Epoch + 1}
			if c.Epoch == p.epochs {
				*c = cursor{Phase: c.Phase + 1}
				r.emphasis.forget()
			}
			if err := r.saveWhenDue(); err != nil {
				return err
			}
			r.progress(report)
			return nil
		}
		r.progress(report)
		if err := r.saveWhenDue(); err != nil {
			return err
		}
	}
	return nil
}

// beginRollout keeps the decoder of the manifold phase and prepares the losses of the next.
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

// arrange puts the rows of the current epoch in their order.
func (r *run) arrange(p phasePlan) error {
	c := &r.cursor
	of := [2]int{c.Phase, c.Epoch}
	if r.orderOf == of {
		return nil
	}
	if len(r.order) != len(p.rows) {
		r.order = make([]int32, len(p.rows))
	}
	if c.Step == 0 && r.emphasis.due(p.phase, c.Epoch) {
		if err := r.emphasis.measure(r, p.rows); err != nil {
			return err
		}
	}
	r.emphasis.order(r.order, p.rows, r.opt.Seed, p.stream, c.Epoch)
	if p.phase == Manifold && r.near != nil {
		r.near.drawEpoch(r.order, r.opt.Batch, r.opt.Seed, c.Epoch*r.stepsPerEpoch(c.Phase))
	}
	r.orderOf = of
	return nil
}

func (r *run) interrupted(cause error) error {
	c := r.cursor
	where := fmt.Sprintf("train: interrupted at phase %d, epoch %d, update %d", c.Phase+1, c.Epoch+1, c.Step+1)
	if r.opt.Checkpoint == "" {
		return fmt.Errorf("%s, without a checkpoint: %w", where, cause)
	}
	if err := r.save(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", where, cause), err)
	}
	return fmt.Errorf("%s, saved to %s: %w", where, r.opt.Checkpoint, cause)
}

// update makes one update on the rows [from, to) of the epoch's order and adds its losses
// to the epoch's sums.
func (r *run) update(phase Phase, from, to int, rate float32) (float64, error) {
	rows := r.order[from:to]
	weight := float64(len(rows))
	if phase == Rollout {
		l, err := r.trainer.RolloutStep(rows, rate)
		if err != nil {
			return 0, err
		}
		r.cursor.Rollout.Add(l, weight)
		return l.Total, nil
	}
	var neighbours []int32
	var kernel []float32
	if r.near != nil {
		neighbours, kernel = r.near.of(from, to)
	}
	l, err := r.trainer.ManifoldStep(rows, neighbours, kernel, rate)
	if err != nil {
		return 0, err
	}
	r.cursor.Manifold.Add(l, weight)
	return l.Total, nil
}

func (r *run) report(loss float64, samples int) Progress {
	c, done, total := r.cursor, 0, 0
	for k, p := range r.phases {
		n := p.epochs * r.stepsPerEpoch(k)
		total += n
		if k < c.Phase {
			done += n
		}
	}
	p := r.phases[c.Phase]
	return Progress{
		Phase: p.phase, Epoch: c.Epoch + 1, Epochs: p.epochs,
		Step: done + c.Epoch*r.stepsPerEpoch(c.Phase) + c.Step, Steps: total,
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
		var held backend.ManifoldLosses
		for rows := range slices.Chunk(r.probe, r.opt.Batch) {
			l, err := r.trainer.ManifoldLoss(rows, nil, nil)
			if err != nil {
				return nil, err
			}
			held.Add(l, float64(len(rows)))
		}
		record.ManifoldValidation.Add(held, 1/float64(len(r.probe)))
	} else {
		record.Rollout = &backend.RolloutLosses{}
		record.Rollout.Add(c.Rollout, 1/float64(c.Samples))
		if len(r.probed) > 0 {
			var held backend.RolloutLosses
			for rows := range slices.Chunk(r.probed, r.opt.Batch) {
				l, err := r.trainer.RolloutLoss(rows)
				if err != nil {
					return nil, err
				}
				held.Add(l, float64(len(rows)))
			}
			record.RolloutValidation = &backend.RolloutLosses{}
			record.RolloutValidation.Add(held, 1/float64(len(r.probed)))
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
	record.TauGeom, record.DeltaDec, record.DeltaDecP99, record.DeltaDecMean = d.tauGeom, d.deltaMax, d.deltaP99, d.delta
	return record, nil
}
