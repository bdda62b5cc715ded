package series

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(path string, n *network.Network) (*Steps, error) {
	s, err := Open(path, n)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	all := &Steps{}
	for {
		steps, err := s.Next(3)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if steps.First != all.Len() {
			return nil, fmt.Errorf("steps from %d after %d", steps.First, all.Len())
		}
		all.Time, all.Pd, all.Qd = append(all.Time, steps.Time...), append(all.Pd, steps.Pd...), append(all.Qd, steps.Qd...)
	}
}

// Case 9 has loads of 90 + j30 at bus 5, 100 + j35 at 7 and 125 + j50 at 9.
func TestLayoutsSayTheSameLoads(t *testing.T) {
	n := networktest.Load(t, "case9")
	type long struct {
		Time string  `parquet:"time"`
		Bus  int64   `parquet:"bus"`
		Pd   float32 `parquet:"pd"`
		Qd   float64 `parquet:"qd"`
	}
	parquetFile := filepath.Join(t.TempDir(), "loads.parquet")
	if err := parquet.WriteFile(parquetFile, []long{{"a", 5, 45, 15}, {"b", 5, 99, 33}, {"b", 9, 130, 20}}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		file(t, "wide.csv", "\ufeff\"time\",pd_5,pd_9,qd_9\n# half of it\na,45,125,50\nb, 99,130,20\n"),
		file(t, "long.csv", "time,bus,pd,qd\na,5,45,15\nb,5,99,33\nb,9,130,20\n"),
		parquetFile,
	} {
		s, err := read(path, n)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(s.Time, " ") != "a b" {
			t.Errorf("%s: steps %v, want a and b", path, s.Time)
		}
		want := [2][6]float64{{0.45, 0.15, 1, 0.35, 1.25, 0.5}, {0.99, 0.33, 1, 0.35, 1.3, 0.2}}
		for k := range want {
			for i, b := range []int{4, 6, 8} {
				if p, q := s.Pd[k][b], s.Qd[k][b]; math.Abs(p-want[k][2*i]) > 1e-12 || math.Abs(q-want[k][2*i+1]) > 1e-12 {
					t.Errorf("%s, step %d, bus %d: %g + j%g, want %g + j%g", path, k, n.BusID[b], p, q, want[k][2*i], want[k][2*i+1])
				}
			}
		}
	}
	s, err := read(file(t, "scale.csv", "scale\n0.5\n2\n0.25\n1\n"), n)
	if err != nil || s.Len() != 4 || s.Pd[1][4] != 1.8 || s.Qd[2][8] != 0.125 {
		t.Errorf("scaled loads %+v, %v", s, err)
	}
}

func TestWhatIsNoTableOfLoadsIsRefusedWithItsPlace(t *testing.T) {
	n := networktest.Load(t, "case9")
	for _, c := range []struct{ name, text, says string }{
		{"a.csv", "", "empty"},
		{"a.txt", "scale\n1\n", ".csv or .parquet"},
		{"a.csv", "time,load\na,1\n", `a.csv, line 1, column "load"`},
		{"a.csv", "# loads\ntime,bus,pd,scale,q\na,5,90,3,500\n", `line 2, column "scale": a table with a column bus has time, bus, pd and qd alone`},
		{"a.csv", "time,bus,pd,pd_7\na,5,90,3\n", `line 1, column "pd_7"`},
		{"a.csv", "pd\n90\n", `line 1, column "pd"`},
		{"a.csv", "time,bus,pd\na,5,90\na,7,100\nb,5,140\na,9,100\n", `line 5, column time: "a" appears again after another time: sort the rows by time`},
		{"a.csv", "pd_5,pd_05\n1,2\n", `line 1, column "pd_05": want pd_5`},
		{"a.csv", "pd_5,qd_+5\n1,2\n", `line 1, column "qd_+5": want qd_5`},
		{"a.csv", "time\na\n", "no load"},
		{"a.csv", "pd_5,pd_5\n1,2\n", "appears twice"},
		{"a.csv", "pd_10\n1\n", "no bus 10"},
		{"a.csv", "time,bus,qd\na,5,1\n", "time and pd"},
		{"a.csv", "time,bus,pd\na,5,1\na,5,2\n", "line 3, column bus: bus 5 appears twice"},
		{"a.csv", "time,bus,pd\na,5.5,1\n", "no bus 5.5"},
		{"a.csv", "scale\n1\nNaN\n", "line 3, column scale"},
		{"a.csv", "scale\n1\n-0.5\n", "line 3, column scale: -0.5: want a number of 0 or more"},
		{"a.csv", "pd_5\n1\n\n,\n", "a.csv, line 4 has 2 fields, want 1 as in the first row"},
		{"a.csv", "pd_5\nmuch\n", `"much": want a finite number`},
		{"a.parquet", "PAR1 and no more", "not a parquet file"},
	} {
		if _, err := read(file(t, c.name, c.text), n); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %q", c.text, err, c.says)
		}
	}
}

// day is a load that goes up and down, and is too much at one step.
func day(n *network.Network, steps int) *Steps {
	s := &Steps{}
	for k := range steps {
		scale := 0.85 + 0.1*math.Sin(2*math.Pi*float64(k)/float64(steps))
		if k == 5 {
			scale = 9
		}
		pd, qd := n.Loads(scale)
		s.add(fmt.Sprint(k), pd, qd)
	}
	return s
}

// A step's optimum is that of a flat start, whichever step it begins at, on one thread and two.
func TestWarmStepsEndAtTheOptimaOfFlatOnes(t *testing.T) {
	n := networktest.Load(t, "case30")
	steps := day(n, 24)
	solve := func(threads, chains int) []acopf.Result {
		s, err := acopf.New(n, acopf.Options{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		y, err := NewSolver(s, chains)
		if err != nil {
			t.Fatal(err)
		}
		var all []acopf.Result
		for from := 0; from < steps.Len(); from += 12 {
			part := &Steps{First: from, Time: steps.Time[from : from+12], Pd: steps.Pd[from : from+12], Qd: steps.Qd[from : from+12]}
			results := make([]acopf.Result, part.Len())
			if err := y.Solve(context.Background(), part, results); err != nil {
				t.Fatal(err)
			}
			all = append(all, results...)
		}
		return all
	}
	flat := solve(1, 0)
	for _, chains := range []int{1, 5} {
		one, two := solve(1, chains), solve(2, chains)
		for k := range flat {
			if one[k].Status != flat[k].Status || flat[k].Status == acopf.Optimal && math.Abs(one[k].Objective-flat[k].Objective) > 1e-7*flat[k].Objective {
				t.Errorf("%d chains, step %d: %v at %g, from a flat start %v at %g", chains, k, one[k].Status, one[k].Objective, flat[k].Status, flat[k].Objective)
			}
			if one[k].Objective != two[k].Objective || one[k].Iterations != two[k].Iterations {
				t.Errorf("%d chains, step %d: two threads end elsewhere", chains, k)
			}
		}
	}
	if flat[5].Status == acopf.Optimal {
		t.Error("nine times the load has an optimum")
	}
}

// The tables hold what the solver found: balances of every bus close from them alone.
func TestTablesBalance(t *testing.T) {
	n := networktest.Load(t, "case9")
	steps := day(n, 8)
	s, err := acopf.New(n, acopf.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	y, err := NewSolver(s, 2)
	if err != nil {
		t.Fatal(err)
	}
	results := make([]acopf.Result, steps.Len())
	if err := y.Solve(context.Background(), steps, results); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := Write(folder, n, s, func(o *Sink) error { return o.Add(steps, results) }); err != nil {
		t.Fatal(err)
	}
	all := rowsOf[StepRow](t, folder, 0)
	if len(all) != 8 || all[5].Status == "optimal" || all[5].Reason == "" || !math.IsNaN(all[5].Objective) || all[4].Objective != results[4].Objective {
		t.Fatalf("steps %+v", all)
	}
	balance := map[[2]int32]float64{}
	for _, r := range rowsOf[BusRow](t, folder, 1) {
		balance[[2]int32{r.Step, r.Bus}] -= r.Pd
	}
	for _, r := range rowsOf[GenRow](t, folder, 2) {
		balance[[2]int32{r.Step, r.Bus}] += r.Pg
	}
	for _, r := range rowsOf[BranchRow](t, folder, 3) {
		balance[[2]int32{r.Step, r.From}] -= r.Pf
		balance[[2]int32{r.Step, r.To}] -= r.Pt
	}
	if len(balance) != 7*9 {
		t.Errorf("%d balances, want those of nine buses at the seven steps with an optimum", len(balance))
	}
	for at, mw := range balance {
		if math.Abs(mw) > 1e-5 {
			t.Errorf("step %d, bus %d: %g MW are left", at[0], at[1], mw)
		}
	}
	failed := errors.New("no more")
	again := t.TempDir()
	if err := Write(again, n, s, func(*Sink) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("an error of fill became %v", err)
	}
	if left, _ := os.ReadDir(again); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

func rowsOf[T any](t *testing.T, folder string, file int) []T {
	t.Helper()
	rows, err := parquet.ReadFile[T](filepath.Join(folder, Files[file]))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// The start of the next steps is the solver's own: the caller may write results over, their settings too.
func TestResultsMayBeWrittenOver(t *testing.T) {
	n := networktest.Load(t, "case14")
	steps := day(n, 2)
	solve := func(ratio float64) acopf.Result {
		s, err := acopf.New(n, acopf.Options{Threads: 1, Ranges: []acopf.Range{{Kind: acopf.Ratio, Index: 7, Min: 0.9, Max: 1.1}}})
		if err != nil {
			t.Fatal(err)
		}
		y, err := NewSolver(s, 1)
		if err != nil {
			t.Fatal(err)
		}
		var results [2]acopf.Result
		for k := range results {
			if err := y.Solve(context.Background(), &Steps{Time: steps.Time[k : k+1], Pd: steps.Pd[k : k+1], Qd: steps.Qd[k : k+1]}, results[k:k+1]); err != nil {
				t.Fatal(err)
			}
			if ratio > 0 {
				results[k].Settings[0] = ratio
			}
		}
		return results[1]
	}
	if whole, written := solve(0), solve(0.5); whole.Iterations != written.Iterations || whole.Objective != written.Objective {
		t.Errorf("%d iterations to %g, with an earlier result written over %d to %g", whole.Iterations, whole.Objective, written.Iterations, written.Objective)
	}
}
