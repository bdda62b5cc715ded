package acopf

import (
	"context"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// chainOfNetworks joins copies of a case by two ties from each to the next.
func chainOfNetworks(tb testing.TB, name string, copies int) *network.Network {
	tb.Helper()
	c := networktest.Case(tb, name)
	var ties []matpower.Branch
	for _, i := range []int{0, len(c.Bus) / 2} {
		ties = append(ties, matpower.Branch{From: c.Bus[i].ID, To: c.Bus[len(c.Bus)-1-i].ID, R: 0.01, X: 0.08, B: 0.02, InService: true, RateA: 200})
	}
	return networktest.Copies(tb, c, copies, ties...)
}

// A network of thousands of buses is solved by the same programs.
func TestThousandsOfBuses(t *testing.T) {
	copies := 25
	if testing.Short() {
		copies = 6
	}
	net := chainOfNetworks(t, "case118", copies)
	start := time.Now()
	s, err := New(net, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	setup := time.Since(start)
	results := make([]Result, 1)
	start = time.Now()
	if err := s.Solve(context.Background(), make([]Problem, 1), results); err != nil {
		t.Fatal(err)
	}
	r := &results[0]
	t.Logf("%d buses, %d branches: set up in %v, solved in %v, %v after %d iterations, %.2f $/h", net.Buses(), net.Branches(), setup, time.Since(start), r.Status, r.Iterations, r.Objective)
	if r.Status != Optimal {
		t.Fatalf("%v after %d iterations", r.Status, r.Iterations)
	}
}
