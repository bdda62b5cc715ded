package powerflow_test

import (
	"fmt"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
)

// tiled is case118 so many times over, each copy tied to the one before by a
// line.
func tiled(t testing.TB, copies int) *network.Network {
	t.Helper()
	c := networktest.Case(t, "case118")
	// Every copy generates what it draws, so that the ties carry little.
	alone := networktest.Of(t, c)
	sol := solved(t, solver(t, alone), powerflow.Input{}, powerflow.Options{})
	for g, row := range alone.GenRow {
		c.Gen[row].Pg = sol.Pg[g] * c.BaseMVA
	}
	return networktest.Copies(t, c, copies, matpower.Branch{From: 49, To: 100, R: 0.005, X: 0.03, B: 0.05, InService: true})
}

// TestALargeNetworkBalances: thirty copies, 3540 buses, from a flat start.
func TestALargeNetworkBalances(t *testing.T) {
	n := tiled(t, 30)
	s := solver(t, n)
	sol := solved(t, s, powerflow.Input{}, powerflow.Options{Start: powerflow.Flat})
	if m := balance(n, &n.Admittance, powerflow.Input{}, sol); !(m <= 2e-9) {
		t.Errorf("%g pu is left over", m)
	}
}

func BenchmarkLarge(b *testing.B) {
	for _, copies := range []int{10, 30} {
		n := tiled(b, copies)
		b.Run(fmt.Sprintf("buses-%d/analysis", n.Buses()), func(b *testing.B) {
			for b.Loop() {
				solver(b, n)
			}
		})
		b.Run(fmt.Sprintf("buses-%d/flat", n.Buses()), func(b *testing.B) {
			s := solver(b, n)
			sol := s.NewSolution()
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Solve(powerflow.Input{}, powerflow.Options{Start: powerflow.Flat}, sol); err != nil || !sol.Converged() {
					b.Fatal(err, s.Reason(sol))
				}
			}
			b.ReportMetric(float64(sol.Iterations), "iterations/op")
		})
	}
}
