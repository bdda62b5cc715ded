package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// evaluationSections are the tables of every case that was evaluated.
func (r *Records) evaluationSections() []Section {
	var out []Section
	for _, name := range r.CaseNames() {
		first := len(out)
		if evals := r.Plain(name); len(evals) > 0 && evals[0].Reached != nil {
			out = append(out, r.goalSection(name, evals))
			for _, e := range evals {
				if e.Method == r.Leading(name) && len(e.Unsafe) > 0 {
					out = append(out, unsafeSection(e))
				}
			}
		} else if len(evals) > 0 {
			out = append(out, r.evaluationSection(name, evals))
		}
		if evals := r.InRegimes(name); len(evals) > 0 {
			out = append(out, r.regimeSection(name, evals))
		}
		if evals := r.noisy(name); len(evals) > 0 {
			out = append(out, r.noiseSection(name, evals))
		}
		if len(out) == first { // a trace alone
			out = append(out, Section{title: name, Note: "A trace without an evaluation's record."})
		}
		out[first].figures = r.caseFigures(name)
		for i := range r.Traces {
			if t := &r.Traces[i]; t.Header.Case == name {
				out[first].traces = append(out[first].traces, t)
			}
		}
	}
	return out
}

// opening is the first sentence of a case's note: what its problem is.
func (r *Records) opening(name string) string {
	about := r.About(name)
	if about == "" {
		return ""
	}
	return strings.ToUpper(about[:1]) + about[1:] + ". "
}

// RunRow is a run as tables show it: the fields of its record, those of the paper's row of its method, and what is
// derived of both.
type RunRow struct {
	*closedloop.Result
	Paper                domain.PaperRow
	PaperRegret          string                       // with its standard error
	Seeds                string                       // behind the name of a learned method
	Kept, SafeInterval   string                       // safe episodes, and the interval of their share
	Dispatches, Draws    string                       // within every limit; left out
	RegretHalf, GapHalf  closedloop.Number            // of the intervals of their means
	Spread               *closedloop.RegretStatistics // nil without values
	FailPct, NoCollision float64                      // %
	PaperSafe            float64                      // %, of episodes
	Less                 []string                     // what it costs above another method: mean, median, n
}

// Row is a run in a table beside another method.
func (r *Records) Row(e *closedloop.Result, paper domain.PaperRow, beside string) RunRow {
	row := RunRow{
		Result: e, Paper: paper, PaperRegret: regretGiven(paper), Seeds: r.seeds(e), Kept: SafeOf(e), SafeInterval: SafeInterval(e),
		Dispatches: Dispatches(e), Draws: Excluded(e), RegretHalf: HalfWidth(e.RegretSEM, e.RegretN), GapHalf: HalfWidth(e.GapSEM, e.RegretN),
		FailPct: 100 * (1 - float64(e.Safe)), NoCollision: 100 * float64(e.CollisionFree), Less: r.CostAbove(e, beside), PaperSafe: paper.SafeEpisodes(),
	}
	if e.Regret.N > 0 {
		row.Spread = &e.Regret
	}
	return row
}

// besideLeading are rows beside a case's leading method.
func (r *Records) besideLeading(name string, evals []closedloop.Result) (rows []RunRow) {
	for i := range evals {
		rows = append(rows, r.Row(&evals[i], r.Paper(name, evals[i].Method), r.Leading(name)))
	}
	return rows
}

// LessColumns are what a run costs above a method.
func LessColumns(method string) Columns {
	return Columns{{"cost less `" + method + "`'s, % [95 %]", "{Less.0}"}, {"median", "{Less.1}"}, {"n", "{Less.2}"}}
}

// Columns of runs in several tables.
var (
	regretColumns = Columns{{"regret %", "{RegretPct %.4f} ± {RegretHalf? %.4f}"}, {"n", "{RegretN}"}, {"median", "{Spread.Median %.4f}"}, {"p90", "{Spread.P90 %.4f}"}}
	keptColumns   = Columns{{"safe", "{Kept}"}, {"95 % interval", "{SafeInterval}"}}
	timeColumns   = Columns{{"p50 ms", "{Latency.P50 %.4f /1e3}"}, {"p99 ms", "{Latency.P99 %.4f /1e3}"}}
)

func (r *Records) evaluationSection(name string, evals []closedloop.Result) Section {
	s := Section{
		title:      name,
		parts:      []string{"safe"},
		Note:       r.opening(name) + fmt.Sprintf("Unseen episodes. Regret over the n completed, safe episodes, its mean with the 95 %% interval by Student's t. Cost less `%s`'s: on the episodes in which both are safe.%s", r.Leading(name), r.regretNote(name)),
		Provenance: originOf(evals),
		Rows: Table(slices.Concat(
			Columns{{"method", "{Method}{Seeds}"}}, regretColumns, Columns{{"regret % (paper)", "{PaperRegret}"}}, LessColumns(r.Leading(name)), keptColumns,
			Columns{{"fail %", "{FailPct %.1f}"}, {"fail % (paper)", "{Paper.Fail}"}, {"least margin", "{MarginMin %.1e}"}}, timeColumns,
			Columns{{"ms (paper)", "{Paper.Milliseconds}"}, {"mean ‖Δz‖", "{Displacement %.1e}"}}), r.besideLeading(name, evals)),
	}
	s.Absent = r.Absent(name, slices.DeleteFunc(r.Unrecorded(name, evals), func(m string) bool {
		return math.IsNaN(r.Paper(name, m).Regret) // the paper's figures are of other scenes
	}))
	return s
}

// regretNote says where the paper's regrets of a case are from; "" where it has none.
func (r *Records) regretNote(name string) string {
	for _, p := range r.Cases[name].Paper {
		if !math.IsNaN(p.Regret) {
			return " (paper): tab. analytical, 100 trajectories, ± its standard error (s.e.m.), times on its own hardware; its MPC horizon is not stated."
		}
	}
	return ""
}

// goalSection is the table of a case whose episodes have goals (tab.
// multiagent-navigation and multiagent-navigation-margins).
func (r *Records) goalSection(name string, evals []closedloop.Result) Section {
	columns := slices.Concat(Columns{
		{"method", "{Method}{Seeds}"}, {"episodes", "{Episodes}"}, {"safe", "{Safe %.4f}"}, {"95 % interval", "{SafeInterval}"}, {"safe % (paper)", "{Paper.Safe}"},
		{"collision-free", "{CollisionFree %.4f}"}, {"collision-free % (paper)", "{Paper.Collision}"}, {"reached", "{Reached %.4f}"}, {"at end", "{AtEnd %.4f}"},
		{"gap %", "{GapPct %.3f} ± {GapHalf? %.3f}"}, {"n", "{RegretN}"}, {"median", "{Spread.Median %.3f}"}, {"p90", "{Spread.P90 %.3f}"}, {"gap % (paper)", "{Paper.Gap}"},
	}, LessColumns(r.Leading(name)), Columns{{"scene margin", "{MarginMean %.3f}"}, {"± s.e.m.", "{MarginSEM %.3f}"}, {"margin (paper)", "{Paper.Margin}"}})
	for _, kind := range slices.Sorted(maps.Keys(evals[0].MarginsMean)) {
		columns = append(columns, [2]string{kind, "{MarginsMean." + kind + " %.3f}"})
	}
	columns = append(columns, [2]string{"p50 ms", "{Latency.P50 %.3f /1e3}"}, [2]string{"p99 ms", "{Latency.P99 %.3f /1e3}"})
	s := Section{
		title:      name,
		parts:      []string{"gap %", "scene margin"},
		Note:       r.opening(name) + fmt.Sprintf("Unseen episodes. Safe: every robot reached its goal and no margin was violated. Gap: 100 (Σ cost − Σ reference)/Σ reference over the n episodes in which both the method and the 384-candidate reference are safe, with its 95 %% interval by Student's t; median and 90 %% quantile are of the same episodes one by one. Cost less `%s`'s: on the episodes in which those two are safe. Margins: means over episodes of the smallest, m. The paper's: 100 episodes, one unreachable moving scene left out.", r.Leading(name)),
		Provenance: originOf(evals),
		Rows:       Table(columns, r.besideLeading(name, evals)),
	}
	s.Absent = r.Absent(name, r.Unrecorded(name, evals))
	return s
}

// unsafeSection names every episode in which a method was not safe.
func unsafeSection(e closedloop.Result) Section {
	return Section{
		title: fmt.Sprintf("%s: unsafe episodes of %s", e.Case, e.Method),
		Note:  fmt.Sprintf("%d of %d, with what is known of the cause.", len(e.Unsafe), e.Episodes),
		Rows:  Table(Columns{{"seed", fmt.Sprint(e.Seed)}, {"episode", "{Episode}"}, {"cause", "{Cause}"}}, e.Unsafe),
	}
}

func (r *Records) noiseSection(name string, evals []closedloop.Result) Section {
	return Section{
		title:      name + " with measurement noise",
		Note:       "The measured state is disturbed; margins and costs are of the true state. The noise is in units of each state's own scale. Regret over the n safe episodes, its mean with the 95 % interval by Student's t.",
		Provenance: originOf(evals),
		Rows: Table(slices.Concat(Columns{{"noise", "{Noise}"}, {"method", "{Method}"}}, regretColumns, keptColumns,
			Columns{{"least margin", "{MarginMin %.1e}"}}, timeColumns), r.besideLeading(name, evals)),
	}
}

// regimeSection is the table of a case whose test scenes come in regimes.
func (r *Records) regimeSection(name string, evals []closedloop.Result) Section {
	var rows []RunRow
	for i := range evals {
		rows = append(rows, r.Row(&evals[i], r.PaperRowOf(&evals[i]), r.Leading(name)))
	}
	s := Section{
		title: name,
		keys:  3, parts: []string{"gap %", "fallbacks"},
		Note:       r.opening(name) + fmt.Sprintf("Unseen trajectories. Kept are the trajectories without a violation, with their 95 %% interval; dispatches are those that keep every limit on the plant, and those of one trajectory are not independent. The gap is 100 (Σ cost − Σ oracle)/Σ oracle over the n trajectories kept, the others left out, with the 95 %% interval over trajectories by Student's t; median and 90 %% quantile are of the same trajectories one by one. Cost less `%s`'s: on the trajectories that both keep. Excluded are draws for which the oracle itself finds a step without a solution, decided before any method ran. Fallbacks are decisions that the exact solver took over.", r.Leading(name)),
		Provenance: originOf(evals),
		Rows: Table(slices.Concat(Columns{
			{"regime", "{Regime}"}, {"noise", "{Noise}"}, {"method", "{Method}{Seeds}"}, {"kept", "{Kept}"}, {"95 % interval", "{SafeInterval}"},
			{"dispatches", "{Dispatches}"}, {"feasible % (paper)", "{Paper.Feasible}"}, {"gap %", "{GapPct %.4f} ± {GapHalf? %.4f}"}, {"n", "{RegretN}"},
			{"median", "{Spread.Median %.4f}"}, {"p90", "{Spread.P90 %.4f}"}, {"gap % (paper)", "{Paper.Gap}"},
		}, LessColumns(r.Leading(name)), Columns{
			{"fallbacks", "{Fallback} of {Decisions}"}, {"draws excluded", "{Draws}"}, {"least margin", "{MarginMin %.1e}"}}, timeColumns, Columns{
			{"(paper)", "{Paper.Milliseconds}"}, {"localize µs", "{Shares.Localize %.1f}"}, {"step µs", "{Shares.Step %.1f}"}, {"project µs", "{Shares.Project %.1f}"},
		}), rows),
	}
	s.Absent = r.Absent(name, r.LackedLikePaper(name))
	return s
}

// Dispatches is how many decisions kept every limit.
func Dispatches(e *closedloop.Result) string {
	return fmt.Sprintf("%d/%d", e.Decisions-e.Violations, e.Decisions)
}

// Excluded is how many draws of scenes were left out, of all.
func Excluded(e *closedloop.Result) string {
	return fmt.Sprintf("%d of %d", e.Excluded, e.Episodes+e.Excluded)
}
