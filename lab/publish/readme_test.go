package publish

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/lab/certificate"
	"github.com/gpc-engine/gpc/lab/report"
	"github.com/gpc-engine/gpc/lab/testrecords"
)

// A case that two devices have recorded is summarized once, as on the first.
func TestSummaryOfSeveralDevices(t *testing.T) {
	eval := func(name, method string, regret float64) closedloop.Result {
		return closedloop.Result{Case: name, Method: method, Episodes: 1, RegretPct: closedloop.Number(regret)}
	}
	methods := batchnav.Methods(testdomain.NewCart(1), false)
	cases := map[string]report.Case{"one": {Methods: methods}, "two": {Methods: methods}}
	a, b := report.New("a", cases), report.New("b", cases)
	report.Put(a, eval("one", "navigator", 1))
	report.Put(b, eval("one", "navigator", 2), eval("two", "navigator", 3))
	text := devices{a, b}.summary()
	if strings.Count(text, "**`one`**") != 1 || strings.Count(text, "| `navigator` |") != 2 || !strings.Contains(text, "| 1.0000 ± – |") || !strings.Contains(text, "| 3.0000 ± – |") {
		t.Errorf("the summary is\n%s", text)
	}
}

// ofCase is the part of the results that is of one case.
func ofCase(t *testing.T, text, name string) string {
	t.Helper()
	begin := strings.Index(text, "**`"+name+"`**")
	if begin < 0 {
		t.Fatalf("no results of %s", name)
	}
	part := text[begin:]
	if end := strings.Index(part[1:], "\n**`"); end >= 0 {
		part = part[:end+1]
	}
	return part
}

// Every row that the paper has of a case stands in the page of cases with its figures: in the table, or
// named below it as not recorded. A mean has its number of episodes beside it, and median and 90 %
// quantile or the word that there are none; a median time has its 99th percentile.
func TestTheCasesHaveEveryRowOfThePaper(t *testing.T) {
	all := devices(recorded(t))
	text, rows := all.summary(), 0
	for _, r := range report.RunsOf(all, (*report.Records).CaseNames) {
		if len(r.Cases[r.Name].Paper) == 0 {
			continue
		}
		part := ofCase(t, text, r.Name)
		for method, p := range r.Cases[r.Name].Paper {
			// The exact method costs nothing above itself: its row of zeros stands in docs/results/paper.md.
			if m := r.Method(r.Name, method); m.Group == domain.GroupExact && !m.Brief {
				continue
			}
			rows++
			row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(method) + "`[^|]* \\|.*\\| " + regexp.QuoteMeta(report.InPaper(p)) + " \\|$")
			named := fmt.Sprintf("`%s` (%s)", method, report.InPaper(p))
			below := strings.Index(part, "In the paper and not recorded here: ")
			if inTable, missing := row.MatchString(part), below >= 0 && strings.Contains(part[below:], named); inTable == missing {
				t.Errorf("%s: %s stands in the table: %v, as not recorded: %v", r.Name, method, inTable, missing)
			}
		}
		head := part[strings.Index(part, "| method |"):]
		head = head[:strings.Index(head, "\n")]
		for _, column := range []string{"| n |", "% ± 95 % |", "| " + report.TimesHeading + " |"} {
			if !strings.Contains(head, column) {
				t.Errorf("%s has the columns %s", r.Name, head)
			}
		}
		if spread := strings.Contains(head, "| median | p90 |"); spread == strings.Contains(part, "These records hold no medians.") {
			t.Errorf("%s: medians %v, and the opposite is said: %s", r.Name, spread, part)
		}
	}
	if rows < 20 {
		t.Errorf("the paper has %d rows", rows)
	}
}

// trained are records of a device with a list of trainings alone.
func trained(t *testing.T, lines string) *report.Records {
	t.Helper()
	dir := t.TempDir()
	list := filepath.Join(dir, "baselines", "evaluations.csv")
	require.OK(t, os.Mkdir(filepath.Dir(list), 0o777))
	require.OK(t, os.WriteFile(list, []byte("method,case,regime,training_seed,training_seeds\n"+lines), 0o666))
	return require.Get(report.Load(t.Context(), dir, known()))(t)
}

// A learned policy stands beside its own row of the paper, and nowhere else; behind the safeguard in the row after.
func TestPoliciesStandBesideTheirRows(t *testing.T) {
	r := trained(t, "td3,integrator-convex,,1,3\n")
	for _, method := range []string{"navigator", "td3", "td3+safeguard", "ppo", "ppo+safeguard"} { // the paper has no ppo in Case 1
		report.Put(r, testrecords.Run("integrator-convex", method, "", 1, 3))
	}
	text := devices{r}.summary()
	if !strings.Contains(text, "| `td3`, 1 of 3 seeds |") || strings.Contains(text, "`td3` (") || strings.Contains(text, "`ppo") || !strings.Contains(text, "`cpo` (") {
		t.Errorf("the summary is\n%s", text)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]*)`").FindAllStringSubmatch(text, -1)
	if len(rows) != 3 || rows[1][1] != "td3" || rows[2][1] != "td3+safeguard" {
		t.Errorf("the rows are %q", rows)
	}
}

// At a glance a case is shown where the method costs most, and no kind of scenes is left out of
// the tables of other loads.
func TestGlanceShowsTheHardestScenes(t *testing.T) {
	r := report.New("", known())
	for regime, gap := range map[string]closedloop.Number{"paper": 0.5, "swing": 2.5, "envelope": 1.5} {
		for _, method := range []string{"navigator", "direct", "hold"} {
			e := testrecords.Run("opf30", method, regime, 1, 2)
			e.GapPct = gap
			report.Put(r, e)
		}
	}
	d := devices{r}
	if text := report.Tables(report.Glance(d)); !strings.Contains(text, "loads `swing` | `direct`, 600/600 | 1.500 ") || strings.Contains(text, "`paper`") || !strings.Contains(text, "| `hold`, 600/600 |") {
		t.Errorf("at a glance:\n%s", text)
	}
	if text := d.otherLoads(); !strings.Contains(text, "| `swing` | 7 of 9 |") || !strings.Contains(text, "| `envelope` | 7 of 9 |") || strings.Contains(text, "| `paper` |") {
		t.Errorf("other loads:\n%s", text)
	}
	if text := ofCase(t, d.summary(), "opf30"); !strings.Contains(text, "| 0.5000 ") || strings.Contains(text, "2.5000") {
		t.Errorf("the paper's loads:\n%s", text)
	}
}

// The page of cases says that the latent step changes next to nothing in the gallery either: zero lies within
// the interval of every pair, or the difference is at most what the page says.
func TestTheLatentStepIsThatOfTheGallery(t *testing.T) {
	said := regexp.MustCompile(`within the interval or is at most ([0-9.]+) % \(\[in pairs\].*, and so \[in the gallery\]`).FindStringSubmatch(unwrapped(t, casesPage))
	if said == nil {
		t.Fatalf("%s does not say it", casesPage)
	}
	most := require.Get(strconv.ParseFloat(said[1], 64))(t)
	systems := map[string]bool{}
	for _, r := range recorded(t) {
		for _, p := range r.ForeignPairings(report.InParts) {
			systems[p.Case] = true
			for _, m := range p.Pairs {
				if d := m.Difference; m.Method == "navigator" && !(d.MeanCI95[0] <= 0 && d.MeanCI95[1] >= 0) && math.Abs(float64(d.Mean)) > most {
					t.Errorf("%s: gpc costs %v %% more than direct, 95 %% within %v", p.Case, d.Mean, d.MeanCI95)
				}
			}
		}
	}
	if len(systems) != 9 {
		t.Errorf("of %d systems", len(systems))
	}
}

// ranging is the least and the largest of some values.
func ranging(format string, values []float64) string {
	least, most := fmt.Sprintf(format, slices.Min(values)), fmt.Sprintf(format, slices.Max(values))
	if least == most {
		return least
	}
	return least + " to " + most
}

// Every system of the gallery with a map has its methods in one run without noise.
func TestPairingsOfTheGalleryAreWithoutNoise(t *testing.T) {
	all := devices(recorded(t))
	maps := 0
	for _, name := range all.systems() {
		if all.compilation(name) == nil {
			continue
		}
		maps++
		if p := all.pairing(name); p == nil || p.Noise != 0 || p.Bias != 0 || len(p.Shift) != 0 {
			t.Errorf("%s: the pairing is %+v", name, p)
		}
	}
	if maps != 9 {
		t.Errorf("%d systems with a map", maps)
	}
}

// What README's text says of records beside its tables is what they say.
func TestREADMEsTextIsOfTheRecords(t *testing.T) {
	all, c := devices(recorded(t)), claimsOf(t, "README.md")
	least, most, of := math.MaxInt, 0, 0
	for _, k := range all.certified() {
		n := k.Certificate.Verdicts()[certificate.Holds]
		least, most, of = min(least, n), max(most, n), len(k.Certificate.Conditions)
	}
	c.says("Of their %d conditions, [%d to %d hold]", of, least, most)
	costs, times := map[string][]float64{}, map[string][]float64{}
	all.besideRivals(func(_, method string, cost, timed *closedloop.Paired) {
		costs[method], times[method] = append(costs[method], float64(cost.RegretPct)), append(times[method], float64(timed.Latency.Running.P50))
	})
	c.says("Without noise it decides in %.1f to %.0f µs in the median, where the warm solver takes %.0f to %.0f µs", slices.Min(times["direct"]), slices.Max(times["direct"]), slices.Min(times["nmpc"]), slices.Max(times["nmpc"]))
	c.says("The map's plans cost %.2f to %.0f %% more than the best known, the solver's %.0f to %.1f %%", slices.Min(costs["direct"]), slices.Max(costs["direct"]), slices.Min(costs["nmpc"]), slices.Max(costs["nmpc"]))
	c.says("A solver that works between two decisions answers sooner than the map")
	for i, v := range times[report.AheadSolver] {
		if !(v < times["direct"][i]) {
			t.Errorf("the solver between decisions answers in %v µs, the map in %v", v, times["direct"][i])
		}
	}
	ahead := times[report.AheadSolver]
	c.says("`nmpc-ahead` has the solver's costs, and answers in %.1f to %.1f µs", slices.Min(ahead), slices.Max(ahead))
	pendulum := all.manyEpisodes("double-pendulum")
	c.says("brings `double-pendulum` from %.0f to %.1f %%", float64(pairedMethod(pendulum, "direct").RegretPct), float64(pairedMethod(pendulum, "refine-64-polish-ahead").RegretPct))
	maps, missed := 0, 0
	for _, name := range all.systems() {
		if of := all.compilation(name); of != nil {
			if maps++; !of.Met {
				missed++
			}
		}
		if p := all.manyEpisodes(name); p == nil {
			t.Errorf("%s: no thousand episodes", name)
		} else {
			plain, exact := pairedMethod(p, "direct"), pairedMethod(p, report.WarmSolver)
			if between := pairedMethod(p, report.AheadSolver); plain.Episodes != 1000 || plain.Safe != exact.Safe || !(math.Abs(float64(between.RegretPct-exact.RegretPct)) < 0.01) {
				t.Errorf("%s: the map keeps the limits in %d of %d episodes, the solver in %d; it costs %v and %v %%", name, plain.Safe, plain.Episodes, exact.Safe, exact.RegretPct, between.RegretPct)
			}
			if name == "cartpole-track" {
				c.says("Both keep every limit but in %d of 1000 episodes of `cartpole-track`", 1000-plain.Safe)
			} else if plain.Safe != 1000 {
				t.Errorf("%s: %d safe", name, plain.Safe)
			}
		}
	}
	c.says("%d of the %d maps missed", missed, maps)
	filtered := []float64{}
	for _, m := range all.printed(below(measured.of)).Benchmarks {
		if v := m.Metrics["decision-p50-µs"]; v > 0 && m.Metrics["map-p50-µs"] > 0 {
			filtered = append(filtered, v)
		}
	}
	c.says("Behind a filter for noisy sensors it takes [%.0f to %.0f µs]", slices.Min(filtered), math.Round(slices.Max(filtered)/10)*10)
	versions := regexp.MustCompile(`(?m)^## ([\d.]+) \((.*)\)$`).FindAllStringSubmatch(raw(t, "CHANGELOG.md"), 2)
	if versions[0][2] != "unreleased" || versions[1][1] != version.Version {
		t.Errorf("the changelog begins with %q, the program is version %s", versions, version.Version)
	}
	c.says("version %s, and unreleased changes of %s", version.Version, versions[0][1])
	c.besides("Go 1.26", "Python 3.10", "Apache-2.0", "costs 1.7 and 1.8 % above the optimum") // aboutTheEllipse, on the page of cases
}

// README's table shows every system's map beside the same rivals, in the same 1000 episodes of one run, and no method that
// works between decisions without the solver that does.
func TestREADMEsMapsStandBesideTheirRivals(t *testing.T) {
	all := devices(recorded(t))
	shown, cold := map[string][]string{}, map[string]float64{}
	all.besideRivals(func(name, method string, cost, timed *closedloop.Paired) {
		shown[name] = append(shown[name], method)
		if want := all.compilation(name).Test.Episodes; cost.Episodes != want && (all.manyEpisodes(name) != nil || cost.Episodes < want/10) {
			t.Errorf("%s, %s: %d episodes", name, method, cost.Episodes)
		}
		if timed == nil {
			t.Errorf("%s, %s: no times", name, method)
		} else if ahead := timed.Prepare != nil; ahead != strings.HasSuffix(method, "-ahead") {
			t.Errorf("%s, %s: works between decisions: %v", name, method, ahead)
		}
		if timed != nil && timed.Latency.Cold != nil {
			cold[name+" "+method] = float64(timed.Latency.Cold.P50)
		}
	})
	claimsOf(t, "README.md").says("its first decision takes at most a tenth of the solver's")
	for _, name := range all.systems() {
		c := all.compilation(name)
		if c == nil {
			continue
		}
		if of := cold[name+" direct"] / cold[name+" nmpc"]; !(of <= 1./10) {
			t.Errorf("%s: the first decision of direct takes %v of the solver's", name, of)
		}
		for _, method := range []string{c.Test.Method, "direct", "nmpc", "nmpc-ahead"} {
			if !slices.Contains(shown[name], method) {
				t.Errorf("%s: no %s among %v", name, method, shown[name])
			}
		}
	}
}

// What the pages of results say beside their tables is what the records say.
func TestTheTextOfResultsIsOfTheRecords(t *testing.T) {
	all, c := devices(recorded(t)), claimsOf(t, casesPage)
	gallery, search := claimsOf(t, galleryPage), claimsOf(t, searchPage)
	says := func(text string) { t.Helper(); c.says("%s", text) }
	bare := 0
	for _, r := range report.RunsOf(all, (*report.Records).PairedCases) {
		for _, p := range projectionPairings(r) {
			bare = max(bare, p.Pairs[1].Safe)
		}
	}
	says(fmt.Sprintf("at most %d of 200 episodes of the integrator are safe", bare))
	if merit := report.FindMethod("merit", devices(all).likePaperOf("opf30")); merit == nil {
		t.Error("merit is not recorded")
	} else {
		says(fmt.Sprintf("the merit order behind the same projection, costs %.2f %% on `opf30`", float64(merit.GapPct)))
	}

	says("The plain map takes about a tenth of its median time in the integrator's cases and a half to all of it in `opf30`'s. The map's slowest decisions are faster")
	for _, r := range report.RunsOf(all, (*report.Records).CaseNames) {
		solver, least, most := "nmpc", 0.08, 0.125
		switch {
		case strings.HasPrefix(r.Name, "opf30"):
			solver, least, most = "mo-opf", 0.48, 1
		case !strings.HasPrefix(r.Name, "integrator-"):
			continue
		}
		for _, evals := range r.Regimes() {
			plain, exact := report.FindMethod("direct", evals), report.FindMethod(solver, evals)
			if plain == nil || exact == nil {
				t.Fatalf("%s: direct %v, %s %v", r.Name, plain, solver, exact)
			}
			if ratio := float64(plain.Latency.P50 / exact.Latency.P50); ratio < least || ratio > most || !(plain.Latency.P99 < exact.Latency.P99) {
				t.Errorf("%s %s: a decision of direct takes %.3f of that of %s, slow ones %v and %v µs", r.Name, plain.Regime, ratio, solver, plain.Latency.P99, exact.Latency.P99)
			}
		}
	}
	for _, r := range report.RunsOf(all, (*report.Records).CaseNames) {
		if r.Name != "opf30-uncertain" {
			continue
		}
		hidden := r.EvaluationsWhere(r.Name, func(e *closedloop.Result) bool { return e.Regime == "envelope-hidden" && e.Noise == 0 })
		kept := func(method string) int {
			e := report.FindMethod(method, hidden)
			if e == nil {
				t.Fatalf("%s under hidden admittances is not recorded", method)
			}
			return e.Decisions - e.Violations
		}
		says(fmt.Sprintf("the plain map (`direct`) keeps %d of %d dispatches within every limit, and Algorithm 2 keeps %d. Exact dispatch keeps %d if its limits are tightened as those of the map's samples are, and %d if they are not. The projected merit order, without learning, keeps %d.",
			kept("direct"), hidden[0].Decisions, kept("navigator"), kept("mo-opf-tightened"), kept("mo-opf"), kept("merit")))
		says("Estimates help exact dispatch without room to its limits most, and do not make it safe.")
		says("The plain map keeps as many dispatches without estimates.")
		gains := map[string]int{}
		for _, p := range r.PairingsWhere(r.Name, report.Estimated) {
			for _, m := range p.Pairs {
				gains[m.Method] = m.Decisions - m.Violations - kept(m.Method)
				if m.Violations == 0 {
					t.Errorf("with estimates %s breaks no limit", m.Method)
				}
			}
		}
		if math.Abs(float64(gains["direct"])) > 5 || gains["mo-opf"] < 500 || gains["mo-opf"] != slices.Max(slices.Collect(maps.Values(gains))) {
			t.Errorf("estimates keep so many dispatches more: %v", gains)
		}
	}

	search.says("do more than 64 roll-outs")
	compared := 0
	for _, r := range report.RunsOf(all, (*report.Records).PairedCases) {
		for _, p := range plainest(r) {
			of := map[string]closedloop.Paired{}
			for _, m := range p.Pairs {
				of[m.Method] = m
			}
			polish, search := of["polish"], of["refine-64"]
			if polish.Method == "" || search.Method == "" {
				continue
			}
			compared++
			if wide := of["refine-512"]; p.Case == "integrator-convex" && polish.RegretPct >= wide.RegretPct ||
				p.Case == "integrator-nonconvex" && p.Map.File != "" && (wide.RegretPct >= min(polish.RegretPct, of["refine-64-polish"].RegretPct) || polish.Regret.Median > wide.Regret.Median) {
				t.Errorf("%s, %d samples: 512 roll-outs cost %v, the solver %v and behind a search %v", p.Case, p.Map.Samples, wide.RegretPct, polish.RegretPct, of["refine-64-polish"].RegretPct)
			}
			if polish.RegretPct >= search.RegretPct {
				t.Errorf("%s, %d samples: %v beside %v", p.Case, p.Map.Samples, polish.RegretPct, search.RegretPct)
			}
		}
	}
	if compared < 4 {
		t.Errorf("%d pairings", compared)
	}

	if compared < 4 {
		t.Fatal("a comparison is not recorded")
	}
	aboutRivals(t, all, gallery)
	aboutEqualTime(t)
	recordedRuns := records{t, recorded(t)}
	aboutTheParts(c, recordedRuns)
	aboutTheEllipse(c, recordedRuns)
	aboutTheGeometry(t, c)
	aboutTheTradeOff(c, recordedRuns)
	c.besides(
		"the cost above the exact chain at w, % ± 95 %", "on 2 % of the scenarios of the integrator's recipe and 5 % of the dispatch's", // lab/scripts/plain.sh
		"With noise of 0.02",                                          // lab/scripts/steps.sh
		"takes 0.46 to 1.2 times the solver's", "is at most 0.0095 %", // TestTheTextOfNetworksIsOfTheirRecords; TestTheLatentStepIsThatOfTheGallery
		"its 95 % interval",
	)
	gallery.before = "## What a map reaches"
	gallery.besides()
	search.besides("a map of 1 % of the data")
}

// aboutRivals holds what the page about maps says beside the table of README: who answers first, who costs least, and what a
// search between decisions leaves to a decision.
func aboutRivals(t *testing.T, all devices, gallery *claims) {
	var ahead, slow, more, begun []float64
	of := map[string]*closedloop.Paired{} // costs, by system and method
	first, cheapest, systems := 0, 0, 0
	for _, name := range all.systems() {
		p := all.pairing(name)
		if all.compilation(name) == nil || p == nil {
			continue
		}
		systems++
		if m := pairedMethod(p, "refine-64-ahead"); m != nil && m.Latency.Running != nil {
			ahead, slow = append(ahead, float64(m.Latency.Running.P50)), append(slow, float64(m.Latency.Running.P99)/1e3)
		}
		if polish, solver := pairedMethod(p, "polish-ahead"), pairedMethod(p, "nmpc-ahead"); polish != nil && polish.RegretN == solver.RegretN {
			more, begun = append(more, float64(polish.RegretPct-solver.RegretPct)), append(begun, float64(polish.Latency.Cold.P50/solver.Latency.Cold.P50))
		}
	}
	slices.Sort(more)
	less := 0
	for _, v := range more {
		if v < 0 {
			less++
		}
	}
	gallery.says("cost less than the warm solver in %d systems of %d, and at most %.2f %% more in %d. In the double pendulum they cost %.1f %% more. Their first decisions take at most %.2f of the solver's",
		less, len(more), more[len(more)-2], len(more)-less-1, more[len(more)-1], slices.Max(begun))
	hvac := all.pairing("hvac")
	gallery.says("in `hvac` %.3f %% for %.2f %%", float64(pairedMethod(hvac, "refine-64-polish-ahead").RegretPct), float64(pairedMethod(hvac, "polish-ahead").RegretPct))
	fastest, least := map[string]float64{}, map[string]float64{}
	all.besideRivals(func(name, method string, cost, timed *closedloop.Paired) {
		of[name+" "+method] = cost
		if timed == nil || timed.Latency.Running == nil {
			t.Errorf("%s, %s: no times", name, method)
			return
		}
		if v := float64(timed.Latency.Running.P50); fastest[name] == 0 || v < fastest[name] {
			fastest[name] = v
		}
		if v, known := least[name]; !known || float64(cost.RegretPct) < v {
			least[name] = float64(cost.RegretPct)
		}
		if method == report.AheadSolver {
			if fastest[name] == float64(timed.Latency.Running.P50) {
				first++
			}
			if least[name] >= float64(cost.RegretPct)-0.001 {
				cheapest++
			}
		}
	})
	gallery.says("`nmpc-ahead` has the lowest median in %d of %d systems, and costs least in %d", first, systems, cheapest)
	pendulum := func(method string) string {
		m := of["double-pendulum "+method]
		return fmt.Sprintf("%s %%", report.Estimate("%.2f", m.RegretPct, m.RegretCI95))
	}
	gallery.says("In 1000 episodes of the double pendulum the search with a polish costs %s, and the warm interior point %s", pendulum("refine-64-polish-ahead"), pendulum("nmpc"))
	gallery.says("A search of 64 roll-outs then leaves [%s µs]", ranging("%.0f", ahead))
	gallery.says("to a decision in the median, and %s ms in one of a hundred", ranging("%.2g", slow))
	gallery.says("the worst costs %.0f %%", float64(of["cstr polish-ahead"].RegretWorst))
}

// A method without a map that is recorded beside the map on other episodes alone, and keeps the limits more often than
// the best plain record without one, is the rival at a glance; once it has a plain record, that one counts.
func TestGlanceShowsAPairedRival(t *testing.T) {
	reached := closedloop.Number(1)
	plain := func(method string, safe float64) closedloop.Result {
		e := testrecords.Run("multiagent-moving", method, "", 1, 2)
		e.Safe, e.GoalReached = closedloop.Number(safe), &reached
		return e
	}
	r := report.New("", known())
	report.Set(r, []closedloop.Result{plain(report.Planner, 1), plain("reference", 0.5)})
	pair := func(method string, safe int, mean float64) closedloop.Paired {
		cost := closedloop.RegretStatistics{N: 4, Mean: closedloop.Number(mean), MeanCI95: closedloop.OpenInterval{0, 1}}
		return closedloop.Paired{Method: method, Episodes: 4, Safe: safe, Cost: cost}
	}
	pairs := []closedloop.Paired{pair(report.Planner, 4, 0), pair(report.Planner+"-no-latent-primitives", 4, 0.5), pair(report.Planner+"-no-latent-descents", 4, 0.25), pair(report.Planner+"-no-latent-descents", 4, 0.125)}
	pairs[3].Candidates = 9000 // by equal time
	report.Set(r, []closedloop.Pairing{{Case: "multiagent-moving", Seed: 31, Pairs: pairs}})
	for _, c := range []struct{ add, want string }{
		{"", "| `planner-no-latent-descents`, 4/4 of seed 31 | +0.25 [+0.00, +1.00] above the map's, n 4 |"},
		{report.Planner + "-no-latent-descents", "| `planner-no-latent-primitives`, 4/4 of seed 31 |"},
	} {
		if c.add != "" {
			report.Put(r, plain(c.add, 0.75))
		}
		if text := report.Tables(report.Glance(devices{r})); !strings.Contains(text, c.want) {
			t.Errorf("%q is not in\n%s", c.want, text)
		}
	}
	report.Of[closedloop.Result](r)[1].Safe = 1
	if text := report.Tables(report.Glance(devices{r})); !strings.Contains(text, "| `reference`, 2/2 |") {
		t.Errorf("what is as safe on the map's own episodes is no rival:\n%s", text)
	}
}

// likePaperOf are a case's evaluations in scenes like the paper's, on its first device.
func (d devices) likePaperOf(name string) []closedloop.Result {
	for _, r := range report.RunsOf(d, (*report.Records).CaseNames) {
		if r.Name == name {
			return r.LikePaper(name)
		}
	}
	return nil
}

// What the page about fronts says of all loops with a goal together is what the record says.
func TestGoalsAreCountedTogether(t *testing.T) {
	sums := map[string]float64{}
	for _, m := range devices(recorded(t)).printed(below("BenchmarkGoal")).Benchmarks {
		for metric, v := range m.Metrics {
			sums[metric] += v
		}
	}
	claimsOf(t, "docs/results/front.md").says("`polish` keeps %.0f bounds of %.0f, `nmpc` %.0f and `direct` %.0f", sums["polish_kept"], sums["states"], sums["nmpc_kept"], sums["direct_kept"])
}
