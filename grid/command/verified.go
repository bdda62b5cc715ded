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
	var v violation
	for b := range sol.Vm {
		v.difference = max(v.difference, math.Abs(sol.Vm[b]-r.Vm[b]))
	}
	v.excess, v.limit = results.NewPoint(n, sol.Vm, sol.Va, sol.Pg, sol.Qg).Worst()
	return v, nil
}
