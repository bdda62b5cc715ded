// Package ocp is the reference solver for any problem without one of its own. It solves the finite-horizon problem
// of eq. iclr-control by multiple shooting over the known dynamics. The method is a primal–dual interior point method
// whose steps are Riccati recursions, from several starts. The package also makes the dataset's samples of solutions.
//
// The central type is Solver. It needs only a domain.Problem, the scenario's axes and the initial state of a scenario.
// Derivatives come from domain.Derivatives or the problem's Gradient. The others are central differences in float64, so
// functions should be smooth near solutions. A step of the method costs O(steps·(states + actions)³).
package ocp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// Options of a Solver. The zero value is usable.
type Options struct {
	// Horizon is the number of steps optimised; 0: Spec.Steps + Spec.Plan − 1, so
	// that every step of an episode has a whole plan.
	Horizon int
	// Keep is the number of leading steps that become samples; 0: all that have a whole plan. Where the context lacks
	// the time, the optimal action at the horizon's end is another function of the state: keep fewer steps.
	Keep int
	// Starts is the number of starting points; 0: 1. The first holds the fallback action and the state. The second
	// rolls out the base plan. Others roll out smooth random actions. One suffices for a convex problem. Two more are
	// tried where none converges.
	Starts int
	// Tolerance is the largest scaled KKT residual of an accepted solve; 0: 1e-5. The scale makes the objective's
	// largest first derivative at the start one. Derivatives are by a stage's actions in halves of their box and
	// states in StateScale. Violation is in the margins' sizes (Variable.Scale).
	Tolerance float64
	// Iterations bounds the steps of one start; 0: 200.
	Iterations int
	// StateScale holds the typical size of each measured component, for residuals,
	// differences and perturbations; nil: all 1.
	StateScale []float64
	// Perturbed is the number of extra samples per trajectory, solved from a perturbed state: that of a random step
	// plus normal noise of PerturbScale (0: 0.02) × StateScale. Its context is that of an equally perturbed scenario.
	Perturbed    int
	PerturbScale float64
	// Follow is the number of leading steps of each perturbed solution that become samples; 0: 1. Later steps are
	// optimal as well and save a solve.
	Follow int
	// Room is the distance that samples keep from each limit, in the margin's unit, where possible; nil: none. Only
	// the limits themselves have a higher penalty. A map that errs near a limit is projected away from it, which may
	// cost much more than the room. Minimise and Oracle keep none.
	Room []float64
	// Blocks are the numbers of steps that a plan holds each of its actions (move blocking); the last number repeats.
	// Samples and receding horizons use them, Minimise and Oracle never do. nil: each step has an action of its own.
	// Only weighted sums support blocks.
	Blocks []int
	// Library is the number of scenarios that are solved first, under the adaptive priority; 0: none. They exchange
	// plans with their neighbours while that lowers the cost. Where the problem has several basins, solves from a
	// scenario's start also begin from the plans of the nearest library scenarios.
	Library int
	// TerminalCost makes the horizon infinite. Weighted sums then include the cost beyond the horizon, to second
	// order about the optimal steady state: the multipliers of that state (the gradient-correcting end penalty of
	// Zanon and Faulwasser, 2018) and the cost-to-go of its linear regulator, from the discrete Riccati equation. It
	// is zero where no steady state is found. Other scalarizations are refused.
	TerminalCost bool
}

// Counts are totals since the Solver was made.
type Counts struct {
	Starts     int64 // interior point runs
	Iterations int64
	// PerturbedDropped counts perturbed states whose solve did not converge; they give no sample.
	PerturbedDropped int64
}

// Solver solves scenarios of one problem. It is safe for concurrent use. Results of Solve depend on its arguments
// alone.
type Solver struct {
	problem   domain.Problem
	abilities *domain.ProblemAbilities
	axes      []domain.Variable
	initial   func(p, s, c []float64)
	opt       Options

	room          []float64      // of the present solves
	blocks        []int          // likewise
	single        bool           // no decision tries screened plans
	terminalCosts *terminalCosts // nil: finite horizon
	device        *device        // nil: the CPU alone
	work          *work
	ctx           context.Context // cancels every solve
}

// work is what a Solver shares with its copies.
type work struct {
	workspaces                  sync.Pool // of *ipm
	starts, iterations, dropped atomic.Int64
	libraryLock                 sync.Mutex
	library                     *library
	regulators                  sync.Pool // of *regulatorSpace
	polishes                    sync.Pool // of *Receding
}

// Abilities implements domain.Able.
func (s *Solver) Abilities() *domain.SolverAbilities {
	return &domain.SolverAbilities{Until: s.Until, SolveVisited: s.SolveVisited, Start: s.initial, Accelerate: s.Accelerate, Places: s.places()}
}

// Until is domain.SolverAbilities.Until.
func (s *Solver) Until(ctx context.Context) domain.Solver {
	copied := *s
	copied.ctx = ctx
	return &copied
}

// New returns a solver. axes are the scenario's parameters with their ranges;
// initial writes the first state and context of the scenario p.
func New(problem domain.Problem, axes []domain.Variable, initial func(p, s, c []float64), opt Options) (*Solver, error) {
	spec := problem.Spec()
	opt.Horizon = cmp.Or(opt.Horizon, spec.Steps+spec.Plan-1)
	opt.Keep = cmp.Or(opt.Keep, opt.Horizon-spec.Plan+1)
	opt.Starts = cmp.Or(opt.Starts, 1)
	opt.Tolerance = cmp.Or(opt.Tolerance, 1e-5)
	opt.Iterations = cmp.Or(opt.Iterations, 200)
	opt.PerturbScale = cmp.Or(opt.PerturbScale, 0.02)
	opt.Follow = cmp.Or(opt.Follow, 1)
	if opt.StateScale == nil {
		opt.StateScale = slices.Repeat([]float64{1}, len(spec.Measured))
	}
	switch {
	case initial == nil:
		return nil, errors.New("the function from a scenario to its initial state is nil")
	case spec.Plan < 1:
		return nil, fmt.Errorf("Spec.Plan is %d, want at least 1", spec.Plan)
	case opt.Horizon < spec.Plan || opt.Horizon*len(spec.Action) > maxVariables:
		return nil, fmt.Errorf("a horizon of %d steps with %d actions, want at least the plan's %d steps and at most %d variables", opt.Horizon, len(spec.Action), spec.Plan, maxVariables)
	case opt.Keep < 1 || opt.Keep > opt.Horizon-spec.Plan+1:
		return nil, fmt.Errorf("keeping %d of %d steps, want 1 to %d: each needs a plan of %d actions", opt.Keep, opt.Horizon, opt.Horizon-spec.Plan+1, spec.Plan)
	case opt.Starts < 1 || opt.Iterations < 1 || opt.Perturbed < 0 || opt.Follow < 1 || opt.Library < 0:
		return nil, fmt.Errorf("%d starts, %d iterations, %d perturbed samples followed for %d steps and a library of %d, want at least 1, 1, 0, 1 and 0", opt.Starts, opt.Iterations, opt.Perturbed, opt.Follow, opt.Library)
	case !(opt.Tolerance > 0 && opt.Tolerance < 1):
		return nil, fmt.Errorf("KKT tolerance is %v, want it in (0, 1)", opt.Tolerance)
	case !(opt.PerturbScale > 0) || math.IsInf(opt.PerturbScale, 0):
		return nil, fmt.Errorf("perturbation scale is %v, want a positive number", opt.PerturbScale)
	case opt.Room != nil && len(opt.Room) != len(spec.Margins):
		return nil, fmt.Errorf("room is given for %d margins, want it for all %d", len(opt.Room), len(spec.Margins))
	case len(opt.StateScale) != len(spec.Measured):
		return nil, fmt.Errorf("%d state scales for %d measured components, want one for each", len(opt.StateScale), len(spec.Measured))
	}
	for i, v := range opt.StateScale {
		if !(v > 0) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("state scale %d is %v, want a positive number", i, v)
		}
	}
	for i, n := range opt.Blocks {
		if n < 1 {
			return nil, fmt.Errorf("block %d has %d steps, want at least 1", i, n)
		}
	}
	for i, v := range opt.Room {
		if !(v >= 0) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("the room of margin %d is %v, want a finite number of at least 0", i, v)
		}
	}
	var costs *terminalCosts
	if opt.TerminalCost {
		middle, start := make([]float64, len(axes)), make([]float64, len(spec.Measured))
		for i, v := range axes {
			middle[i] = (v.Lo + v.Hi) / 2
		}
		initial(middle, start, make([]float64, len(spec.Context)))
		costs = &terminalCosts{problem: problem, scale: opt.StateScale, start: start, cache: map[string]*terminalCost{}}
	}
	return newSolver(problem, axes, initial, opt, costs), nil
}

func newSolver(problem domain.Problem, axes []domain.Variable, initial func(p, s, c []float64), opt Options, terminal *terminalCosts) *Solver {
	s := &Solver{problem: problem, abilities: domain.AbilitiesOfProblem(problem), axes: axes, initial: initial, opt: opt, terminalCosts: terminal, work: &work{}, ctx: context.Background()}
	s.work.workspaces.New = func() any { return newIPM(newProgram(problem, opt.StateScale)) }
	s.work.polishes.New = func() any {
		r := newReceding(s, opt.Iterations, 0)
		r.barrier = polishedBarrier
		return r
	}
	s.work.regulators.New = func() any {
		row, spec := func(n int) []float64 { return make([]float64, n) }, problem.Spec()
		ns, nc := spec.MeasuredSize(), spec.ContextSize()
		return &regulatorSpace{s: row(ns), c: row(nc), nextS: row(ns), nextC: row(nc), u: row(spec.ActionSize()), m: row(len(spec.Margins))}
	}
	return s
}

// forSamples is the solver of samples, with room and blocks.
func (s *Solver) forSamples() *Solver {
	copied := *s
	copied.room, copied.blocks = s.opt.Room, s.opt.Blocks
	return &copied
}

// withoutBlocks is the solver without move blocking.
func (s *Solver) withoutBlocks() *Solver {
	copied := *s
	copied.opt.Blocks = nil
	return &copied
}

// SingleStart is the solver whose first decisions begin from its own starts and library alone, as in C.
func (s *Solver) SingleStart() domain.Solver {
	copied := *s
	copied.single = true
	return &copied
}

// maxVariables bounds the memory of a solve.
const maxVariables = 100_000

// Bounds are the Tolerance and the Iterations of a solve.
func (s *Solver) Bounds() (tolerance float64, iterations int) {
	return s.opt.Tolerance, s.opt.Iterations
}

// Blocked marks the steps of a receding horizon that repeat the previous action.
func (s *Solver) Blocked(steps int) []bool {
	blocked := make([]bool, steps)
	block(blocked, s.opt.Blocks)
	return blocked
}

// Counts reports the work done so far.
func (s *Solver) Counts() Counts {
	return Counts{Starts: s.work.starts.Load(), Iterations: s.work.iterations.Load(), PerturbedDropped: s.work.dropped.Load()}
}

// Trajectory is one solution.
type Trajectory struct {
	S, C    [][]float64 // [steps+1]: before each action, and after the last
	U       [][]float64 // [steps]
	Sigma   [][]float64 // [steps] weights of the objectives, σ or W
	J       [][]float64 // [steps]
	Margins [][]float64 // [steps]
	// Cost is the minimised value: Σσᵀ J for a weighted sum, else the Chebyshev or ε-constraint objective.
	// TerminalCost is its part beyond the last step.
	Cost, TerminalCost float64
	// KKT is the largest scaled residual of the optimality conditions, Violation
	// the largest −margin in the margin's size.
	KKT, Violation float64
	Iterations     int
	Gains          []float64 // [steps][action][state] of MinimisePinned: how the actions answer to another state
}

// Total is each objective summed over the trajectory.
func (t *Trajectory) Total() []float64 {
	sum := make([]float64, len(t.J[0]))
	for _, j := range t.J {
		tensor.Axpy(1, j, sum)
	}
	return sum
}

// Minimise solves the problem over the given number of steps from a state and context. Preference and scalarization
// are those of Solve. starts are further start plans [steps][action], tried before the built-in ones.
//
// It returns the best of the starts. The error wraps domain.ErrInfeasible where no start has a feasible point near
// it, or each passes through a lost state (domain.ProblemAbilities.Failed). It wraps domain.ErrNotConverged where
// none reaches the tolerance.
//
// A weighted sum minimises Σ_t σᵀJ: σ = W, or σ(s_t) along the trajectory in the adaptive mode, differentiated with
// it. Chebyshev minimises the largest w_i(ΣJ_i − ideal_i)/range_i. ε-constraint minimises the objective of the
// largest weight subject to ΣJ_j ≤ ideal_j + (1 − w_j)·range_j for the others. ideal and range come from each
// objective's own minimum from the same state. Both add 1e-4 of the sum of all objectives over their ranges, so that
// the solution is not only weakly optimal.
func (s *Solver) Minimise(state, ctx []float64, steps int, pref domain.Preference, scalarization domain.Scalarization, seed uint64, starts ...[][]float64) (*Trajectory, error) {
	return s.taskFrom(state, ctx, steps, seed, starts...).minimise(pref, scalarization)
}

// check holds a state, context, preference and number of steps to a problem's sizes.
func check(spec *domain.Spec, state, ctx []float64, steps int, pref domain.Preference) error {
	ns, nc, nu := len(spec.Measured), len(spec.Context), len(spec.Action)
	switch {
	case len(state) != ns || len(ctx) != nc:
		return fmt.Errorf("state and context have %d and %d components, want %d and %d", len(state), len(ctx), ns, nc)
	case steps < 1 || steps*nu > maxVariables:
		return fmt.Errorf("%d steps with %d actions, want at least 1 step and at most %d variables", steps, nu, maxVariables)
	}
	return pref.Validate(len(spec.Objectives))
}

// minimise solves a task as Minimise does.
func (t *task) minimise(pref domain.Preference, scalarization domain.Scalarization) (*Trajectory, error) {
	state, ctx, steps := t.state, t.ctx, t.steps
	if err := check(t.solver.problem.Spec(), state, ctx, steps, pref); err != nil {
		return nil, err
	}
	for i, plan := range t.starts {
		if len(plan) != steps {
			return nil, fmt.Errorf("start %d has %d steps, want %d", i, len(plan), steps)
		}
	}
	if scalarization != "" && scalarization != domain.WeightedSum && pref.Adaptive {
		return nil, fmt.Errorf("the adaptive priority cannot be solved by %s, which needs fixed weights; want %s", scalarization, domain.WeightedSum)
	}
	switch {
	case scalarization == "" || scalarization == domain.WeightedSum:
		ending, _ := t.solver.terminalCosts.forPlan(state, ctx, steps, pref)
		return t.solveWeighted(pref, ending)
	case t.solver.opt.TerminalCost:
		return nil, fmt.Errorf("episodes without an end can be solved for %s, not for %s", domain.WeightedSum, scalarization)
	case len(t.solver.blocks) > 0:
		return nil, fmt.Errorf("plans of blocks can be solved for %s, not for %s", domain.WeightedSum, scalarization)
	case scalarization == domain.Chebyshev || scalarization == domain.EpsilonConstraint:
		t.neighbour = nil // a warm start has no totals, or those of another state
		table, err := t.payoff()
		if err != nil {
			return nil, err
		}
		t.starts, t.ownStarts = append(t.starts, table.plans...), max(0, t.ownStarts-len(table.plans))
		found, err := t.solveStarts(func(q *program) {
			if scalarization == domain.Chebyshev {
				q.chebyshev(pref.W, table.ideal, table.spread)
			} else {
				q.epsilonConstraint(pref.W, table.ideal, table.spread)
			}
		})
		if err != nil {
			return nil, err
		}
		tensor.Fill(found.Sigma, pref.W)
		return found, nil
	default:
		return nil, fmt.Errorf("unknown scalarization %q, want %q, %q or %q", scalarization, domain.WeightedSum, domain.Chebyshev, domain.EpsilonConstraint)
	}
}

// solveWeighted minimises a weighted sum with a terminal cost.
func (t *task) solveWeighted(pref domain.Preference, ending *terminalCost) (*Trajectory, error) {
	configure := func(q *program) {
		q.setWeights(pref.Adaptive, pref.W)
		q.terminal = ending
	}
	if found, err := t.solveByDevice(pref, ending, configure); found != nil || err != nil {
		return found, err
	}
	return t.solveStarts(configure)
}

// losesState reports whether a trajectory passes through a lost state.
func (s *Solver) losesState(t *Trajectory) bool {
	for i := range t.S[1:] {
		if s.abilities.Lost(t.S[1+i], t.C[1+i]) {
			return true
		}
	}
	return false
}
