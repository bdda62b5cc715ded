package domain

import "context"

// Planner is a device that solves plans; SolverAbilities.On takes one. The CUDA backend is one.
type Planner interface {
	// NewPlans makes the exact solver of a problem, for plans of up to so many steps, to a tolerance of the scaled optimality conditions
	// in at most so many iterations. An error says why there is none, errors.ErrUnsupported that there is no device (any more).
	NewPlans(p Problem, steps int, tolerance float64, iterations int) (Plans, error)
}

// Plans solves plans of one problem side by side, thousands at once.
type Plans interface {
	// Places is how many plans take no more time together than one alone.
	Places() int
	// Solve fills in the Solution of every job. One goroutine calls it at a time. An error is of the device: then nothing is solved.
	Solve(ctx context.Context, jobs []*PlanJob) error
}

// PlanJob is a weighted sum to minimise over so many steps from a state, and where its solver begins: at a start plan, or at the
// solution of another job.
type PlanJob struct {
	S, C       []float64
	Steps      int
	Preference Preference
	Room       []float64  // that is kept off each margin; nil: none
	Terminal   *Quadratic // what comes beyond the last step; nil: nothing

	Start   []float64 // [steps][actions]; its states are a roll-out
	Held    bool      // its states are the first one instead
	Barrier float64   // the first barrier parameter

	From  *PlanSolution // replaces Start; nil: none
	Shift int           // steps that From is moved on

	Solution PlanSolution
}

// PlanSolution is where a solver has ended: its point with the multipliers and the feedback of its last step, rows of steps. Actions
// are in halves of their box about its middle, states in their own units, multipliers of dynamics in the typical size of what moves,
// of limits in their size.
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
