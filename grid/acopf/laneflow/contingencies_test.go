package laneflow

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/simd/lanes"
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
		s := require.Get(forContingencies(n, share, rated, 1.3, 0.05, at, lanes.Widths(at)[0]))(t)
		c := NewContingencies(s, 1e-9)
		c.SetDispatch(Dispatch{Pd: n.Pd, Qd: n.Qd, Pg: n.Pg0, Vm: n.Vm0, Va: n.Va0})
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
		switch side := of.AtLimit[b]; {
		case math.Abs(p[b]) > tolerance:
			t.Errorf("branch %d, unit %d: bus %d lacks %g pu", of.Branch, of.Unit, n.BusID[b], p[b])
		case units[b] == 0 && math.Abs(q[b]) > tolerance:
			t.Errorf("branch %d, unit %d: bus %d lacks %g pu of Q", of.Branch, of.Unit, n.BusID[b], q[b])
		case units[b] > 0 && side == 0 && (math.Abs(away) > tolerance || q[b] < lo[b]-2*tolerance || q[b] > hi[b]+2*tolerance):
			t.Errorf("branch %d, unit %d: bus %d is %g pu from its set-point and gives %g of %g to %g", of.Branch, of.Unit, n.BusID[b], away, q[b], lo[b], hi[b])
		case side > 0 && (math.Abs(q[b]-hi[b]) > tolerance || away > 2*tolerance), side < 0 && (math.Abs(q[b]-lo[b]) > tolerance || away < -2*tolerance):
			t.Errorf("branch %d, unit %d: bus %d gives %g of %g to %g and is %g pu from its set-point", of.Branch, of.Unit, n.BusID[b], q[b], lo[b], hi[b], away)
		}
		if of.AtLimit[b] != 0 {
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

// twoDispatches are two near each other, a solver of outages at them and all branches and units in groups of its lanes.
func twoDispatches(t *testing.T) (s *Solver, d [2]Dispatch, groups [][]*Contingency) {
	t.Helper()
	n := networktest.Load(t, "case118")
	share := make([]float64, n.Gens())
	var rated []int
	for g := range share {
		share[g] = (n.PMax[g] - n.PMin[g]) / 100
	}
	for k := range n.Branches() {
		rated = append(rated, k)
	}
	base, vg := require.Get(powerflow.New(n))(t), make([]float64, n.Gens())
	for g, b := range n.GenBus {
		vg[g] = n.Vm0[b]
	}
	for i := range d {
		by := 1 + 0.004*float64(i)
		to := &d[i]
		*to = Dispatch{Pg: slices.Clone(n.Pg0), Pd: slices.Clone(n.Pd), Qd: slices.Clone(n.Qd)}
		for b := range to.Pd {
			to.Pd[b], to.Qd[b] = by*to.Pd[b], by*to.Qd[b]
		}
		sol := base.NewSolution()
		require.OK(t, base.Solve(powerflow.Input{Pd: to.Pd, Qd: to.Qd, Pg: to.Pg, Vg: vg}, powerflow.Options{}, sol))
		to.Vm, to.Va, to.Pg = sol.Vm, sol.Va, sol.Pg
		flows := network.NewFlows(n.Branches())
		base.BranchFlows(sol, flows)
		for k := range n.Rate {
			n.Rate[k] = 0.5 + 1.2*math.Hypot(flows.Pf[k], flows.Qf[k])
		}
	}
	level := require.Get(isa.Choose())(t)
	s = require.Get(forContingencies(n, share, rated, 1.3, 0.05, level, lanes.Widths(level)[0]))(t)
	add := func(branch, unit int) {
		if len(groups) == 0 || len(groups[len(groups)-1]) == s.Lanes() {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], s.NewContingency(branch, unit))
	}
	for k := range n.Branches() {
		add(k, -1)
	}
	for g := range n.Gens() {
		add(-1, g)
	}
	return s, d, groups
}

// Groups that take turns in the lanes go on, at another dispatch, from where they stand: each outage ends where it ends
// alone from the voltages before it, in fewer steps, and its margin is the least room to the limits there.
func TestGroupsGoOnAtTheNextDispatch(t *testing.T) {
	s, d, groups := twoDispatches(t)
	n := s.net
	c, afresh := NewContingencies(s, 1e-9), NewContingencies(s, 1e-9)
	steps := 0
	for i := range d {
		c.SetDispatch(d[i])
		afresh.SetDispatch(d[i])
		steps = c.Steps
		for g, group := range groups {
			c.SelectGroup(g)
			for at, of := range group {
				if i == 0 {
					c.Restart(at, of)
				}
			}
			c.Check(math.Inf(1))
			for at, of := range group {
				c.Read(at)
				alone := s.NewContingency(of.Branch, of.Unit)
				afresh.Restart(0, alone)
				afresh.Solve([]*Contingency{alone})
				if of.Solved != alone.Solved {
					t.Errorf("dispatch %d, branch %d, unit %d: solved is %v, alone %v", i, of.Branch, of.Unit, of.Solved, alone.Solved)
				}
				if !of.Solved {
					continue
				}
				margin := math.Inf(1)
				for b := range of.Vm {
					if math.Abs(of.Vm[b]-alone.Vm[b]) > 1e-7 || math.Abs(of.Va[b]-alone.Va[b]) > 1e-7 || of.AtLimit[b] != alone.AtLimit[b] {
						t.Fatalf("dispatch %d, branch %d, unit %d, bus %d: %g pu at %g, alone %g at %g", i, of.Branch, of.Unit, n.BusID[b], of.Vm[b], of.Va[b], alone.Vm[b], alone.Va[b])
					}
					margin = min(margin, of.Vm[b]-n.VMin[b]+0.05, n.VMax[b]+0.05-of.Vm[b])
				}
				for k := range of.From {
					if k != of.Branch {
						margin = min(margin, 1.3*n.Rate[k]-max(of.From[k], of.To[k]))
					}
				}
				if math.Abs(margin-of.Margin) > 1e-12 {
					t.Errorf("branch %d, unit %d: margin %g, want %g", of.Branch, of.Unit, of.Margin, margin)
				}
			}
		}
	}
	if second := c.Steps - steps; 3*second > 2*steps {
		t.Errorf("%d steps at the second dispatch, %d at the first", second, steps)
	}
}

// A power flow that ends before its tolerance has more room than was asked for, as it has where it is solved to the end.
func TestEnoughIsEnough(t *testing.T) {
	s, d, groups := twoDispatches(t)
	for _, room := range []float64{-0.5, -0.1, 0, 0.01, 0.02} {
		c := NewContingencies(s, 1e-9)
		early, steps, full := 0, 0, 0
		for i := range d {
			c.SetDispatch(d[i])
			for g, group := range groups {
				c.SelectGroup(g)
				for at, of := range group {
					if i == 0 {
						c.Restart(at, of)
					}
				}
				before := c.Steps
				c.Check(room)
				var soon []float64
				for at := range group {
					soon = append(soon, c.Margin(g, at))
				}
				steps += c.Steps - before
				before = c.Steps
				c.Check(math.Inf(1))
				full += c.Steps - before
				for at, of := range group {
					switch m := c.Margin(g, at); {
					case soon[at] > room && m < room:
						t.Errorf("room %v, branch %d, unit %d: margin %g, to the end %g", room, of.Branch, of.Unit, soon[at], m)
					case soon[at] < room && math.Abs(soon[at]-m) > 1e-8:
						t.Errorf("room %v, branch %d, unit %d: margin %g was not solved to the end, where it is %g", room, of.Branch, of.Unit, soon[at], m)
					case soon[at] > room && soon[at] != m:
						early++
					}
				}
			}
		}
		if room < 0 && (early < 20 || full == 0) {
			t.Errorf("room %v: %d power flows ended early, in %d steps and %d more", room, early, steps, full)
		}
	}
}

// bring puts a group into the lanes of each, with outages that begin there or those that are kept.
func bring(s *Solver, g int, group []*Contingency, begins bool, into ...*Contingencies) {
	for _, c := range into {
		c.SelectGroup(g)
		for at, of := range group {
			if begins {
				c.Restart(at, s.NewContingency(of.Branch, of.Unit))
			}
		}
	}
}

// Outages that share lanes with those of other groups come to the same margins as in their own, in fewer steps of all lanes,
// and stand in their groups where they ended.
func TestOutagesOfSeveralGroupsShareLanes(t *testing.T) {
	s, d, groups := twoDispatches(t)
	for _, room := range []float64{-0.05, -0.02, 0.01} {
		shared, own := NewContingencies(s, 1e-9), NewContingencies(s, 1e-9)
		for i := range d {
			shared.SetDispatch(d[i])
			own.SetDispatch(d[i])
			before := [2]int{shared.Steps, own.Steps}
			for g, group := range groups {
				bring(s, g, group, i == 0, shared, own)
				shared.AcceptConverged(room)
				own.Check(room)
			}
			shared.SolveRemaining(room)
			taken := [2]int{shared.Steps - before[0], own.Steps - before[1]}
			if i == 1 && room < 0 && 4*taken[0] > 3*taken[1] {
				t.Errorf("room %v: %d steps in shared lanes, %d in their own", room, taken[0], taken[1])
			}
			for g, group := range groups {
				shared.SelectGroup(g)
				before := shared.Steps
				var ended []float64
				for at := range group {
					ended = append(ended, shared.Margin(g, at))
				}
				shared.Check(room)
				for at, of := range group {
					is, want := ended[at], own.Margin(g, at)
					if (is > room) != (want > room) || is < room && math.Abs(is-want) > 1e-8 {
						t.Errorf("room %v, dispatch %d, branch %d, unit %d: margin %g, in its own group %g", room, i, of.Branch, of.Unit, is, want)
					}
					if again := shared.Margin(g, at); is != -1 && again != is {
						t.Errorf("room %v, dispatch %d, branch %d, unit %d: margin %g, and %g where it stands", room, i, of.Branch, of.Unit, is, again)
					}
				}
				if shared.Steps != before && !slices.Contains(ended, -1) {
					t.Errorf("room %v, dispatch %d: group %d takes steps from where it ended", room, i, g)
				}
			}
		}
	}
}

// Rough power flows leave little imbalance in fewer steps, and a check that follows ends where it does without them.
func TestRoughFlowsAreForALinearModel(t *testing.T) {
	s, d, groups := twoDispatches(t)
	c, whole := NewContingencies(s, 1e-9), NewContingencies(s, 1e-9)
	rough, full := 0, 0
	for i := range d {
		c.SetDispatch(d[i])
		whole.SetDispatch(d[i])
		for g, group := range groups {
			bring(s, g, group, i == 0, c, whole)
			before := [2]int{c.Steps, whole.Steps}
			c.SetRough(true)
			c.Check(math.Inf(1))
			c.SetRough(false)
			whole.Check(math.Inf(1))
			rough, full = rough+c.Steps-before[0], full+whole.Steps-before[1]
			for at, of := range group {
				if worst := c.w.m.Get(s.plan.worst[0], at); c.Solved(at) && !(worst <= roughTolerance) {
					t.Errorf("dispatch %d, branch %d, unit %d: %g pu of imbalance are left", i, of.Branch, of.Unit, worst)
				}
			}
			c.Check(math.Inf(1))
			for at, of := range group {
				if is, want := c.Margin(g, at), whole.Margin(g, at); math.Abs(is-want) > 1e-7 {
					t.Errorf("dispatch %d, branch %d, unit %d: margin %g, without a rough flow before it %g", i, of.Branch, of.Unit, is, want)
				}
			}
		}
	}
	if 10*rough > 9*full {
		t.Errorf("%d rough steps, %d of whole flows", rough, full)
	}
}

// The factors of a last step that was small are those of where it leads for a linear model; others are made anew there.
func TestFactorsOfASmallStepServe(t *testing.T) {
	s, d, groups := twoDispatches(t)
	c, e := NewContingencies(s, 1e-9), s.elimination
	sensitivities := func(lanes int) (all [][]float64) {
		for at := range lanes {
			c.SeedMagnitude(at, s.net.Buses()/2)
		}
		c.Linearise()
		c.Adjoint()
		for at := range lanes {
			all = append(all, make([]float64, e.size))
			for i, r := range e.x {
				all[at][i] = c.w.m.Get(r, at)
			}
		}
		return all
	}
	served := 0
	for i := range d {
		c.SetDispatch(d[i])
		for g, group := range groups {
			c.SelectGroup(g)
			for at, of := range group {
				if i == 0 {
					c.Restart(at, s.NewContingency(of.Branch, of.Unit))
				}
			}
			c.Check(math.Inf(1))
			before := c.Factorisations
			got := sensitivities(len(group))
			if c.Factorisations == before {
				served++
			}
			c.factorsCurrent = false
			for at, want := range sensitivities(len(group)) {
				if !c.Solved(at) {
					continue
				}
				most, off := 0.0, 0.0
				for k, v := range want {
					most, off = max(most, math.Abs(v)), max(off, math.Abs(v-got[at][k]))
				}
				if off > 1e-3*most {
					t.Errorf("dispatch %d, group %d, lane %d: sensitivities are off by %g of %g", i, g, at, off, most)
				}
			}
		}
	}
	if served == 0 || served == 2*len(groups) {
		t.Errorf("factors served in %d of %d groups", served, 2*len(groups))
	}
}
