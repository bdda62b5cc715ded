package serve

import "github.com/gpc-engine/gpc/batchnav"

// Answer is what a line of Lines says under its JSON keys. Of an error it is the failure alone, with
// op and session as far as they are known.
type Answer struct {
	Op      string `json:"op,omitempty"`
	Session string `json:"session,omitempty"`
	*Decision
	Refinement *Refined `json:"refinement,omitempty"`
	Health     *Health  `json:"health,omitempty"`
	*Failure
}

// Failure says what went wrong with a request.
type Failure struct {
	Error string `json:"error"`
	Field string `json:"field"` // of the request; "" where it is none of one field
}

// Decision is one decision of a session. Its JSON keys are those of `gpc refine` and of a
// trace where they say the same.
type Decision struct {
	U        []float64 `json:"u"`        // action to execute, physical units
	Margin   float64   `json:"margin"`   // smallest hard margin of U; NaN where the observation was not finite
	Feasible bool      `json:"feasible"` // Margin ≥ −MarginTolerance
	Sigma    []float64 `json:"sigma"`    // priority that steered it; nil for a method without
	// Residual at the localized latent and its limit, normalised; OffMap: it is above.
	Residual      float64 `json:"residual"`
	ResidualLimit float64 `json:"residual_limit"`
	OffMap        bool    `json:"off_map"`
	Displacement  float64 `json:"displacement"` // ‖z_{t+1} − z_t‖
	Fallback      uint32  `json:"fallback"`     // domain.Fallback
	// Estimate is what the decision was made for, of a case whose state is estimated; nil elsewhere.
	Estimate *Estimate `json:"estimate,omitempty"`
	// Late: the deadline came first, and U is of the plan before (FallbackIncumbent) or the problem's fallback.
	Late bool `json:"late"`
	// Stale: the session has the problem's fallback until it is cleared or reset, because an
	// observation was too old ("age") or not after the one before ("order"); "": it has not.
	Stale     string  `json:"stale"`
	LatencyUs float64 `json:"latency_us"` // from when the request was read, µs
	Batch     int     `json:"batch"`      // sessions that were decided together; 0 where it is late or stale
}

// Estimate is the state and the context that a session's filter has made of what was measured.
type Estimate struct {
	S []float64 `json:"s"`
	C []float64 `json:"c"`
	// Faults say of each output what was wrong with it: fine, missing, outlier or frozen.
	Faults []string `json:"faults"`
}

// Refined is a refinement. Late: the deadline came before its first candidates were rolled
// out, and U is the problem's fallback, for every action of the plan.
type Refined struct {
	batchnav.Refinement
	Late bool `json:"late"`
}

// Health is what a server is and what it has done.
type Health struct {
	Status       string  `json:"status"` // ok or closing
	Case         string  `json:"case"`
	Method       string  `json:"method"`
	ModelSHA256  string  `json:"model_sha256"` // of the map; "" for a method without
	Commit       string  `json:"commit"`       // of the program
	Backend      string  `json:"backend"`
	ISA          string  `json:"isa"` // of the engine's kernels
	Threads      int     `json:"threads"`
	Sessions     int64   `json:"sessions"` // that are open
	SessionsMax  int     `json:"sessions_max"`
	Decisions    int64   `json:"decisions"` // and refinements made, late ones not among them
	Batches      int64   `json:"batches"`
	LargestBatch int64   `json:"largest_batch"`
	Replaced     int64   `json:"replaced"` // decisions whose action is not the method's own
	Late         int64   `json:"late"`     // answered by a deadline
	Refused      int64   `json:"refused"`  // requests that ended in an error
	Panics       int64   `json:"panics"`
	UptimeS      float64 `json:"uptime_s"`
}
