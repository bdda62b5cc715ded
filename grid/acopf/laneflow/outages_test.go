package laneflow

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
)

// Outages side by side are those one by one, reactive limits and islands included.
func TestOutagesSideBySideAreThoseOneByOne(t *testing.T) {
	for _, of := range []struct {
		name string
		load float64 // times the network's own
	}{{"case9", 1}, {"case30", 1}, {"case39", 1}, {"case30", 2.5}, {"case118", 1}, {"case118", 2}} {
		for _, enforce := range []bool{false, true} {
			name, n := of.name, networktest.Load(t, of.name)
			in := powerflow.Input{Pd: scaled(n.Pd, of.load), Qd: scaled(n.Qd, of.load), Pg: scaled(n.Pg0, of.load)}
			s, err := powerflow.New(n)
			if err != nil {
				t.Fatal(err)
			}
			opt := powerflow.Options{EnforceQ: enforce, MaxIterations: 60}
			base := s.NewSolution()
			if err := s.Solve(in, opt, base); err != nil || !base.Converged() {
				t.Fatalf("%s: %v, %v", name, base.Status, err)
			}
			alone, err := s.NewOutages(in, opt, base)
			if err != nil {
				t.Fatal(err)
			}
			one := s.Clone()
			single, err := one.NewOutages(in, opt, base)
			if err != nil {
				t.Fatal(err)
			}
			lanes, err := ForOutages(alone)
			if err != nil {
				t.Fatal(err)
			}
			var list []int
			for k := n.Branches() - 1; k >= 0; k-- {
				list = append(list, k)
			}
			called, sideBySide, unsolved := map[int]bool{}, 0, 0
			out, want := s.NewSolution(), s.NewSolution()
			each := func(k int, got powerflow.Outage) error {
				called[k] = true
				if !got.Compensated && got.Solution.Factorisations == 0 && got.Solution.Converged() {
					sideBySide++
				}
				w, err := single.Branch(list[k], want)
				if err != nil {
					return err
				}
				if got.Solution.Converged() != want.Converged() || len(got.Islanded) != len(w.Islanded) {
					t.Errorf("%s, branch %d: %v, alone %v", name, list[k], got.Solution.Status, want.Status)
					return nil
				}
				if !want.Converged() {
					unsolved++
					return nil
				}
				for b := range want.Vm {
					if math.Abs(out.Vm[b]-want.Vm[b]) > 1e-7 || math.Abs(out.Va[b]-want.Va[b]) > 1e-7 || out.AtLimit[b] != want.AtLimit[b] {
						t.Fatalf("%s, branch %d, bus %d: %g pu at %g, alone %g at %g", name, list[k], n.BusID[b], out.Vm[b], out.Va[b], want.Vm[b], want.Va[b])
					}
				}
				for g := range want.Pg {
					if math.Abs(out.Pg[g]-want.Pg[g]) > 1e-6 || math.Abs(out.Qg[g]-want.Qg[g]) > 1e-6 {
						t.Fatalf("%s, branch %d, unit %d: %g + j%g, alone %g + j%g", name, list[k], g, out.Pg[g], out.Qg[g], want.Pg[g], want.Qg[g])
					}
				}
				return nil
			}
			if err := NewOutages(lanes, alone).Branches(list, out, each); err != nil {
				t.Fatal(err)
			}
			if len(called) != len(list) {
				t.Errorf("%s: %d of %d outages", name, len(called), len(list))
			}
			if of.load > 1 && !enforce && unsolved == 0 {
				t.Errorf("%s at %g of its load: every outage has a power flow, so that none without is tested", name, of.load)
			}
			if lanes != nil && !enforce && sideBySide < len(list)/2 {
				t.Errorf("%s: %d of %d in lanes", name, sideBySide, len(list))
			}
		}
	}
}

func scaled(v []float64, by float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = by * x
	}
	return out
}
