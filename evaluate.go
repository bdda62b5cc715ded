package gpc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/gpc-engine/gpc/baselines/policy"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/internal/names"
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

// fitted is a map that is given, which must be one of the case, or else the bundled one.
func (c *Case) fitted(m *model.Model) (*model.Model, error) {
	if m == nil {
		return c.Model("")
	}
	return m, BadInput(c.fits(m, "the map"))
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
		return nil, badInputf("method %s needs the file of its weights: give it with --model", r.Method.Name)
	}
	if r.Model != nil {
		if err := r.learned(e, &means); err != nil {
			return nil, err
		}
	}
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

// Setup says how a controller of a case is made.
type Setup struct {
	Method string // "" is the case's DefaultMethod
	// Model is the map of a method that needs one; nil: the bundled one.
	Model *model.Model
	// Weights is the content of the file of a method that brings weights of its own.
	Weights []byte
	// Candidates per decision; 0: the method's own number, if it has one.
	Candidates int
	// Navigation are constants of the online step; nil: the method's own.
	Navigation *domain.Navigation
}

// Methods are all ways to decide in the case, in the order of its tables: the
// navigator's variants where the case has a map about its own problem, then the
// case's own, then those of closedloop.Rows and policy.Methods with names that are not
// among them.
func (c *Case) Methods() []domain.Method {
	var all []domain.Method
	if c.def.Learned == nil && (c.def.Solver != nil || c.Spec().Training.Latent > 0) {
		all = batchnav.Methods(c.def.Problem, c.guarded())
	}
	all = append(all, c.def.Methods...)
	for _, m := range slices.Concat(closedloop.Rows(&c.def), policy.Methods(&c.def, c.trained())) {
		if !slices.ContainsFunc(all, func(o domain.Method) bool { return o.Name == m.Name }) {
			all = append(all, m)
		}
	}
	return all
}

// DefaultMethod is the first of Methods: Algorithm 2 whole, or what the case has in its place; ""
// where there is no method at all.
func (c *Case) DefaultMethod() string {
	if all := c.Methods(); len(all) > 0 {
		return all[0].Name
	}
	return ""
}

// MethodName is the present name of a method by any that it had, "" for DefaultMethod; what no
// method of the case is called stays as it is.
func (c *Case) MethodName(name string) string {
	if m, err := c.method(name); err == nil {
		return m.Name
	}
	return name
}

// trained is the problem that the case's policies are made for, nil where it is not at hand.
func (c *Case) trained() domain.Problem {
	switch {
	case len(c.def.Shift) == 0 && !c.remade:
		return c.def.Problem
	case c.def.Learned == nil:
		return c.unshifted // nil: a trace embeds the shifted plant
	}
	return nil
}

// Setup reads what a method needs from a file: the map, the bundled one for "", or the
// weights of a method that brings its own. A method without either ignores the file. For
// no method it is the one that the map was compiled for, or else DefaultMethod. The Setup has
// the method's present name.
func (c *Case) Setup(method, file string) (Setup, error) {
	m, err := c.method(method)
	s := Setup{Method: m.Name}
	switch {
	case err != nil:
	case mapped(m):
		if s.Model, err = c.Model(file); err == nil && method == "" && s.Model.Provenance.Method != "" {
			m, err = c.method(s.Model.Provenance.Method)
			s.Method = m.Name
		}
	case m.Needs&domain.NeedsWeights != 0 && file != "":
		s.Weights, err = readWeights(file)
	}
	return s, err
}

// maxWeights is how many bytes the file of a method that brings weights of its own may have.
const maxWeights = 1 << 28

func readWeights(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, BadInput(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Size() <= maxWeights { // a device has no size
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(f, maxWeights+1)); len(data) <= maxWeights {
			return data, BadInput(err)
		}
	}
	if err != nil {
		return nil, BadInput(err)
	}
	return nil, badInputf("%s: more than %d bytes, which weights may have at most", file, maxWeights)
}

// method finds a method by its name, or by the name that it had, "" for the default.
func (c *Case) method(name string) (domain.Method, error) {
	name = cmp.Or(name, c.DefaultMethod())
	var known []string
	for _, m := range c.Methods() {
		if m.Called(name) {
			return m, nil
		}
		known = append(known, m.Name)
	}
	if m, ok := closedloop.Row(&c.def, name); ok { // mpc-N
		return m, nil
	}
	return domain.Method{}, badInputf("case %s has no method %q%s (it has %s)", c.Name(), name, names.Meant(name, known), names.List(known))
}

// mapped reports whether a method decides by the case's map.
func mapped(m domain.Method) bool { return m.Needs&domain.NeedsMap != 0 }

// Model reads a map of the case from a file, or the bundled one where file is "". A map
// of another problem is refused, also where names and sizes are the same.
func (c *Case) Model(file string) (*model.Model, error) {
	m, err := c.read(file)
	if err != nil {
		return nil, err
	}
	return m, BadInput(c.fits(m, cmp.Or(file, "the bundled map")))
}

func (c *Case) read(file string) (*model.Model, error) {
	if file != "" {
		m, err := model.ReadFile(file)
		return m, BadInput(err)
	}
	if !c.Bundled() {
		return nil, badInputf("case %s has no bundled map: make one with compile and give its file with --model, or decide by a method that needs none", c.Name())
	}
	f, err := c.models.Open(c.Name() + ".safetensors")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := model.Read(f)
	return m, BadInput(err)
}

// fits says why a map, called name, is not one of this case.
func (c *Case) fits(m *model.Model, name string) error {
	if err := batchnav.Fits(m, c.MapSpec()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if c.unshifted == nil && len(c.def.Shift) > 0 {
		return nil // the plant as it was, whose map it is, is not at hand: a trace embeds the shifted one
	}
	if own := durable.Sum(domain.FingerprintOf(c.mapped())); m.Provenance.ProblemSHA256 != own {
		return fmt.Errorf("%s was trained on other equations than those of case %s, though name and sizes are the same: its problem_sha256 is %s, that of the case is %s; train or compile the map again",
			name, c.Name(), cmp.Or(m.Provenance.ProblemSHA256, "missing"), own)
	}
	return nil
}

// computeDevice is what decisions are computed on, as records name it.
type computeDevice struct {
	device  string
	backend string // "" where no engine computes
}

// controllers returns a maker of controllers, each on an engine of its own of one
// thread unless opt says otherwise, what computes, and a function that closes the engines.
func (r *Resolved) controllers(opt engine.Options) (newController func() (domain.Controller, error), on computeDevice, closeAll func(), err error) {
	if r.Model == nil {
		return func() (domain.Controller, error) { return r.Controller(nil) }, computeDevice{device: Host()}, func() {}, nil
	}
	if opt.Threads == 0 {
		opt.Threads = 1
	}
	var engines []*Engine
	closeAll = func() {
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
	first, err := open()
	if err != nil {
		return nil, on, nil, err
	}
	on = computeDevice{first.Device(), first.About().Backend}
	if on.backend == "cuda" {
		on.backend += " " + first.About().ISA
	}
	if opt.TF32 {
		on.backend += " tf32"
	}
	next := first
	return func() (domain.Controller, error) {
		e := next
		if next = nil; e == nil {
			if e, err = open(); err != nil {
				return nil, err
			}
		}
		return r.Controller(e)
	}, on, closeAll, nil
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
	newController, on, closeAll, err := r.controllers(e)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	opt.Method, opt.Commit, opt.Device, opt.Backend, opt.Candidates = r.Method.Name, version.Build(), on.device, on.backend, r.Candidates
	if opt.ISA, err = instructionSet(); err != nil {
		return nil, err
	}
	if opt.ModelSHA256, err = r.SHA256(); err != nil {
		return nil, err
	}
	return c.EvaluateBy(ctx, newController, opt)
}

// EvaluateBy is Evaluate of controllers that are made elsewhere, such as those of a server; opt
// says what decides.
func (c *Case) EvaluateBy(ctx context.Context, newController func() (domain.Controller, error), opt closedloop.Options) (*closedloop.Result, error) {
	if err := opt.Validate(c.Spec()); err != nil {
		return nil, BadInput(err)
	}
	r, err := closedloop.Evaluate(ctx, &c.def, newController, opt)
	return r, asBadInput(err)
}

// instructionSet is isa.Name.
func instructionSet() (string, error) {
	name, err := isa.Name()
	return name, BadInput(err)
}
