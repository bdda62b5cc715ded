// Package multiagent is Case 2 of the paper: an ego robot and up to five other
// disc robots on unicycle dynamics that reach their goals among up to fifteen
// static or moving circular obstacles (section "Safe Multi-Agent Navigation
// with Moving Obstacles").
//
// It holds the two cases, Static and Moving, and their methods. docs/explain/multiagent.md lists the folders of what they
// are made of. In all of them a roll-out is the prediction of where candidate plans lead, over their whole length; not a
// closed-loop run, which is an episode.
package multiagent

import (
	"encoding/json"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/paper/multiagent/dataset"
	"github.com/gpc-engine/gpc/paper/multiagent/plan"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Static is the case multiagent-static: 150 steps among obstacles that stand.
func Static() domain.Case { return newCase("multiagent-static", false) }

// Moving is the case multiagent-moving: 600 steps among obstacles that move.
func Moving() domain.Case { return newCase("multiagent-moving", true) }

func newCase(name string, moving bool) domain.Case {
	c, err := caseOf(name, world.Default(moving), moving)
	if err != nil {
		panic("multiagent: default parameters: " + err.Error())
	}
	return c
}

// caseOf is the case with these parameters.
func caseOf(name string, params world.Params, moving bool) (domain.Case, error) {
	y, err := world.NewSystem(name, params, moving)
	if err != nil {
		return domain.Case{}, err
	}
	plant := &world.Plant{System: y}
	if params.Room() <= world.Few && params.Sensing.Rays == 0 { // the joint plan of a crowd is not optimised
		plant.Reference = func(y *world.System) (domain.Controller, error) { return plan.NewReference(y, smallBudget) }
	}
	c := domain.Case{
		Problem: y,
		Plant:   plant,
		Methods: methods(y),
		Guard:   domain.Guard{Off: true}, // its planner commits to plans of its own
		Remake: func(fields json.RawMessage) (domain.Case, error) {
			p := y.Params
			if err := jsonin.Merge(fields, &p); err != nil {
				return domain.Case{}, err
			}
			return caseOf(name, p, moving)
		},
		ForRobots: func(robots int) (json.RawMessage, error) {
			if robots <= world.Few || robots > world.MostRobots {
				return nil, fmt.Errorf("%d robots, want more than %d and at most %d; scenes of the case have 3 to %d", robots, world.Few, world.MostRobots, world.MaxRobots)
			}
			return json.Marshal(y.Params.ForRobots(robots))
		},
	}
	if !params.Double() { // the view is of a unicycle
		v := view.New(y)
		c.Learned, c.Solver = v, dataset.NewSolver(v)
	}
	return c, nil
}
