package network

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// DC is the linear model of a network: the active power into branch k is
//
//	f_k = Σ_b Factor(k, b)·p_b + Offset[k]
//
// for powers p injected at buses, with magnitudes of 1 pu and without losses. The first reference bus takes out all
// injected power.
type DC struct {
	Offset  []float64 // of phase shifters, pu
	buses   int
	factors []float64 // a row a branch
	from    []int
	to      []int
}

// NewDC analyses a network of one island.
func NewDC(n *Network) (*DC, error) {
	nb, nl := n.Buses(), n.Branches()
	row := make([]int, nb) // row of a bus in the reduced matrix
	next := 0
	for b := range row {
		if row[b] = -1; b != n.Slack {
			row[b] = next
			next++
		}
	}
	weight, shift := make([]float64, nl), make([]float64, nl)
	matrix := mat.NewSymDense(next, nil)
	add := func(i, j int, v float64) {
		if i >= 0 && j >= 0 {
			matrix.SetSym(i, j, matrix.At(i, j)+v)
		}
	}
	for k, f := range n.From {
		weight[k], shift[k] = n.Coupling(k), n.Shift(k)
		i, j := row[f], row[n.To[k]]
		add(i, i, weight[k])
		add(j, j, weight[k])
		add(i, j, -weight[k])
	}
	var lu mat.LU
	lu.Factorize(matrix)
	var inverse mat.Dense
	if err := lu.SolveTo(&inverse, false, mat.NewDiagDense(next, slices.Repeat([]float64{1}, next))); err != nil {
		return nil, fmt.Errorf("network %s: its linear model has no unique power flow: %w", n.Name, err)
	}
	d := &DC{Offset: make([]float64, nl), buses: nb, factors: make([]float64, nl*nb), from: n.From, to: n.To}
	entry := func(i, j int) float64 {
		if i < 0 || j < 0 {
			return 0
		}
		return inverse.At(i, j)
	}
	for k := range nl {
		for b := range nb {
			d.factors[k*nb+b] = weight[k] * (entry(row[n.From[k]], row[b]) - entry(row[n.To[k]], row[b]))
		}
	}
	for k := range nl { // a phase shifter injects at its ends
		for m, v := range shift {
			d.Offset[k] += weight[m] * v * d.pairFactor(k, m)
		}
		d.Offset[k] -= weight[k] * shift[k]
	}
	return d, nil
}

// Factor is the power transfer distribution factor of a branch and a bus.
func (d *DC) Factor(branch, bus int) float64 { return d.factors[branch*d.buses+bus] }

// pairFactor is the flow in branch k of a unit of power from one end of branch m to the other.
func (d *DC) pairFactor(k, m int) float64 { return d.Factor(k, d.from[m]) - d.Factor(k, d.to[m]) }

// OutageFactor is the line outage distribution factor: the share of branch m's flow that branch k carries when m is
// out. It is not finite where that leaves an island.
func (d *DC) OutageFactor(k, m int) float64 { return d.pairFactor(k, m) / (1 - d.pairFactor(m, m)) }
