package report

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/lab/compare"
	"github.com/gpc-engine/gpc/lab/deadline"
	"github.com/gpc-engine/gpc/lab/draw"
	"github.com/gpc-engine/gpc/lab/draw/drawtest"
	"github.com/gpc-engine/gpc/lab/testrecords"
)

// measured is a benchmark's record, times a factor.
func measured(factor float64) *bench.Record {
	r := &bench.Record{Device: "some CPU", Bandwidth: 20 / factor}
	for _, op := range []string{"gemm", "step"} {
		for _, batch := range []int{1, 64, 4096} {
			work, us := 1e-4*float64(batch), factor*(2+0.4*float64(batch))
			row := bench.Result{Op: op, Case: "cart", Size: "z 2", Precision: "fp32", Threads: 1, Batch: batch, P50: us, P99: us, Calls: 50, GFlop: work, GFlops: work / us * 1e6, PeakGFlops: 300 / factor, Bytes: 1e5 + 100*float64(batch)}
			for i := range 50 {
				row.Latencies = append(row.Latencies, us*(0.9+0.004*float64(i)))
			}
			r.Results = append(r.Results, row)
		}
	}
	return r
}

func comparison(t *testing.T, records ...*bench.Record) []*draw.Figure {
	t.Helper()
	var named []compare.NamedRecord
	for i, r := range records {
		named = append(named, compare.NamedRecord{File: fmt.Sprintf("machine-%d.json", i), Record: r})
	}
	return HardwareFigures(require.Get(compare.Compare(named, math.NaN()))(t), named)
}

// The figures of a comparison can be read, and say which machine is which.
func TestFiguresOfAComparison(t *testing.T) {
	figures := comparison(t, measured(1), measured(0.3))
	var names []string
	dir := t.TempDir()
	for _, f := range figures {
		names = append(names, f.Name)
		for _, fault := range drawtest.Faults(f) {
			t.Errorf("%s: %s", f.Name, fault)
		}
		if f.Caption == "" {
			t.Errorf("%s has no caption", f.Name)
		}
		require.OK(t, f.Write(dir))
		svg := string(require.Get(os.ReadFile(filepath.Join(dir, f.Name+".svg")))(t))
		if !strings.Contains(svg, "machine-0") || !strings.Contains(svg, "machine-1") {
			t.Errorf("%s does not name the machines", f.Name)
		}
		if info, err := os.Stat(filepath.Join(dir, f.Name+".png")); err != nil || info.Size() == 0 {
			t.Errorf("%s has no PNG", f.Name)
		}
	}
	if want := []string{"roofline", "latency-gemm-cart", "latency-step-cart", "histogram-gemm-cart", "histogram-step-cart"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// Records of older versions have no bytes, latencies or bandwidth: what can be drawn is.
func TestFiguresOfOlderRecords(t *testing.T) {
	old := measured(1)
	old.Bandwidth = 0
	for i := range old.Results {
		old.Results[i].Latencies, old.Results[i].Bytes = nil, 0
	}
	var names []string
	for _, f := range comparison(t, old, old) {
		names = append(names, f.Name)
		require.Get(f.SVG())(t)
	}
	if want := []string{"latency-gemm-cart", "latency-step-cart"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	one := measured(1)
	one.Results = one.Results[:1]
	one.Results[0].PeakGFlops = 0
	for _, f := range comparison(t, one, old) {
		for _, fault := range drawtest.Faults(f) {
			t.Errorf("%s of one row: %s", f.Name, fault)
		}
	}
}

func TestFiguresOfScaling(t *testing.T) {
	for _, exponent := range []float64{0, 1, 2.5} {
		for _, f := range ScalingFigures(testrecords.Scaling(exponent)) {
			for _, fault := range drawtest.Faults(f) {
				t.Errorf("%s by %v: %s", f.Name, exponent, fault)
			}
			if f.Caption != "Something of some size." {
				t.Errorf("%s is under %q", f.Name, f.Caption)
			}
		}
	}
}

func TestFigureOfALoop(t *testing.T) {
	d := require.Get(deadline.KeepDeadlines(t.Context(), closedCart(), idle{}, deadline.DeadlineOptions{Rate: 1000, For: 20e6, Episodes: 1, Preference: domain.Preference{Adaptive: true}}))(t)
	f := DeadlineFigure(d)
	for _, fault := range drawtest.Faults(f) {
		t.Error(fault)
	}
	if f.Entries() != 3 || !strings.Contains(f.Caption, "deadlines missed") {
		t.Errorf("%d entries, %q", f.Entries(), f.Caption)
	}
}

// closedCart is a case with a plant, idle a controller of it.
func closedCart() *domain.Case {
	p := testdomain.NewCart(4)
	return &domain.Case{Problem: p, Plant: closedloop.Simulated(p, testdomain.Starts, testdomain.Start)}
}

type idle struct{}

func (idle) Reset(domain.Episode) error { return nil }

func (idle) Decide(_, _ []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	clear(u)
	return domain.Decided(true), nil
}
