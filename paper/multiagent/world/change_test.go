package world

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// An episode of a change begins where the one before stands, with its last actions: what is moved is elsewhere, and all else leads
// where it would have led.
func TestAChangeBeginsWhereTheEpisodeStands(t *testing.T) {
	for _, y := range []*System{system(t, false), system(t, true), double(t)} {
		moving := y.Moving()
		plant := &Plant{System: y}
		how := domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}
		ep := require.Get(plant.Episode(5, 1, how))(t)
		u := make([]float64, y.spec.ActionSize())
		n := ep.(*Episode).world.Robots
		for k := range 3 {
			for i := range n {
				u[ActionSize*i], u[ActionSize*i+1] = 0.05*float64(k), 0.02*float64(k+1)
			}
			require.Get(ep.Apply(u))(t)
		}
		e := ep.(*Episode)
		goal := e.world.Goal[0]
		change := require.Get(e.Change(fmt.Appendf(nil, `{"goal":{"of":0,"to":[%v,%v]}}`, goal[0], goal[1])))(t)
		on := require.Get(plant.Stage(5, 1, require.Get(json.Marshal(change.Scene))(t), how))(t)
		s, c, sOn, cOn := make([]float64, y.spec.MeasuredSize()), make([]float64, y.spec.ContextSize()), make([]float64, y.spec.MeasuredSize()), make([]float64, y.spec.ContextSize())
		ep.Observe(s, c)
		on.Observe(sOn, cOn)
		if !slices.Equal(s, sOn) || !slices.Equal(c, cOn) {
			t.Fatalf("moving %v: it begins at %v, %v, want %v, %v", moving, sOn, cOn, s, c)
		}
		want, got := require.Get(ep.Apply(u))(t), require.Get(on.Apply(u))(t)
		if !slices.Equal(want.S, got.S) || want.Margin != got.Margin || want.Cost != got.Cost {
			t.Errorf("moving %v: the next action leads to %v, want %v", moving, got, want)
		}

		robot, here := e.world.State[1], e.world.Obstacles[0]
		change = require.Get(e.Change(fmt.Appendf(nil, `{"obstacle":{"of":0,"to":[%v,%v]}}`, robot[0], robot[1])))(t)
		if _, err := plant.Stage(5, 1, require.Get(json.Marshal(change.Scene))(t), how); err == nil || !strings.Contains(err.Error(), "overlap") {
			t.Errorf("an obstacle on a robot: %v", err)
		}
		if e.world.Obstacles[0] != here {
			t.Error("a change that is not staged has moved an obstacle")
		}
		for _, wrong := range []string{`{}`, `{"goal":{"of":6,"to":[0,0]}}`, `{"obstacle":{"of":-1,"to":[0,0]}}`, `{"goal":{"of":0,"to":[0]}}`, `{"goal":{"of":0,"to":[0,0]},"obstacle":{"of":0,"to":[0,0]}}`} {
			if _, err := e.Change(json.RawMessage(wrong)); err == nil {
				t.Errorf("%s is taken", wrong)
			}
		}
	}
}

// A change says what is moved where.
func TestAChangeSaysWhatIsMoved(t *testing.T) {
	e := start(system(t, true), Scene{Robots: []Robot{{R: 0.3}, {R: 0.3, P: [2]float64{3, 3}}}, Obstacles: []Obstacle{{C: [2]float64{5, 5}, R: 0.5}, {C: [2]float64{-5, 5}, R: 0.5}}})
	for text, says := range map[string]string{
		`{"obstacle":{"of":1,"to":[1.234,-2]}}`: "obstacle 1 is moved to 1.23, -2.00 m", `{"goal":{"of":1,"to":[4,-0.5]}}`: "goal of robot 1 is moved to 4.00, -0.50 m",
	} {
		if got := require.Get(e.Change([]byte(text)))(t); got.About != says {
			t.Errorf("%s: %q, want %q", text, got.About, says)
		}
	}
	for text, says := range map[string]string{
		`{"obstacle":{"of":2,"to":[0,0]}}`: "obstacle.of is 2, the scene has 2", `{"goal":{"of":2,"to":[0,0]}}`: "goal.of is 2, the scene has 2", `{}`: "want one of", `{`: "",
	} {
		if _, err := e.Change([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// So it does where robots have left, wait outside and are to come; and times that are none are refused, as is an action of one that is
// not there.
func TestAChangeKeepsWhoIsThere(t *testing.T) {
	y := system(t, false)
	plant, how := &Plant{System: y}, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}
	scene := Scene{Obstacles: []Obstacle{}, Robots: []Robot{
		{P: [2]float64{-3, 0}, Goal: [2]float64{3, 0}, R: 0.3}, {P: [2]float64{0, 4}, Goal: [2]float64{0, 4}, R: 0.3, LeavesAtGoal: true},
		{P: [2]float64{0, 6}, Goal: [2]float64{0, -6}, R: 0.3, Enters: 0.2, Leaves: 1}, {P: [2]float64{5, 6}, Goal: [2]float64{5, -6}, R: 0.3, Enters: 0.8},
	}}
	stage := func(s Scene) (domain.Episode, error) { return plant.Stage(5, 0, require.Get(json.Marshal(s))(t), how) }
	ep := require.Get(stage(scene))(t)
	u := make([]float64, y.spec.ActionSize())
	for range 2 {
		u[0] += 0.1
		require.Get(ep.Apply(u))(t)
	}
	for _, i := range []int{1, 3} {
		wrong := slices.Clone(u)
		wrong[ActionSize*i] = 0.1
		if _, err := ep.Apply(wrong); err == nil {
			t.Errorf("robot %d acts and is not there", i)
		}
	}
	change := require.Get(ep.(*Episode).Change([]byte(`{"goal":{"of":0,"to":[3,0]}}`)))(t)
	on := require.Get(stage(change.Scene.(Scene)))(t)
	for k := range 5 {
		c, cOn, s := make([]float64, y.spec.ContextSize()), make([]float64, y.spec.ContextSize()), make([]float64, y.spec.MeasuredSize())
		ep.Observe(s, c)
		on.Observe(s, cOn)
		if !slices.Equal(c, cOn) {
			t.Fatalf("step %d: contexts %v, want %v", k, cOn, c)
		}
		require.Get(ep.Apply(u))(t)
		require.Get(on.Apply(u))(t)
	}
	for _, wrong := range [][2]float64{{-1, 0}, {2, 1}, {2, 2}} {
		scene.Robots[3].Enters, scene.Robots[3].Leaves = wrong[0], wrong[1]
		if _, err := stage(scene); err == nil {
			t.Errorf("it enters and leaves at %v s", wrong)
		}
	}
}
