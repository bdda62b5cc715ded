package gpc

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/model"
)

// maxEpisodes bounds the episodes of an export.
const maxEpisodes = 1 << 16

// exportWhole writes the whole controller, after driving it.
func (c *Case) exportWhole(ctx context.Context, m *model.Model, opt ExportOptions) (*export.Result, error) {
	if _, ok := c.def.Problem.(export.Equated); !ok {
		return nil, badInputf("case %s is not given by equations: there is no whole controller to export, only its map alone, which is --map-only", c.Name())
	}
	if err := c.exports(cmp.Or(opt.Method, m.Provenance.Method), opt.Method != ""); err != nil {
		return nil, err
	}
	switch {
	case opt.Dir == "":
		return nil, badInputf("no folder to export to")
	case opt.Episodes < 1 || opt.Episodes > maxEpisodes:
		return nil, badInputf("%d episodes to drive, want 1 to %d", opt.Episodes, maxEpisodes)
	case c.def.Measurement != nil:
		return nil, badInputf("case %s has a Measurement: the estimator before the controller is not exported", c.Name())
	case c.def.Delay.Periods > 0:
		return nil, badInputf("case %s has a delay of %v periods: the prediction before the controller is not exported", c.Name(), c.def.Delay.Periods)
	case c.def.Plant == nil:
		return nil, badInputf("case %s has no plant to drive the controller with", c.Name())
	}
	for _, err := range []error{c.fits(m, "the map"), export.Vacant(opt.Dir)} {
		if err != nil {
			return nil, BadInput(err)
		}
	}
	decides := m
	if opt.Half {
		var err error
		if decides, err = export.Rounded(m); err != nil {
			return nil, BadInput(err)
		}
	}
	whole := export.Whole{Half: opt.Half, Guard: c.def.Guard, FMU: opt.FMU}
	if sim, ok := c.def.Plant.(*closedloop.Simulation); ok {
		for _, v := range sim.Parameters {
			whole.Start = append(whole.Start, (v.Lo+v.Hi)/2)
		}
	}
	if err := c.driveExported(ctx, decides, opt, &whole); err != nil {
		return nil, err
	}
	return export.Controller(ctx, opt.Dir, m, c.def.Problem, whole)
}

// exports refuses a method that C does not have. A map that was compiled for direct leaves as export.Method; asked for by
// its name direct is refused, since its guard asks a search and a solver.
func (c *Case) exports(method string, asked bool) error {
	if method == "" || method == "direct" && !asked {
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
	if asked {
		whose = "it was asked for"
	}
	return badInputf("method %s cannot be exported (%s): C has %s, %s, if that is asked for by --method %s; or the map alone by --map-only", found.Name, whose, export.Method, "whose guard neither searches nor asks a solver", export.Method)
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
	loop, err := batchnav.NewNavigator(e, m, c.def.Problem, how)
	if err != nil {
		return BadInput(err)
	}
	if lo, hi := loop.Envelope(); lo != nil {
		whole.Envelope = [][]float64{lo, hi}
	}
	for index := range opt.Episodes {
		ep, err := c.def.Plant.Episode(opt.Seed, index, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}, Context: ctx})
		if err != nil {
			return err
		}
		driven, limit, err := driveEpisode(ctx, loop, c.Spec(), ep)
		if err != nil {
			return fmt.Errorf("episode %d: %w", index, err)
		}
		whole.Limit = limit
		whole.Episodes = append(whole.Episodes, driven)
	}
	return nil
}

// driveEpisode drives one, and says above which residual an observation is off the map.
func driveEpisode(ctx context.Context, loop *batchnav.Navigator, spec *domain.Spec, ep domain.Episode) (driven export.Episode, limit float64, err error) {
	s, c := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	ep.Observe(s, c)
	driven = export.Episode{S: append([]float64(nil), s...), C: append([]float64(nil), c...), End: make([]float64, len(s)), Safe: true}
	loop.Reset()
	for !ep.Done() {
		if err := ctx.Err(); err != nil {
			return driven, 0, err
		}
		ep.Observe(s, c)
		d, err := loop.Decide(s, c, domain.Preference{Adaptive: true})
		if err != nil {
			return driven, 0, err
		}
		out, err := ep.Apply(d.U)
		if err != nil {
			return driven, 0, err
		}
		driven.Cost += out.Cost
		driven.Safe = driven.Safe && spec.Keeps(out.Margin) && !out.Failed
		if d.OffMap {
			driven.OffMap++
		}
		if d.Fallback&domain.FallbackGuard != 0 {
			driven.Guarded++
		}
		copy(driven.End, out.S)
		limit = d.Limit
	}
	return driven, limit, nil
}
