package world

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
)

// change is what a person may change of a scene that runs: where an obstacle stands, or a robot's goal.
type change struct {
	Obstacle *moved `json:"obstacle,omitempty"`
	Goal     *moved `json:"goal,omitempty"`
}

// moved is a place, m, for the obstacle or the robot of that number.
type moved struct {
	Of int        `json:"of"`
	To [2]float64 `json:"to"`
}

// Change is domain.EpisodeAbilities.Change. An obstacle keeps its velocity.
func (e *Episode) Change(text json.RawMessage) (domain.Change, error) {
	var request change
	if err := jsonin.Exact(text, &request); err != nil {
		return domain.Change{}, err
	}
	scene := e.currentScene()
	place := func(name string, m *moved, n int) error {
		if m.Of < 0 || m.Of >= n {
			return fmt.Errorf("%s.of is %d, the scene has %d", name, m.Of, n)
		}
		return nil
	}
	c := domain.Change{}
	switch {
	case (request.Obstacle == nil) == (request.Goal == nil):
		return c, errors.New("want one of obstacle and goal")
	case request.Obstacle != nil:
		if err := place("obstacle", request.Obstacle, len(scene.Obstacles)); err != nil {
			return c, err
		}
		scene.Obstacles[request.Obstacle.Of].C = request.Obstacle.To
		c.About = fmt.Sprintf("obstacle %d is moved to %.2f, %.2f m", request.Obstacle.Of, request.Obstacle.To[0], request.Obstacle.To[1])
	default:
		if err := place("goal", request.Goal, len(scene.Robots)); err != nil {
			return c, err
		}
		scene.Robots[request.Goal.Of].Goal = request.Goal.To
		c.About = fmt.Sprintf("goal of robot %d is moved to %.2f, %.2f m", request.Goal.Of, request.Goal.To[0], request.Goal.To[1])
	}
	c.Scene = scene
	return c, nil
}

// currentScene is the scene of an episode that begins where this one stands.
func (e *Episode) currentScene() Scene {
	s := Scene{Obstacles: slices.Clone(e.world.Obstacles), W: e.scene.W}
	for i := range e.world.Robots {
		state := &e.world.State[i]
		r := e.scene.Robots[i]
		r.P, r.Goal, r.Last = [2]float64{state[0], state[1]}, e.world.Goal[i], e.world.Previous[i]
		const soon = math.SmallestNonzeroFloat64
		elapsed := float64(e.t) * e.plant.System.Params.Dt
		if r.Leaves > 0 {
			r.Leaves = max(r.Leaves-elapsed, 2*soon)
		}
		switch {
		case !e.world.Absent[i]:
			r.Enters = 0
		case r.LeavesAtGoal && e.arrived[i]:
			r.Enters, r.Leaves = soon, 2*soon
		default:
			r.Enters = max(r.Enters-elapsed, soon)
		}
		r.Theta, r.V = e.plant.System.Params.Velocity(state)
		s.Robots = append(s.Robots, r)
	}
	return s
}
