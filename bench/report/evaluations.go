package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
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
			out = append(out, noiseSection(name, evals))
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

// BesideMain heads the cells of Records.less.
func BesideMain(method string) []string {
	return []string{"cost less `" + method + "`'s, % [95 %]", "median", "n"}
}

func (r *Records) evaluationSection(name string, evals []closedloop.Result) Section {
	s := Section{
		title:      name,
		parts:      []string{"safe"},
		Note:       r.opening(name) + fmt.Sprintf("Unseen episodes. Regret over the n completed, safe episodes, its mean with the 95 %% interval by Student's t. Cost less `%s`'s: on the episodes in which both are safe.%s", r.Leading(name), r.regretNote(name)),
		Provenance: originOf(evals),
		Rows:       [][]string{slices.Concat([]string{"method", "regret %", "n", "median", "p90", "regret % (paper)"}, BesideMain(r.Leading(name)), []string{"safe", "95 % interval", "fail %", "fail % (paper)", "least margin", "p50 ms", "p99 ms", "ms (paper)", "mean ‖Δz‖"})},
	}
	for _, e := range evals {
		p := r.Paper(name, e.Method)
		s.Rows = append(s.Rows, slices.Concat(
			[]string{e.Method + r.seeds(&e), Within("%.4f", e.RegretPct, e.RegretSEM, e.RegretN), fmt.Sprint(e.RegretN)}, Spread("%.4f", &e.Regret), []string{RegretGiven(p)}, r.Less(&e),
			[]string{
				SafeOf(&e), SafeInterval(&e),
				Number("%.1f", 100*(1-float64(e.Safe))), Given(p.Fail), e.MarginMin.Text("%.1e"),
				Number("%.4f", float64(e.Latency.P50)/1e3), Number("%.4f", float64(e.Latency.P99)/1e3), Given(p.Milliseconds), e.Displacement.Text("%.1e"),
			}))
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
	head := []string{"method", "episodes", "safe", "95 % interval", "safe % (paper)", "collision-free", "collision-free % (paper)", "reached", "at end", "gap %", "n", "median", "p90", "gap % (paper)"}
	head = append(append(head, BesideMain(r.Leading(name))...), "scene margin", "± s.e.m.", "margin (paper)")
	kinds := slices.Sorted(maps.Keys(evals[0].MarginsMean))
	head = append(append(head, kinds...), "p50 ms", "p99 ms")
	s := Section{
		title:      name,
		parts:      []string{"gap %", "scene margin"},
		Note:       r.opening(name) + fmt.Sprintf("Unseen episodes. Safe: every robot reached its goal and no margin was violated. Gap: 100 (Σ cost − Σ reference)/Σ reference over the n episodes in which both the method and the 384-candidate reference are safe, with its 95 %% interval by Student's t; median and 90 %% quantile are of the same episodes one by one. Cost less `%s`'s: on the episodes in which those two are safe. Margins: means over episodes of the smallest, m. The paper's: 100 episodes, one unreachable moving scene left out.", r.Leading(name)),
		Provenance: originOf(evals),
		Rows:       [][]string{head},
	}
	value := func(n *closedloop.Number) float64 {
		if n == nil {
			return math.NaN()
		}
		return float64(*n)
	}
	for _, e := range evals {
		p := r.Paper(name, e.Method)
		row := []string{
			e.Method + r.seeds(&e), fmt.Sprint(e.Episodes), e.Safe.Text("%.4f"), SafeInterval(&e), Given(p.Safe),
			e.CollisionFree.Text("%.4f"), Given(p.Collision), Number("%.4f", value(e.Reached)), Number("%.4f", value(e.AtEnd)),
			Within("%.3f", e.GapPct, e.GapSEM, e.RegretN), fmt.Sprint(e.RegretN),
		}
		row = slices.Concat(row, Spread("%.3f", &e.Regret), []string{Given(p.Gap)}, r.Less(&e), []string{e.MarginMean.Text("%.3f"), e.MarginSEM.Text("%.3f"), Given(p.Margin)})
		for _, kind := range kinds {
			m, ok := e.MarginsMean[kind]
			if !ok {
				m = closedloop.Number(math.NaN())
			}
			row = append(row, m.Text("%.3f"))
		}
		s.Rows = append(s.Rows, append(row, Number("%.3f", float64(e.Latency.P50)/1e3), Number("%.3f", float64(e.Latency.P99)/1e3)))
	}
	s.Absent = r.Absent(name, r.Unrecorded(name, evals))
	return s
}

// unsafeSection names every episode in which a method was not safe.
func unsafeSection(e closedloop.Result) Section {
	s := Section{
		title: fmt.Sprintf("%s: unsafe episodes of %s", e.Case, e.Method),
		Note:  fmt.Sprintf("%d of %d, with what is known of the cause.", len(e.Unsafe), e.Episodes),
		Rows:  [][]string{{"seed", "episode", "cause"}},
	}
	for _, u := range e.Unsafe {
		s.Rows = append(s.Rows, []string{fmt.Sprint(e.Seed), fmt.Sprint(u.Episode), u.Cause})
	}
	return s
}

func noiseSection(name string, evals []closedloop.Result) Section {
	s := Section{
		title:      name + " with measurement noise",
		Note:       "The measured state is disturbed; margins and costs are of the true state. The noise is in units of each state's own scale. Regret over the n safe episodes, its mean with the 95 % interval by Student's t.",
		Provenance: originOf(evals),
		Rows:       [][]string{{"noise", "method", "regret %", "n", "median", "p90", "safe", "95 % interval", "least margin", "p50 ms", "p99 ms"}},
	}
	for _, e := range evals {
		s.Rows = append(s.Rows, slices.Concat(
			[]string{fmt.Sprint(e.Noise), e.Method, Within("%.4f", e.RegretPct, e.RegretSEM, e.RegretN), fmt.Sprint(e.RegretN)}, Spread("%.4f", &e.Regret),
			[]string{
				SafeOf(&e), SafeInterval(&e), e.MarginMin.Text("%.1e"),
				Number("%.4f", float64(e.Latency.P50)/1e3), Number("%.4f", float64(e.Latency.P99)/1e3),
			}))
	}
	return s
}

// regimeSection is the table of a case whose test scenes come in regimes.
func (r *Records) regimeSection(name string, evals []closedloop.Result) Section {
	s := Section{
		title: name,
		keys:  3, parts: []string{"gap %", "fallbacks"},
		Note:       r.opening(name) + fmt.Sprintf("Unseen trajectories. Kept are the trajectories without a violation, with their 95 %% interval; dispatches are those that keep every limit on the plant, and those of one trajectory are not independent. The gap is 100 (Σ cost − Σ oracle)/Σ oracle over the n trajectories kept, the others left out, with the 95 %% interval over trajectories by Student's t; median and 90 %% quantile are of the same trajectories one by one. Cost less `%s`'s: on the trajectories that both keep. Excluded are draws for which the oracle itself finds a step without a solution, decided before any method ran. Fallbacks are decisions that the exact solver took over.", r.Leading(name)),
		Provenance: originOf(evals),
		Rows: [][]string{slices.Concat([]string{"regime", "noise", "method", "kept", "95 % interval", "dispatches", "feasible % (paper)", "gap %", "n", "median", "p90", "gap % (paper)"}, BesideMain(r.Leading(name)),
			[]string{"fallbacks", "draws excluded", "least margin", "p50 ms", "p99 ms", "(paper)", "localize µs", "step µs", "project µs"})},
	}
	for _, e := range evals {
		p := r.PaperRowOf(&e)
		s.Rows = append(s.Rows, slices.Concat(
			[]string{
				e.Regime, fmt.Sprint(e.Noise), e.Method + r.seeds(&e), SafeOf(&e), SafeInterval(&e), Dispatches(&e), Given(p.Feasible),
				Within("%.4f", e.GapPct, e.GapSEM, e.RegretN), fmt.Sprint(e.RegretN),
			},
			Spread("%.4f", &e.Regret), []string{Given(p.Gap)}, r.Less(&e),
			[]string{
				fmt.Sprintf("%d of %d", e.Fallback, e.Decisions), Excluded(&e), e.MarginMin.Text("%.1e"),
				Number("%.4f", float64(e.Latency.P50)/1e3), Number("%.4f", float64(e.Latency.P99)/1e3), Given(p.Milliseconds),
				e.Shares.Localize.Text("%.1f"), e.Shares.Step.Text("%.1f"), e.Shares.Project.Text("%.1f"),
			}))
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
