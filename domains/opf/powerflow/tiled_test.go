package powerflow_test

import (
	"fmt"
	"testing"

	"github.com/gpc-engine/gpc/domains/opf/network"
	"github.com/gpc-engine/gpc/domains/opf/powerflow"
	"github.com/gpc-engine/gpc/matpower"
	"github.com/gpc-engine/gpc/matpower/cases"
)

// tiled is case118 so many times over, each copy tied to the one before by a
// line, with one reference bus in all: a network of any size.
func tiled(t testing.TB, copies int) *network.Network {
	t.Helper()
	c, err := cases.Read("case118")
	if err != nil {
		t.Fatal(err)
	}
	// Every copy generates what it draws, so that the ties carry little.
	alone := load(t, "case118")
	one := solver(t, alone)
	sol := one.NewSolution()
	if err := one.Solve(powerflow.Input{}, powerflow.Options{}, sol); err != nil || !sol.Converged() {
		t.Fatal(err, one.Reason(sol))
	}
	for g, row := range alone.GenRow {
		c.Gen[row].Pg = sol.Pg[g] * c.BaseMVA
	}
	out := &matpower.Case{Name: fmt.Sprintf("%d × case118", copies), BaseMVA: c.BaseMVA}
	for k := range copies {
		shift := 1000 * k
		for _, b := range c.Bus {
			b.ID += shift
			if k > 0 && b.Type == matpower.Reference {
				b.Type = matpower.PV
			}
			out.Bus = append(out.Bus, b)
		}
		for _, g := range c.Gen {
			g.Bus += shift
			out.Gen = append(out.Gen, g)
		}
		for _, br := range c.Branch {
			br.From, br.To = br.From+shift, br.To+shift
			out.Branch = append(out.Branch, br)
		}
		if k > 0 {
			out.Branch = append(out.Branch, matpower.Branch{From: 49 + shift - 1000, To: 100 + shift, R: 0.005, X: 0.03, B: 0.05, InService: true})
		}
	}
	n, err := network.New(out)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestALargeNetworkBalances: thirty copies, 3540 buses, from a flat start.
func TestALargeNetworkBalances(t *testing.T) {
	n := tiled(t, 30)
	s := solver(t, n)
	sol := s.NewSolution()
	if err := s.Solve(powerflow.Input{}, powerflow.Options{Start: powerflow.Flat}, sol); err != nil || !sol.Converged() {
		t.Fatal(err, s.Reason(sol))
	}
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
