package results

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/secure"
)

// NewSlack shares the balance of a power flow by headroom, by factors of units, or for nil by their ranges.
func NewSlack(n *network.Network, headroom bool, factors []float64) *powerflow.Slack {
	if headroom {
		return &powerflow.Slack{}
	}
	if factors == nil {
		factors = floats.SubTo(make([]float64, n.Gens()), n.PMax, n.PMin)
	}
	return &powerflow.Slack{Shares: factors}
}

// shareOutages checks the outages after which units share the missing power, and returns the indices of the others.
func (y *securityRun) shareOutages(ctx context.Context, w *securityWatch) (remaining []int, err error) {
	var list []secure.Outage
	var positions []int
	for i, o := range y.list {
		if o.Branch >= 0 && y.workers[0].scalar.Bridge(o.Branch) {
			remaining = append(remaining, i)
			continue
		}
		list, positions = append(list, o), append(positions, i)
	}
	if len(list) == 0 {
		return remaining, nil
	}
	n := *y.n
	n.Cost, n.ReactiveCost = make([]network.Cost, n.Gens()), nil // a check asks for none
	if y.check == nil {
		y.check, err = secure.New(&n, secure.Options{Outages: list, Emergency: 1, Participation: y.opt.Participation, Threads: y.opt.Threads, Dispatchable: network.DispatchablePlain})
		if err != nil {
			return nil, err
		}
	}
	checks, err := y.check.Check(ctx, y.input.Pd, y.input.Qd, y.base.Pg, y.base.Vm, y.base.Va)
	if err != nil {
		return nil, err
	}
	for k, c := range checks {
		y.recordCheck(positions[k], c, w)
	}
	return remaining, nil
}

// recordCheck writes the result of an outage after which units share the missing power.
func (y *securityRun) recordCheck(i int, c *secure.Check, w *securityWatch) {
	defer y.reportProgress()
	r := &y.out.Outages[i]
	*r = newAfterOutage(y.outage(i))
	r.Converged, r.Reason = c.Solved, c.Reason
	if c.Solved {
		vm, va := c.Voltages()
		w.branches, _ = c.Elements()
		y.measure(i, w, &powerflow.Solution{Vm: vm, Va: va}, nil, nil)
	}
}
