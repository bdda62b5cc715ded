package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/results"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func runOutagesJSON(t *testing.T, want int, args ...string) results.Security {
	t.Helper()
	code, out, log := run(append([]string{"pf", "outages", "--json"}, args...)...)
	if code != want {
		t.Fatalf("pf outages %v: exit code %d, want %d: %s", args, code, want, log)
	}
	var r results.Security
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Every branch of case118 once: the worst first, islands with what they lose, the same on any
// number of threads.
func TestOutagesOfBranches(t *testing.T) {
	r := runOutagesJSON(t, 1, "case118", "--outages", "branches")
	if by := r.SolvedBy; by.BaseFactors+by.OwnFactors != 186 {
		t.Errorf("186 outages were solved by %+v", by)
	}
	if len(r.Outages) != 186 || r.Secure+r.Unsolved >= 186 || r.Unsolved != 0 {
		t.Fatalf("%d outages, %d secure, %d unsolved", len(r.Outages), r.Secure, r.Unsolved)
	}
	islands, alone := 0, 0
	for i, o := range r.Outages {
		if i > 0 && compareOutages(r.Outages[i-1], o) > 0 {
			t.Errorf("outage %d, %+v, stands behind %+v", i, o, r.Outages[i-1])
		}
		if (*o.Severity > 0) != (len(o.Violations) > 0) {
			t.Errorf("outage %d: severity %g with %d violations", i, *o.Severity, len(o.Violations))
		}
		if len(o.Islanded) > 0 {
			islands++
		}
		if o.Compensated {
			alone++
		}
	}
	if islands != 5 || alone < 9 {
		t.Errorf("%d islands, %d outages by the base's factors", islands, alone)
	}
	if worst := r.Outages[0]; worst.Row != 184 || worst.LostMW != 20 {
		t.Errorf("the worst is %+v, want that with the most lost load", worst)
	}
	for _, o := range r.Outages {
		if low := func(v results.Broken) bool { return v.Kind == "vmin" && v.Bus == 13 }; o.Row == 16 && !slices.ContainsFunc(o.Violations, low) {
			t.Errorf("branch 16: %+v", o)
		}
	}
	again := runOutagesJSON(t, 1, "case118", "--outages", "branches", "--threads", "2")
	for i := range r.Outages {
		if again.Outages[i].Row != r.Outages[i].Row || *again.Outages[i].Severity != *r.Outages[i].Severity {
			t.Errorf("on two threads outage %d is of row %d, severity %g; on one %d, %g", i, again.Outages[i].Row, *again.Outages[i].Severity, r.Outages[i].Row, *r.Outages[i].Severity)
		}
	}
}

// compareOutages is the order of two outages with a power flow: by lost load, lost generation and severity.
func compareOutages(a, b results.AfterOutage) int {
	return cmp.Or(cmp.Compare(b.LostMW, a.LostMW), cmp.Compare(b.LostUnitsMW, a.LostUnitsMW), cmp.Compare(*b.Severity, *a.Severity))
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
		if o.Kind != "branch" {
			continue
		}
		for _, l := range o.Violations {
			if l.Kind == "vmin" && math.Abs(whole[l.Bus]-l.Value) > 1e-6 {
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
	var r results.PowerFlow
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
		"--outages: nothing does not exist: want branches, units, all or a file": {"--outages", "nothing"},
		"no outage is listed":                                                     {"--outages", write("empty", "# none\n")},
		"line 2: no branch in service":                                            {"--outages", write("far", "branch 1\nbranch 999\n")},
		"want branch ROW or unit ROW":                                             {"--outages", write("other", "line 3\n")},
		"line 3: branch 1 is listed twice":                                        {"--outages", write("twice", "branch 1\nunit 2\nbranch 1\n")},
		"long, line 2: bufio.Scanner: token too long":                             {"--outages", write("long", "branch 1\n"+strings.Repeat("x", 100_000))},
		"--participation needs --enforce-q":                                       {"--outages", "all", "--participation", "equal"},
		"--participation: none does not exist: want range, pmax, equal or a file": {"--outages", "all", "--enforce-q", "--participation", "none"},
		"--emergency 0.5: want a factor of 1 to 100":                              {"--outages", "all", "--emergency", "0.5"},
		"--voltage-band 2: want 0 to 1 pu":                                        {"--outages", "all", "--voltage-band", "2"},
		"line 1: no unit in service is row x":                                     {"--outages", write("word", "unit x\n")},
	} {
		if code, _, log := run(append([]string{"pf", "outages", "case14"}, args...)...); code != 2 || !strings.Contains(log, want) {
			t.Errorf("pf outages case14 %v: exit code %d, %q; want 2 and %q", args, code, log, want)
		}
	}
}

func TestOutagesAsText(t *testing.T) {
	code, out, _ := run("pf", "outages", "case39", "--outages", "branches")
	for _, want := range []string{"case39: 46 outages in", "3 secure; 43 break a limit, 0 cut off load, 0 without a power flow", "generation lost MW", "loaded most after any outage", "broken before any outage", "vmax"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, out)
		}
	}
}

// Branch 14 of case39 leaves the reference bus alone with its own load. The 38 others get another reference, which the outage
// overloads; a bus with a unit alone loses its generation; and load without a unit is lost, which leads the table.
func TestWhatAnOutageCutsOff(t *testing.T) {
	after := map[int]results.AfterOutage{}
	for _, o := range runOutagesJSON(t, 1, "case39", "--outages", "branches").Outages {
		after[o.Row] = o
	}
	if o := after[14]; !o.Converged || len(o.Islanded) > 0 || o.LostMW != 0 || !slices.Equal(o.References, []int{39}) || o.Violations[0].Kind != "pmax" || o.Violations[0].Gen != 10 || math.Abs(o.Violations[0].Value-1672.826) > 1e-3 {
		t.Errorf("branch 14: %+v", o)
	}
	if o := after[46]; !slices.Equal(o.Islanded, []int{38}) || o.LostMW != 0 || math.Abs(o.LostUnitsMW-830) > 1e-9 || o.Violations[0].Gen != 2 || math.Abs(o.Violations[0].Value-1523.28) > 1e-3 {
		t.Errorf("branch 46: %+v", o)
	}
	r := runOutagesJSON(t, 1, "case118", "--outages", "branches")
	if o := r.Outages[0]; !(o.LostMW > 0) || r.CutOff == 0 || len(o.Islanded) == 0 {
		t.Errorf("the worst of case118 is %+v", o)
	}
}

// After the outage of a unit the limits of the unit that balances count: those that the power flow of the network without it
// breaks. The reference's only unit can be out too, and another bus takes up the balance.
func TestUnitsThatBalanceHaveLimits(t *testing.T) {
	c := networktest.Case(t, "case39")
	for _, o := range runOutagesJSON(t, 1, "case39", "--outages", "units").Outages {
		if o.Row != 1 && o.Row != 2 {
			continue
		}
		without := *c
		without.Gen = slices.Clone(c.Gen)
		without.Gen[o.Row-1].InService = false
		flow, _, err := results.Flow(networktest.Of(t, &without), results.FlowProblem{})
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, v := range o.Violations {
			for _, want := range flow.Violations {
				if want.Kind == v.Kind && want.Where() == v.Where() && math.Abs(want.Value-v.Value) < 1e-5 {
					found++
				}
			}
		}
		if !o.Converged || found < len(o.Violations)-1 || o.Violations[0].Kind != "pmax" || o.Violations[0].Excess < 280 {
			t.Errorf("unit %d: %+v; alone it breaks %+v", o.Row, o, flow.Violations)
		}
	}
}

// Units share what an outage takes in a case without costs, too, here one of PSS/E.
func TestOutagesOfAFileWithoutCosts(t *testing.T) {
	r := runOutagesJSON(t, 1, "../formats/testdata/wscc9.raw", "--outages", "units", "--enforce-q", "--participation", "range")
	if len(r.Outages) != 3 || r.Unsolved != 0 {
		t.Errorf("%+v", r.Outages)
	}
}

// The tables have every outage, what each breaks, and of each limit the highest loading; --out has the solution without outage.
func TestTablesOfOutages(t *testing.T) {
	dir := t.TempDir()
	solved := filepath.Join(dir, "solved.m")
	r := runOutagesJSON(t, 1, "case39", "--outages", "all", "--csv", dir, "--out", solved)
	rows := map[string][]string{}
	for _, name := range []string{"outages", "violations", "elements"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		rows[name] = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	if len(rows["outages"]) != 57 || !strings.Contains(rows["outages"][0], "lost_load_mw,lost_generation_mw,severity") || !strings.HasPrefix(rows["outages"][2], "branch,46,29,38,,true,") {
		t.Errorf("outages.csv: %q", rows["outages"][:3])
	}
	if len(rows["elements"]) != 1+len(r.Elements) || !strings.HasPrefix(rows["violations"][0], "limit,bus,gen,branch,from,to,end,value,bound,unit,by,after_outage,after_row") {
		t.Errorf("%d rows of elements, violations.csv: %q", len(rows["elements"]), rows["violations"][0])
	}
	for _, e := range r.Elements {
		worst := math.Inf(-1)
		for _, o := range r.Outages {
			for _, v := range o.Violations {
				if v.Kind == e.Kind && v.Where() == e.Where() {
					worst = max(worst, v.Excess)
				}
			}
		}
		if worst > e.Excess+1e-9 || e.Excess > 1e-3 && e.Kind == "rating" && worst != e.Excess {
			t.Errorf("%+v, and after an outage it is broken by %g", e, worst)
		}
	}
	if code, out, log := run("pf", solved, "--json"); code != 0 || !strings.Contains(out, `"iterations":0`) {
		t.Errorf("exit code %d: %s", code, log)
	}
	// --out by its ending: the table of outages, or everything.
	table, everything := filepath.Join(dir, "all.csv"), filepath.Join(dir, "all.json")
	runOutagesJSON(t, 1, "case39", "--outages", "all", "--out", table)
	var whole results.Security
	code, _, log := run("pf", "outages", "case39", "--outages", "all", "--out", everything)
	text, err := os.ReadFile(everything)
	if err == nil {
		err = json.Unmarshal(text, &whole)
	}
	if err != nil || code != 1 || len(whole.Outages) != 56 || len(whole.Elements) != len(r.Elements) {
		t.Errorf("%v, exit code %d, %s: %d outages in all.json", err, code, log, len(whole.Outages))
	}
	if text, err := os.ReadFile(table); err != nil || strings.TrimSpace(string(text)) != strings.Join(rows["outages"], "\n") {
		t.Errorf("all.csv: %v, %.200q", err, text)
	}
}

// A label stands in the table as it is written, and a table that leaves outages out says so.
func TestATableOfOutagesIsWhole(t *testing.T) {
	dir := t.TempDir()
	list, table := filepath.Join(dir, "list"), filepath.Join(dir, "all.csv")
	if err := os.WriteFile(list, []byte("[north]: branch 5, branch 6\nbranch 7\nbranch 8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for worst, rows := range map[string]int{"0": 3, "2": 2} {
		_, _, log := run("pf", "outages", "case118", "--outages", list, "--worst", worst, "--out", table)
		text := string(require.Get(os.ReadFile(table))(t))
		if strings.Count(text, "\n") != rows+1 || worst == "0" && !strings.Contains(text, ",[north],") {
			t.Errorf("--worst %s: %s", worst, text)
		}
		if says := strings.Contains(log, "3 outages are counted, the 2 worst of them listed: --worst 0 lists all"); says != (worst == "2") {
			t.Errorf("--worst %s: %q", worst, log)
		}
	}
}

// The words of --outages name the same outages in pf and in opf --secure; there branches that cut off a part are left out
// and counted.
func TestTheWordsOfOutagesMeanTheSame(t *testing.T) {
	for word, want := range map[string]int{"branches": 46, "units": 10, "all": 56} {
		if r := runOutagesJSON(t, 1, "case39", "--outages", word); len(r.Outages) != want {
			t.Errorf("pf outages --outages %s: %d outages, want %d", word, len(r.Outages), want)
		}
		code, out, log := run("opf", "secure", "case39", "--outages", word, "--scale", "9", "--json")
		var r results.SecureFlow
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != 1 {
			t.Fatalf("exit code %d, %v: %s", code, err, log)
		}
		if r.Outages+len(r.LeftOut) != want || (len(r.LeftOut) == 0) != (word == "units") {
			t.Errorf("opf secure --outages %s: %d outages and %d left out, want %d together", word, r.Outages, len(r.LeftOut), want)
		}
	}
	_, out, _ := run("opf", "secure", "case39", "--outages", "branches", "--scale", "9")
	if !strings.Contains(out, "11 branches cut off a part of the network: left out") {
		t.Errorf("no count of branches that are left out in\n%s", out)
	}
}

// Wider limits after an outage, as those of opf secure, break fewer and are the bounds that are listed.
func TestLimitsAfterAnOutageAreWider(t *testing.T) {
	strict, wide := runOutagesJSON(t, 1, "case39", "--outages", "branches"), runOutagesJSON(t, 1, "case39", "--outages", "branches", "--emergency", "1.3", "--voltage-band", "0.05")
	broken := func(r results.Security) (count int, worst results.Broken) {
		for _, o := range r.Outages {
			count += len(o.Violations)
			for _, v := range o.Violations {
				if o.Row == 35 && v.Branch == 38 && v.End == "from" {
					worst = v
				}
			}
		}
		return count, worst
	}
	all, s := broken(strict)
	left, w := broken(wide)
	if left >= all || len(wide.Violations) != len(strict.Violations) || wide.Emergency != 1.3 || wide.Band != 0.05 {
		t.Errorf("%d limits broken, with wider ones %d", all, left)
	}
	if math.Abs(w.Bound-1.3*s.Bound) > 1e-9 || math.Abs(w.Excess-(s.Excess-0.3*s.Bound)) > 1e-6 {
		t.Errorf("branch 38 after the outage of branch 35: %+v, with wider limits %+v", s, w)
	}
}

// Of many outages the table lists the worst and says how many more there are; an outage without a power flow has no severity.
func TestATableOfManyOutages(t *testing.T) {
	_, out, _ := run("pf", "outages", "case118", "--outages", "branches", "--scale", "1.6")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "and ") || !strings.HasSuffix(last, " more, which --json lists") {
		t.Errorf("the last line is %q", last)
	}
	r := runOutagesJSON(t, 1, "case14", "--outages", "units")
	for _, o := range r.Outages {
		if (o.Severity == nil) != !o.Converged || (o.Reason == "") != o.Converged {
			t.Errorf("%+v", o)
		}
	}
}

// Where a file of PGLib has no power flow, the message says what to do; of another file it does not.
func TestAFileOfPGLibWithoutAPowerFlowSaysWhatToDo(t *testing.T) {
	const hint = "a file of PGLib holds no dispatch of its own: gpc opf FILE --out solved.m writes one"
	for _, c := range []struct {
		args []string
		says bool
	}{
		{[]string{"pf", "pglib_opf_case300_ieee"}, true}, {[]string{"pf", "outages", "pglib_opf_case300_ieee", "--outages", "branches"}, true},
		{[]string{"pf", "case14", "--scale", "9"}, false}, {[]string{"pf", "outages", "case14", "--outages", "branches", "--scale", "9"}, false},
	} {
		if code, out, log := run(c.args...); code != 1 || strings.Contains(out+log, hint) != c.says {
			t.Errorf("%v: exit code %d\n%s%s", c.args, code, out, log)
		}
	}
	solved := filepath.Join(t.TempDir(), "solved.m")
	if code, _, log := run("opf", "pglib_opf_case300_ieee", "--out", solved); code != 0 {
		t.Fatal(log)
	}
	if r := runOutagesJSON(t, 1, solved, "--outages", "branches"); len(r.Outages) != 411 {
		t.Errorf("%d outages", len(r.Outages))
	}
}

// A secure dispatch survives the outages it was found for when these are looked at again with its own limits and
// participation; where the reference takes up what a unit leaves, some break a limit.
func TestASecureDispatchIsSecureWhenLookedAtAgain(t *testing.T) {
	dir := t.TempDir()
	solved, list := filepath.Join(dir, "solved.m"), filepath.Join(dir, "outages")
	r := runSecureJSON(t, 0, "case_ieee30", "--scale", "0.9", "--out", solved)
	left := map[results.Outage]bool{}
	for _, o := range r.LeftOut {
		left[o] = true
	}
	after := []string{"--emergency", "1.3", "--voltage-band", "0.05", "--enforce-q"}
	shared := append(after, "--participation", "range")
	all := runOutagesJSON(t, 1, append([]string{solved, "--outages", "all"}, shared...)...)
	var lines strings.Builder
	for _, o := range all.Outages {
		if left[o.Outage] {
			continue
		}
		fmt.Fprintln(&lines, o.Kind, o.Row)
		if !o.Converged || len(o.Violations) > 0 || *o.Severity != 0 {
			t.Errorf("%+v", o)
		}
	}
	if err := os.WriteFile(list, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := runOutagesJSON(t, 0, append([]string{solved, "--outages", list}, shared...)...); again.Secure != r.Outages {
		t.Errorf("%d of %d outages secure", again.Secure, r.Outages)
	}
	if alone := runOutagesJSON(t, 1, append([]string{solved, "--outages", list}, after...)...); alone.Unsolved != 0 || alone.Secure == r.Outages {
		t.Errorf("%d outages without a power flow and %d secure where the reference takes up what is missing", alone.Unsolved, alone.Secure)
	}
	// The plain optimum does not survive two of them.
	runOptimalFlowJSON(t, 0, "case_ieee30", "--scale", "0.9", "--out", solved)
	if plain := runOutagesJSON(t, 1, append([]string{solved, "--outages", list}, shared...)...); plain.Secure != r.Outages-len(r.Before) {
		t.Errorf("%d of %d outages of the plain optimum secure, want all but %d", plain.Secure, r.Outages, len(r.Before))
	}
}

// Shards of a folder are joined by the command without --shard, which prints what one run prints; without a folder they are refused.
func TestShardsOfOutages(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "kept")
	whole := runOutagesJSON(t, 1, "case118")
	first := runOutagesJSON(t, 1, "case118", "--record", folder, "--shard", "0/2")
	second := runOutagesJSON(t, 0, "case118", "--record", folder, "--shard", "1/2")
	joined := runOutagesJSON(t, 1, "case118", "--record", folder)
	if len(first.Outages) != len(whole.Outages) || len(second.Outages) != 0 {
		t.Errorf("%d and %d outages of %d in shards of one part", len(first.Outages), len(second.Outages), len(whole.Outages))
	}
	if first.Shard != [2]int{0, 2} || second.Shard != [2]int{1, 2} || joined.Shard != [2]int{0, 1} {
		t.Errorf("parts %v and %v of %v", first.Shard, second.Shard, joined.Shard)
	}
	if joined.WallMS = whole.WallMS; !reflect.DeepEqual(joined, whole) {
		t.Error("the joined shards differ from one run")
	}
	// A shard beyond the last part has none, however large its numbers.
	if empty := runOutagesJSON(t, 0, "case118", "--record", folder, "--shard", "9007199254740992/9223372036854775807"); empty.Count != 0 {
		t.Errorf("%d outages of a shard without parts", empty.Count)
	}
	if code, _, log := run("pf", "outages", "case118", "--shard", "0/2"); code != 2 || !strings.Contains(log, "--shard needs --record") {
		t.Errorf("shards without a folder: exit code %d, %s", code, log)
	}
	if code, _, log := run("pf", "outages", "case118", "--enforce-q", "--record", folder); code != 2 || !strings.Contains(log, "name another folder") {
		t.Errorf("a folder of other options: exit code %d, %s", code, log)
	}
}

// A table of loads is a scenario a row: the counts are those of each row's own outages, printed, as JSON and as tables.
func TestScenariosOfOutages(t *testing.T) {
	dir := t.TempDir()
	loads := filepath.Join(dir, "loads.csv")
	if err := os.WriteFile(loads, []byte("time,scale\nlow,0.5\nmiddle,0.9\nfull,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"pf", "outages", "case_ieee30", "--enforce-q", "--emergency", "1.3", "--voltage-band", "0.05", "--scenarios", loads}
	code, out, log := run(append(args, "--json", "--csv", dir)...)
	var r results.Scenarios
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 1 || r.Scenarios != 3 || r.Count != 47 {
		t.Fatalf("exit code %d, %v, %+v: %s", code, err, r, log)
	}
	violated, after := map[results.Outage]int{}, 0
	for _, scale := range []string{"0.5", "0.9", "1"} {
		one := runOutagesJSON(t, 1, "case_ieee30", "--enforce-q", "--emergency", "1.3", "--voltage-band", "0.05", "--scale", scale)
		for _, o := range one.Outages {
			violated[o.Outage] += bit(len(o.Violations) > 0 || !o.Converged)
		}
		after += bit(one.Breaking+one.Unsolved > 0)
	}
	for _, o := range r.Outages {
		if o.Scenarios != violated[o.Outage] {
			t.Errorf("%s in %d scenarios, want %d", o.Where(), o.Scenarios, violated[o.Outage])
		}
	}
	if r.After.Scenarios != after || r.After.Probability != float64(after)/3 {
		t.Errorf("%+v, want %d", r.After, after)
	}
	for name, rows := range map[string]int{"outages": len(r.Outages), "elements": len(r.Elements)} {
		if head, _, _ := strings.Cut(string(require.Get(os.ReadFile(filepath.Join(dir, name+".csv")))(t)), "\n"); slices.Contains(strings.Split(head, ","), "") {
			t.Errorf("%s.csv has columns without a name: %s", name, head)
		}
		if text, err := os.ReadFile(filepath.Join(dir, name+".csv")); err != nil || strings.Count(string(text), "\n") != rows+1 || !strings.Contains(string(text), "violated,probability,low,high") {
			t.Errorf("%s.csv, %v: %.300q", name, err, text)
		}
	}
	if _, out, _ := run(args...); !strings.Contains(out, "case_ieee30: 3 scenarios of 47 outages each") || !strings.Contains(out, "probability [95 %]") || !strings.Contains(out, "full") {
		t.Errorf("no probabilities in\n%s", out)
	}
	if err := os.WriteFile(filepath.Join(dir, "none.csv"), []byte("time,scale\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, more := range map[string][]string{
		"--scenarios takes no --record": {"--record", dir}, "no --record, --out, --scale and --worst": {"--worst", "3"}, "none.csv has no row with loads": {"--scenarios", filepath.Join(dir, "none.csv")},
		"no bus 99 in service": {"--scenarios", filepath.Join(dir, "wrong.csv")},
	} {
		if err := os.WriteFile(filepath.Join(dir, "wrong.csv"), []byte("pd_99\n1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, log := run(append(args, more...)...); code != 2 || !strings.Contains(log, want) {
			t.Errorf("%v: exit code %d, %s", more, code, log)
		}
	}
}
