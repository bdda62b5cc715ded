package acopf

import (
	"context"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// stiffNetwork is copies of case118 joined by busbars: ties of 5e-5 pu, one of them a
// phase shifter, between buses whose limits have middles 0.03 pu apart.
func stiffNetwork(tb testing.TB) *network.Network {
	tb.Helper()
	const copies = 4
	c := networktest.Case(tb, "case118")
	var ties []matpower.Branch
	for k, i := range []int{4, 29, 60, 91} {
		tie := matpower.Branch{From: c.Bus[i].ID, To: c.Bus[i].ID, R: 5e-6, X: 5e-5, InService: true}
		if k == 0 {
			tie.ShiftDeg = 10
		}
		ties = append(ties, tie)
	}
	net := networktest.Copies(tb, c, copies, ties...)
	n := net.Buses() / copies
	for i := range net.VMin {
		if i/n%2 == 1 {
			net.VMin[i], net.VMax[i] = net.VMin[i]+0.03, net.VMax[i]+0.03
		}
	}
	return net
}

// A flat start whose flows are beyond all load is levelled, by every kernel to the same
// bits: without that, the ties' flows take more than fifty iterations.
func TestStiffFlatStart(t *testing.T) {
	net := stiffNetwork(t)
	problems := make([]Problem, 3)
	for i := range problems {
		problems[i].Pd, problems[i].Qd = net.Loads(0.96 + 0.02*float64(i))
	}
	var want []Result
	for _, k := range kernels() {
		s, err := newSolver(net, Options{Threads: 1}, []kernel{k})
		if err != nil {
			t.Fatal(err)
		}
		results := make([]Result, len(problems))
		if err := s.Solve(context.Background(), problems, results); err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = results
		}
		for i := range results {
			r := &results[i]
			if r.Status != Optimal || r.Iterations > 20 {
				t.Errorf("problem %d: %v after %d iterations, want optimal within 20", i, r.Status, r.Iterations)
			}
			if !same(r, &want[i]) {
				t.Errorf("problem %d, %v×%d: not the same bits", i, k.level, k.lanes)
			}
		}
	}
	checkOptimum(t, net, problems[2], &want[2])
}
