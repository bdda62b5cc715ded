package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/grid/secure"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func runSecureJSON(t *testing.T, want int, args ...string) results.SecureFlow {
	t.Helper()
	code, out, log := run(append([]string{"opf", "secure", "--json"}, args...)...)
	if code != want {
		t.Fatalf("opf secure %v: exit code %d, want %d: %s", args, code, want, log)
	}
	var r results.SecureFlow
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// A secure dispatch costs more than the plain optimum, which two outages break; a file of outages and
// one of participation factors are read, and a solved case is written.
func TestSecureDispatch(t *testing.T) {
	r := runSecureJSON(t, 0, "case_ieee30", "--scale", "0.9")
	if r.Status != "secure" || r.Outages != 44 || len(r.Before) == 0 || len(r.After) > 0 || len(r.Remembered) < len(r.Before) ||
		r.Objective == nil || *r.Objective < *r.Plain || len(r.Bus) != 30 || len(r.Gen) != 6 {
		t.Errorf("%+v", r)
	}
	dir := t.TempDir()
	outages, shares, solved := filepath.Join(dir, "outages"), filepath.Join(dir, "shares"), filepath.Join(dir, "solved.m")
	tables := filepath.Join(dir, "tables")
	for path, text := range map[string]string{outages: "branch 36 # the transformer\nunit 2\n", shares: "unit 1 3\nunit 2 1\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	two := runSecureJSON(t, 0, "case_ieee30", "--scale", "0.9", "--outages", outages, "--participation", shares, "--out", solved, "--csv", tables)
	if two.Outages != 2 || *two.Objective < *two.Plain || *two.Plain != *r.Plain {
		t.Errorf("%d outages, cost %g, without any %g and %g", two.Outages, *two.Objective, *two.Plain, *r.Plain)
	}
	if text, err := os.ReadFile(solved); err != nil || !strings.Contains(string(text), "security-constrained") {
		t.Errorf("the solved case: %v", err)
	} else if c, err := matpower.Read(solved, strings.NewReader(string(text))); err != nil || c.Gen[1].Vg != c.Bus[1].Vm || two.Bus[1].Vm != c.Bus[1].Vm {
		t.Errorf("set-points: %v, %+v", err, c.Gen)
	}
	if text, err := os.ReadFile(filepath.Join(tables, "gen.csv")); err != nil || strings.Count(string(text), "\n") != 1+6 {
		t.Errorf("the table of units: %q, %v", text, err)
	}
}

// A dispatch that breaks limits in few scenarios has its probability beside that of the secure one, in JSON and in words. The exit code says
// whether they are broken more often.
func TestSecureScenarios(t *testing.T) {
	table := filepath.Join(t.TempDir(), "loads.csv")
	text := "scale\n"
	for k := range 60 {
		text += fmt.Sprintf("%g\n", 0.9+0.002*float64(k*7%20-10)/10)
	}
	require.OK(t, os.WriteFile(table, []byte(text), 0o600))
	args := []string{"case_ieee30", "--scale", "0.9", "--outages", "branches", "--scenarios", table, "--violations", "0.05"}
	r := runSecureJSON(t, 0, args...)
	if c := r.Chance; c == nil || c.Scenarios != 20 || !(c.Risk.Probability <= 0.05 && c.Secure.Probability > 0.3) || *r.Objective < c.Objective {
		t.Errorf("%+v", c)
	}
	code, out, _ := run(append([]string{"opf", "secure"}, args...)...)
	for _, want := range []string{"over 20 scenarios a limit is broken in", "the secure dispatch costs", "tighter after"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in %q", code, want, out)
		}
	}
}

// The outage of a branch that splits the network has one row, with what it does in each part, and is one outage.
func TestAnOutageThatSplitsHasOneRow(t *testing.T) {
	dir := t.TempDir()
	file, outages := filepath.Join(dir, "split.m"), filepath.Join(dir, "outages")
	for path, text := range map[string]string{outages: "branch 2\n", file: `function mpc = split
mpc.version = '2'; mpc.baseMVA = 100;
mpc.bus = [1 3 0 0 0 0 1 1 0 230 1 1.1 0.9; 2 1 30 0 0 60 1 1 0 230 1 1.1 0.9; 3 1 60 10 0 0 1 1 0 230 1 1.1 0.9; 4 2 0 0 0 0 1 1 0 230 1 1.1 0.9];
mpc.gen = [1 0 0 99 -99 1 100 1 200 0; 4 0 0 99 -99 1 100 1 100 0];
mpc.branch = [1 2 0.01 0.1 0 150 0 0 0 0 1 -360 360; 2 3 0.01 0.1 0 150 0 0 0 0 1 -360 360; 3 4 0.01 0.1 0 40 0 0 0 0 1 -360 360];
mpc.gencost = [2 0 0 2 10 0; 2 0 0 2 50 0];
`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	arguments := []string{file, "--outages", outages, "--voltage-band", "0"}
	r := runSecureJSON(t, 1, arguments...)
	if r.Outages != 1 || len(r.Before) != 1 || len(r.Before[0].Parts) != 2 {
		t.Fatalf("%d outages, %+v", r.Outages, r.Before)
	}
	c := r.Before[0]
	near, cut := c.Parts[0], c.Parts[1]
	if c.Row != 2 || len(near.Violations) != 1 || near.Violations[0].Kind != "vmax" || near.Violations[0].Bus != 2 || len(cut.Violations) == 0 || cut.Violations[0].Branch != 3 ||
		len(c.Violations) != len(near.Violations)+len(cut.Violations) || *c.Severity != max(*near.Severity, *cut.Severity) {
		t.Errorf("%+v", c)
	}
	if _, out, _ := run(append([]string{"opf", "secure"}, arguments...)...); strings.Count(out, "branch 2, bus 2 to 3") != 1+len(r.Relaxations) || !strings.Contains(out, "vmax at bus 2; cut off: rating at branch 3") || !strings.Contains(out, "1 outage breaks a limit") {
		t.Error(out)
	}
}

// Where no dispatch survives the exit code is 1, and what would have to give is named.
func TestNoSecureDispatch(t *testing.T) {
	r := runSecureJSON(t, 1, "case30", "--outages", "branches")
	if r.Status != "no secure point found" || r.Reason == "" || len(r.Relaxations) == 0 || r.Objective != nil || len(r.Bus) != 0 {
		t.Errorf("%+v", r)
	}
	for _, g := range r.Relaxations {
		if g.After.Row == 0 || g.Excess <= 0 || g.Kind == "" {
			t.Errorf("gives %+v", g)
		}
	}
}

// The text names a set-point without a limit that it would come from: it is part of the dispatch that was not found.
func TestWhatGivesAsText(t *testing.T) {
	r := results.SecureFlow{Status: "no secure point found", Rounds: 1, Iterations: 2, Before: []results.Check{{Outage: results.Outage{Kind: "unit", Row: 3, From: 7, To: 7}, Consequence: results.Consequence{Reason: "none"}}},
		Relaxations: []results.Relaxation{{After: results.Outage{Kind: "unit", Row: 3, From: 7, To: 7}, Broken: results.Broken{Limit: results.Limit{Kind: "set-point", Bus: 8, Value: 1.05, Bound: 1.05, Unit: "pu"}, Excess: 0.02}}}}
	plain := 10.0
	r.Plain = &plain
	var text strings.Builder
	printSecure(&text, &r)
	for _, want := range []string{"after 1 round and 2 iterations", "and 1 outage breaks a limit"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if !strings.Contains(text.String(), "0.0200  1.0500        pu") {
		t.Errorf("the set-point has a limit in\n%s", text.String())
	}
}

// Where a unit alone leaves too little power, no outage was looked at, and none is said to break a limit.
func TestOutagesThatWereNotLookedAtAreNotCounted(t *testing.T) {
	code, out, _ := run("opf", "secure", "case14", "--outages", "units", "--scale", "1.75")
	if code != 1 || !strings.Contains(out, "no dispatch survives the outage of unit 1") || strings.Contains(out, "break a limit") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// A solve that takes a while says on stderr that it goes on; a quick one says nothing.
func TestASlowSolveSaysThatItGoesOn(t *testing.T) {
	for since, want := range map[time.Duration]string{
		quietPeriod: "", time.Minute: "optimising with 3 outages that break a limit, after 7 iterations and 60 s\noptimising with 5 outages that break a limit, after 9 iterations and 60 s\n",
	} {
		var log strings.Builder
		tell := rounds(&log, func() time.Duration { return since })
		for _, i := range []secure.Iterate{{Iteration: 7, Outages: 3}, {Iteration: 8, Outages: 3}, {Iteration: 9, Outages: 5}} {
			tell(i)
		}
		if log.String() != want {
			t.Errorf("%q, want %q", log.String(), want)
		}
	}
}

// Flags without a meaning and files that cannot be used are refused with exit code 2.
func TestSecureRefusals(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for want, args := range map[string][]string{
		"unknown flag: --weights":                    {"case30", "--weights", "0.2,0.3,0.5"},
		"--emergency 0.5: want a factor of 1 to 100": {"case30", "--emergency", "0.5"},
		"--voltage-band -1: want 0 to 1 pu":          {"case30", "--voltage-band", "-1"},
		"cuts off a part of the network":             {"case14", "--outages", file("outages", "branch 14\n"), "--participation", file("first", "unit 1 1\n")},
		"want branches, units, all or a file":        {"case30", "--outages", "lines"},
		"want range, pmax, equal or":                 {"case30", "--participation", "none"},
		"no unit replaces the power":                 {"case30", "--participation", file("shares", "unit 1 0\n")},
		"--scale and --loads exclude each other":     {"case30", "--loads", "day.csv", "--scale", "2"},
		"--scenarios and --loads exclude each other": {"case30", "--loads", "day.csv", "--scenarios", "day.csv"},
		"--violations 1: want a share from 0":        {"case30", "--violations", "1"},
		"has less than three rows":                   {"case_ieee30", "--scale", "0.9", "--scenarios", file("two.csv", "scale\n0.9\n0.9\n")},
		"none.csv does not exist":                    {"case_ieee30", "--scale", "0.9", "--scenarios", filepath.Join(dir, "none.csv")},
	} {
		if code, _, log := run(append([]string{"opf", "secure"}, args...)...); code != 2 || !strings.Contains(log, want) {
			t.Errorf("%v: exit code %d, %q, want %q", args, code, log, want)
		}
	}
}

// A series of loads is solved step by step, each from the one before; a step that nothing survives is named
// and makes the exit code 1.
func TestSecureChain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "day.csv")
	for _, c := range []struct {
		rows         string
		code, secure int
	}{{"time,scale\na,0.88\nb,0.89\nc,0.885\n", 0, 3}, {"time,scale\na,0.88\nb,9\n", 1, 1}} {
		if err := os.WriteFile(path, []byte(c.rows), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, log := run("opf", "secure", "case_ieee30", "--loads", path, "--json")
		var r secureChain
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err, log)
		}
		if code != c.code || r.Secure != c.secure || len(r.Chain) != r.Steps || r.Outages != 44 || r.Chain[0].Warm || r.Chain[1].Warm != (c.code == 0) {
			t.Errorf("exit code %d, %+v", code, r)
		}
		for _, s := range r.Chain {
			if (s.Objective == nil) != (s.Reason != "") {
				t.Errorf("step %+v", s)
			}
		}
	}
	if code, _, log := run("opf", "secure", "case_ieee30", "--loads", path+"none"); code != 2 || !strings.Contains(log, "--loads") {
		t.Errorf("exit code %d, %q", code, log)
	}
}
