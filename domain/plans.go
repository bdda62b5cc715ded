package domain

import "context"

// Planner makes the exact solver of a problem on a device, for plans of at most the given steps. The tolerance is of the scaled
// optimality conditions. An error says why there is none, errors.ErrUnsupported that there is no device (any more).
type Planner func(p Problem, steps int, tolerance float64, iterations int) (*Plans, error)

// Plans solves plans of one problem side by side, thousands at once.
type Plans struct {
	Places int // plans that take no more time together than one alone
	// Solve fills in the Solution of every job. One goroutine calls it at a time. After an error nothing is solved;
	// errors.ErrUnsupported asks the caller to go on without it.
	Solve func(ctx context.Context, jobs []*PlanJob) error
}

// PlanJob is a weighted sum to minimise over a few steps from a state. Its solver begins at a start plan, or at the solution of
// another job.
type PlanJob struct {
	S, C       []float64
	Steps      int
	Preference Preference
	Room       []float64  // added to each limit; nil: none
	Terminal   *Quadratic // what comes beyond the last step; nil: nothing

	Start   []float64 // [steps][actions]; its states are a roll-out
	Hold    bool      // its states are the first one instead
	Barrier float64   // the first barrier parameter

	Warm  *PlanSolution // replaces Start; nil: none
	Shift int           // steps that Warm is moved on

	Solution PlanSolution
}

// PlanSolution is where a solver has ended: its point with the multipliers and the feedback of its last step, rows of steps. Actions
// are in halves of their box about its middle, states in their own units. Multipliers are per typical size of what moves, and per size
// of a limit.
type PlanSolution struct {
	Solved            bool // the optimality conditions hold at a roll-out that keeps its limits, by the tolerance
	Steps, Iterations int
	Cost, KKT         float64
	Actions           []float64 // [steps][actions]
	States            []float64 // [steps+1][measured and context]
	Dynamics          []float64 // [steps+1][moving]
	Limits            []float64 // [steps][margins]
	Lower, Upper      []float64 // [steps][actions], of the box
	Factor, Gains     []float64 // [steps][actions][actions], a Cholesky factor L; [steps][moving][actions], Y: actions answer −L⁻ᵀYᵀξ
	Barrier, Penalty  float64
	Scale             float64 // of the objective
}
