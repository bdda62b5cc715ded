package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/peerrecord"
)

// Networks are chosen by their sizes alone: typical ones in bounds, evenly, both ends among them.
func TestChoose(t *testing.T) {
	folder := t.TempDir()
	touch := func(name string) { require.OK(t, os.WriteFile(filepath.Join(folder, name+".m"), nil, 0o644)) }
	for _, name := range []string{"117_a", "118_a__api", "118_a", "10000_z__sad", "10000_z", "10001_b", "500_y", "500_x"} {
		touch("pglib_opf_case" + name)
	}
	for k := range 6 {
		touch(fmt.Sprintf("pglib_opf_case%d_m_k", 1000+k))
	}
	var names []string
	for _, path := range require.Get(choose(folder, 4))(t) {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "pglib_opf_case"), ".m"))
	}
	if want := []string{"118_a", "1000_m_k", "1003_m_k", "10000_z"}; !slices.Equal(names, want) {
		t.Errorf("%v are chosen, want %v", names, want)
	}
	if _, err := choose(folder, 11); err == nil || !strings.Contains(err.Error(), "10 typical networks") {
		t.Errorf("eleven of ten: %v", err)
	}
}

// A record goes on where the same program has begun it in the same way, and is refused elsewhere.
func TestARecordGoesOn(t *testing.T) {
	y := pglib{out: filepath.Join(t.TempDir(), "r.json"), limit: time.Second}
	r := require.Get(y.record())(t)
	r.Ratios = []peerrecord.Ratio{{Op: peerrecord.OpFirst, Case: "a", Batch: 1, Ratio: 2}}
	require.OK(t, r.Write(y.out))
	if got := require.Get(y.record())(t); len(got.Ratios) != 1 || got.Ratios[0] != r.Ratios[0] {
		t.Errorf("it goes on with %+v", got.Ratios)
	}
	y.limit *= 2
	if _, err := y.record(); err == nil || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("under another limit: %v", err)
	}
}

// A network is marked by how both ended: without a ratio where either has no optimum, else by the cost of IPOPT's.
func TestCompareMarksHowBothEnded(t *testing.T) {
	for _, c := range []struct {
		above                                            float64
		status                                           acopf.Status
		failed, acceptable                               bool
		unsolved, ours, lower, higher, acceptably, ratio int
	}{
		{ratio: 4}, {above: 1e-6, ratio: 4}, {above: -1e-3, lower: 1, ratio: 4}, {above: 1e-3, higher: 1, ratio: 4}, {acceptable: true, acceptably: 1, ratio: 4},
		{above: -1, failed: true, unsolved: 1}, {above: 1, status: acopf.IterationLimit, ours: 1}, {failed: true, status: acopf.IterationLimit, unsolved: 1, ours: 1},
	} {
		if c.status == 0 {
			c.status = acopf.Optimal
		}
		row := compare(peerrecord.OpFirst, "a", 1, []float64{1}, []float64{4}, &acopf.Result{Status: c.status, Objective: -10}, ending{objective: -10 + 10*c.above, failed: c.failed, acceptable: c.acceptable})
		if row.Unsolved != c.unsolved || row.OursUnsolved != c.ours || row.Lower != c.lower || row.Higher != c.higher || row.Acceptable != c.acceptably || row.Ratio != float64(c.ratio) || row.Decisions != 1 {
			t.Errorf("%+v: %+v", c, row)
		}
	}
}
