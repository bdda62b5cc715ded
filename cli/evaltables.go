package cli

import (
	"fmt"
	"io"

	"github.com/gpc-engine/gpc/closedloop"
)

func renderEvaluation(w io.Writer, results []*closedloop.Result) {
	rows := [][]string{{"case", "method", "episodes", "safe", "95 % interval", "failed", "min margin", "tolerance", "fallbacks", "p50 µs", "p99 µs", "mean ‖Δz‖"}}
	regrets := [][]string{{"regret %", "n", "mean", "95 % interval", "median", "95 % interval", "p90", "95 % interval", "max", "above max %", "gap %", "± s.e.m."}}
	for _, r := range results {
		rows = append(rows, []string{
			r.Case, r.Method, fmt.Sprint(r.Episodes), r.Safe.Text("%.4f"),
			fmt.Sprintf("[%.4f, %.4f]", r.CI95.Safe[0], r.CI95.Safe[1]), fmt.Sprint(r.Failed), r.MarginMin.Text("%.2e"), fmt.Sprintf("%.0e", r.Tolerance),
			fmt.Sprint(r.Fallback), r.Latency.P50.Text("%.1f"), r.Latency.P99.Text("%.1f"), r.Displacement.Text("%.2e"),
		})
		if g := r.Regret; g.N > 0 {
			regrets = append(regrets, []string{
				r.Method, fmt.Sprint(g.N), g.Mean.Text("%.4f"), between("%.4f", g.MeanCI95), g.Median.Text("%.4f"), between("%.4f", g.MedianCI95),
				g.P90.Text("%.4f"), between("%.4f", g.P90CI95), g.Max.Text("%.4f"), fmt.Sprintf("≤ %.2f", 100*g.BeyondCI95[1]), r.GapPct.Text("%.4f"), r.GapSEM.Text("%.4f"),
			})
		}
	}
	Table(w, rows)
	if len(regrets) > 1 {
		Table(w, regrets)
	}
	renderGoals(w, results)
	for _, r := range results {
		if r.Safe == 1 && r.MarginMin < 0 {
			fmt.Fprintf(w, "%s: safe, since no margin is below −%g, the tolerance of the case; the least is %s\n", r.Method, r.Tolerance, r.MarginMin.Text("%.2e"))
		}
		renderLate(w, r.Method, r.Decisions, r.Late, r.Computing)
		renderPrepare(w, r.Method, r.Prepare)
		renderGuard(w, r.Method, r.Decisions, r.Guard)
		renderBounds(w, r.Method, r.Decisions, r.Gap)
		renderOther(w, r.Plant, r.Steps)
		renderBeyond(w, r.Beyond)
	}
}

// between writes an interval, with a dash for an open end.
func between(verb string, i closedloop.OpenInterval) string {
	return "[" + i[0].Text(verb) + ", " + i[1].Text(verb) + "]"
}

// unsafeListed are the unsafe episodes of a result that are printed.
const unsafeListed = 5

// renderGoals adds what results with goals say beyond the tables, draws that were left
// out, and unsafe episodes with their causes.
func renderGoals(w io.Writer, results []*closedloop.Result) {
	for i, r := range results {
		if same := i > 0 && r.Case == results[i-1].Case && r.Excluded == results[i-1].Excluded && r.Episodes == results[i-1].Episodes; r.Excluded > 0 && !same {
			fmt.Fprintf(w, "%s: %d of %d draws were left out before any method ran\n", r.Case, r.Excluded, r.Episodes+r.Excluded)
		}
		if r.Reached != nil {
			gap := "no episode to compare with the reference, which is safe in none of them"
			if r.RegretN > 0 {
				gap = fmt.Sprintf("gap to the reference %s ± %s %% over %d episodes", r.GapPct.Text("%.3f"), r.GapSEM.Text("%.3f"), r.RegretN)
			}
			fmt.Fprintf(w, "%s %s: collision-free %s, reached %s, at the end %s; %s; mean smallest margin %s ± %s m\n",
				r.Case, r.Method, r.CollisionFree.Text("%.4f"), r.Reached.Text("%.4f"), r.AtEnd.Text("%.4f"), gap, r.MarginMean.Text("%.3f"), r.MarginSEM.Text("%.3f"))
		}
		if m := r.Starts; m != nil {
			fmt.Fprintf(w, "%s %s: of %d solves %s converged, of these %s to within 0.01 %% of their episode's best; the worst lies above it by %s %% in the mean %s, at most %s %%\n",
				r.Case, r.Method, m.Solves, m.Converged.Text("%.4f"), m.Best.Text("%.4f"), m.GapPct.Mean.Text("%.4f"), between("%.4f", m.GapPct.MeanCI95), m.GapPct.Max.Text("%.4f"))
		}
		for i, u := range r.Unsafe {
			if i == unsafeListed {
				fmt.Fprintf(w, "%s: and %d more; --json lists all\n", r.Method, len(r.Unsafe)-i)
				break
			}
			fmt.Fprintf(w, "%s unsafe: seed %d, episode %d: %s\n", r.Method, r.Seed, u.Episode, u.Cause)
		}
	}
}
