package publish

import (
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/report"
)

// worthOf is a pairing by candidates: the map, the primitives in its place with as many candidates,
// and the descents with as many as take its time.
func worthOf(times bool) closedloop.Pairing {
	cost := func(mean closedloop.Number) closedloop.RegretStatistics {
		return closedloop.RegretStatistics{N: 90, Mean: mean, MeanCI95: closedloop.OpenInterval{mean - 0.25, mean + 0.25}, Median: mean / 2}
	}
	took := func(p50 closedloop.Number) (closedloop.Latency, closedloop.Number) {
		if !times {
			nan := closedloop.Number(math.NaN())
			return closedloop.Latency{Quantiles: closedloop.Quantiles{P50: nan, P95: nan, P99: nan}}, nan
		}
		return closedloop.Latency{Quantiles: closedloop.Quantiles{P50: p50, P95: 2 * p50, P99: 3 * p50}}, p50 * 1.5
	}
	p := closedloop.Pairing{Case: "multiagent-static", Seed: 9, Commit: "c", Device: "machine", Pairs: []closedloop.Paired{
		{Method: "planner", Episodes: 100, Safe: 99, MarginMean: 0.3, MarginCI95: 0.02},
		{Method: "planner-no-latent-primitives", Episodes: 100, Safe: 98, Cost: cost(0.5), MarginMean: 0.25},
		{Method: "planner-no-latent-descents", Candidates: 8192, Episodes: 100, Safe: 97, Cost: cost(-0.5), MarginMean: 0.35},
	}}
	for i, p50 := range []closedloop.Number{4000, 2000, 4400} {
		p.Pairs[i].Latency, p.Pairs[i].LatencyMean = took(p50)
	}
	return p
}

// The table of a pairing by candidates says in what each row is like the map's, what it costs beside
// it, and how long it takes; without times it says that there are none. No other table has it.
func TestWhatTheMapIsWorth(t *testing.T) {
	for _, times := range []bool{true, false} {
		r := report.New("machine", known())
		report.Set(r, []closedloop.Pairing{worthOf(times)})
		d := devices{r}
		want := []string{
			"| `planner-no-latent-primitives` | 4096 | candidates | 98/100 | +0.50 [+0.25, +0.75] | +0.25 | 90 | 0.250 ",
			"| `planner-no-latent-descents` | 8192 | time | 97/100 | -0.50 [-0.75, -0.25] | -0.25 | 90 | 0.350 ",
		}
		if !times {
			want = append(want, "Recorded without times.")
		}
		for _, text := range want {
			if got := d.candidates("multiagent-static"); !strings.Contains(got, text) {
				t.Errorf("times %v: no %q in\n%s", times, text, got)
			}
		}
		if got := d.quality() + d.projections() + d.replacedConstants(); strings.Contains(got, "no-latent") {
			t.Errorf("another table has it:\n%s", got)
		}
	}
}
