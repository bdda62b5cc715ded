package matpower_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/matpower/cases"
)

// withoutLines is a case as it is apart from where it stood in its file.
func withoutLines(c *matpower.Case) *matpower.Case {
	out := *c
	out.Ignored = nil
	out.Bus, out.Gen, out.Branch = append([]matpower.Bus(nil), c.Bus...), append([]matpower.Gen(nil), c.Gen...), append([]matpower.Branch(nil), c.Branch...)
	for i := range out.Bus {
		out.Bus[i].Line = 0
	}
	for i := range out.Gen {
		out.Gen[i].Line, out.Gen[i].Cost.Line, out.Gen[i].ReactiveCost.Line = 0, 0, 0
	}
	for i := range out.Branch {
		out.Branch[i].Line = 0
	}
	out.DCLine = slices.Clone(c.DCLine)
	for i := range out.DCLine {
		out.DCLine[i].Line, out.DCLine[i].Cost.Line = 0, 0
	}
	return &out
}

// again writes a case and reads what was written.
func again(t *testing.T, c *matpower.Case) *matpower.Case {
	t.Helper()
	var text bytes.Buffer
	if err := matpower.Write(&text, c.Name, "a comment\n% and ]; another", c); err != nil {
		t.Fatal(err)
	}
	back, err := matpower.Read("back.m", &text)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// TestWhatIsWrittenIsReadAgain: every number of every case, in units, limits and costs of
// every kind, solved or not.
func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	all := map[string]*matpower.Case{"by hand": read(t, strings.Replace(written, "NaN-NaN*0+1", "1", 1))}
	for _, name := range cases.Names() {
		c, err := cases.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = c
	}
	rng := rand.New(rand.NewPCG(991, 0))
	for name, c := range all {
		if got, want := withoutLines(again(t, c)), withoutLines(c); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: not what was written", name)
		}
		for i := range c.Bus {
			b := &c.Bus[i]
			b.LamP, b.LamQ, b.MuVMax, b.MuVMin = rng.NormFloat64(), -math.Exp(40*rng.NormFloat64()), rng.Float64()/3, 0
		}
		for i := range c.Gen {
			g := &c.Gen[i]
			if g.DCLine > 0 {
				continue
			}
			g.MuPMax, g.MuPMin, g.MuQMax, g.MuQMin = rng.Float64(), rng.Float64()*1e-300, 0, 1.0/3
		}
		for i := range c.Branch {
			b := &c.Branch[i]
			b.Pf, b.Qf, b.Pt, b.Qt, b.MuSf, b.MuSt, b.MuAngMin, b.MuAngMax = rng.NormFloat64(), 1e22, -0.1, 5e-324, 2, 3, 4, math.Pi
		}
		c.HasFlows, c.HasMultipliers = true, true
		if got, want := withoutLines(again(t, c)), withoutLines(c); !reflect.DeepEqual(got, want) {
			t.Errorf("%s, solved: not what was written", name)
		}
	}
}

// TestColumnsAreMATPOWERs: where its results stand, counted as its manual does.
func TestColumnsAreMATPOWERs(t *testing.T) {
	c, err := cases.Read("case9")
	if err != nil {
		t.Fatal(err)
	}
	c.HasFlows, c.HasMultipliers = true, true
	c.Bus[1].LamP, c.Bus[1].LamQ, c.Bus[1].MuVMax, c.Bus[1].MuVMin = 14.5, 15.5, 16.5, 17.5
	c.Gen[1].MuPMax, c.Gen[1].MuPMin, c.Gen[1].MuQMax, c.Gen[1].MuQMin = 22.5, 23.5, 24.5, 25.5
	b := &c.Branch[1]
	b.Pf, b.Qf, b.Pt, b.Qt, b.MuSf, b.MuSt, b.MuAngMin, b.MuAngMax = 14.5, 15.5, 16.5, 17.5, 18.5, 19.5, 20.5, 21.5
	var text bytes.Buffer
	if err := matpower.Write(&text, "solved", "", c); err != nil {
		t.Fatal(err)
	}
	for table, first := range map[string]int{"bus": 14, "gen": 22, "branch": 14} {
		_, rows, _ := strings.Cut(text.String(), "mpc."+table+" = [\n")
		row := strings.Fields(strings.TrimSuffix(strings.Split(rows, "\n")[1], ";"))
		for column := first; column <= len(row); column++ {
			if want := fmt.Sprintf("%d.5", column); row[column-1] != want {
				t.Errorf("%s, column %d: %s, want %s", table, column, row[column-1], want)
			}
		}
		if want := map[string]int{"bus": 17, "gen": 25, "branch": 21}[table]; len(row) != want {
			t.Errorf("%s has %d columns, want %d", table, len(row), want)
		}
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestNothingIsWrittenOfWhatCannotBeRead(t *testing.T) {
	c, err := cases.Read("case9")
	if err != nil {
		t.Fatal(err)
	}
	if err := matpower.Write(io.Discard, "a-b", "", c); err == nil || !strings.Contains(err.Error(), "a-b") {
		t.Errorf("a name that is none: %v", err)
	}
	c.HasMultipliers = true
	if err := matpower.Write(io.Discard, "a", "", c); err == nil || !strings.Contains(err.Error(), "flows") {
		t.Errorf("multipliers without flows: %v", err)
	}
	c.HasMultipliers = false
	if err := matpower.Write(full{}, "a", "", c); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a full disk: %v", err)
	}
	c.Gen[0].Bus = 77
	if err := matpower.Write(io.Discard, "a", "", c); err == nil || !strings.Contains(err.Error(), "no such bus") {
		t.Errorf("a case that is none: %v", err)
	}
}

func TestFunctionNames(t *testing.T) {
	for path, want := range map[string]string{
		"solved.m": "solved", "/tmp/my case-2.m": "my_case_2", "9bus.m": "case_9bus", "_x.m": "case__x", "ä.m": "case__", ".m": "case_",
	} {
		if got := matpower.FunctionName(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
