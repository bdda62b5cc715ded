package dcopf_test

import (
	"context"
	"math"
	"testing"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/dcopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func solve(t *testing.T, n *network.Network) (*acopf.Result, *acopf.LimitMultipliers) {
	t.Helper()
	r, m, err := require.Get(dcopf.New(n))(t).Solve(context.Background(), nil)
	require.OK(t, err)
	return r, m
}

// The optima are those of PYPOWER 5.1's dcopf (pandapower 3.5.6 rundcopp).
func TestOptimaArePYPOWERs(t *testing.T) {
	for name, want := range map[string]float64{"case9": 5216.0266077472725, "case30": 565.2059663999223, "case39": 41263.9407859266} {
		if r, _ := solve(t, networktest.Load(t, name)); r.Status != acopf.Optimal || math.Abs(r.Objective/want-1) > 1e-8 {
			t.Errorf("%s: %s, %v, want %v", name, r.Status, r.Objective, want)
		}
	}
}

// A branch without impedance changes no optimum where no rating binds, whatever it leaves of a balance's digits.
func TestBranchWithoutImpedance(t *testing.T) {
	c := networktest.Case(t, "case14")
	want, _ := solve(t, networktest.Of(t, c))
	c.Branch = append(c.Branch, matpower.Branch{From: 4, To: 5, InService: true})
	if r, _ := solve(t, networktest.Of(t, c)); r.Status != acopf.Optimal || math.Abs(r.Objective/want.Objective-1) > 1e-8 {
		t.Errorf("%s, %v, want %v", r.Status, r.Objective, want.Objective)
	}
}

// DC lines carry what is cheapest, with their losses, limits and costs: case30 with 0.6 of its ratings and a line from bus 22
// to bus 8, by IPOPT (CasADi 3.8) on the same linear program.
func TestDCLinesCarryWhatIPOPTFinds(t *testing.T) {
	polynomial := func(coefficients ...float64) matpower.Cost {
		return matpower.Cost{Model: matpower.Polynomial, Coefficients: coefficients}
	}
	for name, x := range map[string]struct {
		line       matpower.DCLine
		cost, flow float64 // flow: MW into the from end
	}{
		"free":     {matpower.DCLine{From: 22, To: 8, PMin: -10, PMax: 10}, 565.879456, 7.18826},
		"lossy":    {matpower.DCLine{From: 22, To: 8, PMax: 30, Loss0: 0.2, Loss1: 0.04, Cost: polynomial(0.001, 0.1, 0)}, 568.687167, 7.69015},
		"backward": {matpower.DCLine{From: 8, To: 22, PMin: -30, PMax: -2, Loss0: 0.1, Loss1: 0.03, Cost: matpower.Cost{Model: matpower.PiecewiseLinear, Points: []matpower.Point{{Power: -30, Cost: 3}, {Power: -1, Cost: 0}, {Power: 10, Cost: 5}}}}, 566.069781, -7.18617},
	} {
		c := networktest.Case(t, "case30")
		for k := range c.Branch {
			c.Branch[k].RateA *= 0.6
		}
		x.line.InService, x.line.Vf, x.line.Vt = true, 1, 1
		c.AddDCLine(x.line)
		r, _ := solve(t, networktest.Of(t, c))
		if r.Status != acopf.Optimal || math.Abs(r.Objective-x.cost) > 2e-5 || math.Abs(-100*r.Pg[6]-x.flow) > 1e-3 {
			t.Fatalf("%s: %s, %v $/h and %v MW, want %v and %v", name, r.Status, r.Objective, -100*r.Pg[6], x.cost, x.flow)
		}
		fixed := networktest.Of(t, c) // without room it is the same, and more would cost nothing
		fixed.PMin[6], fixed.PMax[6] = r.Pg[6], r.Pg[6]
		same, m := solve(t, fixed)
		if math.Abs(same.Objective-r.Objective) > 1e-6 || same.Pg[7] != (x.line.Loss1-1)*r.Pg[6]-x.line.Loss0/100 || max(m.PMin[6], m.PMax[6]) > 1e-3 {
			t.Errorf("%s: %v $/h where the line is fixed, instead of %v; multipliers %v and %v", name, same.Objective, r.Objective, m.PMin[6], m.PMax[6])
		}
	}
}

// A dispatch by hand: unit 1 at 10 and 20 $/MWh from 60 MW on, unit 2 at 30, and a line of 50 MW to the load of 100.
func TestPiecewiseLinearCostsAndARating(t *testing.T) {
	c := networktest.Case(t, "case9")
	c.Bus, c.Gen, c.Branch = c.Bus[:2], c.Gen[:2], c.Branch[:1]
	c.Bus[0].Pd, c.Bus[1].Pd = 20, 100
	c.Branch[0].From, c.Branch[0].To, c.Branch[0].RateA, c.Branch[0].ShiftDeg = 1, 2, 50, 30
	segments := func(points ...matpower.Point) matpower.Cost {
		return matpower.Cost{Model: matpower.PiecewiseLinear, Points: points}
	}
	c.Gen[0].PMin, c.Gen[0].PMax, c.Gen[0].Cost = 0, 200, segments(matpower.Point{Power: 0, Cost: 0}, matpower.Point{Power: 60, Cost: 600}, matpower.Point{Power: 200, Cost: 3400})
	c.Gen[1].PMin, c.Gen[1].PMax, c.Gen[1].Cost = 0, 200, segments(matpower.Point{Power: 0, Cost: 0}, matpower.Point{Power: 200, Cost: 6000})
	r, m := solve(t, networktest.Of(t, c))
	near := func(name string, got, want float64) {
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	near("cost", r.Objective, 600+10*20+50*30)
	near("price at bus 1", r.LambdaP[0], 2000)
	near("price at bus 2", r.LambdaP[1], 3000)
	near("of the rating", m.SFrom[0], 1000)
	near("of it the other way", m.STo[0], 0)
	near("angle", r.Va[0]-r.Va[1], math.Pi/6+0.5*c.Branch[0].X)
	// Unit 2 cannot give what the rating leaves.
	c.Gen[1].PMax = 49
	if r, _ := solve(t, networktest.Of(t, c)); r.Status != acopf.Infeasible {
		t.Errorf("%s after %d iterations, want infeasible", r.Status, r.Iterations)
	}
	c.Gen[1].PMin, c.Gen[1].PMax = 55, 55 // without room: the reduced cost is a multiplier
	r, m = solve(t, networktest.Of(t, c))
	near("cost of a constant unit", r.Objective, 600+5*20+55*30)
	near("of its least power", m.PMin[1]/1000, 1)
}
