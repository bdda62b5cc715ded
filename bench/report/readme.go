package report

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// The generated parts of README and of docs/results/cases.md are of the same records as the full tables, in the rows
// that a first reader asks for. What they leave out stands in docs/results/report.md and docs/results/paper.md.

// brief leaves of a case's runs those for a summary: of methods that say so, and of learned
// policies those that the paper has a row of, beside each the same actor behind the safeguard.
func (r run) brief(evals []closedloop.Result) []closedloop.Result {
	return slices.DeleteFunc(slices.Clone(evals), func(e closedloop.Result) bool {
		m := r.method(r.name, e.Method)
		_, given := r.cases[r.name].Paper[strings.TrimSuffix(e.Method, "+safeguard")]
		return !m.Brief || m.Needs&domain.NeedsWeights != 0 && !given
	})
}

// excess is by how much a run costs more than what it is measured against, % in the mean, with
// its standard error: the gap of a case that has one, otherwise the regret.
func excess(e *closedloop.Result) (mean, sem closedloop.Number) {
	if e.Regime != "" || e.Reached != nil {
		return e.GapPct, e.GapSEM
	}
	return e.RegretPct, e.RegretSEM
}

// decimals of an excess: gaps to a reference that is no optimum have wide intervals.
func decimals(e *closedloop.Result) string {
	if e.Reached != nil {
		return "%.2f"
	}
	return "%.4f"
}

// excessCells are an excess with its interval, its median, 90 % quantile and number of episodes.
func excessCells(verb string, e *closedloop.Result) []string {
	mean, sem := excess(e)
	return slices.Concat([]string{within(verb, mean, sem, e.RegretN)}, spread(verb, &e.Regret), []string{fmt.Sprint(e.RegretN)})
}

// excessText are the same in one cell.
func excessText(verb string, e *closedloop.Result) string {
	c := excessCells(verb, e)
	switch {
	case c[0] == "–":
		return c[0]
	case c[1] == "–":
		return fmt.Sprintf("%s, n %s", c[0], c[3])
	}
	return fmt.Sprintf("%s (%s; %s), n %s", c[0], c[1], c[2], c[3])
}

// keptText is what kept every limit, of all: dispatches where scenes come in regimes, else
// episodes.
func keptText(e *closedloop.Result) string {
	if e.Regime != "" {
		return dispatches(e)
	}
	return safeOf(e)
}

// keptShare is the same as a share.
func keptShare(e *closedloop.Result) float64 {
	if e.Regime != "" {
		return float64(e.Decisions-e.Violations) / float64(max(1, e.Decisions))
	}
	return float64(e.Safe)
}

// rival is the best of the runs without a learned map or policy that do not know the future:
// most within every limit, then the cheapest to the digits that are shown, then the fastest. nil:
// there is none.
func (r run) rival(evals []closedloop.Result) (best *closedloop.Result) {
	cost := func(e *closedloop.Result) float64 {
		mean, _ := excess(e)
		if math.IsNaN(float64(mean)) {
			return math.Inf(1)
		}
		return math.Round(1e4 * float64(mean))
	}
	for i := range evals {
		e, m := &evals[i], r.method(r.name, evals[i].Method)
		if m.Needs != 0 || m.Group == domain.GroupExact {
			continue
		}
		if best == nil || cmp.Or(-cmp.Compare(keptShare(e), keptShare(best)), cmp.Compare(cost(e), cost(best)), cmp.Compare(e.Latency.P50, best.Latency.P50)) < 0 {
			best = e
		}
	}
	return best
}

// pairedRival is a method without a map that is recorded beside the leading one on other episodes alone, with as many
// candidates, and keeps the limits more often there than the best plain record without a map does: the cheapest of
// these. nil: there is none.
func (r run) pairedRival(own, other *closedloop.Result) (in *closedloop.Pairing, best *closedloop.Paired) {
	for _, p := range r.candidatePairings(r.name) {
		if p.Pairs[0].Method != own.Method {
			continue
		}
		for i := 1; i < len(p.Pairs); i++ {
			m := &p.Pairs[i]
			kept := float64(m.Safe) / float64(max(1, m.Episodes))
			switch {
			case r.method(r.name, m.Method).Needs != 0 || r.equal(r.name, &p.Pairs[0], m) != "candidates" || find(m.Method, r.of(r.name)) != nil:
			case other != nil && kept <= keptShare(other) || best != nil && m.Cost.Mean >= best.Cost.Mean:
			default:
				in, best = &p, m
			}
		}
	}
	return in, best
}

// regimes are a case's runs for a summary by kind of scenes, the paper's first; one without a
// word for a case whose scenes are of one kind.
func (r run) regimes() (out [][]closedloop.Result) {
	if plain := r.brief(r.of(r.name)); len(plain) > 0 {
		out = append(out, plain)
	}
	all := slices.DeleteFunc(r.brief(r.inRegimes(r.name)), func(e closedloop.Result) bool { return e.Noise > 0 })
	slices.SortStableFunc(all, func(a, b closedloop.Result) int {
		return cmp.Or(rankOfRegime(a.Regime)-rankOfRegime(b.Regime), cmp.Compare(a.Regime, b.Regime))
	})
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Regime == all[0].Regime {
			n++
		}
		out, all = append(out, all[:n]), all[n:]
	}
	return out
}

// find is a method's run among others; nil: there is none.
func find(method string, evals []closedloop.Result) *closedloop.Result {
	if i := slices.IndexFunc(evals, func(e closedloop.Result) bool { return e.Method == method }); i >= 0 {
		return &evals[i]
	}
	return nil
}

// together are two runs over the episodes that count in the regret of both; other is nil, or either
// has no episodes one by one: as they are.
func together(own, other *closedloop.Result) (_, _ *closedloop.Result) {
	if other == nil {
		return own, nil
	}
	a, b := own.Compared(), other.Compared()
	if a == nil || b == nil {
		return own, other
	}
	both := func(episode int) bool { return a[episode] && b[episode] }
	one, two := own.On(both), other.On(both)
	return &one, &two
}

// sameScenes are runs whose gaps are over the episodes that all of them ran: a gap to a reference
// that is no optimum changes with the scenes. Runs without episodes one by one stay as they are.
func sameScenes(evals []closedloop.Result) (same []closedloop.Result, episodes int) {
	run := map[int]int{}
	for i := range evals {
		if evals[i].Outcomes == nil {
			return evals, 0
		}
		for _, episode := range evals[i].Outcomes.Episode {
			run[episode]++
		}
	}
	all := func(episode int) bool { return run[episode] == len(evals) }
	for episode := range run {
		if all(episode) {
			episodes++
		}
	}
	for i := range evals {
		same = append(same, evals[i].On(all))
	}
	return same, episodes
}

// plain is of a case's runs that of the plain map, or of what searches with it where plans have
// several actions; nil: there is none.
func (r run) plain(evals []closedloop.Result) *closedloop.Result {
	return cmp.Or(find("direct", evals), find(r.leading(r.name), evals))
}

// hardest is a case's row at a glance: the run of its plain map, or of the planner that searches with the map, in the
// kind of scenes where that run costs most, and the best without a map beside it. Either other is on the same episodes,
// or paired is, on those of the pairing in.
type hardest struct {
	run
	own, other *closedloop.Result
	in         *closedloop.Pairing
	paired     *closedloop.Paired
}

// hardestScenes has a row for every case that has a run of its map; few are those of which it has one episode alone.
func hardestScenes(all []*Records) (rows []hardest, few []string) {
	for _, r := range runs(all, (*Records).named) {
		h := hardest{run: r}
		for _, evals := range r.regimes() {
			if evals[0].Reached != nil {
				evals, _ = sameScenes(evals)
			}
			e := r.plain(evals)
			if e == nil {
				continue
			}
			mean, _ := excess(e)
			if h.own != nil {
				if most, _ := excess(h.own); !(mean > most) {
					continue
				}
			}
			h.own, h.other = e, r.rival(evals)
		}
		switch {
		case h.own == nil:
			continue
		case h.own.Episodes < 2:
			few = append(few, r.name)
			continue
		}
		if h.in, h.paired = r.pairedRival(h.own, h.other); h.paired != nil {
			h.other = nil
		}
		h.own, h.other = together(h.own, h.other)
		rows = append(rows, h)
	}
	return rows, few
}

// problem is the case's name, its problem in a few words, and the kind of its scenes.
func (h *hardest) problem() string {
	text := "`" + h.name + "`"
	if about := h.about(h.name); about != "" {
		text += ": " + about
	}
	if h.own.Regime != "" {
		text += ", loads `" + h.own.Regime + "`"
	}
	return text
}

// glance has a row for every case, of the kind of scenes in which its plain map costs
// most, beside the best that needs no map.
func glance(all []*Records) section {
	s := section{
		title: "Every case at a glance",
		note: "Each row shows the kind of scenes in which the map costs most. The map is used by `direct` (encode, decode, project) or, among robots, by the `planner` that searches with it. Beside the map stands the best method that needs no map. " +
			"Behind a method's name stand the safe episodes, or the dispatches within every limit, of all. " +
			"Cost: above the optimum of the same episode or dispatch (among robots: above the paper's optimiser), mean ± 95 % (median; p90) over the n episodes in which both methods of a row, and the optimiser, are safe. Decision: p50 / p99 on one core. " +
			"Where a row names a seed, the method without a map is recorded beside the map on that seed's episodes alone, and its cost is above the map's there, mean [95 %].",
		rows: [][]string{{"case", "with the map", "cost, %", "decision, ms", "best without a map", "cost, %", "decision, ms"}},
	}
	rows, _ := hardestScenes(all)
	for _, h := range rows {
		digits := "%.3f"
		if h.own.Reached != nil {
			digits = decimals(h.own)
		}
		row := []string{h.problem(), "`" + h.own.Method + "`, " + keptText(h.own), excessText(digits, h.own), milliseconds("%.3f", &h.own.Latency), "–", "–", "–"}
		if m := h.paired; m != nil {
			row = append(row[:4], fmt.Sprintf("`%s`, %d/%d of seed %d", m.Method, m.Safe, m.Episodes, h.in.Seed),
				fmt.Sprintf("%s %s above the map's, n %d", m.Cost.Mean.Text("%+.2f"), between("%+.2f", m.Cost.MeanCI95), m.Cost.N), milliseconds("%.3f", &m.Latency))
		} else if h.other != nil {
			row = append(row[:4], "`"+h.other.Method+"`, "+keptText(h.other), excessText(digits, h.other), milliseconds("%.3f", &h.other.Latency))
		}
		s.rows = append(s.rows, row)
	}
	return s
}

// briefGlance is README's form of the glance: means alone, in two digits.
func (d devices) briefGlance() string {
	s := section{rows: [][]string{{"case", "with the map: safe", "extra cost, % (n)", "p50 / p99, ms", "best without a map: safe", "extra cost, % (n)", "p50 / p99, ms"}}}
	cost := func(e *closedloop.Result) string {
		mean, sem := excess(e)
		return fmt.Sprintf("%s (%d)", plainPercent(mean, halfWidth(sem, e.RegretN), e.RegretN), e.RegretN)
	}
	rows, _ := hardestScenes(d)
	for _, h := range rows {
		row := []string{h.problem(), "`" + h.own.Method + "`, " + keptText(h.own), cost(h.own), plainMilliseconds(&h.own.Latency), "–", "–", "–"}
		if m := h.paired; m != nil {
			row = append(row[:4], fmt.Sprintf("`%s`, %d/%d", m.Method, m.Safe, m.Episodes),
				fmt.Sprintf("%s above the map's (%d)", m.Cost.Mean.Text("%+.2f"), m.Cost.N), plainMilliseconds(&m.Latency))
		} else if h.other != nil {
			row = append(row[:4], "`"+h.other.Method+"`, "+keptText(h.other), cost(h.other), plainMilliseconds(&h.other.Latency))
		}
		s.rows = append(s.rows, row)
	}
	return tables(s)
}

// about is a case's problem in a few words; "" for one that is not known.
func (r *Records) about(name string) string {
	if p := r.cases[name].Definition.Problem; p != nil {
		return p.Spec().Description
	}
	return ""
}

// summary is a table for every case of its brief methods, beside the paper's figures, with what
// the paper has and the records lack named below it.
func (d devices) summary() string {
	var b bytes.Buffer
	for _, r := range runs(d, (*Records).named) {
		evals := slices.Concat(r.of(r.name), r.likePaper(r.name))
		shown := r.brief(evals)
		if len(shown) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		summarize(r, &b, shown)
		if absent := r.absent(r.name, r.unrecorded(r.name, evals)); len(absent) > 0 {
			fmt.Fprintf(&b, "\nIn the paper and not recorded here: %s.\n", strings.Join(absent, ", "))
		}
	}
	return b.String()
}

// summarize writes the table of some runs of one kind of scenes.
func summarize(r run, b *bytes.Buffer, shown []closedloop.Result) {
	first := &shown[0]
	goals := first.Reached != nil
	scenes := 0
	if goals {
		shown, scenes = sameScenes(shown)
		first = &shown[0]
	}
	head := []string{"method", "safe episodes, 95 %"}
	switch {
	case goals:
		head = append(head, "smallest margin, m ± 95 %", "cost above the reference's, % ± 95 %")
	case first.Regime != "":
		head = append(head[:1], "dispatches within every limit", "cost above the exact chain, % ± 95 %")
	default:
		head = append(head, "cost above the optimum, % ± 95 %")
	}
	s := section{rows: [][]string{append(head, "median", "p90", "n", "decision p50 / p99, ms", "in the paper")}}
	measured, spreads := false, false
	for i := range shown {
		e := &shown[i]
		row := []string{r.titled(e), keptText(e)}
		if e.Regime == "" {
			row[1] += fmt.Sprintf(", [%.1f, %.1f] %%", 100*e.CI95.Safe[0], 100*e.CI95.Safe[1])
		}
		if goals {
			row = append(row, within("%.3f", e.MarginMean, e.MarginSEM, e.Episodes))
		}
		s.rows = append(s.rows, slices.Concat(row, excessCells(decimals(e), e), []string{milliseconds("%.3f", &e.Latency), inPaper(r.paper(r.name, e.Method))}))
		measured, spreads = measured || e.RegretN > 0, spreads || e.Regret.N > 0
	}
	about := r.about(r.name)
	if about != "" {
		about = ": " + about
	}
	if first.Regime != "" {
		about += ", loads `" + first.Regime + "`"
	}
	fmt.Fprintf(b, "**`%s`**%s. Seed %d, %s.", r.name, about, first.Seed, first.Device)
	if scenes > 0 {
		fmt.Fprintf(b, " Costs are over the %d episodes that all methods ran.", scenes)
	}
	if measured && !spreads {
		b.WriteString(" These records hold no medians.")
	}
	b.WriteString("\n\n")
	s.rows = filled(s.rows)
	s.table(b)
}

// inPaper is what the paper gives for a method; a dash for nothing.
func inPaper(p domain.PaperRow) string {
	var parts []string
	add := func(before, text, after string) {
		if text != "–" {
			parts = append(parts, before+text+after)
		}
	}
	add("safe ", given(p.SafeEpisodes()), " %")
	add("feasible ", given(p.Feasible), " %")
	add("collision-free ", given(p.Collision), " %")
	add("", regretGiven(p), " %")
	add("", given(p.Gap), " %")
	add("margin ", given(p.Margin), " m")
	add("", given(p.Milliseconds), " ms")
	return cmp.Or(strings.Join(parts, "; "), "–")
}

// elsewhere sets the whole method, the plain map and the best without a map side by side in
// kinds of scenes that the paper has not.
func (d devices) elsewhere() string {
	s := section{rows: [][]string{{"case", "loads", "draws left out", "`" + algorithmTwo + "`", "`direct`", "best without a map"}}}
	cell := func(e *closedloop.Result) string {
		if e == nil {
			return "–"
		}
		return fmt.Sprintf("%s; %s; %s", keptText(e), excessText(decimals(e), e), milliseconds("%.3f", &e.Latency))
	}
	for _, r := range runs(d, (*Records).named) {
		for _, evals := range r.regimes() {
			if evals[0].Regime == "" || evals[0].Regime == paperRegime {
				continue
			}
			other, name := r.rival(evals), ""
			if other != nil {
				name = "`" + other.Method + "` "
			}
			s.rows = append(s.rows, []string{"`" + r.name + "`", "`" + evals[0].Regime + "`", excluded(&evals[0]), cell(find(algorithmTwo, evals)), cell(find("direct", evals)), name + cell(other)})
		}
	}
	return tables(s)
}
