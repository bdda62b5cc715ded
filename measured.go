package gpc

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/systemfile"
	"github.com/gpc-engine/gpc/internal/durable"
)

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

// ForRobots is the case whose scenes have exactly so many robots, a crowd.
func (c *Case) ForRobots(robots int) (*Case, error) {
	if c.def.ForRobots == nil {
		return nil, badInputf("case %s has no scenes of %d robots", c.Name(), robots)
	}
	params, err := c.def.ForRobots(robots)
	if err != nil {
		return nil, badInputf("case %s: %w", c.Name(), err)
	}
	def, _, err := closedloop.Remade(&c.def, params)
	if err != nil {
		return nil, BadInput(err)
	}
	return c.onPlant(def, c.remade), nil
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

// Indirect reports whether a decision is not made by the state that its action begins to act in.
func (c *Case) Indirect() bool { return c.def.Measurement != nil || c.def.Delay.Periods > 0 }

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
	tight, err := tightCase.Resolve(Setup{Method: r.Method.Name, Model: r.Model, Weights: r.Weights, Candidates: r.Candidates, Navigation: r.options.Navigation})
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
	return c.defined(def).cancellable(c.context), backoff, nil
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
	if p, ok := def.Problem.(*equations.Problem); ok && c.findings != nil && p != c.def.Problem {
		clone.diagnose()
	}
	return &clone
}

// onPlant is the case of a definition on another plant, which its maps are not made for and its file does not describe.
func (c *Case) onPlant(def domain.Case, remade bool) *Case {
	clone := c.defined(def).cancellable(c.context)
	clone.unshifted, clone.remade, clone.system = c.mapped(), remade, nil
	return clone
}

// cancellable is the case whose searches and solves end with ctx; nil: with none.
func (c *Case) cancellable(ctx context.Context) *Case {
	def := c.def
	if ctx != nil {
		def.Solver = domain.SolverUntil(ctx, def.Solver)
	}
	clone := c.defined(def)
	clone.context = ctx
	return clone
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
