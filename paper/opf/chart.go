package opf

import (
	"math"
	"slices"
	"strconv"

	"github.com/gpc-engine/gpc/domain"
)

// Chart is domain.ProblemAbilities.Chart.
func (y *System) Chart() *domain.Chart { return y.chart() }

func (y *System) newChart() *domain.Chart {
	n := y.Network
	chart := &domain.Chart{BaseMVA: n.BaseMVA}
	for i, id := range n.BusID {
		chart.Buses = append(chart.Buses, domain.ChartBus{Name: strconv.Itoa(id), VMin: n.VMin[i], VMax: n.VMax[i], Reference: i == n.Slack})
	}
	for k, f := range n.From {
		chart.Branches = append(chart.Branches, domain.ChartBranch{From: f, To: n.To[k], Rate: n.Rate[k], Open: slices.Contains(y.opened, k)})
	}
	for g, b := range n.GenBus {
		chart.Units = append(chart.Units, domain.ChartUnit{Bus: b, PMin: n.PMin[g], PMax: n.PMax[g], QMin: n.QMin[g], QMax: n.QMax[g]})
	}
	return chart
}

// Operate is domain.ProblemAbilities.Chart: the power flow that Margins are of.
func (y *System) Operate(s, c, u []float64) (*domain.OperatingPoint, bool) {
	w := y.pool.Get().(*workspace)
	defer y.pool.Put(w)
	if !w.dispatch(s, c, u) {
		return nil, false
	}
	p := &domain.OperatingPoint{
		V: slices.Clone(w.solution.Vm), Angle: slices.Clone(w.solution.Va), Pd: slices.Clone(w.pd), Qd: slices.Clone(w.qd),
		P: slices.Clone(w.flows.Pf), S: make([]float64, len(w.flows.Pf)), Pg: slices.Clone(w.solution.Pg), Qg: slices.Clone(w.solution.Qg),
	}
	for k := range p.S {
		p.S[k] = math.Max(math.Hypot(w.flows.Pf[k], w.flows.Qf[k]), math.Hypot(w.flows.Pt[k], w.flows.Qt[k]))
	}
	return p, true
}
