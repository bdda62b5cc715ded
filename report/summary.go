package report

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/marked"
)

// Marks around the summary in a document.
var summary = marked.Section{Begin: "<!-- results: written by gpc report --summary -->", End: "<!-- end of results -->"}

// Summary is the few rows of the recorded runs that a reader should see first, as
// Markdown tables. A case that was recorded on several devices is shown as on the
// first.
func Summary(devices ...*Records) string {
	var b bytes.Buffer
	regret := section{rows: [][]string{{"case", "method", "regret % (ours)", "regret % (paper)", "safe episodes", "decision p50, ms (ours)", "(paper)"}}}
	navigation := section{rows: [][]string{{"case", "method", "safe episodes", "95 % interval", "mean least margin, m", "gap % to the reference", "decision p50 / p99, ms"}}}
	dispatch := section{rows: [][]string{{"case", "loads", "method", "feasible dispatches", "gap % (ours)", "gap % (paper)", "fallbacks", "decision p50 / p99, ms (ours)", "(paper)"}}}
	type run struct {
		device *Records
		name   string
	}
	var runs []run
	for _, r := range devices {
		for _, name := range r.named() {
			if !slices.ContainsFunc(runs, func(other run) bool { return other.name == name }) {
				runs = append(runs, run{r, name})
			}
		}
	}
	for _, run := range runs {
		r, name := run.device, run.name
		for _, e := range r.of(name) {
			if !r.method(name, e.Method).Brief {
				continue
			}
			safe := fmt.Sprintf("%.0f/%d", float64(e.Safe)*float64(e.Episodes), e.Episodes)
			if e.Reached != nil {
				navigation.rows = append(navigation.rows, []string{
					name, "`" + e.Method + "`", safe, fmt.Sprintf("[%.4f, %.4f]", e.CI95.Safe[0], e.CI95.Safe[1]),
					estimate("%.3f", e.MarginMean, e.MarginSEM), estimate("%.2f", e.GapPct, e.GapSEM), milliseconds(e.Latency.P50) + " / " + milliseconds(e.Latency.P99),
				})
				continue
			}
			paper, paperTime := "–", "–"
			if p := r.paper(name, e.Method); !math.IsNaN(p.Regret) {
				paper, paperTime = fmt.Sprintf("%g ± %g", p.Regret, p.RegretSEM), fmt.Sprintf("%g", p.Milliseconds)
			}
			regret.rows = append(regret.rows, []string{
				name, "`" + e.Method + "`", fmt.Sprintf("%.4f ± %.4f", float64(e.RegretPct), float64(e.RegretSEM)), paper,
				safe, milliseconds(e.Latency.P50), paperTime,
			})
		}
		for _, e := range r.inRegimes(name) {
			if e.Noise > 0 || !r.method(name, e.Method).Brief {
				continue
			}
			gap, paperTime := "–", "–"
			if p := r.paper(name, e.Method); !math.IsNaN(p.Gap) && e.Regime == "paper" {
				gap, paperTime = fmt.Sprint(p.Gap), fmt.Sprint(p.Milliseconds)
			}
			dispatch.rows = append(dispatch.rows, []string{
				name, e.Regime, "`" + e.Method + "`", fmt.Sprintf("%d/%d", e.Decisions-e.Violations, e.Decisions),
				number("%.4f", float64(e.GapPct)), gap, fmt.Sprint(e.Fallback),
				milliseconds(e.Latency.P50) + " / " + milliseconds(e.Latency.P99), paperTime,
			})
		}
	}
	for _, s := range []section{regret, dispatch, navigation} {
		if len(s.rows) > 1 {
			b.WriteByte('\n')
			s.table(&b)
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

func milliseconds(v closedloop.Number) string { return number("%.4f", float64(v)/1e3) }

// WriteSummary replaces what stands between the marks in the document at path.
func WriteSummary(path string, devices ...*Records) error {
	if _, err := summary.Replace(path, Summary(devices...), true); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
