package gpc

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/systemfile"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/tensor"
)

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

// Measured is the case with another description of what is measured of its plant, nil for its state,
// exactly. The plant has to be the generic one, of package closedloop.
func (c *Case) Measured(m *domain.Measurement) (*Case, error) {
	plant, generic := c.def.Plant.(*closedloop.Simulation)
	if !generic {
		return nil, badInputf("case %s simulates its own plant, which fixes what is measured", c.Name())
	}
	if m = c.withGains(m); m != nil {
		if err := m.Validate(c.Spec()); err != nil {
			return nil, badInputf("case %s: %w", c.Name(), err)
		}
	}
	simulation, def := *plant, c.def
	simulation.Measurement = m
	def.Plant, def.Measurement = &simulation, m
	return c.defined(def), nil
}

// Noisy is the case whose states are measured with a normal noise, of one standard deviation in units of each state's scale: those of
// the names alone, where there are any. A case that declares what is measured says that itself, with what acts on its plant and
// what is unknown, and is refused.
func (c *Case) Noisy(deviation float64, states []string) (*Case, error) {
	if !(deviation > 0) || math.IsInf(deviation, 0) {
		return nil, badOptionf("{Estimate} %v: want a standard deviation above 0, in units of each state's scale", deviation)
	}
	if c.def.Measurement != nil {
		return nil, badOptionf("{Estimate} %v: case %s declares what is measured, with its noise: leave the option out", deviation, c.Name())
	}
	if len(states) == 0 {
		return c.Measured(domain.Whole(c.Spec(), deviation))
	}
	m, err := domain.Partly(c.Spec(), deviation, states)
	if err != nil {
		return nil, badOptionf("{EstimateFrom}: %w", err)
	}
	return c.Measured(m)
}

// Windowed is the case whose state is estimated from so many of the last decisions at once (domain.Measurement.Window); 0: by a
// Kalman filter. It needs a Measurement.
func (c *Case) Windowed(decisions int) (*Case, error) {
	if c.def.Measurement == nil {
		return nil, badOptionf("case %s has no Measurement to estimate its state by: declare one, or add noise by {Estimate}", c.Name())
	}
	measurement := *c.def.Measurement
	measurement.Window = decisions
	return c.Measured(&measurement)
}

// Delayed is the case with another delay between what a decision is made by and its action, in periods; 0: none. The plant has to
// be the generic one, of package closedloop.
func (c *Case) Delayed(periods float64) (*Case, error) {
	plant, generic := c.def.Plant.(*closedloop.Simulation)
	if !generic {
		return nil, badInputf("case %s simulates its own plant, which has no delays", c.Name())
	}
	simulation, def := *plant, c.def
	def.Delay.Periods = periods
	if err := def.Delay.Validate(c.Spec()); err != nil {
		return nil, badInputf("case %s: %w", c.Name(), err)
	}
	if plant.Steps > 0 && plant.Steps <= def.Delay.Ahead() {
		return nil, badInputf("case %s: a delay of %v periods in episodes of %d decisions: no decision would act before the end", c.Name(), periods, plant.Steps)
	}
	if simulation.Delay, def.Plant = def.Delay, &simulation; def.Other != nil { // within a period it is the plant that moves
		simulation.Delay.Part, simulation.Delay.PartDual = plant.Delay.Part, plant.Delay.PartDual
	}
	return c.defined(def), nil
}

// On is the case in another plant than its model: that of a case of the same sizes. Its reference and its oracle know that plant, its
// other methods and its data do not. What is measured, and how late, is as here. Where the gains of its
// actuators are uncertain, so are those of that plant. Both plants have to be the generic one, of package closedloop.
func (c *Case) On(other *Case) (*Case, error) {
	plant, generic := c.def.Plant.(*closedloop.Simulation)
	its, simulated := other.def.Plant.(*closedloop.Simulation)
	if !generic || !simulated {
		return nil, badInputf("cases %s and %s: one of them simulates its own plant, which cannot be exchanged", c.Name(), other.Name())
	}
	if share := c.gainShare(); share > 0 && other.gainShare() == 0 {
		var err error
		if other, err = other.UncertainGains(share); err != nil {
			return nil, err
		}
		its = other.def.Plant.(*closedloop.Simulation)
	}
	a, b := c.Spec(), other.Spec()
	for _, n := range []struct {
		quantity    string
		model, that int
	}{
		{"states", a.MeasuredSize(), b.MeasuredSize()}, {"context entries", a.ContextSize(), b.ContextSize()}, {"actions", a.ActionSize(), b.ActionSize()},
		{"objectives", a.ObjectiveSize(), b.ObjectiveSize()}, {"margins", len(a.Margins), len(b.Margins)}, {"decisions", a.Steps, b.Steps},
	} {
		if n.model != n.that {
			return nil, badInputf("the plant %s has %d %s, its model %s has %d: want equal numbers", b.Name, n.that, n.quantity, a.Name, n.model)
		}
	}
	simulation, def := *its, c.def
	simulation.Measurement, simulation.Delay, simulation.Steps = plant.Measurement, its.Delay, plant.Steps
	simulation.Delay.Periods, simulation.Solver = plant.Delay.Periods, other.def.Solver
	if err := simulation.Delay.Validate(b); err != nil {
		return nil, badInputf("the plant %s: %w", b.Name, err)
	}
	model, err := json.Marshal(plant.Params())
	if err != nil {
		return nil, fmt.Errorf("case %s: plant parameters: %w", a.Name, err)
	}
	def.Other = &domain.OtherPlant{Case: b.Name, ProblemSHA256: durable.Sum(domain.FingerprintOf(other.def.Problem)), Shift: other.def.Shift, Model: model}
	def.Plant, def.Altered = &simulation, append(slices.Clone(def.Altered), "the plant is "+def.Other.String())
	return c.defined(def), nil
}

// truthful refuses a method that is given the truth where the plant that runs is another than the model and the method would know the
// model alone.
func (c *Case) truthful(m domain.Method) error {
	if c.def.Other == nil || m.Group != domain.GroupExact {
		return nil
	}
	const instead = "; use nmpc, which knows the model alone, or name the parameters by {Shift}, which every solver knows"
	if slices.ContainsFunc(c.def.Methods, func(method domain.Method) bool { return method.Name == m.Name }) {
		return badOptionf("method %s of case %s is given the truth of that case's own plant, and the plant is %s%s", m.Name, c.Name(), c.def.Other, instead)
	}
	if plant, generic := c.def.Plant.(*closedloop.Simulation); generic {
		if _, solves := plant.Solver.(domain.Receding); solves {
			return nil
		}
	}
	return badOptionf("method %s is given the truth, and the plant %s has no solver for a whole episode%s", m.Name, c.def.Other, instead)
}

// Driven is the case with episodes of so many decisions, of a plant that runs on: what decides does not know how long it is tested.
func (c *Case) Driven(steps int) (*Case, error) {
	plant, generic := c.def.Plant.(*closedloop.Simulation)
	switch {
	case !generic || c.Spec().Horizon == 0:
		return nil, badInputf("the episodes of case %s end after %d decisions: only a plant that runs on (Horizon) takes another number", c.Name(), c.Spec().Steps)
	case steps < 1 || steps > closedloop.MaxEpisodeSteps:
		return nil, badInputf("episodes of %d decisions, want 1 to %d", steps, closedloop.MaxEpisodeSteps)
	case steps <= c.def.Delay.Ahead():
		return nil, badInputf("episodes of %d decisions and a delay of %v periods: no decision would act before the end", steps, c.def.Delay.Periods)
	}
	simulation, def := *plant, c.def
	simulation.Steps, def.Plant = steps, &simulation
	return c.defined(def), nil
}

// Informed is the case whose methods are given the state of its plant, which stays as it is, late where it is.
func (c *Case) Informed() *Case {
	def := c.def
	def.Measurement, def.Level = nil, 0
	return c.defined(def)
}

// direct is the case in which a decision is made by the state that its action begins to act in.
func (c *Case) direct() *Case {
	def := c.def
	def.Measurement, def.Level, def.Delay.Periods = nil, 0, 0
	return c.defined(def)
}

// indirect reports whether a decision is not made by the state that its action begins to act in.
func (c *Case) indirect() bool { return c.def.Measurement != nil || c.def.Delay.Periods > 0 }

// Robust is the case with level standard deviations of its closed loop kept off every limit; 0: none. It
// needs a Measurement.
func (c *Case) Robust(level float64) (*Case, error) {
	switch {
	case c.def.Measurement == nil:
		return nil, badOptionf("case %s has no Measurement, so no error of the state is known to keep off its limits: declare one, or add noise by {Estimate}", c.Name())
	case !(level >= 0) || level > maxLevel:
		return nil, badOptionf("{KeepOff} %v: want 0 to %d standard deviations", level, maxLevel)
	case level > 0 && c.def.Tightened == nil:
		return nil, badInputf("case %s cannot keep off its limits: only a system of equations can", c.Name())
	}
	def := c.def
	def.Level = level
	return c.defined(def), nil
}

// maxLevel bounds what a request can ask for.
const maxLevel = 100

// Estimator is the filter of one loop of a case with a Measurement.
func (c *Case) Estimator() (*estimate.Filter, error) {
	m := c.def.Measurement
	if m == nil {
		return nil, badOptionf("case %s has no Measurement to estimate its state by: declare one, or add noise by {Estimate}", c.Name())
	}
	var mean, spread []float64
	if m.Mean == nil {
		plant, hasPrior := c.def.Plant.(interface {
			Prior() (mean, deviation []float64)
		})
		if !hasPrior {
			return nil, badInputf("case %s: its Measurement has neither Mean nor Initial, and its plant no scenario that would give them", c.Name())
		}
		mean, spread = plant.Prior()
	}
	f, err := estimate.New(c.def.Problem, m, mean, spread)
	return f, BadInput(err)
}

// estimating is a method behind the case's estimator and the prediction along what is under way, its limits kept off where the case
// has a Level.
func (r *Resolved) estimating(e *Engine) (domain.Controller, error) {
	c := r.controlCase
	if r.Method.Group == domain.GroupExact { // it is given the truth
		inner, err := r.controller(e)
		if err != nil || c.def.Delay.Periods == 0 {
			return inner, err
		}
		problem, delay := c.def.Problem, c.def.Delay
		if plant, generic := c.def.Plant.(*closedloop.Simulation); generic && c.def.Other != nil {
			problem, delay = plant.Problem, plant.Delay
		}
		// It is asked as one that measures nothing, and keeps to itself what was executed.
		return struct{ domain.Controller }{estimate.NewLoop(inner, problem, nil, nil, delay)}, nil
	}
	var filter *estimate.Filter
	if c.def.Measurement != nil {
		var err error
		if filter, err = c.Estimator(); err != nil {
			return nil, err
		}
	}
	if c.def.Level == 0 {
		inner, err := r.controller(e)
		if err != nil {
			return nil, err
		}
		return estimate.NewLoop(inner, c.def.Problem, filter, nil, c.def.Delay), nil
	}
	tightCase, backoff, err := c.keepingOff()
	if err != nil {
		return nil, err
	}
	tight, err := tightCase.Resolve(r.setup())
	if err != nil {
		return nil, err
	}
	inner, err := tight.controller(e)
	if err != nil {
		return nil, err
	}
	margin, err := estimate.NewMargin(c.def.Problem, backoff, filter, c.def.Level)
	if err != nil {
		return nil, BadInput(err)
	}
	return estimate.NewLoop(inner, c.def.Problem, filter, margin, c.def.Delay), nil
}

// keepingOff is the case that is decided, and what it keeps off its limits, which is the decisions' to write: itself and nil where nothing is.
func (c *Case) keepingOff() (*Case, *domain.Backoff, error) {
	if c.def.Level == 0 {
		return c, nil, nil
	}
	if err := c.boundsInTime(); err != nil {
		return nil, nil, err
	}
	backoff := domain.NewBackoff(c.Spec())
	def, err := c.def.Tightened(backoff)
	if err != nil {
		return nil, nil, err
	}
	def.Guard, def.Shift, def.Shifts = c.def.Guard, c.def.Shift, c.def.Shifts
	return c.defined(def), backoff, nil
}

// boundsInTime refuses what keeps stated bounds off the limits behind a delay.
func (c *Case) boundsInTime() error {
	if m := c.def.Measurement; m != nil && m.Bounded && c.def.Delay.Periods > 0 {
		return badInputf("case %s states bounds of its errors and has a delay of %v periods: behind a delay standard deviations alone are kept off the limits (Bounded false)", c.Name(), c.def.Delay.Periods)
	}
	return nil
}

// defined is the case of another definition, with the same maps.
func (c *Case) defined(def domain.Case) *Case {
	clone := *c
	clone.def = def
	return &clone
}

// UncertainGains is the case in which the gain of every actuator is a parameter, which the scenario draws from 1 − share to 1 + share:
// equations.System.UncertainGains of its system, with what is measured and how late as here. With a Measurement, which may be given
// afterwards (Measured), the gains are estimated beside the state. Other plants come afterwards: Shifted, On, Driven. The case is
// named as its system with "-gains" behind it and is another problem, so that it needs a map of its own. Its traces are verified without it
// where the text of its functions is known (equations.System.Source).
func (c *Case) UncertainGains(share float64) (*Case, error) {
	p, ok := c.def.Problem.(*equations.Problem)
	plant, generic := c.def.Plant.(*closedloop.Simulation)
	switch {
	case !ok || !generic:
		return nil, badInputf("case %s is no system of equations (equations.System) in its own plant: only such a system has gains of actuators that can be uncertain", c.Name())
	case c.def.Learned != nil || len(c.def.Methods) > 0:
		return nil, badInputf("case %s has a map or methods of its own, which know no gains of its actuators", c.Name())
	case c.gainShare() > 0:
		return nil, badInputf("the gains of case %s are uncertain already", c.Name())
	case c.def.Other != nil || len(c.def.Shift) > 0 || c.remade || plant.Steps > 0:
		return nil, badInputf("case %s is in another plant already: make the gains uncertain first", c.Name())
	}
	y := p.System()
	y.Measurement, y.Delay = c.def.Measurement, c.def.Delay.Periods
	system, err := y.UncertainGains(share)
	if err != nil {
		return nil, BadInput(err)
	}
	def, err := system.Case()
	if err != nil {
		return nil, BadInput(err)
	}
	def.Guard, def.Level = c.def.Guard, c.def.Level
	if y.Source != nil {
		text, err := fileText(def.Problem.(*equations.Problem))
		if err != nil {
			return nil, BadInput(fmt.Errorf("case %s with uncertain gains: %w", c.Name(), err))
		}
		systemfile.Embed(&def, text)
	}
	result := c.defined(def)
	result.system = nil
	return result, nil
}

// gainShare is the share by which the gains of the case are uncertain, 0 where they are not.
func (c *Case) gainShare() float64 {
	p, ok := c.def.Problem.(*equations.Problem)
	if !ok {
		return 0
	}
	share, _ := p.UncertainGains()
	return share
}

func fileText(p *equations.Problem) ([]byte, error) {
	f, err := systemfile.Of(p)
	if err != nil {
		return nil, err
	}
	return f.Marshal()
}

// withGains is a measurement of a case, nil for none, in which uncertain gains are not known.
func (c *Case) withGains(m *domain.Measurement) *domain.Measurement {
	p, ok := c.def.Problem.(*equations.Problem)
	if !ok || m == nil {
		return m
	}
	_, unknown := p.UncertainGains()
	return m.With(unknown)
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
	d := &Drive{c: c, observed: *c.Spec(), observations: make([]batchnav.Observation, n), decisions: make([]batchnav.Decision, n), margins: make([]float64, len(c.Spec().Margins))}
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
