package gpc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// Resolved is a method of a case with all that its controllers are made of. Resolve makes it
// once; what evaluates, serves or exports takes it from there and looks nothing up again.
type Resolved struct {
	Method domain.Method
	// Model is the map that the method decides by and Weights what it brings; nil: none.
	Model   *model.Model
	Weights []byte
	// Candidates per decision; 0: the method's own number, if it has one.
	Candidates int

	controlCase *Case
	// options are the navigator's, or those of the map's loops and proposals in another method.
	options batchnav.Options
}

// Resolve finds the method of a setup, the map that it needs, which must be one of the case, and the
// constants of its online step.
func (c *Case) Resolve(s Setup) (*Resolved, error) {
	m, err := c.method(s.Method)
	if err != nil {
		return nil, err
	}
	if err := c.truthful(m); err != nil {
		return nil, err
	}
	r := &Resolved{Method: m, Weights: s.Weights, Candidates: s.Candidates, controlCase: c}
	if !mapped(m) {
		return r, nil
	}
	if r.Model, err = c.fitted(s.Model); err != nil {
		return nil, err
	}
	if r.options = (batchnav.Options{Navigation: m.Navigation, NoRollout: m.NoRollout}); r.Navigates() {
		if r.options, err = batchnav.OptionsFor(m.Name); err != nil {
			return nil, BadInput(err)
		}
		if r.mayReplace() { // an ablation executes what it decodes
			r.options.Solver = c.def.Rescue
		}
	}
	r.options.Navigation = cmp.Or(s.Navigation, r.options.Navigation)
	return r, nil
}

// Navigates reports whether the method is the navigator or a variant of it, whose loops can decide
// together.
func (r *Resolved) Navigates() bool { return r.Method.New == nil }

// Goals is nil where loops of the method reach goals (domain.Goals), and says why they do not elsewhere.
func (r *Resolved) Goals() error {
	c, spec := r.controlCase, r.controlCase.Spec()
	switch o := r.options; {
	case !r.Navigates() || o.Search != batchnav.SearchOptions{} && (o.Search.Polish == 0 || o.Search.Ahead) || o.NoSemantic:
		return badInputf("method %s decides by weights or the adaptive priority alone: a goal is reached by direct, navigator and polish, which decide by a map", r.Method.Name)
	case spec.Horizon > 0 || spec.LookAhead() < spec.Steps:
		return badInputf("case %s looks %d decisions ahead, and not to the end of an episode, up to which a goal counts", c.Name(), spec.LookAhead())
	case c.def.Delay.Periods > 0:
		return badInputf("case %s has a delay: a goal does not count what the actions under way cost", c.Name())
	}
	return nil
}

// mayReplace reports whether a variant of the navigator may replace what it decodes.
func (r *Resolved) mayReplace() bool { return !r.options.NoProjection && !r.options.NoFallback }

// SHA256 is that of the map or the weights, "" for a method without.
func (r *Resolved) SHA256() (string, error) {
	switch {
	case r.Model != nil:
		return r.Model.SHA256()
	case r.Method.Needs&domain.NeedsWeights != 0:
		return durable.Sum(sha256.Sum256(r.Weights)), nil
	}
	return "", nil
}

// guarded reports whether the navigator's decisions are looked after.
func (c *Case) guarded() bool { return !c.def.Guard.Off && c.Spec().Plan == 1 }

// proposals is the room for candidates that a proposer begins with; it grows with what
// it is asked.
const proposals = 4096

var errNoEngine = errors.New("gpc: a method with a map needs an engine, the engine given is nil")

// Controller makes the method, which decides in one closed loop. e is nil for a method
// without a map. Of a case with a Measurement or a Delay it has DecideMeasured, unless the method is given
// the truth.
func (r *Resolved) Controller(e *Engine) (domain.Controller, error) {
	if !r.controlCase.indirect() {
		return r.controller(e)
	}
	return r.estimating(e)
}

// controller decides by the state.
func (r *Resolved) controller(e *Engine) (domain.Controller, error) {
	if r.Navigates() {
		n, err := r.Loop(e)
		if err != nil {
			return nil, err
		}
		return n.Controller(), nil
	}
	means := domain.Means{Weights: r.Weights, Candidates: r.Candidates}
	weighted := r.Method.Needs&domain.NeedsWeights != 0
	if weighted && r.Weights == nil {
		return nil, badOptionf("method %s needs the file of its weights: give it with {Model}", r.Method.Name)
	}
	if r.Model != nil {
		if err := r.learned(e, &means); err != nil {
			return nil, err
		}
	}
	domain.Prepare(r.controlCase.def.Problem)
	ctrl, err := r.Method.New(means)
	if weighted {
		err = BadInput(err)
	}
	return ctrl, err
}

// learned is the map among a method's means.
func (r *Resolved) learned(e *Engine, means *domain.Means) (err error) {
	if e == nil {
		return errNoEngine
	}
	problem := r.controlCase.def.MapProblem()
	if means.Proposer, err = batchnav.NewProposer(e.backend, r.Model, problem, r.options, max(proposals, r.Candidates)); err != nil {
		return BadInput(err)
	}
	means.Loop = func() (domain.Controller, error) {
		n, err := batchnav.NewNavigator(e.backend, r.Model, problem, r.options)
		if err != nil {
			return nil, BadInput(err)
		}
		return n.Controller(), nil
	}
	means.Accelerator, _ = e.backend.(domain.Accelerator)
	return nil
}

// Loop makes one closed loop of the navigator or a variant of it.
func (r *Resolved) Loop(e *Engine) (*batchnav.Navigator, error) {
	opt, err := r.guardedOptions(e)
	if err != nil {
		return nil, err
	}
	n, err := batchnav.NewNavigator(e.backend, r.Model, r.controlCase.def.Problem, opt)
	return n, BadInput(err)
}

// Loops makes n closed loops that decide together: each call of the engine serves all.
func (r *Resolved) Loops(e *Engine, n int) (*batchnav.Batch, error) {
	opt, err := r.guardedOptions(e)
	if err != nil {
		return nil, err
	}
	b, err := batchnav.NewBatch(e.backend, r.Model, r.controlCase.def.Problem, opt, n)
	return b, BadInput(err)
}

// guardedOptions are the options of loops on an engine, looked after where the case says so.
func (r *Resolved) guardedOptions(e *Engine) (batchnav.Options, error) {
	opt, c := r.options, r.controlCase
	switch {
	case !r.Navigates():
		return opt, badInputf("method %s of case %s decides in one loop at a time: make it with Controller", r.Method.Name, c.Name())
	case e == nil:
		return opt, errNoEngine
	}
	if c.guarded() && r.mayReplace() {
		opt.Guard = &c.def.Guard
		opt.Rescue, _ = c.def.Solver.(domain.Receding)
	}
	if r.Method.Candidates > 0 && r.Candidates != 0 {
		opt.Search.Candidates = r.Candidates
	}
	return opt, nil
}

// Controller makes the method of a setup; see Resolved.
func (c *Case) Controller(e *Engine, s Setup) (domain.Controller, error) {
	r, err := c.Resolve(s)
	if err != nil {
		return nil, err
	}
	return r.Controller(e)
}

// Loop makes one closed loop of the navigator or a variant of it; see Resolved.
func (c *Case) Loop(e *Engine, s Setup) (*batchnav.Navigator, error) {
	r, err := c.Resolve(s)
	if err != nil {
		return nil, err
	}
	return r.Loop(e)
}

// Loops makes n closed loops that decide together; see Resolved.
func (c *Case) Loops(e *Engine, s Setup, n int) (*batchnav.Batch, error) {
	r, err := c.Resolve(s)
	if err != nil {
		return nil, err
	}
	return r.Loops(e, n)
}

// Refiner refines many candidates of one observation after another. It is used by one
// goroutine.
type Refiner struct {
	c      *Case
	engine *Engine
	method *Resolved // of search
	// One of them: the navigator's, or for a case whose map is not about its own
	// problem the method that searches.
	latent *batchnav.Refiner
	search domain.Controller // for method.Candidates
	choice func() domain.Chosen
}

// Refiner prepares refinement with room for candidates. Setup.Method is the method
// that searches, in a case whose map is not about its own problem.
func (c *Case) Refiner(e *Engine, s Setup, candidates int) (*Refiner, error) {
	if e == nil {
		return nil, errNoEngine
	}
	r := &Refiner{c: c, engine: e}
	if c.def.Learned == nil {
		m, err := c.fitted(s.Model)
		if err != nil {
			return nil, err
		}
		r.latent, err = batchnav.NewRefiner(e.backend, m, c.def.Problem, batchnav.Options{}, candidates)
		return r, BadInput(err)
	}
	var err error
	if r.method, err = c.Resolve(s); err != nil {
		return nil, err
	}
	return r, r.prepare(candidates)
}

// prepare makes the method that searches among so many candidates, and shows what it chose.
func (r *Refiner) prepare(candidates int) (err error) {
	if candidates < 1 || candidates > batchnav.MaxCandidates {
		return badInputf("refine: %d candidates, want 1 to %d", candidates, batchnav.MaxCandidates)
	}
	if r.search != nil && r.method.Candidates == candidates {
		return nil
	}
	r.method.Candidates = candidates
	if r.search, err = r.method.Controller(r.engine); err != nil {
		return err
	}
	if r.choice = domain.AbilitiesOfController(r.search).Chosen; r.choice == nil {
		return badInputf("refine: the map of case %s is of another problem (%s), and method %q has no search that can be shown", r.c.Name(), r.c.MapSpec().Description, r.method.Method.Name)
	}
	return nil
}

// Refine returns the best plan of many candidates; see batchnav.Refiner. A case whose
// map is not about its own problem searches as its method does at a first decision,
// and takes of opt only Candidates: the rest is the method's own.
func (r *Refiner) Refine(ctx context.Context, obs batchnav.Observation, opt batchnav.RefineOptions) (*batchnav.Refinement, error) {
	if r.latent != nil {
		return r.latent.Refine(ctx, obs, opt)
	}
	spec := r.c.Spec()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if opt.LookAhead != 0 || opt.NoProjection || opt.NoRounds || opt.TimeLimit != 0 || opt.FlowSteps > 1 || opt.Mixture != (batchnav.Mixture{}) {
		return nil, badInputf("refine: case %s chooses look-ahead, projection, flow, rounds, time and mixture of candidates itself: leave them out", spec.Name)
	}
	if err := spec.CheckObservation(obs.S, obs.C, obs.Preference); err != nil {
		return nil, badInputf("refine: the observation %w", err)
	}
	if err := r.prepare(opt.Candidates); err != nil {
		return nil, err
	}
	if err := r.search.Reset(nil); err != nil {
		return nil, err
	}
	start := time.Now()
	decision, err := r.search.Decide(obs.S, obs.C, obs.Preference, make([]float64, spec.ActionSize()))
	if err != nil {
		return nil, err
	}
	elapsed := time.Since(start)
	c := r.choice()
	if len(c.Plan) == 0 {
		return nil, badInputf("refine: at this observation case %s has nothing to choose: no candidate has a score", spec.Name)
	}
	out := &batchnav.Refinement{
		U: c.Plan, Cost: c.Cost, Margin: c.Margin, Feasible: c.Feasible, Candidates: c.Candidates, Source: c.Source,
		FeasibleCount: c.FeasibleCount, LookAhead: c.LookAhead, LocalizedCost: c.Baseline, LocalizedFeasible: c.BaselineFeasible,
		Consistent: c.Consistent, Sources: c.Sources,
	}
	out.Sigma = append([]float64(nil), decision.Sigma...)
	out.Locate(decision.Residual, decision.Limit)
	out.Rounds = []batchnav.RefineRound{{Candidates: c.Candidates, Cost: c.Cost, Margin: c.Margin, Feasible: c.Feasible}}
	out.Latency.Total = machine.Microseconds(elapsed)
	return out, nil
}

// Fronts prepares the trade-offs of single observations, in a case whose map is about its own problem. With switched
// inputs the points are plans of the setup's method.
func (c *Case) Fronts(e *Engine, s Setup) (*batchnav.Fronts, error) {
	switch {
	case e == nil:
		return nil, errNoEngine
	case len(c.Spec().Switches) > 0:
		return c.searchFronts(e, s)
	case c.def.Learned != nil:
		return nil, badInputf("the map of case %s is of another problem (%s): it has no front", c.Name(), c.MapSpec().Description)
	}
	m, err := c.fitted(s.Model)
	if err != nil {
		return nil, err
	}
	f, err := batchnav.NewFronts(e.backend, m, c.def.Problem, batchnav.Options{})
	return f, BadInput(err)
}

// searchFronts are those of a method that searches, each from its neighbour's plan.
func (c *Case) searchFronts(e *Engine, s Setup) (*batchnav.Fronts, error) {
	k, err := c.Controller(e, s)
	if err != nil {
		return nil, err
	}
	abilities, u := domain.AbilitiesOfController(k), make([]float64, c.Spec().ActionSize())
	if abilities.Chosen == nil || abilities.Again == nil {
		return nil, badInputf("method %s of case %s shows no plans, which a front needs", s.Method, c.Name())
	}
	search := func(_ context.Context, obs batchnav.Observation, neighbour []float64, _ int) (domain.Chosen, error) {
		if err := k.Reset(nil); err != nil {
			return domain.Chosen{}, err
		}
		if neighbour != nil {
			abilities.Again(neighbour)
		}
		_, err := k.Decide(obs.S, obs.C, obs.Preference, u)
		return abilities.Chosen(), err
	}
	return batchnav.NewSearchFronts(c.def.Problem, search), nil
}

// solvedPoints are the weightings of a front whose points are solved or searched one after another, where none are stated.
const solvedPoints = 50

// FrontPoints are the weightings of a front that states none.
func (c *Case) FrontPoints() int {
	if len(c.Spec().Switches) > 0 {
		return solvedPoints
	}
	return batchnav.DefaultPoints
}

// ExactFront is the front of the case's exact solver, or where inputs are switched of its reference; it needs no map. Without weights in the
// options it has a lattice of Points, or 50, with no weight below a hundredth. known may be the map's front of the same weightings.
func (c *Case) ExactFront(ctx context.Context, obs batchnav.Observation, opt batchnav.FrontOptions, known *batchnav.Front) (*batchnav.Front, error) {
	if m := c.Spec().ObjectiveSize(); len(opt.Weights) == 0 {
		opt.Weights = dataset.Proper(m, max(m, cmp.Or(opt.Points, solvedPoints)))
	}
	if solver, ok := c.def.Solver.(domain.Receding); ok {
		f, err := batchnav.ExactFront(ctx, c.def.Problem, solver, obs, opt, known)
		return f, BadInput(err)
	}
	search := c.optima()
	if search == nil {
		return nil, badInputf("case %s has no exact solver of single decisions", c.Name())
	}
	opt.Polish = 0
	f, err := batchnav.NewSearchFronts(c.def.Problem, search).Front(ctx, obs, opt)
	return f, BadInput(err)
}

// optima plans by a solver whose plans no start changes: that knows the optimal action in any state, or a reference. nil: there is none.
func (c *Case) optima() batchnav.FrontSearch {
	type reference interface {
		Oracle(s, c []float64, steps int, pref domain.Preference) (cost float64, plan [][]float64, err error)
	}
	optimal := domain.AbilitiesOfSolver(c.def.Solver).Optimal
	if _, ok := c.def.Solver.(reference); !ok && optimal == nil {
		return nil
	}
	return func(ctx context.Context, obs batchnav.Observation, _ []float64, decisions int) (domain.Chosen, error) {
		if optimal == nil {
			_, plan, err := domain.SolverUntil(ctx, c.def.Solver).(reference).Oracle(obs.S, obs.C, decisions, obs.Preference)
			if errors.Is(err, domain.ErrInfeasible) {
				return domain.Chosen{}, nil
			}
			return domain.Chosen{Plan: slices.Concat(plan...), Feasible: true}, err
		}
		nu := c.Spec().ActionSize()
		plan := make([]float64, decisions*nu)
		s, cx := slices.Clone(obs.S), slices.Clone(obs.C)
		nextS, nextC := slices.Clone(s), slices.Clone(cx)
		for u := range slices.Chunk(plan, nu) {
			if !optimal(s, cx, obs.Preference, u) {
				return domain.Chosen{}, ctx.Err()
			}
			c.def.Problem.Step(s, cx, u, nextS, nextC)
			s, nextS = nextS, s
			cx, nextC = nextC, cx
		}
		return domain.Chosen{Plan: plan, Feasible: true}, nil
	}
}

// HypervolumeRatio is that of a front to that of an exact one of the same weightings, in the box of the exact one. Where that is
// incomplete only the weightings count that it has.
func HypervolumeRatio(f, exact *batchnav.Front) closedloop.Number {
	var fronts [2][][]closedloop.Number
	for k, points := range [2][]batchnav.FrontPoint{f.Points, exact.Points} {
		for _, p := range points {
			solved := func(q batchnav.FrontPoint) bool { return slices.Equal(p.W, q.W) }
			if !p.Feasible || k == 1 && p.Dominated || exact.Incomplete && !slices.ContainsFunc(exact.Points, solved) {
				continue
			}
			row := make([]closedloop.Number, len(p.J))
			for j, v := range p.J {
				row[j] = closedloop.Number(v)
			}
			fronts[k] = append(fronts[k], row)
		}
	}
	return closedloop.Number(closedloop.HypervolumeRatio(fronts[0], fronts[1]))
}

// Drive is closed loops of one method, whichever it is, that take and give rows of numbers:
// what a caller has who holds observations in arrays. Loops of the navigator decide together,
// as those of Case.Loops; of any other method one after another. Of a case with a Measurement each loop has an estimator, and
// an observation has the outputs in place of the states. It is used by one goroutine.
type Drive struct {
	c            *Case
	observed     domain.Spec     // of an observation: the case's, with the outputs of a Measurement as its states
	batch        *batchnav.Batch // nil: controllers
	controllers  []domain.Controller
	abilities    []*domain.ControllerAbilities // theirs
	observations []batchnav.Observation
	decisions    []batchnav.Decision
	margins      []float64 // scratch of controllers
	reaches      error     // why the loops reach no goals; nil: they do
	goal         *domain.Goals
}

// Driven receives n decisions; a nil slice is not written.
type Driven struct {
	U       []float64 // executed actions [n, n_u], physical units
	Sigma   []float64 // priority that steered [n, M]; NaN where there was none
	Margins []float64 // every hard margin of U in what was measured [n, n_m]
	// Margin is the smallest of Margins, Residual and Limit say how far the observation is off
	// the map and from where on it is, Displacement is ‖z_{t+1} − z_t‖; see batchnav.Decision. [n]
	Margin, Residual, Limit, Displacement []float64
	Fallback                              []domain.Fallback // [n]
	Times                                 []domain.Times    // of the whole batch, in each row [n]
	// S and C are the state and context that a decision was made by [n, n_s], [n, n_c]: estimates where a loop has an estimator.
	// Faults are what it found wrong with each output, [n, n_y].
	S, C   []float64
	Faults []string
}

// Drive makes n closed loops of a method. One that has to know the episode, such as an
// oracle, is refused.
func (c *Case) Drive(e *Engine, s Setup, n int) (*Drive, error) {
	r, err := c.Resolve(s)
	if err != nil {
		return nil, err
	}
	if n < 1 || n > maxDrive {
		return nil, badInputf("%d closed loops, want 1 to %d", n, maxDrive)
	}
	d := &Drive{c: c, observed: *c.Spec(), reaches: r.Goals(), observations: make([]batchnav.Observation, n), decisions: make([]batchnav.Decision, n), margins: make([]float64, len(c.Spec().Margins))}
	if c.def.Measurement != nil {
		d.observed.Measured = c.def.Measurement.Outputs
	}
	if r.Navigates() && !c.indirect() {
		d.batch, err = r.Loops(e, n)
		return d, err
	}
	for range n {
		k, err := r.Controller(e)
		if err != nil {
			return nil, err
		}
		d.controllers, d.abilities = append(d.controllers, k), append(d.abilities, domain.AbilitiesOfController(k))
	}
	if err := d.Reset(); err != nil {
		return nil, badInputf("method %s of case %s: %w", r.Method.Name, c.Name(), err)
	}
	return d, nil
}

// maxDrive bounds what a request can ask for.
const maxDrive = 1 << 20

// Size is the number of loops.
func (d *Drive) Size() int { return len(d.observations) }

// Shown says what an observation has: of a case with a Measurement its outputs stand in the place of the states.
func (d *Drive) Shown() *domain.Spec { return &d.observed }

// Executed says that loop i executed u in place of what it decided last, which its estimator counts on.
func (d *Drive) Executed(i int, u []float64) error {
	switch nu := d.c.Spec().ActionSize(); {
	case i < 0 || i >= d.Size():
		return badInputf("loop %d, want 0 to %d", i, d.Size()-1)
	case len(u) != nu:
		return badInputf("an action of %d entries, want %d", len(u), nu)
	case !tensor.Finite(u):
		return badInputf("the executed action is %v, want finite numbers", u)
	case d.batch != nil:
		d.batch.Executed(i, u)
		return nil
	}
	if d.abilities[i].Executed != nil {
		d.abilities[i].Executed(u)
	}
	return nil
}

// SetGoal gives every loop goals in place of the adaptive priority; nil takes them away. Decisions with weights do not follow them. The
// method must decide by a map of the case's own problem.
func (d *Drive) SetGoal(g *domain.Goals) error {
	switch {
	case g == nil:
	case d.reaches != nil:
		return d.reaches
	default:
		if err := g.Validate(d.c.Spec().ObjectiveSize()); err != nil {
			return BadInput(err)
		}
	}
	d.goal = g
	return nil
}

// Reset starts an episode in every loop.
func (d *Drive) Reset() error {
	for i := range d.observations {
		if err := d.ResetLoop(i); err != nil {
			return err
		}
	}
	return nil
}

// ResetLoop starts an episode in loop i alone.
func (d *Drive) ResetLoop(i int) error {
	if i < 0 || i >= d.Size() {
		return badInputf("loop %d, want 0 to %d", i, d.Size()-1)
	}
	if d.batch != nil {
		d.batch.ResetLoop(i)
		return nil
	}
	return d.controllers[i].Reset(nil)
}

// Decide makes one decision in every loop. An entry of an observation that is not finite is
// a sensor's fault, which loops of the navigator answer and flag.
func (d *Drive) Decide(in batchnav.Rows, out Driven) error {
	spec, observed, n := d.c.Spec(), &d.observed, d.Size()
	if err := in.Check(observed, n); err != nil {
		return BadInput(err)
	}
	for i := range d.observations {
		o := in.At(observed, i)
		if err := o.Preference.Validate(spec.ObjectiveSize()); err != nil {
			return badInputf("observation %d: %w", i, err)
		}
		if err := observed.CheckSizes(o.S, o.C); err != nil {
			return badInputf("observation %d %w", i, err)
		}
		if o.Preference.Adaptive && d.goal != nil {
			o.Preference = domain.Preference{Goal: d.goal}
		}
		d.observations[i] = o
	}
	if err := out.check(spec, observed, n); err != nil {
		return err
	}
	if d.batch != nil {
		if err := d.batch.Decide(d.observations, d.decisions); err != nil {
			return err
		}
		for i := range d.decisions {
			out.write(spec, i, &d.decisions[i])
			place(out.S, i, d.observations[i].S)
			place(out.C, i, d.observations[i].C)
		}
		return nil
	}
	for i := range d.controllers {
		if err := d.control(i, &out); err != nil {
			return err
		}
	}
	return nil
}

// Prepare lets a method that works between decisions (domain.Method.Ahead) look for the next
// one of every loop. It is called after the actions were executed; what does not call it has
// its decisions search or solve when they are asked for.
func (d *Drive) Prepare() error {
	if d.batch != nil {
		return d.batch.Prepare()
	}
	for _, abilities := range d.abilities {
		if abilities.Prepare == nil {
			continue
		}
		if err := abilities.Prepare(); err != nil {
			return err
		}
	}
	return nil
}

// control is a decision of loop i by its controller.
func (d *Drive) control(i int, out *Driven) error {
	spec, o := d.c.Spec(), &d.observations[i]
	u := make([]float64, spec.ActionSize())
	if len(out.U) > 0 {
		u = out.U[i*len(u) : (i+1)*len(u)]
	}
	s, c := o.S, o.C
	var result domain.Decision
	var err error
	if measured := d.abilities[i].DecideMeasured; measured != nil { // margins are of when the action begins to act
		s, c = make([]float64, spec.MeasuredSize()), make([]float64, len(c))
		result, err = measured(o.S, o.C, o.Preference, s, c, u)
	} else {
		result, err = d.controllers[i].Decide(s, c, o.Preference, u)
	}
	if err != nil {
		return asBadInput(err)
	}
	place(out.S, i, s)
	place(out.C, i, c)
	if faults := d.abilities[i].Faults; faults != nil && len(out.Faults) > 0 {
		copy(out.Faults[i*d.observed.MeasuredSize():], faults())
	}
	decision := batchnav.Decision{Decision: result, U: u, Margins: d.margins, Margin: math.NaN()}
	if tensor.Finite(s) && tensor.Finite(c) {
		d.c.def.Problem.Margins(s, c, u, d.margins)
		decision.Margin = domain.Smallest(d.margins)
	} else {
		for j := range d.margins {
			d.margins[j] = math.NaN()
		}
	}
	out.write(spec, i, &decision)
	return nil
}

// check says what is wrong with the room for n decisions.
func (o *Driven) check(spec, observed *domain.Spec, n int) error {
	for _, w := range []struct {
		name         string
		length, size int
	}{
		{"U", len(o.U), spec.ActionSize()}, {"Sigma", len(o.Sigma), spec.ObjectiveSize()}, {"Margins", len(o.Margins), len(spec.Margins)},
		{"Margin", len(o.Margin), 1}, {"Residual", len(o.Residual), 1}, {"Limit", len(o.Limit), 1}, {"Displacement", len(o.Displacement), 1},
		{"Fallback", len(o.Fallback), 1}, {"Times", len(o.Times), 1},
		{"S", len(o.S), spec.MeasuredSize()}, {"C", len(o.C), spec.ContextSize()}, {"Faults", len(o.Faults), observed.MeasuredSize()},
	} {
		if w.length != 0 && w.length != n*w.size {
			return BadInput(fmt.Errorf("%s has room for %d entries, %d decisions of case %q have %d each", w.name, w.length, n, spec.Name, w.size))
		}
	}
	return nil
}

// write is decision d in row i.
func (o *Driven) write(spec *domain.Spec, i int, d *batchnav.Decision) {
	place(o.U, i, d.U)
	place(o.Margins, i, d.Margins)
	if len(o.Sigma) > 0 {
		sigma := o.Sigma[i*spec.ObjectiveSize():][:spec.ObjectiveSize()]
		if copy(sigma, d.Sigma) == 0 {
			for j := range sigma {
				sigma[j] = math.NaN()
			}
		}
	}
	for _, w := range []struct {
		dst []float64
		v   float64
	}{{o.Margin, d.Margin}, {o.Residual, d.Residual}, {o.Limit, d.Limit}, {o.Displacement, d.Displacement}} {
		if len(w.dst) > 0 {
			w.dst[i] = w.v
		}
	}
	if len(o.Fallback) > 0 {
		o.Fallback[i] = d.Fallback
	}
	if len(o.Times) > 0 {
		o.Times[i] = d.Times
	}
}

func place(dst []float64, i int, v []float64) {
	if len(dst) > 0 {
		copy(dst[i*len(v):], v)
	}
}

// Observe is the first observation of test episode number index, as Evaluate draws it.
func (c *Case) Observe(seed uint64, index int, opt domain.EpisodeOptions) (batchnav.Observation, error) {
	spec := c.Spec()
	o := batchnav.Observation{S: make([]float64, spec.MeasuredSize()), C: make([]float64, spec.ContextSize()), Preference: opt.Preference}
	if c.def.Plant == nil {
		return o, badInputf("case %s has no plant to draw episodes of", c.Name())
	}
	if index < 0 {
		return o, badInputf("episode %d, want 0 or more", index)
	}
	ep, err := c.def.Plant.Episode(seed, index, opt)
	if err != nil {
		return o, asBadInput(err)
	}
	ep.Observe(o.S, o.C)
	return o, nil
}

// Latents are the operations of the map of a setup one by one: encode, decode, differentiate,
// step. Observations are those of MapSpec.
func (c *Case) Latents(e *Engine, s Setup) (*batchnav.Latents, error) {
	r, err := c.Resolve(s)
	switch {
	case err != nil:
		return nil, err
	case r.Model == nil:
		return nil, badInputf("method %s of case %s decides without a map", r.Method.Name, c.Name())
	case e == nil:
		return nil, errNoEngine
	}
	l, err := batchnav.NewLatents(e.backend, r.Model, c.def.MapProblem(), r.options)
	return l, BadInput(err)
}
