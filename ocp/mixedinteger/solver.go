package mixedinteger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/ocp"
	"github.com/gpc-engine/gpc/tensor"
)

const (
	patience   = 8 // rounds that find nothing better, after which a search ends, and
	mostRounds = 60
	mostSolved = 8 // plans of a pass whose actions without a switch are solved
	// gain is the least share of a cost by which a plan is better, and notable is one for which searches go on.
	gain, notable = 1e-9, 1e-6
	// Of a dataset: candidates of one sample, and the chance that a drive leaves its plan at a step.
	sampleCandidates = 384
	samplesPerDrive  = 24 // at most, spread at random over its steps
	strayChance      = 0.2
	// temperature is of the weights of elites in a sample's plan, as a share of their mean distance from the best.
	temperature = 0.5
)

// Shares are the relaxed problem of a problem with switches: the action of a switch is the share of each of its values.
type Shares struct {
	Problem domain.Problem // whose plans have the actions of the whole look-ahead: what a map is about
	Solver  *ocp.Solver    // of the problem of the shares
	// Share writes the shares of an action.
	Share func(u, shares []float64)
}

// Solver makes the reference of a problem with switches, and the samples of its maps. It is safe for concurrent use.
type Solver struct {
	problem  domain.Problem
	spec     *domain.Spec
	shares   Shares
	axes     []domain.Variable
	initial  func(p, s, c []float64)
	opt      SolverOptions
	searches *sync.Pool // of *Search
	counters []bool     // states that only count
	ctx      context.Context
}

// SolverOptions of a Solver; the zero value is usable.
type SolverOptions struct {
	// Perturbed is the number of drives of a scenario besides that of its best plan. They leave their plan at random
	// steps, for another good plan or for a state nearby, of PerturbScale × StateScale.
	Perturbed    int
	PerturbScale float64
	StateScale   []float64
}

// NewSolver returns a solver. axes are the scenario's parameters with their ranges; initial writes state and context of one.
func NewSolver(problem domain.Problem, shares Shares, axes []domain.Variable, initial func(p, s, c []float64), opt SolverOptions) (*Solver, error) {
	if _, err := NewSearch(problem, Options{}); err != nil {
		return nil, err
	}
	s := &Solver{problem: problem, spec: problem.Spec(), shares: shares, axes: axes, initial: initial, opt: opt, ctx: context.Background()}
	s.counters = Counters(problem, axes, initial)
	s.searches = &sync.Pool{New: func() any {
		search, err := NewSearch(problem, Options{Counters: s.counters})
		if err != nil {
			panic(err) // it has been made before
		}
		return search
	}}
	return s, nil
}

// Abilities implements domain.Able.
func (s *Solver) Abilities() *domain.SolverAbilities {
	return &domain.SolverAbilities{Start: s.initial, Until: func(ctx context.Context) domain.Solver {
		copied := *s
		copied.ctx, copied.shares.Solver = ctx, s.shares.Solver.Until(ctx).(*ocp.Solver)
		return &copied
	}}
}

// Parameters implements domain.Solver, as do the methods below.
func (s *Solver) Parameters() []domain.Variable { return s.axes }

// Prepare does nothing: solves share nothing.
func (s *Solver) Prepare(context.Context, uint64, func(done, total int)) error { return nil }

// relaxed is the relaxed plan from a state as shares, [steps][width]; nil where it was not found.
func (s *Solver) relaxed(state, c []float64, steps int, pref domain.Preference, seed uint64) [][]float64 {
	t, err := s.shares.Solver.Minimise(state, c, steps, pref, domain.WeightedSum, seed)
	if err != nil {
		return nil
	}
	return t.U
}

// effort of finding a best known plan.
type effort struct {
	starts   int  // most searches
	patience int  // searches in a row that find nothing better, after which it ends
	round    int  // candidates of a round
	sweep    int  // decisions of a period in the sweep that the first search begins with
	pairs    bool // of changes are tried
}

// efforts of a reference and of a scenario of a dataset. Where there are actions without a switch, solving these finds more than candidates.
func (s *Solver) efforts() (reference, scenario effort) {
	if len(s.spec.Switches) < s.spec.ActionSize() {
		return effort{12, 6, 256, 1 << 13, false}, effort{2, 2, 256, 1 << 12, false}
	}
	return effort{8, 2, 4096, 1 << 15, true}, effort{2, 2, 1024, 1 << 12, false}
}

// Reference is the best known plan from a state: that of searches about the relaxed plan and without it. Where there are actions without a
// switch, all are about the relaxed plan, and these actions are solved for the best switches.
func (s *Solver) Reference(state, c []float64, steps int, pref domain.Preference) (*Plan, error) {
	search := s.searches.Get().(*Search)
	defer s.searches.Put(search)
	search.Restart(0)
	most, _ := s.efforts()
	return s.reference(search, state, c, steps, pref, most)
}

func (s *Solver) reference(search *Search, state, c []float64, steps int, pref domain.Preference, e effort) (*Plan, error) {
	guess := slices.Concat(s.relaxed(state, c, steps, pref, 1)...)
	search.ctx = s.ctx
	var best *Plan
	for k, vain := 0, 0; k < e.starts && vain < e.patience; k++ {
		search.Begin(state, c, pref, steps)
		if len(search.continuous) > 0 {
			search.Solve = s.solve(search, state, c, pref)
			search.beginMixed(k, guess, best, e)
		} else {
			search.beginSwitched(k, guess, best, e)
		}
		plan := search.runPatiently(e)
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		if plan == nil {
			continue
		}
		plan, err := s.improve(search, state, c, steps, pref)
		if err != nil {
			return nil, err
		}
		if vain++; best == nil || search.rollout.gains(plan, best, notable) {
			vain = 0
		}
		if best == nil || search.rollout.better(plan, best) {
			best = plan
		}
	}
	if best == nil || !best.Safe() {
		return nil, fmt.Errorf("from state %v: no plan keeps the limits: %w", state, domain.ErrInfeasible)
	}
	return best, nil
}

// beginSwitched begins search k of a reference: every other one about the relaxed plan, the third from the best plan too.
func (s *Search) beginSwitched(k int, guess []float64, best *Plan, e effort) {
	if k%2 == 0 {
		s.Guess(guess)
		s.OfferShares(guess)
	}
	if k == 2 && best != nil { // others begin without what is known
		s.Offer(best.Actions)
	}
	if k == 0 {
		s.Sweep(e.sweep)
	}
}

// beginMixed is beginSwitched where there are actions without a switch. Of three searches one follows what comes of the relaxed plan, one
// the best plan, and one draws these actions.
func (s *Search) beginMixed(k int, guess []float64, best *Plan, e effort) {
	s.Guess(guess)
	s.OfferShares(guess)
	switch {
	case k%3 == 2:
		s.Solve = nil
		return
	case k%3 == 1 && best != nil:
		s.Offer(best.Actions)
	}
	s.Sweep(e.sweep)
	s.FollowBest()
}

func (p *Plan) clone() *Plan {
	copied := *p
	copied.Places, copied.Actions = slices.Clone(p.Places), slices.Clone(p.Actions)
	return &copied
}

// improve solves the actions without a switch, if there are any, for the best plans of the search. Then it solves them for those changes of
// the best plan that are cheapest where its answer is followed, until none of these is better.
func (s *Solver) improve(search *Search, state, c []float64, steps int, pref domain.Preference) (*Plan, error) {
	best := search.Best().clone()
	if len(search.continuous) == 0 {
		return best, nil
	}
	solved := map[string]bool{}
	candidates := search.Elites()
	for pass := range mostPasses {
		var plans []Plan
		answers := map[string]*Feedback{}
		for i := 0; i < len(candidates) && len(plans) < mostSolved; i++ {
			if err := s.ctx.Err(); err != nil {
				return nil, err
			}
			p := &candidates[i]
			if key := string(p.Places); !solved[key] {
				solved[key] = true
				if f := s.Others(p, state, c, steps, pref); f != nil {
					plans = append(plans, search.planOf(f.actions))
					answers[key] = f
				}
			}
		}
		search.Follow(nil)
		search.rank(plans)
		better := len(plans) > 0 && search.rollout.gains(&plans[0], best, gain)
		if better {
			best = plans[0].clone()
		}
		if pass > 0 && !better {
			break
		}
		search.Follow(answers[string(best.Places)])
		candidates = search.variants(best)
	}
	return best, nil
}

// solve solves the actions without a switch of plans of a search's decision; nil where there are none.
func (s *Solver) solve(search *Search, state, c []float64, pref domain.Preference) func(*Plan) *Feedback {
	if len(search.continuous) == 0 {
		return nil
	}
	return func(p *Plan) *Feedback { return s.Others(p, state, c, search.steps, pref) }
}

// Others is a plan with its actions without a switch solved for its switches; nil where that was not found.
func (s *Solver) Others(p *Plan, state, c []float64, steps int, pref domain.Preference) *Feedback {
	nu, ns, width := s.spec.ActionSize(), s.spec.MeasuredSize(), s.shares.Problem.Spec().ActionSize()
	pinned, start := make([]float64, steps*width), make([][]float64, steps)
	for h := range steps {
		start[h] = pinned[h*width : (h+1)*width]
		s.shares.Share(p.Actions[h*nu:(h+1)*nu], start[h])
	}
	pinned = slices.Clone(pinned)
	eachOther := func(f func(h, action, entry int)) {
		entry := 0
		s.eachAction(func(action, shares int, switched bool) {
			for h := 0; h < steps && !switched; h++ {
				f(h, action, entry)
			}
			entry += shares
		})
	}
	eachOther(func(h, _, entry int) { pinned[h*width+entry] = math.NaN() })
	t, err := s.shares.Solver.MinimisePinned(state, c, steps, pref, pinned, 1, start)
	if err != nil || t.Gains == nil {
		return nil
	}
	f := &Feedback{places: slices.Clone(p.Places), actions: slices.Clone(p.Actions[:steps*nu]), states: slices.Concat(t.S...)}
	continuous := nu - len(s.spec.Switches)
	f.gains = make([]float64, steps*continuous*ns)
	k := 0 // counts the actions without a switch, each of all steps after the one before
	eachOther(func(h, action, entry int) {
		f.actions[h*nu+action] = t.U[h][entry]
		copy(f.gains[(h*continuous+k/steps)*ns:][:ns], t.Gains[(h*width+entry)*ns:])
		k++
	})
	return f
}

// eachAction calls f with every action and the number of its shares.
func (s *Solver) eachAction(f func(action, shares int, switched bool)) {
	for a := range s.spec.Action {
		i := s.spec.SwitchOf(a)
		if i < 0 {
			f(a, 1, false)
		} else {
			f(a, len(s.spec.Switches[i].Values)-1, true)
		}
	}
}

// Oracle is the reference of an episode: its cost and its plan.
func (s *Solver) Oracle(ctx context.Context, state, c []float64, steps int, pref domain.Preference) (cost float64, plan [][]float64, err error) {
	best, err := s.Abilities().Until(ctx).(*Solver).Reference(state, c, steps, pref)
	if err != nil {
		return 0, nil, err
	}
	nu := s.spec.ActionSize()
	for h := range steps {
		plan = append(plan, best.Actions[h*nu:(h+1)*nu])
	}
	return best.Cost, plan, nil
}

// Solve implements domain.Solver: samples along the best plan of a scenario, and along drives that leave it. The plan
// of a sample are the chances of every value among the best plans from its state.
func (s *Solver) Solve(scenario int, p []float64, pref domain.Preference, scalarization domain.Scalarization, seed uint64) ([]domain.Sample, error) {
	if scalarization != "" && scalarization != domain.WeightedSum {
		return nil, fmt.Errorf("plans with switches can be solved for %s, not for %s", domain.WeightedSum, scalarization)
	}
	search := s.searches.Get().(*Search)
	defer s.searches.Put(search)
	search.Restart(seed << 16)
	state, c := make([]float64, s.spec.MeasuredSize()), make([]float64, s.spec.ContextSize())
	s.initial(p, state, c)
	_, least := s.efforts()
	best, err := s.reference(search, state, c, s.steps(c), pref, least)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 0x6d6978)) // "mix"
	var out []domain.Sample
	for drive := range 1 + s.opt.Perturbed {
		if out, err = s.drive(search, out, best, scenario, drive, state, c, pref, rng); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// steps is the look-ahead from a context.
func (s *Solver) steps(c []float64) int { return stepsOf(s.problem, s.spec, c) }

func stepsOf(p domain.Problem, spec *domain.Spec, c []float64) int {
	return max(1, domain.AbilitiesOfProblem(p).LookAhead(spec, c))
}

// drive appends the samples of one drive from a scenario's start. Drive 0 follows the best plan.
func (s *Solver) drive(search *Search, out []domain.Sample, best *Plan, scenario, drive int, state, c []float64, pref domain.Preference, rng *rand.Rand) ([]domain.Sample, error) {
	state, c = slices.Clone(state), slices.Clone(c)
	nu := s.spec.ActionSize()
	nextS, nextC := make([]float64, len(state)), make([]float64, len(c))
	offers, first := [][]float64{best.Actions}, len(out)
	last, trajectory := 0, int64(0)
	for step := range s.spec.Steps {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		follow := offers[0]
		if left := s.spec.Steps - step; rng.IntN(left) < samplesPerDrive-(len(out)-first) {
			if follow = s.searched(search, state, c, pref, offers, drive > 0 && rng.Float64() < strayChance, rng); follow == nil {
				return out, nil
			}
			sample := s.sample(search, state, c, pref)
			if step > last+1 || len(out) == first { // steps of one trajectory follow each other
				trajectory = int64(len(out))
			}
			last = step
			sample.Scenario, sample.Trajectory = scenario, trajectory
			sample.Step, sample.Perturbed = step, drive > 0
			out = append(out, sample)
			offers = offers[:0]
			for _, e := range search.Elites()[:min(len(search.Elites()), leastElites)] {
				offers = append(offers, slices.Clone(e.Actions))
			}
		}
		s.problem.Step(state, c, follow[:nu], nextS, nextC)
		state, nextS = nextS, state
		c, nextC = nextC, c
		for i, plan := range offers {
			offers[i] = plan[min(nu, len(plan)-nu):]
		}
		if drive > 0 && rng.Float64() < strayChance && s.opt.StateScale != nil {
			for i := range state {
				state[i] += s.opt.PerturbScale * s.opt.StateScale[i] * rng.NormFloat64()
			}
		}
	}
	return out, nil
}

// searched is the plan to follow after a search from a state: the best, or with stray another good one; nil where none
// is safe.
func (s *Solver) searched(search *Search, state, c []float64, pref domain.Preference, offers [][]float64, stray bool, rng *rand.Rand) []float64 {
	search.Begin(state, c, pref, s.steps(c))
	for _, plan := range offers {
		search.Offer(plan)
	}
	search.Solve = s.solve(search, state, c, pref)
	search.FollowBest()
	search.Run(sampleCandidates)
	search.FollowBest()
	search.runOffered()
	best := search.Best()
	if best == nil || !best.Safe() {
		return nil
	}
	if stray {
		elites := search.Elites()
		return slices.Clone(elites[rng.IntN(len(elites))].Actions)
	}
	return slices.Clone(best.Actions)
}

// sample is the sample of the search's last decision.
func (s *Solver) sample(search *Search, state, c []float64, pref domain.Preference) domain.Sample {
	p, spec := s.shares.Problem, s.shares.Problem.Spec()
	sample := domain.Sample{
		S: slices.Clone(state), C: slices.Clone(c), Preference: pref, U: make([]float64, spec.PlanSize()), Target: make([]float64, spec.PlanSize()),
		Sigma: make([]float64, spec.ObjectiveSize()), J: make([]float64, spec.ObjectiveSize()), Margins: make([]float64, len(spec.Margins)),
	}
	s.meanShares(search, sample.U)
	first := sample.U[:spec.ActionSize()]
	p.Objectives(state, first, c, sample.J)
	p.Margins(state, c, first, sample.Margins)
	pref.Priority(p, state, first, c, make([]float64, spec.ObjectiveSize()), sample.Sigma)
	p.Base(state, c, sample.Target)
	for i, v := range sample.U {
		sample.Target[i] = v - sample.Target[i]
	}
	return sample
}

// meanShares writes the mean shares of the safe elites, the better ones weighing more; steps beyond the last repeat it.
func (s *Solver) meanShares(search *Search, u []float64) {
	elites := search.Elites()
	safe := elites[:0:0]
	distance := 0.0
	for i := range elites {
		if elites[i].Safe() {
			safe = append(safe, elites[i])
			distance += elites[i].Cost - elites[0].Cost
		}
	}
	unit := math.Max(temperature*distance/float64(len(safe)), 1e-12*math.Abs(elites[0].Cost)+1e-300)
	nu, width := s.spec.ActionSize(), s.shares.Problem.Spec().ActionSize()
	row, total := make([]float64, width), 0.0
	for i := range safe {
		weight := math.Exp((elites[0].Cost - safe[i].Cost) / unit)
		total += weight
		for h := range len(u) / width {
			step := min(h, search.steps-1)
			s.shares.Share(safe[i].Actions[step*nu:(step+1)*nu], row)
			tensor.Axpy(weight, row, u[h*width:])
		}
	}
	for k := range u {
		u[k] /= total
	}
}

var errNoProposer = errors.New("the method needs a map, and is given none")
