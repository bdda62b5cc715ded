package secure

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// second is what bus numbers of the second copy are higher by.
const second = 100

// twice is two copies of case_ieee30 at nine tenths of its loads. Units of the second cost half as much again.
func twice(t *testing.T) *matpower.Case {
	t.Helper()
	c, other := networktest.Case(t, "case_ieee30"), networktest.Case(t, "case_ieee30")
	c.Name = "twice case_ieee30"
	for _, b := range other.Bus {
		b.ID += second
		c.Bus = append(c.Bus, b)
	}
	for _, g := range other.Gen {
		g.Bus += second
		g.Cost.Coefficients = slices.Clone(g.Cost.Coefficients)
		for i := range g.Cost.Coefficients {
			g.Cost.Coefficients[i] *= 1.5
		}
		c.Gen = append(c.Gen, g)
	}
	for _, l := range other.Branch {
		l.From, l.To = l.From+second, l.To+second
		c.Branch = append(c.Branch, l)
	}
	for b := range c.Bus {
		c.Bus[b].Pd *= 0.9
		c.Bus[b].Qd *= 0.9
	}
	return c
}

// repeated solves the power flow of the case without what is out, a network of its own, with the powers that units share in
// each of its parts. Voltages are those of the checks, and references give their share. It counts power flows at whose
// reference a reactive limit binds, which they do not see.
func repeated(t *testing.T, c *matpower.Case, s *Solver, r *Result) (skipped int) {
	t.Helper()
	n := s.net
	for i, o := range s.outages {
		if o.Remote {
			continue
		}
		checks := r.After[i : i+1]
		if i+1 < len(s.outages) && s.outages[i+1].Remote {
			checks = r.After[i : i+2]
		}
		rest := *c
		rest.Gen, rest.Branch = slices.Clone(c.Gen), slices.Clone(c.Branch)
		for g, row := range n.GenRow {
			p := r.Pg[g]
			for _, check := range checks {
				if a := s.sys.share[g]; a > 0 && !s.sys.part(check.Outage).excludes(n.GenBus[g]) {
					p, _, _ = clip(p+a*check.Delta, n.PMin[g], n.PMax[g], 0)
				}
			}
			rest.Gen[row].Pg, rest.Gen[row].Vg = p*n.BaseMVA, r.Vm[n.GenBus[g]]
		}
		if o.Branch >= 0 {
			rest.Branch[n.BranchRow[o.Branch]].InService = false
		} else {
			rest.Gen[n.GenRow[o.Unit]].InService = false
		}
		m := networktest.Of(t, &rest)
		solver := require.Get(powerflow.New(m.WithUnitVoltages()))(t)
		sol := solver.NewSolution()
		require.OK(t, solver.Solve(powerflow.Input{}, powerflow.Options{EnforceQ: true, MaxIterations: 60}, sol))
		limited := !sol.Converged()
		for _, b := range m.References {
			lo, hi, q := 0.0, 0.0, 0.0
			for g, at := range m.GenBus {
				if at == b {
					lo, hi, q = lo+m.QMin[g], hi+m.QMax[g], q+sol.Qg[g]
				}
			}
			limited = limited || q < lo-1e-6 || q > hi+1e-6
		}
		if limited {
			skipped++
			continue
		}
		for g, p := range sol.Pg {
			if math.Abs(p-m.Pg0[g]) > 1e-6 {
				t.Errorf("%s: unit %d gives %g, its share is %g", o.name(n), m.GenRow[g]+1, p, m.Pg0[g])
			}
		}
		flow := network.NewFlows(m.Branches())
		m.BranchFlows(&m.Admittance, sol.Vm, sol.Va, flow)
		for k, rate := range m.Rate {
			if f := max(math.Hypot(flow.Pf[k], flow.Qf[k]), math.Hypot(flow.Pt[k], flow.Qt[k])); f > s.sys.opt.Emergency*rate+1e-5 {
				t.Errorf("%s: branch %d carries %g, its rating is %g", o.name(n), m.BranchRow[k]+1, f, rate)
			}
		}
		for b, v := range sol.Vm {
			for _, check := range checks {
				if s.sys.part(check.Outage).excludes(b) {
					continue
				}
				if math.Abs(v-check.vm[b]) > 1e-5 {
					t.Errorf("%s: |V| at bus %d is %g, the check has %g", check.name(n), m.BusID[b], v, check.vm[b])
				}
				if v < n.VMin[b]-s.sys.opt.Band-1e-5 || v > n.VMax[b]+s.sys.opt.Band+1e-5 {
					t.Errorf("%s: |V| at bus %d is %g", check.name(n), m.BusID[b], v)
				}
			}
		}
	}
	return skipped
}

// Islands without a line between them have the dispatches that each has alone.
func TestIslandsAreSecureAsEachIsAlone(t *testing.T) {
	c := twice(t)
	n := networktest.Of(t, c)
	opt := DefaultOptions()
	opt.Threads = 1
	pr := Problem{Pd: slices.Clone(n.Pd), Qd: slices.Clone(n.Qd)}
	for b, id := range n.BusID {
		if id > second {
			pr.Pd[b] *= 1.02
			pr.Qd[b] *= 1.02
		}
	}
	s := require.Get(New(n, opt))(t)
	r := require.Get(s.Solve(context.Background(), pr))(t)
	if r.Status != Secure || len(r.Remembered) == 0 {
		t.Fatalf("%v with %d outages: %s", r.Status, len(r.Remembered), r.Reason)
	}
	cost := 0.0
	for _, first := range []bool{true, false} {
		alone := *c
		alone.Bus = slices.Clone(c.Bus)
		for i := range alone.Bus {
			if (alone.Bus[i].ID < second) != first {
				alone.Bus[i].Type = matpower.Isolated
			}
		}
		m := networktest.Of(t, &alone)
		mine := Problem{Pd: make([]float64, m.Buses()), Qd: make([]float64, m.Buses())}
		for b, row := range m.BusRow {
			whole := slices.Index(n.BusRow, row)
			mine.Pd[b], mine.Qd[b] = pr.Pd[whole], pr.Qd[whole]
		}
		y := require.Get(require.Get(New(m, opt))(t).Solve(context.Background(), mine))(t)
		if y.Status != Secure || len(y.Remembered) == 0 {
			t.Fatalf("alone: %v with %d outages: %s", y.Status, len(y.Remembered), y.Reason)
		}
		cost += y.Objective
		for g, row := range m.GenRow {
			if p := r.Pg[slices.Index(n.GenRow, row)]; math.Abs(p-y.Pg[g]) > 1e-4 {
				t.Errorf("unit %d gives %g pu, alone %g", row+1, p, y.Pg[g])
			}
		}
		for b, row := range m.BusRow {
			if lambda := r.LambdaP[slices.Index(n.BusRow, row)]; math.Abs(lambda/y.LambdaP[b]-1) > 1e-4 {
				t.Errorf("the price at bus %d is %g, alone %g", m.BusID[b], lambda, y.LambdaP[b])
			}
		}
	}
	if math.Abs(r.Objective/cost-1) > 1e-7 {
		t.Errorf("%.8g $/h, alone %.8g", r.Objective, cost)
	}
	for b := range c.Bus { // as the problem's loads
		if c.Bus[b].ID > second {
			c.Bus[b].Pd *= 1.02
			c.Bus[b].Qd *= 1.02
		}
	}
	if skipped := repeated(t, c, s, r); skipped > len(s.outages)/2 {
		t.Errorf("%d of %d outages have no other power flow", skipped, len(s.outages))
	}
}

// A DC line carries power from one island to another, and the same after every outage.
func TestDCLineBetweenIslands(t *testing.T) {
	c := twice(t)
	c.AddDCLine(matpower.DCLine{From: 12, To: second + 21, InService: true, Vf: 1, Vt: 1, PMin: 0, PMax: 20, QMinF: -5, QMaxF: 5, QMinT: -6, QMaxT: 6, Loss0: 0.1, Loss1: 0.03, Cost: polynomial(0, 0)})
	n := networktest.Of(t, c)
	opt := DefaultOptions()
	opt.Threads = 1
	s, r := solve(t, n, opt, 1, nil)
	if r.Status != Secure || len(r.Remembered) == 0 {
		t.Fatalf("%v with %d outages: %s", r.Status, len(r.Remembered), r.Reason)
	}
	if skipped := repeated(t, c, s, r); skipped > len(s.outages)/2 {
		t.Errorf("%d of %d outages have no other power flow", skipped, len(s.outages))
	}
	t.Logf("%.10g $/h, %.8g without outages, remembered %v, %.4g MW by the line", r.Objective, r.Plain, r.Remembered, -r.Pg[n.DCLines[0].From]*n.BaseMVA)
	if math.Abs(r.Objective/19050.3709687-1) > 1e-7 { // IPOPT (CasADi 3.8) on the same problem with the remembered outages
		t.Errorf("%.8g $/h", r.Objective)
	}
}

// After the outage of the only tie between two networks each balances itself. The dispatch survives that and costs more than
// without it; a warm solve at other loads is the cold one.
func TestOutageThatSplits(t *testing.T) {
	c := twice(t)
	c.Branch = append(c.Branch, matpower.Branch{From: 12, To: second + 21, R: 0.02, X: 0.1, RateA: 40, InService: true, AngMin: -360, AngMax: 360})
	for b := range c.Bus {
		if c.Bus[b].ID > second && c.Bus[b].Type == matpower.Reference {
			c.Bus[b].Type = matpower.PV
		}
	}
	c.Gen[len(c.Gen)-1].PMax = 30 // it alone shares what is missing in the second network
	n := networktest.Of(t, c)
	tie := Outage{Branch: n.Branches() - 1, Unit: -1}
	opt := DefaultOptions()
	opt.Threads = 1
	opt.Outages, opt.Participation = Branches(n), slices.Repeat([]float64{1}, n.Gens())
	clear(opt.Participation[n.Gens()/2 : n.Gens()-1])
	_, without := solve(t, n, opt, 1, nil)
	opt.Outages = append(opt.Outages, tie)
	s, r := solve(t, n, opt, 1, nil)
	if r.Status != Secure || without.Status != Secure {
		t.Fatalf("%v, %v without the tie's: %s", r.Status, without.Status, r.Reason)
	}
	remote := Outage{tie.Branch, -1, true}
	if s.Outages()[len(s.Outages())-1] != remote || !slices.Contains(r.Remembered, tie) && !slices.Contains(r.Remembered, remote) {
		t.Errorf("%v is not among %v", tie, r.Remembered)
	}
	t.Logf("%.8g $/h, %.8g without the tie's outage, remembered %v", r.Objective, without.Objective, r.Remembered)
	if r.Objective < without.Objective*(1+1e-6) {
		t.Errorf("%.8g $/h, %.8g without the tie's outage", r.Objective, without.Objective)
	}
	if skipped := repeated(t, c, s, r); skipped > len(s.outages)/2 {
		t.Errorf("%d of %d outages have no other power flow", skipped, len(s.outages))
	}
	pr := Problem{Start: r}
	pr.Pd, pr.Qd = n.Loads(1.003)
	warm := require.Get(s.Solve(context.Background(), pr))(t)
	_, cold := solve(t, n, opt, 1.003, nil)
	if warm.Status != Secure || math.Abs(warm.Objective/cold.Objective-1) > 1e-6 {
		t.Errorf("%v at %.8g $/h from the dispatch before, %.8g from nothing", warm.Status, warm.Objective, cold.Objective)
	}
}
