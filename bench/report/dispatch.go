package report

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/closedloop"
)

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
