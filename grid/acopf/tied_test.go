package acopf

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// sixBuses is a network of six buses with one DC line and room for statements.
const sixBuses = `function mpc = six
mpc.version = '2';
mpc.baseMVA = 100;
mpc.bus = [
1 3 0 0 0 0 1 1.02 0 110 1 1.1 0.9;
2 2 21.7 12.7 0 0 1 1.01 0 110 1 1.1 0.9;
3 1 44.2 19 0 12 1 1 0 110 1 1.1 0.9;
4 1 37.8 6.1 0 0 1 1 0 110 1 1.1 0.9;
5 1 27.6 1.6 0 0 1 1 0 110 1 1.1 0.9;
6 2 11.2 7.5 0 0 1 1.02 0 110 1 1.1 0.9
];
mpc.gen = [
1 40 0 90 -60 1.02 100 1 180 0 0 0 0 0 0 0 0 0 0 0 0;
2 60 0 60 -40 1.01 100 1 100 10 0 0 0 0 0 0 0 0 0 0 0;
6 30 0 40 -20 1.02 100 1 70 5 0 0 0 0 0 0 0 0 0 0 0
];
mpc.branch = [
1 2 0.019 0.059 0.053 130 0 0 0 0 1 -360 360;
1 5 0.054 0.223 0.049 130 0 0 0 0 1 -360 360;
2 3 0.047 0.198 0.044 65 0 0 0 0 1 -360 360;
2 4 0.058 0.176 0.034 65 0 0 0 0 1 -360 360;
2 5 0.057 0.174 0.035 65 0 0 0 0 1 -360 360;
3 4 0.067 0.171 0.013 65 0 0 0 0 1 -360 360;
4 5 0.013 0.042 0 65 0 0 0 0 1 -360 360;
5 6 0 0.252 0 65 0 0 0.97 0 1 -360 360;
4 6 0 0.3 0 65 0 0 0 0 1 -360 360
];
mpc.gencost = [2 0 0 3 0.02 20 0 0 0 0; 2 0 0 3 0.03 22 0 0 0 0; 2 0 0 3 0.05 18 0 0 0 0];
`

func sixWith(t *testing.T, statements string) *network.Network {
	t.Helper()
	c, err := matpower.Read("six.m", strings.NewReader(sixBuses+statements))
	if err != nil {
		t.Fatal(err)
	}
	return networktest.Of(t, c)
}

// cheapestAt checks that an optimum's power is the best of those near it, by problems that fix it.
func cheapestAt(t *testing.T, r *Result, power float64, fixed func(power float64) *network.Network) {
	t.Helper()
	cost := func(p float64) float64 {
		f := solveOne(t, newTestSolver(t, fixed(p), Options{}), Problem{})
		if f.Status != Optimal {
			t.Fatalf("fixed at %g: %v, %s", p, f.Status, f.Reason())
		}
		return f.Objective
	}
	if r.Status != Optimal || math.Abs(r.Objective-cost(power)) > 1e-6*r.Objective {
		t.Errorf("%v at %.6f $/h, with the power fixed there %.6f", r.Status, r.Objective, cost(power))
	}
	for _, d := range []float64{-0.02, 0.02} {
		if c := cost(power + d); c < r.Objective*(1-1e-8) {
			t.Errorf("%.6f $/h at %g pu, %.6f at %g", r.Objective, power, c, power+d)
		}
	}
}

// TestDCLines: the power of a DC line is the cheapest, with its losses, its cost and the reactive powers of its ends. A
// solver of the same problem without DC lines, whose ends are units of a given power, finds no better one.
func TestDCLines(t *testing.T) {
	for name, c := range map[string]struct {
		loss0, loss1 float64
		cost         string
		least, most  float64
	}{
		"free": {0, 0, "", -40, 40}, "lossy": {0.5, 0.03, "", 0, 40}, "at its limit": {0, 0.01, "", 2, 5}, "backward": {0.2, 0.02, "", -30, -10},
		"dear": {0, 0.02, "mpc.dclinecost = [2 0 0 3 0.02 0.5 0];", 0, 40},
	} {
		dc := func(status float64) string {
			return strings.NewReplacer("L0", num(c.loss0), "L1", num(c.loss1), "PMIN", num(c.least), "PMAX", num(c.most), "ON", num(status)).Replace(
				"mpc.dcline = [6 3 ON 10 0 0 0 1.01 1 PMIN PMAX -10 10 -12 12 L0 L1];\n" + c.cost)
		}
		n := sixWith(t, dc(1))
		r := solveOne(t, newTestSolver(t, n, Options{}), Problem{})
		if len(n.DCLines) != 1 || len(r.Pg) != 5 {
			t.Fatalf("%s: %d DC lines, %d units", name, len(n.DCLines), len(r.Pg))
		}
		power := -r.Pg[3]
		if d := r.Pg[4] - (power*(1-c.loss1) - c.loss0/100); math.Abs(d) > 1e-12 {
			t.Errorf("%s: %g pu arrive of %g", name, r.Pg[4], power)
		}
		low, high := c.least/100, c.most/100
		if high < 0 {
			low, high = (low+c.loss0/100)/(1-c.loss1), (high+c.loss0/100)/(1-c.loss1)
		}
		if power < low-1e-9 || power > high+1e-9 {
			t.Errorf("%s: %g pu, limits %g and %g", name, power, low, high)
		}
		clear := func(p float64) float64 { return min(max(p, low), high) }
		cheapestAt(t, r, clear(power), func(p float64) *network.Network {
			p = clear(p)
			ends := "mpc.gen = [1 40 0 90 -60 1.02 100 1 180 0; 2 60 0 60 -40 1.01 100 1 100 10; 6 30 0 40 -20 1.02 100 1 70 5;" +
				"6 0 0 10 -10 1 100 1 " + num(-100*p) + " " + num(-100*p) + "; 3 0 0 12 -12 1 100 1 " + num(100*p*(1-c.loss1)-c.loss0) + " " + num(100*p*(1-c.loss1)-c.loss0) + "];\n"
			cost := "2 0 0 3 0 0 0"
			if c.cost != "" {
				cost = "2 0 0 3 0.02 -0.5 0"
			}
			text := strings.Replace(sixBuses, "mpc.gen =", "mpc.generators =", 1)
			text = strings.Replace(text, "0.05 18 0 0 0 0];", "0.05 18 0 0 0 0; "+cost+" 0 0 0; 2 0 0 3 0 0 0 0 0 0];", 1)
			k, err := matpower.Read("fixed.m", strings.NewReader(text+ends))
			if err != nil {
				t.Fatal(err)
			}
			return networktest.Of(t, k)
		})
	}
}

func num(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// TestCapabilityCurves: reactive power stays under both sides of a curve, and the power is the cheapest.
func TestCapabilityCurves(t *testing.T) {
	// Unit 2 may give 20 MVAr at 10 MW, 5 at 100 MW and take 15 to 1.
	curve := "mpc.gen(2, 11:16) = [10 100 -15 20 -1 5];\n"
	for name, statements := range map[string]string{
		"reactive load": curve + "mpc.bus(:, 4) = mpc.bus(:, 4) * 2.5;", "capacitors": curve + "mpc.bus(:, 6) = mpc.bus(:, 6) + 25; mpc.bus(:, 12) = 1.05; mpc.gencost(2, 6) = 18;",
		"piecewise": curve + "mpc.bus(:, 4) = mpc.bus(:, 4) * 2.5;\nmpc.gencost(2, :) = [1 0 0 3 0 0 50 1000 100 2600];",
	} {
		n := sixWith(t, statements)
		if len(n.Curves) != 2 {
			t.Fatalf("%s: curves %+v", name, n.Curves)
		}
		r := solveOne(t, newTestSolver(t, n, Options{}), Problem{})
		p, q := r.Pg[1], r.Qg[1]
		high, low := 0.2-(p-0.1)*0.15/0.9, -0.15+(p-0.1)*0.14/0.9
		if q > high+1e-8 || q < low-1e-8 || math.Min(math.Abs(q-high), math.Abs(q-low)) > 1e-6 {
			t.Errorf("%s: %g pu of reactive power at %g, limits %g and %g: want one of them", name, q, p, low, high)
		}
		cheapestAt(t, r, p, func(p float64) *network.Network {
			high, low := 0.2-(p-0.1)*0.15/0.9, -0.15+(p-0.1)*0.14/0.9
			rest := strings.Replace(statements, curve, "", 1)
			return sixWith(t, rest+"\nmpc.gen(2, [4 5 9 10]) = ["+num(100*high)+" "+num(100*low)+" "+num(100*p)+" "+num(100*p)+"];")
		})
	}
}

// TestPowersOfVectorGroups: with transformers of 150° the optimum is that of those without, from as near a start.
func TestPowersOfVectorGroups(t *testing.T) {
	plain := solveOne(t, newTestSolver(t, sixWith(t, ""), Options{}), Problem{})
	r := solveOne(t, newTestSolver(t, sixWith(t, "mpc.branch(8:9, 10) = 150;"), Options{}), Problem{})
	if r.Status != Optimal || math.Abs(r.Objective-plain.Objective) > 1e-7*plain.Objective || r.Iterations > plain.Iterations+2 {
		t.Errorf("%v at %.6f $/h in %d iterations; without shifts %.6f in %d", r.Status, r.Objective, r.Iterations, plain.Objective, plain.Iterations)
	}
}
