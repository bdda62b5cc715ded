// Package bench measures what the engine's operations cost on this machine and
// how far from the machine's own limit they are.
//
// The central type is Result: one operation at one shape, its latency
// percentiles, its rate by a documented FLOP formula, and the multiply-add
// ceiling measured in the same run, before and after, whichever was higher.
package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gpc-engine/gpc/internal/machine"
)

// Result is one row of a benchmark. Times are microseconds per call, rates
// count a multiply-add as two operations. GFlops and Fraction are zero where an
// operation is bounded by comparisons and memory rather than arithmetic.
type Result struct {
	Op        string  `json:"op"`                // operation
	Case      string  `json:"case"`              // whose sizes it has
	Backend   string  `json:"backend"`           // cpu, cuda or ref
	ISA       string  `json:"isa"`               // of its kernels
	Precision string  `json:"precision"`         // of its numbers
	Threads   int     `json:"threads"`           // used
	Batch     int     `json:"batch"`             // of one call
	Size      string  `json:"size"`              // of the problem, in words
	Outcome   string  `json:"outcome,omitempty"` // what the calls found, in words
	P50       float64 `json:"p50_us"`            // median of a call
	P99       float64 `json:"p99_us"`            // its 99 % quantile
	CPU       float64 `json:"cpu_us,omitempty"`  // mean CPU time of a call, of all threads
	Min       float64 `json:"min_us,omitempty"`  // least
	Calls     int     `json:"calls"`             // measured
	// GFlop is the work of one call by the documented count, whatever its rate.
	GFlop      float64   `json:"gflop"`
	GFlops     float64   `json:"gflops"`                 // rate, GFLOP/s
	PeakGFlops float64   `json:"peak_gflops"`            // ceiling of this run
	Fraction   float64   `json:"fraction"`               // rate over ceiling
	Bytes      float64   `json:"bytes,omitempty"`        // that a call has to move at least: operands, results and weights once each; absent where they are not counted
	Latencies  []float64 `json:"latencies_us,omitempty"` // of at most 100 calls in their order, the middle ones of as many equal parts of the measurement, for `gpc-lab compare`; absent from older records
	// Error is how far results are from float64; nil where it is not measured.
	Error        *Deviation `json:"error,omitempty"`
	Launch       *Launch    `json:"launch,omitempty"`       // of kernels: the row is one launch
	Samples      int        `json:"samples,omitempty"`      // of a whole training
	Epochs       int        `json:"epochs,omitempty"`       // of it
	Extrapolated bool       `json:"extrapolated,omitempty"` // whether its time follows from single updates
}

// MaxLatencies is how many calls of a row a record holds, for its statistics.
const MaxLatencies = 100

// Sample are at most MaxLatencies of the values: the middle ones of as many equal parts.
func Sample(us []float64) []float64 {
	n := min(len(us), MaxLatencies)
	out := make([]float64, n)
	for i := range out {
		out[i] = us[(2*i+1)*len(us)/(2*n)]
	}
	return out
}

// Budget bounds one measurement.
type Budget struct {
	Time     time.Duration // spend about this long per row (default 1 s)
	MinCalls int           // but make at least this many calls (default 20; 2 where Time is under 10 ms)
	MaxCalls int           // and at most this many (default 100 000)
}

func (b Budget) filled() Budget {
	least := 20
	if b.Time > 0 && b.Time < 10*time.Millisecond {
		least = 2
	}
	return Budget{
		Time:     cmp.Or(max(b.Time, 0), time.Second),
		MinCalls: cmp.Or(max(b.MinCalls, 0), least),
		MaxCalls: cmp.Or(max(b.MaxCalls, 0), 100_000),
	}
}

// latencies calls f until the budget is spent and returns each call's duration
// in microseconds, in their order. The first calls, a tenth of the budget, are not
// counted.
func latencies(ctx context.Context, budget Budget, f func() error) ([]float64, error) {
	budget = budget.filled()
	for start, n := time.Now(), 0; n < 2 || (time.Since(start) < budget.Time/10 && n < budget.MaxCalls/10); n++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := f(); err != nil {
			return nil, err
		}
	}
	var us []float64
	for start := time.Now(); len(us) < budget.MinCalls || (time.Since(start) < budget.Time && len(us) < budget.MaxCalls); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		us = append(us, machine.Microseconds(time.Since(t)))
	}
	return us, nil
}

// finish fills in the figures that follow from latencies in the order of the calls, FLOPs
// per call and the ceiling. Percentiles are nearest-rank.
func (r *Result) finish(us []float64, flops, peak float64) {
	r.Latencies = Sample(us)
	us = slices.Sorted(slices.Values(us))
	percentile := func(p float64) float64 { return stat.Quantile(p, stat.Empirical, us, nil) }
	r.P50, r.P99 = percentile(0.5), percentile(0.99)
	r.Min, r.Calls = us[0], len(us)
	r.GFlop = flops / 1e9
	if flops > 0 && !math.IsNaN(peak) {
		r.GFlops = flops / r.P50 / 1e3
		r.PeakGFlops = peak
		r.Fraction = r.GFlops / peak
	}
}

// sizeAndOutcome is the size of a row, with its outcome behind it if there is one.
func (r *Result) sizeAndOutcome() string {
	if r.Outcome == "" {
		return r.Size
	}
	return strings.TrimPrefix(r.Size+"; "+r.Outcome, "; ")
}

// Rows lays results out as a table, the header first; a dash where an operation
// has no rate. Results whose first is a launch are those of LaunchRows.
func Rows(results []Result) [][]string {
	if len(results) > 0 && results[0].Launch != nil {
		return LaunchRows(results)
	}
	rows := [][]string{{"op", "case", "size", "isa", "threads", "batch", "p50 µs", "p99 µs", "GFLOP", "GFLOP/s", "ceiling", "fraction", "error"}}
	for _, r := range results {
		work := "–"
		rate, peak, fraction := "–", "–", "–"
		if r.GFlop > 0 {
			work = fmt.Sprintf("%.3g", r.GFlop)
		}
		if r.GFlops > 0 {
			rate, peak, fraction = fmt.Sprintf("%.1f", r.GFlops), fmt.Sprintf("%.1f", r.PeakGFlops), fmt.Sprintf("%.2f", r.Fraction)
		}
		rows = append(rows, []string{r.Op, r.Case, r.sizeAndOutcome(), r.ISA, fmt.Sprint(r.Threads), fmt.Sprint(r.Batch), fmt.Sprintf("%.1f", r.P50), fmt.Sprintf("%.1f", r.P99), work, rate, peak, fraction, r.Error.String()})
	}
	return rows
}
