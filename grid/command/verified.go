package command

import (
	"context"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/grid/acopf"
	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/results"
)

// violation is the largest violation of a dispatch by a power flow (pu and rad), its limit, and the largest
// difference of the voltages from the optimum, pu.
type violation struct {
	excess     float64
	limit      string
	difference float64
}

// verify solves the power flow of an optimum's dispatch (active power and set-points) at loads in pu from its
// voltages, and measures it against all limits. The reference's first unit takes up the balance. Units at a bus
// share reactive power by their ranges.
func verify(ctx context.Context, n *network.Network, pd, qd []float64, r *acopf.Result) (violation, error) {
	s, err := powerflow.New(n.WithUnitVoltages())
	if err != nil {
		return violation{}, err
	}
	input := powerflow.Input{Pd: pd, Qd: qd, Pg: r.Pg, Vg: make([]float64, n.Gens())}
	for g, bus := range n.GenBus {
		input.Vg[g] = r.Vm[bus]
	}
	sol := s.NewSolution()
	copy(sol.Vm, r.Vm)
	copy(sol.Va, r.Va)
	if err := s.Solve(input, powerflow.Options{Start: powerflow.FromSolution, Context: ctx}, sol); err != nil {
		return violation{}, err
	}
	if !sol.Converged() {
		return violation{}, fmt.Errorf("the power flow of the dispatch: %v", s.Reason(sol))
	}
	v := violation{excess: math.Inf(-1)}
	for b := range sol.Vm {
		v.difference = max(v.difference, math.Abs(sol.Vm[b]-r.Vm[b]))
	}
	p := results.NewPoint(n, sol.Vm, sol.Va, sol.Pg, sol.Qg)
	largest := func(count int, excess func(int) float64, limit func(int) results.Limit) {
		for i := range count {
			if d := excess(i); d > v.excess {
				l := limit(i)
				v.excess, v.limit = d, l.Kind+" at "+l.Where()
			}
		}
	}
	largest(n.Buses(), func(b int) float64 { return n.VMin[b] - sol.Vm[b] }, p.Bus("vmin", n.VMin))
	largest(n.Buses(), func(b int) float64 { return sol.Vm[b] - n.VMax[b] }, p.Bus("vmax", n.VMax))
	largest(n.Gens(), func(g int) float64 { return n.PMin[g] - sol.Pg[g] }, p.Gen("pmin", "MW", p.Pg, n.PMin))
	largest(n.Gens(), func(g int) float64 { return sol.Pg[g] - n.PMax[g] }, p.Gen("pmax", "MW", p.Pg, n.PMax))
	largest(n.Gens(), func(g int) float64 { return n.QMin[g] - sol.Qg[g] }, p.Gen("qmin", "MVAr", p.Qg, n.QMin))
	largest(n.Gens(), func(g int) float64 { return sol.Qg[g] - n.QMax[g] }, p.Gen("qmax", "MVAr", p.Qg, n.QMax))
	largest(n.Branches(), func(k int) float64 { return math.Hypot(p.Flows.Pf[k], p.Flows.Qf[k]) - n.Rate[k] }, p.Flow("from"))
	largest(n.Branches(), func(k int) float64 { return math.Hypot(p.Flows.Pt[k], p.Flows.Qt[k]) - n.Rate[k] }, p.Flow("to"))
	angle := func(k int) float64 { return sol.Va[n.From[k]] - sol.Va[n.To[k]] }
	largest(n.Branches(), func(k int) float64 { return n.AngMin[k] - angle(k) }, p.Angle("angmin", n.AngMin))
	largest(n.Branches(), func(k int) float64 { return angle(k) - n.AngMax[k] }, p.Angle("angmax", n.AngMax))
	if v.excess <= 0 {
		v.excess, v.limit = 0, ""
	}
	return v, nil
}
