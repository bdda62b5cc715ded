// Package world is the scene of Case 2: robots and obstacles, their dynamics, and
// the plant.
//
// The central type is System, a domain.Problem over the joint state of all robots.
// Prediction is that problem at one decision: the horizon cost of eq.
// multiagent-objectives with its derivatives and margins in float64, and the same as
// package rollout takes it. Scenes come from Draw or a trace, Plant runs them, and
// Grid is the cost-to-go around standing bodies.
package world

import (
	"cmp"
	"fmt"
	"math"
)

// Sizes that the paper fixes (below eq. multiagent-objectives).
const (
	MaxRobots    = 6  // the ego and N ≤ 5 others: the room of a system whose Params say nothing else
	MaxObstacles = 15 //
	Horizon      = 8  // H, steps of one prediction
	ActionSize   = 2  // (a, ω) of one robot
	StateSize    = 4  // (x, y, θ, v) of one robot
)

// LookAhead is L, the steps that a committed plan is proven safe for: 8 s. With
// 8 steps a robot meets obstacles that it can no longer avoid.
const LookAhead = 40

// Stopping is more steps than any robot takes to a stand.
const Stopping = 16

// Thirds is the preference that episodes are scored with unless the user fixes
// another. It is not to be changed.
var Thirds = []float64{1.0 / 3, 1.0 / 3, 1.0 / 3}

// MostRobots and MostObstacles are the largest room that Params can ask for.
const (
	MostRobots    = 4096
	MostObstacles = 16384
)

// Few is how many robots are no crowd: each looks at all the others, and a grid spans the workspace. In a
// crowd a robot looks at what it can meet, and weighs itself as it does among Few.
const Few = 12

// MostWorkspace is the longest side of a workspace, m; of a crowd's it is ten times as long.
const MostWorkspace = 100

// mostLeastRadius bounds the work of a ray, which clears so much around each of its points, m.
const mostLeastRadius = 2.0

// Limits are the hard control limits of eq. multiagent-control-limits.
type Limits struct {
	VMin     float64    `json:"v_min"`     // m/s
	VMax     float64    `json:"v_max"`     // m/s
	AMin     float64    `json:"a_min"`     // m/s²
	AMax     float64    `json:"a_max"`     // m/s²
	OmegaMax float64    `json:"omega_max"` // rad/s
	DuMax    [2]float64 `json:"du_max"`    // largest change of (a, ω) per step
}

// Params are the constants of the system, in the order and with the names of
// the trace header.
type Params struct {
	Dt         float64    `json:"dt"`          // control period, s
	DSafe      float64    `json:"d_safe"`      // m, part of every margin
	GoalRadius float64    `json:"goal_radius"` // m: closer than this, a robot has arrived
	Workspace  [4]float64 `json:"workspace"`   // x_min, x_max, y_min, y_max, m: obstacles are mirrored at its edge
	Limits     Limits     `json:"limits"`
	Lambda     [6]float64 `json:"lambda"` // of goal, safety, effort, violation, terminal, smoothness
	EtaG       float64    `json:"eta_g"`  // weight of the other robots' goals
	H          int        `json:"h"`      // steps of a prediction; the smoothness of one stage is divided by it
	Steps      int        `json:"steps"`  // decisions of an episode
	// Robots is how many robots state, context and action have room for, MaxRobots < Robots ≤
	// MostRobots; 0 is MaxRobots.
	Robots int `json:"robots,omitempty"`
	// Obstacles is likewise of obstacles, at least MaxObstacles.
	Obstacles int `json:"obstacles,omitempty"`
	// Dynamics is "", unicycles, or DoubleIntegrator.
	Dynamics string `json:"dynamics,omitempty"`
	// Sensing is how robots know of obstacles, which stand; without rays they know all.
	Sensing Sensing `json:"sensing,omitzero"`
}

// Sensing are rays in directions at equal angles from each robot.
type Sensing struct {
	Rays        int     `json:"rays"`
	Range       float64 `json:"range"`        // m
	LeastRadius float64 `json:"least_radius"` // m: no obstacle is smaller
}

// Room is how many robots state, context and action have room for.
func (p *Params) Room() int { return cmp.Or(p.Robots, MaxRobots) }

// ForRobots returns the constants of scenes of exactly n robots, more than Few, at the density of six. The workspace
// and the room for obstacles grow with them.
func (p Params) ForRobots(n int) Params {
	grow := float64(n) / MaxRobots
	for k := range p.Workspace {
		p.Workspace[k] = math.Round(p.Workspace[k] * math.Sqrt(grow))
	}
	p.Robots, p.Obstacles = n, int(math.Round(MaxObstacles*grow))
	return p
}

// Bodies is how many obstacles the context has room for.
func (p *Params) Bodies() int { return cmp.Or(p.Obstacles, MaxObstacles) }

// Fastest is the largest speed in any direction, m/s.
func (p *Params) Fastest() float64 {
	if p.Double() {
		return math.Sqrt2 * p.Limits.VMax
	}
	return max(p.Limits.VMax, -p.Limits.VMin)
}

// Default returns the frozen constants of the static and the moving case.
//
//	dt, H, d_safe, η_g, λ   as the paper gives them
//	v ∈ [−0.5, 1.2] m/s     backing out is possible, and slower than driving
//	|a| ≤ 2, |ω| ≤ 2        a stop from full speed takes 0.36 m
//	Δu_max 1.0              full reversal of a or ω takes four steps
//	goal radius 0.35        the largest robot's own radius
//	150 / 600 steps         the paper's episodes: 30 s and 120 s
func Default(moving bool) Params {
	p := Params{
		Dt:         0.2,
		DSafe:      0.18,
		GoalRadius: 0.35,
		Workspace:  [4]float64{-10, 10, -10, 10},
		Limits:     Limits{VMin: -0.5, VMax: 1.2, AMin: -2, AMax: 2, OmegaMax: 2, DuMax: [2]float64{1, 1}},
		Lambda:     [6]float64{2.0, 12.0, 0.08, 260.0, 5.0, 0.10},
		EtaG:       0.65,
		H:          Horizon,
		Steps:      150,
	}
	if moving {
		p.Steps = 600
	}
	return p
}

// Validate checks that the constants describe a system this package can handle.
func (p *Params) Validate() error {
	for _, v := range []struct {
		name  string
		value float64
	}{{"dt", p.Dt}, {"goal_radius", p.GoalRadius}, {"limits.omega_max", p.Limits.OmegaMax},
		{"limits.du_max[0]", p.Limits.DuMax[0]}, {"limits.du_max[1]", p.Limits.DuMax[1]}} {
		if !(v.value > 0) || math.IsInf(v.value, 0) {
			return fmt.Errorf("parameter %s is %v, want a finite number > 0", v.name, v.value)
		}
	}
	for _, v := range []struct {
		name   string
		lo, hi float64
	}{{"workspace x", p.Workspace[0], p.Workspace[1]}, {"workspace y", p.Workspace[2], p.Workspace[3]},
		{"limits v", p.Limits.VMin, p.Limits.VMax}, {"limits a", p.Limits.AMin, p.Limits.AMax}} {
		if !(v.lo < v.hi) || math.IsInf(v.lo, 0) || math.IsInf(v.hi, 0) {
			return fmt.Errorf("parameter %s is [%v, %v], want a finite interval", v.name, v.lo, v.hi)
		}
	}
	for k := range 2 {
		most := MostWorkspace
		if p.Robots > Few {
			most *= 10
		}
		if side := p.Workspace[2*k+1] - p.Workspace[2*k]; side > float64(most) {
			return fmt.Errorf("parameter workspace has a side of %v m, want at most %d", side, most)
		}
	}
	if p.Obstacles != 0 && (p.Obstacles < MaxObstacles || p.Obstacles > MostObstacles) {
		return fmt.Errorf("parameter obstacles is %d, want %d to %d, or none for %d", p.Obstacles, MaxObstacles, MostObstacles, MaxObstacles)
	}
	if p.Robots != 0 && (p.Robots < MaxRobots || p.Robots > MostRobots) {
		return fmt.Errorf("parameter robots is %d, want %d to %d, or none for %d", p.Robots, MaxRobots, MostRobots, MaxRobots)
	}
	if p.Limits.AMin >= 0 || p.Limits.AMax <= 0 || p.Limits.VMin > 0 || p.Limits.VMax <= 0 {
		return fmt.Errorf("parameter limits %+v must allow standing still and braking", p.Limits)
	}
	for i, l := range p.Lambda {
		if !(l >= 0) || math.IsInf(l, 0) {
			return fmt.Errorf("parameter lambda[%d] is %v, want a finite number ≥ 0", i, l)
		}
	}
	if !(p.DSafe >= 0) || math.IsInf(p.DSafe, 0) || !(p.EtaG >= 0) || math.IsInf(p.EtaG, 0) {
		return fmt.Errorf("parameters d_safe %v and eta_g %v, want finite numbers ≥ 0", p.DSafe, p.EtaG)
	}
	if p.H != Horizon {
		return fmt.Errorf("parameter h is %d, want %d", p.H, Horizon)
	}
	if p.Steps < 1 || p.Steps > 100_000 {
		return fmt.Errorf("parameter steps is %d, want 1 to 100000", p.Steps)
	}
	switch l := &p.Limits; {
	case p.Dynamics != "" && !p.Double():
		return fmt.Errorf("parameter dynamics is %q, want %q, or none for unicycles", p.Dynamics, DoubleIntegrator)
	case p.Double() && (l.VMin != -l.VMax || l.AMin != -l.AMax || l.OmegaMax != l.AMax):
		return fmt.Errorf("parameter limits %+v of a double integrator, want v_min = −v_max, a_min = −a_max and omega_max = a_max", *l)
	}
	if s := &p.Sensing; *s != (Sensing{}) && (s.Rays < 8 || s.Rays > 1024 || !(s.Range > 0 && s.Range <= MostWorkspace && s.LeastRadius >= Cell && s.LeastRadius <= mostLeastRadius)) {
		return fmt.Errorf("parameter sensing is %+v, want 8 to 1024 rays, a range above 0 and up to %v m, and a least radius of %v to %v m", *s, MostWorkspace, Cell, mostLeastRadius)
	}
	// The batched dynamics turn by half a step's angle with a short series.
	if half := p.Limits.OmegaMax * p.Dt / 2; half > 0.25 && !p.Double() {
		return fmt.Errorf("parameters: half a step turns by up to %g rad, want at most 0.25", half)
	}
	return nil
}
