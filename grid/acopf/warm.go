package acopf

import "math"

// A warm start has to leave the limits by as much as the optimum moves: with less its first steps
// end at limits that no longer bind, with more the limits that still bind have to be found again.
const (
	warmSlack  = 1e-2 // least slack of a warm start whose problem has moved in ways that are not measured
	leastSlack = 3e-5 // and the least of any
	farSlack   = 5e-2 // and of one from far away
	// warmMultiplier, of the scaled objective, is the least multiplier of a limit at its least slack.
	warmMultiplier = 3e-3
	// From farNet on, the power that all units together have to give more or less as a share of all
	// load, a start is from far away; up to nearNet it is near, and the slacks follow the data.
	nearNet = 2.5e-3
	farNet  = 3e-2
	// A start is near enough for a prediction up to nearMoved of all load that has moved, whichever way.
	nearMoved = 0.01
	// Slacks per square of the share of the load that has moved, whichever way, and of its sum.
	slackPerMove = 5
	slackPerNet  = 1500
	// Slacks per violation (pu) of the worst limit after a prediction.
	slackPerViolation = 0.01
	// movedLimit is the violation (pu) of a limit at an optimum that says that the limit has moved.
	movedLimit = 1e-6
)

// warmth is the least slack and the least s·z of a warm start, by what the old optimum's balances
// lack at the present loads, and whether its first step is a prediction. They were measured on five networks of 118 to 2869 buses, whose loads
// moved by 0.1 to 10 %, each by itself and all together.
func (w *worker) warmth(l int) (slack, barrier float64, next prediction) {
	start := w.lane[l].job.problem.Start
	net, all := w.lacking(l)
	slack = warmSlack
	switch {
	case w.plan.soft > 0 || start.objective != w.lane[l].job.problem.Objective || bad(net) || w.limitsMoved(l):
	case net > farNet:
		slack = farSlack
	case net <= nearNet && all <= nearMoved:
		slack, next = leastSlack, predict
	case net <= nearNet:
		slack = min(warmSlack, max(slackPerMove*all*all, slackPerNet*net*net))
	}
	return slack, warmMultiplier * slack, next
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

// lacking is what a lane's balances lack as shares of all load: of their sum, and of all of them.
func (w *worker) lacking(l int) (net, all float64) {
	p, m, load := w.plan, w.m, 0.0
	for i := range p.nb {
		gp, gq := m.Get(p.gp[i], l), m.Get(p.gq[i], l)
		net += gp
		all += math.Abs(gp) + math.Abs(gq)
		load += math.Abs(m.Get(p.pd[i], l)) + math.Abs(m.Get(p.qd[i], l))
	}
	return math.Abs(net) / load, all / load
}

// follow gives slacks and multipliers where a prediction has ended, with one s·z for all limits: the
// multiplier of a limit that binds is the predicted one, the slack of one that does not is its
// distance. s·z is the larger the further the prediction is off.
func (w *worker) follow(l int) {
	p, m, worst := w.plan, w.m, 0.0
	for _, h := range p.h {
		worst = max(worst, m.Get(h, l))
	}
	_, all := w.lacking(l)
	slack := min(warmSlack, max(leastSlack, float64(slackPerViolation*worst)+all))
	barrier := slack * slack
	for i := range p.s {
		z, least := m.Get(p.z[i], l), slack
		if z > slack {
			least = barrier / z
		}
		s := max(-m.Get(p.h[i], l), least)
		m.Set(p.s[i], l, s)
		m.Set(p.z[i], l, max(z, barrier/s))
	}
}
