package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg/draw"

	"github.com/gpc-engine/gpc/closedloop"
)

// Compared is the record of `gpc eval compare`: methods on the same episodes.
type Compared struct {
	Comparisons []closedloop.Comparison `json:"comparisons"`
}

// paperCandidates is the number of candidates of a method that has none in its name.
const paperCandidates = 4096

// budget is the number of candidates of a method of the refinement, and whether it
// asks the learned map; ok is false for another method.
func budget(method string) (candidates int, guided, ok bool) {
	rest, without := strings.CutPrefix(method, "gpc-no-latent")
	if !without {
		if rest, ok = strings.CutPrefix(method, "gpc"); !ok {
			return 0, false, false
		}
	}
	if rest == "" {
		return paperCandidates, !without, true
	}
	n, err := strconv.Atoi(strings.TrimPrefix(rest, "-"))
	return n, !without, err == nil && n > 0
}

// budgets are a comparison's runs without the map and with it, fewest candidates
// first; empty where the comparison is not about numbers of candidates.
func (c *Compared) budgets() (without, with []closedloop.Comparison) {
	for _, row := range c.Comparisons {
		_, guided, ok := budget(row.Method)
		switch {
		case !ok:
			return nil, nil
		case guided:
			with = append(with, row)
		default:
			without = append(without, row)
		}
	}
	for _, rows := range [][]closedloop.Comparison{without, with} {
		slices.SortFunc(rows, func(a, b closedloop.Comparison) int {
			n, _, _ := budget(a.Method)
			m, _, _ := budget(b.Method)
			return cmp.Compare(n, m)
		})
	}
	return without, with
}

// worth is how many candidates without the map cost as much as a run: linear in
// log N between the numbers run. bound is "<" or ">" where the run is outside them.
func worth(cost float64, without []closedloop.Comparison) (n float64, bound string) {
	for k := range without {
		at, _, _ := budget(without[k].Method)
		own := float64(without[k].DifferencePct)
		if cost < own {
			continue
		}
		if k == 0 {
			return float64(at), "<"
		}
		before, _, _ := budget(without[k-1].Method)
		dearer := float64(without[k-1].DifferencePct)
		share := (dearer - cost) / (dearer - own)
		return math.Exp(math.Log(float64(before)) + share*(math.Log(float64(at))-math.Log(float64(before)))), ""
	}
	last, _, _ := budget(without[len(without)-1].Method)
	return float64(last), ">"
}

// sections is the table of a comparison of numbers of candidates.
func (c *Compared) sections() []section {
	without, with := c.budgets()
	if len(without) == 0 || len(with) == 0 {
		return nil
	}
	first := c.Comparisons[0]
	s := section{
		title: first.Case + ": what the map contributes",
		note: fmt.Sprintf("The same decisions with fewer candidates, without the learned map and with it, on the same %d episodes of seed %d (validation), commit %s. Cost: mean over the %d episodes in which every run is safe of the difference to %s, ± its standard error. Worth: how many candidates without the map cost as much, linear in log N between the numbers run.",
			first.Episodes, first.Seed, first.Commit, first.Compared, first.Method),
		rows: [][]string{{"candidates", "without: cost %", "safe", "margin", "with: cost %", "safe", "margin", "worth", "factor", "p50 / p99 ms"}},
	}
	cells := func(row closedloop.Comparison) []string {
		return []string{
			estimate("%.2f", row.DifferencePct, row.DifferenceSEM),
			fmt.Sprintf("%d/%d", row.Safe, row.Episodes), number("%.3f", float64(row.MarginMean)),
		}
	}
	for _, row := range with {
		n, _, _ := budget(row.Method)
		same := []string{"–", "–", "–"}
		for _, other := range without {
			if m, _, _ := budget(other.Method); m == n {
				same = cells(other)
			}
		}
		equal, bound := worth(float64(row.DifferencePct), without)
		s.rows = append(s.rows, slices.Concat([]string{fmt.Sprint(n)}, same, cells(row), []string{
			fmt.Sprintf("%s%.0f", bound, equal), fmt.Sprintf("%s%.1f", bound, equal/float64(n)),
			number("%.2f", float64(row.Latency.P50)/1e3) + " / " + number("%.2f", float64(row.Latency.P99)/1e3),
		}))
	}
	return []section{s}
}

// figure is the cost against the number of candidates, without the map and with it.
func (c *Compared) figure() (*Figure, error) {
	without, with := c.budgets()
	if len(without) == 0 || len(with) == 0 {
		return nil, nil
	}
	name := c.Comparisons[0].Case
	f := newFigure(name+"-candidates", name+": what the map contributes", "candidates per decision", "cost above 4096 without the map, % (± s.e.m.)")
	f.logX()
	for k, rows := range [][]closedloop.Comparison{without, with} {
		var xs, ys []float64
		for _, row := range rows {
			n, _, _ := budget(row.Method)
			x, y, e := float64(n), float64(row.DifferencePct), float64(row.DifferenceSEM)
			xs, ys = append(xs, x), append(ys, y)
			if err := f.errorBar(colour(k), x, y-e, y+e); err != nil {
				return nil, err
			}
			if err := f.point("", colour(k), draw.CircleGlyph{}, x, y); err != nil {
				return nil, err
			}
		}
		if err := f.line([]string{"without the map", "with the map"}[k], colour(k), false, xs, ys); err != nil {
			return nil, err
		}
	}
	return f, nil
}
