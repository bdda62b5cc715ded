package world

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
)

// Stream separates the scenes that are trained on, tuned on and tested on: the
// generator's seed holds the stream, the user's seed and the index side by side,
// so no two scenes of different streams share a generator.
type Stream uint8

const (
	Training Stream = iota + 1
	Validation
	Test
)

// Distribution is what scenes are drawn from. All lengths are metres; margins
// are those of eq. multiagent-safety-margins, d_safe included.
type Distribution struct {
	Robots         [2]int     // fewest and most robots, both likely
	RobotRadius    [2]float64 // uniform
	Inset          float64    // starts and goals keep this far from the workspace's edge
	Travel         float64    // least distance from start to goal
	Farthest       float64    // largest; 0: any
	HeadingError   float64    // heading is towards the goal ± this, rad, uniform
	RobotMargin    float64    // least margin among starts, and among goals
	Obstacles      [2]int     // fewest and most obstacles
	ObstacleRadius [2]float64 // uniform
	StartMargin    float64    // least margin of an obstacle to every start
	GoalMargin     float64    // least margin of a standing obstacle to every goal
	CorridorShare  float64    // share of obstacles at (static) or aimed at (moving) a corridor
	CorridorSpread float64    // static: deviation of such an obstacle from the segment, per axis
	Speed          [2]float64 // of a moving obstacle, m/s, uniform
	Connectivity   float64    // static: clearance beyond r + d_safe of the connecting path
	Moving         bool
}

// Frozen returns the distribution of the benchmark. It was fixed once, where the
// finite-budget reference fails about as often as the paper's, and is not tuned
// to a method.
//
//	3–6 robots, r 0.25–0.35       up to five others, as the paper
//	travel ≥ 8 m                  every robot crosses much of the 20 m workspace
//	heading error 0.8 rad         the first move is not straight ahead
//	robot margin 1.0              no conflict before the first decision, goals do not block each other
//	10–15 obstacles, r 0.4–0.9    a straight way is rarely free
//	start margin 0.5              two steps at full closing speed of 2 m/s: every start can be survived
//	goal margin 0.3               static: every goal can be occupied
//	half in the corridor          static: near a start–goal segment; moving: towards the ego's
//	speed 0.2–0.8                 below the robots' own 1.2 m/s: they can be outrun
//	connectivity 0.1              static: a grid path exists for every robot alone
func Frozen(moving bool) Distribution {
	return Distribution{
		Robots:         [2]int{3, 6},
		RobotRadius:    [2]float64{0.25, 0.35},
		Inset:          1,
		Travel:         8,
		HeadingError:   0.8,
		RobotMargin:    1.0,
		Obstacles:      [2]int{10, 15},
		ObstacleRadius: [2]float64{0.4, 0.9},
		StartMargin:    0.5,
		GoalMargin:     0.3,
		CorridorShare:  0.5,
		CorridorSpread: 0.7,
		Speed:          [2]float64{0.2, 0.8},
		Connectivity:   0.1,
		Moving:         moving,
	}
}

// crowd makes the scenes those of a full room of robots, at the density of obstacles of a few. Goals are no farther
// than in a workspace of the usual size, so that episodes stay as long.
func (d *Distribution) crowd(p *Params) {
	d.Robots = [2]int{p.Room(), p.Room()}
	d.Obstacles = [2]int{p.Bodies() * d.Obstacles[0] / MaxObstacles, p.Bodies()}
	d.Farthest = 18
}

// Rejected counts what was drawn and refused, for a geometric defect at t = 0 and
// before any method saw it.
type Rejected struct {
	// Placement: a robot or obstacle found no admissible place in placementTries.
	Placement int `json:"placement"`
	// Disconnected: static, some robot's start and goal are not connected.
	Disconnected int `json:"disconnected"`
}

const (
	placementTries = 200  // draws for one body before the scene is given up
	sceneTries     = 1000 // scenes before Draw reports an impossible distribution
)

// Draw returns scene number index of a stream under a seed. The same arguments
// give the same scene; scenes of different streams, seeds or indices come from
// different generators.
func (y *System) Draw(stream Stream, seed, index uint64) (Scene, error) {
	rng := generator("gpc multiagent", stream, seed, index)
	var rejected Rejected
	for range sceneTries {
		scene, ok := y.place(rng)
		switch {
		case !ok:
			rejected.Placement++
		case !y.scenes.Moving && !y.connect(&scene):
			rejected.Disconnected++
		default:
			scene.Rejected.Placement += rejected.Placement
			scene.Rejected.Disconnected += rejected.Disconnected
			return scene, nil
		}
	}
	return Scene{}, fmt.Errorf("no admissible scene in %d draws (%+v)", sceneTries, rejected)
}

// generator draws for one purpose, apart from every other. A name has at most fifteen
// bytes.
func generator(name string, stream Stream, seed, index uint64) *rand.Rand {
	var key [32]byte
	copy(key[:15], name)
	key[15] = byte(stream)
	binary.LittleEndian.PutUint64(key[16:], seed)
	binary.LittleEndian.PutUint64(key[24:], index)
	return rand.New(rand.NewChaCha8(key))
}

// uniform is uniform in an interval.
func uniform(rng *rand.Rand, v [2]float64) float64 { return v[0] + (v[1]-v[0])*rng.Float64() }

// drawInteger is uniform over the integers from v[0] to v[1].
func drawInteger(rng *rand.Rand, v [2]int) int { return v[0] + rng.IntN(v[1]-v[0]+1) }

// uniformPosition is a uniform point of the workspace inset by a distance.
func (y *System) uniformPosition(rng *rand.Rand, inset float64) [2]float64 {
	w := &y.Params.Workspace
	return [2]float64{
		uniform(rng, [2]float64{w[0] + inset, w[1] - inset}),
		uniform(rng, [2]float64{w[2] + inset, w[3] - inset}),
	}
}

// place draws one scene; false where a body found no place.
func (y *System) place(rng *rand.Rand) (Scene, bool) {
	d := &y.scenes
	scene := Scene{Obstacles: []Obstacle{}}
	robots, obstacles := drawInteger(rng, d.Robots), drawInteger(rng, d.Obstacles)
	for range robots {
		if !y.placeRobot(rng, &scene) {
			return scene, false
		}
	}
	for range obstacles {
		if !y.placeObstacle(rng, &scene) {
			return scene, false
		}
	}
	return scene, true
}

func (y *System) placeRobot(rng *rand.Rand, scene *Scene) bool {
	d := &y.scenes
	r := Robot{R: uniform(rng, d.RobotRadius)}
	for range placementTries {
		r.P, r.Goal = y.uniformPosition(rng, d.Inset), y.uniformPosition(rng, d.Inset)
		if d.Farthest > 0 {
			y.moveWithin(&r, rng)
		}
		ok := math.Hypot(r.P[0]-r.Goal[0], r.P[1]-r.Goal[1]) >= d.Travel
		for i := range scene.Robots {
			o := &scene.Robots[i]
			clearance := d.RobotMargin + r.R + o.R + y.Params.DSafe
			ok = ok && math.Hypot(r.P[0]-o.P[0], r.P[1]-o.P[1]) >= clearance &&
				math.Hypot(r.Goal[0]-o.Goal[0], r.Goal[1]-o.Goal[1]) >= clearance
		}
		if ok {
			r.Theta = math.Atan2(r.Goal[1]-r.P[1], r.Goal[0]-r.P[0]) + d.HeadingError*(2*rng.Float64()-1)
			scene.Robots = append(scene.Robots, r)
			return true
		}
	}
	return false
}

// moveWithin draws another goal, at most Farthest from the start along each axis.
func (y *System) moveWithin(r *Robot, rng *rand.Rand) {
	d, w := &y.scenes, &y.Params.Workspace
	for k := range 2 {
		r.Goal[k] = uniform(rng, [2]float64{max(w[2*k]+d.Inset, r.P[k]-d.Farthest), min(w[2*k+1]-d.Inset, r.P[k]+d.Farthest)})
	}
}

func (y *System) placeObstacle(rng *rand.Rand, scene *Scene) bool {
	d := &y.scenes
	o := Obstacle{R: uniform(rng, d.ObstacleRadius)}
	corridor := rng.Float64() < d.CorridorShare
	for range placementTries {
		o.C = y.uniformPosition(rng, o.R)
		if corridor && !d.Moving {
			a := &scene.Robots[rng.IntN(len(scene.Robots))]
			fraction := rng.Float64()
			for k := range 2 {
				o.C[k] = a.P[k] + fraction*(a.Goal[k]-a.P[k]) + d.CorridorSpread*rng.NormFloat64()
			}
		}
		ok := true
		for k := range 2 {
			ok = ok && o.C[k] >= y.Params.Workspace[2*k]+o.R && o.C[k] <= y.Params.Workspace[2*k+1]-o.R
		}
		for i := range scene.Robots {
			a := &scene.Robots[i]
			ok = ok && obstacleMargin(a, &o, y.Params.DSafe) >= d.StartMargin
			if !d.Moving {
				ok = ok && math.Hypot(a.Goal[0]-o.C[0], a.Goal[1]-o.C[1])-a.R-o.R-y.Params.DSafe >= d.GoalMargin
			}
		}
		if !ok {
			continue
		}
		if d.Moving {
			heading := 2 * math.Pi * rng.Float64()
			if corridor {
				a := &scene.Robots[0]
				if d.Farthest > 0 {
					a = &scene.Robots[rng.IntN(len(scene.Robots))]
				}
				fraction := rng.Float64()
				heading = math.Atan2(a.P[1]+fraction*(a.Goal[1]-a.P[1])-o.C[1], a.P[0]+fraction*(a.Goal[0]-a.P[0])-o.C[0])
			}
			speed := uniform(rng, d.Speed)
			o.V = [2]float64{speed * math.Cos(heading), speed * math.Sin(heading)}
		}
		scene.Obstacles = append(scene.Obstacles, o)
		return true
	}
	return false
}
