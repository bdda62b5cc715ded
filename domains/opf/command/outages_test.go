package command

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func runOutagesJSON(t *testing.T, want int, args ...string) security {
	t.Helper()
	code, out, log := run(append([]string{"pf", "--json"}, args...)...)
	if code != want {
		t.Fatalf("pf %v: exit code %d, want %d: %s", args, code, want, log)
	}
	var r security
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Every branch of case118 once: the worst first, islands with what they lose, the same on any
// number of threads.
func TestOutagesOfBranches(t *testing.T) {
	r := runOutagesJSON(t, 1, "case118", "--outages", "branches")
	if len(r.Outages) != 186 || r.Secure+r.Unsolved >= 186 || r.Unsolved != 0 {
		t.Fatalf("%d outages, %d secure, %d unsolved", len(r.Outages), r.Secure, r.Unsolved)
	}
	islands, alone := 0, 0
	for i, o := range r.Outages {
		if i > 0 && o.Severity > r.Outages[i-1].Severity {
			t.Errorf("outage %d has severity %g after %g", i, o.Severity, r.Outages[i-1].Severity)
		}
		if (o.Severity > 0) != (len(o.Violations) > 0) {
			t.Errorf("outage %d: severity %g with %d violations", i, o.Severity, len(o.Violations))
		}
		if len(o.Islanded) > 0 {
			islands++
		}
		if o.Compensated {
			alone++
		}
	}
	if islands != 9 || alone < 9 {
		t.Errorf("%d islands, %d outages by the base's factors", islands, alone)
	}
	worst := r.Outages[0]
	if worst.Row != 16 || len(worst.Violations) == 0 || worst.Violations[0].limit.Limit != "vmin" || worst.Violations[0].Bus != 13 {
		t.Errorf("the worst is %+v", worst)
	}
	again := runOutagesJSON(t, 1, "case118", "--outages", "branches", "--threads", "2")
	for i := range r.Outages {
		if again.Outages[i].Row != r.Outages[i].Row || again.Outages[i].Severity != r.Outages[i].Severity {
			t.Errorf("on two threads outage %d is of row %d, severity %g; on one %d, %g", i, again.Outages[i].Row, again.Outages[i].Severity, r.Outages[i].Row, r.Outages[i].Severity)
		}
	}
}

// A file's outages are those asked for, and equal the power flow of the network without them.
func TestOutagesOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "outages")
	if err := os.WriteFile(file, []byte("# two\nbranch 16\n\nunit 2 # not the reference\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := runOutagesJSON(t, 1, "case118", "--outages", file, "--enforce-q")
	if len(r.Outages) != 2 || !r.EnforceQ {
		t.Fatalf("%+v", r)
	}
	whole := run118Without16(t)
	for _, o := range r.Outages {
		if o.Outage != "branch" {
			continue
		}
		for _, l := range o.Violations {
			if l.limit.Limit == "vmin" && math.Abs(whole[l.Bus]-l.Value) > 1e-6 {
				t.Errorf("bus %d: %g pu, without the branch %g", l.Bus, l.Value, whole[l.Bus])
			}
		}
	}
}

// run118Without16 are the voltages of case118 without its sixteenth branch, by bus.
func run118Without16(t *testing.T) map[int]float64 {
	t.Helper()
	dir := folder(t, "", "case118")
	text, err := os.ReadFile(filepath.Join(dir, "case118.m"))
	if err != nil {
		t.Fatal(err)
	}
	head, table, _ := strings.Cut(string(text), "mpc.branch = [")
	lines := strings.Split(table, "\n")
	at := 0
	for i, line := range lines {
		if f := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), ";")); len(f) > 10 && f[0] != "%" && !strings.HasPrefix(f[0], "%") {
			if at++; at == 16 {
				f[10] = "0"
				lines[i] = strings.Join(f, " ") + ";"
			}
		}
	}
	path := filepath.Join(dir, "without.m")
	if err := os.WriteFile(path, []byte(head+"mpc.branch = ["+strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, log := run("pf", path, "--json", "--enforce-q")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, log)
	}
	var r powerFlow
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	vm := map[int]float64{}
	for _, b := range r.Bus {
		vm[b.ID] = b.Vm
	}
	return vm
}

func TestOutagesBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for want, args := range map[string][]string{
		"--outages: nothing does not exist: want branches, units or a file": {"--outages", "nothing"},
		"the file lists no outage":            {"--outages", write("empty", "# none\n")},
		"line 2: no branch in service":        {"--outages", write("far", "branch 1\nbranch 999\n")},
		"want branch ROW or unit ROW":         {"--outages", write("other", "bus 3\n")},
		"leave out --out and --csv":           {"--outages", "units", "--csv", dir},
		"line 1: no unit in service is row x": {"--outages", write("word", "unit x\n")},
	} {
		if code, _, log := run(append([]string{"pf", "case14"}, args...)...); code != 2 || !strings.Contains(log, want) {
			t.Errorf("pf case14 %v: exit code %d, %q; want 2 and %q", args, code, log, want)
		}
	}
}

func TestOutagesAsText(t *testing.T) {
	code, out, _ := run("pf", "case39", "--outages", "branches")
	for _, want := range []string{"case39: 46 outages in", "29 secure; 15 break a limit, 3 cut off load, 0 without a power flow", "broken before any outage", "vmax"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, out)
		}
	}
}

// An outage that cuts off load is not secure, though what is left keeps every limit: branch 14 of case39 leaves the
// reference bus alone with its own load.
func TestAnOutageThatCutsOffLoadIsNotSecure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "outages")
	if err := os.WriteFile(file, []byte("branch 14\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runOutagesJSON(t, 1, "case39", "--outages", file)
	if o := r.Outages[0]; r.Secure != 0 || r.CutOff != 1 || !o.Converged || len(o.Violations) > 0 || o.LostMW < 6000 {
		t.Errorf("%+v", r)
	}
}
