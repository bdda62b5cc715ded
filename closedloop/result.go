package closedloop

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/diagnosis"
)

// Result holds the statistics of an evaluation under the JSON keys of `gpc
// eval`. Rates are fractions.
type Result struct {
	Case   string `json:"case"`   // its name
	Method string `json:"method"` // that decided
	Seed   uint64 `json:"seed"`   // of the scenes
	Commit string `json:"commit"` // of the program
	Device string `json:"device"` // of the latencies
	Source
	Regime string             `json:"regime"`          // of the scenes, the case's own word
	Noise  float64            `json:"noise"`           // of measurements, in units of each state's scale
	Bias   float64            `json:"bias,omitempty"`  // of measurements, likewise; absent: 0
	Shift  map[string]float64 `json:"shift,omitempty"` // factors on parameters of the plant, by name
	Sensing
	// Plant and Steps are as in Header.
	Plant *domain.OtherPlant `json:"plant,omitempty"`
	Steps int                `json:"steps,omitempty"` // decisions of an episode, where `--steps` asked for them; absent: the case's own number
	// Computing is as in Header, Late the decisions that came after their period by it.
	Computing     *Computing `json:"computing_us,omitempty"`
	Late          int        `json:"late,omitempty"` // decisions that came behind their period by these times; absent: 0
	Episodes      int        `json:"episodes"`       // run
	Safe          Number     `json:"safe"`           // share: every step taken, no margin violated, no state lost, the goal reached
	Feasible      Number     `json:"feasible"`       // share of decisions without a violation
	CollisionFree Number     `json:"collision_free"` // share without a violated collision margin; null where there is none
	GapPct        Number     `json:"gap_pct"`        // 100 (Σ cost − Σ oracle)/Σ oracle over safe episodes with an oracle
	GapSEM        Number     `json:"gap_sem_pct"`    // its standard error
	RegretPct     Number     `json:"regret_pct"`     // mean of 100 (cost − oracle)/oracle over the same episodes
	RegretSEM     Number     `json:"regret_sem_pct"` // its standard error
	RegretMin     Number     `json:"regret_min_pct"` // least: below zero says that the oracle is weak
	RegretN       int        `json:"regret_n"`       // number of these episodes
	// Regret is their distribution, with intervals.
	Regret      RegretStatistics  `json:"regret"`
	CostMean    Number            `json:"cost_mean"`                  // of an episode
	MarginMin   Number            `json:"margin_min"`                 // least of all episodes, without the rules of switches that are kept
	Tolerance   float64           `json:"margin_tolerance,omitempty"` // how far below zero a margin may be before it counts as a violation; absent from older records
	MarginMean  Number            `json:"margin_mean"`                // mean of the episodes' least
	MarginSEM   Number            `json:"margin_sem"`                 // its standard error
	MarginsMean map[string]Number `json:"margins_mean,omitempty"`     // mean of the episodes' least, by the margin's name
	// Limits say how often and how far each kind of limit was broken, in the order of
	// Spec.Limits; nil for a record of an older program, and for episodes of its traces.
	Limits []LimitStatistics `json:"limits,omitempty"`
	// Soft say how far each soft limit was exceeded, in the order of domain.SoftLimits; nil for a problem without.
	Soft []SoftStatistics `json:"soft,omitempty"`
	// AboveOracle is Above; absent for a method or a case without.
	AboveOracle  *AboveOracle `json:"above_oracle,omitempty"`
	GoalReached  *Number      `json:"reached,omitempty"`       // share of episodes that met their goal at some step; absent without goals
	AtEnd        *Number      `json:"at_end,omitempty"`        // share after the last step
	ScenesSHA256 string       `json:"scenes_sha256,omitempty"` // of the scenes that were given ([formats.md](formats.md#scene-scene-file)); absent: they were drawn
	Excursions   []Excursion  `json:"beyond,omitempty"`
	Unfinished   string       `json:"ended,omitempty"`                // that the budget ended before the last episode; absent: it did not
	SteadyState  string       `json:"steady_state_outside,omitempty"` // of a plant that runs on, what state's range the optimal steady state at the end of a plan lies outside of, or that there is none; absent: neither
	// Starts are of an oracle of several solves, absent elsewhere.
	Starts *StartStatistics `json:"starts,omitempty"`
	// Unsafe lists the episodes that were not safe, with what is known of the cause.
	Unsafe     []UnsafeEpisode `json:"unsafe,omitempty"`
	Decisions  int             `json:"decisions"`  // taken
	Violations int             `json:"violations"` // of them: broke a margin
	Fallback   int             `json:"fallback"`   // of them: something else than the method's own action was executed
	Flagged    int             `json:"flagged"`    // of them: some guard acted
	// Gap says how far decisions may be above their optima; absent for a case that knows no bound.
	Gap         *GapBounds   `json:"gap_bound,omitempty"`
	Integration *Integration `json:"integration,omitempty"` // a few of the episodes in a plant of finer steps of integration; absent where the plant is not the model, or its system has no ODE
	// Guard is what the case's guard did; absent for a case without.
	Guard          *GuardCounts       `json:"guard,omitempty"`
	Failed         int                `json:"failed"`                 // episodes through a lost state
	Failures       int                `json:"failures"`               // episodes that were not completed
	NoWay          int                `json:"no_way,omitempty"`       // without a first plan that keeps off the limits by all that is asked for
	SafeNoWay      int                `json:"safe_no_way,omitempty"`  // of them: safe all the same
	OracleFailures int                `json:"oracle_failures"`        // episodes whose oracle did not solve
	NoReference    []MissingReference `json:"no_reference,omitempty"` // why episodes have nothing to compare with, a reason each; absent: all have
	Findings       diagnosis.Findings `json:"findings,omitempty"`     // of a check of the system (`gpc check`); absent: nothing, or a case of the program's own
	BestKnown      int                `json:"best_known,omitempty"`   // episodes in which no reference costs as little as the method, whose own cost then counts as the best known; absent: none
	// Excluded are scenes left out before any method ran, by the case's own
	// criterion.
	Excluded int        `json:"excluded"`
	Latency  Latency    `json:"latency_us"`           // of a decision
	Prepare  *Quantiles `json:"prepare_us,omitempty"` // of what a method that works between decisions does there; absent for others
	// Load is the machine's while the latencies were taken; absent where it is not known, as
	// of a result that was read from traces.
	Load *Load `json:"load,omitempty"`
	// Shares are mean times of localize, step and project, µs; null where a method
	// has no such parts.
	Shares       Shares        `json:"shares_us"`
	Displacement Number        `json:"displacement_mean"` // mean ‖z_{t+1} − z_t‖
	CI95         RateIntervals `json:"ci95"`
	Outcomes     *Outcomes     `json:"outcomes,omitempty"`
	Series       *Series       `json:"series,omitempty"`
	// Amended says which fields a later run added, of records that an earlier program wrote: of all others Commit, Device and
	// Load are those of the first.
	Amended []Amendment `json:"amended,omitempty"`
}

// Untimed leaves the times out: those of a machine that did other work say nothing.
func (r *Result) Untimed() {
	undefined := Number(math.NaN())
	r.Latency, r.Prepare, r.Shares = noLatency(), nil, Shares{Localize: undefined, Step: undefined, Project: undefined}
}

// Amendment says which fields of a record a run of a later program added.
type Amendment struct {
	Commit string   `json:"commit"` // of a later program that ran the same decisions again and added fields; absent: none did. All other times and loads are of the first run
	Device string   `json:"device"` // that it ran on
	Fields []string `json:"fields"` // keys that it added
}

// Source is by content what the figures of a record come from besides its seed: of an older
// record nothing. The model names its dataset.
type Source struct {
	ProblemSHA256 string `json:"problem_sha256,omitempty"` // of the problem: network, parameters, sizes; absent from older records, as are the next three
	ModelSHA256   string `json:"model_sha256,omitempty"`   // of the map or the weights, which name their dataset; absent for a method without
	Backend       string `json:"backend,omitempty"`        // that the method ran on; absent for one that no engine computes
	ISA           string `json:"isa,omitempty"`            // instruction set
}

// StartStatistics say how far the local optima of an oracle's starts lie apart, and so
// what it is worth.
type StartStatistics struct {
	Solves    int              `json:"solves"`    // of a method that solves from several starts, over all episodes
	Converged Number           `json:"converged"` // share of them
	Best      Number           `json:"best"`      // share of these within 0.01 % of the episode's least cost
	GapPct    RegretStatistics `json:"gap"`       // over episodes, of the worst above it
}

// UnsafeEpisode is one entry of Result.Unsafe; with the result's seed it can be run again.
type UnsafeEpisode struct {
	Episode int    `json:"episode"` // number of the episode
	Cause   string `json:"cause"`   // what is known of why
}

// MissingReference is a reason why episodes have no optimum above zero to compare with. Text writes it of so many episodes.
type MissingReference struct {
	Reason   string `json:"reason"`   // in a few words
	Episodes int    `json:"episodes"` // number of them
	Episode  int    `json:"episode"`  // the first
	Start    Vector `json:"start"`    // its first state, as measured
	Cause    string `json:"cause"`    // of the first, as the solver says it
	Fix      string `json:"fix"`      // what would help; "": not known
}

func (m *MissingReference) Text(episodes int) string {
	return fmt.Sprintf("no reference in %d of %d episodes: %s, first in episode %d from the state %.4g: %s%s", m.Episodes, episodes, m.Reason, m.Episode, []float64(m.Start), m.Cause, diagnosis.Help(m.Fix))
}

// Shares are the mean parts of a decision, µs.
type Shares struct {
	Localize Number `json:"localize"` // mean time of encoding and search
	Step     Number `json:"step"`     // of the flow and decoding
	Project  Number `json:"project"`  // of projection and margins
}

// RateIntervals are the 95 % Clopper–Pearson intervals of the rates over episodes. The
// decisions of an episode are not independent, so that Feasible has none.
type RateIntervals struct {
	Safe          Interval  `json:"safe"`           // Clopper–Pearson interval of `safe`
	Failed        Interval  `json:"failed"`         // of the share of `failed`
	CollisionFree *Interval `json:"collision_free"` // of `collision_free`
}
