package peerrecord

import (
	"math"
	"path/filepath"
	"testing"
)

// A comparison is of the rounds one by one: its ratio is the median of theirs, not that of the medians.
func TestCompareIsOfRounds(t *testing.T) {
	r := Compare("op", "case", "peer", 1, []float64{1, 2, 8, 4}, []float64{4, 4, 8, 40})
	if r.Ratio != 3 || r.Lo != 1 || r.Hi != 10 || r.OursUS != 3 || r.PeerUS != 6 {
		t.Errorf("%+v", r)
	}
}

// A mean is of the networks that both solved, of one operation and width; of none it is no number.
func TestMeanIsOfWhatBothSolved(t *testing.T) {
	row := func(op string, batch int, ratio float64, unsolved, ours int) Ratio {
		return Ratio{Op: op, Batch: batch, Ratio: ratio, Unsolved: unsolved, OursUnsolved: ours}
	}
	rows := []Ratio{row(OpFirst, 1, 2, 0, 0), row(OpFirst, 1, 0, 1, 0), row(OpFirst, 1, 8, 0, 0), row(OpFirst, 1, 0, 0, 1), row(OpAgain, 1, 100, 0, 0), row(OpAgain, 64, 30, 0, 0)}
	for _, c := range []struct {
		op    string
		alone bool
		mean  float64
		n     int
	}{{OpFirst, true, 4, 2}, {OpAgain, true, 100, 1}, {OpAgain, false, 30, 1}} {
		if mean, n := Mean(rows, c.op, c.alone); math.Abs(mean/c.mean-1) > 1e-12 || n != c.n {
			t.Errorf("%s, alone %v: %g of %d, want %g of %d", c.op, c.alone, mean, n, c.mean, c.n)
		}
	}
	if mean, n := Mean(rows, OpFirst, false); !math.IsNaN(mean) || n != 0 {
		t.Errorf("of none: %g of %d", mean, n)
	}
}

// A ratio with a failure of either is refused, as is an optimum of both without one; decisions of a loop are not networks.
func TestRatiosOfFailuresAreRefused(t *testing.T) {
	for _, c := range []struct {
		row  Ratio
		fine bool
	}{
		{Ratio{Op: OpFirst, Ratio: 3}, true}, {Ratio{Op: OpFirst, Unsolved: 1}, true}, {Ratio{Op: OpAgain, OursUnsolved: 1}, true},
		{Ratio{Op: OpFirst, Ratio: 3, Acceptable: 1}, true}, {Ratio{Op: "warm p50", Ratio: 3, Unsolved: 2}, true},
		{Ratio{Op: OpFirst, Ratio: 3, Unsolved: 1}, false}, {Ratio{Op: OpAgain, Ratio: 3, OursUnsolved: 1}, false},
		{Ratio{Op: OpFirst}, false}, {Ratio{Op: OpAgain, Ratio: math.NaN()}, false},
	} {
		r := Record{Ratios: []Ratio{c.row}}
		if err := r.Check(); (err == nil) != c.fine {
			t.Errorf("%+v: %v", c.row, err)
		}
		if err := r.Write(filepath.Join(t.TempDir(), "r.json")); (err == nil) != c.fine {
			t.Errorf("%+v is written: %v", c.row, err)
		}
	}
}
