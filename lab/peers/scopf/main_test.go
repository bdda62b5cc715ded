package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/grid/matpower/cases"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/lab/peerrecord"
)

// Lists are read by network, and a network without one is an error.
func TestListsAreRead(t *testing.T) {
	const text = "CONTINGENCIES = Dict(\n    \"case9\" => [2, 3 ,5],\n    \"case9b\" => [7],\n)\n"
	if rows := require.Get(listed(text, "case9"))(t); !slices.Equal(rows, []int{2, 3, 5}) {
		t.Errorf("rows %v, want 2, 3 and 5", rows)
	}
	if rows, err := listed(text, "case14"); err == nil {
		t.Errorf("rows %v of a network without a list", rows)
	}
}

// A branch without a rating gets the flow of an angle difference of 60° between the highest voltages; others keep theirs.
func TestBranchesHaveRatings(t *testing.T) {
	c := require.Get(cases.Read("case30"))(t)
	kept := c.Branch[1].RateA
	c.Branch[0].RateA = 0
	solved, whole, err := pose(c)
	require.OK(t, err)
	if !math.IsInf(solved.Rate[0], 1) || math.IsInf(whole.Rate[0], 1) {
		t.Errorf("ratings %g and %g pu, want none in the first network and one in the second", solved.Rate[0], whole.Rate[0])
	}
	high := map[int]float64{}
	for _, b := range c.Bus {
		high[b.ID] = b.VMax
	}
	b := c.Branch[0]
	from, to := complex(high[b.From], 0), complex(high[b.To]*math.Cos(widest), high[b.To]*math.Sin(widest))
	across := from - to
	want := c.BaseMVA * max(high[b.From], high[b.To]) * math.Hypot(real(across), imag(across)) / math.Hypot(b.R, b.X)
	if math.Abs(b.RateA-want) > 1e-9*want || c.Branch[1].RateA != kept || b.AngMin != 0 || b.AngMax != 0 {
		t.Errorf("rating %g MVA, want %g; another one %g, was %g; angles %g to %g", b.RateA, want, c.Branch[1].RateA, kept, b.AngMin, b.AngMax)
	}
}

// An outage that cuts a unit off is none of the solve's, and the unit gives nothing before it.
func TestUnitsThatAreCutOffGiveNothing(t *testing.T) {
	c := require.Get(cases.Read("case39"))(t)
	n := require.Get(network.New(c))(t)
	var cut, whole int
	for k, bridge := range n.Bridges() {
		if bridge && slices.Contains(cutOff(n, k), true) {
			cut = n.BranchRow[k] + 1
		} else if !bridge {
			whole = n.BranchRow[k] + 1
		}
	}
	list, off, err := rowsOf(n, []int{cut, whole})
	require.OK(t, err)
	pr := idle(n, off)
	if len(list) != 1 || len(off) != 1 || slices.Index(cutOff(n, off[0].Branch), true) != slices.Index(pr.Ramp, 0) {
		t.Fatalf("outages %v, cut off %v, ramps %v", list, off, pr.Ramp)
	}
}

// The outages that break least come first, and a problem is a line that lab/record keeps, solved or not.
func TestProblemsAreLinesOfABenchmark(t *testing.T) {
	c := require.Get(cases.Read("case_ieee30"))(t)
	for i := range c.Bus {
		c.Bus[i].Pd, c.Bus[i].Qd = 0.7*c.Bus[i].Pd, 0.7*c.Bus[i].Qd
	}
	p := problem{network: "case_ieee30", outages: 12, mildest: true, objective: 1, madncl: 2, knitro: 3, iterations: 4}
	s := require.Get(p.solve(context.Background(), time.Hour, c, nil, 5, nil))(t)
	var printed strings.Builder
	require.OK(t, p.print(&printed, s))
	lines := require.Get(peerrecord.ParseBenchmarks(printed.String()))(t)
	if len(lines) != 1 || lines[0].Name != "BenchmarkSCOPF/case_ieee30/12" || lines[0].Metrics["secure"] != 1 || len(s.After) != 12 {
		t.Errorf("%+v with %d outages, want a secure dispatch with 12", lines, len(s.After))
	}
	if m := lines[0].Metrics; !(m["cost_1e4_$/h"] >= m["plain_1e4_$/h"]) || m["madncl_a30_s"] != 2 || m["knitro_cpu_s"] != 3 {
		t.Errorf("%v, want a cost not below the plain optimum's and the published figures", m)
	}
	if m := lines[0].Metrics; m["following"] != 5 || m["warm"]+m["anew"] != 5 || !(m["following_p99_ms"] >= m["following_p50_ms"]) {
		t.Errorf("%v, want five solves that follow, all secure", m)
	}
	late := require.Get(p.solve(context.Background(), 0, c, nil, 5, nil))(t)
	printed.Reset()
	require.OK(t, p.print(&printed, late))
	lines = require.Get(peerrecord.ParseBenchmarks(printed.String()))(t)
	if m := lines[0].Metrics; late.Result != nil || m["secure"] != 0 || m["madncl_a30_s"] != 2 {
		t.Errorf("%v without time, want no result beside the published figures", m)
	} else if _, is := m["cost_1e4_$/h"]; is {
		t.Errorf("%v without time, want no cost", m)
	}
}
