package world

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// scenesOf is the system whose scenes are of a changed distribution.
func scenesOf(t testing.TB, moving bool, change func(d *Distribution)) *System {
	y := system(t, moving)
	change(&y.scenes)
	return y
}

// narrow are scenes of a small workspace, whose grids take little time.
var narrow = Distribution{
	Robots: [2]int{2, 2}, RobotRadius: [2]float64{0.2, 0.2}, Inset: 0.5, Travel: 1, RobotMargin: 0.9, Obstacles: [2]int{1, 4},
	ObstacleRadius: [2]float64{0.2, 0.4}, StartMargin: 0.1, GoalMargin: 0.1,
}

// Every bit of stream, seed and index makes another generator, as does the purpose.
func TestGeneratorsAreApart(t *testing.T) {
	seen := map[uint64]string{}
	add := func(what string, rng *rand.Rand) {
		v := rng.Uint64()
		if other, ok := seen[v]; ok {
			t.Errorf("%s draws what %s draws", what, other)
		}
		seen[v] = what
	}
	add("the first", generator("gpc multi noise", 1, 0, 0))
	add("another purpose", generator("gpc multi noisy", 1, 0, 0))
	for bit := range 64 {
		if bit > 0 && bit < 8 {
			add("a stream", generator("gpc multi noise", 1|1<<bit, 0, 0))
		}
		add("a seed", generator("gpc multi noise", 1, 1<<bit, 0))
		add("an index", generator("gpc multi noise", 1, 0, 1<<bit))
	}
	if Training != 1 || Validation != 2 || Test != 3 {
		t.Error("streams are other ones: recorded scenes are none of theirs")
	}
}

// counted counts the numbers that are drawn.
type counted struct {
	rand.Source
	n int
}

func (c *counted) Uint64() uint64 {
	c.n++
	return c.Source.Uint64()
}

// A scene without an admissible place for a body is given up after 200 places, and a distribution after 1000 scenes, with what was wrong.
func TestImpossibleScenesAreGivenUp(t *testing.T) {
	for _, c := range []struct {
		says   string
		moving bool
		change func(d *Distribution)
	}{
		{"in 1000 draws ({Placement:1000 Disconnected:0})", true, func(d *Distribution) { *d = narrow; d.Travel = 50 }},
		{"in 1000 draws ({Placement:1000 Disconnected:0})", true, func(d *Distribution) { *d = narrow; d.StartMargin = 50 }},
	} {
		y := scenesOf(t, c.moving, c.change)
		if s, err := y.Draw(Test, 3, 0); err == nil || !strings.Contains(err.Error(), c.says) || len(s.Robots) > 0 {
			t.Errorf("%v, want %q", err, c.says)
		}
		if _, err := (&Plant{System: y}).Episode(3, 0, adaptiveOnly); err == nil {
			t.Error("an episode of no scene begins")
		}
	}
	for _, y := range []*System{scenesOf(t, true, func(d *Distribution) { d.Travel, d.StartMargin = 50, 50 }), system(t, false)} {
		scene := Scene{Robots: []Robot{{R: 30}}} // no place is beyond its margins
		source := &counted{Source: rand.NewPCG(1, 2)}
		rng := rand.New(source)
		if y.placeRobot(rng, &scene) || source.n != 1+200*4 {
			t.Errorf("%d numbers for the places of a robot", source.n)
		}
		y.scenes.CorridorShare, source.n = 0, 0
		if y.placeObstacle(rng, &scene) || source.n != 2+200*2 || len(scene.Robots) != 1 || len(scene.Obstacles) != 0 {
			t.Errorf("%d numbers for those of an obstacle", source.n)
		}
	}
	shut := scenesOf(t, false, func(d *Distribution) { *d = narrow; d.Connectivity = 12 })
	shut.Params.Workspace = [4]float64{-2, 2, -2, 2}
	if _, err := shut.Draw(Test, 3, 0); err == nil || !strings.Contains(err.Error(), "{Placement:0 Disconnected:1000}") {
		t.Errorf("no robot has a way: %v", err)
	}
}

// What a scene says of the draws before it is what these were: each is drawn by the same generator until one is admissible.
func TestRejectedDrawsAreCounted(t *testing.T) {
	y := scenesOf(t, false, func(d *Distribution) { *d = narrow; d.RobotMargin, d.Connectivity = 1.8, 0.3 })
	y.Params.Workspace = [4]float64{-2, 2, -2, 2}
	sum := Rejected{}
	for index := range uint64(20) {
		rng, want := generator("gpc multiagent", Test, 5, index), Rejected{}
		for {
			scene, ok := y.place(rng)
			if ok && y.connected(&scene) {
				scene.Rejected = want
				if got := require.Get(y.Draw(Test, 5, index))(t); !reflect.DeepEqual(got, scene) {
					t.Fatalf("scene %d: %+v, want %+v", index, got, scene)
				}
				break
			}
			if ok {
				want.Disconnected++
			} else {
				want.Placement++
			}
		}
		sum.Placement, sum.Disconnected = sum.Placement+want.Placement, sum.Disconnected+want.Disconnected
	}
	if sum.Placement == 0 || sum.Disconnected == 0 {
		t.Errorf("no draw was refused for one of the reasons: %+v", sum)
	}
}

// span is the range of a quantity that was seen.
type span struct{ lo, hi float64 }

func (s *span) add(v float64) { s.lo, s.hi = min(s.lo, v), max(s.hi, v) }

// What is drawn keeps to the distribution, and fills it: numbers, radii, places, headings, speeds and margins come close to their
// bounds.
func TestScenesFillTheirDistribution(t *testing.T) {
	for _, moving := range []bool{false, true} {
		y := system(t, moving)
		d := &y.scenes
		none := span{math.Inf(1), math.Inf(-1)}
		robots, obstacles, radius, bulk, starts, goals, centres := none, none, none, none, [2]span{none, none}, [2]span{none, none}, [2]span{none, none}
		heading, speed, direction, starting, ending, standing, apart, off, at := none, none, none, none, none, none, none, none, none
		rng := rand.New(rand.NewPCG(9001, 11))
		for range 400 {
			s, ok := y.place(rng)
			if !ok {
				continue
			}
			robots.add(float64(len(s.Robots)))
			obstacles.add(float64(len(s.Obstacles)))
			for i := range s.Robots {
				a := &s.Robots[i]
				radius.add(a.R)
				for k := range 2 {
					starts[k].add(a.P[k])
					goals[k].add(a.Goal[k])
				}
				starting.add(math.Hypot(a.P[0]-a.Goal[0], a.P[1]-a.Goal[1]))
				heading.add(math.Remainder(a.Theta-math.Atan2(a.Goal[1]-a.P[1], a.Goal[0]-a.P[0]), 2*math.Pi))
				for _, b := range s.Robots[:i] {
					apart.add(pairMargin(a, &b, 0.18))
					b.P = b.Goal
					home := *a
					home.P = home.Goal
					ending.add(pairMargin(&home, &b, 0.18))
				}
				for j := range s.Obstacles {
					off.add(obstacleMargin(a, &s.Obstacles[j], 0.18))
					home := *a
					home.P = home.Goal
					at.add(obstacleMargin(&home, &s.Obstacles[j], 0.18))
				}
			}
			for _, o := range s.Obstacles {
				bulk.add(o.R)
				for k := range 2 {
					centres[k].add(o.C[k])
					standing.add(math.Abs(o.C[k]) + o.R)
				}
				speed.add(math.Hypot(o.V[0], o.V[1]))
				direction.add(math.Atan2(o.V[1], o.V[0]))
			}
		}
		// A margin that only a share of all draws come near has no upper bound of its own.
		far := math.Inf(1)
		type row struct {
			name           string
			got            span
			lo, hi, within float64
		}
		all := []row{
			{"robots", robots, 3, 6, 0}, {"obstacles", obstacles, 10, 15, 0}, {"radii of robots", radius, 0.25, 0.35, 0.01}, {"radii of obstacles", bulk, 0.4, 0.9, 0.01},
			{"starts, x", starts[0], -9, 9, 0.2}, {"starts, y", starts[1], -9, 9, 0.2}, {"goals, x", goals[0], -9, 9, 0.2}, {"goals, y", goals[1], -9, 9, 0.2},
			{"centres, x", centres[0], -9.6, 9.6, 0.3}, {"centres, y", centres[1], -9.6, 9.6, 0.3}, {"reach of obstacles", standing, 0, 10, 0.5},
			{"ways", starting, 8, far, 0.1}, {"headings", heading, -0.8, 0.8, 0.05}, {"margins of starts", apart, 1, far, 0.2}, {"margins of goals", ending, 1, far, 0.2},
			{"margins of obstacles to starts", off, d.StartMargin, far, 0.1},
		}
		if moving {
			all = append(all, row{"speeds", speed, 0.2, 0.8, 0.02}, row{"directions", direction, -math.Pi, math.Pi, 0.1})
		} else {
			all = append(all, row{"margins of obstacles to goals", at, 0.3, far, 0.1}, row{"speeds", speed, 0, 0, 0})
		}
		for _, r := range all {
			if r.got.lo < r.lo-1e-9 || r.got.hi > r.hi+1e-9 || r.got.lo > r.lo+r.within || r.hi < far && r.got.hi < r.hi-r.within {
				t.Errorf("moving %v: %s from %v to %v, want %v to %v", moving, r.name, r.got.lo, r.got.hi, r.lo, r.hi)
			}
		}
	}
}

// A standing obstacle of a corridor is at a point between some robot's start and goal, and a moving one heads for such a point, of the
// ego's way or in a crowd of any; all robots and all of their ways have some. Where no obstacle is one of a corridor, few are there.
func TestObstaclesOfCorridors(t *testing.T) {
	for _, c := range []struct {
		moving         bool
		share          float64
		farthest       float64
		egos, corridor bool
	}{{false, 1, 0, false, true}, {true, 1, 0, true, true}, {true, 1, 18, false, true}, {false, 0, 0, false, false}, {true, 0, 0, true, false}} {
		y := scenesOf(t, c.moving, func(d *Distribution) {
			d.CorridorShare, d.CorridorSpread, d.Farthest, d.ObstacleRadius = c.share, 0, c.farthest, [2]float64{0.2, 0.2}
		})
		rng := rand.New(rand.NewPCG(9001, 12))
		all, met, fraction, others := 0, 0, span{1, 0}, 0
		for range 60 {
			s, ok := y.place(rng)
			if !ok {
				continue
			}
			for _, o := range s.Obstacles {
				all++
				hit := false
				for i, a := range s.Robots {
					if i > 0 && c.egos {
						break
					}
					// a.P + f·way = o.C + g·V with f in [0, 1] and g ≥ 0; of one that stands g is 0.
					wx, wy, bx, by := a.Goal[0]-a.P[0], a.Goal[1]-a.P[1], o.C[0]-a.P[0], o.C[1]-a.P[1]
					f, miss := (bx*wx+by*wy)/(wx*wx+wy*wy), 0.0
					if miss = math.Abs(bx*wy-by*wx) / math.Hypot(wx, wy); c.moving {
						det := o.V[0]*wy - o.V[1]*wx
						f = (o.V[0]*by - o.V[1]*bx) / det
						miss = max(0, -(wx*by-wy*bx)/det)
					}
					if miss < 1e-9 && f > -1e-9 && f < 1+1e-9 {
						hit = true
						fraction.add(f)
						if i > 0 {
							others++
						}
					}
				}
				if hit {
					met++
				}
			}
		}
		if c.corridor != (met == all) || c.corridor && (fraction.lo > 0.15 || fraction.hi < 0.85 || !c.egos && others < all/2) {
			t.Errorf("%+v: %d of %d obstacles are of corridors, %d of other robots' than the ego, at fractions of %v", c, met, all, others, fraction)
		}
	}
}

// Bodies that keep their least margins exactly have a place.
func TestLeastMarginsAreKept(t *testing.T) {
	y := scenesOf(t, false, func(d *Distribution) {
		// All starts and goals are in the middle: what would be a margin of zero is one of minus all radii.
		*d = Distribution{Inset: 10, Robots: [2]int{2, 2}, RobotRadius: [2]float64{0.25, 0.25}, RobotMargin: -0.625, Obstacles: [2]int{1, 1}, ObstacleRadius: [2]float64{10, 10}, StartMargin: -10.375, GoalMargin: -10.375}
	})
	y.Params.DSafe = 0.125
	rng := rand.New(rand.NewPCG(1, 2))
	if s, ok := y.place(rng); !ok {
		t.Errorf("only %d robots and %d obstacles have a place", len(s.Robots), len(s.Obstacles))
	}
	for name, change := range map[string]func(d *Distribution){
		"travel": func(d *Distribution) { d.Travel = 1e-9 }, "robots": func(d *Distribution) { d.RobotMargin += 1e-9 },
		"start": func(d *Distribution) { d.StartMargin += 1e-9 }, "goal": func(d *Distribution) { d.GoalMargin += 1e-9 },
	} {
		z := *y
		if change(&z.scenes); func() bool { _, ok := z.place(rng); return ok }() {
			t.Errorf("%s: the least margin is not kept", name)
		}
	}
}

// In a crowd goals are drawn from all that lies within the farthest way of the start along each axis, and in the workspace.
func TestGoalsOfACrowdAreNear(t *testing.T) {
	y := scenesOf(t, true, func(d *Distribution) { d.Farthest = 4 })
	rng := rand.New(rand.NewPCG(1, 2))
	for _, start := range [][2]float64{{0, 1}, {-8, 7}, {6.5, -9}} {
		spans := [2]span{{100, -100}, {100, -100}}
		for range 300 {
			r := Robot{P: start}
			y.moveWithin(&r, rng)
			spans[0].add(r.Goal[0])
			spans[1].add(r.Goal[1])
		}
		for k, s := range spans {
			if lo, hi := max(-9, start[k]-4), min(9, start[k]+4); s.lo < lo || s.hi > hi || s.lo > lo+0.2 || s.hi < hi-0.2 {
				t.Errorf("from %v, axis %d: goals from %v to %v, want %v to %v", start, k, s.lo, s.hi, lo, hi)
			}
		}
	}
}
