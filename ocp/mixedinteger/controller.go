package mixedinteger

import (
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// ControllerOptions say how a Controller decides.
type ControllerOptions struct {
	Candidates int  // rolled out in a decision
	Ahead      bool // it searches between decisions, where the last action leads to, and decides by aheadCandidates
	GuessOnly  bool // it decides by the guess alone
	Polish     bool // the actions without a switch are solved for the switches of the best plan
	Relaxed    bool // the guess is the relaxed plan, solved at each decision
}

const (
	// aheadCandidates of a decision that was searched for before.
	aheadCandidates = 64
	// offers are the best plans of a decision that the next one begins with, one step on.
	offers = 32
	// solvedElites are the best plans of a polished decision that are solved at its end.
	solvedElites = 4
	// trust in the guess of a map or of a relaxed plan; the rest is that of the chances of the decision before.
	trust = 0.5
)

// Controller decides by a search in every period. It searches about the guess of a map, if it has one, and about the
// plans of the decision before, one step on. It executes the first action of the best plan. The whole roll-out of that plan keeps the limits
// and the rules of the switches, where the search finds such a plan.
type Controller struct {
	opt      ControllerOptions
	problem  domain.Problem
	spec     *domain.Spec
	search   *Search
	proposer domain.Proposer // nil: no map
	solver   *Solver
	question [1]domain.Question
	answer   [1]domain.Answer
	guess    []float64
	// Of the decision before: plans, [steps·action] each, and chances.
	plans          [][]float64
	chances        []float64
	feedback       *Feedback // of that decision's plan; nil: none
	executed       []float64
	s, c           []float64 // what was expected, of Ahead
	prepared       bool
	again          bool // the next decision is in the state of the last one
	decision       domain.Decision
	choice         domain.Chosen
	state, context []float64
	pref           domain.Preference
}

var _ domain.Controller = (*Controller)(nil)

// NewController returns a controller of a solver's problem. proposer is its map, nil for none.
func NewController(s *Solver, proposer domain.Proposer, opt ControllerOptions) (*Controller, error) {
	search, err := NewSearch(s.problem, Options{Counters: s.counters})
	if err != nil {
		return nil, err
	}
	k := &Controller{opt: opt, problem: s.problem, spec: s.spec, search: search, proposer: proposer, solver: s}
	k.state, k.context = make([]float64, s.spec.MeasuredSize()), make([]float64, s.spec.ContextSize())
	k.s, k.c = make([]float64, s.spec.MeasuredSize()), make([]float64, s.spec.ContextSize())
	k.executed = make([]float64, s.spec.ActionSize())
	return k, nil
}

// Reset implements domain.Controller.
func (k *Controller) Reset(domain.Episode) error {
	k.plans, k.chances = nil, k.chances[:0]
	k.feedback, k.prepared, k.again = nil, false, false
	k.search.Restart(0)
	return nil
}

// Abilities implements domain.Able.
func (k *Controller) Abilities() *domain.ControllerAbilities {
	a := &domain.ControllerAbilities{
		Blind:    true,
		Executed: func(u []float64) { k.executed = append(k.executed[:0], u...) },
		Missed:   func(_, _, _ []float64) { k.shift() },
		Chosen:   func() domain.Chosen { return k.choice },
		Again:    func(plan []float64) { k.again, k.plans = true, append(k.plans, slices.Clone(plan)) },
	}
	if k.opt.Ahead {
		a.Prepare = k.prepare
	}
	return a
}

// shift moves what is remembered one step on.
func (k *Controller) shift() {
	nu := k.spec.ActionSize()
	for i, p := range k.plans {
		if len(p) > nu {
			k.plans[i] = p[nu:]
		}
	}
	if n := k.search.rules.chances; len(k.chances) > n {
		k.chances = k.chances[n:]
	}
}

// prepare searches where the last action leads to.
func (k *Controller) prepare() error {
	if len(k.plans) == 0 {
		return nil
	}
	k.problem.Step(k.state, k.context, k.executed, k.s, k.c)
	if !tensor.Finite(k.s) || !tensor.Finite(k.c) {
		return nil
	}
	k.shift()
	if err := k.find(k.s, k.c, k.pref, k.opt.Candidates); err != nil {
		return err
	}
	k.prepared = true
	return nil
}

// Decide implements domain.Controller.
func (k *Controller) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	k.decision = domain.Decided(true)
	if !tensor.Finite(s) || !tensor.Finite(c) {
		k.follow(s, c, u)
		k.decision.Fallback = domain.FallbackMethod
		return k.decision, nil
	}
	if pref.W == nil {
		pref.Adaptive = true
	}
	start := time.Now()
	copy(k.state, s)
	copy(k.context, c)
	k.pref = pref
	candidates := k.opt.Candidates
	if k.prepared {
		candidates = min(candidates, aheadCandidates)
	} else if len(k.plans) > 0 && !k.again {
		k.shift()
	}
	k.again = false
	if err := k.find(s, c, pref, candidates); err != nil {
		return domain.Decision{}, err
	}
	k.prepared = false
	best := k.search.Best()
	if best == nil || !best.Safe() {
		k.decision.Fallback |= domain.FallbackMethod
	}
	if best == nil {
		k.problem.Fallback(s, c, u)
		k.problem.Project(s, c, u)
	} else {
		copy(u, best.Actions)
		if !best.Safe() { // at least this decision is to keep the limits
			k.problem.Project(s, c, u)
		}
		k.choose(best)
	}
	copy(k.executed, u)
	k.decision.Times.Step = time.Since(start)
	return k.decision, nil
}

// follow takes the action of the plan before, as far as the rules of the switches allow it; without one the fallback.
func (k *Controller) follow(s, c, u []float64) {
	k.problem.Fallback(s, c, u)
	if len(k.plans) > 0 {
		if !k.prepared {
			k.shift()
		}
		copy(u, k.plans[0])
		k.spec.HoldSwitches(c, u)
	}
	k.prepared = false
	copy(k.executed, u)
}

// find makes the search of a decision and remembers its best plans.
func (k *Controller) find(s, c []float64, pref domain.Preference, candidates int) error {
	steps := stepsOf(k.problem, k.spec, c)
	k.search.Begin(s, c, pref, steps)
	if !k.opt.GuessOnly {
		k.search.Resume(k.chances, 1)
		for _, p := range k.plans {
			k.search.Offer(p)
		}
	}
	if !k.prepared {
		if err := k.propose(s, c, pref, steps); err != nil {
			return err
		}
		k.takeGuess()
	}
	if k.opt.Polish {
		if k.prepared { // the plan is solved
			k.search.Follow(k.feedback)
		} else {
			k.search.Solve = k.solver.solve(k.search, s, c, pref)
		}
	}
	if n := Swept(candidates); n > 0 {
		k.search.Sweep(n)
		candidates -= n
	}
	k.search.FollowBest()
	k.search.Run(candidates - k.search.Candidates)
	if k.opt.Polish {
		k.feedback = k.search.solveElites(solvedElites)
	}
	k.remember()
	return nil
}

// takeGuess begins the search at the guess, and at the chances of the decision before.
func (k *Controller) takeGuess() {
	if len(k.guess) == 0 {
		return
	}
	chances := slices.Clone(k.search.chances)
	k.search.Guess(k.guess)
	if len(k.chances) > 0 && !k.opt.GuessOnly {
		k.search.Resume(chances, 1-trust)
	}
	k.search.OfferShares(k.guess)
}

// propose asks the map, or the relaxed problem, for shares.
func (k *Controller) propose(s, c []float64, pref domain.Preference, steps int) error {
	k.guess = k.guess[:0]
	switch {
	case k.opt.Relaxed:
		for _, row := range k.solver.relaxed(s, c, steps, pref, 1) {
			k.guess = append(k.guess, row...)
		}
	case k.proposer != nil:
		if k.spec.ObjectiveSize() == 1 { // there is nothing to prefer
			pref = domain.Preference{Adaptive: true}
		}
		k.question[0] = domain.Question{S: s, C: c, Preference: pref, Count: 1}
		if err := k.proposer.Propose(domain.ProposeOptions{}, k.question[:], k.answer[:]); err != nil {
			return err
		}
		a := &k.answer[0]
		for _, v := range a.Plans.Row(0) {
			k.guess = append(k.guess, float64(v))
		}
		k.decision.Sigma, k.decision.Residual, k.decision.Limit = a.Sigma, a.Residual, a.Limit
	}
	return nil
}

// remember keeps the best plans and the chances.
func (k *Controller) remember() {
	elites := k.search.Elites()
	for len(k.plans) < min(offers, len(elites)) {
		k.plans = append(k.plans, nil)
	}
	k.plans = k.plans[:min(offers, len(elites))]
	for i := range k.plans {
		k.plans[i] = append([]float64(nil), elites[i].Actions...)
	}
	k.chances = append(k.chances[:0], k.search.chances...)
}

// choose describes the decision.
func (k *Controller) choose(best *Plan) {
	m := make([]float64, len(k.spec.Margins))
	k.problem.Margins(k.state, k.context, best.Actions[:k.spec.ActionSize()], m)
	k.choice = domain.Chosen{Plan: best.Actions, Cost: best.Cost, Margin: domain.Smallest(k.spec.LimitMargins(m)), Feasible: best.Safe(), Candidates: k.search.Candidates, LookAhead: k.search.steps, Source: domain.SourceSearched, Consistent: true, Baseline: math.NaN()}
	if best.Violation > 0 {
		k.choice.Margin = math.Min(k.choice.Margin, -best.Violation)
	}
	k.decision.Ahead = best.Actions
}
