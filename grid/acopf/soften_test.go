package acopf_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// Soft limits cost what IPOPT 3.14 finds for the same problem in casadi, with a variable for what each limit gives; where
// none has to give, the optimum is that of hard limits, and hard limits stay hard.
func TestSoftLimits(t *testing.T) {
	n := networktest.Load(t, "case9")
	solve := func(factor float64, soft acopf.SoftLimits) (*acopf.Result, *acopf.LimitMultipliers, *acopf.Relaxation) {
		pd, qd := n.Loads(factor)
		r, err := acopf.SolveSoft(context.Background(), n, pd, qd, acopf.Options{}, soft)
		if err != nil {
			t.Fatal(err)
		}
		return &r.Result, r.Limits, &r.Gives
	}
	each := func(price float64, size int) []float64 { return slices.Repeat([]float64{price}, size) }
	ratings := acopf.SoftLimits{SFrom: each(1e5, 9), STo: each(1e5, 9), VMin: each(1e6, 9), VMax: each(1e6, 9)}
	soft := ratings
	soft.PMin, soft.PMax = each(5e5, 3), each(5e5, 3)
	soft.QMin, soft.QMax = soft.PMin, soft.PMax
	for factor, want := range map[float64]struct{ cost, soft float64 }{1: {5296.68620, 0}, 2: {17005.27598, 0}, 2.3: {22904.31383, 66325.119}, 2.5: {26141.62893, 251939.830}} {
		r, _, x := solve(factor, soft)
		if r.Status != acopf.Optimal || math.Abs(r.J[2]-want.cost) > 1e-4 || math.Abs(x.Cost-want.soft) > 0.02 || math.Abs(r.Objective-r.J[2]-x.Cost) > 1e-9 {
			t.Errorf("load %g: %s, %v and %v, want %v", factor, r.Status, r.J[2], x.Cost, want)
		}
	}
	if _, m, x := solve(2.3, soft); !(x.Flow[0] > 0.35 && x.Flow[1] == 0) || m.PMax[2] < 1e5 {
		t.Errorf("ratings give %v, multipliers %v", x.Flow, m.PMax)
	}
	if r, _, _ := solve(3, ratings); r.Status != acopf.Infeasible {
		t.Errorf("hard limits of units: %s", r.Status)
	}
	if _, err := acopf.SolveSoft(context.Background(), n, nil, nil, acopf.Options{}, acopf.SoftLimits{SFrom: each(-1, 9)}); err == nil {
		t.Error("a price below 0 was taken")
	}
}

// A soft limit of a DC line is priced once, not at both ends: as a cost that rises from the limit on.
func TestSoftLimitOfADCLine(t *testing.T) {
	solve := func(most float64, cost matpower.Cost, price float64) *acopf.SoftResult {
		c := networktest.Case(t, "case30")
		for k := range c.Branch {
			c.Branch[k].RateA *= 0.7
		}
		c.AddDCLine(matpower.DCLine{From: 22, To: 8, InService: true, Vf: 1, Vt: 1, PMax: most, Loss1: 0.02, Cost: cost})
		n := networktest.Of(t, c)
		soft := acopf.SoftLimits{PMin: make([]float64, n.Gens())}
		soft.PMin[6] = price * n.BaseMVA
		r, err := acopf.SolveSoft(context.Background(), n, nil, nil, acopf.Options{}, soft)
		if err != nil || r.Status != acopf.Optimal {
			t.Fatalf("%v, %v", err, r.Reason())
		}
		return r
	}
	soft := solve(2, matpower.Cost{}, 0.3)
	dear := solve(30, matpower.Cost{Model: matpower.PiecewiseLinear, Points: []matpower.Point{{Power: 0, Cost: 0}, {Power: 2, Cost: 0}, {Power: 30, Cost: 28 * 0.3}}}, 0)
	if math.Abs(soft.Objective/dear.Objective-1) > 1e-6 || soft.Gives.PMin[6] < 0.01 || math.Abs(soft.Gives.PMin[6]+0.02+dear.Pg[6]) > 1e-4 || soft.Gives.PMax[7] != 0 {
		t.Errorf("%v $/h with %v and %v pu, as a cost %v $/h at %v pu", soft.Objective, soft.Gives.PMin[6], soft.Gives.PMax[7], dear.Objective, dear.Pg[6])
	}
}
