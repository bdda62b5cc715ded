package network_test

import (
	"bytes"
	"errors"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
)

// shifted is case14 with phase shifters, a parallel branch the other way round,
// and unit taps.
func shifted(t testing.TB) (*network.Network, *matpower.Case) {
	t.Helper()
	c := networktest.Case(t, "case14")
	c.Branch[3].ShiftDeg, c.Branch[8].ShiftDeg, c.Branch[8].Tap = 15, -30, 0.93
	twin := c.Branch[3]
	twin.From, twin.To, twin.ShiftDeg, twin.Tap = twin.To, twin.From, 4, 1.05
	c.Branch = append(c.Branch, twin)
	return networktest.Of(t, c), c
}

// TestFlowsAsTheCircuit: flows and injections against the circuit itself in
// complex arithmetic: ideal transformer at the from end, series impedance times
// 1/factor, half the charging at each end.
func TestFlowsAsTheCircuit(t *testing.T) {
	n, c := shifted(t)
	rng := rand.New(rand.NewPCG(5, 5))
	factors := make([]float64, n.Branches())
	for k := range factors {
		factors[k] = math.Exp(0.3 * rng.NormFloat64())
	}
	y := network.NewAdmittance(n.Branches())
	if err := n.ScaleBranches(factors, y); err != nil {
		t.Fatal(err)
	}
	vm, va, v := make([]float64, n.Buses()), make([]float64, n.Buses()), make([]complex128, n.Buses())
	for b := range v {
		vm[b], va[b] = 0.9+0.2*rng.Float64(), rng.NormFloat64()
		v[b] = cmplx.Rect(vm[b], va[b])
	}
	flows := network.NewFlows(n.Branches())
	n.BranchFlows(y, vm, va, flows)
	p, q := make([]float64, n.Buses()), make([]float64, n.Buses())
	n.Injections(y, vm, va, p, q)
	near := func(what string, k int, got, want complex128) {
		t.Helper()
		if !(cmplx.Abs(got-want) < 1e-12*(1+cmplx.Abs(want))) {
			t.Errorf("%s %d: %v, want %v", what, k, got, want)
		}
	}
	total := make([]complex128, n.Buses())
	for b := range total {
		total[b] = complex(vm[b]*vm[b], 0) * complex(n.Gs[b], -n.Bs[b])
	}
	for k, row := range n.BranchRow {
		br := c.Branch[row]
		a := complex(1, 0)
		if br.Tap != 0 {
			a = complex(br.Tap, 0)
		}
		a *= cmplx.Rect(1, br.ShiftDeg*math.Pi/180)
		series := complex(factors[k], 0) / complex(br.R, br.X)
		half := complex(0, br.B/2)
		vf, vt := v[n.From[k]]/a, v[n.To[k]]
		intoFrom := (vf-vt)*series + vf*half
		intoTo := (vt-vf)*series + vt*half
		sf := v[n.From[k]] * cmplx.Conj(intoFrom/cmplx.Conj(a))
		st := vt * cmplx.Conj(intoTo)
		near("from end", k, complex(flows.Pf[k], flows.Qf[k]), sf)
		near("to end", k, complex(flows.Pt[k], flows.Qt[k]), st)
		total[n.From[k]] += sf
		total[n.To[k]] += st
	}
	for i := range total {
		near("injection", i, complex(p[i], q[i]), total[i])
	}
}

// TestUnitFactorsChangeNothing, and bad ones are refused.
func TestUnitFactorsChangeNothing(t *testing.T) {
	n, _ := shifted(t)
	ones := make([]float64, n.Branches())
	for k := range ones {
		ones[k] = 1
	}
	y := network.NewAdmittance(n.Branches())
	for _, factors := range [][]float64{nil, ones} {
		if err := n.ScaleBranches(factors, y); err != nil {
			t.Fatal(err)
		}
		for k := range ones {
			if y.Gff[k] != n.Gff[k] || y.Bff[k] != n.Bff[k] || y.Gft[k] != n.Gft[k] || y.Bft[k] != n.Bft[k] ||
				y.Gtf[k] != n.Gtf[k] || y.Btf[k] != n.Btf[k] || y.Gtt[k] != n.Gtt[k] || y.Btt[k] != n.Btt[k] {
				t.Fatalf("branch %d differs", k)
			}
		}
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		ones[2] = bad
		if err := n.ScaleBranches(ones, y); err == nil {
			t.Errorf("a factor of %g was taken", bad)
		}
	}
	if n.ScaleBranches(ones[1:], y) == nil || n.ScaleBranches(nil, network.NewAdmittance(1)) == nil {
		t.Error("a wrong shape was taken")
	}
}

// TestCostDerivatives against central differences, and in $/h of the file.
func TestCostDerivatives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Float64Range(1, 200).Draw(t, "base")
		coefficients := rapid.SliceOfN(rapid.Float64Range(-2, 2), 1, 5).Draw(t, "coefficients")
		c := &matpower.Case{Name: "one", BaseMVA: base, HasCost: true,
			Bus: []matpower.Bus{{ID: 1, Type: matpower.Reference, Vm: 1, VMax: 1, VMin: 1}},
			Gen: []matpower.Gen{{Bus: 1, Vg: 1, InService: true, Cost: matpower.Cost{Model: matpower.Polynomial, Coefficients: coefficients}}}}
		n, err := network.New(c)
		if err != nil {
			t.Fatal(err)
		}
		p := rapid.Float64Range(-2, 2).Draw(t, "p")
		value, first, second := n.Cost[0].At(p)
		want := c.Gen[0].Cost.Value(p * base)
		scale := 1.0
		for k, a := range slices.Backward(coefficients) {
			scale += math.Abs(a) * math.Pow(2*base, float64(len(coefficients)-1-k))
		}
		const h = 1e-4
		up, upFirst, _ := n.Cost[0].At(p + h)
		down, downFirst, _ := n.Cost[0].At(p - h)
		for _, d := range [][2]float64{{value, want}, {first, (up - down) / (2 * h)}, {second, (upFirst - downFirst) / (2 * h)}} {
			if !(math.Abs(d[0]-d[1]) <= 1e-6*scale) {
				t.Errorf("%g, want %g", d[0], d[1])
			}
		}
	})
}

// TestPiecewiseLinearCost is the largest of its segments where it is convex,
// and an optimal power flow refuses one that is not.
func TestPiecewiseLinearCost(t *testing.T) {
	c := networktest.Case(t, "case9")
	set := func(points ...matpower.Point) *network.Network {
		c.Gen[1].Cost = matpower.Cost{Model: matpower.PiecewiseLinear, Points: points}
		return networktest.Of(t, c)
	}
	n := set(matpower.Point{Power: 0, Cost: 10}, matpower.Point{Power: 100, Cost: 110}, matpower.Point{Power: 150, Cost: 260}, matpower.Point{Power: 300, Cost: 1160})
	cost := n.Cost[1]
	slope, intercept := cost.Segments()
	if !cost.PiecewiseLinear() || !cost.Convex() || n.RequireCosts() != nil || len(slope) != 3 {
		t.Fatalf("convex %v, %v, slopes %v", cost.Convex(), n.RequireCosts(), slope)
	}
	for p := -0.5; p < 4; p += 0.0731 {
		largest := math.Inf(-1)
		for k := range slope {
			largest = max(largest, slope[k]*p+intercept[k])
		}
		value, first, second := cost.At(p)
		if math.Abs(value-largest) > 1e-9 || math.Abs(value-c.Gen[1].Cost.Value(100*p)) > 1e-9 || second != 0 || !slices.Contains(slope, first) {
			t.Errorf("at %g: %g with slope %g, the largest segment is %g", p, value, first, largest)
		}
	}
	for k, p := range cost.Power[1:] {
		if _, first, _ := cost.At(p); first != slope[k] {
			t.Errorf("at the corner %g: slope %g, that of the segment on the left is %g", p, first, slope[k])
		}
	}
	n = set(matpower.Point{Power: 0, Cost: 10}, matpower.Point{Power: 100, Cost: 210}, matpower.Point{Power: 150, Cost: 260})
	if err := n.RequireCosts(); !errors.Is(err, network.ErrNotConvex) || !strings.Contains(err.Error(), "generator 2") {
		t.Errorf("a cost that is not convex: %v", err)
	}
	c.HasCost = false
	n = networktest.Of(t, c)
	if err := n.RequireCosts(); !errors.Is(err, network.ErrNoCost) {
		t.Errorf("no cost: %v", err)
	}
}

// TestCapabilityCurves are sides where they cut into the limits, and nothing where they do not.
func TestCapabilityCurves(t *testing.T) {
	curves := func(pc1, pc2, qc1max, qc2max float64) []network.Curve {
		c := networktest.Case(t, "case9")
		g := &c.Gen[1]
		g.Pc1, g.Pc2, g.Qc1Min, g.Qc1Max, g.Qc2Min, g.Qc2Max = pc1, pc2, -300, qc1max, -300, qc2max
		return networktest.Of(t, c).Curves
	}
	for qc2max, want := range map[float64]int{300: 0, 250: 1} {
		if got := curves(0, 300, 300, qc2max); len(got) != want {
			t.Errorf("a curve up to %g MVAr: %v", qc2max, got)
		}
	}
	// The line goes on beyond its two points: to 300 MVAr at the largest power of 300 MW, or below that.
	for qc2max, want := range map[float64]int{350: 0, 349: 1} {
		if got := curves(100, 200, 400, qc2max); len(got) != want {
			t.Errorf("a curve from 400 MVAr at 100 MW to %g at 200 MW: %v", qc2max, got)
		}
	}
	for _, q := range []float64{0, 1} { // points of the line keep it with equality
		c := curves(0, 200, 300, 100)[0]
		if p := 2 * q; math.Abs(c.P*p+c.Q*(3-p)-c.Bound) > 1e-12 || c.Gen != 1 || math.Abs(math.Hypot(c.P, c.Q)-1) > 1e-15 || c.Q < 0 {
			t.Errorf("at %g: %+v", p, c)
		}
	}
}

// TestLoadsOfConstantPowerFactor are those of MATPOWER's manual: no power beyond 0, one reactive limit 0, and a
// dispatch of that factor. Others are plain units, or none that could be a load.
func TestLoadsOfConstantPowerFactor(t *testing.T) {
	const byFile, always, plain = network.DispatchableByFile, network.DispatchablePowerFactor, network.DispatchablePlain
	type unit struct{ pmin, pmax, qmin, qmax, p, q float64 } // MW, MVAr
	good := unit{-50, 0, -20, 0, -25, -10}
	for name, c := range map[string]struct {
		unit    unit
		network string
		how     network.Dispatchable
		ratio   float64 // 0: not kept
		plain   bool
		refused string
	}{
		"a lagging load":             {good, "case9", byFile, 0.4, false, ""},
		"a leading load":             {unit{-50, 0, 0, 30, -25, 15}, "case9", byFile, -0.6, false, ""},
		"of PGLib":                   {good, "pglib_opf_case9", byFile, 0, true, ""},
		"of PGLib, kept":             {good, "pglib_opf_case9", always, 0.4, false, ""},
		"taken as plain":             {good, "case9", plain, 0, true, ""},
		"another dispatch":           {unit{-50, 0, -20, 0, -25, -9}, "case9", byFile, 0, true, ""},
		"another dispatch, kept":     {unit{-50, 0, -20, 0, -25, -9}, "case9", always, 0, false, "power factor of PMIN"},
		"too much reactive power":    {unit{-50, 0, -20, 0, -25, -11}, "case9", always, 0, false, "PG -25 and QG -11"},
		"within the tolerance":       {unit{-50, 0, -20, 0, 0, 1e-4}, "case9", byFile, 0.4, false, ""},
		"two reactive limits":        {unit{-50, 0, -20, 20, -25, -10}, "case9", byFile, 0, true, ""},
		"two reactive limits, kept":  {unit{-50, 0, -20, 30, -25, -10}, "case9", always, 0, false, "QMIN -20 and QMAX 30 has to be 0"},
		"no least power, kept":       {unit{math.Inf(-1), 0, -20, 0, -25, -10}, "case9", always, 0, false, "have to be finite"},
		"no reactive end, kept":      {unit{-50, 0, math.Inf(-1), 0, -25, -10}, "case9", always, 0, false, "have to be finite"},
		"no leading end, kept":       {unit{-50, 0, 0, math.Inf(1), -25, 10}, "case9", always, 0, false, "have to be finite"},
		"no reactive limit":          {unit{-50, 0, 0, 0, -25, 0}, "case9", always, 0, false, ""},
		"a unit that may give power": {unit{-50, 1, -20, 0, -25, -10}, "case9", always, 0, false, ""},
		"a unit without any power":   {unit{0, 0, -20, 0, 0, 0}, "case9", always, 0, false, ""},
	} {
		file := networktest.Case(t, "case9")
		file.Name = c.network
		g := &file.Gen[1]
		g.PMin, g.PMax, g.QMin, g.QMax, g.Pg, g.Qg = c.unit.pmin, c.unit.pmax, c.unit.qmin, c.unit.qmax, c.unit.p, c.unit.q
		n := networktest.Of(t, file)
		kept, others, err := n.PowerFactors(c.how)
		note, refused := n.DispatchableNote(c.how)
		if c.refused != "" {
			if err == nil || refused == nil || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), "generator 2 at bus 2") {
				t.Errorf("%s: error %v, want one with %q", name, err, c.refused)
			}
			continue
		}
		switch ok := err == nil && refused == nil; {
		case !ok, len(others) > 0 != c.plain, len(kept) > 0 != (c.ratio != 0), strings.Contains(note, "1 taken as plain") != c.plain, strings.Contains(note, "1 taken as loads") != (c.ratio != 0), strings.Contains(note, "0 taken"), (note == "") != (len(kept)+len(others) == 0):
			t.Errorf("%s: kept %v, plain %v, %v; %q", name, kept, others, err, note)
		case c.plain && others[0] != 1, c.ratio != 0 && (kept[0].Gen != 1 || math.Abs(kept[0].Ratio-c.ratio) > 1e-12):
			t.Errorf("%s: kept %v, plain %v, want the second unit with a ratio of %g", name, kept, others, c.ratio)
		}
	}
}

// TestOnlyWhatIsInService: equipment out of service, isolated buses and what
// hangs on them are left out, and the rows lead back.
func TestOnlyWhatIsInService(t *testing.T) {
	c := networktest.Case(t, "case14")
	for i := range c.Bus {
		c.Bus[i].ID = 1000 - 7*c.Bus[i].ID // not consecutive, and falling
	}
	for i := range c.Gen {
		c.Gen[i].Bus = 1000 - 7*c.Gen[i].Bus
	}
	for i := range c.Branch {
		c.Branch[i].From, c.Branch[i].To = 1000-7*c.Branch[i].From, 1000-7*c.Branch[i].To
	}
	c.Gen[1].InService = false        // bus 2 keeps type PV but has no generator left
	c.Branch[4].InService = false     // 2–5
	c.Bus[7].Type = matpower.Isolated // bus 8, with a generator, behind branch 7–8
	n := networktest.Of(t, c)
	if n.Buses() != 13 || n.Gens() != 3 || n.Branches() != 18 {
		t.Fatalf("%d buses, %d generators, %d branches", n.Buses(), n.Gens(), n.Branches())
	}
	if n.Kind[1] != network.PQ || n.Kind[0] != network.Slack || n.Kind[2] != network.PV || n.Slack != 0 {
		t.Errorf("kinds %v", n.Kind)
	}
	for b, row := range n.BusRow {
		if n.BusID[b] != c.Bus[row].ID || math.Abs(n.Pd[b]*n.BaseMVA-c.Bus[row].Pd) > 1e-12 {
			t.Errorf("bus %d is not row %d", b, row)
		}
	}
	for g, row := range n.GenRow {
		if n.BusID[n.GenBus[g]] != c.Gen[row].Bus || !c.Gen[row].InService || math.Abs(n.PMax[g]*n.BaseMVA-c.Gen[row].PMax) > 1e-12 {
			t.Errorf("generator %d is not row %d", g, row)
		}
	}
	for k, row := range n.BranchRow {
		br := c.Branch[row]
		if n.BusID[n.From[k]] != br.From || n.BusID[n.To[k]] != br.To {
			t.Errorf("branch %d is not row %d", k, row)
		}
		if br.RateA == 0 && !math.IsInf(n.Rate[k], 1) {
			t.Errorf("branch %d without a rating has one of %g", k, n.Rate[k])
		}
	}
}

// TestPowersArePerUnit: the powers of a file are divided by its base, whatever they limit.
func TestPowersArePerUnit(t *testing.T) {
	c := networktest.Case(t, "case9")
	c.BaseMVA = 250
	for i := range c.Gen {
		c.Gen[i].Ramp10 = 40 + float64(i)
	}
	for i := range c.Bus {
		c.Bus[i].Gs, c.Bus[i].Bs = 3+float64(i), 20-float64(i)
	}
	n := networktest.Of(t, c)
	near := func(what string, at int, pu, file float64) {
		if !(math.Abs(pu*c.BaseMVA-file) <= 1e-12*math.Abs(file)) {
			t.Errorf("%s of %d: %g pu, the file has %g", what, at, pu, file)
		}
	}
	for b, row := range n.BusRow {
		of := c.Bus[row]
		near("load", b, n.Pd[b], of.Pd)
		near("reactive load", b, n.Qd[b], of.Qd)
		near("shunt conductance", b, n.Gs[b], of.Gs)
		near("shunt susceptance", b, n.Bs[b], of.Bs)
	}
	for g, row := range n.GenRow {
		of := c.Gen[row]
		near("least power", g, n.PMin[g], of.PMin)
		near("largest power", g, n.PMax[g], of.PMax)
		near("least reactive power", g, n.QMin[g], of.QMin)
		near("largest reactive power", g, n.QMax[g], of.QMax)
		near("power", g, n.Pg0[g], of.Pg)
		near("reactive power", g, n.Qg0[g], of.Qg)
		near("ramp", g, n.Ramp[g], of.Ramp10)
	}
	for k, row := range n.BranchRow {
		near("rating", k, n.Rate[k], c.Branch[row].RateA)
	}
}

// TestAngleLimits of the file's conventions.
func TestAngleLimits(t *testing.T) {
	c := networktest.Case(t, "case9")
	inf := math.Inf(1)
	for k, l := range [][4]float64{{0, 0, -inf, inf}, {-360, 360, -inf, inf}, {-400, 30, -inf, math.Pi / 6}, {-30, 0, -math.Pi / 6, 0}, {0, 45, 0, math.Pi / 4},
		{-359, 270, -359 * math.Pi / 180, 1.5 * math.Pi}, {-90, 359, -math.Pi / 2, 359 * math.Pi / 180}} {
		c.Branch[k].AngMin, c.Branch[k].AngMax = l[0], l[1]
		n := networktest.Of(t, c)
		same := func(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-15 }
		if !same(n.AngMin[k], l[2]) || !same(n.AngMax[k], l[3]) {
			t.Errorf("limits %v are %g and %g", l, n.AngMin[k], n.AngMax[k])
		}
	}
}

// TestACaseThatDoesNotCheckIsRefused before anything is built from it.
func TestACaseThatDoesNotCheckIsRefused(t *testing.T) {
	c := networktest.Case(t, "case9")
	c.Bus[4].Pd = math.NaN()
	var bad *matpower.Error
	if _, err := network.New(c); !errors.As(err, &bad) || bad.Line != c.Bus[4].Line {
		t.Errorf("error %v", err)
	}
}

// TestAReferenceWithoutGeneratorIsMoved to the bus of its island that has the most
// active power, and the network says so; one with a generator stays, and so does one of
// two in an island.
func TestAReferenceWithoutGeneratorIsMoved(t *testing.T) {
	moved := func(change func(*matpower.Case)) *network.Network {
		c := networktest.Case(t, "case14")
		change(c)
		return networktest.Of(t, c)
	}
	if n := moved(func(*matpower.Case) {}); n.BusID[n.Slack] != 1 || len(n.Notes()) != 0 {
		t.Errorf("slack at bus %d, %q: the file's has a generator", n.BusID[n.Slack], n.Notes())
	}
	off := func(c *matpower.Case) {
		c.Gen[0].InService = false
		c.Gen[3].PMax = 150 // at bus 6: the most there is left
	}
	n := moved(off)
	if n.BusID[n.Slack] != 6 || !slices.Equal(n.References, []int{5}) || n.Kind[0] != network.PQ || n.Kind[5] != network.Slack {
		t.Errorf("slack at bus %d, references %v, kinds %v", n.BusID[n.Slack], n.References, n.Kind)
	}
	if notes := n.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "bus 1, the reference of the file") || !strings.Contains(notes[0], "bus 6 is") {
		t.Errorf("notes %q", notes)
	}
	first := moved(func(c *matpower.Case) { // bus 1 has the most, and is not the reference
		c.Bus[0].Type, c.Bus[3].Type, c.Gen[0].PMax = matpower.PV, matpower.Reference, 500
	})
	if first.BusID[first.Slack] != 1 {
		t.Errorf("slack at bus %d, want the first", first.BusID[first.Slack])
	}
	two := moved(func(c *matpower.Case) {
		off(c)
		c.Bus[1].Type = matpower.Reference
	})
	if !slices.Equal(two.References, []int{0, 1}) || len(two.MovedReferences) != 0 {
		t.Errorf("references %v, moved %v", two.References, two.MovedReferences)
	}
}

// TestReach: no voltages within their limits make a branch carry more, and some nearly as much.
func TestReach(t *testing.T) {
	n, _ := shifted(t)
	rng := rand.New(rand.NewPCG(991, 1))
	flows := network.NewFlows(n.Branches())
	nearest := 0.0
	for range 2000 {
		vm, va := make([]float64, n.Buses()), make([]float64, n.Buses())
		for b := range vm {
			vm[b], va[b] = n.VMax[b], 2*math.Pi*rng.Float64()
			if rng.IntN(4) == 0 {
				vm[b] = n.VMin[b]
			}
		}
		n.BranchFlows(&n.Admittance, vm, va, flows)
		for k, from := range n.From {
			f, t2 := math.Hypot(flows.Pf[k], flows.Qf[k]), math.Hypot(flows.Pt[k], flows.Qt[k])
			most := max(f, f/vm[from], t2, t2/vm[n.To[k]])
			if most > n.Reach(k)*(1+1e-12) {
				t.Fatalf("branch %d carries %g, its reach is %g", k, most, n.Reach(k))
			}
			nearest = max(nearest, most/n.Reach(k))
		}
	}
	if nearest < 0.95 {
		t.Errorf("no branch carries more than %g of its reach", nearest)
	}
}

// A walk begins at its level, moves by no more than it may at a step, comes back, and is the same for the same draws.
func TestAWalkStaysNearItsLevel(t *testing.T) {
	const level, by, steps = 0.8, 0.01, 300
	n := networktest.Load(t, "case30")
	draw := func() (pd, qd [][]float64) { return networktest.Walk(n, level, by, steps, rand.New(rand.NewPCG(1, 2))) }
	pd, qd := draw()
	first, _ := n.Loads(level)
	if len(pd) != steps || len(qd) != steps || !slices.Equal(pd[0], first) {
		t.Fatalf("%d and %d steps, the first %v, want %v", len(pd), len(qd), pd[0], first)
	}
	moved := false
	for k := range pd {
		for b, p := range pd[k] {
			if math.Abs(p-first[b]) > 0.2*math.Abs(first[b]) {
				t.Fatalf("step %d: load %g at bus %d, the level's is %g", k, p, b, first[b])
			}
			if k == 0 {
				continue
			}
			// Half of by for the bus, half for all, and a tenth of either's distance from the level.
			if last := pd[k-1][b]; math.Abs(p-last) > (by+0.03)*math.Abs(last) {
				t.Fatalf("step %d: load %g at bus %d after %g", k, p, b, last)
			}
			moved = moved || p != first[b]
		}
	}
	if again, _ := draw(); !moved || !slices.Equal(again[steps-1], pd[steps-1]) {
		t.Errorf("moved: %v; again it ends at %v, not at %v", moved, again[steps-1], pd[steps-1])
	}
}

// A polynomial without parameters is no cost, and is written as it is read.
func TestACostWithoutParametersIsNone(t *testing.T) {
	c := networktest.Case(t, "case9")
	c.Gen[0].Cost.Coefficients = nil
	var text bytes.Buffer
	if err := matpower.Write(&text, "case9", "", c); err != nil {
		t.Fatal(err)
	}
	again, err := matpower.Read("case9", &text)
	if err != nil {
		t.Fatal(err)
	}
	n := networktest.Of(t, again)
	if v, slope, _ := n.Cost[0].At(1); v != 0 || slope != 0 || n.RequireCosts() != nil {
		t.Errorf("cost %g with slope %g", v, slope)
	}
	if v, _, _ := n.Cost[1].At(1); v == 0 {
		t.Error("another unit has no cost either")
	}
}

// TestIslandsWithoutAReference have the bus with the most power as theirs; without a generator and load they are left out.
func TestIslandsWithoutAReference(t *testing.T) {
	c := networktest.Case(t, "case39")
	for i := range c.Branch {
		if b := &c.Branch[i]; b.From == 36 || b.To == 36 {
			b.InService = false
		}
	}
	c.Bus = append(c.Bus, matpower.Bus{ID: 99, Type: matpower.PQ, Vm: 1, VMax: 1.1, VMin: 0.9})
	n := networktest.Of(t, c)
	at := slices.Index(n.BusID, 36)
	if n.Buses() != 39 || n.Kind[at] != network.Slack || !slices.Contains(n.References, at) || n.BusID[n.Slack] != 31 {
		t.Errorf("%d buses, references %v of %v", n.Buses(), n.References, n.BusID)
	}
	if notes := strings.Join(n.Notes(), "\n"); !strings.Contains(notes, "bus 36 is the reference of an island") || !strings.Contains(notes, "bus 99 is not connected") {
		t.Errorf("notes %q", notes)
	}
	c.Bus[39].Pd = 1
	if _, err := network.New(c); err == nil || !strings.Contains(err.Error(), "bus 99 has load, and no branch in service leads from it") {
		t.Errorf("load that nothing supplies: %v", err)
	}
}

// TestCostsOfFiveDigits: a straight line whose values are rounded to five digits loses the corners above it, one that bends
// is refused.
func TestCostsOfFiveDigits(t *testing.T) {
	for name, c := range map[string]struct {
		value   [4]float64
		corners int // 0: refused
	}{"straight": {[4]float64{810, 1215, 1620, 2025}, 4}, "rounded": {[4]float64{1085.8, 1490.9, 1896.1, 2301.2}, 3}, "bent": {[4]float64{810.35, 1215.5, 1620.6, 2025.0}, 0}} {
		of := networktest.Case(t, "case9")
		of.Gen[1].Cost = matpower.Cost{Model: matpower.PiecewiseLinear, Line: 7}
		for k, v := range c.value {
			of.Gen[1].Cost.Points = append(of.Gen[1].Cost.Points, matpower.Point{Power: 100 + 50*float64(k), Cost: v})
		}
		n := networktest.Of(t, of)
		err := n.RequireCosts()
		if c.corners == 0 {
			if !errors.Is(err, network.ErrNotConvex) || !strings.Contains(err.Error(), "line 7") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || len(n.Cost[1].Power) != c.corners {
			t.Errorf("%s: %v, corners %v", name, err, n.Cost[1].Power)
		}
		for k, v := range c.value {
			if got, _, _ := n.Cost[1].At(1 + 0.5*float64(k)); math.Abs(got-v) > 0.1 {
				t.Errorf("%s: %g at corner %d, the file has %g", name, got, k, v)
			}
		}
	}
}

// Buses are tied by a branch of next to no impedance alone, without a ratio or a shift. A rating below a megavolt-ampere is a limit.
func TestTiesAndSmallRatings(t *testing.T) {
	c := networktest.Case(t, "case9")
	c.Branch[1].RateA = 0.5
	small := networktest.Of(t, c)
	if got, want := small.Rate[1], 0.5/c.BaseMVA; got != want || len(small.Ties()) > 0 {
		t.Errorf("a rating of 0.5 MVA is %v pu, want %v; ties %v", got, want, small.Ties())
	}
	for _, test := range []struct {
		x, tap, shift float64
		tied          bool
	}{{9e-5, 0, 0, true}, {9e-5, 1, 0, true}, {2e-4, 0, 0, false}, {9e-5, 0.99, 0, false}, {9e-5, 0, 5, false}} {
		b := &c.Branch[1]
		b.R, b.X, b.B, b.Tap, b.ShiftDeg = 0, test.x, 0, test.tap, test.shift
		n := networktest.Of(t, c)
		ends := []int{min(n.From[1], n.To[1]), max(n.From[1], n.To[1])}
		if ties := n.Ties(); test.tied != (len(ties) == 1 && slices.Equal(ties[0], ends)) || !test.tied && len(ties) > 0 {
			t.Errorf("%+v: ties %v of ends %v", test, ties, ends)
		}
	}
}
