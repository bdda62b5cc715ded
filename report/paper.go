package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// paperPage is the page of the tables beside the paper's.
const paperPage = "docs/paper.md"

// figureBeside is one figure of a method beside the paper's.
type figureBeside struct {
	what        string  // with its unit
	word        string  // of its paragraph's heading
	ours, paper float64 // NaN: not recorded, or not given
	text        string  // ours, with what is known of its error
}

// figuresBeside are a method's figures that the paper gives; e is nil for one without a
// record. Intervals are 95 %.
func figuresBeside(e *closedloop.Result, p domain.PaperRow) (out []figureBeside) {
	add := func(what, word string, paper float64, ours func(e *closedloop.Result) float64, text func(e *closedloop.Result, v float64) string) {
		if math.IsNaN(paper) {
			return
		}
		b := figureBeside{what: what, word: word, ours: math.NaN(), paper: paper, text: "–"}
		if e != nil {
			b.ours = ours(e)
			b.text = text(e, b.ours)
		}
		out = append(out, b)
	}
	share := func(e *closedloop.Result, v float64) string { return number("%.4g", v) }
	add("safe, %", "safe", p.Safe, func(e *closedloop.Result) float64 { return 100 * float64(e.Safe) },
		func(e *closedloop.Result, v float64) string {
			return fmt.Sprintf("%s [%.4g, %.4g]", number("%.4g", v), 100*e.CI95.Safe[0], 100*e.CI95.Safe[1])
		})
	add("collision-free, %", "collision-free", p.Collision, func(e *closedloop.Result) float64 { return 100 * float64(e.CollisionFree) }, share)
	add("feasible dispatches, %", "feasible", p.Feasible, func(e *closedloop.Result) float64 { return 100 * float64(e.Feasible) }, share)
	add("regret, %", "regret", p.Regret, func(e *closedloop.Result) float64 { return float64(e.RegretPct) },
		func(e *closedloop.Result, v float64) string {
			return within("%.4f", e.RegretPct, e.RegretSEM, e.RegretN)
		})
	add("gap, %", "gap", p.Gap, func(e *closedloop.Result) float64 { return float64(e.GapPct) },
		func(e *closedloop.Result, v float64) string { return within("%.4f", e.GapPct, e.GapSEM, e.RegretN) })
	add("mean J_total", "total", p.Total, func(e *closedloop.Result) float64 {
		return float64(e.CostMean) * float64(e.Episodes) / float64(e.Decisions)
	}, func(e *closedloop.Result, v float64) string { return number("%.2f", v) })
	add("mean margin, m", "margin", p.Margin, func(e *closedloop.Result) float64 { return float64(e.MarginMean) },
		func(e *closedloop.Result, v float64) string { return estimate("%.3f", e.MarginMean, e.MarginSEM) })
	add("decision, ms", "time", p.Milliseconds, func(e *closedloop.Result) float64 { return float64(e.Latency.P50) / 1e3 }, share)
	return out
}

// besidePaper visits the figures of every method that the paper has a row of: of the plain
// episodes, or of those in the paper's regime.
func (d devices) besidePaper(visit func(r run, method string, e *closedloop.Result, figures []figureBeside)) {
	for _, r := range d.runs((*Records).named) {
		evals := slices.Concat(r.of(r.name), r.likePaper(r.name))
		of := map[string]*closedloop.Result{}
		order := r.unrecorded(r.name, nil)
		for i := range evals {
			of[evals[i].Method] = &evals[i]
		}
		for _, method := range order {
			visit(r, method, of[method], figuresBeside(of[method], r.paper(r.name, method)))
		}
	}
}

// paperRows are all of the paper's figures with ours.
func (d devices) paperRows() string {
	s := section{rows: [][]string{{"case", "method", "episodes", "figure", "ours", "paper"}}}
	d.besidePaper(func(r run, method string, e *closedloop.Result, figures []figureBeside) {
		title, episodes := "`"+method+"`", notRecorded
		if e != nil {
			title, episodes = r.titled(e), fmt.Sprint(e.Episodes)
		}
		for _, b := range figures {
			s.rows = append(s.rows, []string{r.name, title, episodes, b.what, b.text, fmt.Sprintf("%g", b.paper)})
		}
	})
	return tables(s)
}

// given is a figure of the paper's; a dash where it has none.
func given(v float64) string { return number("%g", v) }

// regretGiven is a regret of the paper's with its standard error.
func regretGiven(p domain.PaperRow) string {
	if math.IsNaN(p.Regret) {
		return "–"
	}
	return fmt.Sprintf("%g ± %g", p.Regret, p.RegretSEM)
}

// inRegime is the paper's row of an evaluation of scenes like the paper's; of others it has
// none.
func (r *Records) inRegime(e *closedloop.Result) domain.PaperRow {
	if e.Regime != paperRegime {
		return domain.NoPaperRow()
	}
	return r.paper(e.Case, e.Method)
}

// lack adds the row of a method without a record: its first cells, then dashes but under the
// headings that are given.
func (s *section) lack(first []string, under map[string]string) {
	row := slices.Clone(first)
	for _, heading := range s.rows[0][len(first):] {
		cell, ok := under[heading]
		if !ok {
			cell = "–"
		}
		row = append(row, cell)
	}
	s.rows = append(s.rows, row)
}

// likePaper are the evaluations of a case in scenes like the paper's, without noise.
func (r *Records) likePaper(name string) []closedloop.Result {
	return r.evaluations(name, func(e *closedloop.Result) bool { return e.Noise == 0 && e.Regime == paperRegime })
}

// lackedLikePaper are the methods that the paper has and none of those is of; none where there
// are no such evaluations.
func (r *Records) lackedLikePaper(name string) []string {
	if evals := r.likePaper(name); len(evals) > 0 {
		return r.unrecorded(name, evals)
	}
	return nil
}

// lacking adds the methods of lackedLikePaper to a table of dispatches.
func (r run) lacking(s *section) {
	for _, m := range r.lackedLikePaper(r.name) {
		p := r.paper(r.name, m)
		s.lack([]string{r.name, paperRegime, "`" + m + "`", notRecorded}, map[string]string{"feasible % (paper)": given(p.Feasible), "gap % (paper)": given(p.Gap), "(paper)": given(p.Milliseconds)})
	}
}

// notRecorded stands for the figures of a method without a record.
const notRecorded = "not recorded"

// differ tells whether two figures are apart by more than a factor of two, or of other signs.
func differ(a, b float64) bool {
	const factor = 2
	if math.IsNaN(a) || math.IsNaN(b) || a == b {
		return false
	}
	return a*b <= 0 || math.Abs(a) > factor*math.Abs(b) || math.Abs(b) > factor*math.Abs(a)
}

// smallest of the paper's figures, %, that a ratio to is worth a word: below it both are none.
const smallestGap = 0.01

// differences are the figures of ours and the paper's that are apart by more than a factor of
// two, each with a link to the paragraph that says why.
func (d devices) differences() string {
	s := section{rows: [][]string{{"case", "method", "figure", "ours", "paper", "ours / paper", "why"}}}
	d.besidePaper(func(r run, method string, e *closedloop.Result, figures []figureBeside) {
		for _, b := range figures {
			if !differ(b.ours, b.paper) || b.word == "gap" && math.Abs(b.ours) <= smallestGap && math.Abs(b.paper) <= smallestGap {
				continue
			}
			ratio := "–"
			if b.ours*b.paper > 0 {
				ratio = number("%.3g", b.ours/b.paper)
			}
			heading := paragraph(r.name, method, b.word)
			s.rows = append(s.rows, []string{r.name, "`" + method + "`", b.what, b.text, fmt.Sprintf("%g", b.paper), ratio, fmt.Sprintf("[%s](#%s)", heading, strings.ReplaceAll(heading, " ", "-"))})
		}
	})
	return tables(s)
}

// paragraph is the heading of the words about a difference: of one of the paper's numbered
// cases, which name the first part of ours.
func paragraph(name, method, word string) string {
	family, _, _ := strings.Cut(name, "-")
	return family + " " + method + " " + word
}
