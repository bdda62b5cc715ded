package gpc

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
)

// Fronts prepares the trade-offs of single observations, in a case whose map is about its own problem. With switched
// inputs the points are plans of the setup's method.
func (c *Case) Fronts(e *Engine, s Setup) (*batchnav.Fronts, error) {
	switch {
	case e == nil:
		return nil, errNoEngine
	case len(c.Spec().Switches) > 0:
		return c.searchFronts(e, s)
	case c.def.Learned != nil:
		return nil, badInputf("the map of case %s is of another problem (%s): it has no front", c.Name(), c.MapSpec().Description)
	case s.Model == nil && !c.Bundled():
		return nil, badOptionf("case %s has no bundled map, whose decisions a front has: make one with compile and give its file with {Model}; exact optima need none, in Python front(…, exact=True)", c.Name())
	}
	m, err := c.fitted(s.Model)
	if err != nil {
		return nil, err
	}
	f, err := batchnav.NewFronts(e.backend, m, c.def.Problem, batchnav.Options{})
	return f, BadInput(err)
}

// searchFronts are those of a method that searches, each from its neighbour's plan.
func (c *Case) searchFronts(e *Engine, s Setup) (*batchnav.Fronts, error) {
	k, err := c.Controller(e, s)
	if err != nil {
		return nil, err
	}
	abilities, u := domain.AbilitiesOfController(k), make([]float64, c.Spec().ActionSize())
	if abilities.Chosen == nil || abilities.Again == nil {
		return nil, badInputf("method %s of case %s shows no plans, which a front needs", s.Method, c.Name())
	}
	search := func(_ context.Context, obs batchnav.Observation, neighbour []float64, _ int) (domain.Chosen, error) {
		if err := k.Reset(nil); err != nil {
			return domain.Chosen{}, err
		}
		if neighbour != nil {
			abilities.Again(neighbour)
		}
		_, err := k.Decide(obs.S, obs.C, obs.Preference, u)
		return abilities.Chosen(), err
	}
	return batchnav.NewSearchFronts(c.def.Problem, search), nil
}

// FrontPoints are the weightings of a front that states none.
func (c *Case) FrontPoints() int {
	if len(c.Spec().Switches) > 0 {
		return batchnav.SolvedPoints
	}
	return batchnav.DefaultPoints
}

// ExactFront is the front of the case's exact solver, or where inputs are switched of its reference; it needs no map. Without weights in the
// options it has a lattice of Points, or 50, with no weight below a hundredth. known may be the map's front of the same weightings.
func (c *Case) ExactFront(ctx context.Context, obs batchnav.Observation, opt batchnav.FrontOptions, known *batchnav.Front) (*batchnav.Front, error) {
	if m := c.Spec().ObjectiveSize(); len(opt.Weights) == 0 {
		opt.Weights = dataset.Proper(m, max(m, cmp.Or(opt.Points, batchnav.SolvedPoints)))
	}
	if solver, ok := c.def.Solver.(domain.Receding); ok {
		f, err := batchnav.ExactFront(ctx, c.def.Problem, solver, obs, opt, known)
		return f, BadInput(err)
	}
	search := c.optima()
	if search == nil {
		return nil, badInputf("case %s has no exact solver of single decisions", c.Name())
	}
	opt.Polish = 0
	f, err := batchnav.NewSearchFronts(c.def.Problem, search).Front(ctx, obs, opt)
	return f, BadInput(err)
}

// optima plans by a solver whose plans no start changes: that knows the optimal action in any state, or a reference. nil: there is none.
func (c *Case) optima() batchnav.FrontSearch {
	type reference interface {
		Oracle(ctx context.Context, s, c []float64, steps int, pref domain.Preference) (cost float64, plan [][]float64, err error)
	}
	optimal := domain.AbilitiesOfSolver(c.def.Solver).Optimal
	if _, ok := c.def.Solver.(reference); !ok && optimal == nil {
		return nil
	}
	return func(ctx context.Context, obs batchnav.Observation, _ []float64, decisions int) (domain.Chosen, error) {
		if optimal == nil {
			_, plan, err := c.def.Solver.(reference).Oracle(ctx, obs.S, obs.C, decisions, obs.Preference)
			if errors.Is(err, domain.ErrInfeasible) {
				return domain.Chosen{}, nil
			}
			return domain.Chosen{Plan: slices.Concat(plan...), Feasible: true}, err
		}
		nu := c.Spec().ActionSize()
		plan := make([]float64, decisions*nu)
		s, cx := slices.Clone(obs.S), slices.Clone(obs.C)
		nextS, nextC := slices.Clone(s), slices.Clone(cx)
		for u := range slices.Chunk(plan, nu) {
			if !optimal(s, cx, obs.Preference, u) {
				return domain.Chosen{}, ctx.Err()
			}
			c.def.Problem.Step(s, cx, u, nextS, nextC)
			s, nextS = nextS, s
			cx, nextC = nextC, cx
		}
		return domain.Chosen{Plan: plan, Feasible: true}, nil
	}
}

// HypervolumeRatio is that of a front to that of an exact one of the same weightings, in the box of the exact one. Where that is
// incomplete only the weightings count that it has.
func HypervolumeRatio(f, exact *batchnav.Front) closedloop.Number {
	var fronts [2][][]closedloop.Number
	for k, points := range [2][]batchnav.FrontPoint{f.Points, exact.Points} {
		for _, p := range points {
			solved := func(q batchnav.FrontPoint) bool { return slices.Equal(p.W, q.W) }
			if !p.Feasible || k == 1 && p.Dominated || exact.Incomplete && !slices.ContainsFunc(exact.Points, solved) {
				continue
			}
			row := make([]closedloop.Number, len(p.J))
			for j, v := range p.J {
				row[j] = closedloop.Number(v)
			}
			fronts[k] = append(fronts[k], row)
		}
	}
	return closedloop.Number(closedloop.HypervolumeRatio(fronts[0], fronts[1]))
}
