package network_test

import (
	"math"
	"math/cmplx"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A DC line in service is a pair of generators at its ends, of the losses of the file. An end without a set-point has that of the
// units at its bus, or the file's voltage; one with a set-point holds it. Lines from or to isolated buses are left out.
func TestDCLinesArePairsOfGenerators(t *testing.T) {
	c := networktest.Case(t, "case9")
	c.BaseMVA = 50
	c.Bus[8].Vm, c.Gen[0].Vg = 0.97, 1.03
	c.Bus[6].Type, c.Bus[6].Pd, c.Bus[6].Qd = matpower.Isolated, 0, 0 // bus 7
	for i := range c.Branch {
		if b := &c.Branch[i]; b.From == 7 || b.To == 7 {
			b.InService = false
		}
	}
	for _, l := range []matpower.DCLine{{From: 4, To: 7, InService: true}, {From: 7, To: 4, InService: true}, {From: 4, To: 5}, {From: 1, To: 9, InService: true, Loss0: 1, Loss1: 0.1, PMax: 20}, {From: 5, To: 6, InService: true, Vf: 1.01, Loss0: 2, Loss1: 0.2, PMax: 20}} {
		c.AddDCLine(l)
	}
	n := networktest.Of(t, c)
	want := []network.DCLine{{From: 3, To: 4, Loss0: 0.02, Loss1: 0.1}, {From: 5, To: 6, Loss0: 0.04, Loss1: 0.2}}
	if !slices.Equal(n.DCLines, want) || n.Gens() != 7 || !slices.Equal(n.Terminals(), []bool{false, false, false, true, true, true, true}) {
		t.Fatalf("lines %+v of %d generators, terminals %v", n.DCLines, n.Gens(), n.Terminals())
	}
	var at []int
	for _, b := range n.GenBus[3:] {
		at = append(at, n.BusID[b])
	}
	if !slices.Equal(at, []int{1, 9, 5, 6}) || !slices.Equal(n.Vg[3:], []float64{1.03, 0.97, 1.01, n.Vm0[n.GenBus[6]]}) {
		t.Errorf("ends at buses %v with set-points %v", at, n.Vg[3:])
	}
	for b, id := range n.BusID {
		want := network.PQ
		switch id {
		case 1:
			want = network.Slack
		case 2, 3, 5:
			want = network.PV
		}
		if n.Kind[b] != want {
			t.Errorf("bus %d is %v, want %v", id, n.Kind[b], want)
		}
	}
	if err := n.RequireBoxes(); err == nil || !strings.Contains(err.Error(), "the DC line from bus 1 to bus 9 is in service") || n.RequireRectangles() != nil {
		t.Errorf("a DC line: %v, %v", err, n.RequireRectangles())
	}
	for _, test := range []struct {
		cost network.Cost
		ok   bool
	}{{network.Cost{}, true}, {network.Cost{Polynomial: []float64{3}}, true}, {network.Cost{Polynomial: []float64{0, 1}}, false}, {network.Cost{Power: []float64{0, 1}, Value: []float64{0, 1}}, false}} {
		n.Cost[6] = test.cost
		if err := n.RequireFreeDelivery(); (err == nil) != test.ok || err != nil && !strings.Contains(err.Error(), "from bus 5 to bus 6 has a cost") {
			t.Errorf("%+v at the to end: %v", test.cost, err)
		}
	}
}

// What is left out of a file has its value: a voltage of 1 pu, a ratio of 1, no rating. A branch of no impedance has the least one.
func TestDefaultsOfAFile(t *testing.T) {
	c := networktest.Case(t, "case9")
	c.Bus[3].Vm, c.Bus[3].Va, c.Bus[4].Vm = 0, 90, 0.96
	for k, b := range []struct{ r, x float64 }{{0, 0}, {6e-9, 7e-9}, {0, 1e-8}, {1e-8, 0}} {
		c.Branch[k].R, c.Branch[k].X, c.Branch[k].B = b.r, b.x, 0
	}
	c.Branch[5].Tap = 1.05
	n := networktest.Of(t, c)
	if n.Vm0[3] != 1 || n.Vm0[4] != 0.96 || n.Va0[3] != math.Pi/2 || n.Ratio(0) != 1 || n.Ratio(5) != 1.05 {
		t.Errorf("voltages %v at %v, ratios %v and %v", n.Vm0[3:5], n.Va0[3], n.Ratio(0), n.Ratio(5))
	}
	for k, want := range []complex128{1i / 1e-8, 1i / 1e-8, 1i / 1e-8, -1 / 1e-8} { // −y
		if got := complex(n.Gft[k], n.Bft[k]); cmplx.Abs(got-want) > 1e-6*cmplx.Abs(want) {
			t.Errorf("branch %d: %v, want %v", k, got, want)
		}
	}
	if notes := n.Notes(); !slices.Equal(notes, []string{"branches of less impedance than 1e-08 pu, or none, have this reactance: 2"}) {
		t.Errorf("notes %q", notes)
	}
}

// Costs that do not convex, or limits that contradict one another, are refused by generator, and by line where there is one.
func TestCostsAndLimitsThatAreRefused(t *testing.T) {
	for line, want := range map[int]string{0: "network case9, generator 2 at bus 2", 1: "network case9, line 1: generator 2 at bus 2", 12: "network case9, line 12: generator 2 at bus 2"} {
		for _, reactive := range []bool{false, true} {
			c := networktest.Case(t, "case9")
			bad := matpower.Cost{Model: matpower.PiecewiseLinear, Line: line, Points: []matpower.Point{{Power: 0, Cost: 0}, {Power: 1, Cost: 2}, {Power: 2, Cost: 3}}}
			if c.HasReactiveCost = reactive; reactive {
				for g := range c.Gen {
					c.Gen[g].ReactiveCost = c.Gen[g].Cost
				}
				c.Gen[1].ReactiveCost = bad
			} else {
				c.Gen[1].Cost = bad
			}
			if err := networktest.Of(t, c).RequireCosts(); err == nil || !strings.HasPrefix(err.Error(), want+": a piecewise linear cost is not convex") {
				t.Errorf("line %d: %v, want %q", line, err, want)
			}
		}
	}
	c := networktest.Case(t, "case9")
	if n := networktest.Of(t, c); n.RequireCosts() != nil || n.RequireLimits() != nil {
		t.Errorf("case9: %v, %v", n.RequireCosts(), n.RequireLimits())
	}
	c.Gen[1].PMin = c.Gen[1].PMax + 1
	n := networktest.Of(t, c)
	if err := n.RequireLimits(); err == nil || err.Error() != n.RequireCosts().Error() || !strings.Contains(err.Error(), "generator 2 at bus 2") {
		t.Errorf("limits without a value between them: %v", err)
	}
}

// The middle of limits is that of finite ones, and else what is nearest to 0.
func TestMiddleOfLimits(t *testing.T) {
	inf, huge := math.Inf(1), math.MaxFloat64
	for _, c := range [][3]float64{{1, 4, 2.5}, {-inf, inf, 0}, {-inf, -3, -3}, {-inf, 3, 0}, {2, inf, 2}, {-2, inf, 0}, {0, huge, huge / 2}, {-3, -1, -2}} {
		if got := network.Middle(c[0], c[1]); got != c[2] {
			t.Errorf("the middle of %g and %g is %g, want %g", c[0], c[1], got, c[2])
		}
	}
}

// Copies of a network change their own slices: what has other references, set-points, or settings leaves the first as it was.
func TestCopiesOfANetwork(t *testing.T) {
	c := networktest.Case(t, "case14")
	c.Bus[1].Type, c.Bus[5].Type = matpower.PQ, matpower.PQ // with units
	n := networktest.Of(t, c)
	kinds := slices.Clone(n.Kind)
	if kinds[1] != network.PQ || kinds[5] != network.PQ || kinds[2] != network.PV {
		t.Errorf("kinds %v", kinds)
	}
	held, moved := n.WithUnitVoltages(), n.WithReference(2)
	for b := range kinds {
		unit := slices.Contains(n.GenBus, b)
		want := kinds[b]
		if unit && want == network.PQ {
			want = network.PV
		}
		if held.Kind[b] != want {
			t.Errorf("bus %d is %v, with the voltages of units %v", b, kinds[b], held.Kind[b])
		}
		if want = network.PQ; b == 2 {
			want = network.Slack
		} else if unit {
			want = network.PV
		}
		if moved.Kind[b] != want {
			t.Errorf("bus %d is %v with another reference", b, moved.Kind[b])
		}
	}
	if moved.Slack != 2 || !slices.Equal(moved.References, []int{2}) || n.Slack != 0 {
		t.Errorf("slack %d, references %v", moved.Slack, moved.References)
	}
	adjusted := n.Adjusted(map[int]float64{2: 0.95}, map[int]float64{4: 0.3}, map[int]float64{8: 0.7})
	c.Branch[2].Tap, c.Branch[4].ShiftDeg, c.Bus[8].Bs = 0.95, 0.3*180/math.Pi, 70
	want := networktest.Of(t, c)
	for i, part := range adjusted.Parts() {
		for k, v := range part {
			if math.Abs(v-want.Parts()[i][k]) > 1e-12*math.Abs(v) {
				t.Errorf("branch %d has %g, the file's %g", k, v, want.Parts()[i][k])
			}
		}
	}
	if !slices.Equal(adjusted.Bs, want.Bs) || !slices.Equal(n.Kind, kinds) || n.Ratio(2) != 1 || n.Shift(4) != 0 || math.Abs(adjusted.Shift(4)-0.3) > 1e-15 {
		t.Errorf("shunts %v; the first network has ratio %g and shift %g", adjusted.Bs, n.Ratio(2), n.Shift(4))
	}
	pd, qd := n.Loads(0.5)
	for b := range pd {
		if pd[b] != 0.5*n.Pd[b] || qd[b] != 0.5*n.Qd[b] {
			t.Errorf("bus %d: load %g, %g", b, pd[b], qd[b])
		}
	}
	if got := n.MW([]float64{1, 0.5, -0.25}); got != 125 {
		t.Errorf("the sum is %g MW, want 125", got)
	}
}

// Arrays of admittances and flows have one entry a branch each, share none, and an open branch has none left.
func TestArraysByBranch(t *testing.T) {
	y, f := network.NewAdmittance(3), network.NewFlows(3)
	parts := y.Parts()
	for i, part := range append(parts[:], f.Pf, f.Qf, f.Pt, f.Qt) {
		if len(part) != 3 || cap(part) != 3 {
			t.Errorf("part %d holds %d of %d", i, len(part), cap(part))
		}
		for k := range part {
			part[k] = float64(10*i + k + 1)
		}
	}
	y.Open(1)
	for i, part := range [][]float64{y.Gff, y.Bff, y.Gft, y.Bft, y.Gtf, y.Btf, y.Gtt, y.Btt, f.Pf, f.Qf, f.Pt, f.Qt} {
		want := []float64{float64(10*i + 1), 0, float64(10*i + 3)}
		if i >= 8 {
			want[1] = float64(10*i + 2)
		}
		if !slices.Equal(part, want) {
			t.Errorf("part %d is %v, want %v", i, part, want)
		}
	}
}

// Words and names go both ways.
func TestNames(t *testing.T) {
	for k, want := range []string{"PQ", "PV", "slack"} {
		if got := network.Kind(k).String(); got != want {
			t.Errorf("kind %d is %q", k, got)
		}
	}
	for _, d := range []network.Dispatchable{network.DispatchableByFile, network.DispatchablePowerFactor, network.DispatchablePlain} {
		if got, err := network.ParseDispatchable(d.String()); got != d || err != nil {
			t.Errorf("%v is %v, %v", d, got, err)
		}
	}
	if d, err := network.ParseDispatchable("none"); d != 0 || err == nil || !strings.Contains(err.Error(), "want one of file, power-factor, plain") {
		t.Errorf("%v, %v", d, err)
	}
}

// Bounds hold at equality: impedance of a tie, rounding that counts, the largest factor of a branch. The note of dispatchable units
// counts both kinds.
func TestBoundsAtEquality(t *testing.T) {
	n := networktest.Load(t, "case9")
	n.Gft[1], n.Bft[1] = 6e3, -8e3
	if ties := n.Ties(); len(ties) != 0 {
		t.Errorf("an admittance of 1e4 ties %v", ties)
	}
	if n.Bft[1] = -8.1e3; len(n.Ties()) != 1 {
		t.Error("a larger one does not")
	}
	y, out := network.NewAdmittance(n.Branches()), make([]float64, n.Buses())
	y.Gff[0], y.Gtt[0] = 1e-9*0x1p50, 1.0001e-9*0x1p50
	if n.Rounding(y, out); out[n.From[0]] != 0 || math.Abs(out[n.To[0]]/1.0001e-9-1) > 1e-12 {
		t.Errorf("roundings of %g and %g", out[n.From[0]], out[n.To[0]])
	}
	factors := slices.Repeat([]float64{1}, n.Branches())
	factors[3] = math.MaxFloat64
	if err := n.ScaleBranches(factors, y); err != nil {
		t.Error(err)
	}
	c := networktest.Case(t, "case9")
	c.Branch[0].X, c.Branch[0].ShiftDeg = 1e-9, -30 // from bus 1, the reference
	m := networktest.Of(t, c)
	if notes := m.Notes(); len(notes) != 1 || !strings.HasSuffix(notes[0], "have this reactance: 1") || math.Abs(m.StartAngles()[3]-math.Pi/6) > 1e-12 {
		t.Errorf("notes %q, bus 4 begins at %g", notes, m.StartAngles()[3])
	}
	for g, qg := range map[int]float64{1: -10, 2: -9} {
		u := &c.Gen[g]
		u.PMin, u.PMax, u.QMin, u.QMax, u.Pg, u.Qg = -50, 0, -20, 0, -25, qg
	}
	note := require.Get(networktest.Of(t, c).DispatchableNote(network.DispatchableByFile))(t)
	if !strings.HasSuffix(note, ": 1 taken as loads of constant power factor, 1 taken as plain units, whose P and Q are free") {
		t.Errorf("%q", note)
	}
}

// The reach of a branch is met where its two currents are in phase, at the largest magnitudes, above and below 1 pu.
func TestReachIsMet(t *testing.T) {
	n, _ := shifted(t)
	flows := network.NewFlows(n.Branches())
	for i := range 3 * n.Branches() {
		k := i % n.Branches()
		from, to, most := n.From[k], n.To[k], 0.0
		n.VMax[from], n.VMax[to] = []float64{1.1, 0.9, 0.95}[i/n.Branches()], []float64{1.2, 0.95, 0.9}[i/n.Branches()]
		for _, angle := range []float64{
			cmplx.Phase(complex(n.Gft[k], n.Bft[k]) / complex(n.Gff[k], n.Bff[k])), cmplx.Phase(complex(n.Gtt[k], n.Btt[k]) / complex(n.Gtf[k], n.Btf[k])),
		} {
			va := make([]float64, n.Buses())
			va[from] = angle
			n.BranchFlows(&n.Admittance, n.VMax, va, flows)
			f, t := math.Hypot(flows.Pf[k], flows.Qf[k]), math.Hypot(flows.Pt[k], flows.Qt[k])
			most = max(most, f, f/n.VMax[from], t, t/n.VMax[to])
		}
		if !(math.Abs(n.Reach(k)/most-1) < 1e-12) {
			t.Errorf("branch %d: reach %g, met %g", k, n.Reach(k), most)
		}
	}
}
