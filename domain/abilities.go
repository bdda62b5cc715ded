package domain

import (
	"context"
	"encoding/json"
)

// Able is implemented by what can do more than its kind has to. A is ProblemAbilities of a
// Problem, and so for the others. A
// member that is nil is what it cannot do; each call makes them anew, so who asks often keeps them.
type Able[A any] interface{ Abilities() *A }

func abilitiesOf[A any](object any) *A {
	if able, ok := object.(Able[A]); ok {
		return able.Abilities()
	}
	return new(A)
}

// AbilitiesOfProblem are a problem's, none of one that is not Able.
func AbilitiesOfProblem(p Problem) *ProblemAbilities { return abilitiesOf[ProblemAbilities](p) }

// Prepare prepares a problem, where it needs that, for all decisions to come (ProblemAbilities.Prepare): who makes
// a controller, evaluates one or trains a map does so first.
func Prepare(p Problem) {
	if prepare := AbilitiesOfProblem(p).Prepare; prepare != nil {
		prepare()
	}
}

// ProblemAbilities are what a Problem may do besides. Functions are safe for concurrent use, and keep and
// modify inputs as little as those of Problem.
type ProblemAbilities struct {
	Derivatives Derivatives

	// Prepare makes, once, what the functions of the problem begin from where that takes exact solves, which
	// no bounded Project has room for. Without it they are right too, but their results may be others.
	Prepare func()

	// Fingerprint is a SHA-256 of all that a problem is made of where that is more than its Spec says:
	// parameters of its functions, a network's file. Datasets and models hold it, and are refused by a
	// problem with another. See FingerprintOf.
	Fingerprint func() [32]byte
	// Remaining is how many decisions the episode still has, the present one included, where the context
	// tells it; refinement then looks no further ahead.
	Remaining func(c []float64) int
	// Score is of a problem in which the objectives of an executed action follow from the state it leads
	// to, while Objectives looks at the state it is taken in: it writes the stage objectives J as the
	// plant will count them and every margin of Margins, at the cost of one evaluation of the known
	// dynamics; refinement scores its roll-outs with it.
	Score func(s, c, u, J, m []float64)
	// Weigh is of a problem whose plant does not count wᵀJ of a user's preference w, because the
	// objectives differ in range, or σᵀJ in the adaptive mode: it writes the weights of the raw objectives
	// that a decision under a preference is counted with, by the plant and so by a search, and reports
	// whether there are such; without, it is σ at each action. See Weights.
	Weigh func(pref Preference, weights []float64) bool
	// Best writes the action of the least cost that an episode counts under a preference (Weigh), where
	// single decisions have an optimum of their own, as those of a dispatch have, and reports whether it
	// was found and certified.
	Best func(s, c []float64, pref Preference, u []float64) bool
	// Gap bounds, as a share of what u is counted with under a preference (Weigh), how much less any action
	// is counted with that keeps the limits as they are linearised at u: weak duality, which proves nothing of
	// actions beyond what the linearisation is good for. +Inf: no bound is known. Above LargestGap a decision
	// of a map is the solver's instead.
	Gap func(s, c []float64, pref Preference, u []float64) float64
	// Answers are optimal decisions, by the problem's own exact solver, over the states that episodes come
	// to: the navigator asks a map about them before it trusts it. Of each S, C, Preference and Target are
	// read. They are the same at each call. Those of a shifted plant (Case.Shifted) are of the plant that
	// the map was made for.
	Answers func() []Sample
	// Polish, by derivatives of what a whole plan leads to, improves in place the actions of the decisions
	// from (s, c) on, [steps·action], by at most iterations of the problem's own method, and reports
	// whether it has changed them. It depends on its arguments alone. What it writes is finite and need
	// keep no limit: it is executed only where the roll-out of its projected actions is feasible and costs
	// less than the plan it was given. Objectives of the plan sum to the bounds at most, which are counted in their Units; nil: there are
	// none. A method that knows no bounds changes nothing where there are some.
	Polish func(s, c []float64, pref Preference, bounds []Bound, plan []float64, iterations int) bool

	// Admit moves u, in place, to the nearest action that the plant takes in state s, where that is not
	// all of Spec.Action's box, such as within a bound on how fast an input changes. An entry without a
	// box, which the problem fixes, gets its value.
	Admit func(s, c, u []float64)
	// Failed reports whether a state is lost, such as by a fall, which the margins of single actions need
	// not say. An episode that passes through one, at its start, after its last action or between, is not
	// safe.
	Failed func(s, c []float64) bool
	// Escape writes an action which leads away from the limits, such as braking, within its box, and
	// reports whether there is one: whoever takes it at every step keeps the limits for longest.
	Escape func(s, c, u []float64) bool
	// MarginsOfState writes the margins that are of (s, c) alone, [Margins], where margins may be of the
	// state that an action leads to, and +Inf for those that the action, or the state after it, has a
	// part in. See StateMargins.
	MarginsOfState func(s, c, m []float64)
	// Soft are the limits that an action may exceed; nil: there are none.
	Soft *SoftLimits
	// ManyMargins makes what evaluates the margins of several decisions in one call, at less cost than one by
	// one, where Project is known to leave an action alone that is inside the box and keeps its margins. The
	// guard then looks at whole stretches of a roll-out at once. nil, or nil made: there is no such thing.
	ManyMargins func() (ManyMargins, error)
	// ManyValues makes what evaluates many decisions in one call, of one goroutine each time that it is called, at less
	// cost than Score and Step one by one, where Project is known to leave an action alone that is inside the box and keeps
	// its margins. The roll-outs of a search then step together. nil, or nil made: there is no such thing.
	ManyValues func() (func() ManyValues, error)
	// TerminalMargin, of a problem that goes on beyond any look-ahead, is ≥ 0 in the states where one may
	// end, because from there the limits can be kept.
	TerminalMargin func(s, c []float64) float64
	// TerminalCost, of a problem whose Spec has a Horizon, is the cost beyond a plan from the state and context that
	// the plan ends in. It is added to the plan's cost under a preference, so that plans of one length can be
	// compared.
	TerminalCost func(s, c []float64, pref Preference) float64
	// PlanTerminalCost is TerminalCost as a quadratic form of a plan's end, for all plans of that many steps from (s,
	// c); nil is zero. It returns false where that is unknown. A device evaluates its roll-outs by it.
	PlanTerminalCost func(s, c []float64, steps int, pref Preference) (*Quadratic, bool)

	// ProjectPlan does to a whole plan, in place, what Project does to each of its actions in turn, where
	// that needs not what Step predicts of everything else.
	ProjectPlan func(s, c, plan []float64)
	// Selects reports whether a map is to learn a situation of a dataset; training leaves the others out.
	Selects func(s, c []float64) bool
	// NewPlanScorer prepares what scores whole batches of decoded plans, at less cost than action by
	// action: what roll-outs have in common is computed once, or they run on a device. Refinement asks for
	// it for every search whose look-ahead ends with the plan. device is what the map computes on, nil
	// where that is the CPU. A scorer that can do nothing with it, or that it fails later, works on the
	// CPU: an error means that there is no scorer at all.
	NewPlanScorer func(device Accelerator) (PlanScorer, error)
	// Device is of a problem whose functions exist on CUDA devices too. They must agree with the problem's
	// own methods, in float32 for the step and in float64 for the roll-out. A problem without them is
	// steered all the same: the backend then decodes on the device and takes the gradient on the host.
	// Device is asked once for each network that is loaded.
	Device func() DeviceCode

	// Picture returns what there is to see in a state of a problem that has a shape in a plane, such as a
	// mechanical system: in metres, the second coordinate upwards. Over an episode the shapes are the same
	// ones, in the same order. Reports animate episodes; a problem without, or one that shows nothing, is
	// shown as time lines of its states, actions and margins.
	Picture func(s, c []float64) []Shape
	// Chart is the network of a problem of an electric network, and Operate where action u leads it in
	// state s and context c; false where that has no power flow. Pages draw its one-line map. Both or
	// none. The Chart is constant; callers must not modify it.
	Chart   func() *Chart
	Operate func(s, c, u []float64) (*OperatingPoint, bool)
}

// FingerprintOf is the problem's own fingerprint, or that of its Spec.
func FingerprintOf(p Problem) [32]byte {
	if fingerprint := AbilitiesOfProblem(p).Fingerprint; fingerprint != nil {
		return fingerprint()
	}
	return p.Spec().Fingerprint(nil)
}

// Lost reports whether a state is lost, which it is only of a problem with Failed.
func (a *ProblemAbilities) Lost(s, c []float64) bool { return a.Failed != nil && a.Failed(s, c) }

// LookAhead is the number of decisions to the end of the episode, where the context says it, at most those that a plan looks ahead.
func (a *ProblemAbilities) LookAhead(spec *Spec, c []float64) int {
	if a.Remaining != nil {
		return min(a.Remaining(c), spec.LookAhead())
	}
	return spec.LookAhead()
}

// Weights writes the weights of the raw objectives that decisions under a preference are
// counted with and reports whether there are such: a user's w, and none in the adaptive
// mode, unless the problem has Weigh.
func (a *ProblemAbilities) Weights(pref Preference, weights []float64) bool {
	if a.Weigh != nil {
		return a.Weigh(pref, weights)
	}
	if !pref.Adaptive {
		copy(weights, pref.W)
	}
	return !pref.Adaptive
}

// AbilitiesOfEpisode are an episode's, none of one that is not Able.
func AbilitiesOfEpisode(e Episode) *EpisodeAbilities { return abilitiesOf[EpisodeAbilities](e) }

// EpisodeAbilities are what an Episode may do besides.
type EpisodeAbilities struct {
	// Excluded is how many scenes were left out, where they were drawn anew until a criterion that looks
	// at no method was met.
	Excluded func() int
	// Succeeded, of episodes that have a goal beside their margins, such as every agent's arrival, reports
	// whether it was reached, and Arrived whether it is met now, as it can be reached and left again.
	Succeeded, Arrived func() bool
	// Cause says in one line why the episode is not safe, "" where it sees nothing wrong.
	Cause func() string
	// Sizes are the leading components of state and action that are used, such as by fewer robots than the
	// case has room for. A trace holds those components and no others.
	Sizes func() (state, action int)
	// Beyond says, in a line each, in what the scene lies outside of what the case's maps are trained on,
	// or asks for what no controller can do.
	Beyond func() []string
	// Changes names the fields that Change takes, one in a call, of a plant that a person may change while
	// it runs, such as a load or the place of an obstacle. Change is the scene, in the form that Stage of
	// the plant reads, of an episode that begins where this one stands, with what one field of an object
	// says. What cannot be is an error that names it; the episode itself stays as it is.
	Changes []string
	Change  func(change json.RawMessage) (Change, error)
	// Measure, of a plant with a Measurement, writes what is measured in place of the state, with its
	// noise, and the context with its unknown entries as they are declared.
	Measure func(y, c []float64)
}

// AbilitiesOfController are a controller's, none of one that is not Able.
func AbilitiesOfController(c Controller) *ControllerAbilities {
	return abilitiesOf[ControllerAbilities](c)
}

// ControllerAbilities are what a Controller may do besides. A wrapper begins with those of what it wraps.
type ControllerAbilities struct {
	// Prepare, called after an action was executed and before the next observation, looks for the next
	// decision where the known dynamics say that the action leads. Decide then makes it one for what is
	// measured. A controller that was not prepared decides all the same.
	Prepare func() error
	// Executed and Missed, both or none, are of a controller that remembers what was executed. Executed says
	// that u was, at the last decision, in place of what was decided; Missed that it was in a period that
	// the controller was not asked to decide in. s and c are what was observed, nil where that is not the
	// state that u acts in.
	Executed func(u []float64)
	Missed   func(s, c, u []float64)
	// Blind is of a controller that has an answer of its own to an observation that is not finite; see FiniteController.
	Blind bool
	// DecideMeasured decides by what is measured of a plant: it takes y and the context with its unknown
	// entries as they are declared, and writes the estimates of state and context that it decides by, and
	// the action.
	DecideMeasured func(y, c []float64, pref Preference, s, estimated, u []float64) (Decision, error)
	// Faults says of each output, in the order of the Measurement, what was wrong with it at the last
	// decision.
	Faults func() []string
	// Follows, of a controller that rolls each decision out before it is executed, has it ask a Follower first, and nobody where that
	// is nil.
	Follows func(f *Follower)
	// Again, of a controller that rolls each decision out, starts an episode for another decision in the state of the last one under
	// other limits, with a plan that was found there, which a rescue may begin at.
	Again func(plan []float64)
	// Chosen describes the last decision of a search among many candidates.
	Chosen func() Chosen
	// Starts, of an oracle that solves an episode from several starts, are the costs that the solves of the present
	// one ended at, NaN where one did not converge; nil before there are any.
	Starts func() []float64
	// Way reports whether the first decision's plan keeps the limits of the present episode with all that is
	// to be kept off them; where it does not, the start has no way that holds at the stated level.
	Way func() bool
}

// AbilitiesOfSolver are a solver's, none of one that is not Able.
func AbilitiesOfSolver(s Solver) *SolverAbilities { return abilitiesOf[SolverAbilities](s) }

// SolverAbilities are what a Solver may do besides; see Receding for one more.
type SolverAbilities struct {
	// Until, where one solve may take seconds, is the same solver, what it was Prepared with included,
	// whose solves end with ctx's error soon after ctx is done.
	Until func(ctx context.Context) Solver
	// Start writes the state and the context that a scenario begins in, [Parameters].
	Start func(p, s, c []float64)
	// SolveAll solves all preferences of one scenario together, faster than one by one, such as where
	// arithmetic runs many problems side by side. It returns for each preference the samples or the error
	// that Solve would return for it with the seed of the same place.
	SolveAll func(scenario int, p []float64, prefs []Preference, scalarization Scalarization, seeds []uint64) ([][]Sample, []error)
	// SolveVisited lets the policy drive from the scenario's start and returns the optimum from each state
	// that it comes to. A map is exact where its data are; an error of its own leads it to states that lie
	// beside every optimal trajectory, and there it needs the optimum most. States without a certified
	// optimum are left out. It depends only on its arguments, the policy's decisions and what Prepare
	// built.
	SolveVisited func(scenario int, p []float64, pref Preference, policy Lender) ([]Sample, error)
	// Inward is a solver that keeps off the limits: its optima keep every margin by slack at least, in the
	// margin's own unit, and its targets are those optima, lifted beyond no limit. What it is made from
	// stays as it is. A slack that leaves nothing is an error.
	Inward func(slack float64) (Solver, error)
	// Optimal knows the optimal action in any state of an episode, such as those a closed loop visits.
	// Prepare comes first.
	Optimal Optimal
	// Accelerate is a solver whose solves are those of a device where it can solve them; they are checked, and the others solved, by the CPU.
	// An error says why it can solve none.
	Accelerate func(Planner) (Solver, error)
	// Places, of a solver that is accelerated, is how many solves at once use all of it; 0: one a processor.
	Places int
}

// Lender lends a controller to f while f runs.
type Lender func(f func(Controller) error) error

// Lent is a Lender of one controller.
func Lent(c Controller) Lender { return func(f func(Controller) error) error { return f(c) } }

// AbilitiesOfPlant are a plant's, none of one that is not Able.
func AbilitiesOfPlant(p Plant) *PlantAbilities { return abilitiesOf[PlantAbilities](p) }

// PlantAbilities are what a Plant may do besides.
type PlantAbilities struct {
	// Draft and Stage, both or none, are of a plant that takes scenes of a user's own beside those that it
	// draws. Draft is the scene of an episode of Episode's or Stage's in the form that Stage reads. Stage
	// makes an episode of a scene in JSON. What is not known, not finite, missing or impossible, such as
	// bodies that overlap, is an error that names its field. Measurement noise is that of Episode under
	// the same seed and index, and so is all else of a scene that was drawn there. opt.Preference scores
	// the episode; a scene that names other weights is refused, as is any opt.Regime but "".
	Draft func(e Episode) any
	Stage func(seed uint64, index int, scene json.RawMessage, opt EpisodeOptions) (Episode, error)
	// NewStepper makes what advances many episodes at less cost together than one by one, for one
	// goroutine; nil where this machine has nothing to gain.
	NewStepper func() Stepper
	// Prepare draws test scenes of a seed at less cost together than one by one, so that Episode with the
	// same arguments finds them; Episode says what is wrong with one that could not be drawn. A plant
	// keeps at least 128 scenes that were prepared last.
	Prepare func(ctx context.Context, seed uint64, indices []int, opt EpisodeOptions) error
}
