package backend

import (
	"errors"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// RefinerBackend is implemented by a backend that makes a whole refinement by
// itself: from the observation to the chosen plan, without the host in between.
// Package batchnav, whose Refiner says what a refinement is, uses it where it can
// and works in single operations otherwise.
type RefinerBackend interface {
	// NewRefiner prepares refinement of one model. ErrNoRefiner says that this
	// problem, or a model of these sizes, is refined in single operations.
	NewRefiner(cfg RefinerConfig) (Refiner, error)
}

// ErrNoRefiner is returned by NewRefiner, and by Refine of a refiner that can no
// longer work, where the caller has to refine in single operations.
var ErrNoRefiner = errors.New("this backend does not refine this problem by itself")

// RefinerConfig describes the model that is refined. All is copied.
type RefinerConfig struct {
	EncoderX *model.MLP
	NormX    model.Normalizer
	Step     StepperConfig // with a Problem; MaxBatch is the candidates to make room for
	// Codes and Decoded are M* and D_s of it, [N, n_z] and [N, n_s]; no rows: a
	// model without codes, whose observations are not localized.
	Codes, Decoded tensor.Matrix
	Neighbours     int       // of the affine refinement of localization
	InverseRange   []float64 // of each objective: weights are σ times it
}

// RefineInput is one refinement.
type RefineInput struct {
	S, C       []float64 // the observation, finite
	Preference domain.Preference
	Tau        float64 // τ_t of the residual filter
	// Candidates is B. Of them two are the localized code and E_x, up to Neighbours
	// codes of M_t near E_x, Sweep are E_x under the rows of Preferences, and the
	// rest noise around the localized code.
	Candidates, Neighbours, Sweep int
	FlowSteps                     int
	LookAhead                     int // decisions of the roll-out, ≥ 1
	NoProjection                  bool
	// NoiseScales are the standard deviations of the noise rows in turn, in latent
	// units.
	NoiseScales []float64
	// Seed, with the counts above, names the tables that the next two give. They are
	// asked only when the tables are not those of the call before.
	Seed        uint64
	Noise       func(row int, normals []float64) // standard normal numbers of a candidate
	Preferences func(row int, w []float64)
}

// RefineSource is what one source of candidates contributed; costs are over its
// feasible candidates, 0 without one.
type RefineSource struct {
	Candidates, Feasible int
	BestCost, MeanCost   float64
}

// RefineOutput is the chosen plan.
type RefineOutput struct {
	U                      []float64 // [plan] projected
	Cost, Margin           float64
	Feasible               bool
	Index, Source          int // Source as batchnav counts them: localized, neighbour, preference, noise
	FeasibleCount          int
	FirstCost, FirstMargin float64 // of candidate 0
	Sigma                  []float64
	Decoded                []float32 // D_s of the localized code, physical
	Consistent             bool
	Sources                [4]RefineSource
}

// Refiner refines one observation after another. It is used by one goroutine.
type Refiner interface {
	Refine(in RefineInput) (RefineOutput, error)
}
