package serve

import (
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
)

// Answer is what a line of Lines says under its JSON keys. Of an error it is the failure alone, with
// op and session as far as they are known.
type Answer struct {
	Op      string `json:"op,omitempty"`      // that was asked for; absent where it is not known
	Session string `json:"session,omitempty"` // that asked; absent for the one without a name
	*Decision
	Refinement *Refined `json:"refinement,omitempty"`
	// Front is all trade-offs of an observation.
	Front            *batchnav.Front    `json:"front,omitempty"`
	Exact            *batchnav.Front    `json:"exact,omitempty"`             // as `exact` of `front`
	Same             *batchnav.Front    `json:"same,omitempty"`              // as `same` of `front`; absent without a map
	HypervolumeRatio *closedloop.Number `json:"hypervolume_ratio,omitempty"` // of `same` to `exact`; absent without both
	Health           *Health            `json:"health,omitempty"`
	*Failure
}

// Failure says what went wrong with a request.
type Failure struct {
	Error string `json:"error"` // what is wrong with the request; then there are `field`, `op` and `session` alone
	Field string `json:"field"` // that is wrong; "" where it is none alone
}

// Decision is one decision of a session. Its JSON keys are those of `gpc refine` and of a
// trace where they say the same.
type Decision struct {
	U             []float64 `json:"u"`              // action to execute, physical units
	Margin        float64   `json:"margin"`         // smallest hard margin of it; null where the observation had gaps
	Feasible      bool      `json:"feasible"`       // whether that is no violation
	Sigma         []float64 `json:"sigma"`          // priority that steered the decision; null for a method without
	Residual      float64   `json:"residual"`       // ‖x̂ − D_s(z)‖² at the localized latent, normalised; null where the map was not asked
	ResidualLimit float64   `json:"residual_limit"` // above it the observation is off the map; 0: none is stated
	OffMap        bool      `json:"off_map"`        // whether it is, by residual, state or context
	Displacement  float64   `json:"displacement"`   // ‖z_{t+1} − z_t‖
	Fallback      uint32    `json:"fallback"`       // bits as in a trace ([decision.md](../explain/decision.md))
	// Estimate is what the decision was made for, of a case whose state is estimated; nil elsewhere.
	Estimate  *Estimate `json:"estimate,omitempty"`
	Late      bool      `json:"late"`       // whether the deadline came first, and `u` is of the plan before or the problem's fallback
	Stale     string    `json:"stale"`      // why the session has the problem's fallback until it is cleared or reset: an observation was too old (`age`) or not after the one before (`order`); "": it has not
	LatencyUs float64   `json:"latency_us"` // from when the request was read to the decision
	Batch     int       `json:"batch"`      // sessions that were decided together; 0 where it is late or stale
	// Ahead is the plan that U is the first action of, [steps·action], of a case with switched actions; nil elsewhere.
	Ahead []float64 `json:"-"`
}

// Estimate is the state and the context that a session's filter has made of what was measured.
type Estimate struct {
	S      []float64 `json:"s"`      // state that the decision was made for, of a case whose state is estimated ([real-plant.md](../how-to/real-plant.md)); `estimate` is absent elsewhere
	C      []float64 `json:"c"`      // context with the estimates of its unknown entries
	Faults []string  `json:"faults"` // of each output: `fine`, `missing`, `outlier` or `frozen`
}

// Refined is a refinement. Late: the deadline came before its first candidates were rolled
// out, and U is the problem's fallback, for every action of the plan.
type Refined struct {
	batchnav.Refinement
	Late bool `json:"late"` // whether the deadline came before the first candidates were rolled out
}

// Health is what a server is and what it has done.
type Health struct {
	Status       string  `json:"status"`        // ok or closing
	Case         string  `json:"case"`          // its name
	Method       string  `json:"method"`        // that decides
	ModelSHA256  string  `json:"model_sha256"`  // of the map; "" for a method without
	Commit       string  `json:"commit"`        // of the program
	Backend      string  `json:"backend"`       // cpu, cuda or ref
	ISA          string  `json:"isa"`           // of its kernels
	Threads      int     `json:"threads"`       // that it uses
	Sessions     int64   `json:"sessions"`      // that are open
	SessionsMax  int     `json:"sessions_max"`  // that may be
	Decisions    int64   `json:"decisions"`     // with refinements and fronts, late ones not among them
	Asides       int64   `json:"asides"`        // slices of time for those who look on, such as the page; what is decided there is none of decisions
	Batches      int64   `json:"batches"`       // of decisions
	LargestBatch int64   `json:"largest_batch"` // sessions of the largest
	Replaced     int64   `json:"replaced"`      // decisions whose action is not the method's own
	Late         int64   `json:"late"`          // requests answered by their deadline
	Refused      int64   `json:"refused"`       // requests that ended in an error
	Panics       int64   `json:"panics"`        // sessions that ended in one
	UptimeS      float64 `json:"uptime_s"`      // since the start
}
