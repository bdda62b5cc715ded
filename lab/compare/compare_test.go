package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// timed is a row whose n latencies are spread evenly over ± 10 % about a median.
func timed(op string, batch, n int, median float64) bench.Result {
	r := bench.Result{Op: op, Case: "cart", Size: "z 2", Backend: "cpu", ISA: "avx2", Precision: "fp32", Threads: 1, Batch: batch, P50: median, P99: 1.1 * median, Calls: max(1, n), GFlops: 1, PeakGFlops: 2, Fraction: 0.5}
	for i := range n {
		at := (i * 7) % n // not in order
		r.Latencies = append(r.Latencies, median*(0.9+0.2*(float64(at)+0.5)/float64(n)))
	}
	return r
}

func named(file string, rows ...bench.Result) NamedRecord {
	return NamedRecord{file, &bench.Record{Device: file + "'s", Commit: "c", Results: rows}}
}

func compared(t *testing.T, worst float64, records ...NamedRecord) *Comparison {
	t.Helper()
	return require.Get(Compare(records, worst))(t)
}

// A slower row beyond the limit is a regression, one within it or by chance is none, one without
// a test counts by its median.
func TestRegressions(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after bench.Result
		worst         float64
		regression    bool
		says          string
	}{
		{"a tenth slower", timed("step", 1, 100, 100), timed("step", 1, 100, 110), 5, true, "+10.0 %"},
		{"within the limit", timed("step", 1, 100, 100), timed("step", 1, 100, 104), 5, false, ""},
		{"faster", timed("step", 1, 100, 100), timed("step", 1, 100, 50), 5, false, ""},
		{"by chance", timed("step", 1, 5, 100), timed("step", 1, 5, 106), 5, false, ""},
		{"no limit", timed("step", 1, 100, 100), timed("step", 1, 100, 300), math.NaN(), false, ""},
		{"no latencies at first", timed("step", 1, 0, 100), timed("step", 1, 100, 110), 5, true, "no test: the first record has no latencies"},
		{"no latencies then", timed("step", 1, 100, 100), timed("step", 1, 0, 110), 5, true, "no test: the record has no latencies"},
		{"no latencies at all", timed("step", 1, 0, 100), timed("step", 1, 0, 104), 5, false, ""},
		{"single calls", timed("step", 1, 1, 100), timed("step", 1, 1, 110), 5, true, "1 and 1 calls are too few"},
	} {
		got := compared(t, c.worst, named("a.json", c.before), named("b.json", c.after))
		if (len(got.Regressions) > 0) != c.regression || got.Rows[0].Times[1].Regression != c.regression {
			t.Errorf("%s: regressions %q, %+v", c.name, got.Regressions, got.Rows[0].Times[1])
		}
		for _, r := range got.Regressions {
			if !strings.Contains(r, c.says) || !strings.Contains(r, "step, cart, z 2, batch 1, fp32") || !strings.Contains(r, "b.json") {
				t.Errorf("%s says %q, want %q, the row and the record", c.name, r, c.says)
			}
		}
	}
}

// The known answer of the test: of two samples of five that do not overlap the least two-sided P
// is 2/C(10, 5), and that of a sample with itself is 1.
func TestMannWhitneyKnownAnswers(t *testing.T) {
	apart := compared(t, 5, named("a", timed("step", 1, 5, 100)), named("b", timed("step", 1, 5, 200))).Rows[0].Times[1]
	if want := 2.0 / 252; math.Abs(apart.P-want) > 1e-12 || apart.Ratio != 2 {
		t.Errorf("P %v, want %v; ratio %v", apart.P, want, apart.Ratio)
	}
	same := compared(t, 5, named("a", timed("step", 1, 5, 100)), named("b", timed("step", 1, 5, 100))).Rows[0].Times[1]
	if !(same.P > 0.9) || same.change() != "~" {
		t.Errorf("P of the same is %v, %s", same.P, same.change())
	}
	// 2/C(6, 3) is 0.1, 2/C(8, 4) is 0.029.
	for _, v := range []struct {
		n, m int
		test bool
	}{{3, 3, false}, {4, 4, true}, {1, 39, false}, {1, 40, true}, {100, 1, true}} {
		if (untested(v.n, v.m) == "") != v.test {
			t.Errorf("%d and %d calls: %q", v.n, v.m, untested(v.n, v.m))
		}
	}
}

// The interval of a median of 100 is between the 40th and the 61st value: of 100 tosses of a coin
// 40 to 60 are heads in 96.5 % of cases, 41 to 59 in 94.3 %.
func TestIntervalOfAMedian(t *testing.T) {
	r := timed("step", 1, 100, 100)
	sorted := slices.Sorted(slices.Values(r.Latencies))
	got := compared(t, 5, named("a", r), named("b", r)).Rows[0].Times[0]
	if got.Interval != [2]float64{sorted[39], sorted[60]} {
		t.Errorf("%v, want %v and %v", got.Interval, sorted[39], sorted[60])
	}
	if few := compared(t, 5, named("a", timed("step", 1, 3, 1)), named("b", r)).Rows[0].Times[0]; !math.IsNaN(few.Interval[0]) || !math.IsNaN(few.Interval[1]) {
		t.Errorf("three values give the interval %v", few.Interval)
	}
}

// Rows belong together by what was measured, whatever it was measured on; those of one record
// alone are said, and the mean is over the others.
func TestRowsAreAligned(t *testing.T) {
	two := timed("opf", 64, 100, 50)
	two.Threads = 2
	sixteen := two
	sixteen.Threads, sixteen.ISA, sixteen.P50 = 16, "avx512", 25
	other := timed("step", 1, 100, 100)
	other.Size = "z 4"
	double := timed("step", 1, 100, 100)
	double.Precision = "tf32"
	c := compared(t, 5,
		named("x/a.json", timed("step", 1, 100, 100), timed("step", 64, 100, 100), timed("opf", 64, 100, 100), two, other),
		named("y/a.json", double, timed("step", 1, 100, 200), timed("opf", 64, 100, 400), sixteen))
	var rows []string
	for _, r := range c.Rows {
		rows = append(rows, fmt.Sprintf("%s/%d/%s/%s %v %v", r.Op, r.Batch, r.Precision, r.Size, r.Times[0] != nil, r.Times[1] != nil))
	}
	want := []string{"step/1/fp32/z 2 true true", "step/64/fp32/z 2 true false", "opf/64/fp32/z 2 true true", "opf/64/fp32/z 2 true true", "step/1/fp32/z 4 true false", "step/1/tf32/z 2 false true"}
	if !slices.Equal(rows, want) {
		t.Errorf("%q, want %q", rows, want)
	}
	if got := c.Rows[3].Times[1]; got.Threads != 16 || got.Ratio != 0.5 {
		t.Errorf("the second of two rows: %+v", got)
	}
	// (2 · 4 · 0.5)^(1/3)
	if r := c.Records[1]; r.Compared != 3 || math.Abs(r.GeometricMean-math.Cbrt(4)) > 1e-12 || len(r.Alone) != 1 || !strings.Contains(r.Alone[0], "tf32") {
		t.Errorf("the second record: %+v", r)
	}
	if r := c.Records[0]; !math.IsNaN(r.GeometricMean) || len(r.Alone) != 2 {
		t.Errorf("the first record: %+v", r)
	}
	if labels := c.Labels(); !slices.Equal(labels, []string{"x/a", "y/a"}) {
		t.Errorf("labels %q of two files of one name", labels)
	}
	for i, line := range c.CSV() {
		if len(line) != len(c.CSV()[0]) {
			t.Errorf("line %d of the CSV has %d cells, the header %d", i, len(line), len(c.CSV()[0]))
		}
	}
	if n := len(c.CSV()); n != 1+5+4 {
		t.Errorf("%d lines of CSV", n)
	}
	for i, line := range c.Table() {
		if len(line) != len(c.Table()[0]) {
			t.Errorf("line %d of the table has %d cells, the header %d", i, len(line), len(c.Table()[0]))
		}
	}
}

// What cannot be compared is refused.
func TestComparisonsThatCannotBe(t *testing.T) {
	a := named("a", timed("step", 1, 10, 1))
	if _, err := Compare([]NamedRecord{a}, 5); err == nil {
		t.Error("one record is compared")
	}
	if _, err := Compare([]NamedRecord{a, a}, -1); err == nil {
		t.Error("a regression below zero is allowed")
	}
	if _, err := Compare(slices.Repeat([]NamedRecord{a}, maxCompared+1), 5); err == nil {
		t.Error("more records than colours are compared")
	}
}

// The committed record of an older version is read; its power flows have their outcome apart.
func TestOlderRecordsAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.json")
	require.OK(t, os.WriteFile(path, []byte(`{"device":"d","commit":"c","command":"gpc bench","results":[
		{"op":"opf","case":"case30","batch":1,"size":"11.0 iterations, 1 of 1 optimal","p50_us":210,"calls":9,"precision":"fp64"},
		{"op":"opf-sweep","case":"case30","batch":25000,"size":"500 loads × 50: 14550 optimal, 10450 infeasible","p50_us":1,"calls":1,"precision":"fp64"}]}`), 0o644))
	old := require.Get(ReadBench(path))(t)
	if r := old.Results[0]; r.Size != "" || r.Outcome != "11.0 iterations, 1 of 1 optimal" {
		t.Errorf("%+v", r)
	}
	if r := old.Results[1]; r.Size != "500 loads × 50" || r.Outcome != "14550 optimal, 10450 infeasible" {
		t.Errorf("%+v", r)
	}
	now := bench.Result{Op: "opf", Case: "case30", Batch: 1, Size: "30 buses", P50: 105, Calls: 9, Precision: "fp64"}
	c := compared(t, 5, NamedRecord{"old", old}, named("new", now))
	if row := c.Rows[0]; row.Size != "30 buses" || row.Times[1] == nil || row.Times[1].Ratio != 0.5 || row.Times[1].Untested == "" {
		t.Errorf("%+v", row)
	}
	for _, path := range require.Get(filepath.Glob("results/*/bench*.json"))(t) {
		if _, err := ReadBench(path); err != nil {
			t.Error(err)
		}
	}
}

// What is wrong with a record is said with the file and the key.
func TestMalformedRecords(t *testing.T) {
	row := func(change string) string {
		r := map[string]any{"op": "step", "case": "cart", "batch": 1, "p50_us": 2, "calls": 3}
		require.OK(t, json.Unmarshal([]byte(change), &r))
		return `{"results":[{"op":"step","batch":1,"p50_us":1,"calls":1},` + string(require.Get(json.Marshal(r))(t)) + `]}`
	}
	for text, says := range map[string]string{
		`{}`:                              "results is missing",
		`{"results":[]}`:                  "results is missing",
		`{"curves":[]}`:                   "results is missing",
		`{"results":[null]}`:              "results[0].op",
		`{"results":7}`:                   "results is a number",
		`{"results":`:                     "unexpected end",
		row(`{"op":""}`):                  "results[1].op",
		row(`{"batch":0}`):                "results[1].batch: 0",
		row(`{"p50_us":0}`):               "results[1].p50_us: 0",
		row(`{"p50_us":"fast"}`):          "p50_us is a string",
		row(`{"calls":0}`):                "results[1].calls",
		row(`{"fraction":-1}`):            "results[1].fraction: -1",
		row(`{"peak_gflops":-1}`):         "results[1].peak_gflops",
		row(`{"latencies_us":[1,0]}`):     "results[1].latencies_us[1]: 0",
		row(`{"latencies_us":[1,1,1,1]}`): "latencies_us has 4 of 3 calls",
		`{"bandwidth_gb_s":-1,"results":[{"op":"step","batch":1,"p50_us":1,"calls":1}]}`: "bandwidth_gb_s: -1",
	} {
		path := filepath.Join(t.TempDir(), "record.json")
		require.OK(t, os.WriteFile(path, []byte(text), 0o644))
		if _, err := ReadBench(path); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want %q and the file", text, err, says)
		}
	}
	if _, err := ReadBench(filepath.Join(t.TempDir(), "none.json")); err == nil {
		t.Error("a file that is not there is read")
	}
}

// FuzzRecord: whatever a file holds, it is refused or compared with itself, without a change.
func FuzzRecord(f *testing.F) {
	for _, text := range []string{
		`{"results":[{"op":"step","batch":1,"p50_us":1,"calls":9,"latencies_us":[1,2,3,4,5]}],"load":null}`,
		`{"results":[{"op":"opf","batch":1,"p50_us":1,"calls":1,"size":"11 iterations, 1 of 1 optimal"},{"op":"opf","batch":1,"p50_us":1e300,"calls":1}]}`,
		`{"results":[{"op":"a","batch":1,"p50_us":5e-324,"calls":1},{"op":"a","batch":1,"p50_us":1e308,"calls":1,"size":"x"}],"bandwidth_gb_s":1e-300}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "record.json")
		require.OK(t, os.WriteFile(path, text, 0o644))
		r, err := ReadBench(path)
		if err != nil {
			return
		}
		c := require.Get(Compare([]NamedRecord{{"a", r}, {"b", r}}, 0))(t)
		for _, table := range [][][]string{c.Head(), c.Table(), c.CSV()} {
			if len(table) < 2 {
				t.Errorf("a table of %d lines", len(table))
			}
		}
		if len(c.Regressions) > 0 || c.Records[1].Compared != len(r.Results) || len(c.Records[1].Alone) > 0 {
			t.Errorf("%d rows: %+v", len(r.Results), c.Records[1])
		}
	})
}
