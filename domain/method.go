package domain

import (
	"math"
	"time"
)

// Controller decides in closed loop, one decision after another in one episode. It
// is used by one goroutine.
type Controller interface {
	// Reset starts an episode. Methods that may not look at the plant (all but
	// oracles) use only what Decide is given; ep is nil where there is no plant.
	Reset(ep Episode) error
	// Decide writes the action and reports whether the method's own solve
	// succeeded; when it did not, u holds the method's own last resort.
	Decide(s, c []float64, pref Preference, u []float64) (ok bool, err error)
}

// Monitored is implemented by a Controller that steers by a learned map: Monitor
// returns the record of the last decision. Its slices may be overwritten by the
// next.
type Monitored interface {
	Monitor() Monitor
}

// Anticipating is implemented by a Controller that works between its decisions, too: Prepare,
// called after an action was executed and before the next observation, looks for the next
// decision where the known dynamics say that the action leads. Decide then makes it one for
// what is measured. A Controller that was not prepared decides all the same.
type Anticipating interface {
	Prepare() error
}

// Prepare lets a controller that is an Anticipating prepare.
func Prepare(c Controller) error {
	if a, does := c.(Anticipating); does {
		return a.Prepare()
	}
	return nil
}

// Loop is one closed loop of Algorithm 2 about the problem of a case's map. Its Reset
// ignores the episode.
type Loop interface {
	Controller
	Monitored
	// Decoded is the plan of the last decision before projection, [Plan][action], whose
	// first action was executed where projection and fallbacks left it; nil where there
	// was none. The next decision may overwrite it.
	Decoded() []float64
}

// Monitor is what a map's controller records of one decision. Where the map was not
// asked, Priority is nil and Residual and Displacement are NaN.
type Monitor struct {
	Priority     []float64 // σ that steered the decision
	Residual     float64   // ‖x̂ − D_s(z)‖² at the localized latent, the largest of all observations
	Limit        float64   // of the residual: above it the observation is off the map; 0: none is stated
	Displacement float64   // ‖z_{t+1} − z_t‖
	Fallback     Fallback
	Times        Times
}

// NoMonitor is the record of a decision without a map.
func NoMonitor() Monitor { return Monitor{Residual: math.NaN(), Displacement: math.NaN()} }

// Times are the shares of one decision; zero where they were not taken.
type Times struct {
	Localize time.Duration // encode, search, smoothing
	Step     time.Duration // indicators, flow, retraction, decode; what a device projects with them
	Project  time.Duration // projection, margins, fallback
}

// Total is the whole decision.
func (t Times) Total() time.Duration { return t.Localize + t.Step + t.Project }

// Group is where a method stands in tables and figures.
type Group uint8

const (
	// GroupExact knows the scene or solves to optimality: the yardsticks.
	GroupExact Group = iota
	// GroupOwn are this project's controllers.
	GroupOwn
	// GroupAblation are those with a part left out.
	GroupAblation
	// GroupBaseline are what they are compared with.
	GroupBaseline
)

// Groups are the names of the groups, in the order of tables.
var Groups = []string{"exact", "own", "ablation", "baseline"}

// String is the group's name.
func (g Group) String() string { return Groups[g] }

// Needs says what a method has to be given, bit by bit.
type Needs uint8

const (
	// NeedsMap: the case's learned map and an engine, as Means.Proposer and Means.Loop.
	NeedsMap Needs = 1 << iota
	// NeedsWeights: weights of its own, as Means.Weights.
	NeedsWeights
)

// Method is one way to decide in a case. All that is known of it stands here:
// evaluation, reports and the recording scripts read this list, in its order.
type Method struct {
	Name  string // what `--method` takes
	About string // one line
	Group Group
	Needs Needs
	// Formerly is a name that it had, still taken where it is named and read where it is recorded;
	// "": none.
	Formerly string
	// Brief methods stand in a summary; the others in the full tables only.
	Brief bool
	// Navigation is what the map of NeedsMap navigates with; nil: what its problem's Spec
	// says.
	Navigation *Navigation
	// NoRollout decodes with the map's D_u as it was before rollout-aware refinement.
	NoRollout bool
	// Candidates per decision, of a method whose number of them is compared; 0: none.
	Candidates int
	// Ahead says that the controller is an Anticipating.
	Ahead bool
	// New makes the controller. It is nil for a variant of the navigator, which
	// package batchnav makes.
	New func(Means) (Controller, error)
}

// Called reports whether a name is the method's, now or formerly.
func (m *Method) Called(name string) bool {
	return name == m.Name || name != "" && name == m.Formerly
}

// Means is what a method is made with.
type Means struct {
	Proposer Proposer // the case's map on an engine, for NeedsMap
	// Loop makes a closed loop of that map there, for NeedsMap.
	Loop func() (Loop, error)
	// Accelerator is where that engine computes if it is a device; nil: this CPU.
	Accelerator Accelerator
	Weights     []byte // content of the file of weights, for NeedsWeights
	Candidates  int    // per decision; 0: the method's own number
}

// PaperRow holds the paper's own figures for a method in a case: those of tab. analytical (Case 1),
// iclr-main-results, multiagent-navigation and multiagent-navigation-margins (Case 2),
// case2-benchmark and uncertainty-benchmark (Cases 3 and 4). What the paper does not give is NaN.
type PaperRow struct {
	Regret, RegretSEM float64 // R_T and its standard error, %
	Obstacle, Slew    float64 // decisions that break that limit, %
	Fail              float64 // episodes that are not safe, %
	Safe              float64 // episodes that are, %, of a table that gives these
	Joint             float64 // episodes in which all reach their goals, whatever they hit, %
	Collision         float64 // collision-free episodes, %
	// Mean least margins of an episode, m: of all, of the ego and of the other robots to
	// obstacles, among robots.
	Margin, EgoMargin, AgentMargin, PairMargin float64
	Gap                                        float64 // %
	Feasible                                   float64 // decisions, %
	Violations                                 float64 // decisions that are not
	Total                                      float64 // mean Σ J_i of a decision
	StepGap                                    float64 // Δ̄, its mean excess over the oracle's
	Milliseconds                               float64 // of a decision
	Time                                       string  // said in place of Milliseconds; "" where they are given
}

// NoPaperRow has no figure.
func NoPaperRow() PaperRow {
	n := math.NaN()
	return PaperRow{n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, ""}
}

// SafeEpisodes is the share of safe episodes, %: Safe, or what Fail leaves.
func (p PaperRow) SafeEpisodes() float64 {
	if math.IsNaN(p.Safe) {
		return 100 - p.Fail
	}
	return p.Safe
}

// Chosen is what a decision chose and among what, physical units.
type Chosen struct {
	Plan []float64 // [LookAhead][action]
	// Cost is Σ σᵀJ and Margin the smallest hard margin along Plan, by the known
	// dynamics in float64.
	Cost, Margin  float64
	Feasible      bool // Margin ≥ −MarginTolerance
	Candidates    int  // scored
	FeasibleCount int
	LookAhead     int
	Source        Source // of the first action
	// Baseline is what the decoded plan of E_x alone would cost, and whether it is
	// feasible.
	Baseline         float64
	BaselineFeasible bool
	Consistent       bool // M_t was not empty for any observation
	Sources          []SourceStatistics
}

// SourceStatistics say what one source of candidates contributed. Costs are over
// its feasible candidates, 0 where it has none.
type SourceStatistics struct {
	Source     Source  `json:"source"`     // where candidates are from
	Candidates int     `json:"candidates"` // of that source
	Feasible   int     `json:"feasible"`   // of them
	BestCost   float64 `json:"best_cost"`  // of the feasible; 0 without
	MeanCost   float64 `json:"mean_cost"`  // likewise
}

// Overruled is implemented by a Controller that remembers what was executed.
type Overruled interface {
	// Executed says that u was executed at the last decision, in place of what was decided.
	Executed(u []float64)
	// Missed says that u was executed in a period that the controller was not asked to decide in. s and c are what was
	// observed, nil where that is not the state that u acts in.
	Missed(s, c, u []float64)
}
