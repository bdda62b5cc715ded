package publish

import (
	"fmt"
	"math"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/report"
	"github.com/gpc-engine/gpc/lab/testrecords"
)

// aboutTheGeometry holds the words about plain networks: they are those of their pairings: whose interval leaves out zero, and how large a
// difference is.
func aboutTheGeometry(t *testing.T, c *claims) {
	t.Helper()
	rows, clear, most := 0, 0, map[string]float64{}
	for _, r := range report.RunsOf(recorded(t), (*report.Records).PairedCases) {
		for _, p := range plainPairings(r) {
			m := &p.Pairs[1]
			if m.ModelSHA256 == p.Pairs[0].ModelSHA256 || p.Pairs[2].ModelSHA256 == m.ModelSHA256 {
				t.Errorf("%s: a map stands beside itself", r.Name)
			}
			rows++
			if ci := m.Difference.MeanCI95; ci[0] > 0 || ci[1] < 0 {
				clear++
			}
			family := r.Name[:3]
			most[family] = max(most[family], math.Abs(float64(m.Difference.Mean)))
		}
	}
	if len(most) != 2 {
		t.Fatalf("pairings of %v", most)
	}
	words := []string{"none", "one", "two", "three", "four", "five", "six"}
	c.says("The two differ by at most %.3f %% in the integrator's cases and %.5f %% in the dispatch, and in %s of the %s rows the interval of the difference leaves out zero.", most["int"], most["opf"], words[clear], words[rows])
}

// aboutTheTradeOff holds the words about the trade-off of opf30: they are those of evaluations under its loads, of the exact front and of pairings at
// fixed weightings.
func aboutTheTradeOff(c *claims, r records) {
	c.t.Helper()
	c.says("`runopf`, which minimises cost alone, is within %.0e %% of its optimum, the merit order costs %.2f %%, and a map with half of the signs of D_u turned costs %.2f %% more",
		float64(r.of("opf30", "runopf", "paper").GapPct), float64(r.of("opf30", "merit", "paper").GapPct), r.printed("BenchmarkMonitor/opf30/half_of_the_signs", "above_%"))
	front := r.all.alongFront("opf30", []float64{1, 0, 0})
	c.says("From the dispatch of least cost to w = (1, 0, 0) J₁ changes by %s %% along the exact front and J₃ by %s %%.", front[0], front[2])
	at := func(method string) string {
		return r.paired("opf30-weighting-0.5-0.5-0.json", method).RegretPct.Text("%.2g")
	}
	c.says("At w = (0.5, 0.5, 0) `runopf` costs %s %% above the optimum and `merit` %s %%, `direct` %s %% and `navigator` %s %%.", at("runopf"), at("merit"), at("direct"), at("navigator"))
}

// A plain network, the map of the same data and the bundled one are rows of a pairing, and how the objectives move is read
// from the sweep at the same weights.
func TestPlainNetworksAndWeightingsAreShown(t *testing.T) {
	all := report.New("here", known())
	row := func(method, sum string, regret closedloop.Number) closedloop.Paired {
		return closedloop.Paired{Method: method, ModelSHA256: sum, Episodes: 3, Safe: 3, Decisions: 30, RegretPct: regret, RegretCI95: 0.1, RegretN: 3, Compared: 3, Difference: closedloop.RegretStatistics{N: 3, Mean: regret - 1}}
	}
	report.Set(all, []closedloop.Pairing{
		{Case: "opf30", Regime: report.PaperRegime, Map: closedloop.PairedMap{File: "opf30-plain", Samples: 12000}, Pairs: []closedloop.Paired{row("direct", "a", 1), row("direct", "b", 1.5), row("direct", "c", 0.5)}},
		{Case: "opf30", Regime: "envelope", Preference: []float64{1, 0, 0}, Pairs: []closedloop.Paired{row("mo-opf", "", 0), row("direct", "c", 0.25)}},
	})
	report.Set(all, []closedloop.Steering{{Case: "opf30", Front: []closedloop.FrontPoint{
		{W: []float64{0, 0, 1}, OracleJ: []closedloop.Number{4, 2, 100}}, {W: []float64{1, 0, 0}, OracleJ: []closedloop.Number{1, 3, 101}},
	}}})
	testrecords.RowsHold(t, devices{all}.geometry(), map[string]string{
		"| `opf30` | paper | the paper's losses | 12 000 | `a` |":           "| – | – | 3 |",
		"| `opf30` | paper | plain: the action loss alone | 12 000 | `b` |": "| 1.5000 ± 0.1000 | +0.5000 [",
		fmt.Sprintf("| `opf30` | paper | %s |", report.BundledMap):          "| `c` | 3/3 | 0 of 30 |",
	})
	testrecords.RowsHold(t, devices{all}.tradeOff(), map[string]string{"| w = (1, 0, 0) | -75.0 | +50.0 | +1.0 |": "| 0.0000 ± 0.1000 | 0.2500 ± 0.1000 | – |"})
}
