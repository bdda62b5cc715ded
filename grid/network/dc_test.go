package network_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/networktest"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// dcFlows are those of the file's own reactances, taps and shifts by angles, without a branch; −1: all of them.
func dcFlows(t *testing.T, n *network.Network, c *matpower.Case, p []float64, without int) []float64 {
	t.Helper()
	nb := n.Buses()
	matrix, right := mat.NewDense(nb, nb, nil), mat.NewVecDense(nb, append([]float64(nil), p...))
	weight, shift := make([]float64, n.Branches()), make([]float64, n.Branches())
	for k, f := range n.From {
		b := c.Branch[n.BranchRow[k]]
		tap := b.Tap
		if tap == 0 {
			tap = 1
		}
		if weight[k], shift[k] = 1/(b.X*tap), b.ShiftDeg*math.Pi/180; k == without {
			weight[k] = 0
		}
		to := n.To[k]
		for _, e := range [4]struct {
			i, j int
			v    float64
		}{{f, f, 1}, {to, to, 1}, {f, to, -1}, {to, f, -1}} {
			matrix.Set(e.i, e.j, matrix.At(e.i, e.j)+e.v*weight[k])
		}
		right.SetVec(f, right.AtVec(f)+weight[k]*shift[k])
		right.SetVec(to, right.AtVec(to)-weight[k]*shift[k])
	}
	for j := range nb {
		matrix.Set(n.Slack, j, 0)
	}
	matrix.Set(n.Slack, n.Slack, 1)
	right.SetVec(n.Slack, 0)
	var angle mat.VecDense
	require.OK(t, angle.SolveVec(matrix, right))
	flows := make([]float64, n.Branches())
	for k, f := range n.From {
		flows[k] = weight[k] * (angle.AtVec(f) - angle.AtVec(n.To[k]) - shift[k])
	}
	return flows
}

// Distribution factors give the flows of the linear model, before and after the outage of a branch.
func TestDistributionFactorsAreOfTheLinearModel(t *testing.T) {
	n, c := shifted(t)
	d := require.Get(network.NewDC(n))(t)
	rng := rand.New(rand.NewPCG(7, 7))
	p, zero := make([]float64, n.Buses()), make([]float64, n.Buses())
	for b := range p {
		p[b] = rng.NormFloat64()
	}
	_, flow := d.Solve(p)
	_, offset := d.Solve(zero)
	for k, want := range dcFlows(t, n, c, p, -1) {
		sum := offset[k]
		for b, v := range p {
			sum += d.BranchFactors(k)[b] * v
			if bus := d.BusFactors(b)[k]; math.Abs(bus-d.BranchFactors(k)[b]) > 1e-12 {
				t.Errorf("branch %d, bus %d: %v by bus", k, b, bus)
			}
		}
		if math.Abs(flow[k]-want) > 1e-9 || math.Abs(sum-want) > 1e-9 {
			t.Errorf("branch %d: %v and %v, want %v", k, flow[k], sum, want)
		}
	}
	islands := 0
	for out := range n.Branches() {
		factors := d.OutageFactors(out)
		if math.IsNaN(factors[(out+1)%len(factors)]) {
			islands++
			continue
		}
		for k, want := range dcFlows(t, n, c, p, out) {
			if got := flow[k] + factors[k]*flow[out]; math.Abs(got-want) > 1e-8 {
				t.Errorf("branch %d without %d: %v, want %v", k, out, got, want)
			}
		}
	}
	if islands != 1 { // bus 8 has one branch
		t.Errorf("%d outages leave an island", islands)
	}
}

// Each island has its own reference, at the file's angle; power injected in one does not flow in the other.
func TestIslandsOfTheLinearModel(t *testing.T) {
	c := networktest.Case(t, "case14")
	for i := range c.Branch {
		b := &c.Branch[i] // buses 6, 11, 12 and 13 on their own
		inner := func(bus int) bool { return bus == 6 || bus >= 11 && bus <= 13 }
		b.InService = inner(b.From) == inner(b.To)
	}
	c.Bus[5].Type, c.Bus[5].Va = matpower.Reference, 20
	n := networktest.Of(t, c)
	d := require.Get(network.NewDC(n))(t)
	va, flow := d.Solve(n.Balanced(n.Pd, n.Pg0))
	into := 0.0
	for k, f := range flow {
		if n.BusID[n.From[k]] == 6 {
			into += f
		}
		if crosses := d.BusFactors(12)[k] != 0; crosses != (n.From[k] == 5 && n.To[k] != 10 || n.From[k] == 11) {
			t.Errorf("branch %d: a power at bus 13 flows %v", k, d.BusFactors(12)[k])
		}
	}
	if want := n.Pd[10] + n.Pd[11] + n.Pd[12]; math.Abs(into-want) > 1e-12 || math.Abs(va[5]-20*math.Pi/180) > 1e-15 {
		t.Errorf("%v pu flow from bus 6 at %v rad, want %v", into, va[5], want)
	}
	c.Branch[0].X = 0
	c.Branch[0].R = 0.01
	if _, err := network.NewDC(networktest.Of(t, c)); err == nil || !strings.Contains(err.Error(), "branch 1 from bus 1 to bus 2") {
		t.Errorf("no reactance: %v", err)
	}
}

// Reactances that cancel one another leave no unique flow, wherever they are; such of one sign do.
func TestReactancesThatCancelAreRefused(t *testing.T) {
	for _, factor := range []float64{-1, 1} {
		c := networktest.Case(t, "case9")
		double := c.Branch[6] // from bus 8 to bus 2, which has no other
		double.X *= factor
		c.Branch[6].R, double.R = 0, 0
		c.Branch = append(c.Branch, double)
		_, err := network.NewDC(networktest.Of(t, c))
		if factor > 0 && err != nil || factor < 0 && (err == nil || !strings.Contains(err.Error(), "no unique power flow")) {
			t.Errorf("reactances of a ratio of %g: %v", factor, err)
		}
	}
}

// A flat start has the reference's angle at every bus, but behind the shift of a vector group, which it follows in either direction.
func TestStartAnglesFollowVectorGroups(t *testing.T) {
	for _, shift := range []float64{0, 10, -20, 30, -30, 150} {
		c := networktest.Case(t, "case9")
		c.Bus[0].Va = 5
		c.Branch[0].ShiftDeg = shift            // from bus 1, the reference, to bus 4
		c.Branch[6].ShiftDeg = shift / 10       // from bus 8 to bus 2
		c.Branch[3].From, c.Branch[3].To = 6, 3 // from bus 6 to bus 3
		c.Branch[3].ShiftDeg = -shift
		n := networktest.Of(t, c)
		if math.Abs(shift) < 30 {
			shift = 0
		}
		for b, got := range n.StartAngles() {
			want := 5 - shift
			switch n.BusID[b] {
			case 1:
				want = 5
			case 2:
				want -= shift / 10
			case 3:
				want += shift
			}
			if math.Abs(got*180/math.Pi-want) > 1e-9 {
				t.Errorf("a shift of %g°: bus %d begins at %g°, want %g°", shift, n.BusID[b], got*180/math.Pi, want)
			}
		}
	}
}

// Rounding is four units in the last place of a bus's admittances, and nothing where these are usual.
func TestRoundingGrowsWithTheAdmittances(t *testing.T) {
	n := networktest.Load(t, "case9")
	out := make([]float64, n.Buses())
	for b, v := range n.Rounding(&n.Admittance, out) {
		if v != 0 {
			t.Errorf("bus %d: %g", b, v)
		}
	}
	y := network.NewAdmittance(n.Branches())
	y.Gff[2], y.Bff[2], y.Gft[2], y.Bft[2] = 3e7, 4e7, 0, -5e7
	y.Gtt[2], y.Btt[2], y.Gtf[2], y.Btf[2] = 6e7, -8e7, 5e7, 12e7
	for b, v := range n.Rounding(y, out) {
		want := 0.0
		switch b {
		case n.From[2]:
			want = 4 * 0x1p-52 * 10e7
		case n.To[2]:
			want = 4 * 0x1p-52 * 23e7
		}
		if math.Abs(v-want) > 1e-12*want {
			t.Errorf("bus %d: %g, want %g", b, v, want)
		}
	}
}

// Slopes may fall within the rounding of a file, relative to their size, and no more.
func TestConvexityIsWithinTheRoundingOfAFile(t *testing.T) {
	for _, c := range []struct {
		slope, fall float64
		want        bool
	}{{1e6, 5e-4, true}, {1e6, 5e-3, false}, {0.5, 5e-10, true}, {0.5, 5e-9, false}, {-1e6, 5e-4, true}, {-1e6, 5e-3, false}, {1, -1, true}} {
		cost := network.Cost{Power: []float64{0, 1, 2}, Value: []float64{0, c.slope, 2*c.slope - c.fall}}
		if got := cost.Convex(); got != c.want {
			t.Errorf("a slope of %g that falls by %g is convex: %v", c.slope, c.fall, got)
		}
	}
	if !(network.Cost{}).Convex() {
		t.Error("a polynomial is not taken as it is")
	}
}
