package gpc

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/closedloop/estimate"
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

// recordsPerEpisode are spread over the steps of an episode.
const recordsPerEpisode = 4

// recorders are the loops of direct whose plans are recorded: on the CPU in float32, in
// float64, and, nil where it is the first, of the map as it is.
type recorders struct{ plan, reference, whole *batchnav.Navigator }

// record drives episodes by direct and takes what it decodes at some of their steps.
func (c *Case) record(ctx context.Context, m *model.Model, opt ExportOptions) ([]export.Record, error) {
	decides := m
	if opt.Half {
		var err error
		if decides, err = export.Rounded(m); err != nil {
			return nil, BadInput(err)
		}
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
	sum := 0.0
	for j := range w {
		w[j] = rng.ExpFloat64()
		sum += w[j]
	}
	for j := range w {
		w[j] = float64(float32(w[j] / sum))
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

// navigated is a navigator that remembers what the written test counts of its last decision.
type navigated struct {
	loop            *batchnav.Navigator
	offMap, guarded bool
	limit           float64
}

// Abilities implements domain.Able.
func (n *navigated) Abilities() *domain.ControllerAbilities {
	return &domain.ControllerAbilities{Follows: n.loop.Follow}
}

// count adds the last decision to an episode's, unless that was done.
func (n *navigated) count(record *export.Episode) {
	if n.offMap {
		record.OffMap++
	}
	if n.guarded {
		record.Guarded++
	}
	n.offMap, n.guarded = false, false
}

// Reset implements domain.Controller.
func (n *navigated) Reset(domain.Episode) error {
	n.loop.Reset()
	return nil
}

// Decide implements domain.Controller.
func (n *navigated) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	d, err := n.loop.Decide(s, c, pref)
	if err != nil {
		return domain.Decision{}, err
	}
	n.offMap, n.guarded, n.limit = d.OffMap, d.Fallback&domain.FallbackGuard != 0, d.Limit
	copy(u, d.U)
	return d.Decision, nil
}

// driveExport drives the episodes of an export by a controller, behind what the case needs before it; backoff, optional, is what the
// controller's problem keeps off its limits, and count, optional, is called after every decision.
func (c *Case) driveExport(ctx context.Context, opt ExportOptions, k domain.Controller, backoff *domain.Backoff, count func(*export.Episode)) ([]export.Episode, *export.Observed, error) {
	k, observed, err := c.observing(k, backoff)
	if err != nil {
		return nil, nil, err
	}
	d := exportDrive{controlCase: c, k: k, observed: observed, count: count}
	episodes := make([]export.Episode, opt.Episodes)
	drive := func(index int, record *export.Episode) error {
		ep, err := c.def.Plant.Episode(opt.Seed, index, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}, Context: ctx})
		if err != nil {
			return err
		}
		if err := k.Reset(ep); err != nil {
			return err
		}
		if err := d.episode(ctx, ep, record); err != nil {
			return fmt.Errorf("episode %d: %w", index, err)
		}
		return nil
	}
	progress := func(finished int) {
		if opt.Progress != nil {
			opt.Progress(finished, len(episodes))
		}
	}
	for index := range episodes {
		progress(index)
		if err := drive(index, &episodes[index]); err != nil {
			return nil, nil, err
		}
	}
	progress(len(episodes))
	if c.def.Measurement != nil {
		d.spoiled = true
		if err := drive(0, &export.Episode{}); err != nil {
			return nil, nil, err
		}
	}
	return episodes, observed, nil
}

// observing is a controller behind the estimator and the prediction of its case, with what is kept off its limits, and what is
// exported of them.
func (c *Case) observing(k domain.Controller, backoff *domain.Backoff) (domain.Controller, *export.Observed, error) {
	if !c.indirect() {
		return k, nil, nil
	}
	o := &export.Observed{Measurement: c.def.Measurement, Delay: c.def.Delay}
	if m := c.def.Measurement; m != nil {
		if m.Window > 0 || m.Lo != nil || m.Bounded {
			return nil, nil, badInputf("case %s is estimated over a window of decisions, within bounds of its states, or with bounds of its errors: C has the Kalman filter without them alone", c.Name())
		}
		problem, ok := c.def.Problem.(export.Observable)
		if !ok {
			return nil, nil, badInputf("case %s has a Measurement whose function is not known as equations", c.Name())
		}
		var err error
		if o.Outputs, err = problem.Outputs(c.def.Measurement); err != nil {
			return nil, nil, BadInput(err)
		}
		if o.Filter, err = c.Estimator(); err != nil {
			return nil, nil, err
		}
	}
	var margin *estimate.Margin
	if backoff != nil {
		var err error
		if margin, err = estimate.NewMargin(c.def.Problem, backoff, o.Filter, c.def.Level); err != nil {
			return nil, nil, BadInput(err)
		}
		o.Level = c.def.Level
	}
	loop := estimate.NewLoop(k, c.def.Problem, o.Filter, margin, c.def.Delay)
	if margin != nil {
		o.Foreseen = margin.Foreseen()
	}
	return loop, o, nil
}

// exportDrive drives episodes and takes what a test in C needs to drive the same ones.
type exportDrive struct {
	controlCase *Case
	k           domain.Controller
	observed    *export.Observed
	count       func(*export.Episode)
	spoiled     bool // sensors have faults, and observed gets the decisions
}

// episode drives one.
func (d *exportDrive) episode(ctx context.Context, ep domain.Episode, record *export.Episode) error {
	spec, problem := d.controlCase.Spec(), d.controlCase.def.Problem
	adaptive := domain.Preference{Adaptive: true}
	s, c, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	observed, estimated := slices.Clone(s), slices.Clone(c)
	next, nextContext := slices.Clone(s), slices.Clone(c)
	ep.Observe(s, c)
	ep.State(s)
	*record = export.Episode{S: slices.Clone(s), C: slices.Clone(c), End: slices.Clone(s), Safe: true}
	way := make([][]float64, d.controlCase.def.Delay.Ahead())
	for i := range way {
		way[i] = slices.Clone(u)
		problem.Fallback(s, c, way[i])
	}
	lastAction := slices.Clone(u)
	for t := 0; !ep.Done(); t++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		ep.Observe(observed, c)
		ep.State(s)
		acts := lastAction
		if d.controlCase.def.Delay.Share() > 0 {
			acts = way[0]
		}
		if err := d.decide(ep, t, observed, c, acts, adaptive, estimated, u, record); err != nil {
			return err
		}
		if d.count != nil {
			d.count(record)
		}
		way = append(way, slices.Clone(u))
		lastAction, way = way[0], way[1:]
		problem.Step(s, c, lastAction, next, nextContext)
		out, err := ep.Apply(u)
		if err != nil {
			return err
		}
		record.Cost += out.Cost
		record.Safe = record.Safe && spec.Keeps(out.Margin) && !out.Failed
		copy(record.End, out.S)
		d.recordDisturbance(ep, out.S, next, nextContext, record)
	}
	return nil
}

// decide decides by what the episode shows, whose state and context are given with the action that acts.
func (d *exportDrive) decide(ep domain.Episode, t int, observed, c, acts []float64, pref domain.Preference, estimated, u []float64, record *export.Episode) error {
	m := d.controlCase.def.Measurement
	if m == nil {
		_, err := d.k.Decide(observed, c, pref, u)
		return err
	}
	measure := domain.AbilitiesOfEpisode(ep).Measure
	decide := domain.AbilitiesOfController(d.k).DecideMeasured
	if measure == nil || decide == nil {
		return fmt.Errorf("case %s has a Measurement, and its plant does not measure", d.controlCase.Name())
	}
	y, measuredContext, exact := make([]float64, len(m.Outputs)), make([]float64, len(c)), make([]float64, len(m.Outputs))
	measure(y, measuredContext)
	m.Output(observed, c, acts, exact)
	for i, v := range exact {
		exact[i] = y[i] - v
	}
	record.Noise = append(record.Noise, exact)
	if d.spoiled {
		d.spoil(t, y)
	}
	s := make([]float64, len(observed))
	if _, err := decide(y, measuredContext, pref, s, estimated, u); err != nil {
		return err
	}
	if d.spoiled {
		d.observed.Replay = append(d.observed.Replay, export.Replayed{
			Y: y, C: measuredContext, S: s, U: slices.Clone(u), Faults: slices.Clone(d.observed.Filter.Faults()),
		})
	}
	return nil
}

// spoil gives sensors their faults: values are missing, one is far off, four in a row are, and one stands still.
func (d *exportDrive) spoil(t int, y []float64) {
	const gross = 1e6 // standard deviations
	last := len(y) - 1
	switch {
	case t == 3:
		y[0] = math.NaN()
	case t == 6:
		y[last] = math.NaN()
	case t == 5:
		y[last] += gross * d.controlCase.def.Measurement.Deviation[last]
	case t >= 8 && t < 8+estimate.Persistent:
		y[0] -= gross * d.controlCase.def.Measurement.Deviation[0]
	case t > 14 && t < 24:
		y[0] = d.observed.Replay[14].Y[0]
	}
}

// recordDisturbance takes what acted on a plant, whose model is after the action at next and after.
func (d *exportDrive) recordDisturbance(ep domain.Episode, s, next, nextContext []float64, record *export.Episode) {
	m := d.controlCase.def.Measurement
	if m == nil {
		return
	}
	observed, c := make([]float64, len(s)), make([]float64, len(nextContext))
	ep.Observe(observed, c)
	var acts []float64
	disturbed := false
	for i, v := range s {
		acts = append(acts, v-next[i])
	}
	for _, p := range m.Unknown {
		acts = append(acts, c[p.Context]-nextContext[p.Context])
	}
	for _, v := range acts {
		disturbed = disturbed || v != 0
	}
	if disturbed || record.Acts != nil {
		for len(record.Acts) < len(record.Noise)-1 {
			record.Acts = append(record.Acts, make([]float64, len(acts)))
		}
		record.Acts = append(record.Acts, acts)
	}
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
	decides := m
	if opt.Half {
		var err error
		if decides, err = export.Rounded(m); err != nil {
			return nil, BadInput(err)
		}
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
	if sim, ok := c.def.Plant.(*closedloop.Simulation); ok {
		for _, v := range sim.Parameters {
			p = append(p, (v.Lo+v.Hi)/2)
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
	case c.indirect():
		return nil, badInputf("case %s has a Measurement or a delay, which C does not have with switched actions", c.Name())
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
		if opt.Half {
			if setup.Model, err = export.Rounded(m); err != nil {
				return nil, BadInput(err)
			}
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

// driveExported drives the episodes by the method that is exported, on the CPU.
func (c *Case) driveExported(ctx context.Context, m *model.Model, opt ExportOptions, whole *export.Whole) error {
	e, _, err := engine.Open(engine.Options{Backend: "cpu", Threads: 1})
	if err != nil {
		return err
	}
	defer e.Close()
	options, err := batchnav.OptionsFor(export.Method)
	if err != nil {
		return err
	}
	options.Guard = &c.def.Guard
	tightCase, backoff, err := c.keepingOff()
	if err != nil {
		return err
	}
	loop, err := batchnav.NewNavigator(e, m, tightCase.def.Problem, options)
	if err != nil {
		return BadInput(err)
	}
	if lo, hi := loop.Envelope(); lo != nil {
		whole.Envelope = [][]float64{lo, hi}
	}
	controller := &navigated{loop: loop}
	whole.Episodes, whole.Observed, err = c.driveExport(ctx, opt, controller, backoff, controller.count)
	whole.Limit = controller.limit
	return err
}
