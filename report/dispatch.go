package report

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/closedloop"
)

// regimeSection is the table of a case whose test scenes come in regimes.
func (r *Records) regimeSection(name string, evals []closedloop.Result) section {
	s := section{
		title: name,
		note: fmt.Sprintf("Unseen trajectories, seed %d, commit %s, %s. Feasible is the share of decisions that keep every limit on the plant, the gap 100 (Σ cost − Σ oracle)/Σ oracle. Excluded trajectories are those for which the oracle itself finds a step without a solution, decided before any method ran. Fallbacks are decisions that the exact solver took over.",
			evals[0].Seed, evals[0].Commit, evals[0].Device),
		rows: [][]string{{"regime", "noise", "method", "episodes", "feasible", "95 % interval", "gap %", "paper gap %", "fallbacks", "excluded", "least margin", "p50 ms", "p99 ms", "paper ms", "localize µs", "step µs", "project µs"}},
	}
	for _, e := range evals {
		gap, ms := "–", "–"
		if p := r.paper(name, e.Method); !math.IsNaN(p.Gap) {
			gap, ms = fmt.Sprint(p.Gap), fmt.Sprint(p.Milliseconds)
		}
		s.rows = append(s.rows, []string{
			e.Regime, fmt.Sprint(e.Noise), e.Method, fmt.Sprint(e.Episodes), number("%.5f", float64(e.Feasible)),
			fmt.Sprintf("[%.5f, %.5f]", e.CI95.Feasible[0], e.CI95.Feasible[1]), number("%.4f", float64(e.GapPct)), gap,
			fmt.Sprintf("%d of %d", e.Fallback, e.Decisions), fmt.Sprint(e.Excluded), number("%.1e", float64(e.MarginMin)),
			number("%.4f", float64(e.Latency.P50)/1e3), number("%.4f", float64(e.Latency.P99)/1e3), ms,
			number("%.1f", float64(e.Shares.Localize)), number("%.1f", float64(e.Shares.Step)), number("%.1f", float64(e.Shares.Project)),
		})
	}
	return s
}
