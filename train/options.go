package train

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
)

// Options of Run. A zero value means the default next to the field; where zero is a choice itself, a negative value
// makes it.
type Options struct {
	Backend backend.Backend // required
	Problem domain.Problem  // required
	Data    Data            // required
	Seed    uint64

	Command, Version string // recorded in the model's provenance

	// Initial is an earlier map whose networks and normalisation the manifold
	// phase starts from, with new moments; nil: random networks, and the data's own
	// normalisation. Latent, Hidden and Encoder are its own.
	Initial *model.Model

	// Sizes and counts; 0 takes Spec.Training's.
	Latent, Hidden  int
	Encoder         int // width of E_x's hidden layers
	ManifoldEpochs  int // negative: none
	RolloutEpochs   int // negative: none
	Batch           int
	LocalNeighbours int // κ, neighbours of each sample; negative: no locality term
	Codes           int // upper bound; negative: all training samples

	// Emphasis ∈ [0,1) is the share of each epoch that is drawn in
	// proportion to the present decoding error instead of once each. 0:
	// Spec.Training's; negative: none.
	Emphasis float64

	LearningRate  float64 // of the manifold phase at its start; 0: Spec.Training's
	SpectralBound float64 // K; 0: Spec.Training's, negative: off

	ActionWeight   float64 // λ_u of the action loss; 0: Spec.Training's
	LocalityWeight float64 // ω_2; 0: 0.5 as the paper has it, negative: none
	Isometry       bool    // the compact isometry form of the locality loss

	// Plain trains E_x and D_u as one network by the action loss alone. No code agrees with E_o's or lies near its
	// neighbours', and there is no rollout phase. D_s also learns, for the monitor of observations, with a weight
	// that leaves E_x as it is. E_o keeps its initial weights.
	Plain bool `json:",omitzero"`

	// Chain makes the rollout phase that of eq. iclr-rollout-loss instead of eq. du_obj: D_u at the latents of the
	// navigator's path from every row's localized code, as many as a plan has actions.
	Chain bool `json:",omitzero"`

	// Parameters of the losses and of Adam, set by resolve.
	manifold backend.ManifoldLoss
	rollout  backend.RolloutLoss
	adam     backend.Adam

	// Other values are for tests; 0: validationShare, checkpointInterval.
	validation float64       // share of the scenarios that is held out, one at least
	interval   time.Duration // between two checkpoints

	// Shorten, if set, is the number of epochs for which the manifold phase has time, of which epochs are made. It is
	// asked after each; the phase then has as many, ManifoldEpochs at most.
	Shorten func(epochs int) int `json:"-"`

	// Checkpoint is the file that a run saves to, atomically: every second of wall time, inside an epoch too, when
	// ctx ends and at the end. It saves less often where saving would take more than a thirtieth of the time. "":
	// none. It is locked during the run.
	Checkpoint string
	// Resume continues from Checkpoint if it exists. It refuses one of another problem, data, options, program,
	// backend or instruction set; the number of threads may differ.
	Resume bool
}

// Defaults for all problems.
const (
	// perStep of the κ neighbours are drawn anew for every sample and step, weighted by
	// κ/perStep: the gradient is unbiased and E_x costs 1 + perStep passes instead of 1 + κ.
	perStep = 1
	// rolloutRate is the initial learning rate of the rollout phase as a share of the manifold phase's. D_u starts
	// from a trained optimum.
	rolloutRate = 0.25
	// validationShare of the scenarios is held out. At least one scenario is held out and at
	// least one is trained on.
	validationShare    = 0.05
	checkpointInterval = time.Second
)

// plainReconstruction is the weight of a plain network's state reconstruction. Adam moves D_s as far with any weight,
// as nothing else moves it. The weight hardly moves E_x, which λ_u moves.
const plainReconstruction = 1e-4

// defaultManifoldLoss is the composite objective of sec:loss. As in "Experimental Setup", the state reconstructions
// have weight 1, ω_1 = 1 and ω_2 = 0.5. The paper leaves β and λ_u open: β is 0.1. λ_u is of a problem that names none.
// It is so large because E_x spends on the reconstruction what D_u would need, from the first epoch on. E_o and D_s learn
// as fast with any λ_u, since Adam divides their gradients by their size. See docs/explain/training.md for the measurement.
func defaultManifoldLoss() backend.ManifoldLoss {
	return backend.ManifoldLoss{
		ReconX: 1, Action: 1000, ReconO: 1,
		Consistency: 1, ConsistencyBeta: 0.1,
		Locality: 0.5, IsometryAlpha: 1,
	}
}

// defaultRolloutLoss is eq. du_obj with the navigator's own Lie constants. The paper names λ_δ, λ_roll, λ_flow,
// λ_Lie, α and α_f without values. α = 1 puts the rolled-out latent at the successor, where its target u*_{h+1} is
// exact. A smaller α teaches a latent between two samples the later one's action.
func defaultRolloutLoss(nav domain.Navigation) backend.RolloutLoss {
	return backend.RolloutLoss{
		Delta: 0.1, Roll: 0.5, Flow: 0.1, Lie: 0.1,
		RollFraction: 1, FlowFraction: 0.5,
		MetricLambda: float32(nav.MetricLambda), TopK: nav.TopK,
		LieGain: float32(nav.LieGain), LieScale: float32(nav.LieScale), LieDt: float32(nav.LatentStep),
	}
}

// Validate reports invalid options, including those that the problem fills in.
func (o Options) Validate() error {
	_, err := o.resolve()
	return err
}

// resolve fills in defaults and checks ranges.
func (o Options) resolve() (Options, error) {
	if o.Backend == nil || o.Problem == nil {
		return o, errors.New("train: Options need a Backend and a Problem")
	}
	if o.Initial != nil {
		if err := o.takeSizes(o.Initial); err != nil {
			return o, err
		}
	}
	o.fillIn(o.Problem.Spec())
	return o, o.check()
}

// takeSizes takes the sizes of the initial map, which has to fit the problem.
func (o *Options) takeSizes(m *model.Model) error {
	if err := m.Validate(); err != nil {
		return fmt.Errorf("train: the initial map: %w", err)
	}
	if err := batchnav.Fits(m, o.Problem.Spec()); err != nil {
		return fmt.Errorf("train: the initial map: %w", err)
	}
	for _, entry := range []struct {
		name   string
		option *int
		size   int
	}{{"Latent", &o.Latent, m.Latent()}, {"Hidden", &o.Hidden, m.DecoderU.Layers[0].W.Rows}, {"Encoder", &o.Encoder, m.EncoderX.Layers[0].W.Rows}} {
		if *entry.option != 0 && *entry.option != entry.size {
			return fmt.Errorf("train: %s is %d, want %d as in the initial map", entry.name, *entry.option, entry.size)
		}
		*entry.option = entry.size
	}
	return nil
}

// fillIn sets the defaults of zero fields, and the losses' weights.
func (o *Options) fillIn(spec *domain.Spec) {
	t := &spec.Training
	o.Latent = cmp.Or(o.Latent, t.Latent)
	if o.Encoder == 0 && o.Hidden == 0 {
		o.Encoder = t.Encoder
	}
	o.Hidden = cmp.Or(o.Hidden, t.Hidden)
	o.Encoder = cmp.Or(o.Encoder, o.Hidden)
	o.ManifoldEpochs = cmp.Or(o.ManifoldEpochs, t.ManifoldEpochs)
	o.RolloutEpochs = cmp.Or(o.RolloutEpochs, t.RolloutEpochs)
	o.Batch = cmp.Or(o.Batch, t.Batch)
	o.LocalNeighbours = cmp.Or(o.LocalNeighbours, t.LocalNeighbours)
	o.Codes = cmp.Or(o.Codes, t.Codes)
	o.ManifoldEpochs, o.RolloutEpochs = max(o.ManifoldEpochs, 0), max(o.RolloutEpochs, 0)
	o.LocalNeighbours, o.Codes = max(o.LocalNeighbours, 0), max(o.Codes, 0)
	o.LearningRate = cmp.Or(o.LearningRate, t.LearningRate)
	o.Emphasis = math.Max(cmp.Or(o.Emphasis, t.Emphasis), 0)
	o.SpectralBound = math.Max(cmp.Or(o.SpectralBound, t.SpectralBound), 0)
	if o.manifold == (backend.ManifoldLoss{}) {
		o.manifold = defaultManifoldLoss()
		if w := cmp.Or(o.ActionWeight, t.ActionWeight); w != 0 {
			o.manifold.Action = float32(w)
		}
		if o.LocalityWeight != 0 {
			o.manifold.Locality = float32(math.Max(o.LocalityWeight, 0))
		}
		o.manifold.Isometry = o.Isometry
	}
	if o.Plain {
		o.manifold = backend.ManifoldLoss{Action: o.manifold.Action, ReconX: plainReconstruction}
		o.LocalNeighbours, o.RolloutEpochs = 0, 0
	}
	o.rollout = defaultRolloutLoss(spec.Navigation)
	if o.Chain {
		o.rollout.Horizon = spec.Plan
	}
	o.adam = backend.Adam{Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	o.validation = cmp.Or(o.validation, validationShare)
	o.interval = cmp.Or(o.interval, checkpointInterval)
}

// check reports invalid options after fillIn.
func (o *Options) check() error {
	if !(o.Emphasis < 1) {
		return fmt.Errorf("train: Emphasis is %v, want a share below 1", o.Emphasis)
	}
	for _, c := range []struct {
		name  string
		value int
		lo    int
		hi    int
	}{
		{"Latent", o.Latent, 1, model.MaxWidth}, {"Hidden", o.Hidden, 1, model.MaxWidth}, {"Encoder", o.Encoder, 1, model.MaxWidth},
		{"Batch", o.Batch, 1, 1 << 20}, {"LocalNeighbours", o.LocalNeighbours, 0, 1024},
	} {
		if c.value < c.lo || c.value > c.hi {
			return fmt.Errorf("train: %s is %d, want %d to %d", c.name, c.value, c.lo, c.hi)
		}
	}
	if !(o.LearningRate > 0) || math.IsInf(o.LearningRate, 0) {
		return fmt.Errorf("train: LearningRate is %v, want a finite number > 0", o.LearningRate)
	}
	if !(o.manifold.Action > 0) || math.IsInf(float64(o.manifold.Action), 0) || math.IsNaN(o.LocalityWeight) || math.IsInf(o.LocalityWeight, 0) {
		return fmt.Errorf("train: ActionWeight is %v and LocalityWeight %v, want finite numbers, the first above 0", o.ActionWeight, o.LocalityWeight)
	}
	if o.ManifoldEpochs == 0 && o.RolloutEpochs > 0 && o.Initial == nil {
		return errors.New("train: rollout refinement needs manifold training before it: RolloutEpochs > 0 needs ManifoldEpochs > 0 or an initial map")
	}
	if o.Resume && o.Checkpoint == "" {
		return errors.New("train: Resume needs the Checkpoint file to resume from")
	}
	return nil
}
