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
func (r *Records) evaluationSections() []section {
	var out []section
	for _, name := range r.named() {
		first := len(out)
		if evals := r.of(name); len(evals) > 0 && evals[0].Reached != nil {
			out = append(out, r.goalSection(name, evals))
			for _, e := range evals {
				if e.Method == r.leading(name) && len(e.Unsafe) > 0 {
					out = append(out, unsafeSection(e))
				}
			}
		} else if len(evals) > 0 {
			out = append(out, r.evaluationSection(name, evals))
		}
		if evals := r.inRegimes(name); len(evals) > 0 {
			out = append(out, r.regimeSection(name, evals))
		}
		if evals := r.noisy(name); len(evals) > 0 {
			out = append(out, noiseSection(name, evals))
		}
		if len(out) == first { // a trace alone
			out = append(out, section{title: name, note: "A trace without an evaluation's record."})
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
	about := r.about(name)
	if about == "" {
		return ""
	}
	return strings.ToUpper(about[:1]) + about[1:] + ". "
}

// besideMain heads the cells of Records.less.
func besideMain(method string) []string {
	return []string{"cost less `" + method + "`'s, % [95 %]", "median", "n"}
}

func (r *Records) evaluationSection(name string, evals []closedloop.Result) section {
	s := section{
		title:      name,
		parts:      []string{"safe"},
		note:       r.opening(name) + fmt.Sprintf("Unseen episodes. Regret over the n completed, safe episodes, its mean with the 95 %% interval by Student's t. Cost less `%s`'s: on the episodes in which both are safe.%s", r.leading(name), r.regretNote(name)),
		provenance: originOf(evals),
		rows:       [][]string{slices.Concat([]string{"method", "regret %", "n", "median", "p90", "regret % (paper)"}, besideMain(r.leading(name)), []string{"safe", "95 % interval", "fail %", "fail % (paper)", "least margin", "p50 ms", "p99 ms", "ms (paper)", "mean ‖Δz‖"})},
	}
	for _, e := range evals {
		p := r.paper(name, e.Method)
		s.rows = append(s.rows, slices.Concat(
			[]string{e.Method + r.seeds(&e), within("%.4f", e.RegretPct, e.RegretSEM, e.RegretN), fmt.Sprint(e.RegretN)}, spread("%.4f", &e.Regret), []string{regretGiven(p)}, r.less(&e),
			[]string{
				safeOf(&e), safeInterval(&e),
				number("%.1f", 100*(1-float64(e.Safe))), given(p.Fail), e.MarginMin.Text("%.1e"),
				number("%.4f", float64(e.Latency.P50)/1e3), number("%.4f", float64(e.Latency.P99)/1e3), given(p.Milliseconds), e.Displacement.Text("%.1e"),
			}))
	}
	s.absent = r.absent(name, slices.DeleteFunc(r.unrecorded(name, evals), func(m string) bool {
		return math.IsNaN(r.paper(name, m).Regret) // the paper's figures are of other scenes
	}))
	return s
}

// regretNote says where the paper's regrets of a case are from; "" where it has none.
func (r *Records) regretNote(name string) string {
	for _, p := range r.cases[name].Paper {
		if !math.IsNaN(p.Regret) {
			return " (paper): tab. analytical, 100 trajectories, ± its standard error (s.e.m.), times on its own hardware; its MPC horizon is not stated."
		}
	}
	return ""
}

// goalSection is the table of a case whose episodes have goals (tab.
// multiagent-navigation and multiagent-navigation-margins).
func (r *Records) goalSection(name string, evals []closedloop.Result) section {
	head := []string{"method", "episodes", "safe", "95 % interval", "safe % (paper)", "collision-free", "collision-free % (paper)", "reached", "at end", "gap %", "n", "median", "p90", "gap % (paper)"}
	head = append(append(head, besideMain(r.leading(name))...), "scene margin", "± s.e.m.", "margin (paper)")
	kinds := slices.Sorted(maps.Keys(evals[0].MarginsMean))
	head = append(append(head, kinds...), "p50 ms", "p99 ms")
	s := section{
		title:      name,
		parts:      []string{"gap %", "scene margin"},
		note:       r.opening(name) + fmt.Sprintf("Unseen episodes. Safe: every robot reached its goal and no margin was violated. Gap: 100 (Σ cost − Σ reference)/Σ reference over the n episodes in which both the method and the 384-candidate reference are safe, with its 95 %% interval by Student's t; median and 90 %% quantile are of the same episodes one by one. Cost less `%s`'s: on the episodes in which those two are safe. Margins: means over episodes of the smallest, m. The paper's: 100 episodes, one unreachable moving scene left out.", r.leading(name)),
		provenance: originOf(evals),
		rows:       [][]string{head},
	}
	value := func(n *closedloop.Number) float64 {
		if n == nil {
			return math.NaN()
		}
		return float64(*n)
	}
	for _, e := range evals {
		p := r.paper(name, e.Method)
		row := []string{
			e.Method + r.seeds(&e), fmt.Sprint(e.Episodes), e.Safe.Text("%.4f"), safeInterval(&e), given(p.Safe),
			e.CollisionFree.Text("%.4f"), given(p.Collision), number("%.4f", value(e.Reached)), number("%.4f", value(e.AtEnd)),
			within("%.3f", e.GapPct, e.GapSEM, e.RegretN), fmt.Sprint(e.RegretN),
		}
		row = slices.Concat(row, spread("%.3f", &e.Regret), []string{given(p.Gap)}, r.less(&e), []string{e.MarginMean.Text("%.3f"), e.MarginSEM.Text("%.3f"), given(p.Margin)})
		for _, kind := range kinds {
			m, ok := e.MarginsMean[kind]
			if !ok {
				m = closedloop.Number(math.NaN())
			}
			row = append(row, m.Text("%.3f"))
		}
		s.rows = append(s.rows, append(row, number("%.3f", float64(e.Latency.P50)/1e3), number("%.3f", float64(e.Latency.P99)/1e3)))
	}
	s.absent = r.absent(name, r.unrecorded(name, evals))
	return s
}

// unsafeSection names every episode in which a method was not safe.
func unsafeSection(e closedloop.Result) section {
	s := section{
		title: fmt.Sprintf("%s: unsafe episodes of %s", e.Case, e.Method),
		note:  fmt.Sprintf("%d of %d, with what is known of the cause.", len(e.Unsafe), e.Episodes),
		rows:  [][]string{{"seed", "episode", "cause"}},
	}
	for _, u := range e.Unsafe {
		s.rows = append(s.rows, []string{fmt.Sprint(e.Seed), fmt.Sprint(u.Episode), u.Cause})
	}
	return s
}

func noiseSection(name string, evals []closedloop.Result) section {
	s := section{
		title:      name + " with measurement noise",
		note:       "The measured state is disturbed; margins and costs are of the true state. The noise is in units of each state's own scale. Regret over the n safe episodes, its mean with the 95 % interval by Student's t.",
		provenance: originOf(evals),
		rows:       [][]string{{"noise", "method", "regret %", "n", "median", "p90", "safe", "95 % interval", "least margin", "p50 ms", "p99 ms"}},
	}
	for _, e := range evals {
		s.rows = append(s.rows, slices.Concat(
			[]string{fmt.Sprint(e.Noise), e.Method, within("%.4f", e.RegretPct, e.RegretSEM, e.RegretN), fmt.Sprint(e.RegretN)}, spread("%.4f", &e.Regret),
			[]string{
				safeOf(&e), safeInterval(&e), e.MarginMin.Text("%.1e"),
				number("%.4f", float64(e.Latency.P50)/1e3), number("%.4f", float64(e.Latency.P99)/1e3),
			}))
	}
	return s
}

// baselines is a table of the exact and baseline methods of each case of the integrator.
func (d devices) baselines() string {
	s := section{rows: [][]string{{"case", "method", "safe episodes", "95 % interval", "safe % (paper)", "regret % ± 95 %", "n", "median", "p90", "regret % (paper)", "p50 / p99, ms", "ms (paper)"}}}
	for _, r := range runs(d, (*Records).named) {
		for _, e := range r.of(r.name) {
			if group := r.method(r.name, e.Method).Group; !strings.HasPrefix(r.name, "integrator-") || group != domain.GroupExact && group != domain.GroupBaseline && e.Method != r.leading(r.name) && e.Method != "direct" {
				continue
			}
			p := r.paper(r.name, e.Method)
			s.rows = append(s.rows, slices.Concat(
				[]string{r.name, r.titled(&e), safeOf(&e), safeInterval(&e), given(p.SafeEpisodes()), within("%.4f", e.RegretPct, e.RegretSEM, e.RegretN), fmt.Sprint(e.RegretN)},
				spread("%.4f", &e.Regret), []string{regretGiven(p), milliseconds("%.3f", &e.Latency), given(p.Milliseconds)}))
		}
		if evals := r.of(r.name); len(evals) > 0 && strings.HasPrefix(r.name, "integrator-") {
			if absent := r.absent(r.name, r.unrecorded(r.name, evals)); len(absent) > 0 {
				s.absent = append(s.absent, r.name+": "+strings.Join(absent, ", "))
			}
		}
	}
	return tables(s)
}

// goals is the table of a case whose episodes have goals.
func (d devices) goals(name string) string {
	s := section{rows: [][]string{slices.Concat([]string{"method", "safe", "95 % interval", "safe % (paper)", "collision-free", "(paper)", "gap % ± 95 %", "gap % (paper)", "n"}, besideMain(planner), []string{"mean smallest margin, m", "margin (paper)", "fallbacks", "p50 / p99, ms"})}}
	for _, r := range runs(d, (*Records).named) {
		if r.name != name {
			continue
		}
		same, scenes := sameScenes(r.of(name))
		if scenes > 0 {
			s.note = fmt.Sprintf("Gaps are over the n of the %d episodes that all methods ran in which the method and the reference are safe; all else is over all of a method's episodes.", scenes)
		}
		for _, e := range same {
			p := r.paper(r.name, e.Method)
			s.rows = append(s.rows, slices.Concat(
				[]string{r.titled(&e), safeOf(&e), safeInterval(&e), given(p.Safe), number("%.1f %%", 100*float64(e.CollisionFree)), given(p.Collision), within("%.2f", e.GapPct, e.GapSEM, e.RegretN), given(p.Gap), fmt.Sprint(e.RegretN)},
				r.less(&e), []string{estimate("%.3f", e.MarginMean, e.MarginSEM), given(p.Margin), fmt.Sprint(e.Fallback), milliseconds("%.1f", &e.Latency)}))
		}
		s.absent = r.absent(name, r.unrecorded(name, r.of(name)))
	}
	return tables(s)
}
