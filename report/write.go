package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
)

// evaluationSections are the tables of every case that was evaluated.
func (r *Records) evaluationSections() []section {
	var out []section
	for _, name := range r.named() {
		first := len(out)
		if evals := r.of(name); len(evals) > 0 && evals[0].Reached != nil {
			out = append(out, r.goalSection(name, evals))
			for _, e := range evals {
				if e.Method == highlighted && len(e.Unsafe) > 0 {
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

func number(format string, v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	text := fmt.Sprintf(format, v)
	if positive, ok := strings.CutPrefix(text, "-"); ok && strings.Trim(positive, "0.") == "" {
		return positive // rounded to zero
	}
	return text
}

// between is an interval with a dash for an open end.
func between(format string, i closedloop.OpenInterval) string {
	return "[" + number(format, float64(i[0])) + ", " + number(format, float64(i[1])) + "]"
}

// within is a mean with half the width of its 95 % interval, by Student's t of its standard
// error over n.
func within(format string, v, sem closedloop.Number, n int) string {
	half := math.NaN()
	if n > 1 {
		half = distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(0.975) * float64(sem)
	}
	return estimate(format, v, closedloop.Number(half))
}

// spread is the median and the 90 % quantile of a distribution; dashes without values.
func spread(format string, r *closedloop.RegretStatistics) []string {
	if r.N == 0 {
		return []string{"–", "–"}
	}
	return []string{number(format, float64(r.Median)), number(format, float64(r.P90))}
}

// safeOf is how many of the episodes were safe.
func safeOf(e *closedloop.Result) string {
	return fmt.Sprintf("%.0f/%d", float64(e.Safe)*float64(e.Episodes), e.Episodes)
}

// loads says under which load of the machine times were taken, the largest of all.
func loads(all []*closedloop.Load) string {
	var most closedloop.Load
	unknown, above, partial := 0, 0, 0
	for _, l := range all {
		if l == nil {
			unknown++
			continue
		}
		most.Start, most.Others, most.Stolen = max(most.Start, l.Start, l.End), max(most.Others, l.Others), max(most.Stolen, l.Stolen)
		if l.Above {
			above++
		}
		if l.Partial {
			partial++
		}
	}
	if unknown == len(all) {
		return "The machine's load was not recorded."
	}
	text := fmt.Sprintf("The machine's load was at most %.2f, other processes had at most %.2f CPUs in the mean of a run, other guests %.2f.", most.Start, most.Others, most.Stolen)
	if above > 0 {
		text += fmt.Sprintf(" %d runs were recorded above the limit.", above)
	}
	if partial > 0 {
		text += fmt.Sprintf(" Of %d runs it is that of their last part, after an interruption.", partial)
	}
	if unknown > 0 {
		text += fmt.Sprintf(" Of %d runs it was not recorded.", unknown)
	}
	return text
}

// loadsOf are the loads of evaluations.
func loadsOf(evals []closedloop.Result) string {
	var all []*closedloop.Load
	for i := range evals {
		all = append(all, evals[i].Load)
	}
	return loads(all)
}

// besideMain heads the cells of Records.less.
var besideMain = []string{"cost less `" + highlighted + "`'s, % [95 %]", "median", "n"}

// estimate is a value with its standard error.
func estimate(format string, v, sem closedloop.Number) string {
	if math.IsNaN(float64(v)) {
		return "–"
	}
	return number(format, float64(v)) + " ± " + number(format, float64(sem))
}

// opening is the first sentence of a case's note: what its problem is.
func (r *Records) opening(name string) string {
	about := r.about(name)
	if about == "" {
		return ""
	}
	return strings.ToUpper(about[:1]) + about[1:] + ". "
}

func (r *Records) evaluationSection(name string, evals []closedloop.Result) section {
	s := section{
		title: name,
		note:  r.opening(name) + fmt.Sprintf("Unseen episodes, seed %d, commit %s, %s. Regret over the n completed, safe episodes, its mean with the 95 %% interval by Student's t. Cost less `%s`'s: on the episodes in which both are safe.%s %s", evals[0].Seed, evals[0].Commit, evals[0].Device, highlighted, r.regretNote(name), loadsOf(evals)),
		rows:  [][]string{slices.Concat([]string{"method", "regret %", "n", "median", "p90", "regret % (paper)"}, besideMain, []string{"safe", "95 % interval", "fail %", "fail % (paper)", "least margin", "p50 ms", "p99 ms", "ms (paper)", "mean ‖Δz‖"})},
	}
	for _, e := range evals {
		p := r.paper(name, e.Method)
		s.rows = append(s.rows, slices.Concat(
			[]string{e.Method + r.seeds(&e), within("%.4f", e.RegretPct, e.RegretSEM, e.RegretN), fmt.Sprint(e.RegretN)}, spread("%.4f", &e.Regret), []string{regretGiven(p)}, r.less(&e),
			[]string{
				safeOf(&e), fmt.Sprintf("[%.4f, %.4f]", e.CI95.Safe[0], e.CI95.Safe[1]),
				number("%.1f", 100*(1-float64(e.Safe))), given(100 - p.Safe), number("%.1e", float64(e.MarginMin)),
				number("%.4f", float64(e.Latency.P50)/1e3), number("%.4f", float64(e.Latency.P99)/1e3), given(p.Milliseconds), number("%.1e", float64(e.Displacement)),
			}))
	}
	for _, m := range r.unrecorded(name, evals) {
		p := r.paper(name, m)
		if math.IsNaN(p.Regret) { // the paper's figures are of other scenes
			continue
		}
		s.lack([]string{m, notRecorded}, map[string]string{"regret % (paper)": regretGiven(p), "fail % (paper)": given(100 - p.Safe), "ms (paper)": given(p.Milliseconds)})
	}
	return s
}

// regretNote says where the paper's regrets of a case are from; "" where it has none.
func (r *Records) regretNote(name string) string {
	for _, p := range r.cases[name].Paper {
		if !math.IsNaN(p.Regret) {
			return " (paper): tab. analytical, 100 trajectories, ± its own, times on its own hardware; its MPC horizon is not stated."
		}
	}
	return ""
}

// goalSection is the table of a case whose episodes have goals (tab.
// multiagent-navigation and multiagent-navigation-margins).
func (r *Records) goalSection(name string, evals []closedloop.Result) section {
	head := []string{"method", "episodes", "safe", "95 % interval", "safe % (paper)", "collision-free", "collision-free % (paper)", "reached", "at end", "gap %", "n", "median", "p90", "gap % (paper)"}
	head = append(append(head, besideMain...), "scene margin", "± s.e.m.", "margin (paper)")
	kinds := slices.Sorted(maps.Keys(evals[0].MarginsMean))
	head = append(append(head, kinds...), "p50 ms", "p99 ms")
	s := section{
		title: name,
		note:  r.opening(name) + fmt.Sprintf("Unseen episodes, seed %d, commit %s, %s. Safe: every robot reached its goal and no margin was violated. Gap: 100 (Σ cost − Σ reference)/Σ reference over the n episodes in which both the method and the 384-candidate reference are safe, with its 95 %% interval by Student's t; median and 90 %% quantile are of the same episodes one by one. Cost less `%s`'s: on the episodes in which those two are safe. Margins: means over episodes of the smallest, m. The paper's: 100 episodes, one unreachable moving scene left out. %s", evals[0].Seed, evals[0].Commit, evals[0].Device, highlighted, loadsOf(evals)),
		rows:  [][]string{head},
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
			e.Method + r.seeds(&e), fmt.Sprint(e.Episodes), number("%.4f", float64(e.Safe)), fmt.Sprintf("[%.4f, %.4f]", e.CI95.Safe[0], e.CI95.Safe[1]), given(p.Safe),
			number("%.4f", float64(e.CollisionFree)), given(p.Collision), number("%.4f", value(e.Reached)), number("%.4f", value(e.AtEnd)),
			within("%.3f", e.GapPct, e.GapSEM, e.RegretN), fmt.Sprint(e.RegretN),
		}
		row = slices.Concat(row, spread("%.3f", &e.Regret), []string{given(p.Gap)}, r.less(&e), []string{number("%.3f", float64(e.MarginMean)), number("%.3f", float64(e.MarginSEM)), given(p.Margin)})
		for _, kind := range kinds {
			m, ok := e.MarginsMean[kind]
			if !ok {
				m = closedloop.Number(math.NaN())
			}
			row = append(row, number("%.3f", float64(m)))
		}
		s.rows = append(s.rows, append(row, number("%.3f", float64(e.Latency.P50)/1e3), number("%.3f", float64(e.Latency.P99)/1e3)))
	}
	for _, m := range r.unrecorded(name, evals) {
		p := r.paper(name, m)
		s.lack([]string{m, notRecorded}, map[string]string{"safe % (paper)": given(p.Safe), "collision-free % (paper)": given(p.Collision), "gap % (paper)": given(p.Gap), "margin (paper)": given(p.Margin)})
	}
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
		title: name + " with measurement noise",
		note:  "The measured state is disturbed; margins and costs are of the true state. The noise is in units of each state's own scale. Regret over the n safe episodes, its mean with the 95 % interval by Student's t. " + loadsOf(evals),
		rows:  [][]string{{"noise", "method", "regret %", "n", "median", "p90", "safe", "95 % interval", "least margin", "p50 ms", "p99 ms"}},
	}
	for _, e := range evals {
		s.rows = append(s.rows, slices.Concat(
			[]string{fmt.Sprint(e.Noise), e.Method, within("%.4f", e.RegretPct, e.RegretSEM, e.RegretN), fmt.Sprint(e.RegretN)}, spread("%.4f", &e.Regret),
			[]string{
				safeOf(&e), fmt.Sprintf("[%.4f, %.4f]", e.CI95.Safe[0], e.CI95.Safe[1]), number("%.1e", float64(e.MarginMin)),
				number("%.4f", float64(e.Latency.P50)/1e3), number("%.4f", float64(e.Latency.P99)/1e3),
			}))
	}
	return s
}

func (r *Records) steeringSections() []section {
	if len(r.Steerings) == 0 {
		return nil
	}
	summary := section{
		title: "Steering by a fixed preference",
		note:  "One map of each case, no retraining. Regret is over the exact optimum of the same episodes under the same preference; hypervolumes are to the nadir of both fronts stretched by a tenth of the range, as shares of the box from there to their ideal.",
		rows:  SteeringSummaryRows(r.Steerings...),
	}
	return append([]section{summary}, each(r.Steerings, func(v closedloop.Steering) section {
		return section{title: fmt.Sprintf("%s: %s under each preference", v.Case, v.Method), figures: steeringFigures(v), rows: SteeringRows(&v)}
	})...)
}

func certificateSection(c batchnav.Certified) section {
	s := section{
		title:   c.Certificate.Case + ": the paper's conditions on this map",
		note:    "Constants are estimated on held-out samples; a condition that does not hold says that the theorem gives no guarantee here, not that the controller failed.",
		figures: recoveryFigures(c),
		rows:    [][]string{{"condition", "claim", "left", "right", "verdict", "note"}},
	}
	for _, v := range c.Certificate.Conditions {
		verdict := string(v.Verdict)
		if v.Verdict == batchnav.DoesNot {
			verdict = strings.ToUpper(verdict)
		}
		s.rows = append(s.rows, []string{v.Name, v.Claim, number("%.3g", float64(v.Left)), number("%.3g", float64(v.Right)), verdict, v.Note})
	}
	return s
}

func benchmarkSection(b bench.Record) section {
	title := "Latency and throughput"
	if _, what, _ := strings.Cut(b.Command, " bench "); !strings.HasPrefix(what, "-") {
		what, _, _ = strings.Cut(what, " --max-load")
		title = strings.TrimSpace(title + " " + strings.TrimSuffix(what, " --json"))
	}
	return section{
		title: title,
		note:  fmt.Sprintf("`%s`, commit %s, %s. The ceiling is the best sustained multiply-add loop of the same instruction set in the same run. Rates count every unit of a network; jacobian, metric and step leave the inactive ReLU units out, so that their fraction by this count can pass 1. %s", b.Command, b.Commit, b.Device, loads([]*closedloop.Load{b.Load})),
		rows:  bench.Rows(b.Results),
	}
}
