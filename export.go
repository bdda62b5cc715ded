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
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/ocp"
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
	for _, err := range []error{c.fits(m, "the map"), export.Vacant(opt.Dir)} {
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
	var by recorders
	for _, l := range []struct {
		to      **batchnav.Navigator
		backend string
		m       *model.Model
	}{{&by.plan, "cpu", decides}, {&by.reference, "ref", decides}, {&by.whole, "cpu", m}} {
		if l.to == &by.whole && !opt.Half {
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
		if *l.to, err = batchnav.NewNavigator(e, &plain, c.def.Problem, batchnav.Options{Direct: true, NoiseFree: true}); err != nil {
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
		for step, taken := 0, 0; !ep.Done() && len(records) < opt.Records; step++ {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			ep.Observe(s, cx)
			if step*recordsPerEpisode >= taken*ep.Steps() {
				r, err := by.decide(spec, s, cx, preferenceOf(len(records), spec.ObjectiveSize(), rng))
				if err != nil {
					return nil, err
				}
				records = append(records, *r)
				taken++
			}
			d, err := by.plan.Decide(s, cx, adaptive)
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
func (by *recorders) decide(spec *domain.Spec, s, c []float64, pref domain.Preference) (*export.Record, error) {
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
		by *batchnav.Navigator
		to *[]float32
	}{{by.plan, &r.Plan}, {by.reference, &r.Reference}, {by.whole, &r.Whole}} {
		if l.by == nil {
			continue
		}
		d, err := l.by.Decide(state, context, pref)
		if err != nil {
			return nil, err
		}
		if d.Fallback&(domain.FallbackObservation|domain.FallbackAction) != 0 {
			return nil, fmt.Errorf("gpc: the map of %s decodes no finite plan at s %v, c %v", spec.Name, r.S, r.C)
		}
		*l.to = append([]float32(nil), d.Decoded...)
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
func (n *navigated) count(to *export.Episode) {
	if n.offMap {
		to.OffMap++
	}
	if n.guarded {
		to.Guarded++
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

// driveExport drives the episodes of an export by a controller, behind what the case needs before it; off, optional, is what the
// controller's problem keeps off its limits, and count, optional, is called after every decision.
func (c *Case) driveExport(ctx context.Context, opt ExportOptions, k domain.Controller, off *domain.Backoff, count func(*export.Episode)) ([]export.Episode, *export.Observed, error) {
	k, observed, err := c.observing(k, off)
	if err != nil {
		return nil, nil, err
	}
	d := exportDrive{of: c, k: k, observed: observed, count: count}
	episodes := make([]export.Episode, opt.Episodes)
	drive := func(index int, driven *export.Episode) error {
		ep, err := c.def.Plant.Episode(opt.Seed, index, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}, Context: ctx})
		if err != nil {
			return err
		}
		if err := k.Reset(ep); err != nil {
			return err
		}
		if err := d.episode(ctx, ep, driven); err != nil {
			return fmt.Errorf("episode %d: %w", index, err)
		}
		return nil
	}
	progress := func(done int) {
		if opt.Progress != nil {
			opt.Progress(done, len(episodes))
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
func (c *Case) observing(k domain.Controller, off *domain.Backoff) (domain.Controller, *export.Observed, error) {
	if !c.indirect() {
		return k, nil, nil
	}
	o := &export.Observed{Measurement: c.def.Measurement, Delay: c.def.Delay}
	if m := c.def.Measurement; m != nil {
		if m.Window > 0 || m.Lo != nil || m.Bounded {
			return nil, nil, badInputf("case %s is estimated over a window of decisions, within bounds of its states, or with bounds of its errors: C has the Kalman filter without them alone", c.Name())
		}
		known, ok := c.def.Problem.(export.Observable)
		if !ok {
			return nil, nil, badInputf("case %s has a Measurement whose function is not known as equations", c.Name())
		}
		var err error
		if o.Outputs, err = known.Outputs(c.def.Measurement); err != nil {
			return nil, nil, BadInput(err)
		}
		if o.Filter, err = c.Estimator(); err != nil {
			return nil, nil, err
		}
	}
	var margin *estimate.Margin
	if off != nil {
		var err error
		if margin, err = estimate.NewMargin(c.def.Problem, off, o.Filter, c.def.Level); err != nil {
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
	of       *Case
	k        domain.Controller
	observed *export.Observed
	count    func(*export.Episode)
	spoiled  bool // sensors have faults, and observed gets the decisions
}

// episode drives one.
func (d *exportDrive) episode(ctx context.Context, ep domain.Episode, driven *export.Episode) error {
	spec, problem := d.of.Spec(), d.of.def.Problem
	adaptive := domain.Preference{Adaptive: true}
	s, c, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	shown, known, next, after := slices.Clone(s), slices.Clone(c), slices.Clone(s), slices.Clone(c)
	ep.Observe(s, c)
	ep.State(s)
	*driven = export.Episode{S: slices.Clone(s), C: slices.Clone(c), End: slices.Clone(s), Safe: true}
	way := make([][]float64, d.of.def.Delay.Ahead())
	for i := range way {
		way[i] = slices.Clone(u)
		problem.Fallback(s, c, way[i])
	}
	before := slices.Clone(u)
	for t := 0; !ep.Done(); t++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		ep.Observe(shown, c)
		ep.State(s)
		acts := before
		if d.of.def.Delay.Share() > 0 {
			acts = way[0]
		}
		if err := d.decide(ep, t, shown, c, acts, adaptive, known, u, driven); err != nil {
			return err
		}
		if d.count != nil {
			d.count(driven)
		}
		way = append(way, slices.Clone(u))
		before, way = way[0], way[1:]
		problem.Step(s, c, before, next, after)
		out, err := ep.Apply(u)
		if err != nil {
			return err
		}
		driven.Cost += out.Cost
		driven.Safe = driven.Safe && spec.Keeps(out.Margin) && !out.Failed
		copy(driven.End, out.S)
		d.acted(ep, out.S, next, after, driven)
	}
	return nil
}

// decide decides by what the episode shows, whose state and context are given with the action that acts.
func (d *exportDrive) decide(ep domain.Episode, t int, shown, c, acts []float64, pref domain.Preference, known, u []float64, driven *export.Episode) error {
	m := d.of.def.Measurement
	if m == nil {
		_, err := d.k.Decide(shown, c, pref, u)
		return err
	}
	measure := domain.AbilitiesOfEpisode(ep).Measure
	decide := domain.AbilitiesOfController(d.k).DecideMeasured
	if measure == nil || decide == nil {
		return fmt.Errorf("case %s has a Measurement, and its plant does not measure", d.of.Name())
	}
	y, told, exact := make([]float64, len(m.Outputs)), make([]float64, len(c)), make([]float64, len(m.Outputs))
	measure(y, told)
	m.Output(shown, c, acts, exact)
	for i, v := range exact {
		exact[i] = y[i] - v
	}
	driven.Noise = append(driven.Noise, exact)
	if d.spoiled {
		d.spoil(t, y)
	}
	s := make([]float64, len(shown))
	if _, err := decide(y, told, pref, s, known, u); err != nil {
		return err
	}
	if d.spoiled {
		d.observed.Replay = append(d.observed.Replay, export.Replayed{
			Y: y, C: told, S: s, U: slices.Clone(u), Faults: slices.Clone(d.observed.Filter.Faults()),
		})
	}
	return nil
}

// spoil gives sensors their faults: values are missing, one is far off, four in a row are, and one stands still.
func (d *exportDrive) spoil(t int, y []float64) {
	const far = 1e6 // standard deviations
	last := len(y) - 1
	switch {
	case t == 3:
		y[0] = math.NaN()
	case t == 6:
		y[last] = math.NaN()
	case t == 5:
		y[last] += far * d.of.def.Measurement.Deviation[last]
	case t >= 8 && t < 8+estimate.Persistent:
		y[0] -= far * d.of.def.Measurement.Deviation[0]
	case t > 14 && t < 24:
		y[0] = d.observed.Replay[14].Y[0]
	}
}

// acted takes what acted on a plant, whose model is after the action at next and after.
func (d *exportDrive) acted(ep domain.Episode, s, next, after []float64, driven *export.Episode) {
	m := d.of.def.Measurement
	if m == nil {
		return
	}
	own, c := make([]float64, len(s)), make([]float64, len(after))
	ep.Observe(own, c)
	var acts []float64
	some := false
	for i, v := range s {
		acts = append(acts, v-next[i])
	}
	for _, p := range m.Unknown {
		acts = append(acts, c[p.Context]-after[p.Context])
	}
	for _, v := range acts {
		some = some || v != 0
	}
	if some || driven.Acts != nil {
		for len(driven.Acts) < len(driven.Noise)-1 {
			driven.Acts = append(driven.Acts, make([]float64, len(acts)))
		}
		driven.Acts = append(driven.Acts, acts)
	}
}

// maxEpisodes bounds the episodes of an export.
const maxEpisodes = 1 << 16

// exportWhole writes the whole controller, after driving it.
func (c *Case) exportWhole(ctx context.Context, m *model.Model, opt ExportOptions) (*export.Result, error) {
	if _, ok := c.def.Problem.(export.Equated); !ok {
		return nil, badOptionf("case %s is not given by equations, so that only its map can be exported: set {MapOnly}", c.Name())
	}
	switch {
	case opt.Dir == "":
		return nil, badInputf("no folder to export to")
	case opt.Episodes < 1 || opt.Episodes > maxEpisodes:
		return nil, badInputf("%d episodes to drive, want 1 to %d", opt.Episodes, maxEpisodes)
	case c.def.Plant == nil:
		return nil, badInputf("case %s has no plant to drive the controller with", c.Name())
	}
	if err := export.Vacant(opt.Dir); err != nil {
		return nil, BadInput(err)
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
}

var _ exportableSolver = (*ocp.Solver)(nil)

// exportSolver writes the exact controller, after driving it.
func (c *Case) exportSolver(ctx context.Context, opt ExportOptions) (*export.Result, error) {
	solver, ok := c.def.Solver.(exportableSolver)
	if _, of := c.def.Problem.(export.Optimised); !ok || !of {
		return nil, badInputf("case %s has its own solver, which cannot be exported as C", c.Name())
	}
	switch {
	case c.def.Level > 0 && c.Spec().Horizon > 0:
		return nil, badOptionf("case %s runs on and keeps %v standard deviations off its limits, which method %s in C cannot: leave {KeepOff} out", c.Name(), c.def.Level, export.Solver)
	case opt.Half:
		return nil, badOptionf("{Half} rounds the weights of a map, which method %s does not have: leave it out", export.Solver)
	}
	kept, off, err := c.keepingOff()
	if err != nil {
		return nil, err
	}
	found, err := kept.method(export.Solver)
	if err != nil {
		return nil, err
	}
	loop, err := found.New(domain.Means{})
	if err != nil {
		return nil, err
	}
	exact := export.OptimalOptions{FMU: opt.FMU, Start: c.middleScenario()}
	exact.Tolerance, exact.Iterations = solver.Bounds()
	exact.Blocked = solver.Blocked(c.Spec().LookAhead())
	from, err := solver.ColdStarts(ctx)
	if err != nil {
		return nil, err
	}
	exact.Starts, exact.Waves, exact.Nearest, exact.Scale = from.Starts, from.Waves, from.Nearest, from.Scale
	for i, at := range from.States {
		exact.Library = append(exact.Library, export.Planned{At: at, Plan: from.Plans[i]})
	}
	if exact.Episodes, exact.Observed, err = c.driveExport(ctx, opt, loop, off, nil); err != nil {
		return nil, err
	}
	return export.Optimal(ctx, opt.Dir, c.def.Problem, exact)
}

// exports refuses a method that C does not have. A map that was compiled for direct leaves as export.Method; asked for by
// its name direct is refused, since its guard asks a search and a solver.
func (c *Case) exports(method string, byName bool) error {
	if method == "" || method == "direct" && !byName {
		method = export.Method
	}
	found, err := c.method(method)
	if err != nil {
		return err
	}
	if found.Name == export.Method {
		return nil
	}
	whose := "the map was compiled for it"
	if byName {
		whose = "{Method} names it"
	}
	return badOptionf("method %s cannot be exported (%s). Export %s, %s, with {Method} %s; the exact controller with {Method} %s; or the map alone with {MapOnly}", found.Name, whose, export.Method, "whose guard neither searches nor asks a solver", export.Method, export.Solver)
}

// driveExported drives the episodes by the method that is exported, on the CPU.
func (c *Case) driveExported(ctx context.Context, m *model.Model, opt ExportOptions, whole *export.Whole) error {
	e, _, err := engine.Open(engine.Options{Backend: "cpu", Threads: 1})
	if err != nil {
		return err
	}
	defer e.Close()
	how, err := batchnav.OptionsFor(export.Method)
	if err != nil {
		return err
	}
	how.Guard = &c.def.Guard
	kept, off, err := c.keepingOff()
	if err != nil {
		return err
	}
	loop, err := batchnav.NewNavigator(e, m, kept.def.Problem, how)
	if err != nil {
		return BadInput(err)
	}
	if lo, hi := loop.Envelope(); lo != nil {
		whole.Envelope = [][]float64{lo, hi}
	}
	by := &navigated{loop: loop}
	whole.Episodes, whole.Observed, err = c.driveExport(ctx, opt, by, off, by.count)
	whole.Limit = by.limit
	return err
}
