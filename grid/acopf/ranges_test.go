package acopf

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/network"
)

// ranges reads settings such as "tap 8 0.9 1.1", by rows from 1 and numbers of buses, in degrees and MVAr.
func ranges(tb testing.TB, n *network.Network, lines ...string) (out []Range) {
	tb.Helper()
	for _, line := range lines {
		var kind string
		var number int
		var r Range
		if _, err := fmt.Sscan(line, &kind, &number, &r.Min, &r.Max); err != nil {
			tb.Fatal(err)
		}
		unit := unitOf(n, kind)
		r.Min, r.Max = r.Min*unit, r.Max*unit
		r.Kind = map[string]RangeKind{"tap": Ratio, "shift": Shift, "shunt": Susceptance}[kind]
		if r.Index = slices.Index(n.BranchRow, number-1); kind == "shunt" {
			r.Index = slices.Index(n.BusID, number)
		}
		out = append(out, r)
	}
	return out
}

func unitOf(n *network.Network, kind string) float64 {
	return map[string]float64{"tap": 1, "shift": math.Pi / 180, "shunt": 1 / n.BaseMVA}[kind]
}

// The optima of settings that are variables are those of IPOPT on the same problems with CasADi's derivatives
// (lab/peers/opf/settings.py), and so are the settings. Some end at their ranges' ends. NaN is one that the objective, to
// 1e-9 of it, does not determine.
func TestSettingsAreThoseOfIPOPT(t *testing.T) {
	for _, c := range []struct {
		name      string
		lines     []string
		objective float64
		settings  []float64
	}{
		{"case9", []string{"tap 1 0.9 1.1", "tap 4 0.9 1.1", "tap 7 0.9 1.1"}, 5296.677458, []float64{0.950027865, 0.957486566, math.NaN()}},
		{"case14", []string{"tap 8 0.9 1.1", "tap 9 0.9 1.1", "tap 10 0.9 1.1"}, 8078.672252, []float64{1.00415751, 0.9, 0.97138429}},
		{"case14", []string{"tap 8 0.9 1.1", "shift 8 -30 30", "shift 9 -10 10", "shunt 9 0 40", "shunt 14 -10 20"}, 8078.504627, []float64{1.0025989, math.NaN(), math.NaN(), math.NaN(), 6.40972703}},
		{"case30", []string{"tap 11 0.9 1.1", "tap 12 0.9 1.1", "tap 15 0.9 1.1", "tap 36 0.9 1.1", "shift 12 -20 20", "shunt 5 0 30"}, 573.9136924, []float64{0.977013357, 0.961222806, 1.04036853, 1.06119004, -7.95581839, 4.97060503}},
		{"case118", []string{"tap 8 0.9 1.1", "tap 32 0.9 1.1", "tap 36 0.9 1.1", "tap 51 0.9 1.1", "tap 93 0.9 1.1", "tap 95 0.9 1.1", "tap 102 0.9 1.1", "tap 107 0.9 1.1", "tap 127 0.9 1.1", "shift 107 -10 10", "shunt 34 0 30", "shunt 5 -60 0"}, 129544.8842,
			[]float64{0.979386763, 1.06015015, 0.983203176, 0.97318683, 0.983227327, 0.99712479, 0.987516056, 0.969786479, 0.986780021, 6.79709665, math.NaN(), 0}},
	} {
		n := load(t, c.name)
		list := ranges(t, n, c.lines...)
		s := newTestSolver(t, n, Options{Ranges: list})
		results := make([]Result, 1)
		if err := s.Solve(context.Background(), make([]Problem, 1), results); err != nil {
			t.Fatal(err)
		}
		r := &results[0]
		t.Logf("%s: %v after %d iterations, %.10g, KKT %+v", c.name, r.Status, r.Iterations, r.Objective, r.KKT)
		if r.Status != Optimal {
			t.Errorf("%s: %s", c.name, r.Reason())
			continue
		}
		if d := r.Objective/c.objective - 1; math.Abs(d) > 1e-7 {
			t.Errorf("%s: %.10g $/h, IPOPT %.10g: %.1e", c.name, r.Objective, c.objective, d)
		}
		for i, line := range c.lines {
			kind, _, _ := strings.Cut(line, " ")
			if got := r.Settings[i] / unitOf(n, kind); math.Abs(got-c.settings[i]) > 2e-3*(1+math.Abs(c.settings[i])) {
				t.Errorf("%s, %s: %.9g, IPOPT %.9g", c.name, line, got, c.settings[i])
			}
		}
	}
}
