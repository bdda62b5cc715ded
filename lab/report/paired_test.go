package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/testrecords"
)

// page is the report of some records.
func page(t *testing.T, records ...any) string {
	t.Helper()
	in, out := t.TempDir(), t.TempDir()
	for i, r := range records {
		require.OK(t, os.WriteFile(filepath.Join(in, string(rune('a'+i))+".json"), require.Get(json.Marshal(r))(t), 0o644))
	}
	all := require.Get(Load(t.Context(), in, known()))(t)
	require.Get(all.Write(t.Context(), out))(t)
	return string(require.Get(os.ReadFile(filepath.Join(out, "report.md")))(t))
}

// An ablation of the first two of four episodes has half the mean regret of the main row
// and, on the same episodes, exactly its cost.
func TestAblationsStandBesideTheMainRowsEpisodes(t *testing.T) {
	text := page(t,
		testrecords.Run("integrator-convex", "navigator", "", 1, 1, 3, 3),
		testrecords.Run("integrator-convex", "navigator-no-lie", "", 1, 1),
		testrecords.Run("integrator-convex", "navigator-no-retraction", "", 1.505, 2.01, 4.03))
	testrecords.RowsHold(t, text, map[string]string{
		"| navigator |":               "| – | – | – | 4/4 |",
		"| navigator-no-lie |":        "| +0.0000 [+0.0000, +0.0000] | +0.0000 | 2 | 2/2 |",
		"| navigator-no-retraction |": "| +1.0000 | 3 | 3/3 |",
	})
	if !strings.Contains(text, "load was at most 2.25, other processes had at most 0.12 CPUs") {
		t.Error("the table does not say under which load its times were taken")
	}
	// The same number is another scene where the oracle's cost is another.
	other := testrecords.Run("integrator-convex", "navigator-no-lie", "", 1)
	other.Outcomes.Oracle[0] = 101
	if got := testrecords.Row(t, page(t, testrecords.Run("integrator-convex", "navigator", "", 1), other), "| navigator-no-lie |"); !strings.Contains(got, "other scenes") {
		t.Errorf("records of other scenes are compared: %s", got)
	}
}

// A dispatch's row says how many trajectories its gap is over, and how many draws were left
// out of how many.
func TestDispatchesSayWhatTheyLeaveOut(t *testing.T) {
	kept := testrecords.Run("opf30", "hold", "envelope", 1, 2, 3)
	kept.Safe, kept.RegretN, kept.Violations, kept.Outcomes.Safe[2] = 2./3, 2, 4, false
	kept.GapPct, kept.GapSEM = 1.5, 0.1
	text := page(t, testrecords.Run("opf30", "navigator", "envelope", 1, 1, 1), kept)
	got := testrecords.Row(t, text, "| envelope | 0 | hold |")
	for _, cells := range []string{"| hold | 2/3 |", "| 896/900 | – | 1.5000 ± 1.2706 | 2 |", "| 2 | 0 of 900 | 7 of 10 |"} {
		if !strings.Contains(got, cells) {
			t.Errorf("%s lacks %s", got, cells)
		}
	}
}

// A record without a load says so, and one above the limit too.
func TestLoadOfRecordedTimes(t *testing.T) {
	for want, all := range map[string][]*closedloop.Load{
		"not recorded.":                             {nil, nil},
		"Of 1 runs it was not recorded":             {nil, {Start: 1}},
		"Of 1 runs it is that of their last part":   {{Start: 1, Partial: true}, {Start: 1}},
		"1 runs were recorded above the limit":      {{Start: 3, Limit: 2, Above: true}, {Start: 1, Limit: 2}},
		"at most 3.00, other processes had at most": {{Start: 3}, {End: 2}},
	} {
		if text := Loads(all); !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
}

// No table has a time that was taken while others had more than an eighth of the machine: a quarter of a CPU of two.
func TestTimesBesideOtherWorkAreLeftOut(t *testing.T) {
	for _, v := range []struct {
		cpus   int
		others float64
		shown  bool
	}{{2, 0.2, true}, {2, 0.3, false}, {1, 0.2, true}, {16, 1.9, true}, {16, 2.1, false}} {
		e := testrecords.Run("integrator-convex", "direct", "", 1, 2)
		e.Latency = closedloop.Latency{Quantiles: closedloop.Quantiles{P50: 1234, P95: 1235, P99: 5678}}
		e.Load = &closedloop.Load{CPUs: v.cpus, Others: v.others}
		p := closedloop.Pairing{Case: "integrator-convex", Load: e.Load, Pairs: []closedloop.Paired{{Method: "direct", Latency: e.Latency}, {Method: "nmpc", Latency: e.Latency}}}
		for kind, record := range map[string]any{"evaluation": e, "pairing": p} {
			text := page(t, record)
			if shown := strings.Contains(text, "1.2340 / 5.6780"); shown != v.shown {
				t.Errorf("%s beside %g of %d CPUs: times shown %v", kind, v.others, v.cpus, shown)
			}
			if says := strings.Contains(text, "Of 1 of 1 runs times are left out"); says == v.shown {
				t.Errorf("%s beside %g of %d CPUs: said %v", kind, v.others, v.cpus, says)
			}
		}
	}
}
