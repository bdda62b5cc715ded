package world

import (
	"encoding/json"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpc-engine/gpc/domain"
)

func system(t testing.TB, moving bool) *System {
	t.Helper()
	y, err := NewSystem("test", Default(moving), moving)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// Every scene keeps what the distribution promises, and is the same twice.
func TestScenesAreAdmissible(t *testing.T) {
	for _, moving := range []bool{false, true} {
		y := system(t, moving)
		d := &y.scenes
		rapid.Check(t, func(t *rapid.T) {
			stream := Stream(rapid.IntRange(1, 3).Draw(t, "stream"))
			seed, index := rapid.Uint64().Draw(t, "seed"), rapid.Uint64Range(0, 1<<20).Draw(t, "index")
			s, err := y.Draw(stream, seed, index)
			if err != nil {
				t.Fatal(err)
			}
			if again, _ := y.Draw(stream, seed, index); !reflect.DeepEqual(s, again) {
				t.Fatal("the same draw gives another scene")
			}
			if err := s.Validate(&y.Params); err != nil {
				t.Fatal(err)
			}
			if n := len(s.Robots); n < d.Robots[0] || n > d.Robots[1] {
				t.Fatalf("%d robots", n)
			}
			if n := len(s.Obstacles); n < d.Obstacles[0] || n > d.Obstacles[1] {
				t.Fatalf("%d obstacles", n)
			}
			for i := range s.Robots {
				a := &s.Robots[i]
				if a.V != 0 || math.Hypot(a.P[0]-a.Goal[0], a.P[1]-a.Goal[1]) < d.Travel {
					t.Fatalf("robot %d: %+v", i, a)
				}
				if off := math.Remainder(a.Theta-math.Atan2(a.Goal[1]-a.P[1], a.Goal[0]-a.P[0]), 2*math.Pi); math.Abs(off) > d.HeadingError+1e-12 {
					t.Fatalf("robot %d heads %v rad away from its goal", i, off)
				}
				for j := range i {
					if h := pairMargin(a, &s.Robots[j], y.Params.DSafe); h < d.RobotMargin-1e-12 {
						t.Fatalf("robots %d and %d start with a margin of %v", i, j, h)
					}
				}
				for j := range s.Obstacles {
					if h := obstacleMargin(a, &s.Obstacles[j], y.Params.DSafe); h < d.StartMargin-1e-12 {
						t.Fatalf("robot %d and obstacle %d start with a margin of %v", i, j, h)
					}
				}
			}
			for _, o := range s.Obstacles {
				speed := math.Hypot(o.V[0], o.V[1])
				if moving && (speed < d.Speed[0]-1e-12 || speed > d.Speed[1]+1e-12) || !moving && speed != 0 {
					t.Fatalf("obstacle speed %v", speed)
				}
			}
			if !moving && !y.connected(&s) {
				t.Fatal("a robot is cut off from its goal")
			}
		})
	}
}

func TestStreamsAreDisjoint(t *testing.T) {
	y := system(t, true)
	seen := map[string]string{}
	for _, stream := range []Stream{Training, Validation, Test} {
		for seed := range uint64(5) {
			for index := range uint64(20) {
				s, err := y.Draw(stream, seed, index)
				if err != nil {
					t.Fatal(err)
				}
				text, _ := json.Marshal(s.Robots)
				if other, ok := seen[string(text)]; ok {
					t.Fatalf("stream %d, seed %d, index %d repeats %s", stream, seed, index, other)
				}
				seen[string(text)] = string(rune(stream))
			}
		}
	}
}

// A gap in a ring of obstacles lets a robot out on whatever side it is, and none does without.
func TestConnectivityIsTheSameOnEverySide(t *testing.T) {
	y := system(t, false)
	for heading := range 8 {
		out := float64(heading) * math.Pi / 4
		for _, gap := range []bool{false, true} {
			s := Scene{Robots: []Robot{{R: 0.3, Goal: [2]float64{6 * math.Cos(out+2.5), 6 * math.Sin(out+2.5)}}}}
			for k := range 24 {
				if angle := 2 * math.Pi * float64(k) / 24; !gap || math.Cos(angle-out) < 0.8 {
					s.Obstacles = append(s.Obstacles, Obstacle{C: [2]float64{3 * math.Cos(angle), 3 * math.Sin(angle)}, R: 0.5})
				}
			}
			if y.connected(&s) != gap {
				t.Errorf("heading %d/8, gap %v: connected %v", heading, gap, !gap)
			}
		}
	}
}

// The grid says that a wall with no gap disconnects, and one with a gap does not.
func TestConnectivityFollowsAWall(t *testing.T) {
	y := system(t, false)
	wall := func(gap float64) Scene {
		s := Scene{Robots: []Robot{{P: [2]float64{-5, 0}, R: 0.3, Goal: [2]float64{5, 0}}}}
		for x := -9.2; x < 9.5; x += 1.4 {
			if math.Abs(x) > gap {
				s.Obstacles = append(s.Obstacles, Obstacle{C: [2]float64{0, x}, R: 0.8})
			}
		}
		return s
	}
	if s := wall(0); y.connected(&s) {
		t.Error("a closed wall connects")
	}
	if s := wall(1.5); !y.connected(&s) {
		t.Error("a wall with a gap of two obstacles does not connect")
	}
}

// With a cost of one per metre the grid's cost-to-go is the distance, to the first
// order of the cell, and its direction points home.
func TestGridSolvesTheEikonalEquation(t *testing.T) {
	y := system(t, false)
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.Float64Range(-9.9, 9.9)
		goal := [2]float64{c.Draw(t, "gx"), c.Draw(t, "gy")}
		g := NewGrid(y.Params.Workspace, goal, nil)
		g.Solve(goal, nil)
		px, py := c.Draw(t, "x"), c.Draw(t, "y")
		d := math.Hypot(px-goal[0], py-goal[1])
		if v := g.At(px, py); math.Abs(v-d) > 0.05*d+2*Cell {
			t.Fatalf("cost-to-go %v for the distance %v", v, d)
		}
		if d > 2 {
			ax, ay := g.Direction(float32(px), float32(py), 0, 0)
			if along := (float64(ax)*(goal[0]-px) + float64(ay)*(goal[1]-py)) / d; along < 0.95 {
				t.Fatalf("direction (%v, %v) from (%v, %v) to %v", ax, ay, px, py, goal)
			}
		}
	})
}

// A wall makes the way longer by the detour around its end.
func TestGridGoesAroundAWall(t *testing.T) {
	y := system(t, false)
	var wall []Disc
	for x := -3.0; x <= 3; x += 0.5 {
		wall = append(wall, Disc{0, x, 0.6})
	}
	goal := [2]float64{3, 0}
	g := NewGrid(y.Params.Workspace, goal, wall)
	g.Solve(goal, nil)
	if v := g.At(-3, 0); v < 2*math.Hypot(3, 3) || v > 2*math.Hypot(3, 3.6)+1.2 {
		t.Errorf("cost-to-go %v behind a wall that ends 3.6 m from the middle", v)
	}
}

func TestUnusableScenesAreRefusedByName(t *testing.T) {
	y := system(t, true)
	good := func() Scene {
		s, err := y.Draw(Test, 5, 0)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		name, want string
		spoil      func(s *Scene)
	}{
		{"no robots", "scene has no agents", func(s *Scene) { s.Robots = nil }},
		{"seven robots", "scene has 7 agents", func(s *Scene) { s.Robots = make([]Robot, 7) }},
		{"sixteen obstacles", "scene has 16 obstacles", func(s *Scene) { s.Obstacles = make([]Obstacle, 16) }},
		{"NaN start", "agent 1: ", func(s *Scene) { s.Robots[1].P[0] = math.NaN() }},
		{"infinite goal", "agent 0: ", func(s *Scene) { s.Robots[0].Goal[1] = math.Inf(1) }},
		{"NaN velocity", "obstacle 2: ", func(s *Scene) { s.Obstacles[2].V[0] = math.NaN() }},
		{"no radius", "obstacle 0: radius", func(s *Scene) { s.Obstacles[0].R = 0 }},
		{"too fast", "agent 0: speed", func(s *Scene) { s.Robots[0].V = 2 }},
		{"outside", "obstacle 0: centre", func(s *Scene) { s.Obstacles[0].C[0] = 9.99 }},
		{"robots overlap", "agents 0 and 1 overlap", func(s *Scene) { s.Robots[1].P = s.Robots[0].P }},
		{"obstacle overlaps", "agent 0 and obstacle 0 overlap", func(s *Scene) { s.Obstacles[0].C = s.Robots[0].P }},
		{"weights", "preference", func(s *Scene) { s.W = []float64{1, 1, 1} }},
	} {
		s := good()
		c.spoil(&s)
		if err := s.Validate(&y.Params); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// A scene that was written is read as it was, and one with an entry too few is not read.
func TestScenesAreReadAsWritten(t *testing.T) {
	plant := &Plant{System: system(t, true)}
	params, err := json.Marshal(plant.Params())
	if err != nil {
		t.Fatal(err)
	}
	for index := range 3 {
		e, err := plant.Episode(9001, index, domain.EpisodeOptions{Preference: domain.Preference{W: []float64{0.25, 0.25, 0.5}}})
		if err != nil {
			t.Fatal(err)
		}
		scene, err := json.Marshal(e.Scene())
		if err != nil {
			t.Fatal(err)
		}
		again, err := plant.Replay(params, scene)
		if err != nil || !reflect.DeepEqual(again.Scene(), e.Scene()) {
			t.Errorf("scene %d: %v, read as %+v", index, err, again)
		}
		for _, field := range []string{"p", "goal", "c", "v"} { // the first number of a list of two goes
			short := regexp.MustCompile(`"`+field+`":\[[^,\]]*,`).ReplaceAllString(string(scene), `"`+field+`":[`)
			if _, err := plant.Replay(params, []byte(short)); short == string(scene) || err == nil {
				t.Errorf("scene %d is read with one entry of %q", index, field)
			}
		}
	}
}

// The points near a disc are those of the square around its centre, and no others.
func TestPointsNearADisc(t *testing.T) {
	y := system(t, false)
	g := NewGrid(y.Params.Workspace, [2]float64{0, 0}, nil)
	for _, d := range []Disc{{0, 0, 1}, {-9.7, 9.8, 0.5}, {3.21, -9.99, 2}} {
		const reach = 1.3
		seen := map[int]float64{}
		g.Near(d, reach, func(i int, distance float64) { seen[i] = distance })
		for iy := range g.NY {
			for ix := range g.NX {
				dx, dy := g.X0+float64(ix)*Cell-d.X, g.Y0+float64(iy)*Cell-d.Y
				distance, visited := seen[iy*g.NX+ix]
				if off := math.Max(math.Abs(dx), math.Abs(dy)) - reach; math.Abs(off) > 1e-9 && visited != (off < 0) || visited && math.Abs(distance-math.Hypot(dx, dy)) > 1e-12 {
					t.Fatalf("disc %+v, point %d, %d: visited %t with distance %g", d, ix, iy, visited, distance)
				}
			}
		}
	}
}

// A passage's points are those of the grid next to the line through the middle of a gap, which stand for points of that line: as far
// from the one disc as from the other, whichever comes first. A gap that is too narrow, or has room to spare, is none.
func TestPassagesAreTheMiddlesOfGaps(t *testing.T) {
	g := NewGrid(system(t, false).Params.Workspace, [2]float64{0, 0}, nil)
	const clear, room = 0.3, 0.5
	a := Disc{-1.3, 0.4, 0.8}
	for _, gap := range []float64{0.59, 0.61, 0.9, 1.27, 1.29} { // from 2·0.3 to 2·0.5 and the diagonal of a cell
		for _, heading := range []float64{0, 0.7, 2.2, -1.9} {
			b := Disc{0, 0, 0.45}
			dx, dy := math.Cos(heading), math.Sin(heading)
			b.X, b.Y = a.X+dx*(a.R+gap+b.R), a.Y+dy*(a.R+gap+b.R)
			visited := map[int][2]float64{}
			g.Passages([]Disc{a, b}, clear, room, func(point int, x, y float64) {
				visited[point] = [2]float64{x, y}
				along, across := (x-a.X)*dx+(y-a.Y)*dy, -(x-a.X)*dy+(y-a.Y)*dx
				px, py := g.X0+float64(point%g.NX)*Cell, g.Y0+float64(point/g.NX)*Cell
				off, side := (px-x)*dx+(py-y)*dy, -(px-x)*dy+(py-y)*dx
				if math.Abs(along-a.R-gap/2) > 1e-9 || math.Abs(across) > passageReach+1e-9 || math.Abs(side) > 1e-9 || math.Abs(off) > Cell/math.Sqrt2+1e-9 {
					t.Fatalf("gap %g, heading %g: a point %g before the middle and %g beside it stands for one %g along, %g across", gap, heading, off, side, along-a.R, across)
				}
			})
			if want := gap > 0.6 && gap < 1.28; want != (len(visited) >= 6) || !want && len(visited) > 0 {
				t.Errorf("gap %g, heading %g: %d points", gap, heading, len(visited))
			}
			g.Passages([]Disc{b, a}, clear, room, func(point int, x, y float64) {
				if v, ok := visited[point]; !ok || math.Hypot(v[0]-x, v[1]-y) > 1e-9 {
					t.Errorf("gap %g, heading %g: point %d stands for %v, %v, in the other order for %v", gap, heading, point, x, y, v)
				}
				delete(visited, point)
			})
			if len(visited) > 0 {
				t.Errorf("gap %g, heading %g: %d points in one order alone", gap, heading, len(visited))
			}
		}
	}
	g.Passages([]Disc{a, a}, clear, room, func(int, float64, float64) { t.Error("a passage through one disc") })
}

// An episode is asked for by a preference of three weights and no regime.
func TestEpisodesAreRefused(t *testing.T) {
	plant := &Plant{System: system(t, true)}
	for _, o := range []domain.EpisodeOptions{
		{Preference: domain.Preference{W: []float64{0.5, 0.5}}}, {Preference: domain.Preference{W: []float64{1, 1, 1}}}, {Preference: domain.Preference{Adaptive: true}, Regime: "storm"},
	} {
		if _, err := plant.Episode(3, 0, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func FuzzReplay(f *testing.F) {
	plant := &Plant{System: system(f, true)}
	params, err := json.Marshal(plant.Params())
	if err != nil {
		f.Fatal(err)
	}
	e, err := plant.Episode(3, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}})
	if err != nil {
		f.Fatal(err)
	}
	scene, err := json.Marshal(e.Scene())
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(params), []byte(scene))
	f.Add([]byte(`{"dt":-1}`), []byte(`{"agents":[],"obstacles":[]}`))
	f.Add([]byte(`{}`), []byte(`{"agents":[{"p":[0],"theta":0,"v":0,"r":1,"goal":[1,1]}],"obstacles":[]}`))
	f.Fuzz(func(t *testing.T, params, scene []byte) {
		e, err := plant.Replay(params, scene)
		if err != nil {
			return
		}
		spec := e.(*Episode).plant.System.Spec()
		out, err := e.Apply(make([]float64, spec.ActionSize()))
		if err != nil {
			t.Fatalf("standing still is refused: %v", err)
		}
		if math.IsNaN(out.Margin) || len(out.S) != spec.MeasuredSize() {
			t.Fatalf("outcome %+v", out)
		}
	})
}
