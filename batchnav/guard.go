package batchnav

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/crossentropy"
	"github.com/gpc-engine/gpc/internal/parallel"
	"github.com/gpc-engine/gpc/tensor"
)

// guard rolls decided actions out before they are executed. A plan is the executed actions of a
// roll-out: some that are given, then those of the base policy, `direct`. It is safe if no
// margin of a step is below −MarginTolerance, or within the noise of it, no state is lost
// (domain.ProblemAbilities.Failed), and it ends where it may (domain.ProblemAbilities.TerminalMargin). The plan accepted at one
// decision is, one step on, the incumbent of the next, which is executed where the new one is
// not safe; where that is not either, a rescue looks for one, which is then followed while it
// is the cheaper. It is the workspace of the loops of one batch.
type guard struct {
	*rollouts
	opt          domain.Guard
	solver       domain.Optimal
	horizon      domain.Horizon  // nil: none
	receding     domain.Receding // makes those that keep off the limits
	terminal     func(s, c []float64) float64
	escape       func(s, c, u []float64) bool // asked where there is no rescue; nil: the problem knows no escape
	noProjection bool
	noRescue     bool
	threads      int
	runs         []rollout
	cost, margin []float64 // of the roll-outs of a call
	projected    []float64
	tolerance    []float64 // of the entries of [s, c] and, behind them, of u
	given        []float64
	single       [1]rollout
	stretch      *stretch // nil: every step is looked at alone
	finder       finder
}

// rollout is one roll-out that is asked for: from (s, c) by the given actions, then by the
// policy, which offsets bend, to the end of so many steps.
type rollout struct {
	s, c    []float64
	pref    domain.Preference
	given   []float64     // [≤ steps·action]
	escapes bool          // by the problem's escape instead of the policy
	offsets tensor.Matrix // [1, knots·width] of a search; no rows: none
	steps   int
	solved  bool // found by a rescue
	priced  bool // what it costs is asked
	into    *plan
}

// plan is a roll-out with what is known of it.
type plan struct {
	actions      []float64 // [steps·action] as executed, of one that fails to the step that does
	s, c         []float64 // the state after the first action
	endS, endC   []float64 // and after the last
	cost, margin float64   // a cost only where it is asked
	// fails is the first step that breaks a limit, or steps; narrow says that one comes
	// within the noise of a limit.
	fails, steps int
	narrow       bool
	solved       bool // found by a rescue
}

// lasts reports whether a plan keeps the limits to its end, safe whether by more than the
// noise.
func (p *plan) lasts() bool { return p.steps > 0 && p.fails == p.steps }
func (p *plan) safe() bool  { return p.lasts() && !p.narrow }

func (p *plan) forget() { p.actions, p.steps, p.fails = p.actions[:0], 0, 0 }

// better is safe before cheap; where neither keeps the limits, the later failure, then the
// larger margin.
func (p *plan) better(o *plan) bool {
	switch {
	case p.safe() != o.safe():
		return p.safe()
	case p.lasts() != o.lasts():
		return p.lasts()
	case p.lasts():
		return p.cost < o.cost
	case p.fails != o.fails:
		return p.fails > o.fails
	}
	return p.margin > o.margin
}

// watched is what the guard keeps of one loop.
type watched struct {
	accepted plan // at the last decision
	next     plan // of this one, or what comes behind the accepted where behind is set
	other    plan
	behind   bool
	// After so many rescues in a row that found nothing safe, the next waits.
	vain, wait int
}

func (w *watched) forget() {
	w.accepted.forget()
	w.vain, w.wait = 0, 0
}

// maxVain bounds how long a rescue waits: 2^maxVain decisions.
const maxVain = 10

// noiseQuantile: a margin is tightened by what two standard deviations of the noise take
// from it, which 98 % of normal errors do not exceed on one side.
const noiseQuantile = 2

func newGuard(from *loaded, opt *Options, size int) (*guard, error) {
	o := *opt.Guard
	spec := from.spec
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("batchnav: %w", err)
	}
	if spec.Plan != 1 {
		return nil, fmt.Errorf("batchnav: a guard needs plans of one action, those of case %q have %d", spec.Name, spec.Plan)
	}
	o.Iterations = cmp.Or(o.Iterations, domain.DefaultRescueIterations)
	l := *from // with a stepper of its own
	if err := l.makeStepper(size); err != nil {
		return nil, err
	}
	g := &guard{
		rollouts: newRollouts(&l), opt: o, solver: opt.Solver, noProjection: opt.NoProjection, threads: l.backend.Describe().Threads,
		cost: make([]float64, size), margin: make([]float64, size), projected: make([]float64, size*spec.ActionSize()),
	}
	if opt.Rescue != nil && !opt.NoRescue {
		g.horizon = opt.Rescue.NewHorizon(o.Iterations)
		g.receding = opt.Rescue
	}
	g.tight = make([]float64, size)
	if g.noRescue = opt.NoRescue; !g.noRescue || spec.Horizon == 0 { // what runs without a solver knows no regulator either
		g.terminal = l.may.TerminalMargin
	}
	if g.noRescue {
		g.escape = l.may.Escape
	}
	if o.Noise > 0 {
		for _, v := range spec.Measured {
			g.noise = append(g.noise, noiseQuantile*o.Noise*v.Scale())
		}
	}
	for _, v := range l.model.NormX.Scale[:spec.MeasuredSize()+spec.ContextSize()] {
		g.tolerance = append(g.tolerance, sameState*math.Abs(float64(v)))
	}
	for _, v := range l.model.NormU.Scale {
		g.tolerance = append(g.tolerance, sameState*math.Abs(float64(v)))
	}
	g.grow(size, max(1, g.threads))
	var err error
	if g.noise == nil && !g.noProjection {
		if g.stretch, err = newStretch(&l); err != nil {
			return nil, fmt.Errorf("batchnav: guard: %w", err)
		}
	}
	if !g.noRescue {
		g.finder, err = newRescuer(from, opt, g.noise)
	}
	return g, err
}

// finder is a search of one decision in a given state.
type finder struct {
	*search
	memory          *memory
	input, state, z tensor.Matrix
	slot            []float64
	action          []float32 // the first of the best roll-out
}

func newFinder(s *search) finder {
	spec := s.spec
	return finder{
		search: s, memory: &memory{Memory: s.sampler.NewMemory()}, input: tensor.New(1, spec.ObservationSize()), state: tensor.New(1, spec.MeasuredSize()),
		z: tensor.New(1, s.model.Latent()), slot: make([]float64, spec.PreferenceSize()), action: make([]float32, spec.ActionSize()),
	}
}

// encode writes the latent of an observation.
func (f *finder) encode(s, c []float64, pref domain.Preference) error {
	f.observe(s, c, pref, f.slot, f.input.Row(0), f.state.Row(0), f.present, nil)
	return f.encoder.Forward(f.input, f.z)
}

// find is the decision in a state. The best roll-out, if there is one, is m's; action and
// latent are its first.
func (f *finder) find(m *memory, s, c []float64, pref domain.Preference) (best *crossentropy.Elite, err error) {
	if err := f.encode(s, c, pref); err != nil {
		return nil, err
	}
	if _, err := f.decide(m, s, c, pref, f.state.Row(0), f.z.Row(0), f.action, f.opt.Within); err != nil {
		return nil, err
	}
	return m.Best(), nil
}

// rescueCandidates are enough to find a way where there is one, in about the time of a solve.
const rescueCandidates = 512

func newRescuer(from *loaded, opt *Options, noise []float64) (finder, error) {
	l := *from // with a stepper of its own
	r, err := newSearch(&l, &Options{Search: SearchOptions{Candidates: rescueCandidates, LookAhead: opt.Guard.Steps, Within: opt.Guard.Deadline}})
	if err != nil {
		return finder{}, err
	}
	if noise != nil {
		r.noise, r.tight, r.device = noise, make([]float64, r.round), nil // a device does not know the noise
	}
	return newFinder(r), nil
}

// sameState is how far, in the map's units, a state may be from the predicted one for what
// was found about that one to hold.
const sameState = 1e-9

// near reports whether a is b but for rounding.
func near(a, b, tolerance []float64) bool {
	for i, v := range a {
		if !(math.Abs(v-b[i]) <= tolerance[i]) {
			return false
		}
	}
	return true
}

// watch rolls the decisions of all loops out together, then replaces those that fail.
func (g *guard) watch(a *Batch, obs []Observation, out []Decision) error {
	g.runs = g.runs[:0]
	for i := range obs {
		if l := a.at(i); l.bad {
			l.watched.forget()
		} else if err := g.ask(l, obs[i].C, a.preference(&obs[i])); err != nil {
			return err
		}
	}
	if err := g.roll(g.runs); err != nil {
		return err
	}
	for i := range obs {
		if l := a.at(i); !l.bad {
			if err := g.acceptPlan(l, obs[i].C, a.preference(&obs[i]), &out[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask asks for the roll-out of what was decided. Where that is the incumbent's action in
// the state that it was planned for, what comes behind the incumbent is all that is new.
// What a search has decided goes on as the search rolled it out.
func (g *guard) ask(l *loop, c []float64, pref domain.Preference) error {
	w, p, nu, ns, steps := &l.watched, &l.watched.accepted, len(l.u), len(l.state), g.steps(c)
	known := p.steps - 1
	w.behind = p.safe() && known > 0 && near(l.state, p.s, g.tolerance) && near(c, p.c, g.tolerance[ns:]) && near(l.u, p.actions[nu:2*nu], g.tolerance[ns+len(c):])
	if w.behind {
		w.next.forget()
		if steps > known {
			g.runs = append(g.runs, rollout{s: p.endS, c: p.endC, pref: pref, steps: steps - known, into: &w.next})
		}
		return nil
	}
	r := rollout{s: l.state, c: c, pref: pref, given: l.u, steps: steps, priced: p.solved, into: &w.next}
	if l.memory == nil || l.memory.Best() == nil {
		g.runs = append(g.runs, r)
		return nil
	}
	if len(l.memory.plan) > 0 {
		g.given = append(append(g.given[:0], l.u...), l.memory.plan[nu:]...)
		r.given = g.given[:min(len(g.given), steps*nu)]
	} else {
		r.offsets = l.memory.offsets(steps)
	}
	return g.alone(r)
}

// steps of the look-ahead from a context.
func (g *guard) steps(c []float64) int {
	return lookAhead(g.spec, g.may, c, g.opt.Steps, 0)
}

// alone is roll of one.
func (g *guard) alone(r rollout) error {
	g.single[0] = r
	return g.roll(g.single[:])
}

// roll runs all roll-outs together, step by step. Only one that is alone may be bent.
func (g *guard) roll(runs []rollout) error {
	n, nu := len(runs), g.spec.ActionSize()
	if n == 0 {
		return nil
	}
	// Those still running are the first rows at every step.
	slices.SortStableFunc(runs, func(a, b rollout) int { return b.steps - a.steps })
	most := runs[0].steps
	ns, nc := g.spec.MeasuredSize(), g.spec.ContextSize()
	// The last step is not the batch's, so that where it leads is known.
	b := domain.PlanBatch{S: runs[0].s, C: runs[0].c, Steps: most + 1, NoProjection: g.noProjection, Projected: g.projected[:n*nu], Cost: g.cost[:n], Margin: g.margin[:n]}
	g.executed = slices.Grow(g.executed[:0], n*b.Steps*nu)[:n*b.Steps*nu]
	g.preferences = g.preferences[:0]
	g.offsets = runs[0].offsets
	g.unpriced = !slices.ContainsFunc(runs, func(r rollout) bool { return r.priced })
	t := &g.scratch[0]
	for i := range runs {
		r := &runs[i]
		copy(row(g.s, i, ns), r.s)
		copy(row(g.c, i, nc), r.c)
		g.preferences = append(g.preferences, r.pref)
		if len(r.given) == 0 {
			g.observe(r.s, r.c, r.pref, t.slot, g.input.Row(i), g.state.Row(i), g.ctx.Row(i), nil)
		}
		b.Cost[i], b.Margin[i], g.tight[i] = 0, math.Inf(1), math.Inf(1)
		r.into.fails, r.into.steps, r.into.narrow, r.into.solved = r.steps, r.steps, false, r.solved
	}
	g.batch = b
	defer func() { g.batch, g.preferences = domain.PlanBatch{}, g.preferences[:0] }() // none of the inputs is kept
	skips := g.stretch != nil && n == 1 && g.unpriced
	if skips {
		g.stretch.vain, g.stretch.wait = 0, 0
	}
	for h := 0; n > 0; h++ {
		err, taken := g.decided(runs[:n], h, most), false
		if skips && err == nil {
			h, taken, err = g.skip(runs, h, most)
		}
		if err != nil {
			return err
		}
		if g.h = h; !taken {
			parallel.Split(g.threads, n, g.advanceRows)
		}
		running := 0
		for i := range runs[:n] {
			g.note(&runs[i], h, i)
			if runs[i].into.lasts() && h+1 < runs[i].steps {
				running = i + 1
			}
		}
		n = running
		g.s, g.nextS = g.nextS, g.s
		g.c, g.nextC = g.nextC, g.c
	}
	for i := range runs {
		p := runs[i].into
		p.actions = append(p.actions[:0], g.executed[i*b.Steps*nu:][:min(p.fails+1, p.steps)*nu]...)
	}
	clear(runs)
	return nil
}

// decided writes the actions of step h: those given, then the policy's.
func (g *guard) decided(runs []rollout, h, most int) error {
	nu := g.spec.ActionSize()
	if slices.ContainsFunc(runs, func(r rollout) bool { return h*nu >= len(r.given) && !r.escapes }) {
		if err := g.follow(len(runs), h, most); err != nil {
			return err
		}
	}
	for i := range runs {
		if at := h * nu; at < len(runs[i].given) {
			copy(row(g.u, i, nu), runs[i].given[at:at+nu])
		} else if runs[i].escapes {
			g.escape(row(g.s, i, len(runs[i].s)), row(g.c, i, len(runs[i].c)), row(g.u, i, nu))
		}
	}
	return nil
}

// note writes what step h of roll-out i has shown.
func (g *guard) note(r *rollout, h, i int) {
	p := r.into
	if h >= r.steps || p.fails < h {
		return
	}
	s, c := row(g.nextS, i, len(r.s)), row(g.nextC, i, len(r.c))
	if h == 0 {
		p.s, p.c = append(p.s[:0], s...), append(p.c[:0], c...)
	}
	p.cost, p.margin = g.cost[i], g.margin[i]
	if h == r.steps-1 {
		if g.behind != nil && r.priced {
			p.cost += g.behind(s, c, r.pref)
		}
		p.endS, p.endC = append(p.endS[:0], s...), append(p.endC[:0], c...)
		if t := &g.scratch[0]; tensor.Finite(s) {
			domain.StateMargins(g.problem, g.may, s, c, g.action(g.u, h, i), t.above, t.below)
			p.margin = math.Min(p.margin, domain.Smallest(t.above))
		}
		if g.terminal != nil {
			p.margin = math.Min(p.margin, g.terminal(s, c))
		}
	}
	p.narrow = !g.spec.Keeps(g.tight[i])
	if !g.spec.Keeps(p.margin) || r.priced && math.IsNaN(p.cost) {
		p.fails = h
	}
}

// acceptPlan accepts a plan for a loop: the new one if it is safe, else the incumbent if that
// is, else the best of both and what a solver finds.
func (g *guard) acceptPlan(l *loop, c []float64, pref domain.Preference, d *Decision) error {
	w, nu := &l.watched, len(l.u)
	incumbent := w.accepted.steps > 1
	if w.behind {
		g.extend(l, c)
		incumbent = false // it is the new one
	}
	if !w.next.safe() {
		d.Fallback |= domain.FallbackGuard
	}
	if incumbent && (w.accepted.solved || !w.next.safe()) {
		given := w.accepted.actions[min(nu, len(w.accepted.actions)):]
		r := rollout{s: l.state, c: c, pref: pref, given: given, steps: w.next.steps, solved: w.accepted.solved, into: &w.other}
		if err := g.compare(w, d, r, domain.FallbackIncumbent); err != nil {
			return err
		}
	}
	if w.next.safe() {
		w.vain, w.wait = 0, 0
	} else if err := g.rescue(l, c, pref, d); err != nil {
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

// take makes the other plan the next where it is better; by says whose it is.
func (g *guard) take(w *watched, d *Decision, by domain.Fallback) {
	const anyone = domain.FallbackIncumbent | domain.FallbackSolver | domain.FallbackConservative | domain.FallbackEscape
	if w.other.better(&w.next) {
		w.next, w.other = w.other, w.next
		d.Fallback = d.Fallback&^anyone | by
	}
}

// extend makes the incumbent, one step on, with what comes behind it the next plan.
func (g *guard) extend(l *loop, c []float64) {
	w, nu := &l.watched, len(l.u)
	p, behind := &w.accepted, &w.next
	known := p.steps - 1
	copy(p.actions, p.actions[nu:])
	p.actions = append(p.actions[:known*nu], behind.actions...)
	g.problem.Step(l.state, c, l.u, p.s, p.c)
	p.steps, p.fails = known, known
	if behind.steps > 0 {
		p.steps, p.fails = known+behind.steps, known+behind.fails
		p.endS, behind.endS = behind.endS, p.endS
		p.endC, behind.endC = behind.endC, p.endC
		p.margin, p.narrow = behind.margin, p.narrow || behind.narrow
	}
	w.accepted, w.next = w.next, w.accepted
}

// rescue searches roll-outs for a plan and has the generic solver go on from the best there
// is; where there is no generic one, the case's own is asked for an action, after which the
// policy goes on. What is still not safe is compared with Problem.Fallback's action. Where
// nothing is safe the next rescue is after 1, 2, 4, … decisions.
func (g *guard) rescue(l *loop, c []float64, pref domain.Preference, d *Decision) error {
	w, begun := &l.watched, time.Now()
	r := rollout{s: l.state, c: c, pref: pref, steps: w.next.steps, into: &w.other}
	asks := w.wait == 0 && !g.noRescue
	switch {
	case g.noRescue:
		if g.escape != nil && g.escape(l.state, c, l.alternative) {
			r.escapes = true
			if err := g.compare(w, d, r, domain.FallbackEscape); err != nil {
				return err
			}
			r.escapes = false
		}
	case !asks:
		w.wait--
	case g.solver != nil && g.horizon == nil:
		d.Fallback |= domain.FallbackRescue
		if g.solver.Finds(l.state, c, pref, l.alternative) {
			r.given = l.alternative
			if err := g.compare(w, d, r, domain.FallbackSolver); err != nil {
				return err
			}
		}
	default:
		d.Fallback |= domain.FallbackRescue
		r.solved = true
		if err := g.find(l, r, d); err != nil {
			return err
		}
		left := g.opt.Deadline - time.Since(begun)
		if g.horizon != nil && (g.opt.Deadline == 0 || left > 0) {
			if err := g.solve(l, r, d, left); err != nil {
				return err
			}
		}
	}
	switch {
	case w.next.safe():
		w.vain, w.wait = 0, 0
		return nil
	case asks:
		w.wait = 1<<min(w.vain, maxVain) - 1
		w.vain++
	}
	g.problem.Fallback(l.state, c, l.alternative)
	r.given, r.solved = l.alternative, false
	return g.compare(w, d, r, domain.FallbackConservative)
}

// compare rolls a candidate out, which becomes the next plan where it is better.
func (g *guard) compare(w *watched, d *Decision, r rollout, by domain.Fallback) error {
	r.priced = !g.noRescue // without rescues a plan is only ever taken for what it keeps
	if err := g.alone(r); err != nil {
		return err
	}
	g.take(w, d, by)
	return nil
}

// find compares the best of rescueCandidates roll-outs.
func (g *guard) find(l *loop, r rollout, d *Decision) error {
	f := &g.finder
	f.memory.forget() // a rescue depends on nothing that was before
	best, err := f.find(f.memory, r.s, r.c, r.pref)
	if err != nil || best == nil {
		return err
	}
	tensor.Widen(l.alternative, f.action)
	r.given, r.offsets = l.alternative, f.memory.offsets(r.steps)
	return g.compare(&l.watched, d, r, domain.FallbackSolver)
}

// solve compares the generic solver's plan, from the next; left is what a Deadline leaves.
func (g *guard) solve(l *loop, r rollout, d *Decision, left time.Duration) error {
	horizon := g.horizon
	if g.noise != nil && g.receding != nil {
		if tight := g.receding.Tightened(g.slack(r.s, r.c, l.u, &g.scratch[0])); tight != nil {
			horizon = tight.NewHorizon(g.opt.Iterations)
		}
	}
	if g.opt.Deadline > 0 {
		horizon.Within(left)
	}
	g.given = append(g.given[:0], l.watched.next.actions...)
	for nu := len(l.u); len(g.given) < r.steps*nu; { // the last action is held
		g.given = append(g.given, g.given[len(g.given)-nu:]...)
	}
	horizon.Begin(g.given)
	if _, _, err := horizon.Solve(r.s, r.c, r.pref, g.given); err != nil {
		return fmt.Errorf("batchnav: guard: %w", err)
	}
	r.given = g.given
	return g.compare(&l.watched, d, r, domain.FallbackSolver)
}
