package world

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
)

// Robot is a disc on unicycle dynamics, as the trace holds it.
type Robot struct {
	P     [2]float64 `json:"p"`     // m
	Theta float64    `json:"theta"` // rad; of a double integrator, that of its velocity
	V     float64    `json:"v"`     // m/s along the heading
	R     float64    `json:"r"`     // radius, m
	Goal  [2]float64 `json:"goal"`  // m
	// Last is the action before the first, which slew bounds are about.
	Last [2]float64 `json:"u_prev,omitzero"`
	// Enters is when it may enter, s: with its first action that is not zero. 0: it is there from the start on. It leaves at
	// Leaves, s, if that is not 0, and on its arrival with LeavesAtGoal.
	Enters       float64 `json:"enters,omitzero"`
	Leaves       float64 `json:"leaves,omitzero"`
	LeavesAtGoal bool    `json:"leaves_at_goal,omitzero"`
}

// Obstacle is a disc that moves straight and is mirrored, with its velocity, at
// the workspace's edge inset by its radius.
type Obstacle struct {
	C [2]float64 `json:"c"` // m
	V [2]float64 `json:"v"` // m/s
	R float64    `json:"r"` // m
}

// Scene is the initial condition of an episode. The ego is Robots[0].
type Scene struct {
	Robots    []Robot    `json:"agents"`
	Obstacles []Obstacle `json:"obstacles"`
	// Rejected counts the draws of the generator that came before this scene and
	// had the geometric defect named; see Draw.
	Rejected Rejected `json:"rejected"`
	// W is the fixed preference that scores the episode, nil for (1/3, 1/3, 1/3).
	W []float64 `json:"w,omitempty"`
}

// Validate refuses, by name, a scene that is no initial condition: without
// robots, with more bodies than the case has, with numbers that are not finite,
// with radii or speeds outside their limits, or with a robot that already
// violates a margin. Obstacles may overlap each other: they pass through.
func (s *Scene) Validate(p *Params) error {
	if len(s.Robots) == 0 {
		return fmt.Errorf("scene has no agents, want 1 to %d, the ego first", p.Room())
	}
	if len(s.Robots) > p.Room() {
		return fmt.Errorf("scene has %d agents, there is room for %d; params.robots makes more, at most %d", len(s.Robots), p.Room(), MostRobots)
	}
	if len(s.Obstacles) > p.Bodies() {
		return fmt.Errorf("scene has %d obstacles, there is room for %d; params.obstacles makes more, at most %d", len(s.Obstacles), p.Bodies(), MostObstacles)
	}
	for i, r := range s.Robots {
		if !finite(r.P[0], r.P[1], r.Theta, r.V, r.R, r.Goal[0], r.Goal[1], r.Last[0], r.Last[1], r.Enters, r.Leaves) {
			return fmt.Errorf("agent %d: %+v is not finite", i, r)
		}
		if r.R <= 0 {
			return fmt.Errorf("agent %d: radius is %v, want > 0", i, r.R)
		}
		if r.Enters < 0 || r.Leaves != 0 && r.Leaves <= r.Enters {
			return fmt.Errorf("agent %d: it enters at %v s and leaves at %v s, want times of at least 0, one after the other", i, r.Enters, r.Leaves)
		}
		speeds := []float64{r.V}
		if s := p.start(&r); p.Double() {
			speeds = s[2:]
		}
		for _, v := range speeds {
			if v < p.Limits.VMin-limitTolerance || v > p.Limits.VMax+limitTolerance {
				return fmt.Errorf("agent %d: speed is %v, want it in [%v, %v]", i, v, p.Limits.VMin, p.Limits.VMax)
			}
		}
		if excess := p.Limits.Excess(r.Last[:], r.Last[:]); excess > limitTolerance {
			return fmt.Errorf("agent %d: u_prev is %v, %g outside the limits of actions", i, r.Last, excess)
		}
		for k, v := range []float64{r.P[0], r.P[1], r.Goal[0], r.Goal[1]} {
			axis := k % 2
			if v < p.Workspace[2*axis] || v > p.Workspace[2*axis+1] {
				return fmt.Errorf("agent %d: start %v or goal %v lies outside the workspace %v", i, r.P, r.Goal, p.Workspace)
			}
		}
	}
	for j, o := range s.Obstacles {
		if !finite(o.C[0], o.C[1], o.V[0], o.V[1], o.R) {
			return fmt.Errorf("obstacle %d: %+v is not finite", j, o)
		}
		if o.R <= 0 {
			return fmt.Errorf("obstacle %d: radius is %v, want > 0", j, o.R)
		}
		if least := p.Sensing.LeastRadius; o.R < least {
			return fmt.Errorf("obstacle %d: radius is %v, sensing.least_radius is %v", j, o.R, least)
		}
		for axis := range 2 {
			lo, hi := p.Workspace[2*axis]+o.R, p.Workspace[2*axis+1]-o.R
			if o.C[axis] < lo || o.C[axis] > hi {
				return fmt.Errorf("obstacle %d: centre %v lies outside the workspace inset by its radius %v", j, o.C, o.R)
			}
			if reach := p.Dt * math.Abs(o.V[axis]); reach > hi-lo {
				return fmt.Errorf("obstacle %d: velocity %v crosses the workspace in one step", j, o.V)
			}
		}
	}
	for i := range s.Robots {
		for j := range i {
			if h := pairMargin(&s.Robots[i], &s.Robots[j], p.DSafe); h < 0 && s.Robots[i].Enters+s.Robots[j].Enters == 0 {
				return fmt.Errorf("agents %d and %d overlap: their margin is %g m at the start, want ≥ 0", j, i, h)
			}
		}
		for j := range s.Obstacles {
			if h := obstacleMargin(&s.Robots[i], &s.Obstacles[j], p.DSafe); h < 0 && (s.Robots[i].Enters == 0 || s.Obstacles[j].V == [2]float64{}) {
				return fmt.Errorf("agent %d and obstacle %d overlap: their margin is %g m at the start, want ≥ 0", i, j, h)
			}
		}
	}
	if s.W != nil {
		if err := (domain.Preference{W: s.W}).Validate(3); err != nil {
			return err
		}
	}
	return nil
}

func finite(values ...float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return math.IsNaN(v - v) })
}

// Prediction is the prediction problem at the scene's start.
func (s *Scene) Prediction(p *Params) *Prediction {
	h := &Prediction{Params: p, Obstacles: slices.Clone(s.Obstacles)}
	h.hold(len(s.Robots))
	for i, r := range s.Robots {
		h.State[i] = p.start(&r)
		h.Radius[i], h.Goal[i] = r.R, r.Goal
		h.Previous[i], h.Absent[i] = r.Last, r.Enters > 0
		if h.Absent[i] {
			h.Radius[i] = 0
		}
	}
	return h
}

// start is a robot's state at the scene's start.
func (p *Params) start(r *Robot) [StateSize]float64 {
	if p.Double() {
		return [StateSize]float64{r.P[0], r.P[1], r.V * math.Cos(r.Theta), r.V * math.Sin(r.Theta)}
	}
	return [StateSize]float64{r.P[0], r.P[1], r.Theta, r.V}
}

func pairMargin(a, b *Robot, safe float64) float64 {
	return math.Hypot(a.P[0]-b.P[0], a.P[1]-b.P[1]) - a.R - b.R - safe
}

func obstacleMargin(a *Robot, o *Obstacle, safe float64) float64 {
	return math.Hypot(a.P[0]-o.C[0], a.P[1]-o.C[1]) - a.R - o.R - safe
}

// decodeScene reads a scene of a trace or a file; absent keys and wrong shapes are errors.
func decodeScene(text json.RawMessage, p *Params) (Scene, error) {
	s := staged{Obstacles: []Obstacle{}}
	if err := jsonin.Exact(text, &s); err != nil {
		return Scene{}, err
	}
	scene := Scene(s)
	return scene, scene.Validate(p)
}
