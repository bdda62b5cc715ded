package gpc

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/model"
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
