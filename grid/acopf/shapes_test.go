package acopf

import (
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

func bus(id int, kind matpower.BusType, pd, qd float64) matpower.Bus {
	return matpower.Bus{ID: id, Type: kind, Pd: pd, Qd: qd, Vm: 1, BaseKV: 100, VMax: 1.1, VMin: 0.9}
}

func gen(at int, pmin, pmax, price float64) matpower.Gen {
	return matpower.Gen{Bus: at, InService: true, PMin: pmin, PMax: pmax, QMin: -100, QMax: 100, Vg: 1, MBase: 100,
		Cost: matpower.Cost{Model: matpower.Polynomial, Coefficients: []float64{price, 0}}}
}

func line(from, to int) matpower.Branch {
	return matpower.Branch{From: from, To: to, R: 0.01, X: 0.1, InService: true}
}

func build(tb testing.TB, c *matpower.Case) *network.Network {
	tb.Helper()
	c.Name, c.BaseMVA, c.HasCost = "small", 100, true
	return networktest.Of(tb, c)
}

// Networks of unusual shape have optima that can be told by hand.
func TestSmallShapes(t *testing.T) {
	for _, c := range []struct {
		name string
		c    matpower.Case
		cost float64 // $/h
	}{
		{"one bus", matpower.Case{
			Bus: []matpower.Bus{bus(1, matpower.Reference, 50, 10)},
			Gen: []matpower.Gen{gen(1, 0, 100, 3)},
		}, 150},
		{"the cheaper of two at a bus first", matpower.Case{
			Bus: []matpower.Bus{bus(1, matpower.Reference, 50, 10)},
			Gen: []matpower.Gen{gen(1, 0, 100, 3), gen(1, 0, 30, 1)},
		}, 30 + 60},
		{"a power that is fixed", matpower.Case{
			Bus: []matpower.Bus{bus(1, matpower.Reference, 50, 10)},
			Gen: []matpower.Gen{gen(1, 0, 100, 1), gen(1, 20, 20, 7)},
		}, 30 + 140},
		{"two islands", matpower.Case{
			Bus:    []matpower.Bus{bus(1, matpower.Reference, 0, 0), bus(2, matpower.PQ, 0, 0), bus(7, matpower.Reference, 40, 0), bus(8, matpower.PQ, 0, 0)},
			Gen:    []matpower.Gen{gen(1, 0, 100, 5), gen(7, 0, 100, 2)},
			Branch: []matpower.Branch{line(1, 2), line(7, 8)},
		}, 80},
	} {
		net := build(t, &c.c)
		r := solveOne(t, newTestSolver(t, net, Options{}), Problem{})
		if r.Status != Optimal || !(math.Abs(r.Objective-c.cost) <= 1e-5*c.cost) {
			t.Errorf("%s: %v at %.8g $/h, want %g", c.name, r.Status, r.Objective, c.cost)
			continue
		}
		checkOptimum(t, net, Problem{}, r)
	}
}

// priced is a network of two buses whose second generator is a load of 30 MW and 10 MVAr at most,
// worth price $/MWh; it is in service or a load of share of that.
func priced(price, share float64, asLoad bool) *matpower.Case {
	load := gen(1, -30, 0, price)
	load.QMin, load.QMax = -10, 0
	source := gen(4, 0, 100, 3)
	source.Cost.Coefficients = []float64{0.05, 3, 0}
	c := &matpower.Case{
		Bus: []matpower.Bus{bus(4, matpower.Reference, 0, 0), bus(1, matpower.PQ, 5, 0)},
		Gen: []matpower.Gen{source, load}, Branch: []matpower.Branch{line(1, 4)},
	}
	if asLoad {
		c.Gen = c.Gen[:1]
		c.Bus[1].Pd += 30 * share
		c.Bus[1].Qd += 10 * share
	}
	return c
}

// A load of constant power factor is served as far as it is worth: all of it where it pays, none
// where it does not, and in between no fixed share of it is better.
func TestDispatchableLoadKeepsItsPowerFactor(t *testing.T) {
	value := func(price, share float64) float64 {
		r := solveOne(t, newTestSolver(t, build(t, priced(price, share, true)), Options{}), Problem{})
		if r.Status != Optimal {
			t.Fatalf("share %g: %v", share, r.Status)
		}
		return r.Objective - 30*share*price
	}
	for _, c := range []struct{ price, share float64 }{{50, 1}, {1, 0}, {5, math.NaN()}} {
		net := build(t, priced(c.price, 0, false))
		s := newTestSolver(t, net, Options{})
		r := solveOne(t, s, Problem{})
		if r.Status != Optimal || len(s.plan.ties) != 1 {
			t.Fatalf("price %g: %v with %d loads of constant power factor", c.price, r.Status, len(s.plan.ties))
		}
		if d := r.Qg[1] - r.Pg[1]/3; math.Abs(d) > 1e-9 {
			t.Errorf("price %g: P %g and Q %g pu, want a third", c.price, r.Pg[1], r.Qg[1])
		}
		share := -r.Pg[1] / 0.3
		if !math.IsNaN(c.share) && math.Abs(share-c.share) > 1e-5 {
			t.Errorf("price %g: share %g served, want %g", c.price, share, c.share)
		}
		if math.IsNaN(c.share) && (share < 0.1 || share > 0.9) {
			t.Errorf("price %g: share %g served, want one inside", c.price, share)
		}
		if at := value(c.price, share); math.Abs(at-r.Objective) > 1e-6*(1+math.Abs(at)) {
			t.Errorf("price %g: objective %.9g, as a fixed load %.9g", c.price, r.Objective, at)
		}
		for _, off := range []float64{-0.05, 0.05} {
			if s := share + off; s >= 0 && s <= 1 && value(c.price, s) < r.Objective {
				t.Errorf("price %g: share %g is better than %g", c.price, s, share)
			}
		}
	}
}

// What it costs per MVAr counts too, and units at the same bus change nothing of it.
func TestDispatchableLoadWithACostOfReactivePower(t *testing.T) {
	c := priced(5, 0, false)
	c.HasReactiveCost = true
	for g := range c.Gen {
		c.Gen[g].ReactiveCost = matpower.Cost{Model: matpower.Polynomial, Coefficients: []float64{0, 0}}
	}
	c.Gen[1].ReactiveCost.Coefficients = []float64{0.06, 3, 0}
	r := solveOne(t, newTestSolver(t, build(t, c), Options{}), Problem{})
	// With Q = P/3 the same as 5 P + P + 0.06/9 P².
	same := priced(5, 0, false)
	same.Gen[1].Cost.Coefficients = []float64{0.06 / 9, 6, 0}
	want := solveOne(t, newTestSolver(t, build(t, same), Options{}), Problem{})
	if r.Status != Optimal || want.Status != Optimal || math.Abs(r.Pg[1]-want.Pg[1]) > 1e-6 || math.Abs(r.Objective-want.Objective) > 1e-6*math.Abs(want.Objective) {
		t.Errorf("%v at %.9g with P %.9g, want %.9g with %.9g", r.Status, r.Objective, r.Pg[1], want.Objective, want.Pg[1])
	}
	if d := r.Qg[1] - r.Pg[1]/3; math.Abs(d) > 1e-9 {
		t.Errorf("P %g and Q %g pu, want a third", r.Pg[1], r.Qg[1])
	}
}

// Which units keep a power factor: by the file those that MATPOWER defines one for, none of
// PGLib's, or as one asks.
func TestWhichUnitsKeepAPowerFactor(t *testing.T) {
	both := func(c *matpower.Case) { c.Gen[1].QMax = 10 }
	elsewhere := func(c *matpower.Case) { c.Gen[1].Pg, c.Gen[1].Qg = -30, 5 }
	none := func(*matpower.Case) {}
	for _, c := range []struct {
		name   string
		file   string
		change func(*matpower.Case)
		how    network.Dispatchable
		kept   int
		wrong  string
	}{
		{"as MATPOWER has it", "small", none, network.DispatchableByFile, 1, ""},
		{"two reactive limits", "small", both, network.DispatchableByFile, 0, ""},
		{"another operating point", "small", elsewhere, network.DispatchableByFile, 0, ""},
		{"a file of PGLib", "pglib_opf_small", none, network.DispatchableByFile, 0, ""},
		{"asked for", "pglib_opf_small", none, network.DispatchablePowerFactor, 1, ""},
		{"asked for without one", "small", both, network.DispatchablePowerFactor, 0, "generator 2 at bus 1"},
		{"plain", "small", none, network.DispatchablePlain, 0, ""},
	} {
		of := priced(50, 0, false)
		c.change(of)
		of.Name, of.BaseMVA, of.HasCost = c.file, 100, true
		s, err := New(networktest.Of(t, of), Options{Dispatchable: c.how})
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: error %v, want one that names %s", c.name, err, c.wrong)
			}
			continue
		}
		if err != nil || len(s.plan.ties) != c.kept {
			t.Errorf("%s: error %v, %d units keep a power factor, want %d", c.name, err, len(s.plan.ties), c.kept)
		}
	}
	if _, err := New(build(t, priced(50, 0, false)), Options{Dispatchable: 7}); err == nil {
		t.Error("no error for a way that there is not")
	}
}
