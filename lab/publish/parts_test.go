package publish

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/lab/report"
	"github.com/gpc-engine/gpc/lab/testrecords"
)

// The parts of Algorithm 2 that the paper leaves out stand beside the whole, in a pairing where
// the bundled map lacks the part.
func TestAblationsStandBesideTheWhole(t *testing.T) {
	all := report.New("here", known())
	report.Set(all, []closedloop.Result{testrecords.Run("opf30", "navigator", report.PaperRegime, 1, 1, 3), testrecords.Run("opf30", "navigator-no-lie", report.PaperRegime, 1.505, 2.01, 4.03)})
	pair := func(method string) closedloop.Paired {
		return closedloop.Paired{Method: method, Episodes: 3, Safe: 3, Compared: 3, Difference: closedloop.RegretStatistics{N: 3, Mean: 0.5, Median: 0.25}}
	}
	report.Set(all, []closedloop.Pairing{{Case: "opf30", Regime: report.PaperRegime, Map: closedloop.PairedMap{File: "refined"}, Pairs: []closedloop.Paired{pair("navigator"), pair("navigator-no-rollout")}}})
	got := devices{all}.ablations()
	testrecords.RowsHold(t, got, map[string]string{
		"| opf30 | paper | `navigator-no-lie` |":     "| +0.8333 [",
		"| opf30 | paper | `navigator-no-rollout` |": "| 3/3, map `refined` | +0.5000 [",
	})
	if !strings.Contains(got, "\nWithout a record: `navigator-no-semantic` of `opf30`, loads paper") || strings.Contains(got, "| `navigator-no-semantic` |") {
		t.Errorf("a part without a record is not named below the table:\n%s", got)
	}
	if strings.Contains(got, "navigator-no-projection") {
		t.Error("a part that the paper does not leave out stands among those that it does")
	}
	if report.Undisturbed(&report.Of[closedloop.Pairing](all)[0]) {
		t.Error("an ablation's pairing counts among those of whole methods")
	}
}

// A search without one of its parts stands beside the whole one on the episodes of both, under
// the loads of both, and so does the map without a search; another search's parts do not.
func TestPartsOfASearchStandBesideTheWhole(t *testing.T) {
	all := report.New("here", known())
	report.Set(all, []closedloop.Result{
		testrecords.Run("opf30", "refine-64", report.PaperRegime, 1, 1, 3),
		testrecords.Run("opf30", "refine-64-no-rollout", report.PaperRegime, 1.505, 2.01, 4.03),
		testrecords.Run("opf30", "direct", report.PaperRegime, 2.01, 2.01, 6.09),
		testrecords.Run("opf30", "refine-512-no-rollout", report.PaperRegime, 1, 1, 3),
		testrecords.Run("opf30", "refine-64-no-rollout", "swing", 1, 1, 3),
	})
	got := devices{all}.searchParts()
	testrecords.RowsHold(t, got, map[string]string{
		"| opf30 | paper | `refine-64` |":            "| 3/3 | ",
		"| opf30 | paper | `refine-64-no-rollout` |": "| +0.8333 [",
		"| opf30 | paper | `direct` |":               "| +1.6667 [",
	})
	for _, absent := range []string{"512", "swing"} { // there is no whole search there
		if strings.Contains(got, absent) {
			t.Errorf("%s stands beside nothing:\n%s", absent, got)
		}
	}
}
