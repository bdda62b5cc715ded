package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg/draw"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// Compared is the record of `gpc eval compare`: methods on the same episodes.
type Compared struct {
	Comparisons []closedloop.Comparison `json:"comparisons"`
}

// defaultMethod is what a comparison of numbers of candidates is about: it goes without
// its name there.
const defaultMethod = "gpc"

// budgeted is one run of a comparison of numbers of candidates.
type budgeted struct {
	closedloop.Comparison
	candidates int
	way        string // the method's name without its number
}

// budgets are a comparison's runs without the map and with it, fewest candidates
// first, in one way or several; empty where a method in it is not compared by its
// candidates.
func (r *Records) budgets(c *Compared) (without, with []budgeted) {
	for _, row := range c.Comparisons {
		m := r.method(row.Case, row.Method)
		run := budgeted{row, m.Candidates, strings.TrimSuffix(row.Method, fmt.Sprintf("-%d", m.Candidates))}
		switch {
		case m.Candidates == 0:
			return nil, nil
		case m.Needs&domain.NeedsMap != 0:
			with = append(with, run)
		default:
			without = append(without, run)
		}
	}
	for _, runs := range [][]budgeted{without, with} {
		slices.SortStableFunc(runs, func(a, b budgeted) int { return cmp.Compare(a.candidates, b.candidates) })
	}
	return without, with
}

// worth is how many candidates without the map cost as much as a run: linear in
// log N between the numbers run. bound is "<" or ">" where the run is outside them.
func worth(cost float64, without []budgeted) (n float64, bound string) {
	for k := range without {
		at, own := float64(without[k].candidates), float64(without[k].DifferencePct)
		if cost < own {
			continue
		}
		if k == 0 {
			return at, "<"
		}
		before, dearer := float64(without[k-1].candidates), float64(without[k-1].DifferencePct)
		share := (dearer - cost) / (dearer - own)
		return math.Exp(math.Log(before) + share*(math.Log(at)-math.Log(before))), ""
	}
	return float64(without[len(without)-1].candidates), ">"
}

// comparisonSection is the table of a comparison of numbers of candidates.
func (r *Records) comparisonSection(c Compared) section {
	without, with := r.budgets(&c)
	if len(without) == 0 || len(with) == 0 {
		return section{}
	}
	first := c.Comparisons[0]
	s := section{
		title: first.Case + ": what the map contributes",
		note: fmt.Sprintf("The same decisions with fewer candidates, without the learned map and with it, on the same %d episodes of seed %d (validation), commit %s. Cost: mean over the %d episodes in which every run is safe of the difference to %s, ± its standard error. Worth: how many candidates without the map cost as much, linear in log N between the numbers run.",
			first.Episodes, first.Seed, first.Commit, first.Compared, first.Method),
		figures: r.comparisonFigures(c),
		rows:    [][]string{{"candidates", "without: cost %", "safe", "margin", "with: cost %", "safe", "margin", "worth", "factor", "p50 / p99 ms"}},
	}
	cells := func(run budgeted) []string {
		return []string{
			estimate("%.2f", run.DifferencePct, run.DifferenceSEM),
			fmt.Sprintf("%d/%d", run.Safe, run.Episodes), run.MarginMean.Text("%.3f"),
		}
	}
	for _, run := range with {
		same := []string{"–", "–", "–"}
		for _, other := range without {
			if other.candidates == run.candidates {
				same = cells(other)
			}
		}
		equal, bound := worth(float64(run.DifferencePct), without)
		name := fmt.Sprint(run.candidates)
		if run.way != defaultMethod {
			name += " (" + run.way + ")"
		}
		s.rows = append(s.rows, slices.Concat([]string{name}, same, cells(run), []string{
			fmt.Sprintf("%s%.0f", bound, equal), fmt.Sprintf("%s%.1f", bound, equal/float64(run.candidates)),
			number("%.2f", float64(run.Latency.P50)/1e3) + " / " + number("%.2f", float64(run.Latency.P99)/1e3),
		}))
	}
	return s
}

// comparisonFigures is the cost against the number of candidates, without the map and with it.
func (r *Records) comparisonFigures(c Compared) []*Figure {
	without, with := r.budgets(&c)
	if len(without) == 0 || len(with) == 0 {
		return nil
	}
	name := c.Comparisons[0].Case
	f := newFigure(name+"-candidates", name+": what the map contributes", "candidates per decision", "cost above the first, %")
	f.logX()
	ways := []string{without[0].way}
	for _, run := range with {
		if !slices.Contains(ways, run.way) {
			ways = append(ways, run.way)
		}
	}
	for k, way := range ways {
		var xs, ys []float64
		for _, run := range slices.Concat(without, with) {
			if run.way != way {
				continue
			}
			x, y, e := float64(run.candidates), float64(run.DifferencePct), float64(run.DifferenceSEM)
			xs, ys = append(xs, x), append(ys, y)
			f.errorBar(colour(k), x, y-e, y+e)
			f.point("", colour(k), draw.CircleGlyph{}, x, y)
		}
		label := way
		switch {
		case k == 0:
			label = "without the map"
		case way == defaultMethod:
			label = "with the map"
		}
		f.line(label, colour(k), false, xs, ys)
	}
	f.caption = "Cost above that of " + c.Comparisons[0].Method + ", in the mean ± s.e.m. Lower is better; the horizontal axis is what a decision may compute."
	return []*Figure{f}
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
			return []string{fmt.Sprint(b.candidates), estimate("%.2f", b.DifferencePct, b.DifferenceSEM), b.MarginMean.Text("%.3f"), milliseconds("%.2f", &b.Latency)}
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
