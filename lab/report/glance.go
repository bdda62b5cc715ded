package report

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/lab/published"
)

// The generated parts of README and of docs/results/cases.md are of the same records as the full tables, in the rows
// that a first reader asks for. What they leave out stands in docs/results/report.md and docs/results/paper.md.

// Brief leaves of a case's runs those for a summary: of methods that say so, and of learned
// policies those that the paper has a row of, beside each the same actor behind the safeguard.
func (r Run) Brief(evals []closedloop.Result) []closedloop.Result {
	return slices.DeleteFunc(slices.Clone(evals), func(e closedloop.Result) bool {
		m := r.Method(r.Name, e.Method)
		_, given := r.Cases[r.Name].Paper[strings.TrimSuffix(e.Method, "+safeguard")]
		return !m.Brief || m.Needs&domain.NeedsWeights != 0 && !given
	})
}

// Excess is by how much a run costs more than what it is measured against, % in the mean, with
// its standard error: the gap of a case that has one, otherwise the regret.
func Excess(e *closedloop.Result) (mean, sem closedloop.Number) {
	if e.Regime != "" || e.GoalReached != nil {
		return e.GapPct, e.GapSEM
	}
	return e.RegretPct, e.RegretSEM
}

// Decimals of an excess: gaps to a reference that is no optimum have wide intervals.
func Decimals(e *closedloop.Result) string {
	if e.GoalReached != nil {
		return "%.2f"
	}
	return "%.4f"
}

// ExcessCells are an excess with its interval, its median, 90 % quantile and number of episodes.
func ExcessCells(verb string, e *closedloop.Result) []string {
	mean, sem := Excess(e)
	return slices.Concat([]string{Within(verb, mean, sem, e.RegretN)}, Spread(verb, &e.Regret), []string{fmt.Sprint(e.RegretN)})
}

// ExcessText are the same in one cell.
func ExcessText(verb string, e *closedloop.Result) string {
	c := ExcessCells(verb, e)
	switch {
	case c[0] == "–":
		return c[0]
	case c[1] == "–":
		return fmt.Sprintf("%s, n %s", c[0], c[3])
	}
	return fmt.Sprintf("%s (%s; %s), n %s", c[0], c[1], c[2], c[3])
}

// SafeText is what kept every limit, of all: dispatches where scenes come in regimes, else
// episodes.
func SafeText(e *closedloop.Result) string {
	if e.Regime != "" {
		return Dispatches(e)
	}
	return SafeOf(e)
}

// keptShare is the same as a share.
func keptShare(e *closedloop.Result) float64 {
	if e.Regime != "" {
		return float64(e.Decisions-e.Violations) / float64(max(1, e.Decisions))
	}
	return float64(e.Safe)
}

// Rival is the best of the runs without a learned map or policy that do not know the future:
// most within every limit, then the cheapest to the digits that are shown, then the fastest. nil:
// there is none.
func (r Run) Rival(evals []closedloop.Result) (best *closedloop.Result) {
	cost := func(e *closedloop.Result) float64 {
		mean, _ := Excess(e)
		if math.IsNaN(float64(mean)) {
			return math.Inf(1)
		}
		return math.Round(1e4 * float64(mean))
	}
	for i := range evals {
		e, m := &evals[i], r.Method(r.Name, evals[i].Method)
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
func (r Run) pairedRival(own, other *closedloop.Result) (in *closedloop.Pairing, best *closedloop.Paired) {
	for _, p := range r.CandidatePairings() {
		if p.Pairs[0].Method != own.Method {
			continue
		}
		for i := 1; i < len(p.Pairs); i++ {
			m := &p.Pairs[i]
			kept := float64(m.Safe) / float64(max(1, m.Episodes))
			switch {
			case r.Method(r.Name, m.Method).Needs != 0 || r.EqualIn(r.Name, &p.Pairs[0], m) != "candidates" || FindMethod(m.Method, r.Plain(r.Name)) != nil:
			case other != nil && kept <= keptShare(other) || best != nil && m.Cost.Mean >= best.Cost.Mean:
			default:
				in, best = &p, m
			}
		}
	}
	return in, best
}

// Regimes are a case's runs for a summary by kind of scenes, the paper's first; one without a
// word for a case whose scenes are of one kind.
func (r Run) Regimes() (out [][]closedloop.Result) {
	if plain := r.Brief(r.Plain(r.Name)); len(plain) > 0 {
		out = append(out, plain)
	}
	all := slices.DeleteFunc(r.Brief(r.InRegimes(r.Name)), func(e closedloop.Result) bool { return e.Noise > 0 })
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

// FindMethod is a method's run among others; nil: there is none.
func FindMethod(method string, evals []closedloop.Result) *closedloop.Result {
	if i := slices.IndexFunc(evals, func(e closedloop.Result) bool { return e.Method == method }); i >= 0 {
		return &evals[i]
	}
	return nil
}

// Together are two runs over the episodes that count in the regret of both; other is nil, or either
// has no episodes one by one: as they are.
func Together(own, other *closedloop.Result) (_, _ *closedloop.Result) {
	if other == nil {
		return own, nil
	}
	a, b := compared(own), compared(other)
	if a == nil || b == nil {
		return own, other
	}
	both := func(episode int) bool { return a[episode] && b[episode] }
	one, two := overEpisodes(own, both), overEpisodes(other, both)
	return &one, &two
}

// SameScenes are runs whose gaps are over the episodes that all of them ran: a gap to a reference
// that is no optimum changes with the scenes. Runs without episodes one by one stay as they are.
func SameScenes(evals []closedloop.Result) (same []closedloop.Result, episodes int) {
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
		same = append(same, overEpisodes(&evals[i], all))
	}
	return same, episodes
}

// plain is of a case's runs that of the plain map, or of what searches with it where plans have
// several actions; nil: there is none.
func (r Run) plain(evals []closedloop.Result) *closedloop.Result {
	return cmp.Or(FindMethod("direct", evals), FindMethod(r.leading(r.Name), evals))
}

// hardest is a case's row at a glance: the run of its plain map, or of the planner that searches with the map, in the
// kind of scenes where that run costs most, and the best without a map beside it. Either other is on the same episodes,
// or paired is, on those of the pairing in.
type hardest struct {
	Run
	Own, Other *closedloop.Result
	in         *closedloop.Pairing
	Paired     *closedloop.Paired
}

// HardestScenes has a row for every case that has a run of its map; few are those of which it has one episode alone.
func HardestScenes(all []*Records) (rows []hardest, few []string) {
	for _, r := range RunsOf(all, (*Records).CaseNames) {
		h := hardest{Run: r}
		for _, evals := range r.Regimes() {
			if evals[0].GoalReached != nil {
				evals, _ = SameScenes(evals)
			}
			e := r.plain(evals)
			if e == nil {
				continue
			}
			mean, _ := Excess(e)
			if h.Own != nil {
				if most, _ := Excess(h.Own); !(mean > most) {
					continue
				}
			}
			h.Own, h.Other = e, r.Rival(evals)
		}
		switch {
		case h.Own == nil:
			continue
		case h.Own.Episodes < 2:
			few = append(few, r.Name)
			continue
		}
		if h.in, h.Paired = r.pairedRival(h.Own, h.Other); h.Paired != nil {
			h.Other = nil
		}
		h.Own, h.Other = Together(h.Own, h.Other)
		rows = append(rows, h)
	}
	return rows, few
}

// Problem is the case's name, its problem in a few words, and the kind of its scenes.
func (h *hardest) Problem() string {
	text := "`" + h.Name + "`"
	if about := h.About(h.Name); about != "" {
		text += ": " + about
	}
	if h.Own.Regime != "" {
		text += ", loads `" + h.Own.Regime + "`"
	}
	return text
}

// Glance has a row for every case, of the kind of scenes in which its plain map costs
// most, beside the best that needs no map.
func Glance(all []*Records) Section {
	s := Section{
		title: "Every case at a glance",
		Note: "Each row shows the kind of scenes in which the map costs most. The map is used by `direct` (encode, decode, project) or, among robots, by the `planner` that searches with it. Beside the map stands the best method that needs no map. " +
			"Behind a method's name stand the safe episodes, or the dispatches within every limit, of all. " +
			"Cost: above the optimum of the same episode or dispatch (among robots: above the paper's optimiser), mean ± 95 % (median; p90) over the n episodes in which both methods of a row, and the optimiser, are safe. Decision: p50 / p99 on one core, and the median of an episode's first in brackets. " +
			"Where a row names a seed, the method without a map is recorded beside the map on that seed's episodes alone, and its cost is above the map's there, mean [95 %].",
		Rows: [][]string{{"case", "with the map", "cost, %", "decision, ms", "best without a map", "cost, %", "decision, ms"}},
	}
	rows, _ := HardestScenes(all)
	for _, h := range rows {
		digits := "%.3f"
		if h.Own.GoalReached != nil {
			digits = Decimals(h.Own)
		}
		row := []string{h.Problem(), "`" + h.Own.Method + "`, " + SafeText(h.Own), ExcessText(digits, h.Own), Times("%.3f", &h.Own.Latency), "–", "–", "–"}
		if m := h.Paired; m != nil {
			row = append(row[:4], fmt.Sprintf("`%s`, %d/%d of seed %d", m.Method, m.Safe, m.Episodes, h.in.Seed),
				fmt.Sprintf("%s %s above the map's, n %d", m.Cost.Mean.Text("%+.2f"), Interval("%+.2f", m.Cost.MeanCI95), m.Cost.N), Times("%.3f", &m.Latency))
		} else if h.Other != nil {
			row = append(row[:4], "`"+h.Other.Method+"`, "+SafeText(h.Other), ExcessText(digits, h.Other), Times("%.3f", &h.Other.Latency))
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

// About is a case's problem in a few words; "" for one that is not known.
func (r *Records) About(name string) string {
	if p := r.Cases[name].Definition.Problem; p != nil {
		return p.Spec().Description
	}
	return ""
}

// InPaper is what the paper gives for a method; a dash for nothing.
func InPaper(p published.Row) string {
	var parts []string
	add := func(before, text, after string) {
		if text != "–" {
			parts = append(parts, before+text+after)
		}
	}
	add("safe ", Given(p.SafeEpisodes()), " %")
	add("feasible ", Given(p.Feasible), " %")
	add("collision-free ", Given(p.Collision), " %")
	add("", regretGiven(p), " %")
	add("", Given(p.Gap), " %")
	add("margin ", Given(p.Margin), " m")
	add("", Given(p.Milliseconds), " ms")
	return cmp.Or(strings.Join(parts, "; "), "–")
}

// lead is the first screen of a report: one sentence, one picture in motion, one table.
type lead struct {
	headline string
	motion   *animation
	rows     [][]string
	note     string // how the rows are to be read, and what is not among them
}

// lead is of the cases' maps, each in the scenes that cost it most; without runs of them there is the picture alone.
func (r *Records) lead() (*lead, error) {
	l := &lead{headline: "gpc: recorded results, " + r.Device}
	rows, few := HardestScenes([]*Records{r})
	if len(few) > 0 {
		l.note = " Left out, as one episode says little: " + strings.Join(few, ", ") + "."
	}
	named := map[string]bool{}
	for _, h := range rows {
		named[h.Name] = true
	}
	t := r.mostMoving(named)
	if t != nil {
		var err error
		if l.motion, err = r.animation(t); err != nil {
			return nil, err
		}
	}
	if len(rows) == 0 {
		return l, nil
	}
	kept, most, dearest := 0, math.Inf(-1), ""
	l.rows = [][]string{{"case", "safe", "extra cost, %", "decision, ms"}}
	for _, h := range rows {
		mean, sem := Excess(h.Own)
		if keptShare(h.Own) == 1 {
			kept++
		}
		extra := PlainPercent(mean, HalfWidth(sem, h.Own.RegretN), h.Own.RegretN)
		if h.Own.RegretN > 1 && float64(mean) > most {
			most, dearest = float64(mean), extra
		}
		l.rows = append(l.rows, []string{"`" + h.Name + "`", SafeText(h.Own), extra, PlainTimes(&h.Own.Latency)})
		if h.Own.RegretN < 2 {
			l.rows[len(l.rows)-1][2] = "–"
		}
	}
	cases := fmt.Sprintf("%d of %d cases", kept, len(rows))
	if kept == len(rows) {
		cases = map[bool]string{true: "the case", false: fmt.Sprintf("all %d cases", kept)}[kept == 1]
	}
	if len(few) > 0 {
		cases += " of several episodes"
	}
	l.headline = fmt.Sprintf("With the map every limit was kept in %s", cases)
	if dearest != "" {
		l.headline += fmt.Sprintf(", at a mean extra cost of at most %s\u00a0%%", dearest)
	}
	l.headline += "."
	l.note = "Each row is of the scenes in which the map costs most. Safe: episodes, or dispatches of a network, in which no limit was broken and every goal reached, of all. " +
		"Extra cost: the mean above the optimum of the same episode, among robots above the paper's optimiser; with its 95 % interval where fewer than 30 episodes count. " +
		"Decision: half of them take less than the first number, 99 of 100 less than the second." + l.note
	return l, nil
}

// mostMoving is the trace of a leading method in whose pictures most bodies move, of the named cases where they have one; else the
// first; nil: there is none.
func (r *Records) mostMoving(named map[string]bool) *Trace {
	var best *Trace
	most := -1
	for i := range r.Traces {
		t := &r.Traces[i]
		if t.Header.Method != r.leading(t.Header.Case) || len(t.Episodes) == 0 {
			continue
		}
		moving := 0
		if named[t.Header.Case] {
			moving = 1 << 20 // above every number of bodies
		}
		if m, err := r.motion(t, &t.Episodes[0]); m != nil && err == nil {
			last := m.Shapes[len(m.Shapes)-1]
			for k, s := range m.Shapes[0] {
				if s.Role != domain.Ground && !slices.Equal(s.Path, last[k].Path) {
					moving++
				}
			}
		}
		if moving > most {
			best, most = t, moving
		}
	}
	if best == nil && len(r.Traces) > 0 {
		best = &r.Traces[0]
	}
	return best
}

func (p *sheet) lead(l *lead) {
	w := &p.html
	fmt.Fprintf(w, "<h1>%s</h1>\n<div class=\"lead\">\n", html.EscapeString(l.headline))
	if a := l.motion; a != nil {
		p.enlargeable(a.title, a.caption, a.svg)
	}
	if l.rows != nil {
		var table bytes.Buffer
		htmlRows(&table, l.rows)
		fmt.Fprintf(w, "<table class=\"glance\">\n%s</table>\n", table.String())
	}
	fmt.Fprint(w, "</div>\n")
	if l.note != "" {
		fmt.Fprintf(w, "<details><summary>How to read this table</summary><p>%s</p></details>\n", html.EscapeString(strings.TrimSpace(l.note)))
	}
}

// Given is a figure of the paper's; a dash where it has none.
func Given(v float64) string { return Number("%g", v) }

// regretGiven is a regret of the paper's with its standard error.
func regretGiven(p published.Row) string {
	if math.IsNaN(p.Regret) {
		return "–"
	}
	if math.IsNaN(p.RegretSEM) {
		return Given(p.Regret)
	}
	return fmt.Sprintf("%g ± %g s.e.m.", p.Regret, p.RegretSEM)
}

// paperRowOf is the paper's row of an evaluation of scenes like the paper's; of others it has
// none.
func (r *Records) paperRowOf(e *closedloop.Result) published.Row {
	if e.Regime != PaperRegime {
		return published.None()
	}
	return r.Paper(e.Case, e.Method)
}

// Absent are methods of the paper's in a case, with the paper's figures of them.
func (r *Records) Absent(name string, methods []string) (words []string) {
	for _, m := range methods {
		words = append(words, fmt.Sprintf("`%s` (%s)", m, InPaper(r.Paper(name, m))))
	}
	return words
}

// LikePaper are the evaluations of a case in scenes like the paper's, without noise.
func (r *Records) LikePaper(name string) []closedloop.Result {
	return r.EvaluationsWhere(name, func(e *closedloop.Result) bool { return e.Noise == 0 && e.Regime == PaperRegime })
}

// lackedLikePaper are the methods that the paper has and none of those is of; none where there
// are no such evaluations.
func (r *Records) lackedLikePaper(name string) []string {
	if evals := r.LikePaper(name); len(evals) > 0 {
		return r.Unrecorded(name, evals)
	}
	return nil
}
