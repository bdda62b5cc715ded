package results

import (
	"math"
)

// Dispatch is a solution of units and branches, in MW, MVAr and MVA.
type Dispatch struct {
	Gen    []GenOutput  `json:"gen"`
	Branch []BranchFlow `json:"branch"`
}

// NoDispatch is that of no solution: empty lists, not null.
var NoDispatch = Dispatch{[]GenOutput{}, []BranchFlow{}}

// GenOutput is the output of a unit.
type GenOutput struct {
	Gen  int     `json:"gen"`            // row in `mpc.gen`, from 1
	Bus  int     `json:"bus"`            // its number
	Pg   float64 `json:"pg"`             // active power, MW
	Qg   float64 `json:"qg"`             // reactive power, MVAr
	Name string  `json:"name,omitempty"` // of the file; absent where it has none
}

// BranchFlow is what flows through a branch.
type BranchFlow struct {
	Branch int     `json:"branch"`         // row in `mpc.branch`, from 1
	From   int     `json:"from"`           // number of a bus
	To     int     `json:"to"`             // number of a bus
	Pf     float64 `json:"pf_mw"`          // active power into it at `from`
	Qf     float64 `json:"qf_mvar"`        // reactive
	Pt     float64 `json:"pt_mw"`          // active power into it at `to`
	Qt     float64 `json:"qt_mvar"`        // reactive
	Sf     float64 `json:"sf_mva"`         // apparent power at `from`
	St     float64 `json:"st_mva"`         // at `to`
	Rate   float64 `json:"rate_mva"`       // long-term rating; null without
	Name   string  `json:"name,omitempty"` // of the file; absent where it has none
}

// Dispatch converts a solution to the file's units.
func (p Point) Dispatch() Dispatch {
	n, d, flows := p.net, NoDispatch, p.Flows
	for g, b := range n.GenBus {
		d.Gen = append(d.Gen, GenOutput{Gen: n.GenRow[g] + 1, Bus: n.BusID[b], Pg: p.Pg[g] * n.BaseMVA, Qg: p.Qg[g] * n.BaseMVA, Name: n.GenName[g]})
	}
	for k, from := range n.From {
		pf, qf := flows.Pf[k]*n.BaseMVA, flows.Qf[k]*n.BaseMVA
		pt, qt := flows.Pt[k]*n.BaseMVA, flows.Qt[k]*n.BaseMVA
		d.Branch = append(d.Branch, BranchFlow{Branch: n.BranchRow[k] + 1, From: n.BusID[from], To: n.BusID[n.To[k]], Pf: pf, Qf: qf, Pt: pt, Qt: qt,
			Sf: math.Hypot(pf, qf), St: math.Hypot(pt, qt), Rate: n.Rate[k] * n.BaseMVA, Name: n.BranchName[k]})
	}
	return d
}

// Loss is the loss of all branches, MW.
func (d *Dispatch) Loss() float64 {
	loss := 0.0
	for _, b := range d.Branch {
		loss += b.Pf + b.Pt
	}
	return loss
}
