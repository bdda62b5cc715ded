package gpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/isa"
	"github.com/gpc-engine/gpc/internal/names"
	"github.com/gpc-engine/gpc/internal/version"
	"github.com/gpc-engine/gpc/offline"
)

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

// Contender is a method of Pair; one that is slow may run the first Episodes alone.
type Contender struct {
	Method   string
	Episodes int    // 0: all
	File     string // of its map or weights; "": the pairing's
	// Candidates per decision; 0: the method's own number.
	Candidates int
	// Constants of the online step in place of its own, by the names of Constants.
	Constants map[string]float64
	// Computing are the declared times of its decisions; nil: those of the options.
	Computing *closedloop.Computing
}

// constants are the numbers of domain.Navigation that a pairing can replace, by their names.
var constants = []struct {
	name  string
	whole bool // a whole number
	set   func(n *domain.Navigation, v float64)
}{
	{"latent-step", false, func(n *domain.Navigation, v float64) { n.LatentStep = v }},
	{"v-max", false, func(n *domain.Navigation, v float64) { n.VMax = v }},
	{"epsilon", false, func(n *domain.Navigation, v float64) { n.Epsilon = v }},
	{"metric-lambda", false, func(n *domain.Navigation, v float64) { n.MetricLambda = v }},
	{"top-k", true, func(n *domain.Navigation, v float64) { n.TopK = int(v) }},
	{"lie-gain", false, func(n *domain.Navigation, v float64) { n.LieGain = v }},
	{"lie-scale", false, func(n *domain.Navigation, v float64) { n.LieScale = v }},
	{"retraction", false, func(n *domain.Navigation, v float64) { n.RetractionMix = v }},
	{"smoothing", false, func(n *domain.Navigation, v float64) { n.Smoothing = v }},
	{"priority-filter", false, func(n *domain.Navigation, v float64) { n.PriorityFilter = v }},
	{"neighbours", true, func(n *domain.Navigation, v float64) { n.Neighbours = int(v) }},
}

// Constants are the names of the online step's constants that a Contender can replace.
func Constants() (all []string) {
	for _, c := range constants {
		all = append(all, c.name)
	}
	return all
}

// replace puts others in place of some constants of the online step.
func (r *Resolved) replace(replaced map[string]float64) error {
	if len(replaced) == 0 {
		return nil
	}
	if r.Model == nil {
		return badInputf("method %s decides without a map: it has no online step with constants", r.Method.Name)
	}
	nav := r.of.MapSpec().Navigation
	if r.options.Navigation != nil {
		nav = *r.options.Navigation
	}
	for _, name := range slices.Sorted(maps.Keys(replaced)) {
		i := slices.Index(Constants(), name)
		if i < 0 {
			return badInputf("no constant %q%s (there are %s)", name, names.Meant(name, Constants()), names.List(Constants()))
		}
		v := replaced[name]
		if constants[i].whole && v != math.Trunc(v) {
			return badInputf("constant %s is %v, want a whole number", name, v)
		}
		constants[i].set(&nav, v)
	}
	r.options.Navigation = &nav
	return nil
}

// Pair runs methods on the same episodes, one after another, each beside the first; see
// closedloop.Pair. file is the map of those that have one, "" the bundled one.
func (c *Case) Pair(ctx context.Context, methods []Contender, file string, e engine.Options, opt closedloop.Options) (*closedloop.Pairing, error) {
	c, err := c.Staged(opt.Scenes)
	if err != nil {
		return nil, err
	}
	var all []closedloop.Contender
	record := closedloop.PairedMap{File: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))}
	if file == "" {
		record.File = ""
	}
	for _, m := range methods {
		if m.Episodes < 0 || m.Episodes > opt.Episodes {
			return nil, badInputf("%d episodes for method %s, want at most the %d of the comparison", m.Episodes, m.Method, opt.Episodes)
		}
		s, err := c.Setup(m.Method, cmp.Or(m.File, file))
		if err != nil {
			return nil, err
		}
		s.Candidates = m.Candidates
		r, err := c.Resolve(s)
		if err != nil {
			return nil, err
		}
		if m.Candidates != 0 && r.Method.Candidates == 0 {
			return nil, badInputf("method %s searches no candidates: leave the number %d out", s.Method, m.Candidates)
		}
		if err := r.replace(m.Constants); err != nil {
			return nil, err
		}
		if r.Model != nil && m.File == "" {
			record.Samples = r.Model.Provenance.Samples
		}
		newController, on, closeAll, err := r.controllers(e)
		if err != nil {
			return nil, err
		}
		defer closeAll()
		of, err := r.SHA256()
		if err != nil {
			return nil, err
		}
		all = append(all, closedloop.Contender{Method: r.Method.Name, Episodes: m.Episodes, Device: on.device, Backend: on.backend, ModelSHA256: of, Candidates: m.Candidates, Constants: m.Constants, Computing: m.Computing, New: newController})
	}
	if opt.ISA, err = instructionSet(); err != nil {
		return nil, err
	}
	opt.Commit = version.Build()
	p, err := closedloop.Pair(ctx, &c.def, all, opt)
	if err == nil {
		p.Map = record
	}
	return p, asBadInput(err)
}

// asBadInput makes an error of what the caller asked for one of input: a regime that is none, a preference
// that the method was not made for, an output that would lose or mix something.
func asBadInput(err error) error {
	var regime domain.RegimeError
	var preference domain.PreferenceError
	var scene *closedloop.SceneError
	if errors.As(err, &regime) || errors.As(err, &preference) || errors.As(err, &scene) {
		return BadInput(err)
	}
	return refused(err)
}

// Steer sweeps a fixed preference over the simplex, its edge in so many divisions (Das and Dennis), with one map, beside
// the exact front of the same episodes. What opt records, and its Weights, are filled in.
func (c *Case) Steer(ctx context.Context, s Setup, e engine.Options, divisions int, opt closedloop.SteerOptions) (*closedloop.Steering, error) {
	if divisions < 1 || divisions > 1000 || opt.Episodes < 1 {
		return nil, badInputf("steer: %d divisions and %d episodes, want 1 to 1000 divisions and at least 1 episode", divisions, opt.Episodes)
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
	m, err := newController()
	if err != nil {
		return nil, err
	}
	if opt.ISA, err = instructionSet(); err != nil {
		return nil, err
	}
	if opt.ModelSHA256, err = r.SHA256(); err != nil {
		return nil, err
	}
	opt.Method, opt.Commit, opt.Device, opt.Backend = r.Method.Name, version.Build(), on.device, on.backend
	opt.Weights = offline.DasDennis(c.Spec().ObjectiveSize(), divisions)
	front, err := closedloop.Steer(ctx, &c.def, m, opt)
	return front, asBadInput(err)
}

// heldOutStream separates the scenarios a certificate is estimated on from those
// of a dataset with the same seed.
const heldOutStream = 0x68656c646f757400 // "heldout"

// Certify estimates the paper's constants of a map on held-out scenarios, says which
// of its conditions hold, and compares the bounds with what the method does in closed
// loop. No method is AlgorithmTwo, where the case has it: the paper's conditions are of that
// loop. In a case whose map is not about its own problem the constants are those of
// the map's problem, the closed loop is that of the case's own method. So many held-out scenarios, ≥ 1, are solved, and
// the bounds compared with so many episodes; 0: none. The Options of opt are filled in. progress may be nil.
func (c *Case) Certify(ctx context.Context, e *Engine, s Setup, scenarios, episodes int, opt batchnav.CertifyOptions, progress func(stage string, done, total int)) (*batchnav.Certified, error) {
	if scenarios < 1 || episodes < 0 || opt.Steps < 1 || !(opt.Perturbation > 0) {
		return nil, badInputf("certify: %d scenarios, %d episodes, %d recovery steps of radius %v: want at least 1 scenario, 0 episodes, 1 step and a radius above 0", scenarios, episodes, opt.Steps, opt.Perturbation)
	}
	if c.def.Solver == nil {
		return nil, badInputf("case %s has no solver to make held-out samples with", c.Name())
	}
	if progress == nil {
		progress = func(string, int, int) {}
	}
	if s.Method == "" {
		s.Method = c.certified()
	}
	r, err := c.Resolve(s)
	switch {
	case err != nil:
		return nil, err
	case r.Model == nil:
		return nil, badInputf("certify: method %s decides without the map, want a method of the map such as navigator", r.Method.Name)
	case e == nil:
		return nil, errNoEngine
	}
	opt.Options = r.options
	held, err := c.heldOut(ctx, opt.Seed, scenarios, progress)
	if err != nil {
		return nil, err
	}
	problem := c.def.MapProblem()
	constants, err := batchnav.Estimate(ctx, e.backend, r.Model, problem, held, opt)
	if err != nil {
		return nil, err
	}
	var measured *batchnav.Measured
	if episodes > 0 && c.def.Plant != nil {
		ctrl, err := r.Controller(e)
		if err != nil {
			return nil, err
		}
		var optimal domain.Optimal
		if c.def.Learned == nil {
			optimal = domain.AbilitiesOfSolver(c.def.Solver).Optimal
		}
		if measured, err = batchnav.MeasureLoop(ctx, c.Spec(), ctrl, c.def.Plant, opt.Seed, episodes, domain.Preference{Adaptive: true}, optimal); err != nil {
			return nil, err
		}
	}
	recovery, err := batchnav.Recover(ctx, e.backend, r.Model, problem, held, constants, opt)
	if err != nil {
		return nil, err
	}
	set, err := instructionSet()
	if err != nil {
		return nil, err
	}
	of, err := r.Model.SHA256()
	if err != nil {
		return nil, err
	}
	certificate := batchnav.Judge(c.Name(), *constants, measured)
	certificate.Method = r.Method.Name
	return &batchnav.Certified{
		Certificate: certificate, Recovery: recovery, Commit: version.Build(), Device: e.Device(),
		ProblemSHA256: durable.Sum(domain.FingerprintOf(problem)), ModelSHA256: of, Backend: e.About().Backend, ISA: set,
	}, nil
}

// AlgorithmTwo is the paper's online algorithm as a method of a case whose default searches.
const AlgorithmTwo = "navigator"

// certified is the method that a certificate is about if none is named.
func (c *Case) certified() string {
	for _, m := range c.Methods() {
		if m.Name == AlgorithmTwo {
			return m.Name
		}
	}
	return c.DefaultMethod()
}

// heldOut solves scenarios of a stream that no dataset uses.
func (c *Case) heldOut(ctx context.Context, seed uint64, scenarios int, progress func(stage string, done, total int)) ([]domain.Sample, error) {
	solver := c.def.Solver
	seed ^= heldOutStream
	points, err := offline.LatinHypercube(solver.Parameters(), scenarios, seed)
	if err != nil {
		return nil, err
	}
	if err := solver.Prepare(ctx, seed, func(done, total int) { progress("prepare", done, total) }); err != nil {
		return nil, err
	}
	solver = domain.SolverUntil(ctx, solver)
	var held []domain.Sample
	for i, p := range points {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		samples, err := solver.Solve(i, p, domain.Preference{Adaptive: true}, domain.WeightedSum, seed)
		if err == nil {
			held = append(held, samples...)
		}
		progress("held-out scenarios", i+1, len(points))
	}
	if len(held) == 0 {
		return nil, fmt.Errorf("the solver certified no solution of the %d held-out scenarios", scenarios)
	}
	return held, nil
}
