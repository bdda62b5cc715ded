package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Result is what a finished run hands over.
type Result struct {
	Model   *model.Model
	History []EpochRecord
	// Samples processed and Seconds spent in updates by this call; a resumed run
	// counts only its own.
	Samples int64
	Seconds float64
	// Rows of the dataset, those that the problem does not select included.
	Rows int
}

// Rows of validation that are looked at after every epoch, and at most at the
// end.
const (
	probeRows       = 2048
	calibrationRows = 50000
)

// Run trains a map on opt.Data. progress may be nil; it is called by the calling
// goroutine after every update.
//
// When ctx ends, Run writes the checkpoint, if one is asked for, and returns an
// error that wraps ctx.Err(). A loss that is not finite ends the run with an
// error and leaves the last checkpoint as it was.
func Run(ctx context.Context, opt Options, progress func(Progress)) (*Result, error) {
	opt, err := opt.resolve()
	if err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	if opt.Checkpoint != "" {
		lock, err := durable.Acquire(opt.Checkpoint)
		if err != nil {
			return nil, fmt.Errorf("train: checkpoint %s: %w", opt.Checkpoint, err)
		}
		defer lock.Release()
	}
	if err := opt.Data.Validate(opt.Problem.Spec()); err != nil {
		return nil, err
	}
	rows := opt.Data.Rows()
	opt.Data = opt.Data.selected(opt.Problem)
	set, err := NewSet(opt.Problem.Spec(), &opt.Data, opt)
	if err != nil {
		return nil, err
	}
	r := &run{opt: opt, set: set, progress: progress, lastSave: time.Now()}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if opt.Resume {
		if err := r.resume(); err != nil {
			return nil, &durable.Refusal{Err: err}
		}
	}
	result := &Result{Rows: rows}
	for r.cursor.Phase < len(r.phases) {
		if err := r.epoch(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.save(); err != nil {
		return nil, err
	}
	if result.Model, err = r.finish(); err != nil {
		return nil, err
	}
	result.History, result.Samples, result.Seconds = r.history, r.samples, r.seconds
	return result, nil
}

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

type run struct {
	opt      Options
	set      *Set
	progress func(Progress)
	trainer  backend.Trainer
	near     *neighbourhood
	emphasis *emphasis // nil: every epoch is a permutation
	phases   []phasePlan
	order    []int32
	orderOf  [2]int // phase and epoch that order holds
	// manifoldDecoder is D_u when the rollout phase began; nil before.
	manifoldDecoder *model.MLP
	probe           []int32
	probed          []int32 // of the rollout phase

	identity []byte // as JSON
	initial  string // SHA-256 of Options.Initial
	cursor   cursor
	history  []EpochRecord
	lastSave time.Time
	saving   time.Duration // what the last save took
	samples  int64
	seconds  float64
}

func (r *run) prepare() error {
	o := &r.opt
	spec := o.Problem.Spec()
	nx, no, ns, nu := spec.ObservationSize(), spec.OracleSize(), spec.MeasuredSize(), spec.PlanSize()
	var initial backend.Networks
	if m := o.Initial; m != nil {
		initial = backend.Networks{EncoderX: m.EncoderX, EncoderO: m.EncoderO, DecoderU: m.DecoderU, DecoderS: m.DecoderS}
	}
	for i, n := range []struct {
		net             **model.MLP
		in, hidden, out int
	}{
		{&initial.EncoderX, nx, o.Encoder, o.Latent}, {&initial.EncoderO, no, o.Hidden, o.Latent},
		{&initial.DecoderU, o.Latent, o.Hidden, nu}, {&initial.DecoderS, o.Latent, o.Hidden, ns},
	} {
		if *n.net != nil {
			continue
		}
		mlp, err := model.NewMLP(rand.New(rand.NewPCG(o.Seed, streamWeights|uint64(i))), n.in, n.hidden, n.hidden, n.out)
		if err != nil {
			return err
		}
		*n.net = mlp
	}
	var err error
	if r.near, err = newNeighbourhood(r.set.Training.X, r.set.Train, o.LocalNeighbours, o.NeighboursPerStep, o.Batch); err != nil {
		return err
	}
	if o.Emphasis > 0 {
		r.emphasis = &emphasis{share: o.Emphasis}
	}
	loss := o.manifold
	if r.near == nil {
		loss.Locality = 0
	} else if loss.Isometry {
		// That form ignores the kernel weights, which otherwise carry this factor.
		loss.Locality *= float32(r.near.k) / float32(r.near.perStep)
	}
	if o.ManifoldEpochs > 0 {
		r.phases = append(r.phases, phasePlan{Manifold, r.set.Train, o.ManifoldEpochs, o.LearningRate, streamManifoldOrder})
	}
	refined, probed := r.set.Pairs, r.set.ValidationPairs
	if o.Chain {
		refined, probed = r.set.Train, r.set.Validation
	}
	if o.RolloutEpochs > 0 && len(refined) > 0 {
		r.phases = append(r.phases, phasePlan{Rollout, refined, o.RolloutEpochs, o.RolloutLearningRate, streamRolloutOrder})
	}
	r.orderOf = [2]int{-1, -1}
	r.probe = sampleRows(r.set.Validation, probeRows, o.Seed, streamProbe)
	r.probed = sampleRows(probed, probeRows, o.Seed, streamProbe)
	r.trainer, err = o.Backend.NewTrainer(backend.TrainerConfig{
		Data: r.set.Training, Initial: initial, Manifold: loss, Rollout: o.rollout, Adam: o.adam,
		SpectralBound: float32(o.SpectralBound), MaxBatch: o.Batch, MaxNeighbours: o.NeighboursPerStep,
	})
	if err != nil {
		return err
	}
	return r.identify()
}

// identify fills in the run's identity.
func (r *run) identify() error {
	o := r.opt
	id := runIdentity{
		Case: o.Problem.Spec().Name, ProblemSHA256: durable.Sum(domain.FingerprintOf(o.Problem)), DataSHA256: o.Data.contentHash(o.Problem.Spec()),
		Program: o.Version, Backend: computesOn(o.Backend), Manifold: o.manifold, Rollout: o.rollout, Adam: o.adam,
	}
	var err error
	if o.Initial != nil {
		if r.initial, err = o.Initial.SHA256(); err != nil {
			return fmt.Errorf("train: the initial map: %w", err)
		}
	}
	id.InitialSHA256 = r.initial
	// What the hashes cover, and what decides no number.
	o.Backend, o.Problem, o.Data, o.Initial = nil, nil, Data{}, nil
	o.Command, o.Version, o.Checkpoint, o.CheckpointInterval, o.Resume = "", "", "", 0, false
	id.Options = o
	if r.identity, err = json.Marshal(id); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return nil
}

// computesOn names a backend as far as the bits of its results depend on it; on how many
// threads they do not.
func computesOn(b backend.Backend) string {
	d := b.Describe()
	on := strings.TrimSpace(strings.Join([]string{d.Name, runtime.GOARCH, d.ISA, d.Precision}, " "))
	if d.Devices > 1 { // by whose number gradients are added up
		on += fmt.Sprintf(" on %d devices", d.Devices)
	}
	return on
}

func (r *run) resume() error {
	s, arrays, err := readCheckpoint(r.opt.Checkpoint)
	if errors.Is(err, fs.ErrNotExist) {
		r.progress(Progress{Note: fmt.Sprintf("no checkpoint at %s yet, starting from the beginning", r.opt.Checkpoint)})
		return nil
	}
	if err != nil {
		return err
	}
	if d := difference(s.Run, r.identity); d != "" {
		return fmt.Errorf("train: checkpoint %s is of another run: %s; remove it, or resume with what it was begun with", r.opt.Checkpoint, d)
	}
	c := s.Cursor
	if c.Phase < 0 || c.Phase > len(r.phases) || c.Epoch < 0 || c.Step < 0 ||
		c.Phase < len(r.phases) && (c.Epoch >= r.phases[c.Phase].epochs || c.Step >= r.stepsPerEpoch(c.Phase)) {
		return fmt.Errorf("train: checkpoint %s stands at phase %d, epoch %d, step %d, which this run does not have", r.opt.Checkpoint, c.Phase, c.Epoch, c.Step)
	}
	if err := r.restoreDecoder(arrays); err != nil {
		return fmt.Errorf("train: checkpoint %s: %w", r.opt.Checkpoint, err)
	}
	if r.emphasis != nil && c.Phase < len(r.phases) {
		if err := r.emphasis.restore(arrays, len(r.phases[c.Phase].rows)); err != nil {
			return fmt.Errorf("train: checkpoint %s: %w", r.opt.Checkpoint, err)
		}
	}
	if err := r.trainer.Restore(s.trainerState(arrays)); err != nil {
		return fmt.Errorf("train: checkpoint %s: %w", r.opt.Checkpoint, err)
	}
	if s.RolloutPrepared && c.Phase < len(r.phases) {
		if err := r.setChain(); err != nil {
			return err
		}
	}
	r.cursor, r.history = c, s.History
	r.progress(Progress{Note: fmt.Sprintf("resuming from %s at phase %d, epoch %d, step %d", r.opt.Checkpoint, c.Phase+1, c.Epoch+1, c.Step+1)})
	return nil
}

func (r *run) save() error {
	if r.opt.Checkpoint == "" {
		return nil
	}
	began := time.Now()
	state, err := r.trainer.State()
	if err != nil {
		return err
	}
	r.emphasis.save(&state)
	r.saveDecoder(&state)
	err = writeCheckpoint(r.opt.Checkpoint, saved{
		Version: checkpointVersion, Run: r.identity, Cursor: r.cursor, History: r.history,
		ManifoldSteps: state.ManifoldSteps, RolloutSteps: state.RolloutSteps, RolloutPrepared: state.RolloutPrepared,
	}, state.Arrays)
	r.lastSave = time.Now()
	r.saving = r.lastSave.Sub(began)
	return err
}

// savingShare of the time at most goes into checkpoints.
const savingShare = 1. / 30

// saveWhenDue saves where that was long enough ago.
func (r *run) saveWhenDue() error {
	if time.Since(r.lastSave) < max(r.opt.CheckpointInterval, time.Duration(float64(r.saving)/savingShare)) {
		return nil
	}
	return r.save()
}

func (r *run) stepsPerEpoch(phase int) int { return steps(len(r.phases[phase].rows), r.opt.Batch) }

// epoch makes the updates of the current epoch from the cursor on and moves the
// cursor to the next.
func (r *run) epoch(ctx context.Context) error {
	c := &r.cursor
	p := r.phases[c.Phase]
	if p.phase == Rollout && c.Epoch == 0 && c.Step == 0 {
		nets, err := r.trainer.Networks()
		if err != nil {
			return err
		}
		r.manifoldDecoder = nets.DecoderU
		if err := r.trainer.PrepareRollout(); err != nil {
			return err
		}
		if err := r.setChain(); err != nil {
			return err
		}
	}
	if r.orderOf != [2]int{c.Phase, c.Epoch} {
		if len(r.order) != len(p.rows) {
			r.order = make([]int32, len(p.rows))
		}
		if c.Step == 0 && r.emphasis.due(p.phase, c.Epoch) {
			if err := r.emphasis.measure(r, p.rows); err != nil {
				return err
			}
		}
		r.emphasis.order(r.order, p.rows, r.opt.Seed, p.stream, c.Epoch)
		r.orderOf = [2]int{c.Phase, c.Epoch}
	}
	perEpoch := r.stepsPerEpoch(c.Phase)
	for c.Step < perEpoch {
		if err := ctx.Err(); err != nil {
			return r.interrupted(err)
		}
		began := time.Now()
		rows := r.order[c.Step*r.opt.Batch : min((c.Step+1)*r.opt.Batch, len(r.order))]
		update := c.Epoch*perEpoch + c.Step
		rate := cosine(p.rate, update, p.epochs*perEpoch)
		loss, err := r.update(p.phase, rows, update, float32(rate))
		if err != nil {
			return err
		}
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return fmt.Errorf("train: the %s loss became %v in epoch %d, update %d of %d; try a smaller learning rate than %g or a smaller spectral bound than %g",
				p.phase, loss, c.Epoch+1, c.Step+1, perEpoch, p.rate, r.opt.SpectralBound)
		}
		elapsed := time.Since(began).Seconds()
		c.Seconds += elapsed
		c.Samples += len(rows)
		c.Step++
		r.seconds += elapsed
		r.samples += int64(len(rows))
		report := r.report(loss, len(rows))
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

// update makes one update and adds its losses to the epoch's sums.
func (r *run) update(phase Phase, rows []int32, step int, rate float32) (float64, error) {
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
		neighbours, kernel = r.near.draw(rows, r.opt.Seed, step)
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
		for from := 0; from < len(r.probe); from += r.opt.Batch {
			rows := r.probe[from:min(from+r.opt.Batch, len(r.probe))]
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
			for from := 0; from < len(r.probed); from += r.opt.Batch {
				rows := r.probed[from:min(from+r.opt.Batch, len(r.probed))]
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

// finish is the trained model with where it comes from.
func (r *run) finish() (*model.Model, error) {
	o := &r.opt
	nets, err := r.trainer.Networks()
	if err != nil {
		return nil, err
	}
	m, err := r.calibrated(nets)
	if err != nil {
		return nil, err
	}
	m.DecoderUManifold = r.manifoldDecoder
	hash := o.Data.Hash
	if hash == "" {
		hash = o.Data.contentHash(o.Problem.Spec())
	}
	m.Provenance = model.Provenance{
		Command: o.Command, Seed: o.Seed, Version: o.Version, Backend: computesOn(o.Backend), Samples: o.Data.S.Rows,
		ProblemSHA256: durable.Sum(domain.FingerprintOf(o.Problem)), DatasetSHA256: hash, InitialSHA256: r.initial, Rounds: o.Data.Rounds,
	}
	if m.Navigation, err = json.Marshal(o.Problem.Spec().Navigation); err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("train: the trained model does not hold together: %w", err)
	}
	return m, nil
}

// calibrated is a map of these networks: it chooses the codes and calibrates.
func (r *run) calibrated(nets backend.Networks) (*model.Model, error) {
	o := &r.opt
	m := &model.Model{
		Case:     o.Problem.Spec().Name,
		EncoderX: nets.EncoderX, EncoderO: nets.EncoderO, DecoderU: nets.DecoderU, DecoderS: nets.DecoderS,
		NormX: r.set.NormX, NormO: r.set.NormO, NormS: r.set.NormS, NormU: r.set.NormU,
	}
	images, err := encode(o.Backend, nets.EncoderX, r.set.Training.X, r.set.Train)
	if err != nil {
		return nil, err
	}
	chosen := chooseCodes(images, o.Codes, o.Seed)
	m.Codes = tensor.New(len(chosen), images.Cols)
	gather(m.Codes, images, chosen)
	model.RoundHalf(m.Codes.Data)
	if m.CodesDecoded, err = encode(o.Backend, nets.DecoderS, m.Codes, ascending(len(chosen))); err != nil {
		return nil, err
	}
	rows := sampleRows(r.set.Validation, calibrationRows, o.Seed, streamProbe)
	d, err := evaluate(o.Backend, o.Problem, &o.Data, r.set, nets, rows)
	if err != nil {
		return nil, err
	}
	m.Calibration = model.Calibration{
		TauGeom: d.tauGeom, DeltaDec: d.deltaMax, DeltaDecP99: d.deltaP99, LatentSpread: spread(m.Codes),
		PreferenceFloor: r.set.PreferenceFloor,
	}
	m.Calibration.ObjectiveIdeal, m.Calibration.ObjectiveNadir = objectiveRange(o.Data.J)
	return m, nil
}
