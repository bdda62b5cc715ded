package compare

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/lab/deadline"
)

// Comparison sets the rows of records beside those of the first, under the JSON keys of `gpc-lab
// compare`.
type Comparison struct {
	Records          []ComparedRecord `json:"records"`
	Rows             []ComparedRow    `json:"rows"`
	MaxRegressionPct float64          `json:"max_regression_pct"` // as asked for; null: anything
	// Regressions are the rows beyond it, by name and record.
	Regressions []string `json:"regressions"`
}

// ComparedRecord is one of the records.
type ComparedRecord struct {
	File          string        `json:"file"`     // as named
	Device        string        `json:"device"`   // that was measured
	Commit        string        `json:"commit"`   // of the program
	Command       string        `json:"command"`  // that recorded it
	Backends      []string      `json:"backends"` // of its rows: backend, instruction set, threads
	Load          *machine.Load `json:"load"`
	Peak          float64       `json:"peak_gflops"`    // largest ceiling of its rows; 0: none
	Bandwidth     float64       `json:"bandwidth_gb_s"` // ceiling of memory; 0: not recorded
	GeometricMean float64       `json:"geomean_ratio"`  // geometric mean of the medians over the first record's; null of the first
	Compared      int           `json:"compared"`       // rows that it is over
	// Alone are rows that the first record does not have; of the first, those that no other has.
	Alone []string `json:"alone"`
}

// ComparedRow is one row of a benchmark in every record that has it.
type ComparedRow struct {
	Op        string `json:"op"`        // operation
	Case      string `json:"case"`      // whose sizes it has
	Size      string `json:"size"`      // of the problem, in words
	Batch     int    `json:"batch"`     // of one call
	Precision string `json:"precision"` // of its numbers
	// Times are those of the records in their order; nil where one has no such row.
	Times []*ComparedTime `json:"times"`
}

// ComparedTime is a row in one record.
type ComparedTime struct {
	Backend  string     `json:"backend"`        // of a record, in their order; null where one lacks the row
	ISA      string     `json:"isa"`            // of its kernels
	Threads  int        `json:"threads"`        // used
	Median   float64    `json:"median_us"`      // of all calls
	Interval [2]float64 `json:"median_ci95_us"` // of the recorded latencies, between order statistics; null without, and an end where they are too few
	P99      float64    `json:"p99_us"`         // 99 % quantile
	// N are the recorded latencies that interval and test are of; 0: the record has none.
	N        int     `json:"n"`
	GFlops   float64 `json:"gflops"`             // rate, GFLOP/s
	Fraction float64 `json:"fraction"`           // rate over ceiling
	Ratio    float64 `json:"ratio"`              // median over the first record's
	P        float64 `json:"p"`                  // of the Mann–Whitney test against the first record's latencies; null without a test
	Untested string  `json:"untested,omitempty"` // why there is none
	// Regression: beyond what was allowed, and not by chance as far as that was tested.
	Regression bool `json:"regression"`

	latencies []float64 // ascending
}

// maxCompared are as many records as a figure can tell apart.
const maxCompared = 8

// NamedRecord is a record with the file that it was read from.
type NamedRecord struct {
	File string
	*bench.Record
}

// Compare sets rows of the same operation, case, size, precision and batch side by side: those
// that a record has several of in their order, and whatever the backend, instruction set and
// threads are, which differ between machines. maxRegression is in %; NaN: none.
func Compare(records []NamedRecord, maxRegression float64) (*Comparison, error) {
	if len(records) < 2 || len(records) > maxCompared {
		return nil, fmt.Errorf("%d records, want 2 to %d to compare", len(records), maxCompared)
	}
	if maxRegression < 0 || math.IsInf(maxRegression, 0) {
		return nil, fmt.Errorf("a regression of %v %%, want a finite number ≥ 0", maxRegression)
	}
	c := &Comparison{MaxRegressionPct: maxRegression, Regressions: []string{}}
	for k, r := range records {
		c.Records = append(c.Records, described(r))
		for at := range r.Results {
			res := &r.Results[at]
			row := c.row(res, k)
			for len(row.Times) < len(records) {
				row.Times = append(row.Times, nil)
			}
			row.Times[k] = timeOf(res)
		}
	}
	for i := range c.Rows {
		c.relate(&c.Rows[i])
	}
	for k := range c.Records {
		c.summarise(k)
	}
	return c, nil
}

// row is the place of a result of record k: the first row that is the same and has none of it
// yet. Where one of them does not say its size, any is the same.
func (c *Comparison) row(r *bench.Result, k int) *ComparedRow {
	at := slices.IndexFunc(c.Rows, func(row ComparedRow) bool {
		return row.Op == r.Op && row.Case == r.Case && row.Batch == r.Batch && row.Precision == r.Precision &&
			(row.Size == r.Size || row.Size == "" || r.Size == "") && row.Times[k] == nil
	})
	if at < 0 {
		at = len(c.Rows)
		c.Rows = append(c.Rows, ComparedRow{Op: r.Op, Case: r.Case, Size: r.Size, Batch: r.Batch, Precision: r.Precision})
	}
	row := &c.Rows[at]
	row.Size = cmp.Or(row.Size, r.Size)
	return row
}

// described is the head of a record.
func described(r NamedRecord) ComparedRecord {
	d := ComparedRecord{File: r.File, Device: r.Device, Commit: r.Commit, Command: r.Command, Load: r.Load, Bandwidth: r.Bandwidth, Peak: Peak(r.Record), Backends: []string{}, Alone: []string{}}
	for _, res := range r.Results {
		if backend := fmt.Sprintf("%s %s, %d threads", res.Backend, res.ISA, res.Threads); !slices.Contains(d.Backends, backend) {
			d.Backends = append(d.Backends, backend)
		}
	}
	slices.Sort(d.Backends)
	return d
}

func timeOf(r *bench.Result) *ComparedTime {
	none := math.NaN()
	t := &ComparedTime{
		Backend: r.Backend, ISA: r.ISA, Threads: r.Threads, Median: r.P50, Interval: [2]float64{none, none}, P99: r.P99,
		N: len(r.Latencies), GFlops: r.GFlops, Fraction: r.Fraction, Ratio: none, P: none, latencies: slices.Clone(r.Latencies),
	}
	if slices.Sort(t.latencies); t.N > 0 {
		t.Interval = MedianInterval(t.latencies)
	}
	return t
}

// relate sets the times of a row beside the first record's.
func (c *Comparison) relate(row *ComparedRow) {
	first := row.Times[0]
	if first == nil {
		return
	}
	for k, t := range row.Times[1:] {
		if t == nil {
			continue
		}
		t.Ratio = t.Median / first.Median
		if t.Untested = untested(first.N, t.N); t.Untested == "" {
			t.P = mannWhitney(first.latencies, t.latencies)
		}
		if t.Ratio > 1+c.MaxRegressionPct/100 && !(t.P >= significance) {
			t.Regression = true
			c.Regressions = append(c.Regressions, fmt.Sprintf("%s: %+.1f %% in %s, %s", row.Name(), 100*(t.Ratio-1), c.Records[k+1].File, t.how()))
		}
	}
}

// summarise fills in what a record's rows say together.
func (c *Comparison) summarise(k int) {
	r := &c.Records[k]
	logs := 0.0
	for i := range c.Rows {
		times := c.Rows[i].Times
		switch {
		case times[k] == nil:
		case k == 0 && !slices.ContainsFunc(times[1:], func(t *ComparedTime) bool { return t != nil }), times[0] == nil:
			r.Alone = append(r.Alone, c.Rows[i].Name())
		case k > 0:
			logs += math.Log(times[k].Ratio)
			r.Compared++
		}
	}
	r.GeometricMean = math.Exp(logs / float64(r.Compared)) // NaN over none
}

// Name is a row in words.
func (r *ComparedRow) Name() string {
	parts := []string{r.Op}
	for _, part := range []string{r.Case, r.Size} {
		if part != "" && part != "-" {
			parts = append(parts, part)
		}
	}
	return fmt.Sprintf("%s, batch %d, %s", strings.Join(parts, ", "), r.Batch, r.Precision)
}

// Labels are short names of the records: their files without the folder where that tells them
// apart.
func (c *Comparison) Labels() []string {
	labels := make([]string, len(c.Records))
	for i, r := range c.Records {
		labels[i] = strings.TrimSuffix(filepath.Base(r.File), ".json")
	}
	for i := range labels {
		if slices.Contains(labels[:i], labels[i]) || slices.Contains(labels[i+1:], labels[i]) {
			for k, r := range c.Records {
				labels[k] = strings.TrimSuffix(r.File, ".json")
			}
			break
		}
	}
	return labels
}

// Head is what the records are of, as a table.
func (c *Comparison) Head() [][]string {
	rows := [][]string{{"record", "device", "commit", "kernels", "ceiling GFLOP/s", "memory GB/s", "load"}}
	labels := c.Labels()
	for i, r := range c.Records {
		rows = append(rows, []string{labels[i], r.Device, r.Commit, strings.Join(r.Backends, "; "), deadline.Positive("%.0f", r.Peak), deadline.Positive("%.1f", r.Bandwidth), r.Load.String()})
	}
	return rows
}

// Table has a line for each row and the columns of each record: a median with its interval,
// and of all but the first the change where it is not chance, with the test.
func (c *Comparison) Table() [][]string {
	head := []string{"op", "case", "size", "batch", "precision"}
	for i, label := range c.Labels() {
		head = append(head, label+", µs", "ceiling")
		if i > 0 {
			head = append(head, "change", "")
		}
	}
	rows := [][]string{head}
	for _, r := range c.Rows {
		row := []string{r.Op, r.Case, r.Size, fmt.Sprint(r.Batch), r.Precision}
		for i, t := range r.Times {
			if t == nil {
				row = append(row, "–", "–")
				if i > 0 {
					row = append(row, "–", "")
				}
				continue
			}
			row = append(row, deadline.Micros(t.Median)+" "+t.within(), deadline.Positive("%.2f", t.Fraction))
			if i > 0 {
				row = append(row, t.change(), t.how())
			}
		}
		rows = append(rows, row)
	}
	mean := []string{"geometric mean", "", "", "", "", "", ""}
	for _, r := range c.Records[1:] {
		mean = append(mean, "", "", deadline.Positive("× %.3f", r.GeometricMean), fmt.Sprintf("%d rows", r.Compared))
	}
	return append(rows, mean)
}

// within is how far the interval of a median reaches, as a share of it.
func (t *ComparedTime) within() string {
	if t.N == 0 {
		return "± ?"
	}
	reach := max(0, t.Interval[1]/t.Median-1, 1-t.Interval[0]/t.Median) // NaN where an end is open
	if math.IsNaN(reach) {
		return "± ∞"
	}
	return fmt.Sprintf("± %.0f %%", 100*reach)
}

// change is that of the median; "~" where it may be chance.
func (t *ComparedTime) change() string {
	switch {
	case math.IsNaN(t.Ratio):
		return "–"
	case t.P >= significance:
		return "~"
	}
	return fmt.Sprintf("%+.1f %%", 100*(t.Ratio-1))
}

// how the change was tested.
func (t *ComparedTime) how() string {
	switch {
	case math.IsNaN(t.Ratio):
		return ""
	case t.Untested != "":
		return "no test: " + t.Untested
	}
	return fmt.Sprintf("p=%.3f n=%d", t.P, t.N)
}

// CSV has a line for each time of each row, the header first; what does not exist is empty.
func (c *Comparison) CSV() [][]string {
	rows := [][]string{{
		"op", "case", "size", "batch", "precision", "record", "device", "commit", "backend", "isa", "threads",
		"median_us", "median_lo_us", "median_hi_us", "p99_us", "n", "gflops", "fraction", "ratio", "p", "untested", "regression",
	}}
	cell := func(v float64) string {
		if math.IsNaN(v) {
			return ""
		}
		return fmt.Sprintf("%.9g", v)
	}
	for _, r := range c.Rows {
		for k, t := range r.Times {
			if t == nil {
				continue
			}
			of := c.Records[k]
			rows = append(rows, []string{
				r.Op, r.Case, r.Size, fmt.Sprint(r.Batch), r.Precision, of.File, of.Device, of.Commit, t.Backend, t.ISA, fmt.Sprint(t.Threads),
				cell(t.Median), cell(t.Interval[0]), cell(t.Interval[1]), cell(t.P99), fmt.Sprint(t.N), cell(t.GFlops), cell(t.Fraction), cell(t.Ratio), cell(t.P), t.Untested, fmt.Sprint(t.Regression),
			})
		}
	}
	return rows
}

// Latencies are those that the record holds of the row, µs, ascending; not to be changed.
func (t *ComparedTime) Latencies() []float64 { return t.latencies }
