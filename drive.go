package gpc

import (
	"math"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

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

// Drive makes n closed loops of a method. One that has to know the episode, such as an oracle, is refused.
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
	if r.Navigates() && !c.Indirect() {
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
		decision.Margin = domain.Smallest(spec.LimitMargins(d.margins))
	} else {
		tensor.Fill(d.margins, math.NaN())
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
			return badInputf("%s has room for %d entries, %d decisions of case %q have %d each", w.name, w.length, n, spec.Name, w.size)
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
			tensor.Fill(sigma, math.NaN())
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
