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
	Field     string `json:"field"`
	Verdict   string `json:"how"`       // what was done with it
	Basis     string `json:"by"`        // by what it was checked, or why not
	Values    int    `json:"values"`    // compared
	Unchecked int    `json:"unchecked"` // that could not be
}

// OnlyDeep, in Check.Basis, is of what is compared with VerifyOptions.Deep alone.
const OnlyDeep = "only deciding again"

// Words of Check.Basis that several fields share.
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
	var all []Check
	add := func(c Check, fields ...string) {
		for _, c.Field = range fields {
			one := c
			if t := v.tally[c.Field]; t != nil {
				one.Values, one.Unchecked = t.compared, t.skipped
			}
			if one.Unchecked > 0 && c.Field == "end.oracle_cost" {
				one.Basis += fmt.Sprintf("; the trace is of the instruction set %s, this is %s, where those that differ are not compared", v.header.ISA, v.opt.ISA)
			}
			all = append(all, one)
		}
	}
	add(confirmed("the version that this program reads"), "header.trace")
	add(confirmed("the case of the params"), "header.case")
	add(decision, "header.method")
	add(seeded, "header.seed")
	add(params, "header.params")
	add(confirmed("the case of the params"), "header.problem_sha256")
	add(unchecked(noClaim), "header.commit", "header.device", "header.backend", "header.isa")
	add(decision, "header.model_sha256", "header.candidates")
	add(recomputed(byMeasuring), "header.noise", "header.bias")
	add(unchecked(noClaim), "header.estimated", "header.estimate_window", "header.kept_off", "header.disturbed", "header.measured_noise", "header.measured_states")
	add(scene, "header.delay")
	add(shift, "header.shift", "header.plant")
	add(params, "header.steps")
	add(recomputed("drawing the times of decisions from the seed"), "header.computing_us")
	add(regime, "header.regime")
	add(recomputed(episodes), "header.preference")
	add(unchecked("says which files were given, and none is opened"), "header.scenes_sha256")
	add(unchecked(noClaim), "header.steered")
	add(decision, "header.guard")
	add(confirmed("counting"), "header.episodes")
	add(confirmed("the numbers of the episodes"), "header.shard")
	add(confirmed("the case's own"), "header.margin_tolerance", "header.margins", "header.soft")
	add(confirmed("counting"), "episode")
	add(confirmed("hashing"), "before_sha256", "sha256")
	add(scene, "scene")
	add(confirmed("counting"), "t")
	add(measured, "x")
	add(context, "c")
	add(decision, "u")
	add(confirmed(bySimulation), "s", "sigma", "J", "margin")
	add(decision, "residual")
	add(unchecked(noTime), "latency_us")
	add(decision, "fallback")
	add(confirmed(bySimulation), "failed")
	add(decision, "displacement", "priority", "gap_bound")
	add(unchecked(noTime), "times_us")
	add(recomputed("drawing the times of decisions from the seed"), "late")
	add(unchecked(noTime), "prepare_us")
	add(confirmed(bySimulation), "end.cost")
	add(optimum, "end.oracle_cost")
	add(confirmed(bySimulation), "end.safe", "end.collision_free", "end.completed")
	add(decision, "end.failure")
	add(confirmed(bySimulation), "end.margins")
	add(violations, "end.violations")
	add(confirmed(bySimulation), "end.excess", "end.exceeding", "end.reached", "end.at_end", "end.failed", "end.cause")
	add(optimum, "end.oracle_failure", "end.best_known")
	add(decision, "end.starts")
	add(confirmed("the scene"), "end.excluded")
	add(unchecked(noClaim), "end.no_way")
	return all
}
