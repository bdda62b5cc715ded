package acopf

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/internal/simd/lanes"
)

// The slacks of a warm start should match the move of the optimum. Smaller slacks end the first steps at limits that no
// longer bind. Larger ones lose the limits that still bind.
const (
	warmSlack = 1e-2 // smallest slack of a warm start after changes that are not measured
	minSlack  = 3e-5 // smallest slack of any warm start
	farSlack  = 5e-2 // smallest slack of a far warm start
	// warmMultiplier, of the scaled objective, is the smallest multiplier of a limit at its smallest slack.
	warmMultiplier = 3e-3
	// Net imbalances, relative to all load: a start is far from farNet on, and near up to nearNet. Slacks of near
	// starts follow the data.
	nearNet = 2.5e-3
	farNet  = 3e-2
	// nearMoved is the largest total change of load, relative to all load, for a prediction.
	nearMoved = 0.01
	// Slacks per square of the total and of the net change of load.
	slackPerMove = 5
	slackPerNet  = 1500
	// Slacks per violation (pu) of the worst limit after a prediction.
	slackPerViolation = 0.01
	// movedLimit is the violation (pu) at an optimum from which its limit counts as moved.
	movedLimit = 1e-6
)

// warmStart returns the smallest slack and s·z of a warm start, and whether its first step is a prediction. They
// follow from the imbalance of the old optimum at the present loads. They were measured on five networks of 118 to
// 2869 buses, whose loads moved by 0.1 to 10 %, each by itself and all together.
func (w *worker) warmStart(l int) (slack, barrier float64, next prediction) {
	start := w.lane[l].job.problem.Start
	net, all := w.imbalance(l)
	slack = warmSlack
	switch {
	case w.plan.soft > 0 || start.objective != w.lane[l].job.problem.Objective || notFinite(net) || w.limitsMoved(l):
	case net > farNet:
		slack = farSlack
	case net <= nearNet && all <= nearMoved:
		slack, next = minSlack, predict
	case net <= nearNet:
		slack = min(warmSlack, max(slackPerMove*all*all, slackPerNet*net*net))
	}
	return slack, warmMultiplier * slack, next
}

// limitsMoved says whether the point violates a limit. An optimum does so only where limits have moved.
func (w *worker) limitsMoved(l int) bool {
	return slices.ContainsFunc(w.plan.h, func(h lanes.Ref) bool { return w.m.Get(h, l) > movedLimit })
}

// imbalance returns the net and the total absolute imbalance of a lane, relative to all load.
func (w *worker) imbalance(l int) (net, all float64) {
	p, m, load := w.plan, w.m, 0.0
	for i := range p.nb {
		gp, gq := m.Get(p.gp[i], l), m.Get(p.gq[i], l)
		net += gp
		all += math.Abs(gp) + math.Abs(gq)
		load += math.Abs(m.Get(p.pd[i], l)) + math.Abs(m.Get(p.qd[i], l))
	}
	return math.Abs(net) / load, all / load
}

// followPrediction sets slacks and multipliers after a prediction, with one s·z for all limits. Binding limits keep
// the predicted multiplier, others the distance as their slack. s·z grows with the error of the prediction.
func (w *worker) followPrediction(l int) {
	p, m, worst := w.plan, w.m, 0.0
	for _, h := range p.h {
		worst = max(worst, m.Get(h, l))
	}
	_, all := w.imbalance(l)
	slack := min(warmSlack, max(minSlack, float64(slackPerViolation*worst)+all))
	barrier := slack * slack
	for i := range p.s {
		z, limitSlack := m.Get(p.z[i], l), slack
		if z > slack {
			limitSlack = barrier / z
		}
		s := max(-m.Get(p.h[i], l), limitSlack)
		m.Set(p.s[i], l, s)
		m.Set(p.z[i], l, max(z, barrier/s))
	}
}
