// Package ppc solves networks from PYPOWER's internal arrays, as other programs have them. All equipment is in
// service, buses are numbered from 0, and branches have the admittances of that program, so that its element models
// need no second implementation.
//
// The central type is Grid. Its arrays have MATPOWER's columns and units (package matpower). Branches also have the four
// entries of their two-port admittance matrix (package network), which need not be those of a π equivalent.
package ppc

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/matpower"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
)

// Columns of the tables of New. The one of costs has any number from 5.
const (
	BusColumns        = 13
	GenColumns        = 21
	BranchColumns     = 13
	AdmittanceColumns = 8 // Gff, Bff, Gft, Bft, Gtf, Btf, Gtt, Btt
)

// Grid is a network of arrays, without the ratings that its voltages cannot reach. Other programs use such ratings
// for no limit, and their squares would drown limits in rounding.
type Grid struct {
	c   *matpower.Case
	net *network.Network
}

// New takes a network: bus numbers 1, 2, … in their order, everything in service, in MVA
// on the base; costs may be empty; admittance has a row of AdmittanceColumns a branch, per
// unit. dc has four numbers a DC line: the rows of gen, from 0, at its ends from and to, and the losses of
// network.DCLine. The arguments are not kept.
func New(name string, baseMVA float64, bus, gen, branch, cost []float64, costColumns int, admittance, dc []float64) (*Grid, error) {
	c, err := matpower.New(name, baseMVA, matpower.Table{Columns: BusColumns, Data: bus}, matpower.Table{Columns: GenColumns, Data: gen},
		matpower.Table{Columns: BranchColumns, Data: branch}, matpower.Table{Columns: max(costColumns, 1), Data: cost}, matpower.Table{}, matpower.Table{})
	if err != nil {
		return nil, err
	}
	n, err := network.New(c)
	if err != nil {
		return nil, err
	}
	switch {
	case n.Buses() != len(c.Bus) || n.Gens() != len(c.Gen) || n.Branches() != len(c.Branch):
		return nil, fmt.Errorf("%s: %d of %d buses, %d of %d generators and %d of %d branches are in service: want all", name,
			n.Buses(), len(c.Bus), n.Gens(), len(c.Gen), n.Branches(), len(c.Branch))
	case len(n.MovedReferences) > 0:
		return nil, fmt.Errorf("%s: %s", name, n.Notes()[0])
	case len(admittance) != AdmittanceColumns*n.Branches():
		return nil, fmt.Errorf("%s: %d admittances for %d branches: want %d each", name, len(admittance), n.Branches(), AdmittanceColumns)
	}
	for r := range slices.Chunk(dc, 4) {
		if len(r) < 4 || !(r[0] >= 0 && r[0] < float64(n.Gens()) && r[1] >= 0 && r[1] < float64(n.Gens()) && r[0] != r[1] && r[3] < 1) {
			return nil, fmt.Errorf("%s: DC line %v: want two rows of generators and its losses", name, r)
		}
		n.DCLines = append(n.DCLines, network.DCLine{From: int(r[0]), To: int(r[1]), Loss0: r[2], Loss1: r[3]})
	}
	g := &Grid{c: c, net: n}
	y := &n.Admittance
	for k := range n.Branches() {
		row := admittance[AdmittanceColumns*k : AdmittanceColumns*(k+1)]
		for i, v := range row {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("%s: admittance %d of branch %d from bus %d to bus %d is %g: want a finite number", name, i+1, k+1, n.BusID[n.From[k]], n.BusID[n.To[k]], v)
			}
		}
		y.Gff[k], y.Bff[k] = row[0], row[1]
		y.Gft[k], y.Bft[k] = row[2], row[3]
		y.Gtf[k], y.Btf[k] = row[4], row[5]
		y.Gtt[k], y.Btt[k] = row[6], row[7]
		if n.Rate[k] > n.Reach(k) {
			n.Rate[k] = math.Inf(1)
		}
	}
	return g, nil
}

// Network is the grid in per unit, whose slices are the grid's own.
func (g *Grid) Network() *network.Network { return g.net }

// Case are the arrays. The impedances of its branches are those of the arrays, not of the admittances.
func (g *Grid) Case() *matpower.Case { return g.c }

// PowerFlow solves the AC power flow, from the arrays' voltages with fromArrays. Otherwise magnitudes start at 1 pu,
// or the set-point of a unit, and angles at those of powerflow.Solver.Angles. It sets Start and Context of opt. reason is a
// sentence where it did not converge.
func (g *Grid) PowerFlow(ctx context.Context, fromArrays bool, opt powerflow.Options) (sol *powerflow.Solution, reason string, err error) {
	n := g.net
	if opt.Slack != nil { // an island has one reference then
		n = n.OneReference()
	}
	s, err := powerflow.New(n)
	if err != nil {
		return nil, "", err
	}
	opt.Start, opt.Context = powerflow.Flat, ctx
	if fromArrays {
		opt.Start = powerflow.FromFile
	}
	sol = s.NewSolution()
	if err := s.Solve(powerflow.Input{}, opt, sol); err != nil {
		return nil, "", err
	}
	return sol, s.Reason(sol), nil
}

// Optimum is the end of OptimalFlow.
type Optimum struct {
	acopf.Result
	Limits acopf.LimitMultipliers // where it is found
}

// Found reports whether there is an optimum.
func (o *Optimum) Found() bool { return o.Status == acopf.Optimal }

// OptimalFlow solves the AC optimal power flow of the arrays' costs and limits, on one thread. With fromArrays it
// starts from the arrays' voltages and generation. Otherwise magnitudes and generation start in the middle of their
// limits and angles at those of powerflow.Solver.Angles.
func (g *Grid) OptimalFlow(ctx context.Context, fromArrays bool, opt acopf.Options) (*Optimum, error) {
	opt.Threads = 1
	s, err := acopf.New(g.net, opt)
	if err != nil {
		return nil, err
	}
	n := g.net
	start := &acopf.Result{Vm: n.Vm0, Va: n.Va0, Pg: n.Pg0, Qg: n.Qg0}
	if !fromArrays {
		flow, err := powerflow.New(n)
		if err != nil {
			return nil, err
		}
		*start = acopf.Result{Vm: middles(n.VMin, n.VMax), Va: flow.Angles(), Pg: middles(n.PMin, n.PMax), Qg: middles(n.QMin, n.QMax)}
	}
	pr := acopf.Problem{Start: start}
	results := make([]acopf.Result, 1)
	if err := s.Solve(ctx, []acopf.Problem{pr}, results); err != nil {
		return nil, err
	}
	out := &Optimum{Result: results[0]}
	if out.Found() {
		out.Limits = s.LimitMultipliers(&pr, &out.Result)
	}
	return out, nil
}

// middles are the middles of limits.
func middles(lo, hi []float64) []float64 {
	out := make([]float64, len(lo))
	for i := range out {
		out[i] = network.Middle(lo[i], hi[i])
	}
	return out
}
