package publish

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// drawnRun is a record of episodes whose regrets are given, in %; the oracle's cost is 100.
func drawnRun(name, method, regime string, regrets ...float64) closedloop.Result {
	r := closedloop.Result{
		Case: name, Method: method, Regime: regime, Episodes: len(regrets), Safe: 1, RegretN: len(regrets), Decisions: 300 * len(regrets), Excluded: 7,
		Outcomes: &closedloop.Outcomes{}, Load: &closedloop.Load{CPUs: 2, Start: 1, End: 2.25, Others: 0.5},
	}
	for i, v := range regrets {
		r.RegretPct += closedloop.Number(v / float64(len(regrets)))
		o := r.Outcomes
		o.Episode, o.Safe = append(o.Episode, i), append(o.Safe, true)
		o.Cost, o.Oracle = append(o.Cost, 100+v), append(o.Oracle, 100)
	}
	return r
}

// page is the report of some records.
func page(t *testing.T, records ...any) string {
	t.Helper()
	in, out := t.TempDir(), t.TempDir()
	for i, r := range records {
		require.OK(t, os.WriteFile(filepath.Join(in, string(rune('a'+i))+".json"), require.Get(json.Marshal(r))(t), 0o644))
	}
	all := require.Get(report.Load(t.Context(), in, known()))(t)
	require.Get(all.Write(t.Context(), out))(t)
	return string(require.Get(os.ReadFile(filepath.Join(out, "report.md")))(t))
}

// row is the line of a page's first table row that begins so.
func row(t *testing.T, page, begin string) string {
	t.Helper()
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, begin) {
			return line
		}
	}
	t.Fatalf("no row %q in\n%s", begin, page)
	return ""
}

// rowsHold asks that the page has, of each row's beginning, the cells.
func rowsHold(t *testing.T, page string, want map[string]string) {
	t.Helper()
	for begin, cells := range want {
		if line := row(t, page, begin); !strings.Contains(line, cells) {
			t.Errorf("%s lacks %s", line, cells)
		}
	}
}
