package domain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/internal/names"
	"github.com/gpc-engine/gpc/tensor"
)

// Scalarization names how a sweep turns objectives and a weight into one
// constrained problem.
type Scalarization string

const (
	WeightedSum       Scalarization = "weighted-sum"
	Chebyshev         Scalarization = "chebyshev"
	EpsilonConstraint Scalarization = "epsilon-constraint"
)

// Validate says that there is no such scalarization.
func (s Scalarization) Validate() error {
	all := []Scalarization{WeightedSum, Chebyshev, EpsilonConstraint}
	if slices.Contains(all, s) {
		return nil
	}
	return fmt.Errorf("unknown scalarization %q%s (want one of %s)", s, names.Meant(s, all), names.List(all))
}

// Sample is one Pareto-optimal decision, a row of the dataset (eq.
// iclr-dataset). Samples with the same Trajectory and consecutive Step follow
// each other; no two samples of a trajectory have the same Step.
type Sample struct {
	Scenario   int
	Trajectory int64
	Step       int
	Perturbed  bool // re-solved from a perturbed state, as a trajectory of its own
	S, C       []float64
	Preference Preference
	U          []float64 // optimal plan u*
	Target     []float64 // what D_u learns, relative to Base; U − Base unless the problem lifts it
	Sigma, J   []float64
	Margins    []float64
	KKT        float64 // largest scaled KKT residual of the solve
	// NoRoom: from its scenario's start no plan keeps off the limits by all that the case asks for (Case.Level), so that it keeps off
	// less. It is counted and not stored.
	NoRoom bool
}

// ErrInfeasible is returned by a Solver for a scenario without a feasible
// point; the scenario is discarded and counted.
var ErrInfeasible = errors.New("scenario is infeasible")

// ErrNotConverged is returned by a Solver whose iteration ended above its KKT
// tolerance although the scenario may be feasible; the solve is left out of the
// dataset and counted apart from infeasible ones.
var ErrNotConverged = errors.New("solve did not converge")

// Reason is an error that says why a solve has no sample more exactly than the error it
// wraps, ErrInfeasible or ErrNotConverged; a dataset counts its solves by it.
type Reason struct {
	Kind error
	Text string // a few words, the same for all such solves: "outside ramp"
}

func (r *Reason) Error() string { return r.Kind.Error() + ": " + r.Text }
func (r *Reason) Unwrap() error { return r.Kind }

// Solver makes the Pareto samples of a case. Solve must depend only on its
// arguments and on what Prepare built, so that shards and thread counts do not
// change the data.
type Solver interface {
	// Parameters are the scenario's axes with the ranges that Latin hypercube
	// sampling covers.
	Parameters() []Variable
	// Prepare builds what solves share, e.g. a library of solved scenarios that
	// exchange warm starts. It is deterministic in seed and may be slow.
	Prepare(ctx context.Context, seed uint64, progress func(done, total int)) error
	// Solve returns the samples of one scenario under one preference.
	Solve(scenario int, p []float64, pref Preference, scalarization Scalarization, seed uint64) ([]Sample, error)
}

// SolverUntil is s ended by ctx where it has Until, and otherwise s.
func SolverUntil(ctx context.Context, s Solver) Solver {
	if bounded := AbilitiesOfSolver(s).Until; bounded != nil {
		return bounded(ctx)
	}
	return s
}

// Receding is implemented by a Solver that also solves the next decisions from any state
// of a closed loop: what a receding-horizon controller, an oracle or a rescue needs of it.
// It needs no Prepare.
type Receding interface {
	// NewHorizon makes the horizon of one loop, used by one goroutine. A solve ends after at
	// most so many iterations from one start; 0: the Solver's own bound.
	NewHorizon(iterations int) Horizon
	// Tightened keeps off the limits: every margin of its solves stays above the slack given for it,
	// [Margins], which is not kept. It is nil of what cannot.
	Tightened(slack []float64) Receding
}

// Horizon plans the decisions of a closed loop, one after another.
type Horizon interface {
	// Begin makes plan, [steps·action], the only start of the next Solve; nil forgets the
	// decisions before.
	Begin(plan []float64)
	// Solve minimises Σ σᵀJ over the next len(plan)/len(Action) decisions from (s, c) under
	// a preference, with every margin kept; in the adaptive mode σ is that of each predicted
	// state. It starts from what Begin gave, or from the decision before, one on, or where
	// it likes. It writes plan, which is optimal and costs as much as it returns where it
	// has converged, and otherwise finite actions as a last resort. All follows from the
	// arguments and from what was before on this Horizon. An error is of the arguments.
	Solve(s, c []float64, pref Preference, plan []float64) (cost float64, converged bool, err error)
	// Within bounds the solves to come that start from what Begin gave, each from its call; 0: not.
	Within(limit time.Duration)
	// Linearise finds out, after a Solve, how the first action of its optimum changes to first order with
	// the state and context that the plan begins in, and reports false where that is not known. Correct
	// then takes u, [Action], to the first action from (s, c), within its box; no margin is looked at.
	Linearise() bool
	Correct(s, c, u []float64)
}

// Optimal writes the first action of the optimum of what remains, and reports whether one was found and
// certified. nil knows no action.
type Optimal func(s, c []float64, pref Preference, u []float64) bool

// Finds reports whether an action was found that is finite, and written into u.
func (f Optimal) Finds(s, c []float64, pref Preference, u []float64) bool {
	return f != nil && f(s, c, pref, u) && tensor.Finite(u)
}

// Instead writes what may be executed in the place of an action that may not: the action
// that is found, or else the problem's Fallback. It says which of the two.
func (f Optimal) Instead(p Problem, s, c []float64, pref Preference, u []float64) Fallback {
	if f.Finds(s, c, pref, u) {
		return FallbackSolver
	}
	p.Fallback(s, c, u)
	return FallbackConservative
}
