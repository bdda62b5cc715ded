package domain

import (
	"context"

	"github.com/gpc-engine/gpc/tensor"
)

// PlanScorer says what decoded plans of one observation lead to under the known
// dynamics. It must agree with the roll-out by Project, Step, Objectives (or Score)
// and Margins in turn, in float32 or better, which RunDomain checks. It is used by one
// goroutine, keeps none of its inputs, and on the CPU does not allocate once it has met
// the largest batch.
type PlanScorer interface {
	// ScorePlans fills in Projected, Cost and Margin of every row, the same on any
	// number of threads. It ends early with the context's error, at the latest after
	// one step of the roll-outs.
	ScorePlans(ctx context.Context, b PlanBatch) error
}

// PlanBatch is n decoded plans of one observation, and what is said of each in the
// order of the rows. All values are in physical units.
type PlanBatch struct {
	S, C       []float64 // the observation, finite
	Preference Preference
	Plans      tensor.Matrix // [n, plan], clipped to the action box; an entry may not be finite
	Steps      int           // decisions that count, ≥ 1; of NewPlanScorer at most Spec.Plan
	// NoProjection executes the actions as they were decoded.
	NoProjection bool
	Threads      int // 0 or 1 is one

	// Projected are the plans as they are executed, [n·plan]: each action projected in
	// the state that it is taken in, those beyond Steps as they were decoded.
	Projected []float64
	// Cost is Σ σᵀJ over the steps, [n], σ the fixed preference or the semantic
	// priority in each state. NaN: the plan has none and is not feasible.
	Cost []float64
	// Margin is the smallest hard margin over the steps, [n]. NaN: a margin is not
	// known, and the plan is not feasible. −Inf: an action, or a state that the plan
	// leads to, is not finite, or that state is lost (Failed); Projected and Cost of such a
	// row say nothing.
	Margin []float64
}
