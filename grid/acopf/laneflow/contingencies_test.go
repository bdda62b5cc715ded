package laneflow

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/internal/lanes"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Every power flow after an outage balances what units share within their limits, and a bus is away from its
// set-point only at a reactive limit that keeps it there; on every instruction set, after branches and units.
func TestContingenciesBalance(t *testing.T) {
	n := networktest.Load(t, "case118")
	share, rated := make([]float64, n.Gens()), []int{0, 50, 185}
	for g := range share {
		share[g] = (n.PMax[g] - n.PMin[g]) / 100
	}
	level := require.Get(isa.Choose())(t)
	for _, at := range []isa.Level{level, isa.Generic} {
		s := require.Get(forContingencies(n, share, rated, at, lanes.Widths(at)[0]))(t)
		c := NewContingencies(s, 1e-9)
		c.At(Dispatch{Pd: n.Pd, Qd: n.Qd, Pg: n.Pg0, Vm: n.Vm0, Va: n.Va0})
		var group []*Contingency
		held, solved := 0, 0
		end := func() {
			c.Solve(group)
			for _, of := range group {
				if of.Solved {
					solved++
					held += balances(t, n, share, rated, of)
				}
			}
			group = group[:0]
		}
		add := func(branch, unit int) {
			of := s.NewContingency(branch, unit)
			copy(of.Vm, n.Vm0)
			copy(of.Va, n.Va0)
			if group = append(group, of); len(group) == c.Lanes() {
				end()
			}
		}
		for k := 0; k < n.Branches(); k += 5 {
			add(k, -1)
		}
		for g := 0; g < n.Gens(); g += 5 {
			add(-1, g)
		}
		end()
		if solved < 40 || held < 40 {
			t.Errorf("%v: %d solved, %d buses at a reactive limit", at, solved, held)
		}
	}
}

// balances reports what is off after an outage and returns how many buses are at a reactive limit.
func balances(t *testing.T, n *network.Network, share []float64, rated []int, of *Contingency) (held int) {
	t.Helper()
	y := network.NewAdmittance(n.Branches())
	from, to := [8][]float64{n.Gff, n.Bff, n.Gft, n.Bft, n.Gtf, n.Btf, n.Gtt, n.Btt}, [8][]float64{y.Gff, y.Bff, y.Gft, y.Bft, y.Gtf, y.Btf, y.Gtt, y.Btt}
	for i := range from {
		if copy(to[i], from[i]); of.Branch >= 0 {
			to[i][of.Branch] = 0
		}
	}
	p, q := make([]float64, n.Buses()), make([]float64, n.Buses())
	n.Injections(y, of.Vm, of.Va, p, q)
	lo, hi, units := make([]float64, n.Buses()), make([]float64, n.Buses()), make([]int, n.Buses())
	for b := range p {
		p[b] += n.Pd[b]
		q[b] += n.Qd[b]
	}
	for g, b := range n.GenBus {
		if g == of.Unit {
			continue
		}
		gives := n.Pg0[g]
		if share[g] > 0 {
			gives = math.Min(math.Max(gives+share[g]*of.Delta, n.PMin[g]), n.PMax[g])
		}
		p[b] -= gives
		lo[b], hi[b], units[b] = lo[b]+n.QMin[g], hi[b]+n.QMax[g], units[b]+1
	}
	const tolerance = 1e-7
	for b := range p {
		away := of.Vm[b] - n.Vm0[b]
		switch side := of.Held[b]; {
		case math.Abs(p[b]) > tolerance:
			t.Errorf("branch %d, unit %d: bus %d lacks %g pu", of.Branch, of.Unit, n.BusID[b], p[b])
		case units[b] == 0 && math.Abs(q[b]) > tolerance:
			t.Errorf("branch %d, unit %d: bus %d lacks %g pu of Q", of.Branch, of.Unit, n.BusID[b], q[b])
		case units[b] > 0 && side == 0 && (math.Abs(away) > tolerance || q[b] < lo[b]-2*tolerance || q[b] > hi[b]+2*tolerance):
			t.Errorf("branch %d, unit %d: bus %d is %g pu from its set-point and gives %g of %g to %g", of.Branch, of.Unit, n.BusID[b], away, q[b], lo[b], hi[b])
		case side > 0 && (math.Abs(q[b]-hi[b]) > tolerance || away > 2*tolerance), side < 0 && (math.Abs(q[b]-lo[b]) > tolerance || away < -2*tolerance):
			t.Errorf("branch %d, unit %d: bus %d gives %g of %g to %g and is %g pu from its set-point", of.Branch, of.Unit, n.BusID[b], q[b], lo[b], hi[b], away)
		}
		if of.Held[b] != 0 {
			held++
		}
	}
	flows := network.NewFlows(n.Branches())
	n.BranchFlows(y, of.Vm, of.Va, flows)
	for r, k := range rated {
		if k != of.Branch && math.Abs(of.From[r]-math.Hypot(flows.Pf[k], flows.Qf[k]))+math.Abs(of.To[r]-math.Hypot(flows.Pt[k], flows.Qt[k])) > tolerance {
			t.Errorf("branch %d, unit %d: |S| of branch %d is %g and %g", of.Branch, of.Unit, k, of.From[r], of.To[r])
		}
	}
	return held
}

// Outages of which more come than there are lanes end where each ends alone, also behind one that has no power flow; and
// a power flow that begins where it ended takes no step.
func TestLanesTakeTheNextOutage(t *testing.T) {
	n := networktest.Load(t, "case118")
	share := make([]float64, n.Gens())
	for g := range share {
		share[g] = (n.PMax[g] - n.PMin[g]) / 100
	}
	level := require.Get(isa.Choose())(t)
	s := require.Get(forContingencies(n, share, []int{0, 50, 185}, level, lanes.Widths(level)[0]))(t)
	c := NewContingencies(s, 1e-9)
	c.At(Dispatch{Pd: n.Pd, Qd: n.Qd, Pg: n.Pg0, Vm: n.Vm0, Va: n.Va0})
	var list, alone []*Contingency
	for k := range n.Branches() {
		for _, to := range []*[]*Contingency{&list, &alone} {
			of := s.NewContingency(k, -1)
			copy(of.Vm, n.Vm0)
			copy(of.Va, n.Va0)
			*to = append(*to, of)
		}
	}
	c.Solve(list)
	together := c.Steps
	for _, of := range alone {
		c.Solve([]*Contingency{of})
	}
	if c.Flows != 2*len(list) || 2*together*c.Lanes() > 3*(c.Steps-together) {
		t.Errorf("%d power flows, %d steps side by side in %d lanes and %d one by one", c.Flows, together, c.Lanes(), c.Steps-together)
	}
	solved := 0
	for k, of := range list {
		if of.Solved != alone[k].Solved {
			t.Errorf("branch %d: solved is %v, alone %v", k, of.Solved, alone[k].Solved)
		}
		if !of.Solved {
			continue
		}
		solved++
		for b := range of.Vm {
			if math.Abs(of.Vm[b]-alone[k].Vm[b]) > 1e-7 || math.Abs(of.Va[b]-alone[k].Va[b]) > 1e-7 || of.Held[b] != alone[k].Held[b] {
				t.Fatalf("branch %d, bus %d: %g pu at %g, alone %g at %g", k, n.BusID[b], of.Vm[b], of.Va[b], alone[k].Vm[b], alone[k].Va[b])
			}
		}
	}
	if solved == len(list) || solved < 150 {
		t.Errorf("%d of %d solved: one without a power flow is wanted", solved, len(list))
	}
	c.Solve(list)
	for k, of := range list {
		if of.Solved && of.Steps > 0 {
			t.Errorf("branch %d: %d steps from where it ended", k, of.Steps)
		}
	}
}
