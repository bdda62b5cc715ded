package acopf

import (
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domains/opf/network"
	"github.com/gpc-engine/gpc/domains/opf/networktest"
	"github.com/gpc-engine/gpc/matpower"
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

// A dispatchable load keeps its power factor in MATPOWER; it is refused.
func TestDispatchableLoadsAreRefused(t *testing.T) {
	load := gen(1, -30, 0, 50)
	load.QMin, load.QMax = -10, 0
	net := build(t, &matpower.Case{
		Bus: []matpower.Bus{bus(4, matpower.Reference, 0, 0), bus(1, matpower.PQ, 5, 0)},
		Gen: []matpower.Gen{gen(4, 0, 100, 3), load}, Branch: []matpower.Branch{line(1, 4)},
	})
	if _, err := New(net, Options{}); err == nil || !strings.Contains(err.Error(), "generator 2 at bus 1") || !strings.Contains(err.Error(), "dispatchable load") {
		t.Errorf("error %v, want one that names generator 2 at bus 1 as a dispatchable load", err)
	}
}
