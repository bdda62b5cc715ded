package gpc

import (
	"cmp"
	"context"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/offline/shooting"
)

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
	ColdStarts(ctx context.Context) (*shooting.ColdStarts, error)
	Blocked(steps int) []bool
}

var _ exportableSolver = (*shooting.Solver)(nil)

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
