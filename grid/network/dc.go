package network

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/internal/elimination"
	"github.com/gpc-engine/gpc/grid/internal/multifrontal"
)

// DC is the linear model of a network: magnitudes are 1 pu, and nothing is lost. The active power into a branch is its
// Coupling times the difference of the angles at its ends less its phase shift. References, those of each island its own,
// take out all injected power at the file's angles. Methods may be called by several goroutines at once.
type DC struct {
	net    *Network
	weight []float64 // coupling, by branch
	place  []int     // of a bus among the unknown angles; −1 at a reference
	factor *multifrontal.Factor
	bridge []bool
}

// NewDC factors the susceptances of a network.
func NewDC(n *Network) (*DC, error) {
	d := &DC{net: n, weight: make([]float64, n.Branches()), place: make([]int, n.Buses()), bridge: n.Bridges()}
	order := elimination.MinimumDegree(n.Buses(), n.Edges(), n.References)
	unknown := n.Buses() - len(n.References)
	for b := range d.place {
		if d.place[b] = order.Position[b]; n.Kind[b] == Slack {
			d.place[b] = -1
		}
	}
	size, pattern := make([]int, unknown), make([][]int, unknown)
	row, col, values := make([]int32, unknown), make([]int32, unknown), make([]float64, unknown)
	entry := map[[2]int]int{}
	for k := range unknown {
		size[k], row[k], col[k] = 1, int32(k), int32(k)
		for _, i := range order.Below[k] {
			if i < unknown {
				pattern[k] = append(pattern[k], i)
			}
		}
	}
	for k, start := range n.From {
		w := n.Coupling(k)
		if math.IsInf(w, 0) {
			return nil, fmt.Errorf("network %s, branch %d from bus %d to bus %d: its reactance is 0, and a linear power flow needs one", n.Name, n.BranchRow[k]+1, n.BusID[start], n.BusID[n.To[k]])
		}
		d.weight[k] = w
		i, j := max(d.place[start], d.place[n.To[k]]), min(d.place[start], d.place[n.To[k]])
		if i >= 0 {
			values[i] += w
		}
		if j < 0 {
			continue
		}
		values[j] += w
		e, ok := entry[[2]int{i, j}]
		if !ok {
			e, entry[[2]int{i, j}] = len(row), len(row)
			row, col, values = append(row, int32(i)), append(col, int32(j)), append(values, 0)
		}
		values[e] -= w
	}
	d.factor = multifrontal.NewFactor(multifrontal.Analyse(size, 1, pattern, row, col))
	if d.factor.Factor(values, nil); d.factor.Zero > 0 {
		return nil, fmt.Errorf("network %s: its linear model has no unique power flow: reactances cancel one another", n.Name)
	}
	return d, nil
}

// Edges are the pairs of buses that branches connect.
func (n *Network) Edges() [][2]int {
	edges := make([][2]int, n.Branches())
	for k, start := range n.From {
		edges[k] = [2]int{start, n.To[k]}
	}
	return edges
}

// angles solves for the angles by bus of powers injected at buses; 0 at references.
func (d *DC) angles(p []float64) []float64 {
	x, va := make([]float64, len(p)-len(d.net.References)), make([]float64, len(p))
	for b, k := range d.place {
		if k >= 0 {
			x[k] = p[b]
		}
	}
	d.factor.Solve(x)
	for b, k := range d.place {
		if k >= 0 {
			va[b] = x[k]
		}
	}
	return va
}

// Solve finds the angles (rad) by bus and the flows by branch of powers injected at buses, pu.
func (d *DC) Solve(p []float64) (va, flow []float64) {
	p = slices.Clone(p)
	d.InjectFixed(p)
	va = d.angles(p)
	for b := range va {
		va[b] += d.net.FixedAngle(b)
	}
	return va, d.Flows(va)
}

// InjectFixed adds what phase shifters and the references' angles inject at buses.
func (d *DC) InjectFixed(p []float64) {
	n := d.net
	for k, start := range n.From {
		flow := d.weight[k] * (n.FixedAngle(start) - n.FixedAngle(n.To[k]) - n.Shift(k))
		p[start] -= flow
		p[n.To[k]] += flow
	}
}

// FixedAngle is the angle of a reference; 0 elsewhere.
func (n *Network) FixedAngle(bus int) float64 {
	if n.Kind[bus] == Slack {
		return n.Va0[bus]
	}
	return 0
}

// Flows are the active powers into branches at angles by bus.
func (d *DC) Flows(va []float64) []float64 {
	flow := make([]float64, len(d.weight))
	for k, start := range d.net.From {
		flow[k] = d.weight[k] * (va[start] - va[d.net.To[k]] - d.net.Shift(k))
	}
	return flow
}

// Balanced are the powers injected at buses when units give pg and loads and shunts take what they do at 1 pu.
func (n *Network) Balanced(pd, pg []float64) []float64 {
	p := make([]float64, n.Buses())
	for b := range p {
		p[b] = -pd[b] - n.Gs[b]
	}
	for g, b := range n.GenBus {
		p[b] += pg[g]
	}
	return p
}

// pair is the change of the angles by bus for a unit of power from one bus to another.
func (d *DC) pair(start, end int) (va []float64) {
	p := make([]float64, d.net.Buses())
	p[start]++
	p[end]--
	return d.angles(p)
}

// BranchFactors are the power transfer distribution factors of a branch, by bus: its flow for a unit injected there.
func (d *DC) BranchFactors(branch int) []float64 {
	row := d.pair(d.net.From[branch], d.net.To[branch])
	for b := range row {
		row[b] *= d.weight[branch]
	}
	return row
}

// BusFactors are the power transfer distribution factors of a bus, by branch.
func (d *DC) BusFactors(bus int) []float64 {
	p := make([]float64, d.net.Buses())
	p[bus] = 1
	return d.unshifted(d.angles(p))
}

func (d *DC) unshifted(va []float64) []float64 {
	flow := make([]float64, len(d.weight))
	for k, start := range d.net.From {
		flow[k] = d.weight[k] * (va[start] - va[d.net.To[k]])
	}
	return flow
}

// OutageFactors are the line outage distribution factors of a branch: the share of its flow that each branch carries
// without it, −1 for itself. They are NaN where that leaves an island.
func (d *DC) OutageFactors(out int) []float64 {
	flow := d.unshifted(d.pair(d.net.From[out], d.net.To[out]))
	rest := 1 - flow[out]
	if d.bridge[out] {
		rest = math.NaN()
	}
	for k := range flow {
		flow[k] /= rest
	}
	flow[out] = -1
	return flow
}
