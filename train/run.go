package train

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Result is the result of a finished run.
type Result struct {
	Model   *model.Model
	History []EpochRecord
	// Samples processed and Seconds spent in updates by this call; a resumed run
	// counts only its own.
	Samples int64
	Seconds float64
	// Rows of the dataset, including those that the problem does not select
	Rows int
}

// Most validation rows to evaluate after every epoch, and at the end.
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
	opt.Data = opt.Data.selectRows(opt.Problem)
	set, err := newTrainingSet(opt.Problem.Spec(), &opt.Data, opt)
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

type run struct {
	opt           Options
	set           *trainingSet
	progress      func(Progress)
	trainer       backend.Trainer
	neighbourhood *neighbourhood
	emphasis      *emphasis // nil: every epoch is a permutation
	phases        []phasePlan
	order         []int32
	orderEpoch    [2]int // phase and epoch that order holds
	// manifoldDecoder is D_u when the rollout phase began; nil before.
	manifoldDecoder *model.MLP
	probe           []int32
	rolloutProbe    []int32 // of the rollout phase

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
	nx, no := spec.ObservationSize(), spec.OracleSize()
	ns, nu := spec.MeasuredSize(), spec.PlanSize()
	var initial backend.Networks
	if m := o.Initial; m != nil {
		initial = networksOf(m)
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
	if r.neighbourhood, err = newNeighbourhood(r.set.Training.X, r.set.Train, o.LocalNeighbours, min(perStep, o.LocalNeighbours)); err != nil {
		return err
	}
	if o.Emphasis > 0 {
		r.emphasis = &emphasis{share: o.Emphasis}
	}
	loss := o.manifold
	if r.neighbourhood == nil {
		loss.Locality = 0
	} else if loss.Isometry {
		// That form ignores the kernel weights, which otherwise carry this factor.
		loss.Locality *= float32(r.neighbourhood.k) / float32(r.neighbourhood.perStep)
	}
	if o.ManifoldEpochs > 0 {
		r.phases = append(r.phases, phasePlan{Manifold, r.set.Train, o.ManifoldEpochs, o.LearningRate, streamManifoldOrder})
	}
	rolloutRows, rolloutValidation := r.set.Pairs, r.set.ValidationPairs
	if o.Chain {
		rolloutRows, rolloutValidation = r.set.Train, r.set.Validation
	}
	if o.RolloutEpochs > 0 && len(rolloutRows) > 0 {
		r.phases = append(r.phases, phasePlan{Rollout, rolloutRows, o.RolloutEpochs, rolloutRate * o.LearningRate, streamRolloutOrder})
	}
	r.orderEpoch = [2]int{-1, -1}
	r.probe = sampleRows(r.set.Validation, probeRows, o.Seed, streamProbe)
	r.rolloutProbe = sampleRows(rolloutValidation, probeRows, o.Seed, streamProbe)
	r.trainer, err = o.Backend.NewTrainer(backend.TrainerConfig{
		Data: r.set.Training, Initial: initial, Manifold: loss, Rollout: o.rollout, Adam: o.adam,
		SpectralBound: float32(o.SpectralBound), MaxBatch: o.Batch, MaxNeighbours: min(perStep, o.LocalNeighbours),
	})
	if err != nil {
		return err
	}
	return r.identify()
}

func networksOf(m *model.Model) backend.Networks {
	return backend.Networks{EncoderX: m.EncoderX, EncoderO: m.EncoderO, DecoderU: m.DecoderU, DecoderS: m.DecoderS}
}

// finish is the trained model with its provenance.
func (r *run) finish() (*model.Model, error) {
	o := &r.opt
	nets, err := r.trainer.Networks()
	if err != nil {
		return nil, err
	}
	m, err := r.calibratedModel(nets)
	if err != nil {
		return nil, err
	}
	m.DecoderUManifold = r.manifoldDecoder
	hash := o.Data.Hash
	if hash == "" {
		hash = o.Data.contentHash(o.Problem.Spec())
	}
	m.Provenance = model.Provenance{
		Command: o.Command, Seed: o.Seed, Version: o.Version, Backend: numericIdentity(o.Backend), Samples: o.Data.S.Rows,
		ProblemSHA256: durable.Sum(domain.FingerprintOf(o.Problem)), DatasetSHA256: hash, InitialSHA256: r.initial, Rounds: o.Data.Rounds,
	}
	if m.Navigation, err = json.Marshal(o.Problem.Spec().Navigation); err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("train: the trained model is inconsistent: %w", err)
	}
	return m, nil
}

// calibratedModel is the map of these networks: it chooses the codes and calibrates.
func (r *run) calibratedModel(nets backend.Networks) (*model.Model, error) {
	o := &r.opt
	m := &model.Model{
		Case:     o.Problem.Spec().Name,
		EncoderX: nets.EncoderX, EncoderO: nets.EncoderO, DecoderU: nets.DecoderU, DecoderS: nets.DecoderS,
		NormX: r.set.NormX, NormO: r.set.NormO, NormS: r.set.NormS, NormU: r.set.NormU,
	}
	images, err := forward(o.Backend, nets.EncoderX, r.set.Training.X, r.set.Train)
	if err != nil {
		return nil, err
	}
	codeRows, err := chooseCodes(images, o.Codes, o.Seed)
	if err != nil {
		return nil, err
	}
	m.Codes = tensor.New(len(codeRows), images.Cols)
	gather(m.Codes, images, codeRows)
	model.RoundHalf(m.Codes.Data)
	if m.CodesDecoded, err = forward(o.Backend, nets.DecoderS, m.Codes, ascending(len(codeRows))); err != nil {
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
	m.Calibration.ObjectiveIdeal, m.Calibration.ObjectiveNadir = columnRange(o.Data.J)
	m.Calibration.ContextRange = contextRange(&o.Data, r.set.NormX.Scale[o.Data.S.Cols:])
	return m, nil
}
