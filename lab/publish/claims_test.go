package publish

import (
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
)

// What pages outside the results say of times and costs is what the records say.
func TestTimesAndCostsElsewhereAreRecords(t *testing.T) {
	all := devices(recorded(t))
	polish, ahead := [2]float64{math.Inf(1), 0}, [2]float64{math.Inf(1), 0}
	for _, name := range all.systems() {
		p := all.pairing(name)
		if p == nil {
			continue
		}
		if m := pairedMethod(p, "polish-ahead"); m != nil {
			v := float64(m.Prepare.P50) / 1e3
			polish = [2]float64{min(polish[0], v), max(polish[1], v)}
		}
	}
	all.besideRivals(func(_, method string, _, timed *closedloop.Paired) {
		if method == report.AheadSolver {
			v := float64(timed.Latency.Running.P50)
			ahead = [2]float64{min(ahead[0], v), max(ahead[1], v)}
		}
	})
	search := claimsOf(t, "docs/explain/search.md")
	search.says("%.2f to %.0f ms in the gallery", polish[0], polish[1])
	search.says("it reaches the optimum of `nmpc` in %.1f to %.1f µs", ahead[0], ahead[1])

	dispatch := [2]float64{math.Inf(1), 0}
	count := func(e *closedloop.Result) {
		if v := float64(e.Latency.P50) / 1e3; e.Method == "mo-opf" && v > 0 {
			dispatch = [2]float64{min(dispatch[0], v), max(dispatch[1], v)}
		}
	}
	for _, e := range all.likePaperOf("opf30") {
		count(&e)
	}
	for _, n := range networks[:5] {
		found := all.onNetwork(n.name)
		for i := range found.evals {
			count(&found.evals[i])
		}
	}
	claimsOf(t, "docs/tutorials/dispatch.md").says("takes %.2f to %.1f ms a dispatch in the median", dispatch[0], dispatch[1])

	maps := claimsOf(t, galleryPage)
	for _, c := range all.compilation("cstr").Choice {
		if c.Method == "direct" {
			maps.says("Of the %d held-out ones the worst costs %.0f %% by `direct`", c.Episodes, float64(c.Max))
		}
	}
	pendulum, space := all.pairing("double-pendulum"), all.pairing("quadrotor-3d")
	polished, bare := pairedMethod(pendulum, "refine-64-polish-ahead"), pairedMethod(pendulum, "refine-64-ahead")
	maps.says("In %d episodes [beside the exact solver](#beside-other-methods) it costs %.1f %%, and %.1f %% without these iterations", polished.Episodes, float64(polished.RegretPct), float64(bare.RegretPct))
	bare = pairedMethod(space, "refine-64-ahead")
	maps.says("A search of 64 roll-outs costs %.2f %% in %d episodes. Its first decision has nothing prepared, and takes longer than the period of 50 ms in one of a hundred", float64(bare.RegretPct), bare.Episodes)
	if !(bare.Latency.Cold.P50 < 50e3 && bare.Latency.Cold.P99 > 50e3) {
		t.Errorf("first decisions of a search of 64 take %+v µs", bare.Latency.Cold)
	}

	less, seeds := 0, 0
	for _, d := range all {
		for _, of := range report.Of[report.Trained](d) {
			if seeds++; of.Plain.Direct.Mean < of.Plain.Map.Mean {
				less++
			} else if of.Case == "cstr" || of.Case == "cartpole" || of.Case == "cartpole-track" {
				t.Errorf("%s, seed %d: the plain network costs more", of.Case, of.Seed)
			}
			if of.Case == "chain21" && of.Plain.Direct.Mean < of.Plain.Map.Mean {
				t.Errorf("chain21, seed %d: the plain network costs less", of.Seed)
			}
		}
	}
	maps.says("In %d of %d rows the plain network's `direct` costs less than the map's", less, seeds)

	round := all.compilation("double-pendulum").Rounds[0]
	maps.says("Without its guard, `direct` costs %.0f %% from new starts and %.0f %% from those it was trained on; with the guard it costs %.0f %% from held-out ones",
		float64(round.Probed.Mean), float64(round.Training.Mean), float64(round.HeldOut.Mean))
	for _, y := range systemsOf(all.horizonPeers()) {
		if y.name == "cartpole" {
			own := y.ratio(ownSolver, "direct p50")
			maps.says("Warm `nmpc` takes %.0f µs of `cartpole` here, and %.0f µs there", own.PeerUS, float64(pairedMethod(all.pairing("cartpole"), report.WarmSolver).Latency.Running.P50))
		}
	}

	rows, longer := 0, 0
	for _, d := range all {
		for _, f := range report.Of[peerrecord.Benchmarked](d) {
			for _, b := range f.Benchmarks {
				if strings.HasPrefix(b.Name, "BenchmarkSCOPF/") {
					if rows++; b.Metrics["following_p99_ms"] > 1e3*b.Metrics["cpu_s"] {
						longer++
					}
				}
			}
		}
	}
	claimsOf(t, "docs/results/secure.md").says("In %d of %d rows it is longer than a solve from nothing", longer, rows)

	ways := claimsOf(t, waysPage)
	ways.says("%.1f %% above the best known of [1000 other episodes](maps.md#beside-the-exact-solver), in %.2f ms",
		float64(pairedMethod(all.manyEpisodes("double-pendulum"), report.WarmSolver).RegretPct), float64(pairedMethod(pendulum, report.WarmSolver).Latency.Running.P50)/1e3)
	for _, p := range all.foreign(report.WaysRound) {
		if p.Case == "double-pendulum" {
			ways.says("64 of them within %.0f %%, and 4096, which take far longer than a period, within %.0f %%",
				math.Ceil(float64(pairedMethod(&p, "refine-64").AboveBest.Mean)), math.Ceil(float64(pairedMethod(&p, "refine-4096").AboveBest.Mean)))
		}
		if p.Case != "arm" {
			continue
		}
		exact := 0.0
		for _, m := range p.Pairs {
			if strings.HasPrefix(m.Method, "nmpc") {
				exact = max(exact, float64(m.Latency.Running.P50))
			}
		}
		for _, m := range p.Pairs {
			if running := float64(m.Latency.Running.P50); m.Method != "direct" && !strings.HasPrefix(m.Method, "nmpc") && !(exact < running) {
				t.Errorf("a decision of %s takes %v µs, one of the solver %v", m.Method, running, exact)
			}
		}
		ways.says("In the arm its median decision is faster than that of any search or polish")
	}
	for _, of := range all.comparisons(func(m *closedloop.Comparison) bool {
		return m.Case == "hvac" && len(m.MeasuredStates) > 0 && m.MeasuredNoise == 0.01 && m.Tightening == 3
	}) {
		claimsOf(t, "docs/results/real-plant.md").says("From its one sensor `hvac` costs %.2f %% less by the map", -float64(of.Comparisons[1].Difference.Mean))
	}
}

// What the pages say beside the tables of other solvers is what the records say: means over all systems, and what the two
// sides of a comparison had.
func TestOtherSolversAreComparedAsRecorded(t *testing.T) {
	all := devices(recorded(t))
	solvers, logs, ran := claimsOf(t, "docs/results/solvers.md"), map[string]float64{}, map[string]float64{}
	for _, y := range systemsOf(all.horizonPeers()) {
		for _, p := range y.peers {
			if v := y.ratio(p, warm); v != nil {
				logs[peerName(p)], ran[peerName(p)] = logs[peerName(p)]+math.Log(v.Ratio), ran[peerName(p)]+1
			}
		}
	}
	times := func(peer string) float64 { return math.Exp(logs[peer] / ran[peer]) }
	solvers.says("At warm p50 IPOPT takes %.0f times as long in the geometric mean, and fatrop %.0f times. HPIPM takes %.0f times as long on the seven systems in which it ran", times("ipopt"), times("fatrop"), times("hpipm"))
	if ran["hpipm"] != 7 || ran["ipopt"] != 9 {
		t.Errorf("the solvers ran in %v systems", ran)
	}

	r := records{t, recorded(t)}
	cheaper := map[string][2]float64{} // by the map, and by the exact controller
	for _, b := range all.printed(below(plants.of)).Benchmarks {
		exact, by := b.Metrics["above_%"], b.Metrics["map_%"]
		if _, has := b.Metrics["map_%"]; has && by < exact-0.2 {
			cheaper[strings.Split(b.Name, "/")[1]] = [2]float64{by, exact}
		}
	}
	turbine, smooth, coulomb, hiv := cheaper["wind-turbine"], cheaper["coulomb-smooth"], cheaper["coulomb"], cheaper["hiv"]
	solvers.says("`wind-turbine` (%.2g %% above the best known, not %.2g), `coulomb-smooth` (%.2g, not %.2g), `coulomb` (%.2g, not %.2g) and `hiv` (%.2g, not %.2g)",
		turbine[0], turbine[1], smooth[0], smooth[1], coulomb[0], coulomb[1], hiv[0], hiv[1])
	if len(cheaper) != 4 {
		t.Errorf("a map is cheaper in %v", cheaper)
	}

	plant := claimsOf(t, "docs/results/real-plant.md")
	plant.says("in %.0f ms. do-mpc's robust MPC", r.printed("BenchmarkRobust/gpc-nmpc-filter", "p50_us")/1e3)
	plant.says("With our own moving horizon of 20 steps a decision takes %.0f ms", r.printed("BenchmarkRobust/gpc-nmpc-window", "p50_us")/1e3)

	// A map whose error on known answers is at most 0.5 passes: what such maps cost is no little.
	claimsOf(t, "docs/explain/guarantees.md").says("errors up to ε = 0.5](../results/monitor.md), some of which cost percents")
	dear := 0
	for _, b := range all.printed(below("BenchmarkMonitor")).Benchmarks {
		if e := b.Metrics["answers_missed"]; e > 0 && e <= 0.5 && b.Metrics["above_%"] > 5 {
			dear++
		}
	}
	if dear == 0 {
		t.Error("every map that passes costs little")
	}
}
