package publish

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/published"
	"github.com/gpc-engine/gpc/lab/report"
)

// paperPage is the page of the tables beside the paper's.
const paperPage = "docs/results/paper.md"

// beside is one figure of a method: ours and the paper's, each with its standard error.
type beside struct {
	figure         *paperFigure
	ours, oursSEM  float64 // NaN: not recorded, or there is none
	paper, paperSE float64 // NaN: not given
	note           string  // behind ours
}

// text is ours, and the standard error where it is known.
func (b beside) text() string {
	if math.IsNaN(b.ours) {
		return "–"
	}
	text := report.Number(b.figure.verb, b.ours)
	if !math.IsNaN(b.oursSEM) {
		text += " ± " + report.Number("%.2g", b.oursSEM)
	}
	return text + b.note
}

// given is the paper's.
func (b beside) given() string {
	text := report.Given(b.paper)
	if !math.IsNaN(b.paperSE) {
		text += fmt.Sprintf(" ± %g", b.paperSE)
	}
	return text
}

// paperFigure is a figure that the paper gives of methods.
type paperFigure struct {
	what, word, verb string // with its unit; of the heading that explains it; its format
	paper            func(p *published.Row) (v, sem float64)
	ours             func(e *closedloop.Result) (v, sem float64, note string)
}

// paperFigures are all of them by their words.
var paperFigures = func() map[string]*paperFigure {
	all := map[string]*paperFigure{}
	none := math.NaN()
	add := func(word, what, verb string, paper func(p *published.Row) float64, ours func(e *closedloop.Result) (float64, float64, string)) {
		all[word] = &paperFigure{what, word, verb, func(p *published.Row) (float64, float64) { return paper(p), none }, ours}
	}
	share := func(of func(e *closedloop.Result) float64) func(e *closedloop.Result) (float64, float64, string) {
		return func(e *closedloop.Result) (float64, float64, string) { return 100 * of(e), none, "" }
	}
	broken := func(limit string) func(e *closedloop.Result) (float64, float64, string) {
		return share(func(e *closedloop.Result) float64 { return limitRate(e, limit) })
	}
	apart := func(name string) func(e *closedloop.Result) (float64, float64, string) {
		return func(e *closedloop.Result) (float64, float64, string) {
			v, sem := meanMargin(e, name)
			return v, sem, ""
		}
	}
	add("regret", "R_T, %", "%.3g", func(p *published.Row) float64 { return p.Regret }, func(e *closedloop.Result) (float64, float64, string) {
		return overAll(e, e.RegretPct, e.RegretSEM)
	})
	all["regret"].paper = func(p *published.Row) (float64, float64) { return p.Regret, p.RegretSEM }
	add("obstacle", "obstacle violated, % of decisions", "%.3g", func(p *published.Row) float64 { return p.Obstacle }, broken("obstacle"))
	add("slew", "slew violated, % of decisions", "%.3g", func(p *published.Row) float64 { return p.Slew }, broken("slew"))
	add("fail", "failed, % of episodes", "%.3g", func(p *published.Row) float64 { return p.Fail }, share(func(e *closedloop.Result) float64 { return 1 - float64(e.Safe) }))
	add("safe", "safe, % of episodes", "%.4g", func(p *published.Row) float64 { return p.Safe }, share(func(e *closedloop.Result) float64 { return float64(e.Safe) }))
	add("joint", "all goals reached, % of episodes", "%.4g", func(p *published.Row) float64 { return p.Joint }, share(func(e *closedloop.Result) float64 {
		if e.GoalReached == nil {
			return none
		}
		return float64(*e.GoalReached)
	}))
	add("collision-free", "collision-free, % of episodes", "%.4g", func(p *published.Row) float64 { return p.Collision }, share(func(e *closedloop.Result) float64 { return float64(e.CollisionFree) }))
	add("margin", "least margin, m", "%.3f", func(p *published.Row) float64 { return p.Margin }, func(e *closedloop.Result) (float64, float64, string) {
		return float64(e.MarginMean), float64(e.MarginSEM), ""
	})
	add("ego", "least ego–obstacle margin, m", "%.3f", func(p *published.Row) float64 { return p.EgoMargin }, apart("ego obstacle"))
	add("agent", "least agent–obstacle margin, m", "%.3f", func(p *published.Row) float64 { return p.AgentMargin }, apart("agent obstacle"))
	add("pair", "least agent–agent margin, m", "%.3f", func(p *published.Row) float64 { return p.PairMargin }, apart("robot pair"))
	add("gap", "gap, %", "%.3g", func(p *published.Row) float64 { return p.Gap }, func(e *closedloop.Result) (float64, float64, string) {
		return overAll(e, e.GapPct, e.GapSEM)
	})
	add("feasible", "feasible dispatches, %", "%.4g", func(p *published.Row) float64 { return p.Feasible }, share(func(e *closedloop.Result) float64 { return float64(e.Feasible) }))
	add("violations", "violations in 300 steps", "%.4g", func(p *published.Row) float64 { return p.Violations }, func(e *closedloop.Result) (float64, float64, string) {
		const steps = 300 // of the paper's roll-out
		return steps * float64(e.Violations) / float64(e.Decisions), none, ""
	})
	add("total", "mean J_total, $/h", "%.2f", func(p *published.Row) float64 { return p.Total }, func(e *closedloop.Result) (float64, float64, string) {
		return float64(e.CostMean) * float64(e.Episodes) / float64(e.Decisions), none, ""
	})
	add("step", "Δ̄, $/h", "%.3g", func(p *published.Row) float64 { return p.StepGap }, func(e *closedloop.Result) (float64, float64, string) {
		if a := e.Above(); a != nil {
			return float64(a.Step), float64(a.StepSEM), ""
		}
		return none, none, ""
	})
	add("time", "decision, ms", "%.3g", func(p *published.Row) float64 { return p.Milliseconds }, func(e *closedloop.Result) (float64, float64, string) {
		return float64(e.Latency.P50) / 1e3, none, ""
	})
	return all
}()

// overAll is an excess over safe episodes with its standard error; where none is safe, over all.
func overAll(e *closedloop.Result, v, sem closedloop.Number) (float64, float64, string) {
	if a := e.Above(); e.RegretN == 0 && a != nil {
		return float64(a.Pct), float64(a.PctSEM), " (all)"
	}
	return float64(v), float64(sem), ""
}

// limitRate is the share of decisions that broke a kind of limit: known to be 0 where none broke
// any, NaN where the record does not say.
func limitRate(e *closedloop.Result, limit string) float64 {
	if e.Violations == 0 && e.Decisions > 0 {
		return 0
	}
	for _, l := range e.Limits {
		if l.Limit == limit {
			return float64(l.DecisionRate)
		}
	}
	return math.NaN()
}

// meanMargin is the mean over episodes of the smallest of a named margin; of an older record
// without its standard error.
func meanMargin(e *closedloop.Result, name string) (v, sem float64) {
	mean, ok := e.MarginsMean[name]
	if !ok {
		return math.NaN(), math.NaN()
	}
	for _, l := range e.Limits {
		if l.Limit == name {
			return float64(mean), float64(l.SEM)
		}
	}
	return float64(mean), math.NaN()
}

// figureBeside is a figure of a method; e is nil for one without a record.
func figureBeside(word string, e *closedloop.Result, p published.Row) beside {
	f := paperFigures[word]
	b := beside{figure: f, ours: math.NaN(), oursSEM: math.NaN()}
	b.paper, b.paperSE = f.paper(&p)
	if e != nil {
		b.ours, b.oursSEM, b.note = f.ours(e)
	}
	return b
}

// paperColumn is a column of a table of the paper's: a figure, in the rows of each case the first
// of some that the paper gives for a method of it; of another method than the row's where it is of
// one.
type paperColumn struct {
	heading, method string
	words           []string
}

// paperTable is a table of the paper's, in its shape.
type paperTable struct {
	title   string
	cases   []string
	methods []string // nil: all that the paper has a row of
	columns []paperColumn
}

// paperTables are those with numbers.
var paperTables = []paperTable{
	{"Tab. analytical (Case 1)", []string{"integrator-convex", "integrator-nonconvex"}, nil, []paperColumn{
		{"R_T, %", "", []string{"regret"}}, {"obs. viol., %", "", []string{"obstacle"}}, {"slew viol., %", "", []string{"slew"}}, {"fail, %", "", []string{"fail"}}, {"time, ms", "", []string{"time"}},
	}},
	{"Tab. iclr-main-results (Cases 2 and 4)", []string{"multiagent-static", "multiagent-moving", "opf30-uncertain"}, nil, []paperColumn{
		{"joint / feas., %", "", []string{"joint", "feasible"}}, {"coll.-free, %", "", []string{"collision-free"}}, {"safe, % / viol.", "", []string{"safe", "violations"}},
		{"margin, m", "", []string{"margin"}}, {"gap, %", "", []string{"gap"}}, {"latency, ms", "", []string{"time"}},
	}},
	{"Tab. multiagent-navigation (Case 2)", []string{"multiagent-static", "multiagent-moving"}, []string{report.Planner}, []paperColumn{
		{"GPC safe, %", "", []string{"safe"}}, {"scene safe, %", "", []string{"collision-free"}}, {"ref.-safe, %", "reference", []string{"safe"}}, {"ref. fail, %", "reference", []string{"fail"}}, {"gap, %", "", []string{"gap"}},
	}},
	{"Tab. multiagent-navigation-margins (Case 2)", []string{"multiagent-static", "multiagent-moving"}, []string{report.Planner}, []paperColumn{
		{"scene margin, m", "", []string{"margin"}}, {"ego margin, m", "", []string{"ego"}}, {"agent–obst., m", "", []string{"agent"}}, {"agent–agent, m", "", []string{"pair"}},
	}},
	{"Tab. case2-benchmark (Case 3; Δ̄ is in the text)", []string{"opf30"}, nil, []paperColumn{
		{"mean J_total, $/h", "", []string{"total"}}, {"feasible, %", "", []string{"feasible"}}, {"subopt., %", "", []string{"gap"}}, {"Δ̄, $/h", "", []string{"step"}}, {"latency, ms", "", []string{"time"}},
	}},
	{"Tab. uncertainty-benchmark (Case 4)", []string{"opf30-uncertain"}, nil, []paperColumn{
		{"mean J_total, $/h", "", []string{"total"}}, {"feasible, %", "", []string{"feasible"}}, {"Δ̄, $/h", "", []string{"step"}}, {"latency, ms", "", []string{"time"}},
	}},
}

// isOf is whether the paper gives the figure, or a word for it, for some method of a case.
func isOf(r *report.Records, word, name string) bool {
	for _, p := range r.Cases[name].Paper {
		if word == "time" && p.Time != "" {
			return true
		}
		if v, _ := paperFigures[word].paper(&p); !math.IsNaN(v) {
			return true
		}
	}
	return false
}

// cell sets ours and the paper's side by side.
func cell(r report.Run, c *paperColumn, e *closedloop.Result, p published.Row) string {
	for _, word := range c.words {
		if !isOf(r.Records, word, r.Name) {
			continue
		}
		b := figureBeside(word, e, p)
		paper := b.given()
		if word == "time" && p.Time != "" {
			paper = p.Time
		}
		ours := b.text()
		switch {
		case paper == "–" && (b.note != "" || math.IsNaN(b.ours)):
			return "–"
		case math.IsNaN(b.ours) && e != nil && (word == "gap" || word == "regret"):
			ours = "–" // there is none
		}
		return ours + " / " + paper
	}
	return "–"
}

// besidePaper visits every method that the paper has a row of: of the plain episodes, or of those
// in the paper's regime.
func (d devices) besidePaper(visit func(r report.Run, method string, e *closedloop.Result)) {
	for _, r := range report.RunsOf(d, (*report.Records).CaseNames) {
		evals := paperRuns(r)
		for _, method := range r.Unrecorded(r.Name, nil) {
			visit(r, method, report.FindMethod(method, evals))
		}
	}
}

// paperRuns are the runs of the paper's methods in scenes like the paper's, without noise. Gaps among robots are
// over the episodes that all of these methods ran.
func paperRuns(r report.Run) []closedloop.Result {
	methods := r.Unrecorded(r.Name, nil)
	evals := slices.DeleteFunc(slices.Concat(r.Plain(r.Name), r.LikePaper(r.Name)), func(e closedloop.Result) bool {
		return !slices.Contains(methods, e.Method)
	})
	if len(evals) > 0 && evals[0].GoalReached != nil {
		evals, _ = report.SameScenes(evals)
	}
	return evals
}

// paperRows are the paper's tables with ours beside each of its figures.
func (d devices) paperRows() string {
	var b strings.Builder
	for i := range paperTables {
		t := &paperTables[i]
		s := report.Section{Rows: [][]string{{"case", "method", "episodes", "n"}}}
		for _, c := range t.columns {
			s.Rows[0] = append(s.Rows[0], c.heading)
		}
		d.besidePaper(func(r report.Run, method string, e *closedloop.Result) {
			if !slices.Contains(t.cases, r.Name) || t.methods != nil && !slices.Contains(t.methods, method) {
				return
			}
			row := []string{r.Name, "`" + method + "`", "–", "–"}
			if e != nil {
				row = []string{r.Name, r.Titled(e), fmt.Sprint(e.Episodes), fmt.Sprint(e.RegretN)}
			}
			for k := range t.columns {
				c, of, by := &t.columns[k], e, method
				if c.method != "" {
					by = c.method
					of = report.FindMethod(by, paperRuns(r))
				}
				row = append(row, cell(r, c, of, r.Paper(r.Name, by)))
			}
			s.Rows = append(s.Rows, row)
		})
		if len(s.Rows) < 2 {
			continue
		}
		fmt.Fprintf(&b, "**%s**\n\n%s\n", t.title, report.Tables(s))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// differ tells whether two figures are apart by more than a factor of two, or of other signs.
func differ(a, b float64) bool {
	const factor = 2
	if math.IsNaN(a) || math.IsNaN(b) || a == b {
		return false
	}
	return a*b <= 0 || math.Abs(a) > factor*math.Abs(b) || math.Abs(b) > factor*math.Abs(a)
}

// smallest differences from none, by the word of the figure, that are worth a word: %, and $/h for
// each step.
var smallest = map[string]float64{"gap": 0.01, "step": 0.01}

// differences are the figures of ours and the paper's that are apart by more than a factor of
// two, each with a link to the paragraph that says why.
func (d devices) differences() string {
	s := report.Section{Rows: [][]string{{"case", "method", "figure", "ours", "paper", "ours / paper", "why"}}}
	d.besidePaper(func(r report.Run, method string, e *closedloop.Result) {
		for _, word := range slices.Sorted(maps.Keys(paperFigures)) {
			b := figureBeside(word, e, r.Paper(r.Name, method))
			if !differ(b.ours, b.paper) || max(math.Abs(b.ours), math.Abs(b.paper)) <= smallest[word] {
				continue
			}
			ratio := "–"
			if b.ours*b.paper > 0 {
				ratio = report.Number("%.2g", b.ours/b.paper)
			}
			heading := paragraph(r.Name, method, word)
			s.Rows = append(s.Rows, []string{r.Name, "`" + method + "`", b.figure.what, b.text(), b.given(), ratio, fmt.Sprintf("[%s](#%s)", heading, anchor(heading))})
		}
	})
	return report.Tables(s)
}

// reasons are the headings of docs/results/paper.md that explain several figures at once: the first that is
// of a case's family, a method and a figure; "" is of any.
var reasons = []struct {
	family  string
	methods []string
	words   []string
	heading string
}{
	{"", nil, []string{"time"}, "Times of a decision"},
	{"integrator", []string{"td3"}, nil, "TD3 in Case 1"},
	{"integrator", []string{"cpo"}, nil, "CPO in Case 1"},
	{"integrator", []string{"online", "mpc"}, nil, "Short horizons in Case 1"},
	{"integrator", []string{report.AlgorithmTwo}, []string{"regret"}, "The map in Case 1"},
	{"multiagent", []string{report.Planner}, []string{"ego", "agent", "pair", "margin"}, "Margins in Case 2"},
	{"multiagent", []string{report.Planner}, []string{"gap"}, "The gap in Case 2"},
	{"multiagent", []string{"ppo", "ppo-lagrangian", "ppo-shielded", "cpo"}, nil, "Learned policies in Case 2"},
	{"opf30", []string{report.AlgorithmTwo}, []string{"gap", "step"}, "The map in Cases 3 and 4"},
	{"opf30", []string{"mpc"}, []string{"gap", "step", "violations"}, "MPC in Cases 3 and 4"},
	{"opf30", []string{"td3", "cpo"}, nil, "Learned policies in Cases 3 and 4"},
}

// paragraph is the heading of the words about a difference, of one of the paper's numbered cases,
// which name the first part of ours.
func paragraph(name, method, word string) string {
	family, _, _ := strings.Cut(name, "-")
	for _, r := range reasons {
		if (r.family == "" || r.family == family) && (r.methods == nil || slices.Contains(r.methods, method)) && (r.words == nil || slices.Contains(r.words, word)) {
			return r.heading
		}
	}
	return family + " " + method + " " + word
}

// anchor is what a link to a heading names.
func anchor(heading string) string { return strings.ReplaceAll(strings.ToLower(heading), " ", "-") }

// limitsBroken are the limits that the paper's methods broke, how often, and the worst violation of
// each.
func (d devices) limitsBroken() string {
	s := report.Section{Rows: [][]string{{"case", "method", "limit", "decisions, %", "episodes, %", "worst"}}}
	d.besidePaper(func(r report.Run, method string, e *closedloop.Result) {
		switch {
		case e == nil || e.Violations == 0:
			return
		case e.Limits == nil:
			s.Rows = append(s.Rows, []string{r.Name, "`" + method + "`", "unnamed", "–", "–", e.MarginMin.Text("%.3g")})
			return
		}
		for _, l := range e.Limits {
			if l.Decisions == 0 {
				continue
			}
			worst := l.Least.Text("%.3g")
			if l.Unit != "" {
				worst += " " + l.Unit
			}
			if l.Margin != l.Limit {
				worst += " (" + l.Margin + ")"
			}
			s.Rows = append(s.Rows, []string{r.Name, "`" + method + "`", l.Limit, report.Number("%.3g", 100*float64(l.DecisionRate)), report.Number("%.3g", 100*float64(l.EpisodeRate)), worst})
		}
	})
	return report.Tables(s)
}
