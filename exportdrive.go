package gpc

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop/estimate"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/model"
)

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
	if !c.Indirect() {
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
	s, c, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	observed, next, nextContext := slices.Clone(s), slices.Clone(s), slices.Clone(c)
	ep.Observe(s, c)
	ep.State(s)
	*record = export.Episode{S: slices.Clone(s), C: slices.Clone(c), End: slices.Clone(s), Safe: true}
	way := make([][]float64, d.controlCase.def.Delay.Ahead())
	for i := range way {
		way[i] = slices.Clone(u)
		problem.Fallback(s, c, way[i])
	}
	lastAction := slices.Clone(u)
	for !ep.Done() {
		if err := ctx.Err(); err != nil {
			return err
		}
		ep.Observe(observed, c)
		ep.State(s)
		acts := lastAction
		if d.controlCase.def.Delay.Share() > 0 {
			acts = way[0]
		}
		if err := d.decide(ep, observed, c, acts, u, record); err != nil {
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
func (d *exportDrive) decide(ep domain.Episode, observed, c, acts, u []float64, record *export.Episode) error {
	m, adaptive := d.controlCase.def.Measurement, domain.Preference{Adaptive: true}
	if m == nil {
		_, err := d.k.Decide(observed, c, adaptive, u)
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
		d.spoil(len(record.Noise)-1, y)
	}
	s, estimated := make([]float64, len(observed)), make([]float64, len(c))
	if _, err := decide(y, measuredContext, adaptive, s, estimated, u); err != nil {
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
	for i, v := range s {
		acts = append(acts, v-next[i])
	}
	for _, p := range m.Unknown {
		acts = append(acts, c[p.Context]-nextContext[p.Context])
	}
	if record.Acts != nil || slices.ContainsFunc(acts, func(v float64) bool { return v != 0 }) {
		for len(record.Acts) < len(record.Noise)-1 {
			record.Acts = append(record.Acts, make([]float64, len(acts)))
		}
		record.Acts = append(record.Acts, acts)
	}
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
