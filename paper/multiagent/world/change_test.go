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
