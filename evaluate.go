package gpc

import (
	"cmp"
	"context"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/internal/names"
	"github.com/gpc-engine/gpc/internal/simd/isa"
	"github.com/gpc-engine/gpc/internal/version"
)

// computing is what a method's controllers are made by and on, as records name it.
type computing struct {
	method     *Resolved
	controller func() (domain.Controller, error) // makes one, on an engine of its own
	device     string
	backend    string // "" where no engine computes
	isa        string
	sha256     string // of the map or the weights, "" for a method without
	close      func() // closes the engines
}

// computing prepares controllers of a setup; see Resolved.computing.
func (c *Case) computing(s Setup, opt engine.Options) (*computing, error) {
	r, err := c.Resolve(s)
	if err != nil {
		return nil, err
	}
	return r.computing(opt)
}

// computing prepares controllers, each on an engine of one thread unless opt says otherwise.
func (r *Resolved) computing(opt engine.Options) (*computing, error) {
	setting := &computing{method: r, device: Host(), close: func() {}}
	var err error
	if setting.isa, err = instructionSet(); err != nil {
		return nil, err
	}
	if setting.sha256, err = r.SHA256(); err != nil {
		return nil, err
	}
	if r.Model == nil {
		setting.controller = func() (domain.Controller, error) { return r.Controller(nil) }
		return setting, nil
	}
	opt.Threads = cmp.Or(opt.Threads, 1)
	var engines []*Engine
	setting.close = func() {
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
	description := next.About()
	setting.device, setting.backend = next.Device(), description.Backend
	if setting.backend == "cuda" {
		setting.backend += " " + description.ISA
	}
	if opt.TF32 {
		setting.backend += " tf32"
	}
	setting.controller = func() (domain.Controller, error) {
		e := next
		if next = nil; e == nil {
			var err error
			if e, err = open(); err != nil {
				return nil, err
			}
		}
		return r.Controller(e)
	}
	return setting, nil
}

// Evaluate runs a method in closed loop on unseen episodes; see closedloop.Evaluate. Each of opt.Threads workers has an
// engine of its own, of one thread unless e says otherwise, so that latencies are of one core. What opt records of
// method, map, program and machine is filled in.
func (c *Case) Evaluate(ctx context.Context, s Setup, e engine.Options, opt closedloop.Options) (*closedloop.Result, error) {
	c, err := c.Staged(opt.Scenes)
	if err != nil {
		return nil, err
	}
	ctx, cancel := opt.Within(ctx)
	defer cancel()
	c = c.cancellable(ctx)
	setting, err := c.computing(s, e)
	if err != nil {
		return nil, err
	}
	defer setting.close()
	opt.Method, opt.Candidates, opt.Commit = setting.method.Method.Name, setting.method.Candidates, version.Build()
	opt.Device, opt.Backend = setting.device, setting.backend
	opt.ISA, opt.ModelSHA256 = setting.isa, setting.sha256
	return c.EvaluateBy(ctx, setting.controller, opt)
}

// EvaluateBy is Evaluate of controllers that are made elsewhere, such as those of a server; opt says what decides.
func (c *Case) EvaluateBy(ctx context.Context, newController func() (domain.Controller, error), opt closedloop.Options) (*closedloop.Result, error) {
	if err := c.options(&opt); err != nil {
		return nil, err
	}
	r, err := closedloop.Evaluate(ctx, &c.def, newController, opt)
	return r, asBadInput(err)
}

// finerFactor is of the substeps of the plant that an evaluation checks its integration with.
const finerFactor = 8

// finer is the case in a plant of finer steps of integration; nil where an evaluation does not ask for it, and where the
// plant is another than the model, or has no integrator.
func (c *Case) finer(opt *closedloop.Options) (*closedloop.Finer, error) {
	p, ok := c.def.Problem.(*equations.Problem)
	plant, generic := c.def.Plant.(*closedloop.Simulation)
	if !opt.CheckIntegration || !ok || !generic || c.def.Other != nil || opt.Scenes != nil || opt.ShardCount > 1 || p.Substeps() == 0 {
		return nil, nil
	}
	problem, err := p.Finer(finerFactor)
	if err != nil {
		return nil, err
	}
	def, simulation := c.def, *plant
	simulation.Problem, def.Plant = problem, &simulation
	return &closedloop.Finer{Case: &def, Factor: finerFactor}, nil
}

// options says what in options for this case cannot be, and adds the finer plant that they ask for.
func (c *Case) options(opt *closedloop.Options) (err error) {
	if c.def.Measurement != nil && opt.Noise > 0 {
		return badOptionf("case %s is measured with a noise of its own, by its Measurement or {Estimate}: leave out {Noise}", c.Name())
	}
	if err := opt.Validate(c.Spec()); err != nil {
		return BadInput(err)
	}
	opt.Finer, err = c.finer(opt)
	return err
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

// twin reports whether two contenders decide alike, whatever their numbers of episodes.
func (m *Contender) twin(other *Contender) bool {
	sameComputing := m.Computing == nil && other.Computing == nil || m.Computing != nil && other.Computing != nil && *m.Computing == *other.Computing
	return sameComputing && m.Method == other.Method && m.File == other.File && m.Candidates == other.Candidates && maps.Equal(m.Constants, other.Constants)
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
	{"raw-weights", true, func(n *domain.Navigation, v float64) { n.RawWeights = v != 0 }},
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
	nav := r.controlCase.MapSpec().Navigation
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
	c = c.cancellable(ctx)
	var all []closedloop.Contender
	record := closedloop.PairedMap{File: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))}
	if file == "" {
		record.File = ""
	}
	for i, m := range methods {
		if slices.ContainsFunc(methods[:i], func(other Contender) bool { return m.twin(&other) }) {
			return nil, badInputf("method %s is named twice with the same map, candidates and constants: name each once", m.Method)
		}
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
		setting, err := r.computing(e)
		if err != nil {
			return nil, err
		}
		defer setting.close()
		all = append(all, closedloop.Contender{Method: r.Method.Name, Episodes: m.Episodes, Device: setting.device, Backend: setting.backend, ModelSHA256: setting.sha256, Candidates: m.Candidates, Constants: m.Constants, Computing: m.Computing, New: setting.controller})
	}
	if opt.ISA, err = instructionSet(); err != nil {
		return nil, err
	}
	opt.Commit = version.Build()
	if err := c.options(&opt); err != nil {
		return nil, err
	}
	p, err := closedloop.Pair(ctx, &c.def, all, opt)
	if err == nil {
		p.Map = record
	}
	return p, asBadInput(err)
}

// Steer sweeps a fixed preference over the simplex, its edge in so many divisions (Das and Dennis), with one map, beside
// the exact front of the same episodes. What opt records, and its Weights, are filled in.
func (c *Case) Steer(ctx context.Context, s Setup, e engine.Options, divisions int, opt closedloop.SteerOptions) (*closedloop.Steering, error) {
	if divisions < 1 || divisions > 1000 || opt.Episodes < 1 {
		return nil, badInputf("steer: %d divisions and %d episodes, want 1 to 1000 divisions and at least 1 episode", divisions, opt.Episodes)
	}
	setting, err := c.computing(s, e)
	if err != nil {
		return nil, err
	}
	defer setting.close()
	m, err := setting.controller()
	if err != nil {
		return nil, err
	}
	opt.Method, opt.Commit = setting.method.Method.Name, version.Build()
	opt.Device, opt.Backend = setting.device, setting.backend
	opt.ISA, opt.ModelSHA256 = setting.isa, setting.sha256
	opt.Weights = dataset.DasDennis(c.Spec().ObjectiveSize(), divisions)
	front, err := closedloop.Steer(ctx, &c.def, m, opt)
	return front, asBadInput(err)
}

// AlgorithmTwo is the paper's online algorithm as a method of a case whose default searches.
const AlgorithmTwo = "navigator"
