package results

import (
	"cmp"
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc/grid/network"
	"github.com/gpc-engine/gpc/grid/powerflow"
	"github.com/gpc-engine/gpc/grid/secure"
)

// Chance is how often a dispatch, and the secure one of the same loads, break a limit over scenarios, without an outage or after
// one. The probabilities are of every third scenario, which no limit is tightened by.
type Chance struct {
	Level      float64  `json:"violations"`       // share of scenarios that may break a limit
	Scenarios  int      `json:"scenarios"`        // that the probabilities are of
	Rounds     int      `json:"rounds"`           // of tightening
	Risk       Risk     `json:"risk"`             // of this dispatch
	Secure     Risk     `json:"secure"`           // of the secure dispatch
	Objective  float64  `json:"secure_objective"` // its cost, $/h
	Tightening []Broken `json:"tightening"`       // limits, and by how much they are tighter; the value is of this dispatch
}

// need is by how much a scenario needs a limit of securityWatch tighter, pu.
type need struct {
	limit  int
	amount float64
}

// maxTightenings bounds the rounds of SecureChance.
const maxTightenings = 20

// SecureChance is a secure dispatch that breaks limits in about a share of scenarios. Each round solves with limits
// tighter by the most that any of a third of the scenarios needs. The worst are left out, half of that share. Where another third
// breaks limits more often, all are tightened by a tenth more. Its loads are the first, before three scenarios or more. Without a dispatch the secure
// result is nil. The options name outages, the emergency factor and the units' participation.
func SecureChance(ctx context.Context, n *network.Network, opt secure.Options, loads []secure.Problem, level float64) (*SecureFlow, *secure.Result, error) {
	y, w := &Chance{Level: level, Tightening: []Broken{}}, newSecurityWatch(n, nil)
	amounts, more := make([]float64, w.count()), []float64(nil)
	var first, r *secure.Result
	var out *SecureFlow
	for {
		s, err := secure.New(w.tightening(amounts), opt)
		if err == nil {
			r, err = s.Solve(ctx, loads[0])
		}
		if err != nil {
			return nil, nil, err
		}
		first, out = cmp.Or(first, r), Secure(n, s, opt, loads[0], r)
		if out.Chance, y.Objective = y, first.Objective; r.Status != secure.Secure {
			if y.Rounds > 0 {
				out.Reason = "with the limits that scenarios tighten: " + out.Reason
			}
			return out, nil, nil
		}
		third, err := chanceOf(ctx, n, opt, r, loads[1:])
		if err != nil {
			return nil, nil, err
		}
		slices.SortStableFunc(third.needs, func(a, b []need) int { return cmp.Compare(w.worst(b), w.worst(a)) })
		more = make([]float64, len(amounts))
		for _, list := range third.needs[int(level*float64(len(third.needs))/2):] {
			for _, x := range list {
				more[x.limit] = max(more[x.limit], x.amount)
			}
		}
		if slices.Max(more) == 0 {
			if third, err = chanceOf(ctx, n, opt, r, loads[2:]); err != nil {
				return nil, nil, err
			}
			if third.Either.Probability > level {
				floats.AddScaled(more, 0.1, amounts)
			}
		}
		if y.Rounds == maxTightenings || slices.Max(more) == 0 {
			break
		}
		y.Rounds++
		floats.Add(amounts, more)
	}
	w.p = NewPoint(n, r.Vm, r.Va, r.Pg, r.Qg)
	for k, amount := range amounts {
		if amount > 0 {
			y.Tightening = append(y.Tightening, w.broken(k, amount))
		}
	}
	preventive, err := chanceOf(ctx, n, opt, first, loads[3:])
	if err != nil {
		return nil, nil, err
	}
	fresh := preventive
	if r != first {
		fresh, err = chanceOf(ctx, n, opt, r, loads[3:])
	}
	if err == nil {
		y.Scenarios, y.Risk, y.Secure = fresh.Scenarios, fresh.Either, preventive.Either
	}
	return out, r, err
}

// chanceOf is how often a dispatch breaks limits over every third of these scenarios, and what they need.
func chanceOf(ctx context.Context, n *network.Network, opt secure.Options, r *secure.Result, loads []secure.Problem) (*Scenarios, error) {
	var pd, qd [][]float64
	for k := 0; k < len(loads); k += 3 {
		pd, qd = append(pd, loads[k].Pd), append(qd, loads[k].Qd)
	}
	pr := FlowProblem{Options: powerflow.Options{EnforceQ: true, Slack: NewSlack(n, false, opt.Participation)}, Vm: r.Vm, Va: r.Va}
	pr.Pg, pr.Vg = r.Pg, make([]float64, n.Gens())
	for g, b := range n.GenBus {
		pr.Vg[g] = r.Vm[b]
	}
	return AfterScenarios(ctx, n.WithUnitVoltages(), pr, SecurityOptions{List: opt.Outages, Emergency: opt.Emergency, Band: opt.Band, ShareMissing: true,
		Participation: opt.Participation, Threads: opt.Threads, needs: true}, Rows(pd, qd))
}

// needs are by how much the limits before an outage have to be tighter for a scenario.
func (w *securityWatch) needs(run *securityRun) (list []need) {
	first := 2 * w.n.Buses()
	for k, x := range w.extreme {
		if x <= run.threshold[k] {
			x = 0
		}
		if row := k - first; row >= 0 && row < 2*w.n.Branches() {
			x /= run.opt.Emergency
		}
		if x = max(x, run.baseExcess[k]); x > minViolation {
			list = append(list, need{k, x})
		}
	}
	return list
}

// worst is the largest severity of what a scenario needs.
func (w *securityWatch) worst(list []need) (severity float64) {
	for _, x := range list {
		severity = max(severity, w.severity(x.limit, x.amount))
	}
	return severity
}

// tightening is the network with tighter limits, pu. The limits of a value never cross.
func (w *securityWatch) tightening(amounts []float64) *network.Network {
	n := *w.n
	pair := func(low, high *[]float64, amounts []float64) {
		*low, *high = slices.Clone(*low), slices.Clone(*high)
		for i := range *low {
			l, h := (*low)[i]+amounts[i], (*high)[i]-amounts[len(*low)+i]
			if l > h {
				l, h = (l+h)/2, (l+h)/2
			}
			(*low)[i], (*high)[i] = l, h
		}
	}
	nb, nl, ng := n.Buses(), n.Branches(), n.Gens()
	branches, units := amounts[2*nb:], amounts[2*(nb+nl):]
	pair(&n.VMin, &n.VMax, amounts)
	pair(&n.PMin, &n.PMax, units)
	pair(&n.QMin, &n.QMax, units[2*ng:])
	n.Rate = slices.Clone(n.Rate)
	for k, rate := range n.Rate {
		n.Rate[k] = max(rate-max(branches[k], branches[nl+k]), rate/100)
	}
	return &n
}
