package gpc

import (
	"context"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/machine"
)

// Refiner refines many candidates of one observation after another. It is used by one goroutine.
type Refiner struct {
	c      *Case
	engine *Engine
	method *Resolved // of search
	// One of them: the navigator's, or for a case whose map is not about its own problem the method that searches.
	latent *batchnav.Refiner
	search domain.Controller // for method.Candidates
	choice func() domain.Chosen
}

// Refiner prepares refinement with room for candidates. Setup.Method is the method
// that searches, in a case whose map is not about its own problem.
func (c *Case) Refiner(e *Engine, s Setup, candidates int) (*Refiner, error) {
	if e == nil {
		return nil, errNoEngine
	}
	r := &Refiner{c: c, engine: e}
	if c.def.Learned == nil {
		m, err := c.fitted(s.Model)
		if err != nil {
			return nil, err
		}
		r.latent, err = batchnav.NewRefiner(e.backend, m, c.def.Problem, batchnav.Options{}, candidates)
		return r, BadInput(err)
	}
	var err error
	if r.method, err = c.Resolve(s); err != nil {
		return nil, err
	}
	return r, r.prepare(candidates)
}

// prepare makes the method that searches among so many candidates, and shows what it chose.
func (r *Refiner) prepare(candidates int) (err error) {
	if candidates < 1 || candidates > batchnav.MaxCandidates {
		return badInputf("refine: %d candidates, want 1 to %d", candidates, batchnav.MaxCandidates)
	}
	if r.search != nil && r.method.Candidates == candidates {
		return nil
	}
	r.method.Candidates = candidates
	if r.search, err = r.method.Controller(r.engine); err != nil {
		return err
	}
	if r.choice = domain.AbilitiesOfController(r.search).Chosen; r.choice == nil {
		return badInputf("refine: the map of case %s is of another problem (%s), and method %q has no search that can be shown", r.c.Name(), r.c.MapSpec().Description, r.method.Method.Name)
	}
	return nil
}

// Refine returns the best plan of many candidates; see batchnav.Refiner. A case whose map is not about its own problem
// searches as its method does at a first decision, and takes of opt only Candidates: the rest is the method's own.
func (r *Refiner) Refine(ctx context.Context, obs batchnav.Observation, opt batchnav.RefineOptions) (*batchnav.Refinement, error) {
	if r.latent != nil {
		return r.latent.Refine(ctx, obs, opt)
	}
	spec := r.c.Spec()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if opt.LookAhead != 0 || opt.NoProjection || opt.NoRounds || opt.TimeLimit != 0 || opt.FlowSteps > 1 || opt.Mixture != (batchnav.Mixture{}) {
		return nil, badInputf("refine: case %s chooses look-ahead, projection, flow, rounds, time and mixture of candidates itself: leave them out", spec.Name)
	}
	if err := spec.CheckObservation(obs.S, obs.C, obs.Preference); err != nil {
		return nil, badInputf("refine: the observation %w", err)
	}
	if err := r.prepare(opt.Candidates); err != nil {
		return nil, err
	}
	if err := r.search.Reset(nil); err != nil {
		return nil, err
	}
	start := time.Now()
	decision, err := r.search.Decide(obs.S, obs.C, obs.Preference, make([]float64, spec.ActionSize()))
	if err != nil {
		return nil, err
	}
	elapsed := time.Since(start)
	c := r.choice()
	if len(c.Plan) == 0 {
		return nil, badInputf("refine: at this observation case %s has nothing to choose: no candidate has a score", spec.Name)
	}
	out := &batchnav.Refinement{
		U: c.Plan, Cost: c.Cost, Margin: c.Margin, Feasible: c.Feasible, Candidates: c.Candidates, Source: c.Source,
		FeasibleCount: c.FeasibleCount, LookAhead: c.LookAhead, LocalizedCost: c.Baseline, LocalizedFeasible: c.BaselineFeasible,
		Consistent: c.Consistent, Sources: c.Sources,
	}
	out.Sigma = append([]float64(nil), decision.Sigma...)
	out.Locate(decision.Residual, decision.Limit)
	out.Rounds = []batchnav.RefineRound{{Candidates: c.Candidates, Cost: c.Cost, Margin: c.Margin, Feasible: c.Feasible}}
	out.Latency.Total = machine.Microseconds(elapsed)
	return out, nil
}
