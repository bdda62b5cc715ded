package command

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/grid/network"
)

// dispatch is what both commands print of units and branches, in MW, MVAr and MVA.
type dispatch struct {
	Gen    []genOutput  `json:"gen"`
	Branch []branchFlow `json:"branch"`
}

// noDispatch is that of no solution: empty lists, not null.
var noDispatch = dispatch{[]genOutput{}, []branchFlow{}}

type genOutput struct {
	Gen int     `json:"gen"` // row in `mpc.gen`, from 1
	Bus int     `json:"bus"` // its number
	Pg  float64 `json:"pg"`  // active power, MW
	Qg  float64 `json:"qg"`  // reactive power, MVAr
}

type branchFlow struct {
	Branch int     `json:"branch"`   // row in `mpc.branch`, from 1
	From   int     `json:"from"`     // number of a bus
	To     int     `json:"to"`       // number of a bus
	Pf     float64 `json:"pf_mw"`    // active power into it at `from`
	Qf     float64 `json:"qf_mvar"`  // reactive
	Pt     float64 `json:"pt_mw"`    // active power into it at `to`
	Qt     float64 `json:"qt_mvar"`  // reactive
	Sf     float64 `json:"sf_mva"`   // apparent power at `from`
	St     float64 `json:"st_mva"`   // at `to`
	Rate   float64 `json:"rate_mva"` // long-term rating; null without
}

// newDispatch puts a solution, pu and rad, in the file's units.
func newDispatch(n *network.Network, vm, va, pg, qg []float64) dispatch {
	d := noDispatch
	for g, b := range n.GenBus {
		d.Gen = append(d.Gen, genOutput{Gen: n.GenRow[g] + 1, Bus: n.BusID[b], Pg: pg[g] * n.BaseMVA, Qg: qg[g] * n.BaseMVA})
	}
	flows := network.NewFlows(n.Branches())
	n.BranchFlows(&n.Admittance, vm, va, flows)
	for k, from := range n.From {
		pf, qf, pt, qt := flows.Pf[k]*n.BaseMVA, flows.Qf[k]*n.BaseMVA, flows.Pt[k]*n.BaseMVA, flows.Qt[k]*n.BaseMVA
		d.Branch = append(d.Branch, branchFlow{Branch: n.BranchRow[k] + 1, From: n.BusID[from], To: n.BusID[n.To[k]], Pf: pf, Qf: qf, Pt: pt, Qt: qt,
			Sf: math.Hypot(pf, qf), St: math.Hypot(pt, qt), Rate: n.Rate[k] * n.BaseMVA})
	}
	return d
}

// loss is that of all branches, MW.
func (d *dispatch) loss() float64 {
	loss := 0.0
	for _, b := range d.Branch {
		loss += b.Pf + b.Pt
	}
	return loss
}

// tables writes those of the buses, of the units and of the branches, each after a
// blank line.
func (d *dispatch) tables(w io.Writer, buses [][]string) {
	gens := [][]string{{"unit", "bus", "P MW", "Q MVAr"}}
	for _, g := range d.Gen {
		gens = append(gens, []string{strconv.Itoa(g.Gen), strconv.Itoa(g.Bus), fmt.Sprintf("%.2f", g.Pg), fmt.Sprintf("%.2f", g.Qg)})
	}
	branches := [][]string{{"branch", "from", "to", "P from MW", "Q from MVAr", "P to MW", "Q to MVAr", "S from MVA", "S to MVA", "rating MVA", "loaded %"}}
	for _, b := range d.Branch {
		row := []string{strconv.Itoa(b.Branch), strconv.Itoa(b.From), strconv.Itoa(b.To)}
		for _, power := range []float64{b.Pf, b.Qf, b.Pt, b.Qt, b.Sf, b.St} {
			row = append(row, fmt.Sprintf("%.2f", power))
		}
		rating, loaded := "-", "-"
		if !math.IsInf(b.Rate, 1) {
			rating, loaded = fmt.Sprintf("%g", b.Rate), fmt.Sprintf("%.1f", 100*max(b.Sf, b.St)/b.Rate)
		}
		branches = append(branches, append(row, rating, loaded))
	}
	for _, rows := range [][][]string{buses, gens, branches} {
		fmt.Fprintln(w)
		cli.Table(w, rows)
	}
}
