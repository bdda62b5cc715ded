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
	Field string `json:"field"`
	How   string `json:"how"` // what was done with it
	By    string `json:"by"`  // by what it was checked, or why not
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
	decided := Check{How: Unchecked, By: noMethod}
	switch {
	case v.header.Estimated:
		decided = Check{How: Unchecked, By: byEstimates}
	case v.header.Steered:
		decided = Check{How: Unchecked, By: bySteering}
	case v.Deep:
		decided = Check{How: Recomputed, By: byDeciding}
	}
	params := Check{How: Confirmed, By: "the case's own"}
	shift := params
	if v.embedded {
		params = Check{How: Unchecked, By: "the case is made of them: they are the trace's own"}
		shift = Check{How: Unchecked, By: "the params are the shifted ones: they are the trace's own"}
	}
	confirmed := func(by string) Check { return Check{How: Confirmed, By: by} }
	recomputed := func(by string) Check { return Check{How: Recomputed, By: by} }
	unchecked := func(by string) Check { return Check{How: Unchecked, By: by} }
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
		regime.By += "; what it withholds from the method, " + noMethod
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
	if t := v.tally["end.violations"]; t != nil && t.compared == 0 {
		violations = unchecked("the trace is of an older program, which wrote none")
	}
	named := func(field string, c Check) Check {
		c.Field = field
		if t := v.tally[field]; t != nil {
			c.Values, c.Unchecked = t.compared, t.skipped
		}
		if c.Unchecked > 0 && field == "end.oracle_cost" {
			c.By += fmt.Sprintf("; the trace is of the instruction set %s, this is %s, where those that differ are not compared", v.header.ISA, v.opt.ISA)
		}
		return c
	}
	return []Check{
		named("header.trace", confirmed("the version that this program reads")),
		named("header.case", confirmed("the case of the params")),
		named("header.method", decided),
		named("header.seed", seeded),
		named("header.params", params),
		named("header.problem_sha256", confirmed("the case of the params")),
		named("header.commit", unchecked(noClaim)),
		named("header.device", unchecked(noClaim)),
		named("header.backend", unchecked(noClaim)),
		named("header.isa", unchecked(noClaim)),
		named("header.model_sha256", decided),
		named("header.candidates", decided),
		named("header.noise", recomputed(byMeasuring)),
		named("header.bias", recomputed(byMeasuring)),
		named("header.estimated", unchecked(noClaim)),
		named("header.estimate_window", unchecked(noClaim)),
		named("header.kept_off", unchecked(noClaim)),
		named("header.disturbed", unchecked(noClaim)),
		named("header.measured_noise", unchecked(noClaim)),
		named("header.measured_states", unchecked(noClaim)),
		named("header.delay", scene),
		named("header.shift", shift),
		named("header.plant", shift),
		named("header.steps", params),
		named("header.computing_us", recomputed("drawing the times of decisions from the seed")),
		named("header.regime", regime),
		named("header.preference", recomputed(episodes)),
		named("header.scenes_sha256", unchecked("says which files were given, and none is opened")),
		named("header.steered", unchecked(noClaim)),
		named("header.guard", decided),
		named("header.episodes", confirmed("counting")),
		named("header.shard", confirmed("the numbers of the episodes")),
		named("header.margin_tolerance", confirmed("the case's own")),
		named("header.margins", confirmed("the case's own")),
		named("header.soft", confirmed("the case's own")),
		named("episode", confirmed("counting")),
		named("before_sha256", confirmed("hashing")),
		named("sha256", confirmed("hashing")),
		named("scene", scene),
		named("t", confirmed("counting")),
		named("x", measured),
		named("c", context),
		named("u", decided),
		named("s", confirmed(bySimulation)),
		named("sigma", confirmed(bySimulation)),
		named("J", confirmed(bySimulation)),
		named("margin", confirmed(bySimulation)),
		named("residual", decided),
		named("latency_us", unchecked(noTime)),
		named("fallback", decided),
		named("failed", confirmed(bySimulation)),
		named("displacement", decided),
		named("priority", decided),
		named("gap_bound", decided),
		named("times_us", unchecked(noTime)),
		named("late", recomputed("drawing the times of decisions from the seed")),
		named("prepare_us", unchecked(noTime)),
		named("end.cost", confirmed(bySimulation)),
		named("end.oracle_cost", optimum),
		named("end.safe", confirmed(bySimulation)),
		named("end.collision_free", confirmed(bySimulation)),
		named("end.completed", confirmed(bySimulation)),
		named("end.failure", decided),
		named("end.margins", confirmed(bySimulation)),
		named("end.violations", violations),
		named("end.excess", confirmed(bySimulation)),
		named("end.exceeding", confirmed(bySimulation)),
		named("end.reached", confirmed(bySimulation)),
		named("end.at_end", confirmed(bySimulation)),
		named("end.failed", confirmed(bySimulation)),
		named("end.cause", confirmed(bySimulation)),
		named("end.oracle_failure", optimum),
		named("end.starts", decided),
		named("end.excluded", confirmed("the scene")),
		named("end.no_way", unchecked(noClaim)),
	}
}
