package report

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/marked"
)

// document is a part of a page that the records write, between two marks.
type document struct {
	page, name string // page is below the root of the repository
	text       func(d devices) string
}

// documents are all of them. Nothing in them is typed.
var documents = []document{
	{"README.md", "at a glance", func(d devices) string { return tables(d.glance()) }},
	{"README.md", "results", devices.summary},
	{"README.md", "other loads", devices.elsewhere},
	{"README.md", "search", devices.searchSummary},
	{"README.md", "candidates at equal time", devices.timeSummary},
	{"README.md", "conditions", devices.conditionSummary},
	{"docs/navigation.md", "quality of the search", devices.quality},
	{"docs/navigation.md", "search on other plants", devices.shifted},
	{"docs/integrator.md", "methods in closed loop", devices.baselines},
	{"docs/opf.md", "dispatch", devices.dispatch},
	{"docs/opf.md", "networks", devices.networks},
	{"docs/multiagent.md", "multiagent-static on unseen scenes", func(d devices) string { return d.goals("multiagent-static") }},
	{"docs/multiagent.md", "multiagent-moving on unseen scenes", func(d devices) string { return d.goals("multiagent-moving") }},
	{"docs/multiagent.md", "multiagent-static by candidates", func(d devices) string { return d.candidates("multiagent-static") }},
	{"docs/multiagent.md", "multiagent-moving by candidates", func(d devices) string { return d.candidates("multiagent-moving") }},
	{"docs/multiagent.md", "candidates at equal time", devices.equalTime},
	{"docs/shooting.md", "beside other solvers", devices.solvers},
	{"docs/compile.md", "rounds of the cart-pole", func(d devices) string { return d.rounds("cartpole") }},
	{"docs/gallery.md", "what maps reach", devices.compiled},
	{"docs/gallery.md", "methods beside maps", devices.besideCompiled},
	{"docs/gallery.md", "maps beside solvers", devices.mapsBeside},
	{"docs/certificates.md", "conditions", devices.conditions},
	{"docs/cuda-kernels.md", "forecasts", devices.forecasts},
	{"docs/reliability.md", "torture", devices.torture},
	{"docs/scaling.md", "measured", devices.scaling},
	{"docs/scaling.md", "extrapolated", devices.extrapolated},
	{paperPage, "figures of the paper", devices.paperRows},
	{paperPage, "differences", devices.differences},
	{paperPage, "ablations", devices.ablations},
}

// marks are the lines around a document's part.
func (d *document) marks() marked.Section {
	return marked.Section{
		Begin: fmt.Sprintf("<!-- %s: written by make docs from bench/results -->", d.name),
		End:   fmt.Sprintf("<!-- end of %s -->", d.name),
	}
}

// WriteDocuments brings the generated parts of the pages below root up to date with the
// records of all devices and returns the paths of the pages that differed; without write
// they stay as they are. A case that was recorded on several devices is shown as on the
// first. A part without a record is an error.
func WriteDocuments(root string, write bool, all ...*Records) (differed []string, err error) {
	for _, doc := range documents {
		text := doc.text(all)
		if text == "" {
			return nil, fmt.Errorf("report: no records for %q in %s", doc.name, doc.page)
		}
		path := filepath.Join(root, doc.page)
		// Lists and tables of Markdown end at an empty line.
		differs, err := doc.marks().Replace(path, "\n"+text+"\n", write)
		if err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		if differs && !slices.Contains(differed, path) {
			differed = append(differed, path)
		}
	}
	return differed, nil
}

// devices are the records of every device.
type devices []*Records

// run is a case as recorded on one device.
type run struct {
	*Records
	name string
}

// runs are the cases that have some of what is listed by names, each on its first device.
func (d devices) runs(names func(r *Records) []string) (runs []run) {
	for _, r := range d {
		for _, name := range names(r) {
			if !slices.ContainsFunc(runs, func(other run) bool { return other.name == name }) {
				runs = append(runs, run{r, name})
			}
		}
	}
	return runs
}

// tables writes tables one below another, without those that have no rows.
func tables(sections ...section) string {
	var b bytes.Buffer
	for _, s := range sections {
		if len(s.rows) < 2 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if s.note != "" {
			fmt.Fprintf(&b, "%s\n\n", s.note)
		}
		s.table(&b)
	}
	return b.String()
}

// milliseconds are the median and the 99th percentile of a latency, ms.
func milliseconds(format string, q *closedloop.Quantiles) string {
	return number(format, float64(q.P50)/1e3) + " / " + number(format, float64(q.P99)/1e3)
}

// baselines is a table of the exact and baseline methods of each case of the integrator.
func (d devices) baselines() string {
	s := section{rows: [][]string{{"case", "method", "safe episodes", "95 % interval", "safe % (paper)", "regret % ± 95 %", "n", "median", "p90", "regret % (paper)", "p50 / p99, ms", "ms (paper)"}}}
	for _, r := range d.runs((*Records).named) {
		for _, e := range r.of(r.name) {
			if group := r.method(r.name, e.Method).Group; !strings.HasPrefix(r.name, "integrator-") || group != domain.GroupExact && group != domain.GroupBaseline && e.Method != highlighted && e.Method != "direct" {
				continue
			}
			p := r.paper(r.name, e.Method)
			s.rows = append(s.rows, slices.Concat(
				[]string{r.name, r.titled(&e), safeOf(&e), fmt.Sprintf("[%.4f, %.4f]", e.CI95.Safe[0], e.CI95.Safe[1]), given(p.Safe), within("%.4f", e.RegretPct, e.RegretSEM, e.RegretN), fmt.Sprint(e.RegretN)},
				spread("%.4f", &e.Regret), []string{regretGiven(p), milliseconds("%.3f", &e.Latency), given(p.Milliseconds)}))
		}
		if evals := r.of(r.name); len(evals) > 0 && strings.HasPrefix(r.name, "integrator-") {
			for _, m := range r.unrecorded(r.name, evals) {
				p := r.paper(r.name, m)
				s.lack([]string{r.name, "`" + m + "`", notRecorded}, map[string]string{"safe % (paper)": given(p.Safe), "regret % (paper)": regretGiven(p), "ms (paper)": given(p.Milliseconds)})
			}
		}
	}
	return tables(s)
}

// dispatch is a table of every method of the cases with regimes, without noise; networks in
// files have tables of their own.
func (d devices) dispatch() string {
	s := section{rows: [][]string{slices.Concat([]string{"case", "loads", "method", "kept", "dispatches", "feasible % (paper)", "gap % ± 95 %", "gap % (paper)", "n"}, besideMain, []string{"fallbacks", "p50 / p99, ms", "(paper)"})}}
	for _, r := range d.runs((*Records).named) {
		if strings.HasPrefix(r.name, networkCase) {
			continue
		}
		for _, e := range r.inRegimes(r.name) {
			if e.Noise > 0 {
				continue
			}
			p := r.inRegime(&e)
			s.rows = append(s.rows, slices.Concat(
				[]string{r.name, e.Regime, r.titled(&e), safeOf(&e), dispatches(&e), given(p.Feasible), within("%.4f", e.GapPct, e.GapSEM, e.RegretN), given(p.Gap), fmt.Sprint(e.RegretN)},
				r.less(&e), []string{fmt.Sprint(e.Fallback), milliseconds("%.3f", &e.Latency), given(p.Milliseconds)}))
		}
		r.lacking(&s)
	}
	return tables(s)
}

// goals is the table of a case whose episodes have goals.
func (d devices) goals(name string) string {
	s := section{rows: [][]string{slices.Concat([]string{"method", "safe", "95 % interval", "safe % (paper)", "collision-free", "(paper)", "gap % ± 95 %", "gap % (paper)", "n"}, besideMain, []string{"mean smallest margin, m", "margin (paper)", "fallbacks", "p50 / p99, ms"})}}
	for _, r := range d.runs((*Records).named) {
		if r.name != name {
			continue
		}
		for _, e := range r.of(name) {
			p := r.paper(r.name, e.Method)
			s.rows = append(s.rows, slices.Concat(
				[]string{r.titled(&e), safeOf(&e), fmt.Sprintf("[%.4f, %.4f]", e.CI95.Safe[0], e.CI95.Safe[1]), given(p.Safe), number("%.1f %%", 100*float64(e.CollisionFree)), given(p.Collision), within("%.2f", e.GapPct, e.GapSEM, e.RegretN), given(p.Gap), fmt.Sprint(e.RegretN)},
				r.less(&e), []string{estimate("%.3f", e.MarginMean, e.MarginSEM), given(p.Margin), fmt.Sprint(e.Fallback), milliseconds("%.1f", &e.Latency)}))
		}
		for _, m := range r.unrecorded(name, r.of(name)) {
			p := r.paper(name, m)
			s.lack([]string{"`" + m + "`", notRecorded}, map[string]string{"safe % (paper)": given(p.Safe), "(paper)": given(p.Collision), "gap % (paper)": given(p.Gap), "margin (paper)": given(p.Margin)})
		}
	}
	return tables(s)
}

// plainest are the undisturbed pairings of a case of the bundled map, and of the one of the
// fewest samples where there is another.
func (r run) plainest() []closedloop.Pairing {
	all := r.paired(r.name, undisturbed)
	if len(all) > 1 {
		return []closedloop.Pairing{all[0], all[len(all)-1]}
	}
	return all
}

// recordedBy says where pairings come from: seed, commit, device, load.
func recordedBy(pairings []closedloop.Pairing) string {
	var seeds, commits, on []string
	var all []*closedloop.Load
	for _, p := range pairings {
		seeds, commits, on = append(seeds, fmt.Sprint(p.Seed)), append(commits, p.Commit), append(on, p.Device)
		all = append(all, p.Load)
	}
	return fmt.Sprintf("Seed %s, commit %s, %s. %s", distinct(seeds), distinct(commits), distinct(on), loads(all))
}

// quality is what candidates, polish and data are worth, in pairs, method by method.
func (d devices) quality() string {
	s := section{rows: [][]string{{"case", "map, samples", "method", "safe", "regret % ± 95 %", "median", "p90", "worst", "less the first's ± 95 %", "n", "p50 / p99, ms"}}}
	var shown []closedloop.Pairing
	for _, r := range d.runs((*Records).knownPaired) {
		for _, p := range r.plainest() {
			shown = append(shown, p)
			for i, m := range p.Pairs {
				s.rows = append(s.rows, pairedRow([]string{p.Case, cmp.Or(p.Map.File, bundledMap) + ", " + fmt.Sprint(p.Map.Samples)}, i, &m))
			}
		}
	}
	s.note = recordedBy(shown)
	return tables(s)
}

// shifted is the same on plants that the maps were not made for.
func (d devices) shifted() string {
	s := section{rows: [][]string{{"case", "plant", "method", "safe", "regret % ± 95 %", "median", "p90", "worst", "less the first's ± 95 %", "n", "p50 / p99, ms"}}}
	var shown []closedloop.Pairing
	for _, r := range d.runs((*Records).knownPaired) {
		for _, p := range r.paired(r.name, func(p *closedloop.Pairing) bool { return p.Shift["ellipse"] == 1.1 || p.Shift["obstacle-speed"] == 1.5 }) {
			shown = append(shown, p)
			for i, m := range p.Pairs {
				s.rows = append(s.rows, pairedRow([]string{p.Case, shiftText(p.Shift)}, i, &m))
			}
		}
	}
	s.note = recordedBy(shown)
	return tables(s)
}

// pairedRow is the i-th method of a pairing, behind what its first cells say.
func pairedRow(first []string, i int, m *closedloop.Paired) []string {
	difference, n := "–", "–"
	if i > 0 {
		difference, n = estimate("%.5f", m.DifferencePct, m.DifferenceCI95), fmt.Sprint(m.Compared)
	}
	return slices.Concat(first,
		[]string{"`" + m.Method + "`", fmt.Sprintf("%d/%d", m.Safe, m.Episodes), estimate("%.5f", m.RegretPct, m.RegretCI95)}, spread("%.5f", &m.Regret),
		[]string{number("%.4f", float64(m.RegretWorst)), difference, n, milliseconds("%.3f", &m.Latency)})
}

// comparedCases are the cases with a comparison by candidates.
func (r *Records) comparedCases() (names []string) {
	for _, c := range r.Comparisons {
		if without, with := r.budgets(&c); len(without) > 0 && len(with) > 0 {
			names = append(names, c.Comparisons[0].Case)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// comparison is the one of a run's case.
func (r run) comparison() Compared {
	at := slices.IndexFunc(r.Comparisons, func(c Compared) bool { return len(c.Comparisons) > 0 && c.Comparisons[0].Case == r.name })
	return r.Comparisons[at]
}

// candidates is the table of a case's comparison by candidates.
func (d devices) candidates(name string) string {
	for _, r := range d.runs((*Records).comparedCases) {
		if r.name == name {
			return tables(r.comparisonSection(r.comparison()))
		}
	}
	return ""
}

// noSlower is the cheapest of the runs without the map whose median decision takes no
// longer than a run's; nil: none does.
func noSlower(run *budgeted, without []budgeted) *budgeted {
	var best *budgeted
	for i := range without {
		if w := &without[i]; w.Latency.P50 <= run.Latency.P50 && (best == nil || w.DifferencePct < best.DifferencePct) {
			best = w
		}
	}
	return best
}

// dominated tells whether a run without the map is as fast as one with it, as cheap and
// keeps as much room.
func dominated(run, other *budgeted) bool {
	return other != nil && other.Latency.P50 <= run.Latency.P50 && other.DifferencePct <= run.DifferencePct && other.MarginMean >= run.MarginMean
}

// equalTime sets beside each run with the map the cheapest one without it that decides no
// slower.
func (d devices) equalTime() string {
	var all []section
	for _, r := range d.runs((*Records).comparedCases) {
		c := r.comparison()
		without, with := r.budgets(&c)
		first := c.Comparisons[0]
		s := section{
			note: fmt.Sprintf("%s, the %d of %d episodes of seed %d in which every run is safe; cost above `%s`'s ± its standard error; commit %s, %s:", first.Case, first.Compared, first.Episodes, first.Seed, first.Method, first.Commit, first.Device),
			rows: [][]string{{"with the map", "cost %", "margin, m", "p50 / p99, ms", "without, no slower", "cost %", "margin, m", "p50 / p99, ms", "without it faster at the median, cheaper and with more room"}},
		}
		cells := func(b *budgeted) []string {
			return []string{fmt.Sprint(b.candidates), estimate("%.2f", b.DifferencePct, b.DifferenceSEM), number("%.3f", float64(b.MarginMean)), milliseconds("%.2f", &b.Latency)}
		}
		for i := range with {
			if with[i].way != defaultMethod {
				continue
			}
			other, beside, worse := noSlower(&with[i], without), []string{"–", "–", "–", "–"}, "no"
			if other != nil {
				beside = cells(other)
			}
			if dominated(&with[i], other) {
				worse = "yes"
			}
			s.rows = append(s.rows, slices.Concat(cells(&with[i]), beside, []string{worse}))
		}
		all = append(all, s)
	}
	return tables(all...)
}

// certified are the certificates of all devices, one of each case.
func (d devices) certified() (all []batchnav.Certified) {
	for _, r := range d {
		for _, c := range r.Certificates {
			if !slices.ContainsFunc(all, func(o batchnav.Certified) bool { return o.Certificate.Case == c.Certificate.Case }) {
				all = append(all, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b batchnav.Certified) int { return cmp.Compare(a.Certificate.Case, b.Certificate.Case) })
	return all
}

// conditions counts the verdicts of every certificate.
func (d devices) conditions() string {
	s := section{rows: [][]string{{"case", "conditions", "hold", "do not hold", "say nothing", "not measured", "broken in closed loop", "commit"}}}
	for _, c := range d.certified() {
		n := c.Certificate.Verdicts()
		var broken []string
		for _, v := range c.Certificate.Broken() {
			broken = append(broken, fmt.Sprintf("%s (%.3g > %.3g)", v.Name, float64(v.Left), float64(v.Right)))
		}
		s.rows = append(s.rows, []string{
			c.Certificate.Case, fmt.Sprint(len(c.Certificate.Conditions)), fmt.Sprint(n[batchnav.Holds]), fmt.Sprint(n[batchnav.DoesNot]),
			fmt.Sprint(n[batchnav.SaysNought]), fmt.Sprint(n[batchnav.Unmeasured]), cmp.Or(strings.Join(broken, "; "), "–"), c.Commit,
		})
	}
	return tables(s)
}
