package acopf

import "math"

// A warm start has to leave the limits by as much as the optimum moves: with less its first steps
// end at limits that no longer bind, with more the limits that still bind have to be found again.
const (
	warmSlack  = 1e-2 // least slack of a warm start whose problem has moved in ways that are not measured
	leastSlack = 3e-4 // and the least of any
	farSlack   = 5e-2 // and of one from far away
	// warmMultiplier, of the scaled objective, is the least multiplier of a limit at its least slack.
	warmMultiplier = 3e-3
	// From farNet on, the power that all units together have to give more or less as a share of all
	// load, a start is from far away; up to nearNet it is near, and the slacks follow the data.
	nearNet = 2.5e-3
	farNet  = 3e-2
	// Slacks per square of the share of the load that has moved, whichever way, and of its sum.
	slackPerMove = 5
	slackPerNet  = 1500
	// movedLimit is the violation (pu) of a limit at an optimum that says that the limit has moved.
	movedLimit = 1e-6
)

// warmth is the least slack and the least s·z of a warm start, by what the old optimum's balances
// lack at the present loads. They were measured on five networks of 118 to 2869 buses, whose loads
// moved by 0.1 to 10 %, each by itself and all together.
func (w *worker) warmth(l int) (slack, barrier float64) {
	p, m, start := w.plan, w.m, w.lane[l].job.problem.Start
	net, all, load := 0.0, 0.0, 0.0
	for i := range p.nb {
		gp, gq := m.Get(p.gp[i], l), m.Get(p.gq[i], l)
		net += gp
		all += math.Abs(gp) + math.Abs(gq)
		load += math.Abs(m.Get(p.pd[i], l)) + math.Abs(m.Get(p.qd[i], l))
	}
	net, all = math.Abs(net)/load, all/load
	slack = warmSlack
	switch {
	case p.soft > 0 || start.objective != w.lane[l].job.problem.Objective || bad(net) || w.limitsMoved(l):
	case net > farNet:
		slack = farSlack
	case net <= nearNet:
		slack = min(warmSlack, max(leastSlack, slackPerMove*all*all, slackPerNet*net*net))
	}
	return slack, warmMultiplier * slack
}

// limitsMoved says whether a lane's point violates a limit, as an optimum does where limits have
// moved.
func (w *worker) limitsMoved(l int) bool {
	for _, h := range w.plan.h {
		if w.m.Get(h, l) > movedLimit {
			return true
		}
	}
	return false
}
