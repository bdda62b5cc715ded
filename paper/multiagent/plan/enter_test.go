package plan

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// visited is a scene of a crowd in which every second robot enters while the others drive, where another one starts or goes to, and most
// leave.
func visited(t testing.TB, y *world.System, rng *rand.Rand) world.Scene {
	t.Helper()
	scene := require.Get(y.Draw(world.Validation, rng.Uint64(), 0))(t)
	for i := range scene.Robots {
		r := &scene.Robots[i]
		r.LeavesAtGoal = rng.IntN(3) > 0
		if i%4 == 0 {
			r.Leaves = 4 + 20*rng.Float64()
		}
		if i%2 == 1 {
			r.Enters, r.P = 0.1+6*rng.Float64(), scene.Robots[i-1].P
			if i%4 == 1 {
				r.P = scene.Robots[i-1].Goal
			}
			if r.Leaves > 0 {
				r.Leaves += r.Enters
			}
		}
	}
	if err := scene.Validate(&y.Params); err != nil {
		t.Fatal(err)
	}
	return scene
}

// tracked is a scene whose robots this test moves by itself: who is there, and where, heading and speed.
type tracked struct {
	world.Scene
	p         *world.Params
	inside    []bool
	gone      []bool
	last      [][2]float64
	closest   float64 // smallest margin of those that are there
	entered   int
	left      int
	waited    int
	decisions int
}

// near notes the margins of those that are there.
func (x *tracked) near() {
	for i, a := range x.Robots {
		if !x.inside[i] {
			continue
		}
		for j, b := range x.Robots[:i] {
			if x.inside[j] {
				x.closest = min(x.closest, math.Hypot(a.P[0]-b.P[0], a.P[1]-b.P[1])-a.R-b.R-x.p.DSafe)
			}
		}
		for _, o := range x.Obstacles {
			x.closest = min(x.closest, math.Hypot(a.P[0]-o.C[0], a.P[1]-o.C[1])-a.R-o.R-x.p.DSafe)
		}
	}
}

// step makes a decision of the plant: who leaves, who enters, and where all are after it.
func (x *tracked) step(t *testing.T, u []float64) {
	t.Helper()
	now := float64(x.decisions)*x.p.Dt + 1e-9
	for i := range x.Robots {
		r, a := &x.Robots[i], u[2*i:2*i+2]
		home := math.Hypot(r.P[0]-r.Goal[0], r.P[1]-r.Goal[1]) <= x.p.GoalRadius
		if !x.gone[i] && (r.Leaves > 0 && now >= r.Leaves || r.LeavesAtGoal && x.inside[i] && home) {
			x.inside[i], x.gone[i] = false, true
			x.left++
		}
		switch acts := a[0] != 0 || a[1] != 0; {
		case x.inside[i]:
		case !acts && !x.gone[i] && now >= r.Enters:
			x.waited++
		case acts && (x.gone[i] || now < r.Enters):
			t.Fatalf("decision %d: robot %d, which is not there, acts", x.decisions, i)
		case acts:
			x.inside[i] = true
			x.entered++
		}
	}
	x.near() // where they begin
	l := x.p.Limits
	for i := range x.Robots {
		if !x.inside[i] {
			continue
		}
		r, a := &x.Robots[i], u[2*i:2*i+2]
		if math.Abs(a[0]-x.last[i][0]) > l.DuMax[0]+1e-9 || math.Abs(a[1]-x.last[i][1]) > l.DuMax[1]+1e-9 || math.Abs(a[1]) > l.OmegaMax+1e-9 || a[0] > l.AMax+1e-9 || a[0] < l.AMin-1e-9 {
			t.Fatalf("decision %d: action %v of robot %d after %v", x.decisions, a, i, x.last[i])
		}
		v := min(max(r.V+x.p.Dt*a[0], l.VMin), l.VMax)
		way, heading := x.p.Dt*(r.V+v)/2, r.Theta+x.p.Dt*a[1]/2
		r.P[0], r.P[1] = r.P[0]+way*math.Cos(heading), r.P[1]+way*math.Sin(heading)
		r.V, r.Theta, x.last[i] = v, r.Theta+x.p.Dt*a[1], [2]float64(a)
	}
	for j := range x.Obstacles {
		o := &x.Obstacles[j]
		for k := range 2 {
			o.C[k] += x.p.Dt * o.V[k]
			if lo, hi := x.p.Workspace[2*k]+o.R, x.p.Workspace[2*k+1]-o.R; o.C[k] < lo {
				o.C[k], o.V[k] = 2*lo-o.C[k], -o.V[k]
			} else if o.C[k] > hi {
				o.C[k], o.V[k] = 2*hi-o.C[k], -o.V[k]
			}
		}
	}
	x.near()
	x.decisions++
}

// Robots enter and leave while the others go on, and of those that are there no two meet, in any decision, by arithmetic of this
// test's own. Who may enter where another stands waits until it is gone.
func TestRobotsEnterAndLeave(t *testing.T) {
	scenes := 3
	if testing.Short() {
		scenes = 1
	}
	for name, exchange := range map[string]*Exchange{"in turn": nil, "at once": {}, "a period late": {Delay: 1}, "late and lossy": {Delay: 3, Loss: 0.05}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			total := tracked{closest: math.Inf(1)}
			for seed := range scenes {
				rng := rand.New(rand.NewPCG(7, uint64(seed)))
				y := crowded(t, seed%2 == 0, 16+rng.IntN(17))
				scene := visited(t, y, rng)
				x := tracked{Scene: scene, p: &y.Params, closest: math.Inf(1), gone: make([]bool, len(scene.Robots))}
				e := start(y, scene)
				x.Robots, x.Obstacles = append([]world.Robot{}, scene.Robots...), append([]world.Obstacle{}, scene.Obstacles...)
				for _, r := range x.Robots {
					x.inside, x.last = append(x.inside, r.Enters == 0), append(x.last, r.Last)
				}
				o := Default(y.Moving())
				o.Candidates, o.Exchange = 512, exchange
				p := require.Get(New(y, o, domain.Means{}))(t)
				state := make([]float64, y.Spec().MeasuredSize())
				_, low := drive(t, e, p, 120, func(u []float64, _ domain.Decision) {
					e.State(state)
					for i, r := range x.Robots {
						if math.Hypot(state[4*i]-r.P[0], state[4*i+1]-r.P[1]) > 1e-9 {
							t.Fatalf("decision %d: robot %d is at %v, want %v", x.decisions, i, state[4*i:4*i+2], r.P)
						}
					}
					x.step(t, u)
				})
				if math.Abs(low-min(x.closest, world.NoMargin)) > 1e-9 || low < 0 {
					t.Errorf("scene %d: smallest margin %v m, the plant says %v", seed, x.closest, low)
				}
				total.entered, total.left, total.waited = total.entered+x.entered, total.left+x.left, total.waited+x.waited
			}
			if total.entered < 4*scenes || total.left < 4*scenes || total.waited < 10*scenes {
				t.Errorf("%d entered, %d left, %d decisions of waiting", total.entered, total.left, total.waited)
			}
		})
	}
}

// A robot whose place is taken waits outside, is said to, and enters once the place is free; the methods that plan for all at once
// refuse it.
func TestARobotWaitsUntilItsPlaceIsFree(t *testing.T) {
	y := system(t, false)
	stays := world.Robot{P: [2]float64{0, 0}, Goal: [2]float64{0, 0}, R: 0.3, Leaves: 4}
	comes := world.Robot{P: [2]float64{0.2, 0}, Goal: [2]float64{6, 0}, R: 0.3, Enters: 1, LeavesAtGoal: true}
	scene := world.Scene{Robots: []world.Robot{stays, comes}, Obstacles: []world.Obstacle{}}
	if err := scene.Validate(&y.Params); err != nil {
		t.Fatal(err)
	}
	for _, exchange := range []*Exchange{nil, {Delay: 1}} {
		o := Default(false)
		o.Candidates, o.Exchange = 512, exchange
		p := require.Get(New(y, o, domain.Means{}))(t)
		e, first, decision := start(y, scene), -1, 0
		radius := y.Spec().ContextSize() - y.Params.Bodies()*5 - y.Params.Room() + 1
		c, s := make([]float64, y.Spec().ContextSize()), make([]float64, y.Spec().MeasuredSize())
		_, low := drive(t, e, p, 100, func(u []float64, _ domain.Decision) {
			e.Observe(s, c)
			if u[2] != 0 && first < 0 {
				first = decision
			}
			if want := map[bool]float64{true: -0.3, false: 0}[decision >= 5]; first < 0 && c[radius] != want {
				t.Errorf("decision %d: its radius is %v in the context, want %v", decision, c[radius], want)
			}
			decision++
		})
		if first < 20 || first > 25 || low < 0 || !e.Succeeded() {
			t.Errorf("it enters at decision %d, smallest margin %v: %s", first, low, e.Cause())
		}
		e.Observe(s, c)
		if c[radius] != 0 {
			t.Errorf("it has not left its goal: radius %v", c[radius])
		}
	}
	reference := require.Get(NewReference(y, 64))(t)
	e := start(y, scene)
	s, c, u := make([]float64, y.Spec().MeasuredSize()), make([]float64, y.Spec().ContextSize()), make([]float64, y.Spec().ActionSize())
	for range 5 {
		require.Get(e.Apply(u))(t)
	}
	if cause := e.Cause(); !strings.Contains(cause, "robot 1 has not entered") {
		t.Errorf("its cause is %q", cause)
	}
	e.Observe(s, c)
	if _, err := reference.Decide(s, c, adaptive, u); err == nil {
		t.Error("the reference takes a robot that is outside")
	}
}
