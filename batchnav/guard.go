package batchnav

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/gpc-engine/gpc/domain"
)

// guard rolls decided actions out before they are executed. A plan is the executed actions of a roll-out: a given
// prefix, then those of the base policy, `direct`. It is safe if no margin of a step is below −MarginTolerance, or
// within the noise of it. Also no state may be lost (domain.ProblemAbilities.Failed), and its end must keep the
// terminal margin (domain.ProblemAbilities.TerminalMargin). The plan accepted at one decision is the incumbent of the
// next, one step on. It is executed where the new plan is not safe. Where the incumbent is not safe either, a rescue
// searches a plan, which is followed while it is the cheaper. The guard is the workspace of the loops of one batch.
type guard struct {
	*rollouts
	opt           domain.Guard
	solver        domain.Optimal
	rescueHorizon horizon         // from what a search has found: there may be nothing better
	resumeHorizon horizon         // from a plan before
	receding      domain.Receding // makes both; nil: there are none
	terminal      func(s, c []float64) float64
	escape        func(s, c, u []float64) bool // asked where there is no rescue; nil: the problem knows no escape
	noProjection  bool
	noRescue      bool
	threads       int
	runs          []rollout
	cost, margin  []float64 // of the roll-outs of a call
	projected     []float64
	tolerance     []float64 // of the entries of [s, c], then of u
	prefix        []float64
	single        [1]rollout
	marginBatch   *marginBatch // nil: every step is looked at alone
	finder        finder
	follower      *domain.Follower // of a batch of one; nil: every decision is rolled out
}

// guardState is what the guard keeps of one loop.
type guardState struct {
	accepted plan // at the last decision
	next     plan // of this one, or the steps after the accepted one where extends is set
	other    plan
	extends  bool
	// vain counts the rescues in a row without a safe plan; the next waits for wait decisions.
	vain, wait int
}

func (w *guardState) forget() {
	w.accepted.forget()
	w.vain, w.wait = 0, 0
}

// noiseQuantile tightens a margin by two standard deviations of the noise. 98 % of normal errors do not exceed that on
// one side.
const noiseQuantile = 2

func newGuard(source *loaded, opt *Options, size int) (*guard, error) {
	o := *opt.Guard
	spec := source.spec
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if spec.Plan != 1 {
		return nil, fmt.Errorf("a guard needs plans of one action, those of case %q have %d", spec.Name, spec.Plan)
	}
	l := *source // with a stepper of its own
	if err := l.makeStepper(size); err != nil {
		return nil, err
	}
	g := &guard{
		rollouts: newRollouts(&l), opt: o, solver: opt.Solver, noProjection: opt.NoProjection, threads: l.backend.Describe().HostThreads(),
		cost: make([]float64, size), margin: make([]float64, size), projected: make([]float64, size*spec.ActionSize()),
	}
	if opt.Rescue != nil && !opt.NoRescue {
		g.receding = opt.Rescue
		g.rescueHorizon, g.resumeHorizon = g.newHorizon(cmp.Or(o.Iterations, domain.DefaultRescueIterations)), g.newHorizon(o.Iterations)
	}
	g.tight = make([]float64, size)
	if g.noRescue = opt.NoRescue; !g.noRescue || spec.Horizon == 0 { // what runs without a solver knows no regulator either
		g.terminal = l.abilities.TerminalMargin
	}
	if g.noRescue {
		g.escape = l.abilities.Escape
	}
	if o.Noise > 0 {
		for _, v := range spec.Measured {
			g.noise = append(g.noise, noiseQuantile*o.Noise*v.Scale())
		}
	}
	for _, v := range l.model.NormX.Scale[:spec.MeasuredSize()+spec.ContextSize()] {
		g.tolerance = append(g.tolerance, sameState*float64(v))
	}
	for _, v := range l.model.NormU.Scale {
		g.tolerance = append(g.tolerance, sameState*float64(v))
	}
	g.grow(size, max(1, g.threads))
	var err error
	if g.noise == nil && !g.noProjection {
		if g.marginBatch, err = newMarginBatch(&l); err != nil {
			return nil, fmt.Errorf("guard: %w", err)
		}
	}
	if !g.noRescue {
		g.finder, err = newRescuer(source, opt, g.noise)
	}
	return g, err
}

// horizon is a solver with a bound on its iterations, 0: its own.
type horizon struct {
	domain.Horizon
	iterations int
}

func (g *guard) newHorizon(iterations int) horizon {
	return horizon{g.receding.NewHorizon(iterations), iterations}
}

// sameState is how far, in the map's units, a state may be from the predicted one for a plan of that one to hold.
const sameState = 1e-9

// equalWithin reports whether a is b but for rounding.
func equalWithin(a, b, tolerance []float64) bool {
	for i, v := range a {
		if !(math.Abs(v-b[i]) <= tolerance[i]) {
			return false
		}
	}
	return true
}

// watch rolls the decisions of all loops out together, then replaces those that fail.
func (g *guard) watch(a *Batch, obs []Observation, out []Decision) error {
	if g.follower != nil && g.followed(a, obs, out) {
		return nil
	}
	g.runs = g.runs[:0]
	for i := range obs {
		if l := a.loopAt(i); l.bad {
			l.guard.forget()
		} else if err := g.ask(l, obs[i].C, a.preference(&obs[i])); err != nil {
			return err
		}
	}
	if err := g.roll(g.runs); err != nil {
		return err
	}
	for i := range obs {
		if l := a.loopAt(i); !l.bad {
			if err := g.acceptPlan(l, obs[i].C, a.preference(&obs[i]), &out[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// followed reports whether the decisions need no roll-out, as the follower's plan continues them. The plan of a rescue
// is compared with the decision instead.
func (g *guard) followed(a *Batch, obs []Observation, out []Decision) bool {
	l, o, d := a.loopAt(0), &obs[0], &out[0]
	if l.bad || l.guard.accepted.solved {
		return false
	}
	plan, keeps := g.keeps(l, o.C, d)
	if !keeps {
		renewed := false
		if plan, renewed = g.follower.Renew(l.state, o.C); renewed {
			g.prefix = append(append(g.prefix[:0], l.u...), plan...)
			l.guard.accepted.take(g.prefix, len(l.u)) // one step on it is the incumbent
			a.execute(0, o, d)
			plan, keeps = g.keeps(l, o.C, d)
		}
	}
	if keeps {
		l.guard.accepted.take(plan, len(l.u))
		l.guard.vain, l.guard.wait = 0, 0
	}
	return keeps
}

func (g *guard) keeps(l *loop, c []float64, d *Decision) (plan []float64, keeps bool) {
	if d.Fallback&domain.FallbackAction != 0 || !g.spec.Keeps(d.Margin) {
		return nil, false
	}
	return g.follower.Keeps(l.state, c, l.u)
}

// ask requests the roll-out of a decision. Where the decision is the incumbent's action in the state that it was
// planned for, only the steps after the incumbent's end are new. A decision of a search continues as the search rolled
// it out.
func (g *guard) ask(l *loop, c []float64, pref domain.Preference) error {
	w, p := &l.guard, &l.guard.accepted
	nu, ns, steps := len(l.u), len(l.state), g.steps(c)
	remaining := p.steps - 1
	w.extends = p.safe() && remaining > 0 && len(p.s) > 0 && equalWithin(l.state, p.s, g.tolerance) && equalWithin(c, p.c, g.tolerance[ns:]) && equalWithin(l.u, p.actions[nu:], g.tolerance[ns+len(c):])
	if w.extends {
		w.next.forget()
		if steps > remaining {
			g.runs = append(g.runs, rollout{s: p.endS, c: p.endC, pref: pref, steps: steps - remaining, result: &w.next})
		}
		return nil
	}
	r := rollout{s: l.state, c: c, pref: pref, prefix: l.u, steps: steps, priced: p.solved, result: &w.next}
	if l.memory == nil || l.memory.Best() == nil {
		g.runs = append(g.runs, r)
		return nil
	}
	if l.prepared.ready { // the plan is of the state that was expected
		r.offsets = l.memory.offsets(steps)
	} else {
		g.resumeSearch(l.memory, l.u, &r)
	}
	return g.rollOne(r)
}

// resumeSearch makes a roll-out begin with an action and continue as a search found it. It takes the executed actions
// of the search if there are some, so that no network is asked, and its policy otherwise.
func (g *guard) resumeSearch(m *memory, u []float64, r *rollout) {
	if len(m.plan) == 0 {
		r.prefix, r.offsets = u, m.offsets(r.steps)
		return
	}
	g.prefix = append(append(g.prefix[:0], u...), m.plan[len(u):]...)
	r.prefix = g.prefix[:min(len(g.prefix), r.steps*len(u))]
}

// steps of the look-ahead from a context.
func (g *guard) steps(c []float64) int {
	return lookAhead(g.spec, g.abilities, c, g.opt.Steps, 0)
}

// acceptPlan accepts a plan for a loop: the new one if it is safe, else the incumbent if it is safe. Otherwise it takes
// the best of both and of a solver's plan.
func (g *guard) acceptPlan(l *loop, c []float64, pref domain.Preference, d *Decision) error {
	w, nu := &l.guard, len(l.u)
	var elapsed time.Duration
	incumbent := w.accepted.steps > 1
	if w.extends {
		g.extend(l, c)
		incumbent = false // it is the new one
	}
	if !w.next.safe() {
		d.Fallback |= domain.FallbackGuard
	}
	if incumbent && (w.accepted.solved || !w.next.safe()) {
		tail := w.accepted.actions[min(nu, len(w.accepted.actions)):]
		r := rollout{s: l.state, c: c, pref: pref, prefix: tail, steps: w.next.steps, solved: w.accepted.solved, result: &w.other}
		if err := g.compare(w, d, r, domain.FallbackIncumbent); err != nil {
			return err
		}
		start := time.Now()
		if err := g.resolve(l, r, d); err != nil {
			return err
		}
		elapsed = time.Since(start)
	}
	if w.next.safe() {
		w.vain, w.wait = 0, 0
	} else if err := g.rescue(l, c, pref, d, elapsed); err != nil {
		return err
	}
	d.Breaks = w.next.fails == 0 // what breaks a limit later is decided again before
	w.accepted, w.next = w.next, w.accepted
	if d.Fallback.Replaced() {
		copy(l.u, w.accepted.actions[:nu])
		g.problem.Margins(l.state, c, l.u, l.margins)
		d.Margin = domain.Smallest(l.margins)
	}
	return nil
}

// resolve lets the solver continue from the incumbent where the plant is not in the state that the incumbent foresaw.
// From there its actions lead elsewhere, and their projections onto the limits may cost many times as much. The solver
// begins at the actions before projection, which are next to an optimum.
func (g *guard) resolve(l *loop, r rollout, d *Decision) error {
	w := &l.guard
	if w.next.safe() && d.Fallback&domain.FallbackIncumbent == 0 || w.wait > 0 || g.receding == nil {
		return nil
	}
	if len(r.prefix) == 0 || len(w.accepted.s) == 0 || equalWithin(r.s, w.accepted.s, g.tolerance) { // nothing is left of it, or it was foreseen
		return nil
	}
	d.Fallback |= domain.FallbackRescue
	r.solved = true
	return g.solve(g.resumeHorizon, l, r, r.prefix, d, g.opt.Deadline)
}

// take makes the other plan the next where it is better; source is the fallback that it comes from.
func (g *guard) take(w *guardState, d *Decision, source domain.Fallback) {
	const anyone = domain.FallbackIncumbent | domain.FallbackSolver | domain.FallbackConservative | domain.FallbackEscape
	if w.other.better(&w.next) {
		w.next, w.other = w.other, w.next
		d.Fallback = d.Fallback&^anyone | source
	}
}

// extend makes the next plan of the incumbent, one step on, and the steps after its end.
func (g *guard) extend(l *loop, c []float64) {
	w, nu := &l.guard, len(l.u)
	p, tail := &w.accepted, &w.next
	remaining := p.steps - 1
	copy(p.actions, p.actions[nu:])
	p.actions = append(p.actions[:remaining*nu], tail.actions...)
	g.problem.Step(l.state, c, l.u, p.s, p.c)
	p.steps, p.fails = remaining, remaining
	if tail.steps > 0 {
		p.steps, p.fails = remaining+tail.steps, remaining+tail.fails
		p.endS, tail.endS = tail.endS, p.endS
		p.endC, tail.endC = tail.endC, p.endC
		p.margin, p.narrow = tail.margin, p.narrow || tail.narrow
	}
	w.accepted, w.next = w.next, w.accepted
}

// compare rolls a candidate out, which becomes the next plan where it is better.
func (g *guard) compare(w *guardState, d *Decision, r rollout, source domain.Fallback) error {
	r.priced = !g.noRescue // without rescues a plan is only ever taken for what it keeps
	if err := g.rollOne(r); err != nil {
		return err
	}
	g.take(w, d, source)
	return nil
}
