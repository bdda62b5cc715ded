package publish

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/report"
	"github.com/gpc-engine/gpc/lab/testrecords"
)

// Networks are shown as far as they are recorded, and nowhere but in their own tables.
func TestNetworksAreShownAsFarAsTheyAreRecorded(t *testing.T) {
	if text := (devices{report.New("none", nil)}).networks(); text != "None of the 6 networks is recorded yet.\n" {
		t.Errorf("without records: %q", text)
	}
	timed := bench.Record{Device: "a device", Commit: "c0ffee", Load: &closedloop.Load{CPUs: 2, Start: 0.5}}
	for i, way := range networkWays[:4] {
		timed.Results = append(timed.Results, bench.Result{
			Op: "dispatch, " + way, Case: "opf:case118.m", Size: "118 buses, envelope:0.7:1",
			P50: 100 * float64(i+1), P99: 2000, Outcome: []string{"59/60 optimal", "60/60 optimal", "60/60 keep the limits, 0.0023 % above the optimum", "58/60 keep the limits, 0.51 % above the optimum"}[i],
		})
	}
	loop := testrecords.Run("opf:pglib_opf_case300_ieee.m", "direct", "envelope:0.92:1:0.08", 1, 2)
	loop.Fallback, loop.GapPct, loop.GapSEM, loop.Latency = 12, 1.5, 0.5, closedloop.Latency{Quantiles: closedloop.Quantiles{P50: 934, P99: 4000}}
	all := recorded(t)
	before := map[string]string{}
	for _, doc := range documents {
		before[doc.page+doc.name] = doc.text(all)
	}
	report.Put(all[0], timed)
	report.Put(all[0], loop)
	for _, doc := range documents {
		if doc.name != "networks" && doc.text(all) != before[doc.page+doc.name] {
			t.Errorf("%q in %s shows them too", doc.name, doc.page)
		}
	}
	own := report.New("own", known())
	report.Set(own, []bench.Record{timed})
	report.Set(own, []closedloop.Result{loop})
	text := devices{own}.networks()
	testrecords.RowsHold(t, text, map[string]string{
		"| 118, MATPOWER (no line rated) | 0.1 / 2 ": "| 0.1 / 2 | 0.2 / 2 | 0.3 / 2 | 0.4 / 2 | – | – | – | – |",
		"| 118, MATPOWER (no line rated) | envelope": "| envelope:0.7:1 | – | – | – | 59/60 optimal | 60/60 optimal | 60/60 keep the limits, 0.0023 % above the optimum | 58/60 keep the limits, 0.51 % above the optimum | – |",
		"| 300, PGLib | – ":                          "| – | – | – | – | – | – | 0.934 / 4 of all | – |",
		"| 300, PGLib | envelope":                    "| envelope:0.92:1:0.08 | – | 600/600, 1.5000 ± 6.3531, 2, 12 | – | – |",
	})
	if _, below, _ := strings.Cut(text, "\nWithout a record: "); !strings.Contains(below, "30, MATPOWER") || !strings.Contains(below, "1354, PEGASE") || strings.Contains(text, "| 30, MATPOWER") {
		t.Errorf("networks without a record are not named below the tables: %s", text)
	}
	if !strings.Contains(text, "c0ffee") || !strings.Contains(text, "was at most 2.25") {
		t.Errorf("commit and load are not said: %s", text)
	}
}

func share(of, whole float64) string { return fmt.Sprintf("%.2g", of/whole) }

// enumerated is a, b and c.
func enumerated(all []string) string {
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " and " + all[last]
}

// What the pages say of networks beside their tables is what was recorded: a map's decisions beside warm
// solves, and what projecting one takes of them.
func TestTheTextOfNetworksIsOfTheirRecords(t *testing.T) {
	all := devices(recorded(t))
	var faster, slower []float64
	var deciding, projecting, holding []string
	var aimed []float64 // medians of a projection that had an aim, µs, the smallest network left out
	for _, network := range networks {
		n := all.onNetwork(network.name)
		exact, projected, held := n.way(network.name, "exact, warm"), n.way(network.name, "projection of map"), n.way(network.name, "projection of hold")
		solver, direct := n.method("mo-opf"), n.method("direct")
		if exact == nil || projected == nil || held == nil || solver == nil {
			t.Fatalf("%s: no times of a dispatch", network.name)
		}
		projecting, holding = append(projecting, share(projected.P50, exact.P50)), append(holding, share(held.P50, exact.P50))
		if network.title != networks[0].title {
			aimed = append(aimed, projected.P50)
		}
		if direct == nil {
			continue // no map
		}
		deciding = append(deciding, share(float64(direct.Latency.P50), float64(solver.Latency.P50)))
		if of := float64(direct.Latency.P50 / solver.Latency.P50); of < 1 {
			faster = append(faster, of)
		} else {
			slower = append(slower, of)
		}
	}
	if len(faster) != 4 || len(slower) != 1 {
		t.Fatalf("a map takes %v and %v of a solver's time", faster, slower)
	}
	r := records{t, recorded(t)}
	var exact, navigator, direct []float64
	for _, name := range []string{"opf30", "opf30-uncertain"} {
		for _, loads := range []string{"paper", "swing", "envelope"} {
			p50 := func(method string) float64 { return float64(r.of(name, method, loads).Latency.P50) / 1e3 }
			exact, navigator, direct = append(exact, p50("mo-opf")), append(navigator, p50("navigator")/p50("mo-opf")), append(direct, p50("direct")/p50("mo-opf"))
		}
	}
	cases := fmt.Sprintf("takes %s times the solver's", ranging("%.2g", append(faster, slower...)))
	for page, says := range map[string][]string{
		casesPage: {cases},
		"docs/results/dispatch.md": {
			fmt.Sprintf("takes %s ms a step at the median (AVX-512). `navigator` takes %s times that, and `direct` %s.", ranging("%.2f", exact), ranging("%.1f", navigator), ranging("%.2f", direct)),
			fmt.Sprintf("`direct` takes %s of the median time", enumerated(deciding)),
			fmt.Sprintf("takes %s of a warm solve from an optimum", enumerated(projecting)),
			fmt.Sprintf("and %s from the last dispatch", enumerated(holding)),
			fmt.Sprintf("All three are missed: it takes %.0f to %.0f µs, %.0f to %.0f µs and %.0f µs at the median.", aimed[0], aimed[1], aimed[2], aimed[3], aimed[4]),
		},
	} {
		for _, text := range says {
			if !strings.Contains(unwrapped(t, page), text) {
				t.Errorf("%s does not say %q", page, text)
			}
		}
	}
}
