package acopf

import (
	"context"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domains/opf/network"
	"github.com/gpc-engine/gpc/matpower"
	"github.com/gpc-engine/gpc/matpower/cases"
)

// chainOfNetworks joins copies of a case by two ties from each to the next, one
// reference bus for all.
func chainOfNetworks(tb testing.TB, name string, copies int) *network.Network {
	tb.Helper()
	one, err := cases.Read(name)
	if err != nil {
		tb.Fatal(err)
	}
	whole := &matpower.Case{Name: name, BaseMVA: one.BaseMVA, HasCost: true}
	const apart = 1000
	for k := range copies {
		for _, b := range one.Bus {
			if b.Type == matpower.Reference && k > 0 {
				b.Type = matpower.PV
			}
			b.ID += k * apart
			whole.Bus = append(whole.Bus, b)
		}
		for _, g := range one.Gen {
			g.Bus += k * apart
			whole.Gen = append(whole.Gen, g)
		}
		for _, l := range one.Branch {
			l.From, l.To = l.From+k*apart, l.To+k*apart
			whole.Branch = append(whole.Branch, l)
		}
		if k > 0 {
			for _, i := range []int{0, len(one.Bus) / 2} {
				tie := matpower.Branch{From: one.Bus[i].ID + (k-1)*apart, To: one.Bus[len(one.Bus)-1-i].ID + k*apart, R: 0.01, X: 0.08, B: 0.02, InService: true, RateA: 200}
				whole.Branch = append(whole.Branch, tie)
			}
		}
	}
	n, err := network.New(whole)
	if err != nil {
		tb.Fatal(err)
	}
	return n
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
