package plan

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// facing is a scene of one robot that drives four metres along x through a wall
// of discs with a gap of so much margin on either side.
func facing(y *world.System, margin float64) world.Scene {
	r := world.Robot{P: [2]float64{-6, 0}, R: 0.3, Goal: [2]float64{6, 0}}
	s := world.Scene{Robots: []world.Robot{r}}
	half := margin + r.R + y.Params.DSafe
	for k := range 6 {
		at := half + 0.9 + 1.7*float64(k)
		if at+0.9 > y.Params.Workspace[1] {
			break
		}
		s.Obstacles = append(s.Obstacles, world.Obstacle{C: [2]float64{0, at}, R: 0.9}, world.Obstacle{C: [2]float64{0, -at}, R: 0.9})
	}
	return s
}

// A scene is planned for the margin that it can have at a price: all of it where
// the way is free, that of the gap where the way around is long.
func TestBufferIsChosenByItsPrice(t *testing.T) {
	y := system(t, false)
	choose := func(s world.Scene) float64 {
		p := planner(t, y, 384)
		drive(t, start(y, s), p, 1, nil)
		return p.sceneBuffer
	}
	free := world.Scene{Robots: []world.Robot{{P: [2]float64{-6, 0}, R: 0.3, Goal: [2]float64{6, 0}}}}
	if b := choose(free); b != buffers[0] {
		t.Errorf("the buffer of a free way is %v, want %v", b, buffers[0])
	}
	if b := choose(facing(y, 0.15)); b > 0.3 {
		t.Errorf("the buffer of a scene whose only gap leaves 0.15 m is %v", b)
	}
}

// The buffer follows the closest approach down, never below what plans must keep,
// and never up.
func TestBufferFollowsTheClosestApproach(t *testing.T) {
	y := system(t, false)
	p := planner(t, y, 384)
	if b := p.buffer(); b != p.options.Buffer {
		t.Fatalf("the buffer starts at %v, want %v", b, p.options.Buffer)
	}
	s := facing(y, 0.15)
	last := math.Inf(1)
	drive(t, start(y, s), p, 60, func([]float64, domain.Decision) {
		if b := p.buffer(); b > last || b < p.options.Hard {
			t.Fatalf("the buffer is %v after %v", b, last)
		} else {
			last = b
		}
	})
	if want := p.least + p.options.Creep; last > want+1e-12 {
		t.Errorf("the buffer ends at %v after a closest approach of %v, want at most %v", last, p.least, want)
	}
}

// A gap that is narrower than a cell is a way of its own width wherever it lies
// on the grid, and none where it is too narrow.
func TestPassagesDoNotDependOnTheGrid(t *testing.T) {
	y := system(t, false)
	p := planner(t, y, 384)
	rapid.Check(t, func(t *rapid.T) {
		s := facing(y, 0.06)
		p.Observe(s.Prediction(&y.Params), world.Thirds)
		shift := rapid.Float64Range(-world.Cell, world.Cell).Draw(t, "shift")
		cost := func(closer float64) float64 {
			bodies := p.stationaryDiscs(0)
			for j := range bodies {
				bodies[j].X += shift
				bodies[j].Y += shift - closer*math.Copysign(1, bodies[j].Y)
			}
			return p.costs(0, bodies, 0.06, nil).At(-6, 0)
		}
		stage, step := p.options.Score(p.joint.Scene, 0, world.Thirds).Goal, y.Params.Dt*y.Params.Limits.VMax
		straight := stage * 12 * 12 * 12 / (3 * step)
		if v := cost(0); v > 1.15*straight || v < 0.9*straight {
			t.Fatalf("the way through a gap of 0.06 m costs %v, the straight way %v", v, straight)
		}
		if v := cost(0.06); v < 1.3*straight {
			t.Fatalf("the way through a gap of no width costs %v, the straight way %v", v, straight)
		}
	})
}

// A solution that starts from a larger buffer's is the one that starts from
// nothing.
func TestWarmFieldIsTheColdOne(t *testing.T) {
	y := system(t, false)
	p := planner(t, y, 384)
	p.Observe(drawn(t, y, rand.New(rand.NewPCG(11, 12))), world.Thirds)
	for i := range p.joint.Scene.Robots {
		bodies := p.stationaryDiscs(i)
		above := p.costs(i, bodies, buffers[0], nil)
		warm, cold := p.costs(i, bodies, buffers[3], above), p.costs(i, bodies, buffers[3], nil)
		for at, want := range cold.Value {
			if v := warm.Value[at]; v != want && !(math.Abs(float64(v-want)) < 1e-2*float64(want)) {
				t.Fatalf("robot %d, point %d: %v from above, %v from nothing", i, at, v, want)
			}
		}
	}
}

// The descent's starts lead different ways.
func TestBoldCandidatesAreDistinct(t *testing.T) {
	for _, moving := range []bool{false, true} {
		y := system(t, moving)
		p := planner(t, y, 768)
		several := 0
		drive(t, scene(t, y, 1), p, 10, func([]float64, domain.Decision) {
			for n := range p.search.daring {
				for m := range n {
					if d := p.search.bold[n].way.distance(&p.search.bold[m].way); d <= distinctWays {
						t.Fatalf("moving %v: bold candidates %d and %d are %v m apart", moving, m, n, d)
					}
					if p.search.bold[n].key < p.search.bold[m].key {
						t.Fatalf("moving %v: bold candidates %d and %d are not in order", moving, m, n)
					}
				}
			}
			if p.search.daring > 1 {
				several++
			}
		})
		if several == 0 {
			t.Errorf("moving %v: no decision has two different ways", moving)
		}
	}
}

// A way is where the plan leads on the dynamics.
func TestWayIsThePlansPath(t *testing.T) {
	y := system(t, true)
	p := planner(t, y, 384)
	drive(t, scene(t, y, 2), p, 3, nil)
	p.scene.State[1] = [world.StateSize]float64{1, 2, 0.5, 0.3}
	p.joint.Commit(1, &p.joint.Robots[1].Plan)
	look := p.look
	p.joint.Outlook(1, &look)
	p.search.Begin(&look, 1, p.options.Score(&p.scene, 1, world.Thirds), &p.joint.Robots[1].Plan)
	p.search.Put(&p.joint.Robots[1].Plan, 5)
	w := p.search.follow(5)
	for k := range w {
		at := p.joint.Robots[1].Path[(k+1)*world.LookAhead/4-1]
		if math.Hypot(w[k][0]-float64(at[0]), w[k][1]-float64(at[1])) > 1e-5 {
			t.Errorf("point %d of the way is %v, the path has %v", k, w[k], at)
		}
	}
}

// A robot at its goal that cannot leave a buffer stops searching, and stays safe.
func TestRestingRobotStopsSearching(t *testing.T) {
	y := system(t, false)
	s := world.Scene{
		Robots:    []world.Robot{{R: 0.3, Goal: [2]float64{0, 0}}},
		Obstacles: []world.Obstacle{{C: [2]float64{0.3 + 0.18 + 0.5 + 0.3, 0}, R: 0.5}, {C: [2]float64{-0.3 - 0.18 - 0.5 - 0.3, 0}, R: 0.5}},
	}
	p := planner(t, y, 768)
	resting := 0
	_, low := drive(t, start(y, s), p, 60, func([]float64, domain.Decision) {
		if p.joint.Robots[0].Exhausted > 0 {
			resting++
		}
	})
	if resting < 20 || low < 0 {
		t.Errorf("the robot rests in %d of 60 decisions, smallest margin %v", resting, low)
	}
}
