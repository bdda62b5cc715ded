package gpc

import (
	"cmp"
	"crypto/sha256"
	"errors"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/model"
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
	r.options.Navigation, r.options.Context = cmp.Or(s.Navigation, r.options.Navigation), c.context
	return r, nil
}

// Navigates reports whether the method is the navigator or a variant of it, whose loops can decide together.
func (r *Resolved) Navigates() bool { return r.Method.New == nil }

// Goals is nil where loops of the method reach goals (domain.Goals), and says why they do not elsewhere.
func (r *Resolved) Goals() error {
	c, spec := r.controlCase, r.controlCase.Spec()
	ahead := domain.AbilitiesOfProblem(c.def.Problem).LookAhead(spec, make([]float64, len(spec.Context))) // from the beginning of an episode
	switch o := r.options; {
	case !r.Navigates() || o.Search != batchnav.SearchOptions{} && (o.Search.Polish == 0 || o.Search.Ahead) || o.NoSemantic:
		return badInputf("method %s decides by weights or the adaptive priority alone: a goal is reached by direct, navigator and polish, which decide by a map", r.Method.Name)
	case spec.Horizon > 0 || ahead < spec.Steps:
		return badInputf("case %s looks %d of %d decisions ahead, and a goal counts to the end of an episode", c.Name(), ahead, spec.Steps)
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

// proposals is the room for candidates that a proposer begins with; it grows with what it is asked.
const proposals = 4096

var errNoEngine = errors.New("gpc: a method with a map needs an engine, the engine given is nil")

// Controller makes the method, which decides in one closed loop. e is nil for a method without a map. Of a case with a
// Measurement or a Delay it has DecideMeasured, unless the method is given the truth.
func (r *Resolved) Controller(e *Engine) (domain.Controller, error) {
	if !r.controlCase.Indirect() {
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
	switch {
	case err == nil:
		return domain.FiniteController(r.controlCase.def.Problem, ctrl), nil
	case weighted:
		err = BadInput(err)
	}
	return nil, err
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
