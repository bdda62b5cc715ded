// Package backend is the contract that every compute backend fulfils: the
// coarse batched operations from which the online step, localization and
// training are made. A backend owns its buffers; data crosses once per call.
//
// The central type is Backend. Package ref (float64, readable) is the
// specification of every operation, package backendtest holds each backend to
// it at the tolerances of docs/contribute/numerics.md.
//
// All batches are row-major float32 (package tensor). Objects made by a Backend
// are used by one goroutine at a time; a backend spreads one call over its
// threads by itself, and gives bitwise the same result for any thread count.
// Shapes are checked at entry and named in the error; a refused call writes
// nothing. Inputs may be strided or broadcast (stride 0), outputs may be strided.
// A non-finite entry stays in its own row and is never dropped: a NaN latent
// gives a NaN output.
package backend

import (
	"runtime"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Backend makes the objects that compute.
type Backend interface {
	Describe() Description

	// NewNet packs a network for inference. The MLP is copied.
	NewNet(mlp *model.MLP) (Net, error)

	// EigTopK writes the k largest eigenpairs of each symmetric matrix: g is
	// [B, n·n] (row-major n×n), values [B, k] descending, vectors [B, n·k]
	// (row-major n×k: column j is eigenvector j), each vector of unit length with
	// its largest-magnitude entry positive (the first such entry on a tie). A
	// matrix with a non-finite entry gives NaN values and zero vectors.
	EigTopK(g tensor.Matrix, n, k int, values, vectors tensor.Matrix) error

	// NewIndex builds the search structure over the codes of M*: codes [N, n_z]
	// and decoded = D_s(codes) [N, n_s], normalised units. Both are copied.
	NewIndex(codes, decoded tensor.Matrix) (Index, error)

	// NewStepper prepares the fused online step of one model.
	NewStepper(cfg StepperConfig) (Stepper, error)

	// NewTrainer moves a training set and the initial networks to the backend.
	// Data must be finite.
	NewTrainer(cfg TrainerConfig) (Trainer, error)

	// Close releases everything the backend holds.
	Close() error
}

// Serial is implemented by a backend of which several threads may have one each.
type Serial interface {
	// Serial is the backend on the caller's thread. Its results are the same to the bit, its objects share nothing, and it is not closed.
	Serial() Backend
}

// Description says what a backend is, for doctor, bench and traces.
type Description struct {
	Name    string // "cpu", "ref", "cuda"
	ISA     string // "avx512", "avx2", "generic"; "sm_90" and so on for a device
	Device  string
	Threads int // of a device: its multiprocessors
	Places  int // roll-outs that take no more time side by side than one; 0: as many as there are threads
	// Precision is "tf32" where products round their inputs to TF32, "" for float32
	// throughout.
	Precision string
}

// HostThreads are those for the host's own part of a decision.
func (d Description) HostThreads() int {
	if d.Places > 0 {
		return runtime.GOMAXPROCS(0)
	}
	return d.Threads
}

// Net is one packed network. m is its output width, n its input width.
type Net interface {
	// Forward writes y = net(z): [B,n] → [B,m].
	Forward(z, y tensor.Matrix) error
	// VJP writes the gradient of ⟨ybar, net(z)⟩ with respect to z: [B,n].
	VJP(z, ybar, zbar tensor.Matrix) error
	// Jacobian writes the exact Jacobian of every row, [B, m·n] row-major m×n.
	// At a ReLU's kink (pre-activation exactly 0) the derivative is 0.
	Jacobian(z, jac tensor.Matrix) error
	// Metric writes JᵀJ + λI, [B, n·n], without J leaving the cache (the pullback
	// metric of eq. iclr-lie-residual).
	Metric(z tensor.Matrix, lambda float32, g tensor.Matrix) error
}

// Index is the exact search over M* (Algorithm 2, step 1).
type Index interface {
	Len() int
	// Localize finds for every row b the code nearest to query z_obs among the
	// measurement-consistent ones, ‖x − D_s(code)‖² ≤ tau[b] (eq.
	// iclr-measurement-consistent, iclr-localization); if there is none, the code
	// of smallest residual, and Consistent is false. Ties go to the lower index.
	// Then, if neighbours > 1, z_obs is projected onto the affine hull of the
	// nearest `neighbours` consistent codes (ridge-regularised, see
	// ref.AffineProjection) and that point is returned. A non-finite entry in a
	// row of x or z_obs gives Nearest −1, NaN in Z and Residual, not Consistent.
	Localize(x, zobs tensor.Matrix, tau []float32, neighbours int, out LocalizeOutput) error
	// Nearest writes the k nearest codes of each query in latent distance,
	// ascending, ties by index: idx [B·k], dist2 [B·k]; no residual filter. A
	// non-finite query gives −1 and NaN.
	Nearest(z tensor.Matrix, k int, idx []int32, dist2 []float32) error
}

// LocalizeOutput receives B results; nil slices are not written.
type LocalizeOutput struct {
	Z          tensor.Matrix // [B, n_z] refined point
	Nearest    []int32       // [B] index of the nearest code
	Residual   []float32     // [B] ‖x − D_s(nearest code)‖²
	Consistent []bool        // [B] whether the residual filter was met
}

// Group is the latent Lie group of ⊕ (paper, "Lie group integration").
type Group struct {
	// RotationBlocks leading blocks of three coordinates are rotation vectors of
	// SO(3), composed by exp(a)exp(b); the rest is translation. 0 is translation
	// on ℝⁿ.
	RotationBlocks int
}

// StepParams are the constants of one latent step.
type StepParams struct {
	Dt           float32 // Δt
	VMax         float32
	Epsilon      float32
	MetricLambda float32
	TopK         int
	LieGain      float32 // γ_L
	LieScale     float32 // s_L
	Group        Group
}

// StepperConfig describes the model a Stepper runs. The networks are copied.
type StepperConfig struct {
	DecoderS, DecoderU *model.MLP
	NormS, NormU       model.Normalizer
	// Problem supplies the objective gradient; nil leaves out the tangential
	// potential (and Base is zero).
	Problem domain.Problem
	Params  StepParams
	// MaxBatch sizes the workspace; larger batches are processed in chunks.
	MaxBatch int
}

// StepInput is a batch of latents with what each is steered by.
type StepInput struct {
	Z   tensor.Matrix // [B, n_z]
	X   tensor.Matrix // [B, n_s] measured state, physical units
	Ctx tensor.Matrix // [B, n_c] context, physical units; 0 columns without a Problem
	// Weights are the effective objective weights [B, M]: the priority σ divided
	// by each objective's range (DESIGN §4.11).
	Weights tensor.Matrix
}

// StepOutput receives a step. Matrices with zero Rows are not written.
type StepOutput struct {
	Z         tensor.Matrix // [B, n_z] z_{t+1} (before any retraction)
	U         tensor.Matrix // [B, plan] Base + denormalised D_u(z_{t+1}), clipped to the action box
	Energy    []float32     // [B] V at the starting latent; nil: not wanted
	Fallbacks []uint8       // [B] bits of Fallback; nil: not wanted
}

// Fallback bits tell which NaN guard of the step acted. FallbackNoStep stands
// alone: nothing is computed after it.
type Fallback = uint8

const (
	FallbackMidpoint    = Fallback(domain.FallbackMidpoint)
	FallbackSecondSlope = Fallback(domain.FallbackSecondSlope)
	FallbackNoStep      = Fallback(domain.FallbackNoStep)
	FallbackLie         = Fallback(domain.FallbackLie)
)

// Stepper is Algorithm 2, steps 2 to 5, without retraction: field, RK2 with cap
// and fallbacks, pullback metric, top-k eigenbasis, Lie residual, ⊕, decode,
// clip.
//
// The energy is V = (1/ε)‖x̂ − D_s(z)‖² + Σ_i w_i J_i(ŝ, u; c) with x̂ the
// normalised measured state, ŝ = D_s(z) in physical units and u the first action
// of the plan Base + D_u(z).
type Stepper interface {
	Step(in StepInput, out StepOutput) error
	// Field writes F = −∇V [B, n_z] and V [B] (nil: not wanted).
	Field(in StepInput, f tensor.Matrix, energy []float32) error
	// Decode writes the clipped physical plan and, if s has rows, the physical
	// state of each latent.
	Decode(z, ctx, x tensor.Matrix, u, s tensor.Matrix) error
}

// SplitStepper is implemented by a stepper that may have to take a problem's
// gradients on the host, between parts of the step on a device.
type SplitStepper interface {
	// Split tells what the host's share of the steps so far cost.
	Split() SplitCost
}

// SplitCost is what the host's share of steps took.
type SplitCost struct {
	Evaluations int     // batches of gradients
	Rows        int     // their rows, padding not counted
	HostSeconds float64 // in the problem's own functions
	Bytes       int     // that crossed for them, both ways
}

// TrainingSet is a dataset in normalised units, one row per sample.
type TrainingSet struct {
	X tensor.Matrix // [N, n_x] inputs of E_x
	O tensor.Matrix // [N, n_o] inputs of E_o
	S tensor.Matrix // [N, n_s] state targets
	U tensor.Matrix // [N, n_u] action targets
	// Next[i] is the row that follows sample i on its trajectory, −1 for none.
	Next []int32
	// RiskWeight[i] is the numerator of eq. traj_weight for the pair (i, Next[i]).
	RiskWeight []float32
}

// Networks are the four networks of a map.
type Networks struct {
	EncoderX, EncoderO, DecoderU, DecoderS *model.MLP
}

// ManifoldLoss holds the weights of the terms of "Manifold Learning via
// Structured Loss System".
type ManifoldLoss struct {
	ReconX, Action, ReconO float32 // 1 in the paper
	Consistency            float32 // ω_1
	ConsistencyBeta        float32 // β of the Euclidean part
	Locality               float32 // ω_2
	// Isometry selects the compact form |‖z_i−z_j‖ − α‖u_i−u_j‖| of eq.
	// iclr-training-loss instead of the Gaussian-weighted one.
	Isometry      bool
	IsometryAlpha float32
}

// RolloutLoss holds the weights of eq. du_obj and the constants of the Lie
// rollout latent, eq. du_lie_latent; or, with a Horizon, says that the rollout phase is of
// eq. iclr-rollout-loss, of which Roll is the weight (see Chain).
type RolloutLoss struct {
	Horizon                  int     `json:",omitzero"`
	Delta, Roll, Flow, Lie   float32 // λ_δ, λ_roll, λ_flow, λ_Lie
	RollFraction             float32 // α of ẑ^α
	FlowFraction             float32 // α_f
	MetricLambda             float32
	TopK                     int
	LieGain, LieScale, LieDt float32
}

// Chain holds what eq. iclr-rollout-loss is taken over: z̃_h of row i, h = 1 … Horizon,
// is row i·Horizon + h − 1 of Z, with its weight ω at the same place. Rows that no step
// is given may hold anything finite.
type Chain struct {
	Z      tensor.Matrix // [N·Horizon, n_z]
	Weight []float32
}

// Adam holds the optimiser's constants; the learning rate is given per step.
type Adam struct {
	Beta1, Beta2, Epsilon float32
}

// TrainerConfig describes one training run on a backend.
type TrainerConfig struct {
	Data     TrainingSet
	Initial  Networks
	Manifold ManifoldLoss
	Rollout  RolloutLoss
	Adam     Adam
	// SpectralBound K: after every update each weight matrix W with spectral
	// norm estimate σ > K (one power iteration per step, persistent vectors) is
	// scaled by K/σ. 0: off.
	SpectralBound float32
	MaxBatch      int
	// MaxNeighbours is the largest κ that ManifoldStep will be given.
	MaxNeighbours int
}

// ManifoldLosses are batch means of each unweighted term, and the weighted sum.
type ManifoldLosses struct {
	ReconX      float64 // reconstruction from E_x
	Action      float64 // action loss
	ReconO      float64 // reconstruction from E_o
	Consistency float64 // of the two encoders
	Locality    float64 // of neighbours
	Total       float64 // weighed sum
}

// RolloutLosses are batch means of each unweighted term of eq. du_obj.
// LieAnchor and LieReg have no gradient in D_u and are reported only.
type RolloutLosses struct {
	Act       float64 // action at the latent
	ActNext   float64 // at the next one
	Delta     float64 // their difference
	Roll      float64 // roll-out
	Flow      float64 // flow
	LieAct    float64 // action after the Lie residual
	LieDelta  float64 // its change
	LieAnchor float64 // its anchor
	LieReg    float64 // its size
	Total     float64 // weighed sum
}

// Trainer holds networks, moments and data on the backend.
type Trainer interface {
	// ManifoldStep makes one Adam update of all four networks on the given rows.
	// neighbours is [len(rows)·κ] row numbers with kernel weights of the same
	// length (ignored by the isometry form); both nil: no locality term.
	ManifoldStep(rows, neighbours []int32, kernel []float32, lr float32) (ManifoldLosses, error)
	// ManifoldLoss evaluates without an update.
	ManifoldLoss(rows, neighbours []int32, kernel []float32) (ManifoldLosses, error)
	// PrepareRollout freezes E_x, E_o and D_s and precomputes z, ẑ^α, ẑ^{α_f}
	// and z̃ for every row with a successor; it resets D_u's moments and the count
	// of rollout steps. ManifoldStep is an error from then on.
	// With a Horizon nothing is precomputed: the latents are SetChain's.
	PrepareRollout() error
	// SetChain gives the latents of a rollout phase with a Horizon. It is called after
	// PrepareRollout or Restore, which forget the chain, and copies it. Rows need no
	// successors then, and of the losses there are
	//
	//	Act  = (1/B) Σ_b ‖D_u(z_b) − u_b‖²,  z_b = E_x(x_b)
	//	Roll = (1/B) Σ_b Σ_h ω_{b,h} ‖Π_h D_u(z̃_{b,h}) − Π_h u_b‖²
	//
	// with Π_h the h-th of Horizon equal parts of the plan, and Total = Act + Roll's
	// weight · Roll.
	SetChain(c Chain) error
	// RolloutStep makes one Adam update of D_u on rows that have a successor.
	RolloutStep(rows []int32, lr float32) (RolloutLosses, error)
	RolloutLoss(rows []int32) (RolloutLosses, error)
	// Networks returns copies of the current networks.
	Networks() (Networks, error)
	// State and Restore save and load everything a bitwise resume needs. Restore
	// refuses a state that does not fit, and then changes nothing.
	State() (TrainerState, error)
	Restore(TrainerState) error
}

// ManifoldUpdate is what ManifoldStep is given.
type ManifoldUpdate struct {
	Rows, Neighbours []int32
	Kernel           []float32
	Rate             float32
}

// SequenceTrainer is a Trainer that need not wait for its host between updates.
type SequenceTrainer interface {
	// ManifoldSteps makes updates one after the other and writes the losses of each, to the
	// bits of as many calls of ManifoldStep. Where one is refused none is made.
	ManifoldSteps(updates []ManifoldUpdate, losses []ManifoldLosses) error
}

// MostTogether is how many updates a training hands to a SequenceTrainer at once.
const MostTogether = 32

// Together is how many updates a training hands to a trainer at once.
func Together(t Trainer) int {
	if _, ok := t.(SequenceTrainer); ok {
		return MostTogether
	}
	return 1
}

// ManifoldSteps makes updates on any trainer.
func ManifoldSteps(t Trainer, updates []ManifoldUpdate, losses []ManifoldLosses) (err error) {
	if s, ok := t.(SequenceTrainer); ok {
		return s.ManifoldSteps(updates, losses)
	}
	for i, u := range updates {
		if losses[i], err = t.ManifoldStep(u.Rows, u.Neighbours, u.Kernel, u.Rate); err != nil {
			return err
		}
	}
	return nil
}

// TrainerState is a snapshot of a Trainer: named float32 arrays (weights,
// moments, power-iteration vectors) and the counts of updates made. The arrays
// are the same in every backend:
//
//	NETWORK.LAYER.{weight,bias}      parameters, W row-major [out][in]
//	NETWORK.LAYER.{weight,bias}.m    Adam's first moments
//	NETWORK.LAYER.{weight,bias}.v    Adam's second moments
//	NETWORK.LAYER.power              left vector [out] of the power iteration
//
// with NETWORK one of encoder_x, encoder_o, decoder_u, decoder_s and LAYER
// counted from 0.
type TrainerState struct {
	Arrays                      map[string][]float32
	ManifoldSteps, RolloutSteps int64
	RolloutPrepared             bool
}
