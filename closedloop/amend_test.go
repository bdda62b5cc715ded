package closedloop_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A record takes what it lacks from another run of the same decisions, keeps its times, and says
// who added what; a run that differs in anything else adds nothing.
func TestARecordIsAmendedByTheSameRun(t *testing.T) {
	c, o := cartCase(t), options("")
	first := evaluate(t, c, gained(0.9), o)
	older := *first
	older.Limits, older.AboveOracle, older.Latency.P50 = nil, nil, 12345
	record := marshal(t, &older)
	o.Commit, o.Device = "later", "elsewhere"
	run := marshal(t, evaluate(t, c, gained(0.9), o))

	var got closedloop.Result
	require.OK(t, json.Unmarshal(require.Get(closedloop.Amend(record, run))(t), &got))
	if len(got.Limits) != len(first.Limits) || got.AboveOracle == nil || got.Limits[0] != first.Limits[0] {
		t.Errorf("limits %+v, above the oracle %+v", got.Limits, got.AboveOracle)
	}
	if got.Latency.P50 != 12345 || got.Commit != older.Commit || got.Device != older.Device {
		t.Errorf("times of the record: %+v, %s, %s", got.Latency, got.Commit, got.Device)
	}
	if a := got.Amended; len(a) != 1 || a[0].Commit != "later" || a[0].Device != "elsewhere" || strings.Join(a[0].Fields, " ") != "above_oracle limits" {
		t.Errorf("amended by %+v", a)
	}
	if _, err := closedloop.Amend(marshal(t, &got), run); !errors.Is(err, closedloop.ErrNothingToAdd) {
		t.Errorf("a whole record: %v", err)
	}
	for what, other := range map[string][]byte{
		"cost_mean": marshal(t, evaluate(t, c, gained(0.9000001), o)),
		"seed":      []byte(strings.Replace(string(run), `"seed":7`, `"seed":8`, 1)),
		"outcomes":  []byte(strings.Replace(string(run), `"outcomes":`, `"amended":null,"unknown":`, 1)),
	} {
		if text, err := closedloop.Amend(record, other); err == nil || !strings.Contains(err.Error(), what) && !strings.Contains(err.Error(), "unknown") || text != nil {
			t.Errorf("%s differs: %v", what, err)
		}
	}
	lacks := []byte(strings.Replace(string(record), `"latency_us":`, `"elapsed_us":`, 1))
	if _, err := closedloop.Amend(lacks, run); err == nil {
		t.Error("times were added to a record without, or a field of it was lost")
	}
}
