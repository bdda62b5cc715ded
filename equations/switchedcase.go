package equations

import (
	"fmt"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/ocp"
	"github.com/gpc-engine/gpc/ocp/mixedinteger"
)

// switchedCase is the case of a system with switches. Its map is about the relaxed problem of the shares. Its solver and
// its methods search.
func (y System) switchedCase(p *Problem) (domain.Case, error) {
	if y.Blocks != nil {
		return domain.Case{}, fmt.Errorf("system %q: Switches with Blocks are not supported: leave Blocks out", y.Name)
	}
	if p.spec.Steps < p.spec.Horizon {
		return domain.Case{}, fmt.Errorf("system %q: an episode of Steps %d decisions is shorter than Horizon %d", y.Name, p.spec.Steps, p.spec.Horizon)
	}
	relaxed, err := p.relaxed(1)
	if err != nil {
		return domain.Case{}, err
	}
	learned, err := p.relaxed(p.spec.LookAhead())
	if err != nil {
		return domain.Case{}, err
	}
	opt := y.Solver
	opt.StateScale, opt.Room = p.system.StateScale, nil
	fill(&opt.Perturbed, 3)
	fill(&opt.PerturbScale, 0.05)
	opt.Horizon = p.spec.LookAhead()
	solver, err := ocp.New(relaxed, y.Scenario, p.initial, opt)
	if err != nil {
		return domain.Case{}, err
	}
	plant := closedloop.Simulated(p, y.Scenario, p.initial)
	plant.Measurement, plant.Delay = y.Measurement, p.delay()
	searching := func(p *Problem, solver *ocp.Solver) (*mixedinteger.Solver, domain.Case, error) {
		search, err := mixedinteger.NewSolver(p, mixedinteger.Shares{Problem: learned, Solver: solver, Share: relaxed.relaxation.share}, y.Scenario, p.initial,
			mixedinteger.SolverOptions{Perturbed: opt.Perturbed, PerturbScale: opt.PerturbScale, StateScale: opt.StateScale})
		if err != nil {
			return nil, domain.Case{}, err
		}
		return search, domain.Case{Problem: p, Learned: learned, Solver: search, Plant: plant, Methods: mixedinteger.Methods(search), Numbered: search.Method, Guard: domain.Guard{Off: true},
			Measurement: y.Measurement, Delay: p.delay(), Shifts: p.shifts()}, nil
	}
	search, c, err := searching(p, solver)
	if err != nil {
		return domain.Case{}, err
	}
	plant.Oracle = search.Oracle
	c.Tightened = func(b *domain.Backoff) (domain.Case, error) {
		_, c, err := searching(p.withBackoff(b), solver.WithProblem(relaxed.withBackoff(b)))
		return c, err
	}
	return c, nil
}
