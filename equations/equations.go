// Package equations makes a control problem from plain equations. You write the dynamics, objectives and limits of a
// system as Go functions. You get a domain.Case with solver, plant, projection and exact derivatives.
//
// The central type is System: a struct of names, ranges and functions. The functions are generic in dual.Scalar, so
// that one text both computes and differentiates. Its example is a complete system.
//
// Looking one step ahead has to be enough. Where a satisfied limit can lead to a state in which no action satisfies
// it, let the margin include the room to stop, or write Escape.
package equations

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/ocp"
)

// Functions are the equations in one type of number. They must depend on their arguments alone, and be smooth near
// solutions. c holds the context of System, then the clock: the share of the episode that has passed. A system with
// an infinite horizon (System.Horizon) has no clock.
type Functions[T dual.Scalar] struct {
	// Step writes the next state, and the changed entries of the context except the clock; cNext holds c at the
	// start. Where System.ODE or System.Stiff has written sNext, Step only writes cNext, and may be nil.
	Step func(s, c, u, sNext, cNext []T)
	// Objectives writes the costs of the action; sNext is the next state.
	Objectives func(s, c, u, sNext, j []T)
	// Margins writes the margin of every limit, ≥ 0 where it is satisfied; nil without limits.
	Margins func(s, c, u, sNext, m []T)
	// Escape, optional, writes an action that leads away from the limits, such as braking. The limits are then those
	// of an action and of EscapeSteps steps of the escape after it. Whoever satisfies them can go on by the escape.
	// Use it where one step ahead is too late. It is clipped to the box. A solver converges better where it stays
	// inside smoothly, as by dual.Tanh.
	Escape func(s, c, u []T)
}

// System is a controlled system. Fields are required unless marked as optional.
type System struct {
	Name, Description string
	// State, Context and Action name the entries of s, c and u with their units. Lo and Hi of an action are its box;
	// those of a state, optional, are its typical range. The package appends the clock to the context.
	State, Context, Action []domain.Variable
	Objectives, Margins    []domain.Variable
	// Scenario are the parameters p of an episode, drawn uniformly from [Lo, Hi]. Initial writes the initial state
	// and context.
	Scenario []domain.Variable
	Initial  func(p, s, c []float64)
	// Steps is the number of decisions in an episode, StepSeconds the time between two.
	Steps       int
	StepSeconds float64
	// Horizon makes the horizon infinite, and is the number of decisions that a plan looks ahead. There is no clock
	// then: a decision depends on state and context alone. The terminal cost of a plan is that of the linear
	// regulator about the optimal steady state (ocp.Options.TerminalCost). An episode is a test drive of Steps
	// decisions. 0: an episode ends after Steps decisions, as a manoeuvre does.
	Horizon int
	// Real and Dual are the same equations at float64 and complex128.
	Real Functions[float64]
	Dual Functions[complex128]

	// The remaining fields are optional.

	// Source is the Go text of the functions, for Program.
	Source *Source

	// ODE is the state's differential equation, which dual.RK4 integrates into sNext. Stiff is a stiff one, for
	// dual.Radau. Give at most one of them. Step may call the integrators itself, but the solver then takes longer,
	// with Radau many times.
	ODE   *dual.Explicit
	Stiff *dual.Stiff

	// Constants are the numbers in the functions, such as masses and lengths, as anything that JSON takes. They tell
	// datasets and maps of one system from those of another with the same names. The outputs of the functions at some
	// random starts and actions, to six digits, do so too.
	Constants any

	// EscapeSteps is the number of steps after which Escape satisfies the limits for good.
	EscapeSteps int

	// Soft lists the margins that may be violated at a penalty.
	Soft []Soft
	// Rates are the largest changes of each action between two decisions; nil, or 0 for an action: as much as its box
	// allows. The context then ends with the previous action, "last " and its name; an episode begins with Rest. The
	// system's functions do not get it.
	Rates []float64
	// Switches are the actions that take one of a few values. The context then ends with what was before of each: its
	// value, "last " and its name, and the periods since its last changes. The system's functions do not get them.
	// Plans come from a search, and the map is of the plan's probabilities (package ocp/mixedinteger).
	Switches []Switch
	// Blocks are the numbers of periods that a plan holds its actions (move blocking); the last number repeats. {1,
	// 1, 2, 4} plans one action for each of the first two periods, one for the next two, and one for every later
	// four. The exact solver plans so, and the samples of a map are its decisions. Each period still has a decision
	// of its own, which begins the blocks anew. References of tests hold no action: the regret includes the cost of
	// holding. nil: the action may change in each period.
	Blocks []int

	// Failed reports a lost state, such as a fall, whatever the margins are.
	Failed func(s, c []float64) bool
	// Picture draws a state, as domain.ProblemAbilities.Picture; nil: time lines are drawn.
	Picture func(s, c []float64) []domain.Shape
	// Rest is the neutral action, clipped to the box. The solver begins with it, so choose one that about holds the
	// system where it is. nil: zeros, or the middle of a box without zero.
	Rest []float64
	// Urgency writes the urgency of each objective in a state, in [0, 1]. nil: J/(J + scale) of the cost of staying
	// in the state at Rest; scale is ObjectiveScale. Semantic turns urgencies into priorities; its zero value weighs
	// all alike.
	Urgency        func(s, c, delta []float64)
	ObjectiveScale []float64 // nil: the mean over starts and random actions
	Semantic       domain.Semantic
	// MarginTolerance is the largest violation by rounding; 0: 1e-9.
	MarginTolerance float64
	// StateScale is the typical size of each state; nil: half its range, or 1. Noise, estimates and feedback count a state
	// without a range in it. The solver counts margins in their ranges, or their units.
	StateScale []float64
	// Solver holds options of the horizon solver. Perturbed 0 is 10, PerturbScale 0 is 0.1, Follow 0 is the episode.
	// The system sets TerminalCost by Horizon; samples then look ahead two horizons and keep the first. It also sets
	// StateScale and Blocks. Room is that of Margins; the limits along the escape keep it too.
	Solver ocp.Options
	// Plants are systems with other parameters, for evaluations of a plant that the map was not made for. Every
	// system also has those with other actuator gains, by the names of its actions; nil: only those.
	Plants *Plants
	// Measurement describes the measured outputs and the unknown entries of the context; nil: the exact state is
	// measured.
	Measurement *domain.Measurement
	// Delay is the age of a decision's measurement when its action begins to act, in periods (domain.Delay). A
	// fraction needs ODE or Stiff.
	Delay float64
	// Training and Navigation override defaults by their non-zero fields.
	Training   domain.Training
	Navigation domain.Navigation

	// Set by UncertainGains.
	gains []domain.Unknown
	share float64
	// Set by Rates and Switches: the previous actions, and the ages of their changes.
	last []domain.Variable
	// plan is the number of actions of a decoded plan; 0: 1.
	plan int
	// snapAction moves a random action of a test of the functions to one that they are for; nil: any is.
	snapAction func(u []float64)
	unchecked  bool // the integrator is not checked
}

// Plants are systems of the same names and sizes with other parameters.
type Plants struct {
	Parameters []domain.PlantParameter
	// New makes the system with a factor for each of Parameters, in order.
	New func(factors []float64) System
}

// shifts are the cases of these systems, and of those with other actuator gains.
func (p *Problem) shifts() *domain.Shifts {
	spec, plants := &p.spec, p.original.withActuatorGains()
	return &domain.Shifts{Parameters: plants.Parameters, New: func(factors []float64) (domain.Case, error) {
		c, err := plants.New(factors).Case()
		if err != nil {
			return c, err
		}
		if s := c.Problem.Spec(); s.Name != spec.Name || s.MeasuredSize() != spec.MeasuredSize() || s.ContextSize() != spec.ContextSize() ||
			s.ActionSize() != spec.ActionSize() || s.ObjectiveSize() != spec.ObjectiveSize() || len(s.Margins) != len(spec.Margins) {
			return c, fmt.Errorf("system %q: Plants.New makes the system %q or another size: want the same name and sizes, with other parameters", spec.Name, s.Name)
		}
		return c, nil
	}}
}

// Case makes the problem with solver, plant, oracle and rescue. Its error names the faulty field.
func (y System) Case() (domain.Case, error) {
	p, err := New(y)
	if err != nil {
		return domain.Case{}, err
	}
	if y.Measurement != nil {
		if err := p.system.Measurement.Validate(&p.spec); err != nil {
			return domain.Case{}, fmt.Errorf("system %q: %w", y.Name, err)
		}
	}
	delay := p.delay()
	if err := delay.Validate(&p.spec); err != nil {
		return domain.Case{}, fmt.Errorf("system %q: %w", y.Name, err)
	}
	return p.system.newCase(p, nil)
}

// newCase is the case of a problem. With plain, the problem has a backoff, and plain is the solver of the problem
// without it.
func (y System) newCase(p *Problem, plain *ocp.Solver) (domain.Case, error) {
	if p.switching != nil {
		return y.switchedCase(p)
	}
	opt := y.Solver
	opt.StateScale, opt.Blocks = p.system.StateScale, y.Blocks
	if opt.Room != nil && len(opt.Room) != len(y.Margins) {
		return domain.Case{}, fmt.Errorf("system %q: Solver.Room has %d entries, want one for each of the %d Margins", y.Name, len(opt.Room), len(y.Margins))
	}
	if opt.Room != nil {
		opt.Room = slices.Repeat(opt.Room, 1+y.EscapeSteps)
	}
	fill(&opt.Perturbed, 10)
	fill(&opt.PerturbScale, 0.1)
	if opt.TerminalCost = y.Horizon > 0; opt.TerminalCost {
		fill(&opt.Horizon, 2*y.Horizon)
		fill(&opt.Keep, min(y.Horizon, opt.Horizon))
	}
	fill(&opt.Follow, p.spec.LookAhead())
	solver, err := ocp.New(p, y.Scenario, p.initial, opt)
	if err != nil {
		return domain.Case{}, err
	}
	if plain != nil {
		solver = plain.WithProblem(p)
	}
	p.polish = solver.Polish
	if opt.TerminalCost {
		p.terminalCost, p.planTerminalCost, p.regulatorMargin = solver.TerminalCost, solver.PlanTerminalCost, solver.RegulatorMargin
	}
	plant := closedloop.Simulated(p, y.Scenario, p.initial)
	plant.Oracle, plant.Measurement, plant.Delay = solver.Oracle, y.Measurement, p.delay()
	rescue := func(s, c []float64, pref domain.Preference, u []float64) bool {
		best, err := solver.Minimise(s, c, p.Remaining(c), pref, domain.WeightedSum, 1)
		if err != nil {
			return false
		}
		copy(u, best.U[0])
		return p.Project(s, c, u)
	}
	tighten := func(b *domain.Backoff) (domain.Case, error) {
		c, err := y.newCase(p.withBackoff(b), solver)
		c.Plant = plant
		return c, err
	}
	return domain.Case{Problem: p, Solver: solver, Plant: plant, Rescue: rescue, Measurement: y.Measurement, Delay: p.delay(), Tightened: tighten, Shifts: p.shifts()}, nil
}

// initial is Initial with the clock, if any, at zero.
func (p *Problem) initial(parameters, s, c []float64) {
	clear(c)
	p.system.Initial(parameters, s, c)
	if p.clock >= 0 {
		c[p.clock] = 0
	}
}
