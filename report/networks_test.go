package report

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/must"
)

// Networks are shown as far as they are recorded, and nowhere but in their own tables.
func TestNetworksAreShownAsFarAsTheyAreRecorded(t *testing.T) {
	if text := (devices{New("none", nil)}).networks(); text != "None of the 6 networks is recorded yet.\n" {
		t.Errorf("without records: %q", text)
	}
	timed := bench.Record{Device: "a device", Commit: "c0ffee", Load: &closedloop.Load{CPUs: 2, Start: 0.5}}
	for i, way := range networkWays[:4] {
		timed.Results = append(timed.Results, bench.Result{
			Op: "dispatch, " + way, Case: "opf:case118.m", Size: "118 buses, envelope:0.7:1",
			P50: 100 * float64(i+1), P99: 2000, Outcome: []string{"59/60 optimal", "60/60 optimal", "60/60 keep the limits, 0.0023 % above the optimum", "58/60 keep the limits, 0.51 % above the optimum"}[i],
		})
	}
	loop := drawnRun("opf:pglib_opf_case300_ieee.m", "direct", "envelope:0.92:1:0.08", 1, 2)
	loop.Fallback, loop.GapPct, loop.GapSEM, loop.Latency = 12, 1.5, 0.5, closedloop.Quantiles{P50: 934, P99: 4000}
	all := recorded(t)
	before := map[string]string{}
	for _, doc := range documents {
		before[doc.page+doc.name] = doc.text(all)
	}
	all[0].Benchmarks, all[0].Evaluations = append(all[0].Benchmarks, timed), append(all[0].Evaluations, loop)
	for _, doc := range documents {
		if doc.name != "networks" && doc.text(all) != before[doc.page+doc.name] {
			t.Errorf("%q in %s shows them too", doc.name, doc.page)
		}
	}
	own := New("own", known())
	own.Benchmarks, own.Evaluations = []bench.Record{timed}, []closedloop.Result{loop}
	text := devices{own}.networks()
	for begin, cells := range map[string]string{
		"| 118, MATPOWER (no line rated) | 0.1 / 2 ": "| 0.1 / 2 | 0.2 / 2 | 0.3 / 2 | 0.4 / 2 | – | – | – | – |",
		"| 118, MATPOWER (no line rated) | envelope": "| envelope:0.7:1 | – | – | – | 59/60 optimal | 60/60 optimal | 60/60 keep the limits, 0.0023 % above the optimum | 58/60 keep the limits, 0.51 % above the optimum | – |",
		"| 300, PGLib | – ":                          "| – | – | – | – | – | – | 0.934 / 4 | – |",
		"| 300, PGLib | envelope":                    "| envelope:0.92:1:0.08 | – | 600/600, 1.5000 ± 6.3531, 2, 12 | – | – |",
		"| 30, MATPOWER ":                            "| not recorded | – | – |",
		"| 1354, PEGASE ":                            "| not recorded | – | – |",
	} {
		if line := row(t, text, begin); !strings.Contains(line, cells) {
			t.Errorf("%q does not have %q", line, cells)
		}
	}
	if !strings.Contains(text, "c0ffee") || !strings.Contains(text, "was at most 2.25") {
		t.Errorf("commit and load are not said: %s", text)
	}
}

// What the pages say of the projection beside the exact solver is what the table of docs/opf.md has.
func TestTheTextOfNetworksIsTheirTable(t *testing.T) {
	table := regexp.MustCompile(`(?m)^\| (\S* ?\S+) \| (\d+) \| [^|]+ \| (\d+) \([0-9.]+\) \|`).FindAllStringSubmatch(string(must.Get(os.ReadFile("../docs/opf.md"))(t)), -1)
	var faster []float64 // times the projection is, up to 300 buses
	slower := 0.0        // times it takes at 1354
	for _, row := range table {
		exact, projection := must.Get(strconv.ParseFloat(row[2], 64))(t), must.Get(strconv.ParseFloat(row[3], 64))(t)
		if strings.Contains(row[1], "1354") {
			slower = projection / exact
		} else {
			faster = append(faster, exact/projection)
		}
	}
	if len(faster) != 5 {
		t.Fatalf("the rows are %q", table)
	}
	ratio := fmt.Sprintf("%.1f to %.0f times", slices.Min(faster), slices.Max(faster))
	for page, says := range map[string][]string{
		"README.md": {"that errs by 0.01 pu is " + ratio + " as fast as that solver, on 1354 the solver is the faster one."},
		"docs/opf.md": {
			"up to 300 buses: projecting a decision that errs by 0.01 pu is " + ratio + " as fast as our own exact solver",
			fmt.Sprintf("up to 300 buses, by %s, and takes %.1f times as long at 1354.", ratio, slower),
		},
	} {
		for _, text := range says {
			if !strings.Contains(unwrapped(t, page), text) {
				t.Errorf("%s does not say %q", page, text)
			}
		}
	}
}
