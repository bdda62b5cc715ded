package secure

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// segments is a piecewise linear cost by pairs of MW and $/h.
func segments(points ...float64) matpower.Cost {
	c := matpower.Cost{Model: matpower.PiecewiseLinear}
	for k := 0; k < len(points); k += 2 {
		c.Points = append(c.Points, matpower.Point{Power: points[k], Cost: points[k+1]})
	}
	return c
}

func polynomial(coefficients ...float64) matpower.Cost {
	return matpower.Cost{Model: matpower.Polynomial, Coefficients: coefficients}
}

// features change case30 to what an optimal power flow takes beyond polynomials and one reference. Two units are at bus 2.
var features = map[string]func(c *matpower.Case){
	"piecewise": func(c *matpower.Case) {
		c.Gen[0].Cost = segments(0, 0, 20, 40, 50, 130, 80, 250)
		c.Gen[2].Cost = segments(0, 0, 10, 30, 50, 190)
	},
	"reactive": func(c *matpower.Case) {
		second := c.Gen[1]
		second.Cost, second.QMin, second.QMax = polynomial(0.03, 2, 0), -5, 15
		c.Gen = append(c.Gen, second)
		c.HasReactiveCost = true
		for g := range c.Gen {
			c.Gen[g].ReactiveCost = polynomial(0.02, 0, 0)
		}
		c.Gen[2].ReactiveCost = segments(-20, 20, 0, 0, 10, 1, 60, 40)
		c.Gen[3].ReactiveCost = polynomial(0)
	},
	"angles": func(c *matpower.Case) {
		for k, l := range c.Branch {
			if k%3 == 0 || l.From == 6 {
				c.Branch[k].AngMin, c.Branch[k].AngMax = -1.2, 1.3
			}
		}
	},
	"references": func(c *matpower.Case) {
		for _, id := range []int{13, 22} {
			c.Bus[id-1].Type, c.Bus[id-1].Va = matpower.Reference, -2
		}
	},
	"with DC lines": func(c *matpower.Case) {
		c.AddDCLine(matpower.DCLine{From: 22, To: 8, InService: true, Vf: 1, Vt: 1, PMax: 30, QMinF: -5, QMaxF: 5, QMinT: -6, QMaxT: 6, Loss0: 0.1, Loss1: 0.03, Cost: polynomial(0.001, 0.05, 0)})
		c.AddDCLine(matpower.DCLine{From: 10, To: 27, InService: true, PMin: -10, PMax: 10, QMinF: -1, QMaxF: -1, QMinT: -1, QMaxT: -1, Loss1: 0.02})
		c.AddDCLine(matpower.DCLine{From: 6, To: 20, InService: true, PMin: 4, PMax: 4, Loss1: 0.02})
	},
}

// everyFeature is the name of case30 with all of them.
const everyFeature = "every feature"

// load is a network by its name.
func load(t *testing.T, name string) *network.Network {
	t.Helper()
	if name == everyFeature {
		return withFeatures(t, slices.Sorted(maps.Keys(features))...)
	}
	return networktest.Load(t, name)
}

func withFeatures(t *testing.T, names ...string) *network.Network {
	t.Helper()
	c := networktest.Case(t, "case30")
	for _, name := range names {
		features[name](c)
	}
	return networktest.Of(t, c)
}

// Without outages the interior point of states finds the optimum of package acopf, from far away.
func TestBaseStateHasTheOptimum(t *testing.T) {
	for _, names := range [][]string{{}, {"angles"}, {"piecewise"}, {"reactive"}, {"references"}, {"with DC lines"}, {"piecewise", "reactive", "references", "with DC lines"}} {
		n := withFeatures(t, names...)
		s, err := New(n, Options{Outages: []Outage{{Branch: 0, Unit: -1}}})
		if err != nil {
			t.Fatalf("%v: %v", names, err)
		}
		plain := make([]acopf.Result, 1)
		if err := s.plain.Solve(context.Background(), []acopf.Problem{{}}, plain); err != nil || plain[0].Status != acopf.Optimal {
			t.Fatalf("%v: %v, %s", names, err, plain[0].Reason())
		}
		none := require.Get(New(n, Options{Outages: []Outage{}}))(t)
		if r := require.Get(none.Solve(context.Background(), Problem{}))(t); r.Status != Secure || math.Abs(r.Objective/plain[0].Objective-1) > 1e-9 {
			t.Errorf("%v: %v, %v $/h without any outage, package acopf has %v", names, r.Status, r.Objective, plain[0].Objective)
		}
		start := plain[0]
		start.Pg, start.Qg, start.LambdaP = make([]float64, n.Gens()), make([]float64, n.Gens()), make([]float64, n.Buses())
		p := &interior{sys: s.sys, threads: 1}
		p.states = []*state{s.baseState(Problem{}, n.Pd, n.Qd, &start)}
		p.begin(coldStart)
		if status := p.run(context.Background(), 200, finalTolerances); status != converged {
			t.Fatalf("%v: %v", names, status)
		}
		r := &Result{}
		r.read(s, p.states[0])
		if d := r.Objective/plain[0].Objective - 1; math.Abs(d) > 1e-7 {
			t.Errorf("%v: %.6f $/h, package acopf has %.6f (%.1e)", names, r.Objective, plain[0].Objective, d)
		}
		binding := 0
		for k, lo := range n.AngMin {
			if angle := r.Va[n.From[k]] - r.Va[n.To[k]]; min(angle-lo, n.AngMax[k]-angle) < 1e-6 {
				binding++
			}
		}
		if (binding > 0) != slices.Contains(names, "angles") {
			t.Errorf("%v: %d limits of angles bind", names, binding)
		}
		// Units that share a reactive power have the same share of their ranges; balances and prices are package acopf's.
		injected := make([]float64, n.Buses())
		for g, b := range n.GenBus {
			if injected[b] += r.Qg[g] - plain[0].Qg[g]; r.Qg[g] < n.QMin[g]-1e-8 || r.Qg[g] > n.QMax[g]+1e-8 {
				t.Errorf("%v: unit %d gives %g of %g to %g", names, g, r.Qg[g], n.QMin[g], n.QMax[g])
			}
		}
		for _, y := range s.sys.groups {
			at := func(g int) float64 { return (r.Qg[g] - n.QMin[g]) / (n.QMax[g] - n.QMin[g]) }
			for _, g := range y.units {
				if !y.fixed() && math.Abs(at(g)-at(y.units[0])) > 1e-9 {
					t.Errorf("%v: unit %d is at %g of its range, another at its bus at %g", names, g, at(g), at(y.units[0]))
				}
			}
		}
		for b, q := range injected {
			if math.Abs(q) > 1e-3 || math.Abs(r.Vm[b]-plain[0].Vm[b]) > 1e-4 || math.Abs(r.Va[b]-plain[0].Va[b]) > 1e-4 || math.Abs(r.LambdaP[b]-plain[0].LambdaP[b]) > 1e-2 || math.Abs(r.LambdaQ[b]-plain[0].LambdaQ[b]) > 1e-2 {
				t.Errorf("%v, bus %d: %g pu more, %g pu at %g, prices %g and %g; package acopf has %g at %g, %g and %g", names, b, q, r.Vm[b], r.Va[b], r.LambdaP[b], r.LambdaQ[b], plain[0].Vm[b], plain[0].Va[b], plain[0].LambdaP[b], plain[0].LambdaQ[b])
			}
		}
	}
}

// The dispatches that survive are those of IPOPT (CasADi 3.8) on the same problem with the remembered outages, from there.
func TestFeaturesWithOutages(t *testing.T) {
	for _, c := range []struct {
		names []string
		cost  float64
	}{
		{[]string{"piecewise", "with DC lines"}, 579.683107},
		{[]string{"references", "with DC lines"}, 579.419355},
		{[]string{"piecewise", "reactive", "references", "with DC lines"}, 589.950436},
	} {
		n := withFeatures(t, c.names...)
		opt := DefaultOptions()
		opt.Emergency, opt.Threads = 1.1, 1
		s, r := solve(t, n, opt, 1, nil)
		if r.Status != Secure || math.Abs(r.Objective/c.cost-1) > 1e-6 || len(r.Remembered) < 3 {
			t.Errorf("%v: %v, %s, %.6f $/h with %d outages, want %.6f", c.names, r.Status, r.Reason, r.Objective, len(r.Remembered), c.cost)
			continue
		}
		if skipped := survives(t, s, r, n.Pd, n.Qd); skipped > len(s.outages)/4 {
			t.Errorf("%v: %d of %d outages have no other power flow", c.names, skipped, len(s.outages))
		}
		for k, d := range n.DCLines {
			if arrives := (d.Loss1-1)*r.Pg[d.From] - d.Loss0; math.Abs(r.Pg[d.To]-arrives) > 1e-12 {
				t.Errorf("%v: %v arrive by line %d, want %v", c.names, r.Pg[d.To], k, arrives)
			}
		}
		// Loads half a percent higher, from there.
		pr := Problem{Start: r}
		pr.Pd, pr.Qd = n.Loads(1.005)
		next := require.Get(s.Solve(context.Background(), pr))(t)
		_, cold := solve(t, n, opt, 1.005, nil)
		if next.Status != Secure || math.Abs(next.Objective/cold.Objective-1) > 1e-6 {
			t.Errorf("%v: %v at %.6f $/h from the dispatch before, %.6f from nothing", c.names, next.Status, next.Objective, cold.Objective)
		}
	}
	if _, err := New(withFeatures(t, "with DC lines"), Options{Outages: []Outage{{Branch: -1, Unit: 6}}}); err == nil || !strings.Contains(err.Error(), "end of a DC line") {
		t.Errorf("the outage of a DC line's end: %v", err)
	}
}
