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
