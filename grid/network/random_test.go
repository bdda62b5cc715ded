package network_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// randomCase has a few buses in one to three islands, parallel branches, and references with and without units.
func randomCase(rng *rand.Rand) *matpower.Case {
	c := &matpower.Case{Name: "random", BaseMVA: 50}
	buses := 2 + rng.IntN(8)
	for b := range buses {
		c.Bus = append(c.Bus, matpower.Bus{ID: 7 * (buses - b), Type: matpower.PQ, Vm: 1, Va: 20 * rng.NormFloat64(), VMin: 0.9, VMax: 1.1, Gs: rng.Float64(), Bs: rng.Float64()})
	}
	for k := range 1 + rng.IntN(3) {
		bus := &c.Bus[rng.IntN(buses)]
		if k == 0 || rng.IntN(2) == 0 {
			bus.Type = matpower.Reference
		}
		at := c.Bus[rng.IntN(buses)].ID
		if rng.IntN(2) == 0 {
			at = bus.ID
		}
		c.Gen = append(c.Gen, matpower.Gen{Bus: at, Vg: 1, InService: true, PMax: float64(rng.IntN(3))})
	}
	for range buses + rng.IntN(3) {
		f, t := rng.IntN(buses), rng.IntN(buses)
		if f == t {
			continue
		}
		c.Branch = append(c.Branch, matpower.Branch{From: c.Bus[f].ID, To: c.Bus[t].ID, X: 0.01 + rng.Float64(), Tap: float64(rng.IntN(2)) * (0.9 + 0.2*rng.Float64()), ShiftDeg: 10 * rng.NormFloat64(), InService: true})
	}
	return c
}

// The flows of the linear model balance what is injected at every bus but the references, which have the file's angles, and are
// couplings times differences of angles.
func TestLinearFlowsBalanceRandomNetworks(t *testing.T) {
	rng := rand.New(rand.NewPCG(57, 1))
	several := 0
	for trial := range 200 {
		c := randomCase(rng)
		n := networktest.Of(t, c)
		if several += len(n.References) - 1; n.Slack != n.References[0] {
			t.Fatalf("slack %d of references %v", n.Slack, n.References)
		}
		d := require.Get(network.NewDC(n))(t)
		pd, pg := make([]float64, n.Buses()), make([]float64, n.Gens())
		for b := range pd {
			pd[b] = rng.NormFloat64()
		}
		for g := range pg {
			pg[g] = rng.NormFloat64()
		}
		p := n.Balanced(pd, pg)
		va, flow := d.Solve(p)
		again := d.Flows(va)
		for k, from := range n.From {
			br := c.Branch[n.BranchRow[k]]
			shift := br.ShiftDeg * math.Pi / 180
			want := (va[from] - va[n.To[k]] - shift) / (br.X * n.Ratio(k))
			if !(math.Abs(flow[k]-want) < 1e-9*(1+math.Abs(want))) || again[k] != flow[k] || math.Abs(n.Shift(k)-shift) > 1e-12 {
				t.Fatalf("trial %d, branch %d: %g and %g, want %g", trial, k, flow[k], again[k], want)
			}
		}
		for b := range pd {
			left := -pd[b] - n.Gs[b]
			for g, at := range n.GenBus {
				if at == b {
					left += pg[g]
				}
			}
			if math.Abs(p[b]-left) > 1e-12 {
				t.Fatalf("trial %d, bus %d: %g injected, want %g", trial, b, p[b], left)
			}
			for k, from := range n.From {
				if from == b {
					left -= flow[k]
				} else if n.To[k] == b {
					left += flow[k]
				}
			}
			if n.Kind[b] == network.Slack {
				if va[b] != n.Va0[b] || n.FixedAngle(b) != va[b] {
					t.Fatalf("trial %d: the reference is at %g, the file has %g", trial, va[b], n.Va0[b])
				}
			} else if n.FixedAngle(b) != 0 || !(math.Abs(left) < 1e-8) {
				t.Fatalf("trial %d, bus %d: %g is left, the fixed angle is %g", trial, b, left, n.FixedAngle(b))
			}
		}
	}
	if several < 20 {
		t.Errorf("%d networks have several references", several)
	}
}

// reach marks what branches connect with some buses, without one branch.
func reach(n *network.Network, without int, seeds ...int) []bool {
	reached := make([]bool, n.Buses())
	for _, b := range seeds {
		reached[b] = true
	}
	for again := true; again; {
		again = false
		for k, from := range n.From {
			if k != without && reached[from] != reached[n.To[k]] {
				reached[from], reached[n.To[k]], again = true, true, true
			}
		}
	}
	return reached
}

// Islands, bridges and their sides are what a search from every bus finds. Each island keeps its first reference with a unit, or one
// of several; the bus with the most power takes the place of the only one.
func TestPartsOfRandomNetworks(t *testing.T) {
	rng := rand.New(rand.NewPCG(57, 2))
	cut, moved, twoReferences := 0, 0, 0
	for trial := range 400 {
		c := randomCase(rng)
		n := networktest.Of(t, c)
		island := n.Islands()
		var first []int
		for _, r := range n.References {
			if !slices.ContainsFunc(first, func(b int) bool { return island[b] == island[r] }) {
				first = append(first, r)
			}
		}
		found, sides, one := n.Bridges(), n.BridgeSides(), n.OneReference()
		if !slices.Equal(one.References, first) {
			t.Fatalf("trial %d: references %v, the first of each island are %v", trial, one.References, first)
		}
		for b, same := range island {
			if island[same] != same {
				t.Fatalf("trial %d: island %d of bus %d is not a bus of it", trial, same, b)
			}
			for other, reached := range reach(n, -1, b) {
				if reached != (island[other] == same) {
					t.Fatalf("trial %d: islands %v, bus %d reaches %d: %v", trial, island, b, other, reached)
				}
			}
			if (one.Kind[b] == network.Slack) != slices.Contains(first, b) || one.Kind[b] != n.Kind[b] && (n.Kind[b] != network.Slack || one.Kind[b] != network.PV) {
				t.Fatalf("trial %d, bus %d: kind %v with one reference, %v", trial, b, one.Kind[b], n.Kind[b])
			}
		}
		for k := range found {
			var side []int
			for b, reached := range reach(n, k, first...) {
				if !reached {
					side = append(side, b)
				}
			}
			if got := slices.Sorted(slices.Values(sides[k])); found[k] != (side != nil) || !slices.Equal(got, side) {
				t.Fatalf("trial %d, branch %d: bridge %v to %v, want %v", trial, k, found[k], got, side)
			}
			if without := n.Islands(k); found[k] != (without[n.From[k]] != without[n.To[k]]) {
				t.Fatalf("trial %d: islands %v without the bridge %d", trial, without, k)
			}
			cut += len(side)
		}
		power := func(bus int) (sum float64) {
			sum = -1
			for g, b := range n.GenBus {
				if b == bus {
					sum = max(sum, 0) + n.PMax[g]
				}
			}
			return sum
		}
		twoReferences += len(n.References) - len(first)
		for _, m := range n.MovedReferences {
			moved++
			if power(m.From) >= 0 || n.Kind[m.From] != network.PQ || n.Kind[m.To] != network.Slack || !slices.Contains(n.References, m.To) {
				t.Fatalf("trial %d: %v of kinds %v", trial, m, n.Kind)
			}
			for b, same := range island {
				if same == island[m.From] && (power(b) > power(m.To) || power(b) == power(m.To) && b < m.To) {
					t.Fatalf("trial %d: bus %d takes the place of a reference, bus %d has more power", trial, m.To, b)
				}
			}
		}
		for _, r := range first {
			units := 0
			for b := range island {
				if island[b] == island[r] && power(b) >= 0 {
					units++
				}
			}
			if alone := !slices.ContainsFunc(n.References, func(b int) bool { return b != r && island[b] == island[r] }); alone && units > 0 && power(r) < 0 {
				t.Fatalf("trial %d: the reference %d has no unit", trial, r)
			}
		}
	}
	if cut < 100 || moved < 20 || twoReferences < 20 {
		t.Errorf("%d buses cut off, %d references moved, %d more than one an island", cut, moved, twoReferences)
	}
}

// A piecewise linear cost loses the corners above its lower convex hull, if none is above it by more than a unit in the fifth digit
// of its largest value.
func TestCornersAboveTheHull(t *testing.T) {
	hull := func(power, value []float64) (corners []int) {
		above := func(k, i, j int) float64 {
			return value[k] - value[i] - (value[j]-value[i])/(power[j]-power[i])*(power[k]-power[i])
		}
		largest, most := 0.0, 0.0
		for k, v := range value {
			largest = max(largest, math.Abs(v))
			excess := 0.0
			for i := range k {
				for j := k + 1; j < len(value); j++ {
					excess = max(excess, above(k, i, j))
				}
			}
			if most = max(most, excess); excess <= 0 {
				corners = append(corners, k)
			}
		}
		if most > math.Pow(10, math.Floor(math.Log10(largest))-4) {
			return nil
		}
		return corners
	}
	check := func(power, value []float64) (corners int) {
		c := networktest.Case(t, "case9")
		c.Gen[1].Cost = matpower.Cost{Model: matpower.PiecewiseLinear}
		for k, p := range power {
			c.Gen[1].Cost.Points = append(c.Gen[1].Cost.Points, matpower.Point{Power: p * c.BaseMVA, Cost: value[k]})
		}
		cost := networktest.Of(t, c).Cost[1]
		want := hull(power, value)
		if want == nil || (network.Cost{Power: power, Value: value}).Convex() {
			if !slices.Equal(cost.Value, value) {
				t.Fatalf("powers %v, values %v: %v stay, want all", power, value, cost.Value)
			}
			return len(value)
		}
		var corner []float64
		for _, k := range want {
			corner = append(corner, value[k])
		}
		if !slices.Equal(cost.Value, corner) || !cost.Convex() {
			t.Fatalf("powers %v, values %v: %v stay, want %v", power, value, cost.Value, corner)
		}
		return len(want)
	}
	for _, c := range []struct {
		value   []float64
		corners int
	}{
		{[]float64{0, 10000, 20000, 30000}, 4},            // in line: all stay
		{[]float64{0, 20000, 40001, 60000, 80000}, 4},     // one is above by a unit
		{[]float64{0, 20000, 40001.5, 60000, 80000}, 5},   // by more
		{[]float64{-80000, -60000, -39999, -20000, 0}, 4}, // the unit is of the magnitude
		{[]float64{10, 20001, 19999, 20000, 0}, 5},
	} {
		power := make([]float64, len(c.value))
		for k := range power {
			power[k] = float64(2 * k)
		}
		if got := check(power, c.value); got != c.corners {
			t.Errorf("%v: %d corners stay, want %d", c.value, got, c.corners)
		}
	}
	rng := rand.New(rand.NewPCG(57, 3))
	fewer, refused := 0, 0
	for range 400 {
		power, value, unit := []float64{0}, []float64{30000 * rng.NormFloat64()}, math.Pow(10, float64(rng.IntN(5)-2))
		for slope := 100 * rng.NormFloat64(); len(power) < 7; slope += float64(rng.IntN(2)) * 50 * rng.Float64() {
			step := 0.1 + rng.Float64()
			power, value = append(power, power[len(power)-1]+step), append(value, value[len(value)-1]+slope*step)
		}
		for k := range value {
			value[k] = unit * (value[k] + 2*rng.Float64())
		}
		if got := check(power, value); got < len(value) {
			fewer++
		} else {
			refused++
		}
	}
	if fewer < 50 || refused < 50 {
		t.Errorf("%d lose corners, %d do not", fewer, refused)
	}
}

// Coefficients are of pu, the constant first, without the zeros of the highest powers; slopes fall by a billionth at most.
func TestFormsOfCosts(t *testing.T) {
	for _, c := range []struct{ file, want []float64 }{{[]float64{0, 0, 2, 0, 3}, []float64{3, 0, 20000}}, {[]float64{0, 0}, nil}, {[]float64{5}, []float64{5}}, {[]float64{0, 1, 0}, []float64{0, 100}}, {nil, nil}} {
		file := networktest.Case(t, "case9")
		file.Gen[0].Cost.Coefficients = c.file
		if got := networktest.Of(t, file).Cost[0].Polynomial; len(got) != len(c.want) || len(got) > 0 && !slices.Equal(got, c.want) {
			t.Errorf("coefficients %v are %v, want %v", c.file, got, c.want)
		}
	}
	for fall, want := range map[float64]bool{1e-9: true, 5e-10: true, 1.5e-9: false} {
		if c := (network.Cost{Power: []float64{0, 1, 2}, Value: []float64{0, 0, -fall}}); c.Convex() != want {
			t.Errorf("a slope that falls by %g is convex: %v", fall, c.Convex())
		}
	}
}

// A side of a capability curve is the line through its two points, kept from within, where it cuts into the box.
func TestSidesOfRandomCurves(t *testing.T) {
	rng := rand.New(rand.NewPCG(57, 4))
	cuts := map[float64]int{}
	for trial := range 300 {
		c := networktest.Case(t, "case9")
		g := &c.Gen[2]
		q := func() float64 { return float64(50 * rng.IntN(7)) }
		g.PMin, g.PMax, g.QMin, g.QMax = q()-100, q()+200, -q()-100, q()+100
		g.Pc1, g.Pc2 = q(), q()
		g.Qc1Max, g.Qc2Max, g.Qc1Min, g.Qc2Min = q(), q(), -q(), -q()
		if rng.IntN(4) == 0 { // flat, which holds at any power
			g.Qc2Max, g.Qc2Min, g.PMax = g.Qc1Max, g.Qc1Min, math.Inf(1)
		}
		n := networktest.Of(t, c)
		got := n.Curves
		for _, side := range []struct{ sign, q1, q2, limit float64 }{{1, g.Qc1Max, g.Qc2Max, g.QMax}, {-1, g.Qc1Min, g.Qc2Min, g.QMin}} {
			inside := false
			for _, p := range []float64{g.PMin, g.PMax} {
				line := side.q1
				if side.q2 != side.q1 && g.Pc1 != g.Pc2 {
					line += (side.q2 - side.q1) * ((p - g.Pc1) / (g.Pc2 - g.Pc1))
				}
				inside = inside || side.sign*line < side.sign*side.limit-1e-9
			}
			if !inside || g.Pc1 == g.Pc2 {
				continue
			}
			if cuts[side.sign]++; len(got) == 0 {
				t.Fatalf("trial %d: %+v has no side %g", trial, *g, side.sign)
			}
			s := got[0]
			got = got[1:]
			off := func(p, q float64) float64 { return (s.P*p+s.Q*q)/c.BaseMVA - s.Bound }
			if s.Gen != 2 || math.Abs(math.Hypot(s.P, s.Q)-1) > 1e-12 || math.Abs(off(g.Pc1, side.q1)) > 1e-12 || math.Abs(off(g.Pc2, side.q2)) > 1e-12 || !(off(g.Pc1, side.q1-side.sign*10) < 0) {
				t.Fatalf("trial %d: %+v has the side %+v", trial, *g, s)
			}
		}
		if len(got) > 0 {
			t.Fatalf("trial %d: %+v has also %v", trial, *g, got)
		}
		if err := n.RequireRectangles(); (err != nil) != (len(n.Curves) > 0) || err != nil && !strings.Contains(err.Error(), "generator 3 at bus 3: a capability curve") || fmt.Sprint(n.RequireBoxes()) != fmt.Sprint(err) {
			t.Fatalf("trial %d: %v of %v", trial, err, n.Curves)
		}
	}
	if cuts[1] < 30 || cuts[-1] < 30 {
		t.Errorf("sides that cut: %v", cuts)
	}
}
