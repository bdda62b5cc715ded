package closedloop

import "fmt"

// How a field of a trace was checked.
const (
	Confirmed  = "confirmed"  // it follows from the header, the scenes and the actions
	Recomputed = "recomputed" // it was made again: drawn from the seed, or decided
	Unchecked  = "unchecked"  // it is the recorder's word
)

// Check is what Verify did with one field of a trace.
type Check struct {
	// Field is a key of the trace: of the header with "header." before it, of the end of an
	// episode with "end.".
	Field   string `json:"field"`
	Verdict string `json:"how"` // what was done with it
	Basis   string `json:"by"`  // by what it was checked, or why not
	// Values that were compared, and those among the field's that could not be.
	Values    int `json:"values"`    // compared
	Unchecked int `json:"unchecked"` // that could not be
}

// OnlyDeep, in Check.By, is of what is compared with VerifyOptions.Deep alone.
const OnlyDeep = "only deciding again"

// Words of Check.By that several fields share.
const (
	bySimulation = "re-simulation"
	byScenes     = "scenes drawn again"
	byStaging    = "making the episode of it again"
	byMeasuring  = "measurements drawn again"
	byDeciding   = "deciding again"
	byOptimum    = "the optimum solved again"
	noMethod     = OnlyDeep + " can tell"
	byEstimates  = "it follows from estimates of measurements, which a trace has not"
	noTime       = "no time can be taken again"
	bySteering   = "somebody steered between decisions: they cannot be made again, and no optimum was looked for"
	noClaim      = "says who recorded, which nothing here can tell"
)

// checks are what was done with every field, in the order in which they stand in a trace.
func (v *verifier) checks() []Check {
	decision := Check{Verdict: Unchecked, Basis: noMethod}
	switch {
	case v.header.Estimated:
		decision = Check{Verdict: Unchecked, Basis: byEstimates}
	case v.header.Steered:
		decision = Check{Verdict: Unchecked, Basis: bySteering}
	case v.Deep:
		decision = Check{Verdict: Recomputed, Basis: byDeciding}
	}
	params := Check{Verdict: Confirmed, Basis: "the case's own"}
	shift := params
	if v.embedded {
		params = Check{Verdict: Unchecked, Basis: "the case is made of them: they are the trace's own"}
		shift = Check{Verdict: Unchecked, Basis: "the params are the shifted ones: they are the trace's own"}
	}
	confirmed := func(basis string) Check { return Check{Verdict: Confirmed, Basis: basis} }
	recomputed := func(basis string) Check { return Check{Verdict: Recomputed, Basis: basis} }
	unchecked := func(basis string) Check { return Check{Verdict: Unchecked, Basis: basis} }
	episodes, seeded, scene := byScenes, recomputed(byScenes), recomputed("drawing it from the seed")
	if v.staging != nil {
		episodes, seeded, scene = byStaging, recomputed(byMeasuring), unchecked("it was given, not drawn, and is the trace's own; an episode is made of it")
	}
	optimum := recomputed(byOptimum)
	if v.header.Steered {
		optimum = unchecked(bySteering)
	}
	regime := recomputed(episodes)
	if v.header.Regime != "" && !v.Deep {
		regime.Basis += "; what it withholds from the method, " + noMethod
	}
	context := recomputed(episodes)
	if v.header.Trace == bareVersion {
		context = unchecked(fmt.Sprintf("the trace is of version %d, which has none", bareVersion))
	}
	measured := recomputed(byMeasuring)
	if v.header.Estimated {
		measured, context = unchecked(byEstimates), unchecked(byEstimates)
	}
	violations := confirmed(bySimulation)
	if t := v.tally["end.violations"]; t != nil && t.compared == 0 && t.skipped > 0 {
		violations = unchecked("the trace is of an older program, which wrote none")
	}
	row := func(field string, c Check) Check {
		c.Field = field
		if t := v.tally[field]; t != nil {
			c.Values, c.Unchecked = t.compared, t.skipped
		}
		if c.Unchecked > 0 && field == "end.oracle_cost" {
			c.Basis += fmt.Sprintf("; the trace is of the instruction set %s, this is %s, where those that differ are not compared", v.header.ISA, v.opt.ISA)
		}
		return c
	}
	return []Check{
		row("header.trace", confirmed("the version that this program reads")),
		row("header.case", confirmed("the case of the params")),
		row("header.method", decision),
		row("header.seed", seeded),
		row("header.params", params),
		row("header.problem_sha256", confirmed("the case of the params")),
		row("header.commit", unchecked(noClaim)),
		row("header.device", unchecked(noClaim)),
		row("header.backend", unchecked(noClaim)),
		row("header.isa", unchecked(noClaim)),
		row("header.model_sha256", decision),
		row("header.candidates", decision),
		row("header.noise", recomputed(byMeasuring)),
		row("header.bias", recomputed(byMeasuring)),
		row("header.estimated", unchecked(noClaim)),
		row("header.estimate_window", unchecked(noClaim)),
		row("header.kept_off", unchecked(noClaim)),
		row("header.disturbed", unchecked(noClaim)),
		row("header.measured_noise", unchecked(noClaim)),
		row("header.measured_states", unchecked(noClaim)),
		row("header.delay", scene),
		row("header.shift", shift),
		row("header.plant", shift),
		row("header.steps", params),
		row("header.computing_us", recomputed("drawing the times of decisions from the seed")),
		row("header.regime", regime),
		row("header.preference", recomputed(episodes)),
		row("header.scenes_sha256", unchecked("says which files were given, and none is opened")),
		row("header.steered", unchecked(noClaim)),
		row("header.guard", decision),
		row("header.episodes", confirmed("counting")),
		row("header.shard", confirmed("the numbers of the episodes")),
		row("header.margin_tolerance", confirmed("the case's own")),
		row("header.margins", confirmed("the case's own")),
		row("header.soft", confirmed("the case's own")),
		row("episode", confirmed("counting")),
		row("before_sha256", confirmed("hashing")),
		row("sha256", confirmed("hashing")),
		row("scene", scene),
		row("t", confirmed("counting")),
		row("x", measured),
		row("c", context),
		row("u", decision),
		row("s", confirmed(bySimulation)),
		row("sigma", confirmed(bySimulation)),
		row("J", confirmed(bySimulation)),
		row("margin", confirmed(bySimulation)),
		row("residual", decision),
		row("latency_us", unchecked(noTime)),
		row("fallback", decision),
		row("failed", confirmed(bySimulation)),
		row("displacement", decision),
		row("priority", decision),
		row("gap_bound", decision),
		row("times_us", unchecked(noTime)),
		row("late", recomputed("drawing the times of decisions from the seed")),
		row("prepare_us", unchecked(noTime)),
		row("end.cost", confirmed(bySimulation)),
		row("end.oracle_cost", optimum),
		row("end.safe", confirmed(bySimulation)),
		row("end.collision_free", confirmed(bySimulation)),
		row("end.completed", confirmed(bySimulation)),
		row("end.failure", decision),
		row("end.margins", confirmed(bySimulation)),
		row("end.violations", violations),
		row("end.excess", confirmed(bySimulation)),
		row("end.exceeding", confirmed(bySimulation)),
		row("end.reached", confirmed(bySimulation)),
		row("end.at_end", confirmed(bySimulation)),
		row("end.failed", confirmed(bySimulation)),
		row("end.cause", confirmed(bySimulation)),
		row("end.oracle_failure", optimum),
		row("end.best_known", optimum),
		row("end.starts", decision),
		row("end.excluded", confirmed("the scene")),
		row("end.no_way", unchecked(noClaim)),
	}
}
