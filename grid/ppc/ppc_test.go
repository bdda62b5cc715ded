package ppc_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/ppc"
)

// arrays are a case's.
type arrays struct {
	bus, gen, branch, cost, y []float64
}

func of(c *matpower.Case, n *network.Network) arrays {
	var a arrays
	index := map[int]float64{}
	for i, b := range c.Bus {
		index[b.ID] = float64(i + 1)
		a.bus = append(a.bus, float64(i+1), float64(b.Type), b.Pd, b.Qd, b.Gs, b.Bs, 1, b.Vm, b.Va, b.BaseKV, 1, b.VMax, b.VMin)
	}
	for _, g := range c.Gen {
		row := make([]float64, ppc.GenColumns)
		copy(row, []float64{index[g.Bus], g.Pg, g.Qg, g.QMax, g.QMin, g.Vg, g.MBase, 1, g.PMax, g.PMin})
		a.gen = append(a.gen, row...)
		cost := make([]float64, 7)
		copy(cost, append([]float64{float64(g.Cost.Model), 0, 0, float64(len(g.Cost.Coefficients))}, g.Cost.Coefficients...))
		a.cost = append(a.cost, cost...)
	}
	for _, b := range c.Branch {
		a.branch = append(a.branch, index[b.From], index[b.To], b.R, b.X, b.B, b.RateA, 0, 0, b.Tap, b.ShiftDeg, 1, b.AngMin, b.AngMax)
	}
	y := &n.Admittance
	for k := range n.From {
		a.y = append(a.y, y.Gff[k], y.Bff[k], y.Gft[k], y.Bft[k], y.Gtf[k], y.Btf[k], y.Gtt[k], y.Btt[k])
	}
	return a
}

func grid(t *testing.T, a arrays) *ppc.Grid {
	t.Helper()
	g, err := ppc.New("arrays", 100, a.bus, a.gen, a.branch, a.cost, 7, a.y, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestArraysAreTheCase: the same power flow and optimum, bit for bit where the start is.
func TestArraysAreTheCase(t *testing.T) {
	for _, name := range []string{"case9", "case30", "case118"} {
		c := networktest.Case(t, name)
		n := networktest.Of(t, c)
		g := grid(t, of(c, n))
		s, err := powerflow.New(n)
		if err != nil {
			t.Fatal(err)
		}
		want := s.NewSolution()
		if err := s.Solve(powerflow.Input{}, powerflow.Options{}, want); err != nil {
			t.Fatal(err)
		}
		got, reason, err := g.PowerFlow(t.Context(), true, powerflow.Options{})
		if err != nil || !got.Converged() {
			t.Fatal(err, reason)
		}
		for b := range want.Vm {
			if got.Vm[b] != want.Vm[b] || got.Va[b] != want.Va[b] {
				t.Errorf("%s, bus %d: %g pu at %g, want %g at %g", name, b, got.Vm[b], got.Va[b], want.Vm[b], want.Va[b])
			}
		}
		flat, _, err := g.PowerFlow(t.Context(), false, powerflow.Options{})
		if err != nil || !flat.Converged() || !(math.Abs(flat.Vm[0]-want.Vm[0]) < 1e-8) {
			t.Errorf("%s from no voltages: %+v, %v", name, flat, err)
		}
		solver, err := acopf.New(n, acopf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		results := make([]acopf.Result, 1)
		if err := solver.Solve(t.Context(), make([]acopf.Problem, 1), results); err != nil {
			t.Fatal(err)
		}
		for _, given := range []bool{false, true} {
			r, err := g.OptimalFlow(t.Context(), given, acopf.Options{})
			if err != nil || r.Status != acopf.Optimal || !(math.Abs(r.Objective-results[0].Objective) <= 1e-6*results[0].Objective) || len(r.Limits.VMin) != n.Buses() {
				t.Errorf("%s: %v, %+v, want %g $/h", name, err, r, results[0].Objective)
			}
		}
	}
}

// TestAdmittancesAreThoseGiven: a conductance at one end of a branch, which no π
// equivalent has, is a shunt at its bus.
func TestAdmittancesAreThoseGiven(t *testing.T) {
	c := networktest.Case(t, "case9")
	n := networktest.Of(t, c)
	a := of(c, n)
	a.y[0] += 0.05 // Gff of branch 1, at bus 1
	a.y[6+8] += 0.02
	g := grid(t, a)
	c.Bus[n.From[0]].Gs += 5
	c.Bus[n.To[1]].Gs += 2
	s, err := powerflow.New(networktest.Of(t, c))
	if err != nil {
		t.Fatal(err)
	}
	want := s.NewSolution()
	if err := s.Solve(powerflow.Input{}, powerflow.Options{}, want); err != nil {
		t.Fatal(err)
	}
	got, _, err := g.PowerFlow(t.Context(), true, powerflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for b := range want.Vm {
		if !(math.Abs(got.Vm[b]-want.Vm[b]) < 1e-10 && math.Abs(got.Va[b]-want.Va[b]) < 1e-10) {
			t.Errorf("bus %d: %.12g pu, want %.12g", b, got.Vm[b], want.Vm[b])
		}
	}
}

// TestAnglesFollowPhaseShifts from the reference outwards, in either direction of a branch.
func TestAnglesFollowPhaseShifts(t *testing.T) {
	c := networktest.Case(t, "case9")
	c.Branch[0].ShiftDeg, c.Branch[3].ShiftDeg = 150, -30 // 1–4 and 3–6
	g := grid(t, of(c, networktest.Of(t, c)))
	flow, err := powerflow.New(g.Network())
	if err != nil {
		t.Fatal(err)
	}
	got := flow.Angles()
	for bus, want := range map[int]float64{0: 0, 3: -150, 5: -150, 2: -180, 1: -150} {
		if !(math.Abs(got[bus]*180/math.Pi-want) < 1e-9) {
			t.Errorf("bus %d at %g°, want %g°", bus+1, got[bus]*180/math.Pi, want)
		}
	}
	sol, reason, err := g.PowerFlow(t.Context(), false, powerflow.Options{})
	if err != nil || !sol.Converged() || sol.Iterations > 5 {
		t.Errorf("%v, %s after %d iterations", err, reason, sol.Iterations)
	}
	r, err := g.OptimalFlow(t.Context(), false, acopf.Options{})
	if err != nil || r.Status != acopf.Optimal || !(math.Abs(r.Objective-5296.6865) < 1e-2) {
		t.Errorf("%v, %v at %g", err, r.Status, r.Objective)
	}
}

// TestRatingsOutOfReachAreNone: they do not change the optimum, and have no row.
func TestRatingsOutOfReachAreNone(t *testing.T) {
	c := networktest.Case(t, "case30")
	want := 0
	for i := range c.Branch {
		if i%2 == 0 {
			c.Branch[i].RateA = 1e9
		} else {
			want++
		}
	}
	g := grid(t, of(c, networktest.Of(t, c)))
	got := 0
	for k, rate := range g.Network().Rate {
		if !math.IsInf(rate, 1) {
			got++
			if rate != c.Branch[k].RateA/100 {
				t.Errorf("branch %d is rated %g, want %g", k+1, rate, c.Branch[k].RateA/100)
			}
		}
	}
	if got != want {
		t.Errorf("%d branches are rated, want %d", got, want)
	}
}

func TestArraysThatAreRefused(t *testing.T) {
	c := networktest.Case(t, "case9")
	good := of(c, networktest.Of(t, c))
	for want, change := range map[string]func(a *arrays){
		"bus has 116 numbers in 13 columns": func(a *arrays) { a.bus = a.bus[1:] },
		"admittances for 9 branches":        func(a *arrays) { a.y = a.y[8:] },
		"admittance 2 of branch 1":          func(a *arrays) { a.y[1] = math.NaN() },
		"are in service: want all":          func(a *arrays) { a.branch[13+10] = 0 },
		"there is no such bus":              func(a *arrays) { a.gen[0] = 77 },
		"no generator cost":                 func(a *arrays) { a.cost = nil },
	} {
		a := arrays{append([]float64(nil), good.bus...), append([]float64(nil), good.gen...), append([]float64(nil), good.branch...), append([]float64(nil), good.cost...), append([]float64(nil), good.y...)}
		change(&a)
		g, err := ppc.New("arrays", 100, a.bus, a.gen, a.branch, a.cost, 7, a.y, nil)
		if err == nil {
			_, err = g.OptimalFlow(t.Context(), false, acopf.Options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
