package world

import (
	"math"
	"reflect"
	"slices"
	"testing"
)

// A crowd's scenes are at the density of six robots, the same twice, valid, and have goals that can be reached in the
// time of an episode.
func TestCrowdScenes(t *testing.T) {
	for _, moving := range []bool{false, true} {
		params := Default(moving)
		y, err := NewSystem("test", params.ForRobots(54), moving)
		if err != nil {
			t.Fatal(err)
		}
		if w := y.Params.Workspace; w != [4]float64{-30, 30, -30, 30} || y.Params.Bodies() != 135 {
			t.Errorf("workspace %v with %d obstacles", w, y.Params.Bodies())
		}
		for index := range uint64(3) {
			s, err := y.Draw(Validation, 3, index)
			if err != nil {
				t.Fatal(err)
			}
			if again, _ := y.Draw(Validation, 3, index); !reflect.DeepEqual(s, again) {
				t.Fatal("the same draw gives another scene")
			}
			if err := s.Validate(&y.Params); err != nil {
				t.Fatal(err)
			}
			if n := len(s.Obstacles); len(s.Robots) != 54 || n > 135 || n < 80 {
				t.Errorf("%d robots and %d obstacles", len(s.Robots), n)
			}
			for i, a := range s.Robots {
				if d := math.Hypot(a.P[0]-a.Goal[0], a.P[1]-a.Goal[1]); d < 8 || d > 18*math.Sqrt2 {
					t.Errorf("robot %d has %v m to go", i, d)
				}
				w := y.Params.Around(a.P, a.Goal)
				for _, at := range [][2]float64{a.P, a.Goal} {
					if at[0] < w[0] || at[0] > w[1] || at[1] < w[2] || at[1] > w[3] {
						t.Errorf("robot %d: %v lies outside of its grid %v", i, at, w)
					}
				}
			}
			if !moving && !y.connected(&s) {
				t.Error("somebody has no way")
			}
		}
	}
}

// In a crowd the obstacles around the goal of a robot that is cut off are taken away, and no others.
func TestACrowdsRobotsAreConnected(t *testing.T) {
	params := Default(false)
	y, err := NewSystem("test", params.ForRobots(54), false)
	if err != nil {
		t.Fatal(err)
	}
	free := Robot{R: 0.3, P: [2]float64{-20, -20}, Goal: [2]float64{-12, -20}}
	enclosed := Robot{R: 0.3, P: [2]float64{0, 10}, Goal: [2]float64{9, 10}}
	others := []Obstacle{{C: [2]float64{9, 22}, R: 0.5}, {C: [2]float64{-16, -17}, R: 0.5}, {C: [2]float64{1, 12}, R: 0.5}}
	s := Scene{Robots: []Robot{free, enclosed}, Obstacles: slices.Clone(others)}
	for k := range 24 {
		angle := 2 * math.Pi * float64(k) / 24
		s.Obstacles = append(s.Obstacles, Obstacle{C: [2]float64{9 + 2.5*math.Cos(angle), 10 + 2.5*math.Sin(angle)}, R: 0.5})
	}
	if y.reaches(&enclosed, s.Obstacles) || !y.reaches(&free, s.Obstacles) {
		t.Fatal("the wrong robot is cut off")
	}
	if !y.connect(&s) || !reflect.DeepEqual(s.Obstacles, others) || s.Rejected.Disconnected == 0 {
		t.Errorf("%d obstacles are left, %d removals", len(s.Obstacles), s.Rejected.Disconnected)
	}
}

// A robot that waits outside enters with an action that turns or accelerates it, and one that is not there never does.
func TestWhoActsEnters(t *testing.T) {
	absent := Prediction{Robots: 4, Radius: []float64{1, 1, 1, 0}, Absent: []bool{true, true, true, true}}
	if !absent.admit([]float64{0.1, 0, 0, 0.1, 0, 0, 0.1, 0.1}) || !slices.Equal(absent.Absent, []bool{false, false, true, true}) {
		t.Errorf("absent: %v", absent.Absent)
	}
	if absent.admit(make([]float64, 8)) {
		t.Error("somebody enters without an action")
	}
}

// The longest episode is one that parameters may have.
func TestTheLongestEpisode(t *testing.T) {
	for steps, valid := range map[int]bool{0: false, 1: true, 100_000: true, 100_001: false} {
		p := Default(true)
		p.Steps = steps
		if err := p.Validate(); (err == nil) != valid {
			t.Errorf("%d steps: %v", steps, err)
		}
	}
}
