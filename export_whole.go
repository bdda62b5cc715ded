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
		return nil, badInputf("case %s is not given by equations, so that only its map can be exported: add --map-only", c.Name())
	}
	switch {
	case opt.Dir == "":
		return nil, badInputf("no folder to export to")
	case opt.Episodes < 1 || opt.Episodes > maxEpisodes:
		return nil, badInputf("%d episodes to drive, want 1 to %d", opt.Episodes, maxEpisodes)
	case c.def.Measurement != nil:
		return nil, badInputf("case %s estimates its state from measurements: the estimator cannot be exported", c.Name())
	case c.def.Delay.Periods > 0:
		return nil, badInputf("case %s has a delay of %v periods: the prediction over the delay cannot be exported", c.Name(), c.def.Delay.Periods)
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
		return nil, badInputf("no map to export for case %s: give a model file, or export its exact controller with --method %s", c.Name(), export.Solver)
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

// exportSolver writes the exact controller, after driving it.
func (c *Case) exportSolver(ctx context.Context, opt ExportOptions) (*export.Result, error) {
	solver, ok := c.def.Solver.(interface {
		Bounds() (tolerance float64, iterations int)
	})
	if _, of := c.def.Problem.(export.Optimised); !ok || !of {
		return nil, badInputf("case %s has its own solver, which cannot be exported as C", c.Name())
	}
	if c.Spec().Horizon > 0 {
		return nil, badInputf("episodes of case %s have no end: the exact controller can be exported only for episodes that end", c.Name())
	}
	if opt.Half {
		return nil, badInputf("--half rounds the weights of a map, which method %s does not have: leave it out", export.Solver)
	}
	found, err := c.method(export.Solver)
	if err != nil {
		return nil, err
	}
	loop, err := found.New(domain.Means{})
	if err != nil {
		return nil, err
	}
	exact := export.OptimalOptions{FMU: opt.FMU, Start: c.middleScenario()}
	exact.Tolerance, exact.Iterations = solver.Bounds()
	for index := range opt.Episodes {
		ep, err := c.def.Plant.Episode(opt.Seed, index, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}, Context: ctx})
		if err != nil {
			return nil, err
		}
		if err := loop.Reset(ep); err != nil {
			return nil, err
		}
		u := make([]float64, c.Spec().ActionSize())
		driven, err := driveEpisode(ctx, c.Spec(), ep, func(s, cx []float64, _ *export.Episode) ([]float64, error) {
			_, err := loop.Decide(s, cx, domain.Preference{Adaptive: true}, u)
			return u, err
		})
		if err != nil {
			return nil, fmt.Errorf("episode %d: %w", index, err)
		}
		exact.Episodes = append(exact.Episodes, driven)
	}
	return export.Optimal(ctx, opt.Dir, c.def.Problem, exact)
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
	return badInputf("method %s cannot be exported (%s). Export %s, %s, with --method %s; the exact controller with --method %s; or the map alone with --map-only", found.Name, whose, export.Method, "whose guard neither searches nor asks a solver", export.Method, export.Solver)
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
		loop.Reset()
		driven, err := driveEpisode(ctx, c.Spec(), ep, func(s, cx []float64, driven *export.Episode) ([]float64, error) {
			d, err := loop.Decide(s, cx, domain.Preference{Adaptive: true})
			if err != nil {
				return nil, err
			}
			if d.OffMap {
				driven.OffMap++
			}
			if d.Fallback&domain.FallbackGuard != 0 {
				driven.Guarded++
			}
			whole.Limit = d.Limit
			return d.U, nil
		})
		if err != nil {
			return fmt.Errorf("episode %d: %w", index, err)
		}
		whole.Episodes = append(whole.Episodes, driven)
	}
	return nil
}

// driveEpisode drives one by what decides.
func driveEpisode(ctx context.Context, spec *domain.Spec, ep domain.Episode, decide func(s, c []float64, driven *export.Episode) ([]float64, error)) (driven export.Episode, err error) {
	s, c := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	ep.Observe(s, c)
	driven = export.Episode{S: append([]float64(nil), s...), C: append([]float64(nil), c...), End: make([]float64, len(s)), Safe: true}
	for !ep.Done() {
		if err := ctx.Err(); err != nil {
			return driven, err
		}
		ep.Observe(s, c)
		u, err := decide(s, c, &driven)
		if err != nil {
			return driven, err
		}
		out, err := ep.Apply(u)
		if err != nil {
			return driven, err
		}
		driven.Cost += out.Cost
		driven.Safe = driven.Safe && spec.Keeps(out.Margin) && !out.Failed
		copy(driven.End, out.S)
	}
	return driven, nil
}
