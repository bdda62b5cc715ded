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
