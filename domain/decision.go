package domain

import (
	"math"
	"time"
)

// Decision is what a Controller says of a decision besides its action; Decided makes that of one without a map. Its slices
// belong to the controller: the next decision may overwrite them.
type Decision struct {
	Sigma        []float64 // priority that steered it; nil where the map was not asked
	Residual     float64   // ‖x̂ − D_s(z)‖² at the localized latent, normalised units, the largest of all observations; NaN: the map was not asked
	Limit        float64   // of the residual: above it the observation is off the map; 0: none is stated
	Displacement float64   // ‖z_{t+1} − z_t‖, what flow and retraction moved; NaN: the map was not asked
	Gap          float64   // of the executed action, by ProblemAbilities.Gap; 0: it was not asked
	Fallback     Fallback  // FallbackMethod where the method's own solve did not succeed
	Breaks       bool      // a guard has found no plan whose first action keeps the limits
	Times        Times
	// Decoded is the map's plan before projection, [Plan·action], whose first action was executed where projection and
	// fallbacks left it; nil where there was none.
	Decoded []float32
	// Ahead is the plan that the action is the first of, [steps·action], as a receding horizon has it, or a guard has
	// accepted it; empty where there is none.
	Ahead []float64
}

// Decided is the Decision of a method without a map, whose own solve succeeded or not.
func Decided(solved bool) Decision {
	d := Decision{Residual: math.NaN(), Displacement: math.NaN()}
	if !solved {
		d.Fallback = FallbackMethod
	}
	return d
}

// Solved reports whether the method's own solve succeeded.
func (d Decision) Solved() bool { return d.Fallback&FallbackMethod == 0 }

// Keeps reports whether the decision keeps the limits: by its own solve along its plan, of a map as it is executed.
func (d Decision) Keeps() bool {
	return d.Solved() && !d.Breaks && (d.Fallback&FallbackMargin == 0 || d.Fallback.Replaced())
}

// Times are the shares of one decision; zero where they were not taken.
type Times struct {
	Localize time.Duration // encode, search, smoothing
	Step     time.Duration // indicators, flow, retraction, decode; what a device projects with them
	Project  time.Duration // projection, margins, fallback
}

// Total is the whole decision.
func (t Times) Total() time.Duration { return t.Localize + t.Step + t.Project }

// Chosen is what a decision chose and among what, physical units.
type Chosen struct {
	Plan []float64 // [LookAhead][action]
	// Cost is Σ σᵀJ and Margin the smallest hard margin along Plan, by the known
	// dynamics in float64.
	Cost, Margin  float64
	Feasible      bool // Margin ≥ −MarginTolerance
	Candidates    int  // scored
	FeasibleCount int
	LookAhead     int
	Source        Source // of the first action
	// Baseline is what the decoded plan of E_x alone would cost, and whether it is
	// feasible.
	Baseline         float64
	BaselineFeasible bool
	Consistent       bool // M_t was not empty for any observation
	Sources          []SourceStatistics
}

// SourceStatistics say what one source of candidates contributed. Costs are over
// its feasible candidates, 0 where it has none.
type SourceStatistics struct {
	Source     Source  `json:"source"`     // where candidates are from
	Candidates int     `json:"candidates"` // of that source
	Feasible   int     `json:"feasible"`   // of them
	BestCost   float64 `json:"best_cost"`  // of the feasible; 0 without
	MeanCost   float64 `json:"mean_cost"`  // likewise
}
