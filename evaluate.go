package gpc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/internal/version"
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

	of *Case
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
	r := &Resolved{Method: m, Weights: s.Weights, Candidates: s.Candidates, of: c}
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

// setup is what resolves to the same again, in another definition of the case.
func (r *Resolved) setup() Setup {
	return Setup{Method: r.Method.Name, Model: r.Model, Weights: r.Weights, Candidates: r.Candidates, Navigation: r.options.Navigation}
}

// Navigates reports whether the method is the navigator or a variant of it, whose loops can decide
// together.
func (r *Resolved) Navigates() bool { return r.Method.New == nil }

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
	if !r.of.indirect() {
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
	domain.Prepare(r.of.def.Problem)
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
	problem := r.of.def.MapProblem()
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
	n, err := batchnav.NewNavigator(e.backend, r.Model, r.of.def.Problem, opt)
	return n, BadInput(err)
}

// Loops makes n closed loops that decide together: each call of the engine serves all.
func (r *Resolved) Loops(e *Engine, n int) (*batchnav.Batch, error) {
	opt, err := r.guardedOptions(e)
	if err != nil {
		return nil, err
	}
	b, err := batchnav.NewBatch(e.backend, r.Model, r.of.def.Problem, opt, n)
	return b, BadInput(err)
}

// guardedOptions are the options of loops on an engine, looked after where the case says so.
func (r *Resolved) guardedOptions(e *Engine) (batchnav.Options, error) {
	opt, c := r.options, r.of
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

// computing is what a method's controllers are made by and on, as records name it.
type computing struct {
	controller func() (domain.Controller, error) // makes one, on an engine of its own
	device     string
	backend    string // "" where no engine computes
	isa        string
	sha256     string // of the map or the weights, "" for a method without
	close      func() // closes the engines
}

// computing prepares controllers, each on an engine of one thread unless opt says otherwise.
func (r *Resolved) computing(opt engine.Options) (*computing, error) {
	on := &computing{device: Host(), close: func() {}}
	var err error
	if on.isa, err = instructionSet(); err != nil {
		return nil, err
	}
	if on.sha256, err = r.SHA256(); err != nil {
		return nil, err
	}
	if r.Model == nil {
		on.controller = func() (domain.Controller, error) { return r.Controller(nil) }
		return on, nil
	}
	if opt.Threads == 0 {
		opt.Threads = 1
	}
	var engines []*Engine
	on.close = func() {
		for _, e := range engines {
			e.Close()
		}
	}
	open := func() (*Engine, error) {
		e, err := OpenEngine(opt)
		if err == nil {
			engines = append(engines, e)
		}
		return e, err
	}
	next, err := open()
	if err != nil {
		return nil, err
	}
	about := next.About()
	on.device, on.backend = next.Device(), about.Backend
	if on.backend == "cuda" {
		on.backend += " " + about.ISA
	}
	if opt.TF32 {
		on.backend += " tf32"
	}
	on.controller = func() (domain.Controller, error) {
		e := next
		if next = nil; e == nil {
			var err error
			if e, err = open(); err != nil {
				return nil, err
			}
		}
		return r.Controller(e)
	}
	return on, nil
}

// Evaluate runs a method in closed loop on unseen episodes; see closedloop.Evaluate.
// Each of opt.Threads workers has an engine of its own, of one thread unless e says
// otherwise, so that latencies are of one core. What opt records of method, map, program
// and machine is filled in.
func (c *Case) Evaluate(ctx context.Context, s Setup, e engine.Options, opt closedloop.Options) (*closedloop.Result, error) {
	c, err := c.Staged(opt.Scenes)
	if err != nil {
		return nil, err
	}
	r, err := c.Resolve(s)
	if err != nil {
		return nil, err
	}
	on, err := r.computing(e)
	if err != nil {
		return nil, err
	}
	defer on.close()
	opt.Method, opt.Candidates, opt.Commit = r.Method.Name, r.Candidates, version.Build()
	opt.Device, opt.Backend, opt.ISA, opt.ModelSHA256 = on.device, on.backend, on.isa, on.sha256
	return c.EvaluateBy(ctx, on.controller, opt)
}

// EvaluateBy is Evaluate of controllers that are made elsewhere, such as those of a server; opt
// says what decides.
func (c *Case) EvaluateBy(ctx context.Context, newController func() (domain.Controller, error), opt closedloop.Options) (*closedloop.Result, error) {
	if err := c.options(&opt); err != nil {
		return nil, err
	}
	r, err := closedloop.Evaluate(ctx, &c.def, newController, opt)
	return r, asBadInput(err)
}

// options says what in options for this case cannot be.
func (c *Case) options(opt *closedloop.Options) error {
	if c.def.Measurement != nil && opt.Noise > 0 {
		return badOptionf("case %s is measured with a noise of its own, by its Measurement or {Estimate}: leave out {Noise}", c.Name())
	}
	return BadInput(opt.Validate(c.Spec()))
}

// instructionSet is isa.Name.
func instructionSet() (string, error) {
	name, err := isa.Name()
	return name, BadInput(err)
}
