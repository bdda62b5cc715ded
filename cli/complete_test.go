package cli

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The shell completes cases, methods of the case that stands there, the last of a list, and backends.
func TestTheShellCompletesNames(t *testing.T) {
	app, _ := cart(t)
	app.Networks = []string{"case9", "case30"}
	app.Commands = append(app.Commands, func(*App) *cobra.Command {
		return &cobra.Command{Use: "solve FILE.m", Example: "solve case9", RunE: func(*cobra.Command, []string) error { return nil }}
	})
	for line, want := range map[string]string{
		"eval ": "cart", "methods ca": "cart", "eval cart --method dir": "direct", "eval pair cart --methods navigator,dir": "navigator,direct", "eval cart --backend ": "ref",
		"serve cart --stdin --log ": "json", "solve ca": "case9",
	} {
		args := strings.Split("__complete "+line, " ")
		code, out, log := run(app, args...)
		found := false
		for _, l := range strings.Split(out, "\n") {
			name, _, _ := strings.Cut(l, "\t")
			found = found || name == want
		}
		if code != 0 || !found {
			t.Errorf("%q: %d, %q lacks %q; %s", line, code, out, want, log)
		}
	}
}

// A table of a terminal is no wider than it: columns stand below, and a text in the last is wrapped.
func TestATableFitsItsTerminal(t *testing.T) {
	rows := [][]string{{"method", "p50", "p99", "what it does"}, {"navigator", "1.5", "20.25", "the whole algorithm with its guards and filters"}}
	for limit, want := range map[int]string{
		math.MaxInt: "method     p50  p99    what it does\nnavigator  1.5  20.25  the whole algorithm with its guards and filters\n",
		50:          "method     p50  p99    what it does\nnavigator  1.5  20.25  the whole algorithm with\n                       its guards and filters\n",
		37:          "method     p50  p99\nnavigator  1.5  20.25\n\nmethod     what it does\nnavigator  the whole algorithm with\n           its guards and filters\n\n",
	} {
		var out bytes.Buffer
		tableWithin(&out, rows, limit)
		if out.String() != want {
			t.Errorf("%d columns:\n%swant\n%s", limit, out.String(), want)
		}
	}
}

// What every row of a table says is its caption on a terminal that has no room for it, a heading has lines, columns of numbers stand
// closer, and how far a value may be off stays next to it.
func TestANarrowTerminalHasACaptionAndHeadingsOfSeveralLines(t *testing.T) {
	rows := [][]string{
		{"method", "episodes", "regret %", "± 95 %", "less the first's", "± 95 %"},
		{"navigator", "20", "1.5", "0.25", "0.0", "0.0"},
		{"direct", "20", "2.5", "0.25", "1.0", "0.5"},
	}
	for limit, want := range map[int]string{
		54: `in every row: episodes 20
method     regret %  ± 95 %  less the first's  ± 95 %
navigator       1.5    0.25               0.0     0.0
direct          2.5    0.25               1.0     0.5
`,
		48: `in every row: episodes 20
           regret          less the
method     %       ± 95 %  first's   ± 95 %
navigator     1.5    0.25       0.0     0.0
direct        2.5    0.25       1.0     0.5
`,
		41: `in every row: episodes 20
          regret        less the
method    %      ± 95 % first's  ± 95 %
navigator    1.5   0.25      0.0    0.0
direct       2.5   0.25      1.0    0.5
`,
		37: `in every row: episodes 20
           regret
method     %       ± 95 %
navigator     1.5    0.25
direct        2.5    0.25

           less the
method     first's   ± 95 %
navigator       0.0     0.0
direct          1.0     0.5

`,
	} {
		var out bytes.Buffer
		tableWithin(&out, rows, limit)
		if out.String() != want {
			t.Errorf("%d columns:\n%swant\n%s", limit, out.String(), want)
		}
	}
	var out bytes.Buffer
	tableWithin(&out, [][]string{{"case", "method"}, {"cart", "direct"}, {"cart", "nmpc"}}, 10)
	tableWithin(&out, [][]string{{"case", "method"}, {"cart", "nmpc"}, {"cart", "nmpc"}}, 10)
	if want := "in every row: case cart\nmethod\ndirect\nnmpc\n" + "in every row: case cart\nmethod\nnmpc\nnmpc\n"; out.String() != want {
		t.Errorf("rows of one case:\n%swant\n%s", out.String(), want)
	}
}

// A table below says of which rows it is, by as many columns as that takes, and a heading that is a table's title stays.
func TestATableBelowSaysOfWhichRowsItIs(t *testing.T) {
	var out bytes.Buffer
	tableWithin(&out, [][]string{
		{"outage", "row", "severity", "limits"}, {"branch", "1", "0.25", "2"}, {"branch", "2", "0.125", "1"}, {"unit", "1", "1.5", "3"},
	}, 22)
	tableWithin(&out, [][]string{{"broken limit", "at", "value"}, {"vmin", "bus 1", "0.9"}, {"vmin", "bus 2", "0.8"}}, 15)
	if want := `outage  row  severity
branch    1      0.25
branch    2     0.125
unit      1       1.5

outage  row  limits
branch    1       2
branch    2       1
unit      1       3

broken
limit   at
vmin    bus 1
vmin    bus 2

broken
limit   value
vmin      0.9
vmin      0.8

`; out.String() != want {
		t.Errorf("%swant\n%s", out.String(), want)
	}
}

// A sentence that a terminal has no room for goes on in its next line; what is no terminal has it whole.
func TestASentenceFitsItsTerminal(t *testing.T) {
	const text = "round  kind\n    1  first\nthe map of round 1 meets the target\n"
	for limit, want := range map[int]string{math.MaxInt: text, 40: text, 20: "round  kind\n    1  first\nthe map of round 1\nmeets the target\n"} {
		var out bytes.Buffer
		if n, err := (folding{&out, limit}).Write([]byte(text)); n != len(text) || err != nil || out.String() != want {
			t.Errorf("%d columns: %q, %d, %v", limit, out.String(), n, err)
		}
	}
}

// Who has no folder for caches is told so, and not a folder without a name.
func TestNoFolderOfCachesIsSaid(t *testing.T) {
	var out bytes.Buffer
	if (compilerReport{}).print(&out); !strings.Contains(out.String(), "in no folder") {
		t.Errorf("doctor says %q", out.String())
	}
}
