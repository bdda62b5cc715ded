// Package domain is the public contract of a control problem. Whoever writes
// one package that fulfils Problem gets dataset, training, navigation,
// evaluation and benchmarks for it.
//
// The central type is Problem: the known dynamics, the objectives with their
// gradients, the urgency indicators, the hard margins and the projection of one
// system, in float64, one state at a time (the problem of eq. iclr-control in
// the paper). A Case bundles a Problem with the solver that makes its Pareto
// dataset and the plant it is evaluated on; both have generic defaults.
//
// # Vectors
//
// A decision sees a measured state s and a context c. The state is what the
// state decoder D_s reconstructs; the context (operating parameter, previous
// action, uncertainty descriptor, time) is known exactly and only enters the
// encoder E_x, followed by the priority slot (see Preference). Units are the
// problem's own and are named in Spec.
package domain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
)

// Variable names one component of a vector.
type Variable struct {
	Name string
	Unit string
	// Lo and Hi are the hard box of an action component (the paper's U), or the
	// sampling range of a scenario parameter. Both zero: unbounded.
	Lo, Hi float64
}

// Bounded reports whether the variable has a box.
func (v Variable) Bounded() bool { return v.Lo != 0 || v.Hi != 0 }

// Semantic holds the constants of the urgency potential, eq. iclr-semantic:
// φ_i = exp(K_i δ_i / Epsilon_i) − 1 and σ_i = (φ_i + Rho)/Σ_j(φ_j + Rho).
type Semantic struct {
	K, Epsilon []float64
	Rho        float64
}

// Spec says what a problem's vectors are. It is constant over the life of the
// problem; callers must not modify it.
type Spec struct {
	Name        string
	Description string
	Measured    []Variable // s, what D_s decodes
	Context     []Variable // c, known exactly at every decision
	Action      []Variable // one action u; Lo/Hi are its box
	Objectives  []Variable // J
	Margins     []Variable // hard constraints, each ≥ 0 when kept
	Plan        int        // H: actions in one decoded plan; 1 for a single action
	Steps       int        // decisions in one episode
	StepSeconds float64    // control period, s
	Semantic    Semantic
	// MarginTolerance is how far below zero a margin may be before it counts as
	// a violation (rounding of the plant, not slack for the controller).
	MarginTolerance float64
	// Navigation holds the defaults of the online step for this problem.
	Navigation Navigation
	// Training holds the defaults of dataset and training for this problem.
	Training Training
}

// Sizes of the vectors of a Spec.
func (s *Spec) MeasuredSize() int   { return len(s.Measured) }
func (s *Spec) ContextSize() int    { return len(s.Context) }
func (s *Spec) ActionSize() int     { return len(s.Action) }
func (s *Spec) PlanSize() int       { return len(s.Action) * s.Plan }
func (s *Spec) ObjectiveSize() int  { return len(s.Objectives) }
func (s *Spec) PreferenceSize() int { return 1 + len(s.Objectives) }

// ObservationSize is the input width of E_x: measured state, context, slot.
func (s *Spec) ObservationSize() int {
	return s.MeasuredSize() + s.ContextSize() + s.PreferenceSize()
}

// OracleSize is the input width of E_o: state, priority σ, objectives J.
func (s *Spec) OracleSize() int { return s.MeasuredSize() + 2*s.ObjectiveSize() }

// Navigation holds the constants of Algorithm 2 (paper, alg. online).
type Navigation struct {
	LatentStep     float64 // Δt of the latent flow
	VMax           float64 // cap on ‖k_1‖ and ‖k_2‖, latent units per unit of Δt
	Epsilon        float64 // ε of the energy
	MetricLambda   float64 // λ_m
	TopK           int     // k, eigendirections of the Lie residual
	LieGain        float64 // γ_L ∈ [0,1]
	LieScale       float64 // s_L
	RetractionMix  float64 // μ_R ∈ [0,1]
	Smoothing      float64 // α ∈ (0,1], used while the estimated noise is positive
	PriorityFilter float64 // low-pass gain of σ ∈ (0,1]; 1 is no filter
	Neighbours     int     // codes in the local affine refinement of localization
	RotationBlocks int     // leading SO(3) blocks of the latent group; 0: translation on ℝⁿ
}

// Training holds the constants of dataset and training.
type Training struct {
	Latent          int // n_z
	Hidden          int // width of the hidden layers
	Encoder         int // width of E_x's, which runs once an observation where D_u runs once a latent; 0: Hidden
	Scenarios       int // scenarios of a full dataset
	Weights         int // fixed preferences per scenario beside the adaptive one
	Design          WeightDesign
	ManifoldEpochs  int
	RolloutEpochs   int
	Batch           int
	LearningRate    float64
	ActionWeight    float64 // λ_u of the action loss; 0: the trainer's default
	Emphasis        float64 // share of an epoch drawn by decoding error, [0,1)
	SpectralBound   float64 // K of each layer's spectral norm; large, as the paper says
	Codes           int     // codes a bundled model carries
	LocalNeighbours int     // κ
	// Fade, for a plan of H actions: where it is positive, the plan's entries are
	// normalised by one scale for each component of the action, that of all steps
	// together, which grows linearly to 1 + Fade times itself at the last: what will be
	// planned anew before it is executed weighs less in training. 0: each entry by its own.
	Fade float64
}

// WeightDesign says how the fixed preferences of a full dataset are chosen: the
// name that `--design` takes, "" for its default, with the reference objective
// and the range of log10 w_j/w_Reference of a logarithmic or mixed one.
type WeightDesign struct {
	Name         string
	Reference    int
	LogLo, LogHi float64
}

// Problem is one controlled system. Methods must be safe for concurrent use
// and must not keep or modify their inputs; outputs are written into the last
// arguments, which the caller sizes by Spec. All values are finite when the
// inputs are.
type Problem interface {
	Spec() *Spec

	// Base writes the plan that D_u's output is relative to: the decoded plan is
	// Base + D_u(z). Zeros for an absolute decoder.
	Base(s, c, plan []float64)

	// Objectives writes J(s, u; c) of a single action u taken in state s.
	Objectives(s, u, c, J []float64)

	// Gradient writes ∂(σᵀJ)/∂s and ∂(σᵀJ)/∂u of the same expression.
	Gradient(s, u, c, sigma, gs, gu []float64)

	// Indicators writes δ_i ≥ 0, one per objective: 0 nominal, 1 at the boundary;
	// a smooth indicator may pass 1 beyond it.
	Indicators(s, u, c, delta []float64)

	// Step is the known dynamics F: state and context after u, as far as they can
	// be predicted.
	Step(s, c, u, sNext, cNext []float64)

	// Margins writes every hard margin of taking u in state s, ≥ 0 when kept.
	Margins(s, c, u, m []float64)

	// Project moves u, in place, onto the hard constraints by a bounded number of
	// operations, and reports whether the result keeps all of them.
	Project(s, c, u []float64) (feasible bool)

	// Fallback writes the conservative action for an observation that cannot be
	// trusted; entries of s may be NaN, c is the last finite context.
	Fallback(s, c, u []float64)
}

// BatchGradient is implemented by a problem that evaluates whole float32
// batches itself, faster than row by row. All slices are row-major with the
// given row strides; stride 0 repeats one row. It must agree with Objectives
// and Gradient, which RunDomain checks.
type BatchGradient interface {
	GradientBatch(b Batch)
}

// Batch is the argument of GradientBatch: inputs s, u, c, sigma; outputs J
// (nil: not wanted), gs and gu. Each is Rows rows, Stride elements apart.
type Batch struct {
	Rows                                                                int
	S, U, C, Sigma, J, GS, GU                                           []float32
	SStride, UStride, CStride, SigmaStride, JStride, GSStride, GUStride int
}

// BlockGradient is implemented by a problem that evaluates many float64 points
// in one call at less cost than point by point, such as one whose objectives
// are a compiled graph. It must agree with Objectives and Gradient to rounding,
// which RunDomain checks; offline/shooting uses it for all points of one
// derivative evaluation.
type BlockGradient interface {
	GradientBlock(b Block)
}

// Block is the argument of GradientBlock: inputs S, U, C and Sigma, outputs J,
// GS and GU, each Rows rows of the problem's own width, row-major without gaps.
// J nil is not wanted. GS and GU are given both or neither; without them Sigma
// is not read and may be nil.
type Block struct {
	Rows                      int
	S, U, C, Sigma, J, GS, GU []float64
}

// PlanProjector is implemented by a problem whose Project, along a plan, does not
// need what Step predicts of everything else. ProjectPlan does to a whole plan, in
// place, what Project does to each of its actions in turn.
type PlanProjector interface {
	ProjectPlan(s, c, plan []float64)
}

// Selective is implemented by a problem whose map is to learn some of the
// situations of a dataset only; training leaves the others out.
type Selective interface {
	Selects(s, c []float64) bool
}

// Device is implemented by a problem whose functions exist on CUDA devices too.
// They must agree with the problem's own methods, in float32 for the step and in
// float64 for the roll-out. A problem without them is steered all the same: the
// backend then decodes on the device and takes the gradient on the host. Device is
// asked once for each network that is loaded.
type Device interface {
	Device() DeviceCode
}

// DeviceCode names the device functions: the kernels gpc_domain_base_NAME,
// _gradient_NAME, _priority_NAME and _rollout_NAME that kernels/include/domain.cuh
// makes of a domain's .cu file, or that the file defines with the same arguments.
type DeviceCode struct {
	// Name is empty for an instance that has none, and Reason then says why: its
	// sizes may be beyond what the functions hold.
	Name, Reason string
	// Images holds manifest.json and the compiled functions, as `make kernels`
	// writes them into the domain's folder images.
	Images fs.FS
	// Constants are what every function is given, in the order the .cu file reads;
	// Indices lie behind them in the same memory.
	Constants []float64
	Indices   []int32
	// Scored says that the roll-out scores an action as the problem's Score does;
	// one without it cannot refine a Scored problem.
	Scored bool
	// Warp says that a block of 32 threads works on a row of base, gradient and
	// roll-out; without it a thread does, in blocks of 128. The next three are such
	// a block's: bytes of dynamic shared memory of the gradient and of the roll-out,
	// and bytes of device memory that the roll-out computes in, a multiple of 8.
	Warp                                     bool
	GradientShared, RolloutShared, Workspace int
}

// Scored is implemented by a problem in which the objectives of an executed
// action follow from the state it leads to, while Objectives looks at the state
// it is taken in. Score writes the stage objectives J as the plant will count
// them and every margin of Margins, at the cost of one evaluation of the known
// dynamics; refinement scores its roll-outs with it.
type Scored interface {
	Score(s, c, u, J, m []float64)
}

// Finite is implemented by a problem whose context tells how many decisions the
// episode still has, the present one included; refinement then looks no further
// ahead.
type Finite interface {
	Remaining(c []float64) int
}

// Preference says what a decision optimises: the adaptive priority σ(ŝ) along
// the horizon (the paper's mode), or a user's fixed W ∈ Δ.
type Preference struct {
	Adaptive bool      `json:"adaptive"`
	W        []float64 `json:"w,omitempty"`
}

// Slot writes the preference as the encoder reads it: a flag that is 1 for a
// fixed W, then W, or zeros in the adaptive mode.
func (p Preference) Slot(slot []float64) {
	clear(slot)
	if !p.Adaptive {
		slot[0] = 1
		copy(slot[1:], p.W)
	}
}

// Validate checks that a fixed W has m entries on the simplex.
func (p Preference) Validate(m int) error {
	if p.Adaptive {
		return nil
	}
	if len(p.W) != m {
		return fmt.Errorf("preference has %d weights, the case has %d objectives", len(p.W), m)
	}
	sum := 0.0
	for i, w := range p.W {
		if !(w >= 0) || math.IsInf(w, 0) {
			return fmt.Errorf("preference weight %d is %v, want a finite number ≥ 0", i+1, w)
		}
		sum += w
	}
	if math.Abs(sum-1) > 1e-6 {
		return fmt.Errorf("preference weights sum to %g, want 1", sum)
	}
	return nil
}

// Priority is eq. iclr-semantic: it writes σ ∈ Δ from the indicators δ,
// computed relative to the largest exponent so that it cannot overflow.
func (m Semantic) Priority(delta, sigma []float64) {
	top := 0.0
	for i, d := range delta {
		top = math.Max(top, m.K[i]*d/m.Epsilon[i])
	}
	// Everything is divided by exp(top): σ is unchanged.
	scale := math.Exp(-top)
	sum := 0.0
	for i, d := range delta {
		sigma[i] = math.Exp(m.K[i]*d/m.Epsilon[i]-top) - scale + m.Rho*scale
		sum += sigma[i]
	}
	for i := range delta {
		sigma[i] /= sum
	}
}

// Scalarization names how a sweep turns objectives and a weight into one
// constrained problem.
type Scalarization string

const (
	WeightedSum       Scalarization = "weighted-sum"
	Chebyshev         Scalarization = "chebyshev"
	EpsilonConstraint Scalarization = "epsilon-constraint"
)

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
}

// ErrInfeasible is returned by a Solver for a scenario without a feasible
// point; the scenario is discarded and counted.
var ErrInfeasible = errors.New("scenario is infeasible")

// ErrNotConverged is returned by a Solver whose iteration ended above its KKT
// tolerance although the scenario may be feasible; the solve is left out of the
// dataset and counted apart from infeasible ones.
var ErrNotConverged = errors.New("solve did not converge")

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
	Solve(scenario int, p []float64, pref Preference, how Scalarization, seed uint64) ([]Sample, error)
}

// ScenarioSolver is implemented by a Solver that solves all preferences of one
// scenario together, faster than one by one, such as one whose arithmetic runs
// many problems side by side. SolveAll returns for each preference the samples or
// the error that Solve would return for it with the seed of the same place.
type ScenarioSolver interface {
	SolveAll(scenario int, p []float64, prefs []Preference, how Scalarization, seeds []uint64) ([][]Sample, []error)
}

// VisitedSolver is implemented by a Solver that also makes samples at the states
// which a policy reaches in closed loop. A map is exact where its data are; an
// error of its own leads it to states that lie beside every optimal trajectory,
// and there it needs the optimum most.
type VisitedSolver interface {
	// SolveVisited lets the policy drive from the scenario's start and returns the
	// optimum from each state that it comes to. States without a certified optimum
	// are left out. It depends only on its arguments, the policy's decisions and
	// what Prepare built.
	SolveVisited(scenario int, p []float64, pref Preference, policy Controller) ([]Sample, error)
}

// Optimizer is implemented by a Solver that knows the optimal action in any
// state of an episode, such as those a closed loop visits. Prepare comes first.
type Optimizer interface {
	// Optimal writes the first action of the remaining optimum and reports
	// whether one was found and certified.
	Optimal(s, c []float64, pref Preference, u []float64) bool
}

// Plant makes the closed-loop episodes of a case.
type Plant interface {
	// Params are the constants of the trace header: all that is needed to
	// re-simulate without this program.
	Params() any
	// Episode draws test scene number index of the seeded stream. The stream is
	// disjoint from every training scenario. noise is the standard deviation of
	// the measurement noise in units of each state's own scale; regime is the
	// case's own word, "" the default.
	Episode(seed uint64, index int, opt EpisodeOptions) (Episode, error)
	// Replay rebuilds an episode from a trace's header params and scene.
	Replay(params, scene json.RawMessage) (Episode, error)
}

// EpisodeOptions vary a test scene.
type EpisodeOptions struct {
	Noise      float64
	Regime     string
	Preference Preference
}

// Outcome is what the plant says of one applied action.
type Outcome struct {
	S      []float64 // the plant's state after the action
	J      []float64 // stage objectives
	Sigma  []float64 // priority the stage was scored with
	Cost   float64   // stage cost σᵀJ
	Margin float64   // smallest hard margin of the step
	Named  []float64 // every hard margin, in the order of Spec.Margins
}

// Episode is one closed-loop run. It is used by one goroutine.
type Episode interface {
	Scene() any
	Steps() int
	// Observe writes the measured (noisy where asked) state and the context.
	Observe(s, c []float64)
	// State writes the true state.
	State(s []float64)
	// Apply advances the plant by one step and scores it.
	Apply(u []float64) (Outcome, error)
	// Done reports whether the episode has ended.
	Done() bool
	// Oracle returns the cost of the reference optimum from the same initial
	// state and its plan [Steps][action]; nil plan and NaN where the case has no
	// oracle.
	Oracle() (cost float64, plan [][]float64, err error)
}

// Controller is a method other than GPC: one decision after another in one
// episode.
type Controller interface {
	// Reset starts an episode. Methods that may not look at the plant (all but
	// oracles) use only what Decide is given.
	Reset(ep Episode) error
	// Decide writes the action and reports whether the method's own solve
	// succeeded; when it did not, u holds the method's own last resort.
	Decide(s, c []float64, pref Preference, u []float64) (ok bool, err error)
}

// MapProblem is the problem that dataset, training and model are about: Learned,
// or Problem where that is nil.
func (c *Case) MapProblem() Problem {
	if c.Learned != nil {
		return c.Learned
	}
	return c.Problem
}

// Case is a problem with everything around it. Only Problem and Parameters
// within Solver or Plant are needed; nil members have generic defaults, see
// package offline (Solver) and package closedloop (Plant).
type Case struct {
	Problem Problem
	// Learned is what dataset, training and model are about where that is not
	// Problem itself, such as one robot's view of a scene of many; nil: Problem.
	// Solver then solves it, and so does Optimizer.
	Learned Problem
	Solver  Solver
	Plant   Plant
	// Controllers are the case's own methods by the name `--method` takes.
	Controllers map[string]func() (Controller, error)
	// Guided are those that ask a learned map, which comes with an engine and a
	// model file.
	Guided map[string]func(Proposer) (Controller, error)
	// Rescue, if set, is the exact solver that the navigator's monitor asks when a
	// margin is negative or the residual too large, before Problem.Fallback. It
	// writes u and reports success; it must be safe for concurrent use.
	Rescue func(s, c []float64, pref Preference, u []float64) bool
}
