package world

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// Abilities implements domain.Able.
func (l *Plant) Abilities() *domain.PlantAbilities {
	return &domain.PlantAbilities{Draft: l.Draft, Stage: l.Stage}
}

// Draft is domain.PlantAbilities.Stage.
func (l *Plant) Draft(e domain.Episode) any { return e.Scene() }

// staged is a Scene as it is given: what a generator counts may be left out.
type staged struct {
	Robots    []Robot    `json:"agents"`
	Obstacles []Obstacle `json:"obstacles"`
	Rejected  Rejected   `json:"rejected,omitzero"`
	W         []float64  `json:"w,omitempty"`
}

// Stage is domain.PlantAbilities.Stage. In a static case no obstacle moves: its planners solve
// grids among bodies that stand.
func (l *Plant) Stage(seed uint64, index int, text json.RawMessage, opt domain.EpisodeOptions) (domain.Episode, error) {
	y := l.System
	if err := opt.NoRegime(y.spec.Name); err != nil {
		return nil, err
	}
	scene, err := decodeScene(text, &y.Params)
	if err != nil {
		return nil, err
	}
	if scene.W, err = opt.Scored(index, 3, scene.W); err != nil {
		return nil, err
	}
	if err := y.possible(&scene); err != nil {
		return nil, err
	}
	return l.measured(scene, opt.Noise, seed, index), nil
}

// possible says what in a valid scene is no task.
func (y *System) possible(s *Scene) error {
	for i := range s.Robots {
		a := s.Robots[i]
		a.P = a.Goal
		for j := range s.Obstacles {
			o := &s.Obstacles[j]
			if h := obstacleMargin(&a, o, y.Params.DSafe); h < 0 && o.V == [2]float64{} {
				return fmt.Errorf("agents[%d].goal %v lies in obstacles[%d], which stands: the margin there is %g m, want ≥ 0", i, a.Goal, j, h)
			}
		}
	}
	if y.scenes.Moving {
		return nil
	}
	for j, o := range s.Obstacles {
		if o.V != [2]float64{} {
			return fmt.Errorf("obstacles[%d].v is %v: in this case obstacles stand; multiagent-moving is the one whose obstacles move", j, o.V)
		}
	}
	return nil
}

// Beyond is domain.EpisodeAbilities.Beyond.
func (e *Episode) Beyond() (all []string) {
	y, s := e.plant.System, &e.scene
	d := &y.scenes
	add := func(name string, v, lo, hi float64, unit string) {
		if text := domain.Outside(name, v, lo, hi, unit); text != "" {
			all = append(all, text)
		}
	}
	add("the number of agents", float64(len(s.Robots)), float64(d.Robots[0]), float64(d.Robots[1]), "")
	add("the number of obstacles", float64(len(s.Obstacles)), float64(d.Obstacles[0]), float64(d.Obstacles[1]), "")
	for i, a := range s.Robots {
		add(fmt.Sprintf("agents[%d].r", i), a.R, d.RobotRadius[0], d.RobotRadius[1], "m")
	}
	for j, o := range s.Obstacles {
		add(fmt.Sprintf("obstacles[%d].r", j), o.R, d.ObstacleRadius[0], d.ObstacleRadius[1], "m")
		if d.Moving {
			const rounding = 1e-9
			add(fmt.Sprintf("the speed of obstacles[%d]", j), math.Hypot(o.V[0], o.V[1]), d.Speed[0]-rounding, d.Speed[1]+rounding, "m/s")
		}
	}
	for i := range s.Robots {
		for j := range i {
			a, b := s.Robots[i], s.Robots[j]
			a.P, b.P = a.Goal, b.Goal
			if h := pairMargin(&a, &b, y.Params.DSafe); h < 0 && a.Leaves+b.Leaves == 0 && !a.LeavesAtGoal && !b.LeavesAtGoal {
				all = append(all, fmt.Sprintf("agents %d and %d cannot stand at their goals together: the margin there is %.3g m", j, i, h))
			}
		}
	}
	if !d.Moving && !y.connected(s) {
		all = append(all, "an agent has no way to its goal among the obstacles")
	}
	return all
}
