package secure

import (
	"context"
	"maps"
	"math"
	"slices"
)

// optimise solves with the remembered outages. A warm solve continues from the last result, with new outages at
// their power flows. A cold solve, and a warm one that fails, first solves smoothed problems. It then fixes the
// modes of the power flows there. Cold solves find the better optimum that way.
func (s *Solver) optimise(ctx context.Context, p *interior, r *Result) Status {
	if p.warm && !p.unsolvedOutage {
		initial := p.clone()
		for _, t := range p.states[1:] {
			if t.switching == nil {
				t.setSwitching(t.modes())
			}
		}
		if status := s.solveModes(ctx, p, r, resumedStart); status == converged || status == NotSolved {
			return status
		}
		p.restore(initial)
	}
	s.solveSmoothed(ctx, p, r)
	s.moveToPowerFlows(p, r)
	for _, t := range p.states[1:] {
		t.setSwitching(t.modes())
	}
	return s.solveModes(ctx, p, r, resumedStart)
}

// solveSmoothed solves with wide and then narrow smoothing and adds the outages that violate a limit at either. A
// later round continues from the states of the last narrow smoothing, with new outages at their power flows. If that
// fails it starts with the wide smoothing again. A width that does not converge leaves the states as they were.
func (s *Solver) solveSmoothed(ctx context.Context, p *interior, r *Result) {
	for _, t := range p.states[1:] {
		t.setSwitching(nil)
	}
	if p.smoothedStates != nil && !p.elastic {
		sided := p.clone()
		for k, t := range p.smoothedStates {
			*p.states[k] = *t.clone()
		}
		if s.solveNarrow(ctx, p, r) == converged {
			return
		}
		for k, t := range sided {
			*p.states[k] = *t
		}
	}
	p.smoothing = wideSmoothing
	if s.solveCold(ctx, p, r) != converged {
		return
	}
	for s.addViolated(ctx, p, r) {
		if s.solveWarm(ctx, p, r, wideTolerances) != converged && s.solveCold(ctx, p, r) != converged {
			return
		}
	}
	s.solveNarrow(ctx, p, r)
}

// solveNarrow solves with narrow smoothing while that finds new outages.
func (s *Solver) solveNarrow(ctx context.Context, p *interior, r *Result) Status {
	p.smoothing = narrowSmoothing
	for {
		if status := s.solveWarm(ctx, p, r, narrowTolerances); status != converged {
			return status
		}
		p.smoothedStates = p.clone()
		if !s.addViolated(ctx, p, r) {
			return converged
		}
	}
}

// solveCold solves with new slacks and multipliers. If it does not converge, the states are restored.
func (s *Solver) solveCold(ctx context.Context, p *interior, r *Result) Status {
	initial := p.clone()
	status := s.solveElastic(ctx, p, r, coldStart, wideTolerances)
	if status != converged {
		p.restore(initial)
	}
	return status
}

// solveWarm continues from an optimum with another smoothing or fewer outages. If it does not converge in a few
// iterations, the states are restored.
func (s *Solver) solveWarm(ctx context.Context, p *interior, r *Result, goal tolerances) Status {
	initial := p.clone()
	p.monotone = false
	p.begin(resumedStart)
	status := p.run(ctx, warmIterations, goal)
	r.Iterations += p.iterations
	if status != converged {
		p.restore(initial)
	}
	return status
}

// addViolated starts another round with the outages that violate a limit at the smoothed dispatch. It reports
// whether there are any.
func (s *Solver) addViolated(ctx context.Context, p *interior, r *Result) bool {
	base, earlier := p.states[0], earlierChecks{r.After, r.Vm, r.Va}
	r.read(s, base)
	checks, err := s.checkOutages(ctx, base.pd, base.qd, r.Pg, r.Vm, r.Va, p.states, earlier)
	if err != nil {
		return false // the context ended
	}
	if r.After = checks; r.Rounds == s.sys.opt.Rounds || s.add(p, r, checks, base.pd, base.qd) == 0 {
		return false
	}
	r.Rounds++
	return true
}

// moveToPowerFlows moves the states after outages to their last power flows. Near a limit these may be in another
// mode than the smoothed states.
func (s *Solver) moveToPowerFlows(p *interior, r *Result) {
	for _, c := range r.After {
		if k := slices.Index(r.Remembered, c.Outage); k >= 0 && c.Solved {
			s.sys.initialise(p.states[k+1], p.states[0], c)
		}
	}
}

// solveModes solves with fixed switching modes. Units that violate their modes at the optimum switch. If elastic
// slacks remain after that, the penalties rise while this helps. The last optimum stands where a higher penalty
// cannot be solved for.
func (s *Solver) solveModes(ctx context.Context, p *interior, r *Result, initial initialPoint) Status {
	var lastOptimum []*state
	for range modeSolves {
		if status := s.solveElastic(ctx, p, r, initial, finalTolerances); status != converged {
			if lastOptimum == nil || status == NotSolved {
				return status
			}
			p.restore(lastOptimum)
			break
		}
		if len(p.relaxations()) > 0 {
			lastOptimum = p.clone()
		}
		flipped := 0
		for _, t := range p.states[1:] {
			flipped += t.switchViolated()
		}
		if initial = p.startAfterSwitch(); flipped == 0 {
			if !p.raisePenalties() {
				break
			}
			if initial = resumedStart; p.elastic {
				initial = raisedStart
			}
		}
	}
	return converged
}

// solveElastic runs the interior point. If a cold solve does not converge, it restarts with elastic balances, and
// once more with a monotone barrier. A warm solve does not: a cold solve is faster than the rise of balance
// penalties, and finds a cheaper optimum.
func (s *Solver) solveElastic(ctx context.Context, p *interior, r *Result, point initialPoint, goal tolerances) Status {
	maxIterations := s.sys.opt.MaxIterations
	budget := maxIterations
	if !p.elastic {
		budget = min(maxIterations, hardIterations)
	}
	initial := make([][]float64, len(p.states))
	for k, t := range p.states {
		initial[k] = slices.Clone(t.x)
	}
	p.monotone = false
	p.begin(point)
	status := p.run(ctx, budget, goal)
	r.Iterations += p.iterations
	for _, monotone := range []bool{false, true} {
		if status != IterationLimit && status != Numerical || p.warm && !p.elastic {
			break
		}
		if !monotone && p.elastic {
			continue
		}
		for k, t := range p.states {
			copy(t.x, initial[k])
		}
		p.relaxBalances()
		p.monotone = monotone
		p.begin(coldStart)
		status = p.run(ctx, maxIterations, goal)
		r.Iterations += p.iterations
	}
	if status == converged {
		r.KKT = p.kkt
	}
	return status
}

// reducedCostThreshold is the smallest reduced cost that is tried: at case118's curvatures it gains 1e-9. With a thousand
// set-points a switch takes as long as a whole solve, and gains of less than coarseGain are left.
func (p *interior) reducedCostThreshold(objective float64) float64 {
	if p.sys.setCount > maxPivotedSetPoints {
		return 2 * math.Sqrt(coarseGain*math.Abs(objective))
	}
	return minReducedCost
}

// improveModes switches units where reduced costs promise a lower cost, and repeats while the cost falls. It reports
// whether the dispatch changed.
func (s *Solver) improveModes(ctx context.Context, p *interior, r *Result) (improved bool, status Status) {
	best, kkt, gains := p.objective(), r.KKT, make([]map[limitKey]float64, len(p.states))
	var fallback []*state
	for range modeRounds {
		changed := 0
		for k, t := range p.states[1:] {
			gains[k+1] = t.reducedCosts(p.reducedCostThreshold(best))
			changed += len(gains[k+1])
		}
		if changed == 0 || r.Iterations > maxModeEffort*s.sys.opt.MaxIterations {
			return improved, converged
		}
		fallback = p.clone()
		for k, t := range p.states[1:] {
			t.switchModes(gains[k+1])
		}
		if p.sys.setCount > maxPivotedSetPoints {
			p.ceiling = best - coarseGain*math.Abs(best)
		}
		status := s.solveModes(ctx, p, r, p.startAfterSwitch())
		if p.ceiling = 0; status != converged && status != IterationLimit && status != Insecure {
			return improved, status
		}
		f := p.objective()
		if status != converged || !(f < best-minGain*math.Abs(best)) {
			break
		}
		best, kkt = f, r.KKT
		improved, fallback = true, nil
	}
	if fallback == nil {
		return improved, converged
	}
	p.restore(fallback)
	r.KKT = kkt
	for k, t := range p.states[1:] {
		if gain := gains[k+1]; len(gain) > 0 {
			t.switching = t.switching.clone() // earlier results keep their own
			maps.Copy(t.switching.fruitless, gain)
		}
	}
	return improved, converged
}

const (
	modeRounds     = 20
	maxSwitches    = 2    // of one unit, before its penalty rises
	modeSolves     = 12   // optimisations of one round at most
	maxModeEffort  = 5    // in iterations of one optimisation, after which no unit switches
	hardIterations = 100  // of one optimisation before balances are elastic; most take fewer
	minGain        = 1e-9 // relative decrease of the objective by a switch
	coarseGain     = 1e-6 // with a thousand set-points
	// Widths of the smoothing, pu, and the most iterations of its warm solves.
	wideSmoothing, narrowSmoothing, warmIterations = 0.1, 0.01, 30
)

// tolerances end the interior point: pu, gradient relative to the multipliers, gap relative to the objective. With a
// shifted matrix the looser pair holds, relative to the largest variable or slack.
type tolerances struct {
	feasibility, gradient, gap          float64
	shiftedFeasibility, shiftedGradient float64
	maxShift                            float64 // of the matrix, above which the solve fails; 0: several times hopelessShift
}

var (
	finalTolerances = tolerances{feasibility, optimality, optimality, 0, optimality, 0}
	// Smoothed optima only choose the modes.
	wideTolerances   = tolerances{1e-4, 1e-3, 1e-3, 3e-7, 1e-3, 0}
	narrowTolerances = tolerances{1e-6, 1e-4, 1e-4, 3e-7, 1e-3, 1e3}
)
