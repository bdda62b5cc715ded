// Package equations makes a control problem from plain equations. You write the dynamics, objectives and limits of a
// system as Go functions, and get a domain.Case with solver, plant, projection and exact derivatives.
//
// The central type is System: a struct of names, ranges and functions, which are generic in
// dual.Scalar, so that they are written once and both computed and differentiated. Its
// example is a whole one.
//
// Looking one step ahead has to be enough: where a kept limit can lead to a state in which
// no action keeps it, let the margin leave the room that stopping takes, or write Escape.
package equations

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/offline/shooting"
)

// Functions are the equations in one type of number. They must depend on their arguments alone,
// and be smooth near solutions. c holds the context of System, then the clock: the share of
// the episode that has passed; where the plant runs on (System.Horizon) there is no clock.
type Functions[T dual.Scalar] struct {
	// Step writes the state after u, and into cNext, which holds c already, what changes
	// of the context besides the clock. Where System.ODE or System.Stiff has written sNext it only
	// does the latter, and may be nil.
	Step func(s, c, u, sNext, cNext []T)
	// Objectives writes what the action costs, sNext being the state after it.
	Objectives func(s, c, u, sNext, j []T)
	// Margins writes every limit, ≥ 0 where it is kept; nil where there are none.
	Margins func(s, c, u, sNext, m []T)
	// Escape, optional, writes an action that leads away from the limits, such as braking.
	// The limits then are those of an action and of EscapeSteps steps of the escape after it,
	// so that whoever keeps them can go on keeping them, by the escape. Use it where one step
	// ahead is too late. It is clipped to the box, but a solver converges better where it
	// stays inside smoothly, as by dual.Tanh.
	Escape func(s, c, u []T)
}

// System is a controlled system. What is not marked as optional has to be there.
type System struct {
	Name, Description string
	// State, Context and Action name the entries of s, c and u with their units. Lo and Hi
	// of an action are its box; of a state, optional, its typical range. The clock is not
	// listed: the package appends it to the context.
	State, Context, Action []domain.Variable
	Objectives, Margins    []domain.Variable
	// Scenario are the parameters p that an episode is drawn by, uniform in [Lo, Hi], and
	// Initial writes the state and context that it begins with.
	Scenario []domain.Variable
	Initial  func(p, s, c []float64)
	// Steps is the number of decisions in an episode, StepSeconds the time between two.
	Steps       int
	StepSeconds float64
	// Horizon says that the plant runs on, and how many decisions a plan looks ahead. Nothing then knows a clock: a
	// decision depends on state and context alone. Behind the horizon a plan costs what the linear regulator about the best
	// place to rest would cost (shooting.Options.TerminalCost), and an episode is a stretch of Steps decisions that a test drives.
	// 0: an episode ends after Steps decisions, as a manoeuvre or a meal does.
	Horizon int
	// Real and Dual are the same equations at float64 and complex128.
	Real Functions[float64]
	Dual Functions[complex128]

	// Optional from here on.

	// Source is the Go text of the functions, for Program.
	Source *Source

	// ODE is the state's differential equation: sNext is what dual.RK4 makes of it. Stiff is that of
	// stiff equations: sNext is what dual.Radau makes of it. At most one of them is there. Step may call the
	// integrators itself, but the solver then takes longer, with Radau many times.
	ODE   *dual.Explicit
	Stiff *dual.Stiff

	// Constants are what the functions are made of besides their arguments, such as masses
	// and lengths, as anything that JSON takes. Datasets and maps of one system are told from
	// those of another with the same names by what the functions write at some random starts and
	// actions, to six digits; by Constants also where that shows nothing.
	Constants any

	// EscapeSteps is how many steps of Escape lead to where the limits are kept for good.
	EscapeSteps int

	// Soft are those of Margins that may be exceeded at a price.
	Soft []Soft
	// Rates are how much each action may change from one decision to the next; nil, or 0 for an action: as much as its box
	// allows. Context then has the action before, "last " and its name, behind all other entries: Rest as an episode begins. No function
	// of the system is given it.
	Rates []float64
	// Blocks are the numbers of periods that the actions of a plan stay for (move blocking): {1, 1, 2, 4} plans an action for the first
	// period, another for the second, one for the two behind it, and one for every four from there on, since the last number repeats
	// to the plan's end. The exact solver plans so, and the samples of a map are its decisions. Each period still has a
	// decision of its own, whose blocks begin anew. References of tests hold no action: what holding costs is in the regret. nil: the
	// action may change in each period.
	Blocks []int

	// Failed says that a state is lost, such as a fall, whatever the margins are.
	Failed func(s, c []float64) bool
	// Picture returns what a state looks like, as domain.ProblemAbilities.Picture's. nil: time lines are drawn.
	Picture func(s, c []float64) []domain.Shape
	// Rest is the action that does the least, clipped to the box: best one that about
	// holds the system where it is, since the solver begins with it. nil: zeros, and the
	// middle of a box that zero is not in.
	Rest []float64
	// Urgency writes how urgent each objective is in a state, in [0, 1]. nil: J/(J + scale)
	// of what staying in it at Rest would cost, scale being ObjectiveScale. Semantic makes priorities
	// of it; its zero value weighs all urgencies alike.
	Urgency        func(s, c, delta []float64)
	ObjectiveScale []float64 // nil: the mean over starts and random actions
	Semantic       domain.Semantic
	// MarginTolerance is how far below zero rounding may take a margin; 0: 1e-9.
	MarginTolerance float64
	// StateScale is the typical size of each state; nil: half its range, or 1.
	StateScale []float64
	// Solver varies the horizon solver. Perturbed 0 is 10, PerturbScale 0 is 0.1, Follow 0 is
	// the episode; Lasting is whether the plant runs on, whose samples look ahead two horizons and keep the
	// first; StateScale and Blocks are the system's, and Room that of Margins, which the limits along the
	// escape keep too.
	Solver shooting.Options
	// Plants are the systems around this one, for evaluations of a plant that the map was not made for. Every system has those
	// whose actuators have other gains, by the names of its actions; nil: there are no others.
	Plants *Plants
	// Measurement says what is measured of the plant and what is not known of it; nil: the state is, exactly.
	Measurement *domain.Measurement
	// Delay is how old what a decision is made by will be when its action begins to act, in periods (domain.Delay); one
	// that is no whole number needs ODE or Stiff.
	Delay float64
	// Training and Navigation replace defaults where their fields are not zero.
	Training   domain.Training
	Navigation domain.Navigation

	// Of UncertainGains.
	gains []domain.Unknown
	share float64
	// Of Rates.
	last []domain.Variable
}

// Plants are systems of the same names and sizes with other parameters of their plant.
type Plants struct {
	Parameters []domain.PlantParameter
	// New makes the system with a factor for each of Parameters, in their order.
	New func(factors []float64) System
}

// shifts are the cases of these systems, and of those whose actuators have other gains.
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

// Case makes the problem with solver, plant, oracle and rescue. Its error says what of the
// system is wrong.
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

// newCase is the case of a problem, or of the same problem keeping off its limits, with the solver of the problem without that.
func (y System) newCase(p *Problem, plain *shooting.Solver) (domain.Case, error) {
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
	solver, err := shooting.New(p, y.Scenario, p.initial, opt)
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
	tightened := func(b *domain.Backoff) (domain.Case, error) {
		c, err := y.newCase(p.withBackoff(b), solver)
		c.Plant = plant
		return c, err
	}
	return domain.Case{Problem: p, Solver: solver, Plant: plant, Rescue: rescue, Measurement: y.Measurement, Delay: p.delay(), Tightened: tightened, Shifts: p.shifts()}, nil
}

// initial is Initial with the clock, if there is one, at zero.
func (p *Problem) initial(parameters, s, c []float64) {
	clear(c)
	p.system.Initial(parameters, s, c)
	if p.clock >= 0 {
		c[p.clock] = 0
	}
}
