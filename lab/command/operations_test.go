package command

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/scaling"
)

// Dispatches of a network are timed where a chain of exact optima goes: the exact solver beside
// the projection, each with what it found there.
func TestDispatchesOfANetwork(t *testing.T) {
	app, _ := cart(t)
	code, out, log := run(app, "bench", "dispatch", "--network", "case9.m", "--network-loads", "envelope:0.8:1", "--seed", "991", "--time", "1ms", "--threads", "1", "--backend", "cpu", "--json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	var r bench.Record
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ op, outcome string }{
		{"exact, cold", "60/60 optimal"}, {"exact, warm", "60/60 optimal"},
		{"projection of merit", "60/60 keep the limits, "}, {"projection of hold", "60/60 keep the limits, "}, {"projection of map", "60/60 keep the limits, "},
	} {
		if len(r.Results) <= i {
			t.Fatalf("%d rows: %s", len(r.Results), out)
		}
		if g := r.Results[i]; g.Op != "dispatch, "+want.op || g.Case != "opf:case9.m" || g.Size != "9 buses, envelope:0.8:1" || !strings.HasPrefix(g.Outcome, want.outcome) || g.Threads != 1 || !(g.P50 > 0 && g.CPU > 0) {
			t.Errorf("row %d: %+v, want %v", i, g, want)
		}
	}
	if r.Load == nil {
		t.Error("the record does not say the machine's load")
	}
	for says, args := range map[string][]string{
		"none.m":                                 {"--network", "none.m"},
		"storm":                                  {"--network", "case9.m", "--network-loads", "storm"},
		"no optimum follows from the one before": {"--network", "case9.m", "--network-loads", "envelope:9:9"},
	} {
		if code, _, log := run(app, append([]string{"bench", "dispatch", "--backend", "cpu"}, args...)...); code != 2 || !strings.Contains(log, says) {
			t.Errorf("%v: exit code %d: %s", args, code, log)
		}
	}
}

// Percentages of any size have two digits.
func TestSignificant(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.000312: "0.00031", 0.0023: "0.0023", 0.47: "0.47", 3.26: "3.3", 1234: "1234", -0.0123: "-0.012"} {
		if got := significant(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}

// The cost of a solve is measured along networks that have so many buses.
func TestAxisOfBuses(t *testing.T) {
	axis := buses()
	for _, size := range axis.Values {
		net, err := openNetwork(networksBySize[size])
		if err != nil || net.Buses() != size {
			t.Errorf("%s has %d buses, not %d: %v", networksBySize[size], net.Buses(), size, err)
		}
	}
	us, flops, err := axis.Measure(t.Context(), &bench.Runner{}, 9)
	if err != nil || len(us) == 0 || !(flops > 0) {
		t.Errorf("%d times, %v FLOP, %v", len(us), flops, err)
	}
}

// The record of some axes can be read again.
func TestBenchScaling(t *testing.T) {
	app, _ := cart(t)
	dir := filepath.Join(t.TempDir(), "record")
	code, out, log := run(app, "bench", "scaling", "--out", dir, "--axes", "n_z", "--time", "1ms", "--threads", "1")
	if code != 0 || !strings.Contains(out, "n_z") || strings.Contains(out, "codes") {
		t.Fatalf("exit code %d, %s, %s", code, out, log)
	}
	var s scaling.Scaling
	require.OK(t, json.Unmarshal([]byte(require.Get(read(filepath.Join(dir, "scaling.json")))(t)), &s))
	require.OK(t, s.Validate())
	if len(s.Curves) != 1 || s.Curves[0].Axis != "n_z" || s.Device == "" || s.Threads != 1 || !(s.Peak > 0) {
		t.Errorf("%+v", s)
	}
	for says, args := range map[string][]string{
		"--out is required":             {},
		"--axes hope (want some of bat": {"--out", dir, "--axes", "hope"},
		"did you mean batch?":           {"--out", dir, "--axes", "batsh"},
		"names an axis twice":           {"--out", dir, "--axes", "batch,batch"},
	} {
		if code, _, log := run(app, append([]string{"bench", "scaling"}, args...)...); code != 2 || !strings.Contains(log, says) {
			t.Errorf("%v: exit code %d: %s, want %q", args, code, log, says)
		}
	}
}
