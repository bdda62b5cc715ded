package secure

import (
	"context"
	"maps"
	"math"
	"slices"
)

// optimise solves with the outages that are remembered. From an earlier result it begins where that stands, and
// with new outages at their power flows. Where that does not converge, or without a result, it begins with smooth
// corners, then on the sides that power flows are on at the dispatch where these ended: from nothing, that finds the
// better optimum.
func (s *Solver) optimise(ctx context.Context, p *interior, r *Result) Status {
	if p.warm && !p.blind {
		begun := p.clone()
		for _, t := range p.states[1:] {
			if t.corner == nil {
				t.setCorner(t.corners())
			}
		}
		if status := s.side(ctx, p, r, nearStart); status == converged || status == NotSolved {
			return status
		}
		p.restore(begun)
	}
	s.smooth(ctx, p, r)
	s.settle(p, r)
	for _, t := range p.states[1:] {
		t.setCorner(t.corners())
	}
	return s.side(ctx, p, r, nearStart)
}

// smooth solves with smooth corners, wide ones and then narrow ones, and adds the outages that break a limit at either. A
// later round begins at the states that the last one had with narrow corners, and its new outages at their power flows; where
// that comes to nothing, with wide ones. Where a width does not converge, the states are those before it, and at first those of
// the power flows.
func (s *Solver) smooth(ctx context.Context, p *interior, r *Result) {
	for _, t := range p.states[1:] {
		t.setCorner(nil)
	}
	if p.smoothed != nil && !p.elastic {
		sided := p.clone()
		for k, t := range p.smoothed {
			*p.states[k] = *t.clone()
		}
		if s.narrow(ctx, p, r) == converged {
			return
		}
		for k, t := range sided {
			*p.states[k] = *t
		}
	}
	p.width = widest
	if s.anew(ctx, p, r) != converged {
		return
	}
	for s.look(ctx, p, r) {
		if s.again(ctx, p, r, wideEnd) != converged && s.anew(ctx, p, r) != converged {
			return
		}
	}
	s.narrow(ctx, p, r)
}

// narrow solves with narrow corners, as long as these find outages.
func (s *Solver) narrow(ctx context.Context, p *interior, r *Result) Status {
	p.width = narrowest
	for {
		if status := s.again(ctx, p, r, narrowEnd); status != converged {
			return status
		}
		p.smoothed = p.clone()
		if !s.look(ctx, p, r) {
			return converged
		}
	}
}

// anew solves from slacks and multipliers of no optimum. Where that does not converge, the states are those before it.
func (s *Solver) anew(ctx context.Context, p *interior, r *Result) Status {
	begun := p.clone()
	status := s.attempt(ctx, p, r, farStart, wideEnd)
	if status != converged {
		p.restore(begun)
	}
	return status
}

// again solves from those of an optimum with other corners or fewer outages, in few iterations or not at all.
func (s *Solver) again(ctx context.Context, p *interior, r *Result, to ending) Status {
	begun := p.clone()
	p.careful = false
	p.begin(nearStart)
	status := p.run(ctx, fewIterations, to)
	r.Iterations += p.iterations
	if status != converged {
		p.restore(begun)
	}
	return status
}

// look adds the outages that break a limit at the dispatch of smooth corners, as another round, and says whether there are any.
func (s *Solver) look(ctx context.Context, p *interior, r *Result) bool {
	base, from := p.states[0], known{r.After, r.Vm, r.Va}
	r.read(s, base)
	checks, err := s.screen(ctx, base.pd, base.qd, r.Pg, r.Vm, r.Va, p.states, from)
	if err != nil {
		return false // the context's end
	}
	if r.After = checks; r.Rounds == s.sys.opt.Rounds || s.add(p, r, checks, base.pd, base.qd) == 0 {
		return false
	}
	r.Rounds++
	return true
}

// settle brings the states after outages to their last power flows, from where smooth corners have left them: where many
// units are near a corner, these are on other sides.
func (s *Solver) settle(p *interior, r *Result) {
	for _, c := range r.After {
		if k := slices.Index(r.Remembered, c.Outage); k >= 0 && c.Solved {
			s.sys.place(p.states[k+1], p.states[0], c)
		}
	}
}

// side solves on the present sides of the corners. A unit that is not on its side at the optimum
// changes it. Where limits, balances or sides give after that, their price was too low: it is raised as
// long as that helps. Where a higher price cannot be solved for, the optimum at the last one stands.
func (s *Solver) side(ctx context.Context, p *interior, r *Result, from start) Status {
	var kept []*state
	for range sideSolves {
		if status := s.attempt(ctx, p, r, from, lastEnd); status != converged {
			if kept == nil || status == NotSolved {
				return status
			}
			p.restore(kept)
			break
		}
		if len(p.given()) > 0 {
			kept = p.clone()
		}
		flipped := 0
		for _, t := range p.states[1:] {
			flipped += t.flip()
		}
		if from = p.crossed(); flipped == 0 {
			if !p.raise() {
				break
			}
			if from = nearStart; p.elastic {
				from = raisedStart
			}
		}
	}
	return converged
}

// attempt runs the interior point. Where that does not converge, it begins again with balances that may
// give, and once more with the barrier held at every step. From an earlier result it does not: a solve from nothing is sooner at
// an optimum than prices of balances are high enough, and at a cheaper one.
func (s *Solver) attempt(ctx context.Context, p *interior, r *Result, from start, to ending) Status {
	most := s.sys.opt.MaxIterations
	first := most
	if !p.elastic {
		first = min(most, hardIterations)
	}
	begun := make([][]float64, len(p.states))
	for k, t := range p.states {
		begun[k] = slices.Clone(t.x)
	}
	p.careful = false
	p.begin(from)
	status := p.run(ctx, first, to)
	r.Iterations += p.iterations
	for _, careful := range []bool{false, true} {
		if status != IterationLimit && status != Numerical || p.warm && !p.elastic {
			break
		}
		if !careful && p.elastic {
			continue
		}
		for k, t := range p.states {
			copy(t.x, begun[k])
		}
		p.soften()
		p.careful = careful
		p.begin(farStart)
		status = p.run(ctx, most, to)
		r.Iterations += p.iterations
	}
	r.KKT = p.kkt
	return status
}

// leastPromise is the least multiplier of another side that is tried: a cost of 1e-9 less comes of leastPromise at the
// curvatures of case118, 2 scaled costs a pu². With a thousand set-points, where a change of sides takes as long as the solve
// before, less than 1e-7 of the objective is left.
func (p *interior) leastPromise(objective float64) float64 {
	if p.sys.setCount > mostPivoted {
		return 2 * math.Sqrt(coarseGain*math.Abs(objective))
	}
	return leastPromise
}

// polish takes units to the other side of their corners wherever that promises a lower cost, as long as the cost
// falls, and says whether the dispatch has moved.
func (s *Solver) polish(ctx context.Context, p *interior, r *Result) (moved bool, status Status) {
	best := p.objective()
	var kept []*state
	promised := make([]map[limitPlace]float64, len(p.states))
	for range polishings {
		changed := 0
		for k, t := range p.states[1:] {
			promised[k+1] = t.promises(p.leastPromise(best))
			changed += len(promised[k+1])
		}
		if changed == 0 || r.Iterations > enough*s.sys.opt.MaxIterations {
			return moved, converged
		}
		kept = p.clone()
		for k, t := range p.states[1:] {
			t.cross(promised[k+1])
		}
		if status := s.side(ctx, p, r, p.crossed()); status != converged && status != IterationLimit {
			return moved, status
		}
		f := p.objective()
		if !(f < best-leastGain*math.Abs(best)) {
			break
		}
		enough := p.sys.setCount > mostPivoted && best-f < coarseGain*math.Abs(best)
		if best, moved, kept = f, true, nil; enough {
			break
		}
	}
	if kept == nil {
		return moved, converged
	}
	p.restore(kept)
	for k, t := range p.states[1:] {
		if promise := promised[k+1]; len(promise) > 0 {
			t.corner = t.corner.clone() // earlier results keep theirs
			maps.Copy(t.corner.vain, promise)
		}
	}
	return moved, converged
}

const (
	polishings = 20
	crossings  = 2  // changes of side of one unit, before being on the wrong one gets dearer
	sideSolves = 12 // optimisations of one round at most
	enough     = 5  // times the iterations of one optimisation, after which no other side is tried
	// Most optimisations take fewer iterations; one that does not is begun again with balances that give.
	hardIterations = 100
	leastGain      = 1e-9 // of the objective, by another side
	coarseGain     = 1e-7 // with a thousand set-points
	// Widths of smooth corners, pu, and the most iterations after the first solve with these.
	widest, narrowest, fewIterations = 0.1, 0.01, 30
)

// ending is what the interior point has to come to: pu, gradient relative to the multipliers, and gap to the objective.
// Where the matrix takes a shift, a share of the largest variable or slack and another gradient will do.
type ending struct {
	feasibility, gradient, gap          float64
	shiftedFeasibility, shiftedGradient float64
	most                                float64 // shift, from which on it comes to nothing; 0: hopelessShift, several times
}

var (
	lastEnd = ending{feasibility, optimality, optimality, 0, optimality, 0}
	// The smooth corners only say where to begin on the sides.
	wideEnd   = ending{1e-4, 1e-3, 1e-3, 3e-7, 1e-3, 0}
	narrowEnd = ending{1e-6, 1e-4, 1e-4, 3e-7, 1e-3, 1e3}
)
