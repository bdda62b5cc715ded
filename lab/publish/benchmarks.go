package publish

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
)

// printed is the last run with a benchmark that is wanted on the first device that has one; nil:
// none is recorded.
func (d devices) printed(wanted func(m peerrecord.Benchmark) bool) *peerrecord.Benchmarked {
	return latest(d, func(b *peerrecord.Benchmarked) bool { return slices.ContainsFunc(b.Benchmarks, wanted) })
}

// below are the benchmarks that a benchmark of go test runs.
func below(name string) func(m peerrecord.Benchmark) bool {
	return func(m peerrecord.Benchmark) bool { return strings.HasPrefix(m.Name, name+"/") }
}

// leastOf is the smallest of a benchmark's runs by one metric, NaN for none.
func leastOf(b *peerrecord.Benchmarked, name, metric string) float64 {
	least := math.NaN()
	for _, m := range b.Benchmarks {
		if v, ok := m.Metrics[metric]; ok && m.Name == name && !(least <= v) {
			least = v
		}
	}
	return least
}

// originOf says where the figures of a table are from; with times what else the machine did.
func originOf(b *peerrecord.Benchmarked, times bool) string {
	if !times {
		return report.Origin(b.Command, b.Commit, b.Device)
	}
	return report.Origin(b.Command, b.Commit, b.Device, b.Load)
}

// noRecord is what stands where a table will be once its command has been recorded.
const noRecord = "Not recorded yet.\n"

// benchmarkTable has a row for every benchmark of the last run of its kind. The fields of its cells are metrics, the
// benchmark's name, and by their numbers the parts of it; of several with | between, the least is shown.
type benchmarkTable struct {
	of      string // the benchmark of go test whose parts the rows are; in braces: the metric that tells them
	times   bool   // what else the machine did is said
	columns report.Columns
}

func (t *benchmarkTable) text(d devices) string {
	wanted, separator := below(t.of), "/"
	if metric, is := strings.CutPrefix(t.of, "{"); is {
		wanted, separator = func(m peerrecord.Benchmark) bool { return m.Metrics[strings.TrimSuffix(metric, "}")] > 0 }, " "
	}
	b := d.printed(wanted)
	if b == nil {
		return noRecord
	}
	s := report.Section{Provenance: originOf(b, t.times), Rows: [][]string{t.columns.Headings()}}
	for _, m := range b.Benchmarks {
		if !wanted(m) {
			continue
		}
		name := strings.TrimPrefix(m.Name, t.of+"/")
		parts := append(strings.SplitN(name, separator, 3), "", "")
		fields := map[string]any{"name": name, "0": parts[0], "1": parts[1], "2": parts[2]}
		for metric, v := range m.Metrics {
			fields[metric] = v
		}
		var row []string
		for _, c := range t.columns {
			row = append(row, report.Cell(c[1], func(metric string) any { return leastField(fields, metric) }))
		}
		s.Rows = append(s.Rows, row)
	}
	return report.Tables(s)
}

// leastField is a field, or the least of several numbers with | between.
func leastField(fields map[string]any, names string) any {
	if !strings.Contains(names, "|") {
		return fields[names]
	}
	least := math.Inf(1)
	for name := range strings.SplitSeq(names, "|") {
		v, ok := fields[name].(float64)
		if !ok {
			return nil
		}
		least = math.Min(least, v)
	}
	return least
}

// benchmarkGrid is a table of benchmarks whose columns and rows are parts of their names, each with its heading.
type benchmarkGrid struct {
	of, name      string // the benchmark of go test, and a benchmark's whole name by {column} and {row}
	times         bool   // what else the machine did is said
	corner        string
	columns, rows [][2]string
	cell          string // of its metrics
}

func (g *benchmarkGrid) text(d devices) string {
	b := d.printed(below(g.of))
	if b == nil {
		return noRecord
	}
	s := report.Section{Provenance: originOf(b, g.times), Rows: [][]string{{g.corner}}}
	for _, c := range g.columns {
		s.Rows[0] = append(s.Rows[0], c[1])
	}
	for _, r := range g.rows {
		row := []string{r[1]}
		for _, c := range g.columns {
			name := strings.NewReplacer("{column}", c[0], "{row}", r[0]).Replace(g.name)
			row = append(row, report.Cell(g.cell, func(metric string) any { return leastOf(b, name, metric) }))
		}
		s.Rows = append(s.Rows, row)
	}
	return report.Tables(s)
}

// regimesOfLoads are the test loads of the dispatch.
var regimesOfLoads = [][2]string{{"paper", "paper"}, {"envelope", "envelope"}, {"swing", "swing"}}

// The grids of docs/results/dispatch.md and networks.md.
var (
	// weights are what weights of the raw objectives cost in J_total, paper/opf's BenchmarkWeights.
	weights = benchmarkGrid{
		of: "BenchmarkWeights", name: "BenchmarkWeights/{column}/{row}", corner: "weight of J₁ : J₂ : J₃", cell: "{J_total_% %.4f} %",
		columns: [][2]string{{"0.7", "level 0.70"}, {"0.9", "0.90"}, {"0.99", "0.99"}},
		rows: [][2]string{
			{"100:1:1", "100 : 1 : 1"}, {"1000:1:1", "1000 : 1 : 1"}, {"10000:1:1", "10⁴ : 1 : 1"},
			{"1:10:1", "1 : 10 : 1"}, {"1:100:1", "1 : 100 : 1"}, {"1:1000:1", "1 : 1000 : 1"},
		},
	}
	// tightening is what staying away from limits costs, paper/opf's BenchmarkTightening.
	tightening = benchmarkGrid{
		of: "BenchmarkTightening", name: "BenchmarkTightening/{column}/{row}", corner: "tightening, pu",
		columns: regimesOfLoads, cell: "{gap_% %.4f} % ({unsolved %.0f})",
		rows: [][2]string{
			{"V0.003,Q0.005,S0.005", "V 0.003, Q 0.005, S 0.005"}, {"V0.0015,Q0.0025,S0.0025", "half of it"}, {"V0.00075,Q0.00125,S0.00125", "a quarter"},
			{"V0.003,Q0,S0", "V 0.003 alone"}, {"V0,Q0,S0.005", "S 0.005 alone"},
		},
	}
	// receding is what look-ahead and linearisations are worth to `mpc`, paper/opf's BenchmarkReceding.
	receding = benchmarkGrid{
		of: "BenchmarkReceding", name: "BenchmarkReceding/{column}/{row}", corner: "`mpc`",
		columns: regimesOfLoads, cell: "{gap_% %.7f}; {broken %.0f}, {unsolved %.0f}; {linearisations %.1f}, {most %.0f}",
		rows: [][2]string{
			{"steps5,iterations20,bare=false", "whole"}, {"steps1,iterations20,bare=false", "of one step"}, {"steps10,iterations20,bare=false", "of ten steps"},
			{"steps5,iterations1,bare=false", "one linearisation"}, {"steps5,iterations1,bare=true", "one linearisation, not projected"},
			{"steps5,iterations2,bare=true", "two, not projected"}, {"steps5,iterations20,bare=true", "whole, not projected"},
		},
	}
	// flows are the times of power flows, the least of the runs of grid/powerflow's BenchmarkSolve and BenchmarkLarge.
	flows = benchmarkGrid{
		of: "BenchmarkSolve", name: "{row}/{column}", times: true, corner: "network", cell: "{ns/op %.3g /1e3} µs, {iterations/op %.1f} iterations",
		columns: [][2]string{{"flat", "flat start"}, {"warm", "warm start"}},
		rows: [][2]string{
			{"BenchmarkSolve/case30", "case30"}, {"BenchmarkSolve/case39", "case39"}, {"BenchmarkSolve/case118", "case118"},
			{"BenchmarkLarge/buses-1180", "ten copies of case118 tied together, 1180 buses"}, {"BenchmarkLarge/buses-3540", "thirty copies, 3540 buses"},
		},
	}
)

// monitoredCases are the cases whose maps are asked about known answers.
var monitoredCases = []string{"integrator-convex", "integrator-nonconvex", "opf30", "opf30-uncertain"}

// monitor is what is seen of maps that are wrong, and how often of those that are not, package
// gpc's BenchmarkMonitor.
func (d devices) monitor() string {
	const name = "BenchmarkMonitor"
	b := d.printed(below(name))
	if b == nil {
		return noRecord
	}
	g := benchmarkGrid{of: name, name: name + "/{column}/{row}", corner: "D_u", cell: "{answers_missed %.2g}, {above_% %+.2f} %, {flagged %.0f}, {drifting %.0f}"}
	for _, c := range monitoredCases {
		g.columns = append(g.columns, [2]string{c, "`" + c + "`"})
	}
	var alarms []string
	for _, m := range b.Benchmarks {
		of, changed, _ := strings.Cut(strings.TrimPrefix(m.Name, name+"/"), "/")
		switch {
		case changed == "direct":
			alarms = append(alarms, fmt.Sprintf("`%s` %.0f of %.0f decisions", of, m.Metrics["alarms"], m.Metrics["decisions"]))
		case of == monitoredCases[0]:
			g.rows = append(g.rows, [2]string{changed, strings.ReplaceAll(changed, "_", " ")})
		}
	}
	return g.text(d) + "\nFalse alarms with `direct`, whole episodes: " + strings.Join(alarms, ", ") + ".\n"
}

// secureColumns are those of tables of secure dispatches.
var secureColumns = report.Columns{
	{"method", "`{0}`"}, {"secure", "{secure %.0f}/{decisions %.0f}"}, {"least margin, pu", "{margin_pu %.1e}"},
	{"cost above the exact chain, %", "{above_% %.3f}"}, {"CPU time, p50, ms", "{cpu_p50_ms %.3g}"}, {"p99, ms", "{cpu_p99_ms %.3g}"},
	{"bounds", "{bounds %.0f}"}, {"mean bound, %", "{bound_mean_% %.2g}"},
}

// gains has every system with uncertain gains, each of a record of its own.
func (d devices) gains() string {
	for _, r := range d {
		var all peerrecord.Benchmarked
		var commands, commits []string
		for _, b := range report.Of[peerrecord.Benchmarked](r) {
			if slices.ContainsFunc(b.Benchmarks, below(gainsTable.of)) {
				all.Benchmarks, all.Device = append(all.Benchmarks, b.Benchmarks...), b.Device
				commands, commits = append(commands, b.Command), append(commits, b.Commit)
			}
		}
		if len(commands) == 0 {
			continue
		}
		all.Command, all.Commit = strings.Join(commands, "`, `"), report.Distinct(commits)
		merged := report.New(r.Device, nil)
		report.Put(merged, all)
		return gainsTable.text(devices{merged})
	}
	return noRecord
}

// Tables of what programs print, a row a benchmark.
var (
	// environments are the steps a second of gpc.envs.bench.
	environments = benchmarkTable{"{cpu_microseconds_per_step}", true, report.Columns{
		{"", "{name}"}, {"CPU µs a step", "{cpu_microseconds_per_step %.3g}"}, {"steps a second", "{steps_per_second %.0f}"},
	}}
	// calls are what decisions cost from Python, python/bench/latency.py.
	calls = benchmarkTable{"{python_us}", true, report.Columns{
		{"case", "{0}"}, {"method", "`{1}`"}, {"loops in a call", "{2}"},
		{"in Go, µs", "{go_us %.1f}"}, {"from Python, µs", "{python_us %.1f}"}, {"ratio", "{ratio %.3f}"},
	}}
	// rounded is what maps of float16 decide in closed loop beside those of float32, package export's BenchmarkRounded.
	rounded = benchmarkTable{"BenchmarkRounded", false, report.Columns{
		{"map", "{0}"}, {"episodes", "{episodes %.0f}"}, {"safe, both", "{safe|safe_rounded %.0f}"},
		{"difference of cost, % ± 95 %", "{difference_% %+.5f} ± {interval_% %.5f}"},
		{"largest change of a plan, of D_u's scale", "{largest_change %.2g}"},
	}}
	// cortexM is what maps take on a microcontroller, lab/scripts/export-cortex-m.sh.
	cortexM = benchmarkTable{"BenchmarkCortexM", false, report.Columns{
		{"map", "{0}"}, {"weights", "{1}"}, {"processor", "{2}"},
		{"code", "{code_bytes %.0f}"}, {"constants", "{constants_bytes %.0f}"}, {"static", "{static_bytes %.0f}"}, {"stack", "{stack_bytes %.0f}"},
		{"instructions, mean", "{instructions %.0f}"}, {"most", "{instructions_most %.0f}"}, {"all units active", "{instructions_dense %.0f}"},
		{"equal entries", "{equal %.0f} of {entries %.0f}"},
	}}
	// exportedLoops are closed loops of whole controllers in C beside Go, package gallery's BenchmarkExportedLoops.
	exportedLoops = benchmarkTable{"BenchmarkExportedLoops", false, report.Columns{
		{"system", "`{0}`"}, {"unsafe in C", "{unsafe %.0f}/{episodes %.0f}"}, {"in Go", "{unsafe_gpc %.0f}/{episodes %.0f}"},
		{"safe in one alone", "{differ %.0f}"}, {"end state off, of its typical size", "{state_off_1e-12 %.1e /1e12}"}, {"cost off", "{cost_off_1e-12 %.1e /1e12}"},
		{"decisions", "{decisions %.0f}"}, {"projected", "{projected %.0f}"}, {"off the map", "{off_map %.0f}"}, {"guarded", "{guarded %.0f}"},
		{"by the plan before", "{incumbent %.0f}"}, {"escape", "{escaped %.0f}"}, {"rest", "{rested %.0f}"}, {"not known to be safe", "{unsafe_decisions %.0f}"},
	}}
	// gains are methods in systems whose actuators' gains they know, estimate or do not know, lab/gains.
	gainsTable = benchmarkTable{"BenchmarkGains", false, report.Columns{
		{"system", "`{0}`"}, {"method", "`{1}`"}, {"gains", "{2}"}, {"safe", "{safe %.0f}/{episodes %.0f}"},
		{"starts with a way", "{way %.0f}"}, {"safe of these", "{safe_of_way %.0f}"}, {"95 % interval, %", "{low_% %.1f} to {high_% %.1f}"},
		{"cost above the first, % [95 %]", "{above_% %+.2f} [{above_low_% %+.2f}, {above_high_% %+.2f}]"}, {"n", "{compared %.0f}"},
		{"off at rest, % of range: mean (worst)", "{offset_% %.2g} ({offset_worst_% %.2g})"},
	}}
	// imported are closed loops of models of do-mpc and acados beside IPOPT, lab/peers/imported/compare.py.
	imported = benchmarkTable{"BenchmarkImported", true, report.Columns{
		{"model", "`{0}`"}, {"controller", "`{1}`"}, {"unsafe", "{unsafe %.0f}/{episodes %.0f}"}, {"mean cost above the optimum, %", "{above_% %.2g}"},
		{"a decision, p50, µs", "{p50_us %.3g}"}, {"p99, µs", "{p99_us %.3g}"}, {"decisions unsolved", "{unsolved %.0f}"},
	}}
	// plants are those of users of other programs, with IPOPT as the judge, lab/peers/plants/compare.py.
	plants = benchmarkTable{"BenchmarkPlants", false, report.Columns{
		{"plant", "`{0}`"}, {"before: safe", "{before_safe %.0f}/{before_episodes %.0f}"}, {"% above", "{before_above_% %.2g}"}, {"map, % above", "{before_map_% %.2g}"},
		{"`nmpc` safe", "{safe %.0f}/{episodes %.0f}"}, {"no reference", "{no_reference %.0f}"}, {"optimum − IPOPT's, % (worst)", "{optimum_% %.1g} ({optimum_worst_% %.1g})"}, {"starts", "{judged %.0f}"},
		{"`nmpc` above the best known, %", "{above_% %.2g}"}, {"map by", "{1}"}, {"safe", "{map_safe %.0f}/{episodes %.0f}"}, {"% above", "{map_% %.2g}"},
		{"compiled in, CPU, s", "{compile_s %.0f}"}, {"warnings in C", "{c_warnings %.0f}"},
	}}
	// switchedPeers are whole episodes of systems with switched inputs by solvers of mixed-integer problems, lab/peers/switched, switchedScaling those of rooms.
	switchedPeers = benchmarkTable{"BenchmarkSwitchedPeers", true, report.Columns{
		{"system", "`{0}`"}, {"periods × inputs", "{periods %.0f} × {inputs %.0f}"}, {"plan of", "`{1}`"}, {"plans that keep the limits", "{kept %.0f}/{starts %.0f}"},
		{"% above the best", "{above_% %.3g}"}, {"worst", "{worst_% %.3g}"}, {"searches that ended", "{ended %.0f}"}, {"CPU, s", "{cpu_s %.3g}"},
	}}
	switchedScaling = benchmarkTable{"BenchmarkSwitchedScaling", true, switchedPeers.columns}
	// learnedToOptimize are the two benchmarks of a paper on learning to optimize by solvers and our methods, lab/peers/switched/l2o.py.
	learnedToOptimize = benchmarkTable{"BenchmarkL2O", true, report.Columns{
		{"problem", "`{0}`"}, {"plan of", "`{1}`"}, {"breaks a hard limit", "{broken %.0f}/{instances %.0f}"}, {"leaves a soft one", "{beyond %.0f}"},
		{"gap, mean, %", "{gap_% %.3g}"}, {"median", "{gap_median_% %.3g}"}, {"worst", "{gap_worst_% %.3g}"}, {"below 0.01 %", "{optimal %.0f}/{compared %.0f}"},
		{"a solve, median CPU, ms", "{solve_median_ms %.3g}"}, {"the first decision, CPU, ms", "{first_ms %.3g}"}, {"all 20", "{episode_ms %.3g}"}, {"SCIP's by the first decision's", "{times %.3g}"},
	}}
	// swarm are crowds of robots by our planners and GCBF+'s networks, judged by lab/peers/swarm/crowd.py.
	swarm = benchmarkTable{"BenchmarkSwarm", true, report.Columns{
		{"scenes", "`{0}`"}, {"who drives", "`{1}`"}, {"robots", "{robots %.0f}"}, {"obstacles", "{obstacles %.0f}"}, {"robots that touched something", "{touched %.0f}"},
		{"scenes without a touch", "{clean %.0f}/{scenes %.0f}"}, {"with every margin kept", "{safe %.0f}"}, {"arrived, %", "{arrived_% %.2f}"}, {"way / straight line", "{ratio %.3f}"},
		{"a robot's decision, p50, µs", "{p50_us %.0f}"}, {"p99, µs", "{p99_us %.0f}"},
	}}
	// powsybl are power flows, outages and factors beside PowSyBl's, lab/peers/powsybl/compare.py.
	powsybl = benchmarkTable{"BenchmarkPowsybl", true, report.Columns{
		{"network", "{0}"}, {"call", "{1}"}, {"outages", "{outages %.0f}"}, {"columns", "{columns %.0f}"}, {"ours, ms", "{ours_ms %.3g}"}, {"pypowsybl 1.16.1, ms", "{peer_ms %.3g}"},
		{"ratio", "{ratio %.3g} [{lo %.3g}, {hi %.3g}]"}, {"largest difference", "{apart %.0e}"},
	}}
	// fronts are those of the bundled maps beside the exact solver's, lab/scripts/fronts.py.
	fronts = benchmarkTable{"BenchmarkFront", true, report.Columns{
		{"system", "`{0}`"}, {"states", "{states %.0f}"}, {"hypervolume / the exact front's, mean", "{ratio %.4f}"}, {"5 %", "{ratio_p5 %.4f}"}, {"worst", "{ratio_worst %.4f}"},
		{"above the optimum, %, at w₁ = 0.01", "{regret_0.01 %.2g}"}, {"0.25", "{regret_0.25 %.2g}"}, {"0.75", "{regret_0.75 %.2g}"}, {"0.99", "{regret_0.99 %.2g}"},
		{"map, 1000 weightings, ms", "{map_ms %.3g}"}, {"most", "{map_most_ms %.3g}"}, {"exact, 50 weightings, ms", "{exact_ms %.3g}"}, {"most", "{exact_most_ms %.3g}"},
	}}
	// goals are loops with a goal beside the exact fronts, lab/scripts/goals.py.
	goals = benchmarkTable{"BenchmarkGoal", true, report.Columns{
		{"system", "`{0}`"}, {"goal", "{1}"}, {"states", "{states %.0f}"}, {"unsafe: `direct`, `polish`, `nmpc`", "{direct_unsafe %.0f}, {polish_unsafe %.0f}, {nmpc_unsafe %.0f}"},
		{"bound kept", "{direct_kept %.0f}, {polish_kept %.0f}, {nmpc_kept %.0f}"}, {"furthest beyond, % of the front's range", "{direct_beyond_most_% %.2g}, {polish_beyond_most_% %.2g}, {nmpc_beyond_most_% %.2g}"},
		{"the other objective above the exact front, %", "{direct_above_% %.2g}, {polish_above_% %.2g}, {nmpc_above_% %.2g}"},
		{"a decision, ms", "{direct_decision_ms %.2g}, {polish_decision_ms %.2g}, {nmpc_decision_ms %.2g}"},
		{"an episode's first", "{direct_first_ms %.2g}, {polish_first_ms %.2g}, {nmpc_first_ms %.2g}"},
	}}
	// morl are methods of morl-baselines beside the maps, lab/peers/morl/compare.py.
	morl = benchmarkTable{"BenchmarkMORL", true, report.Columns{
		{"system", "`{0}`"}, {"method", "`{1}`"}, {"seeds", "{seeds %.0f}"}, {"decisions of a training", "{steps %.0f}"}, {"its CPU time, s", "{training_s %.0f}"},
		{"hypervolume / the exact front's, mean", "{hypervolume %.4f}"}, {"worst seed", "{hypervolume_worst %.4f}"}, {"unsafe loops, %", "{unsafe_% %.2g}"}, {"CPU time of a decision, p50, µs", "{decision_us %.3g}"},
	}}
	// pythonSystems are systems written in Python, compiled and driven here and in C, examples/python.
	pythonSystems = benchmarkTable{"BenchmarkPythonSystem", true, report.Columns{
		{"system", "`{0}`"}, {"method", "`{1}`"}, {"compiled in, s", "{compile_s %.0f}"}, {"unsafe", "{unsafe %.0f}/{episodes %.0f}"},
		{"mean regret, %", "{regret_pct %.2g}"}, {"a decision, p50, µs", "{decision_p50_us %.3g}"}, {"p99, µs", "{decision_p99_us %.3g}"},
		{"unsafe in C", "{c_unsafe %.0f}/{c_episodes %.0f}"}, {"cost in C above the optima, all episodes, %", "{c_regret_pct %.2g}"},
		{"constants in C, bytes", "{c_constant_bytes %.0f}"},
	}}
	// Methods of a secure dispatch on the same trajectories, lab/secure.
	secure39  = benchmarkTable{"BenchmarkSecure39", true, secureColumns}
	secure118 = benchmarkTable{"BenchmarkSecure118", true, secureColumns}
	secure300 = benchmarkTable{"BenchmarkSecure300", true, secureColumns}
	secure500 = benchmarkTable{"BenchmarkSecure500", true, secureColumns}
	// chains are secure optimal power flows one after another, grid/secure.
	chains = benchmarkTable{"BenchmarkChain", true, report.Columns{
		{"network", "`{0}`"}, {"outages", "{outages %.0f}"}, {"loads move", "{1}"}, {"from nothing: iterations", "{cold-iterations %.0f}"}, {"CPU, s", "{cold-cpu-s %.2g}"},
		{"solved", "{solved %.0f}/{steps %.0f}"}, {"warm", "{warm %.0f}"}, {"iterations, p50", "{iterations %.0f}"}, {"most", "{most %.0f}"}, {"CPU p50, ms", "{cpu-ms %.3g}"}, {"p99, ms", "{cpu-p99-ms %.3g}"},
	}}
	// scopf are security-constrained optimal power flows that MadNCL's paper publishes times of, lab/peers/scopf.
	scopf = benchmarkTable{"BenchmarkSCOPF", true, report.Columns{
		{"network", "`{0}`"}, {"outages", "{1}"}, {"that cut a part off", "{cut_off %.0f}"}, {"secure", "{secure %.0f}"},
		{"cost, 10⁴ $/h", "{cost_1e4_$/h %.6f}"}, {"published", "{published_1e4_$/h %.2f}"},
		{"remembered", "{remembered %.0f}"}, {"rounds", "{rounds %.0f}"}, {"iterations", "{iterations %.0f}"}, {"CPU time, s", "{cpu_s %.3g}"},
		{"then secure, warm", "{warm %.0f}/{following %.0f}"}, {"CPU p50, ms", "{following_p50_ms %.3g}"}, {"p99, ms", "{following_p99_ms %.3g}"},
		{"MadNCL, one A30, s", "{madncl_a30_s %.1f}"}, {"its iterations", "{madncl_iterations %.0f}"}, {"Knitro, s", "{knitro_cpu_s %.0f}"},
	}}
	// robust are closed loops of do-mpc's uncertain reactor by do-mpc's robust MPC and estimator, and by ours, lab/peers/robust/compare.py.
	robust = benchmarkTable{"BenchmarkRobust", true, report.Columns{
		{"controller", "`{0}`"}, {"episodes with a limit broken", "{violated %.0f}/{episodes %.0f}"}, {"largest excess, K", "{worst_K %.2g}"},
		{"between decisions, K", "{between_K %.2g}"}, {"mean cost above the reference, % ± 95 %", "{above_% %+.3g} ± {interval_% %.2g}"},
		{"a decision, p50, µs", "{p50_us %.0f}"}, {"p99, µs", "{p99_us %.0f}"}, {"decisions unsolved", "{unsolved %.0f}"},
	}}
	// measured are times of decisions by estimates and of their parts, package gallery's BenchmarkMeasuredDecision.
	measured = benchmarkTable{"BenchmarkMeasuredDecision", true, report.Columns{
		{"system", "`{0}`"}, {"kept off, σ", "{1}"}, {"a decision, p50, µs", "{decision-p50-µs %.3g}"}, {"filter", "{filter-p50-µs %.3g}"},
		{"limits", "{limits-p50-µs %.3g}"}, {"guard", "{guard-p50-µs %.3g}"}, {"map", "{map-p50-µs %.3g}"},
	}}
	// exactLoops are closed loops of exact controllers in C beside Go, package gallery's BenchmarkExactLoops.
	exactLoops = benchmarkTable{"BenchmarkExactLoops", false, report.Columns{
		{"system", "`{0}`"}, {"unsafe in C", "{unsafe %.0f}/{episodes %.0f}"}, {"in Go", "{unsafe_gpc %.0f}/{episodes %.0f}"},
		{"safe in one alone", "{differ %.0f}"}, {"mean cost in C above Go's, %", "{above_% %+.2g}"}, {"largest difference of an episode's cost, %", "{cost_off_% %.2g}"},
		{"decisions", "{decisions %.0f}"}, {"solved anew", "{cold %.0f}"}, {"unsolved", "{unsolved %.0f}"}, {"memory of a loop, bytes", "{loop_bytes %.0f}"},
	}}
	// cortexMExact is what exact controllers take on a microcontroller, lab/scripts/export-loops-cortex-m.sh.
	cortexMExact = benchmarkTable{"BenchmarkCortexMExact", false, report.Columns{
		{"system", "`{0}`"}, {"code", "{code_bytes %.0f}"}, {"constants", "{constants_bytes %.0f}"}, {"static", "{static_bytes %.0f}"},
		{"memory of a loop", "{loop_bytes %.0f}"}, {"largest frame", "{frame_bytes %.0f}"},
		{"instructions of a decision, mean", "{instructions %.0f}"}, {"most", "{instructions_most %.0f}"},
		{"unsafe there", "{unsafe %.0f}/{episodes %.0f}"}, {"in Go", "{unsafe_gpc %.0f}/{episodes %.0f}"},
	}}
	// cortexMLoops is what whole controllers take on a microcontroller, lab/scripts/export-loops-cortex-m.sh.
	cortexMLoops = benchmarkTable{"BenchmarkCortexMLoops", false, report.Columns{
		{"system", "`{0}`"}, {"code", "{code_bytes %.0f}"}, {"constants", "{constants_bytes %.0f}"}, {"static", "{static_bytes %.0f}"},
		{"largest frame", "{frame_bytes %.0f}"}, {"instructions of the map", "{map_instructions %.0f}"},
		{"of a decision, mean", "{instructions %.0f}"}, {"most", "{instructions_most %.0f}"}, {"every roll-out to its end", "{instructions_full %.0f}"},
		{"unsafe there", "{unsafe %.0f}/{episodes %.0f}"}, {"in Go", "{unsafe_gpc %.0f}/{episodes %.0f}"},
	}}
	// cortexMEstimates and cortexMEstimators are what controllers that estimate take on a microcontroller, instructions and memory,
	// lab/scripts/export-loops-cortex-m.sh.
	cortexMEstimates = benchmarkTable{"BenchmarkCortexMEstimates", false, report.Columns{
		{"system", "`{0}`"}, {"the map", "{map_instructions %.0f}"}, {"the filter, p50", "{filter_p50 %.0f}"},
		{"a decision, p50", "{decisions_p50 %.0f}"}, {"most", "{instructions_most %.0f}"}, {"the first, most", "{first_most %.0f}"},
		{"following the plan before", "{followed %.0f} of {decisions %.0f}"}, {"p50", "{followed_p50 %.0f}"}, {"most", "{followed_most %.0f}"},
		{"plan found anew", "{renewed %.0f}"}, {"p50", "{renewed_p50 %.0f}"}, {"rolled out", "{rolled %.0f}"}, {"p50", "{rolled_p50 %.0f}"},
		{"most", "{rolled_most %.0f}"}, {"every roll-out to its end", "{instructions_full %.0f}"},
		{"unsafe there", "{unsafe %.0f}/{episodes %.0f}"}, {"in Go", "{unsafe_gpc %.0f}/{episodes %.0f}"},
	}}
	cortexMEstimators = benchmarkTable{"BenchmarkCortexMEstimates", false, report.Columns{
		{"system", "`{0}`"}, {"code", "{code_bytes %.0f}"}, {"constants", "{constants_bytes %.0f}"}, {"static", "{static_bytes %.0f}"},
		{"memory of a loop", "{loop_bytes %.0f}"}, {"largest frame", "{frame_bytes %.0f}"},
	}}
)

// exported are times of a decision by Go and by what it exports, package export's BenchmarkDirect.
func (d devices) exported() string {
	const name, decision = "BenchmarkDirect", "ns/decision"
	b := d.printed(below(name))
	if b == nil {
		return noRecord
	}
	s := report.Section{Provenance: originOf(b, true), Rows: [][]string{{"map", "Go, µs", "C, float32, µs", "C, float16, µs", "C / Go"}}}
	for _, m := range b.Benchmarks {
		of, _, _ := strings.Cut(strings.TrimPrefix(m.Name, name+"/"), "/")
		if slices.ContainsFunc(s.Rows, func(row []string) bool { return row[0] == of }) {
			continue
		}
		us := func(by string) float64 { return leastOf(b, name+"/"+of+"/"+by, decision) / 1e3 }
		row := []string{of}
		for _, v := range []float64{us("go"), us("c/half=false"), us("c/half=true"), us("c/half=false") / us("go")} {
			row = append(row, report.Number("%.1f", v))
		}
		s.Rows = append(s.Rows, row)
	}
	return report.Tables(s)
}
