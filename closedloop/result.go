package closedloop

import (
	"github.com/gpc-engine/gpc/domain"
)

// Result holds the statistics of an evaluation under the JSON keys of `gpc
// eval`. Rates are fractions.
type Result struct {
	Case   string `json:"case"`
	Method string `json:"method"`
	Seed   uint64 `json:"seed"`
	Commit string `json:"commit"`
	Device string `json:"device"`
	Source
	Regime string  `json:"regime"`
	Noise  float64 `json:"noise"`
	// Bias and Shift are zero, and absent, where measurements are true on average and
	// the plant is the case's own.
	Bias  float64            `json:"bias,omitempty"`
	Shift map[string]float64 `json:"shift,omitempty"`
	// Plant and Steps are as in Header.
	Plant *domain.OtherPlant `json:"plant,omitempty"`
	Steps int                `json:"steps,omitempty"`
	// Computing is as in Header, Late the decisions that came behind their period by it.
	Computing *Computing `json:"computing_us,omitempty"`
	Late      int        `json:"late,omitempty"`
	Episodes  int        `json:"episodes"`
	// Safe: every step taken, no margin violated, no state lost and, where the episode has
	// a goal (see domain.EpisodeAbilities), the goal reached.
	Safe Number `json:"safe"`
	// Feasible is the fraction of decisions without a violation (paper, OPF).
	Feasible Number `json:"feasible"`
	// CollisionFree: no collision margin violated; null for a case that has none.
	CollisionFree Number `json:"collision_free"`
	// GapPct is 100 (Σ cost − Σ oracle)/Σ oracle over the RegretN safe episodes that have
	// an oracle (where that is a reference method: in which both are safe). GapSEM is the
	// standard error of this ratio over episodes.
	GapPct Number `json:"gap_pct"`
	GapSEM Number `json:"gap_sem_pct"`
	// RegretPct is the mean of 100 (cost − oracle)/oracle over the same RegretN
	// episodes, RegretSEM its standard error, RegretMin the smallest: below zero
	// it says that the oracle is weak.
	RegretPct Number `json:"regret_pct"`
	RegretSEM Number `json:"regret_sem_pct"`
	RegretMin Number `json:"regret_min_pct"`
	RegretN   int    `json:"regret_n"`
	// Regret is their distribution, with intervals.
	Regret   RegretStatistics `json:"regret"`
	CostMean Number           `json:"cost_mean"`
	// MarginMin and MarginMean are over the episodes' smallest margins, MarginSEM is
	// the mean's standard error.
	MarginMin Number `json:"margin_min"`
	// Tolerance: a margin below −Tolerance is a violation; absent in a record of an older program.
	Tolerance  float64 `json:"margin_tolerance,omitempty"`
	MarginMean Number  `json:"margin_mean"`
	MarginSEM  Number  `json:"margin_sem"`
	// MarginsMean are the means over episodes of the smallest value of each named
	// margin; absent where a trace does not hold them.
	MarginsMean map[string]Number `json:"margins_mean,omitempty"`
	// Limits say how often and how far each kind of limit was broken, in the order of
	// Spec.Limits; nil for a record of an older program, and for episodes of its traces.
	Limits []LimitStatistics `json:"limits,omitempty"`
	// AboveOracle is Above; absent for a method or a case without.
	AboveOracle *AboveOracle `json:"above_oracle,omitempty"`
	// Reached and AtEnd are the fractions of episodes that met their goal at some
	// step, and after the last; absent for a case without goals.
	Reached *Number `json:"reached,omitempty"`
	AtEnd   *Number `json:"at_end,omitempty"`
	// ScenesSHA256 is of the scenes that were given (Scenes.SHA256), Beyond says in what they
	// lie outside of what the case's maps are made for; absent where scenes were drawn.
	ScenesSHA256 string   `json:"scenes_sha256,omitempty"`
	Beyond       []Beyond `json:"beyond,omitempty"`
	// Starts are of an oracle of several solves, absent elsewhere.
	Starts *StartStatistics `json:"starts,omitempty"`
	// Unsafe lists the episodes that were not safe, with what is known of the cause.
	Unsafe []UnsafeEpisode `json:"unsafe,omitempty"`
	// Decisions, of which Violations broke a margin, Fallback executed something
	// other than the method's own action, and Flagged had any guard act.
	Decisions  int `json:"decisions"`
	Violations int `json:"violations"`
	Fallback   int `json:"fallback"`
	Flagged    int `json:"flagged"`
	// Gap says how far decisions may be above their optima; absent for a case that knows no bound.
	Gap *GapBounds `json:"gap_bound,omitempty"`
	// Guard is what the case's guard did; absent for a case without.
	Guard *GuardCounts `json:"guard,omitempty"`
	// Failed are the episodes that passed through a lost state (domain.ProblemAbilities.Failed), Failures
	// those that were not completed.
	Failed   int `json:"failed"`
	Failures int `json:"failures"`
	// NoWay are the episodes whose first decision had no plan that keeps off the limits by all that is asked
	// for, SafeNoWay those of them that were safe all the same.
	NoWay     int `json:"no_way,omitempty"`
	SafeNoWay int `json:"safe_no_way,omitempty"`
	// OracleFailures are episodes whose oracle did not solve.
	OracleFailures int `json:"oracle_failures"`
	// Excluded are scenes left out before any method ran, by the case's own
	// criterion.
	Excluded int       `json:"excluded"`
	Latency  Quantiles `json:"latency_us"`
	// Prepare are the times between decisions of a method that works there (domain.ControllerAbilities.Prepare); absent for others.
	Prepare *Quantiles `json:"prepare_us,omitempty"`
	// Load is the machine's while the latencies were taken; absent where it is not known, as
	// of a result that was read from traces.
	Load *Load `json:"load,omitempty"`
	// Shares are mean times of localize, step and project, µs; null where a method
	// has no such parts.
	Shares Shares `json:"shares_us"`
	// Displacement is the mean ‖z_{t+1} − z_t‖.
	Displacement Number        `json:"displacement_mean"`
	CI95         RateIntervals `json:"ci95"`
	Outcomes     *Outcomes     `json:"outcomes,omitempty"`
	Series       *Series       `json:"series,omitempty"`
	// Amended says which fields a later run added (see Amend): of all others Commit, Device and
	// Load are those of the first.
	Amended []Amendment `json:"amended,omitempty"`
}

// Source is by content what the figures of a record come from besides its seed: of an older
// record nothing. The model names its dataset.
type Source struct {
	ProblemSHA256 string `json:"problem_sha256,omitempty"` // domain.FingerprintOf the problem of the case
	ModelSHA256   string `json:"model_sha256,omitempty"`   // as Header's
	Backend       string `json:"backend,omitempty"`
	ISA           string `json:"isa,omitempty"`
}

// StartStatistics say how far the local optima of an oracle's starts lie apart, and so
// what it is worth.
type StartStatistics struct {
	Solves    int    `json:"solves"`    // over all episodes
	Converged Number `json:"converged"` // fraction
	// Best is the fraction of the converged that ended within 0.01 % of their episode's
	// least cost, GapPct the distribution over episodes of the worst above it.
	Best   Number           `json:"best"`
	GapPct RegretStatistics `json:"gap"`
}

// UnsafeEpisode is one entry of Result.Unsafe; with the result's seed it can be
// run again.
type UnsafeEpisode struct {
	Episode int    `json:"episode"`
	Cause   string `json:"cause"`
}

// Shares are the mean parts of a decision, µs.
type Shares struct {
	Localize Number `json:"localize"`
	Step     Number `json:"step"`
	Project  Number `json:"project"`
}

// RateIntervals are the 95 % Clopper–Pearson intervals of the rates over episodes. The
// decisions of an episode are not independent, so that Feasible has none.
type RateIntervals struct {
	Safe          Interval  `json:"safe"`
	Failed        Interval  `json:"failed"`
	CollisionFree *Interval `json:"collision_free"`
}
