package network_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
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
	p := make([]float64, n.Buses())
	for b := range p {
		p[b] = rng.NormFloat64()
	}
	flow := make([]float64, n.Branches())
	for k, want := range dcFlows(t, n, c, p, -1) {
		flow[k] = d.Offset[k]
		for b, v := range p {
			flow[k] += d.Factor(k, b) * v
		}
		if math.Abs(flow[k]-want) > 1e-9 {
			t.Errorf("branch %d: %v, want %v", k, flow[k], want)
		}
	}
	islands := 0
	for out := range n.Branches() {
		if f := d.OutageFactor(0, out); math.IsNaN(f) || math.Abs(f) > 1e6 {
			islands++
			continue
		}
		for k, want := range dcFlows(t, n, c, p, out) {
			if got := flow[k] + d.OutageFactor(k, out)*flow[out]; k != out && math.Abs(got-want) > 1e-8 {
				t.Errorf("branch %d without %d: %v, want %v", k, out, got, want)
			}
		}
	}
	if islands != 1 { // bus 8 has one branch
		t.Errorf("%d outages leave an island", islands)
	}
}
