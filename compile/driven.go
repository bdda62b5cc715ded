package compile

import (
	"slices"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// driven is a plant that takes what was driven for a start of its reference too, where that
// cost less than the optimum that the solver's own starts led to, or where they led to none:
// a map may have found another basin.
type driven struct {
	*closedloop.Simulation
	solver domain.Receding
}

// driven is the plant itself where there is nothing to solve with, where what is decided acts later, and where it is another than
// the model that would be solved.
func (r *run) driven(plant *closedloop.Simulation) domain.Plant {
	solver, ok := r.c.Definition().Solver.(domain.Receding)
	if !ok || plant.Oracle == nil || plant.Delay.Periods > 0 || plant.Problem != r.c.Definition().Problem {
		return plant
	}
	return driven{plant, solver}
}

// Episode implements domain.Plant.
func (p driven) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	ep, err := p.Simulation.Episode(seed, index, opt)
	if err != nil {
		return nil, err
	}
	spec := p.Problem.Spec()
	e := &drivenEpisode{
		Episode: ep, solver: p.solver, preference: opt.Preference, spec: spec, kept: true,
		s: make([]float64, spec.MeasuredSize()), c: make([]float64, spec.ContextSize()),
		anew: func() (domain.Episode, error) { return p.Simulation.Episode(seed, index, opt) },
	}
	ep.Observe(e.s, e.c)
	return e, nil
}

// drivenEpisode remembers its actions and what they cost.
type drivenEpisode struct {
	domain.Episode
	solver     domain.Receding
	preference domain.Preference
	spec       *domain.Spec
	anew       func() (domain.Episode, error) // the same from its start
	s, c       []float64                      // the start
	plan       [][]float64
	cost       float64
	kept       bool // every margin, and no state lost
}

// Apply implements domain.Episode.
func (e *drivenEpisode) Apply(u []float64) (domain.Outcome, error) {
	out, err := e.Episode.Apply(u)
	if err == nil {
		e.plan, e.cost = append(e.plan, slices.Clone(u)), e.cost+out.Cost
		e.kept = e.kept && !out.Failed && e.spec.Keeps(out.Margin)
	}
	return out, err
}

// Abilities implements domain.Able: what is measured is the plant's own.
func (e *drivenEpisode) Abilities() *domain.EpisodeAbilities {
	return &domain.EpisodeAbilities{Measure: domain.AbilitiesOfEpisode(e.Episode).Measure}
}

// Oracle implements domain.Episode.
func (e *drivenEpisode) Oracle() (float64, [][]float64, error) {
	cost, plan, err := e.Episode.Oracle()
	if !e.Done() || !e.kept || err == nil && !(cost > e.cost) {
		return cost, plan, err
	}
	if own, better, ok := e.improve(); ok && !(own >= cost) {
		return own, better, nil
	}
	return cost, plan, err
}

// improve is the optimum that what was driven leads to; false where the solver does not
// converge or leads through a state that is lost.
func (e *drivenEpisode) improve() (float64, [][]float64, bool) {
	flat := slices.Concat(e.plan...)
	horizon := e.solver.NewHorizon(0)
	horizon.Begin(flat)
	cost, solved, err := horizon.Solve(e.s, e.c, e.preference, flat)
	if err != nil || !solved {
		return 0, nil, false
	}
	again, err := e.anew()
	if err != nil {
		return 0, nil, false
	}
	plan := slices.Collect(slices.Chunk(flat, len(e.plan[0])))
	for _, u := range plan {
		if out, err := again.Apply(u); err != nil || out.Failed {
			return 0, nil, false
		}
	}
	return cost, plan, true
}
