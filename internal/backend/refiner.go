package backend

import (
	"errors"

	"github.com/gpc-engine/gpc/domain"
)

// RefinerBackend is implemented by a backend that makes a whole refinement by
// itself: from the observation to the chosen plan, without the host in between.
// Package batchnav, whose Refiner says what a refinement is, uses it where it can
// and works in single operations otherwise.
type RefinerBackend interface {
	// NewRefiner prepares refinement on one map. ErrNoRefiner says that this
	// problem, or a model of these sizes, is refined in single operations.
	NewRefiner(cfg MapConfig) (Refiner, error)
}

// ErrNoRefiner is returned by NewRefiner, and by Refine of a refiner that can no
// longer work, where the caller has to refine in single operations.
var ErrNoRefiner = errors.New("this backend does not refine this problem by itself")

// RefineInput is one refinement.
type RefineInput struct {
	S, C       []float64 // the observation, finite
	Preference domain.Preference
	Tau        float32 // τ_t of the residual filter
	// Previous is the latent adopted at the last decision, [n_z]; nil: none.
	Previous []float32
	// Candidates is B, in this order: E_x, the localized code, Previous where there is
	// one, Around are Previous with noise, up to Neighbours codes of M_t near E_x, Sweep
	// are E_x under the rows of Preferences, and the rest noise around the localized
	// code.
	Candidates, Around, Neighbours, Sweep int
	FlowSteps                             int
	LookAhead                             int // decisions of the roll-out, ≥ 1
	NoProjection                          bool
	// TerminalCost is that of a roll-out of plans of one action, at the state and context where it ends; nil: none.
	TerminalCost *domain.Quadratic
	// NoiseScales are the standard deviations in turn of the rows with noise around
	// one latent, in latent units.
	NoiseScales []float64
	// Seed is that of the noise, whose numbers of a candidate are those at its place (internal/normal) in
	// CandidateStream. With the counts above it names the preferences, which are asked for only when they are not those of the
	// call before.
	Seed        uint64
	Preferences func(row int, w []float64)
}

// CandidateStream is that of a candidate's noise.
const CandidateStream = 0x63616e64 // "cand"

// RefineOutput is the chosen plan.
type RefineOutput struct {
	U             []float64 // [plan] projected
	Latent        []float32 // [n_z] that it was decoded from
	Cost, Margin  float64
	Feasible      bool
	Index         int
	Source        domain.Source
	FeasibleCount int
	// LocalizedCost and LocalizedMargin are those of candidate 1, the localized code's;
	// of a single candidate its own.
	LocalizedCost, LocalizedMargin float64
	Sigma                          []float64
	Decoded                        []float32 // D_s of the localized code, physical
	Consistent                     bool
	Sources                        [domain.Sources]domain.SourceStatistics // by source
}

// CheckTerminalCost reports a TerminalCost that does not fit a problem.
func (input *RefineInput) CheckTerminalCost(p domain.Problem) error {
	return checkTerminalCost("refiner", input.TerminalCost, p)
}

// Refiner refines one observation after another. It is used by one goroutine.
type Refiner interface {
	Refine(input RefineInput) (RefineOutput, error)
}
