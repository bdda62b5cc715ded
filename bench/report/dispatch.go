package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
)

// regimeSection is the table of a case whose test scenes come in regimes.
func (r *Records) regimeSection(name string, evals []closedloop.Result) section {
	s := section{
		title: name,
		keys:  3, parts: []string{"gap %", "fallbacks"},
		note:       r.opening(name) + fmt.Sprintf("Unseen trajectories. Kept are the trajectories without a violation, with their 95 %% interval; dispatches are those that keep every limit on the plant, and those of one trajectory are not independent. The gap is 100 (Σ cost − Σ oracle)/Σ oracle over the n trajectories kept, the others left out, with the 95 %% interval over trajectories by Student's t; median and 90 %% quantile are of the same trajectories one by one. Cost less `%s`'s: on the trajectories that both keep. Excluded are draws for which the oracle itself finds a step without a solution, decided before any method ran. Fallbacks are decisions that the exact solver took over.", r.leading(name)),
		provenance: originOf(evals),
		rows: [][]string{slices.Concat([]string{"regime", "noise", "method", "kept", "95 % interval", "dispatches", "feasible % (paper)", "gap %", "n", "median", "p90", "gap % (paper)"}, besideMain(r.leading(name)),
			[]string{"fallbacks", "draws excluded", "least margin", "p50 ms", "p99 ms", "(paper)", "localize µs", "step µs", "project µs"})},
	}
	for _, e := range evals {
		p := r.inRegime(&e)
		s.rows = append(s.rows, slices.Concat(
			[]string{
				e.Regime, fmt.Sprint(e.Noise), e.Method + r.seeds(&e), safeOf(&e), safeInterval(&e), dispatches(&e), given(p.Feasible),
				within("%.4f", e.GapPct, e.GapSEM, e.RegretN), fmt.Sprint(e.RegretN),
			},
			spread("%.4f", &e.Regret), []string{given(p.Gap)}, r.less(&e),
			[]string{
				fmt.Sprintf("%d of %d", e.Fallback, e.Decisions), excluded(&e), e.MarginMin.Text("%.1e"),
				number("%.4f", float64(e.Latency.P50)/1e3), number("%.4f", float64(e.Latency.P99)/1e3), given(p.Milliseconds),
				e.Shares.Localize.Text("%.1f"), e.Shares.Step.Text("%.1f"), e.Shares.Project.Text("%.1f"),
			}))
	}
	s.absent = r.absent(name, r.lackedLikePaper(name))
	return s
}

// dispatches is how many decisions kept every limit.
func dispatches(e *closedloop.Result) string {
	return fmt.Sprintf("%d/%d", e.Decisions-e.Violations, e.Decisions)
}

// excluded is how many draws of scenes were left out, of all.
func excluded(e *closedloop.Result) string {
	return fmt.Sprintf("%d of %d", e.Excluded, e.Episodes+e.Excluded)
}

// dispatch is a table of every method of the cases with regimes, without noise; networks in
// files have tables of their own.
func (d devices) dispatch() string {
	s := section{rows: [][]string{slices.Concat([]string{"case", "loads", "method", "kept", "dispatches", "feasible % (paper)", "gap % ± 95 %", "gap % (paper)", "n"}, besideMain(algorithmTwo), []string{"fallbacks", "p50 / p99, ms", "(paper)"})}}
	for _, r := range runs(d, (*Records).named) {
		if strings.HasPrefix(r.name, networkCase) {
			continue
		}
		for _, e := range r.inRegimes(r.name) {
			if e.Noise > 0 {
				continue
			}
			p := r.inRegime(&e)
			s.rows = append(s.rows, slices.Concat(
				[]string{r.name, e.Regime, r.titled(&e), safeOf(&e), dispatches(&e), given(p.Feasible), within("%.4f", e.GapPct, e.GapSEM, e.RegretN), given(p.Gap), fmt.Sprint(e.RegretN)},
				r.less(&e), []string{fmt.Sprint(e.Fallback), milliseconds("%.3f", &e.Latency), given(p.Milliseconds)}))
		}
		if absent := r.absent(r.name, r.lackedLikePaper(r.name)); len(absent) > 0 {
			s.absent = append(s.absent, r.name+": "+strings.Join(absent, ", "))
		}
	}
	return tables(s)
}
