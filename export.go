package gpc

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/ocp"
	"github.com/gpc-engine/gpc/ocp/mixedinteger"
	"github.com/gpc-engine/gpc/tensor"
)

// ExportOptions say what Export writes: a whole controller, or with MapOnly a map.
type ExportOptions struct {
	Dir string // the folder; it must not exist, or be empty
	// Method is what is exported; "": what the map was compiled for, where C has it, direct's being export.Method. Another
	// one is refused by its name.
	Method   string
	Episodes int    // that the controller is driven in, here and by the written test; at least 1
	FMU      bool   // the controller and its plant also as units of FMI 2.0
	MapOnly  bool   // the map and the actions' box, without what keeps the limits
	Half     bool   // weights rounded to float16 and stored so
	Records  int    // recorded decisions for the written test of a map; at least 1
	Seed     uint64 // of the episodes and preferences that they are recorded in
	// Progress, optional, is called before the first of these episodes and after each.
	Progress func(done, total int)
}

// Export writes the whole controller of a case of equations as C99: map, projection, guard, escape and rest, with its plant, and a
// test that drives both from where this module has driven them. With MapOnly it writes what the method direct decides before the
// projection, of any case that has it, with a test against decisions recorded along closed loops of the case's
// plant, every other one under a fixed preference. See package export.
func (c *Case) Export(ctx context.Context, m *model.Model, opt ExportOptions) (*export.Result, error) {
	if len(c.Spec().Switches) > 0 {
		return c.exportSearch(ctx, m, opt)
	}
	if !opt.MapOnly {
		return c.exportWhole(ctx, m, opt)
	}
	if _, err := c.method("direct"); err != nil {
		return nil, err
	}
	switch {
	case opt.Dir == "":
		return nil, badInputf("no folder to export to")
	case opt.Records < 1 || opt.Records > 1<<16:
		return nil, badInputf("%d recorded decisions, want 1 to %d", opt.Records, 1<<16)
	case c.def.Plant == nil:
		return nil, badInputf("case %s has no plant to record decisions in", c.Name())
	}
	for _, err := range []error{c.fits(m, "the map"), durable.Vacant(opt.Dir)} {
		if err != nil {
			return nil, BadInput(err)
		}
	}
	records, err := c.record(ctx, m, opt)
	if err != nil {
		return nil, err
	}
	return export.C(opt.Dir, m, c.def.Problem, opt.Half, records)
}

// rounded is a map, with half by its float16 weights.
func rounded(m *model.Model, half bool) (*model.Model, error) {
	if !half {
		return m, nil
	}
	m, err := export.Rounded(m)
	return m, BadInput(err)
}

// recordsPerEpisode are spread over the steps of an episode.
const recordsPerEpisode = 4

// recorders are the loops of direct whose plans are recorded: on the CPU in float32, in
// float64, and, nil where it is the first, of the map as it is.
type recorders struct{ plan, reference, whole *batchnav.Navigator }

// record drives episodes by direct and takes what it decodes at some of their steps.
func (c *Case) record(ctx context.Context, m *model.Model, opt ExportOptions) ([]export.Record, error) {
	decides, err := rounded(m, opt.Half)
	if err != nil {
		return nil, err
	}
	var rec recorders
	for _, l := range []struct {
		dst     **batchnav.Navigator
		backend string
		m       *model.Model
	}{{&rec.plan, "cpu", decides}, {&rec.reference, "ref", decides}, {&rec.whole, "cpu", m}} {
		if l.dst == &rec.whole && !opt.Half {
			continue
		}
		e, _, err := engine.Open(engine.Options{Backend: l.backend, Threads: 1})
		if err != nil {
			return nil, err
		}
		defer e.Close()
		// Localization has no part in direct, and preparing it takes long in float64.
		plain := *l.m
		plain.Codes, plain.CodesDecoded = tensor.Matrix{}, tensor.Matrix{}
		if *l.dst, err = batchnav.NewNavigator(e, &plain, c.def.Problem, batchnav.Options{Direct: true, NoiseFree: true}); err != nil {
			return nil, BadInput(err)
		}
	}
	spec := c.Spec()
	s, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	rng := rand.New(rand.NewPCG(opt.Seed, 0))
	adaptive := domain.Preference{Adaptive: true}
	var records []export.Record
	for index := 0; len(records) < opt.Records; index++ {
		ep, err := c.def.Plant.Episode(opt.Seed, index, domain.EpisodeOptions{Preference: adaptive, Context: ctx})
		if err != nil {
			return nil, err
		}
		for step, count := 0, 0; !ep.Done() && len(records) < opt.Records; step++ {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			ep.Observe(s, cx)
			if step*recordsPerEpisode >= count*ep.Steps() {
				r, err := rec.decide(spec, s, cx, preferenceOf(len(records), spec.ObjectiveSize(), rng))
				if err != nil {
					return nil, err
				}
				records = append(records, *r)
				count++
			}
			d, err := rec.plan.Decide(s, cx, adaptive)
			if err != nil {
				return nil, err
			}
			if _, err := ep.Apply(d.U); err != nil {
				return nil, err
			}
		}
	}
	return records, nil
}

// preferenceOf is of record i: adaptive, and at every other one fixed, first at the
// corners of the simplex and then anywhere on it. Weights are as float32 holds them.
func preferenceOf(i, objectives int, rng *rand.Rand) domain.Preference {
	if i%2 == 0 {
		return domain.Preference{Adaptive: true}
	}
	w := make([]float64, objectives)
	if i/2 < objectives {
		w[i/2] = 1
		return domain.Preference{W: w}
	}
	domain.DrawWeights(rng, w)
	for j, v := range w {
		w[j] = float64(float32(v))
	}
	return domain.Preference{W: w}
}

// decide decides at the observation as float32 holds it.
func (rec *recorders) decide(spec *domain.Spec, s, c []float64, pref domain.Preference) (*export.Record, error) {
	r := &export.Record{S: make([]float32, len(s)), C: make([]float32, len(c))}
	tensor.Narrow(r.S, s)
	tensor.Narrow(r.C, c)
	if !pref.Adaptive {
		r.W = make([]float32, len(pref.W))
		tensor.Narrow(r.W, pref.W)
	}
	state, context := make([]float64, len(s)), make([]float64, len(c))
	tensor.Widen(state, r.S)
	tensor.Widen(context, r.C)
	for _, l := range []struct {
		navigator *batchnav.Navigator
		dst       *[]float32
	}{{rec.plan, &r.Plan}, {rec.reference, &r.Reference}, {rec.whole, &r.Whole}} {
		if l.navigator == nil {
			continue
		}
		d, err := l.navigator.Decide(state, context, pref)
		if err != nil {
			return nil, err
		}
		if d.Fallback&(domain.FallbackObservation|domain.FallbackAction) != 0 {
			return nil, fmt.Errorf("gpc: the map of %s decodes no finite plan at s %v, c %v", spec.Name, r.S, r.C)
		}
		*l.dst = append([]float32(nil), d.Decoded...)
	}
	return r, nil
}

// maxEpisodes bounds the episodes of an export.
const maxEpisodes = 1 << 16

// exportWhole writes the whole controller, after driving it.
func (c *Case) exportWhole(ctx context.Context, m *model.Model, opt ExportOptions) (*export.Result, error) {
	if _, ok := c.def.Problem.(export.Equated); !ok {
		return nil, badOptionf("case %s is not given by equations, so that only its map can be exported: set {MapOnly}", c.Name())
	}
	if err := c.drivable(opt); err != nil {
		return nil, err
	}
	if opt.Method == export.Solver {
		return c.exportSolver(ctx, opt)
	}
	if m == nil {
		return nil, badOptionf("no map to export for case %s: give a model file, or export its exact controller with {Method} %s", c.Name(), export.Solver)
	}
	if err := c.exports(cmp.Or(opt.Method, m.Provenance.Method), opt.Method != ""); err != nil {
		return nil, err
	}
	if err := c.fits(m, "the map"); err != nil {
		return nil, BadInput(err)
	}
	decides, err := rounded(m, opt.Half)
	if err != nil {
		return nil, err
	}
	whole := export.Whole{Half: opt.Half, Guard: c.def.Guard, FMU: opt.FMU, Start: c.middleScenario()}
	if err := c.driveExported(ctx, decides, opt, &whole); err != nil {
		return nil, err
	}
	return export.Controller(ctx, opt.Dir, m, c.def.Problem, whole)
}

// drivable refuses what no episodes can be driven or written for.
func (c *Case) drivable(opt ExportOptions) error {
	switch {
	case opt.Dir == "":
		return badInputf("no folder to export to")
	case opt.Episodes < 1 || opt.Episodes > maxEpisodes:
		return badInputf("%d episodes to drive, want 1 to %d", opt.Episodes, maxEpisodes)
	case c.def.Plant == nil:
		return badInputf("case %s has no plant to drive the controller with", c.Name())
	}
	if err := durable.Vacant(opt.Dir); err != nil {
		return BadInput(err)
	}
	return nil
}

// middleScenario is the scenario in the middle of the ranges, nil where there are none.
func (c *Case) middleScenario() (p []float64) {
	if c.def.Solver != nil {
		for _, v := range c.def.Solver.Parameters() {
			p = append(p, v.Middle())
		}
	}
	return p
}

// exportableSolver is what exportSolver needs of a case's solver.
type exportableSolver interface {
	Bounds() (tolerance float64, iterations int)
	ColdStarts(ctx context.Context) (*ocp.ColdStarts, error)
	Blocked(steps int) []bool
	SingleStart() domain.Solver
}

var _ exportableSolver = (*ocp.Solver)(nil)

// exportSolver writes the exact controller, after driving it.
func (c *Case) exportSolver(ctx context.Context, opt ExportOptions) (*export.Result, error) {
	solver, ok := c.def.Solver.(exportableSolver)
	if _, optimised := c.def.Problem.(export.Optimised); !ok || !optimised {
		return nil, badInputf("case %s has its own solver, which cannot be exported as C", c.Name())
	}
	switch {
	case c.def.Level > 0 && c.Spec().Horizon > 0:
		return nil, badOptionf("case %s runs on and keeps %v standard deviations off its limits, which method %s in C cannot: leave {KeepOff} out", c.Name(), c.def.Level, export.Solver)
	case opt.Half:
		return nil, badOptionf("{Half} rounds the weights of a map, which method %s does not have: leave it out", export.Solver)
	}
	tightCase, backoff, err := c.keepingOff()
	if err != nil {
		return nil, err
	}
	single := tightCase.def
	single.Solver = single.Solver.(exportableSolver).SingleStart()
	method, err := tightCase.defined(single).method(export.Solver)
	if err != nil {
		return nil, err
	}
	loop, err := method.New(domain.Means{})
	if err != nil {
		return nil, err
	}
	exact := export.OptimalOptions{FMU: opt.FMU, Start: c.middleScenario(), State: make([]float64, c.Spec().MeasuredSize())}
	domain.AbilitiesOfSolver(c.def.Solver).Start(exact.Start, exact.State, make([]float64, c.Spec().ContextSize()))
	exact.Tolerance, exact.Iterations = solver.Bounds()
	exact.Blocked = solver.Blocked(c.Spec().LookAhead())
	starts, err := solver.ColdStarts(ctx)
	if err != nil {
		return nil, err
	}
	exact.Starts, exact.Waves = starts.Starts, starts.Waves
	exact.Nearest, exact.Scale = starts.Nearest, starts.Scale
	for i, state := range starts.States {
		exact.Library = append(exact.Library, export.Planned{At: state, Plan: starts.Plans[i]})
	}
	if exact.Episodes, exact.Observed, err = c.driveExport(ctx, opt, loop, backoff, nil); err != nil {
		return nil, err
	}
	return export.Optimal(ctx, opt.Dir, c.def.Problem, exact)
}

// exportSearch writes the controller of a case with switched actions, after driving it.
func (c *Case) exportSearch(ctx context.Context, m *model.Model, opt ExportOptions) (*export.Result, error) {
	name := opt.Method
	if name == "" && m != nil {
		name = m.Provenance.Method
	}
	method, err := c.method(name)
	if err != nil {
		return nil, err
	}
	search, needsMap, ok := mixedinteger.OptionsOf(method.Name)
	switch {
	case opt.MapOnly:
		return nil, badOptionf("case %s has switched actions, whose map gives chances that a search decides by: leave {MapOnly} out", c.Name())
	case !ok || search.Ahead || search.Polish || search.Relaxed:
		return nil, badOptionf("method %s cannot be exported: of a case with switched actions C has direct, refine-N and search-N, which neither solve nor search between decisions; choose one with {Method}", method.Name)
	case c.Indirect():
		return nil, badInputf("case %s has a Measurement or a delay, which C does not have with switched actions: export a copy of the system without them, and give it the state that is estimated", c.Name())
	case needsMap && m == nil:
		return nil, badOptionf("no map to export for case %s: give a model file, or export a search without one with {Method} search-512", c.Name())
	case !needsMap && opt.Half:
		return nil, badOptionf("{Half} rounds the weights of a map, which method %s does not have: leave it out", method.Name)
	}
	if err := c.drivable(opt); err != nil {
		return nil, err
	}
	setup, switched := Setup{Method: method.Name}, export.Switched{Method: method.Name, Controller: search, Half: opt.Half, FMU: opt.FMU, Start: c.middleScenario()}
	switched.Counters = mixedinteger.Counters(c.def.Problem, c.def.Solver.Parameters(), domain.AbilitiesOfSolver(c.def.Solver).Start)
	if needsMap {
		setup.Model, switched.Map, switched.Shares = m, m, c.mapped()
		if setup.Model, err = rounded(m, opt.Half); err != nil {
			return nil, err
		}
	}
	resolved, err := c.Resolve(setup)
	if err != nil {
		return nil, err
	}
	e, err := OpenEngine(engine.Options{Backend: "cpu", Threads: 1})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	k, err := resolved.controller(e)
	if err != nil {
		return nil, err
	}
	if switched.Episodes, _, err = c.driveExport(ctx, opt, k, nil, nil); err != nil {
		return nil, err
	}
	return export.Search(ctx, opt.Dir, c.def.Problem, switched)
}

// exports refuses a method that C does not have. A map that was compiled for direct leaves as export.Method; asked for by
// its name direct is refused, since its guard asks a search and a solver.
func (c *Case) exports(method string, byName bool) error {
	if method == "" || method == "direct" && !byName {
		method = export.Method
	}
	resolved, err := c.method(method)
	if err != nil {
		return err
	}
	if resolved.Name == export.Method {
		return nil
	}
	reason := "the map was compiled for it"
	if byName {
		reason = "{Method} names it"
	}
	return badOptionf("method %s cannot be exported (%s). Export %s, %s, with {Method} %s; the exact controller with {Method} %s; or the map alone with {MapOnly}", resolved.Name, reason, export.Method, "whose guard neither searches nor asks a solver", export.Method, export.Solver)
}
