package integrator

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/pages"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

var adaptiveOnly = domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}

// docs/reference/formats.md has every key of a scene and of params, and none besides.
func TestFormatsPage(t *testing.T) {
	page := require.Get(pages.ReadKeys("../../docs/reference/formats.md"))(t)
	page.Hold(t, map[string]any{"integrator scene": Scene{}, "integrator params": traceParams{}})
}

// edited is a drawn scene with fields of it replaced.
func edited(t testing.TB, plant *Plant, fields string) json.RawMessage {
	t.Helper()
	ep := require.Get(plant.Episode(991, 0, adaptiveOnly))(t)
	text := require.Get(json.Marshal(plant.Draft(ep)))(t)
	var scene map[string]json.RawMessage
	require.OK(t, json.Unmarshal(text, &scene))
	require.OK(t, json.Unmarshal([]byte(fields), &scene))
	return require.Get(json.Marshal(scene))(t)
}

func TestImpossibleScenesAreRefusedByName(t *testing.T) {
	c := Convex()
	plant := c.Plant.(*Plant)
	require.Get(plant.Stage(1, 0, edited(t, plant, `{}`), adaptiveOnly))(t)
	for fields, says := range map[string]string{
		`{"q0": [0, -0.95]}`:     "q0 is [0 -0.95], inside the keep-out ellipse",
		`{"q0": [1e9, 0]}`:       "q0 is",
		`{"v0": [1e9, 0]}`:       "v0 is",
		`{"u_prev": [9, 0]}`:     "u_prev is",
		`{"q0": [1]}`:            "q0 has 1 entries, want 2",
		`{"p": [0.1]}`:           "p has 1 entries, want 20",
		`{"p": null}`:            "p is null",
		`{"w": [0.5, 0.5]}`:      "w is [0.5 0.5]",
		`{"w": [2, 3]}`:          "w is",
		`{"velocity": [0.5, 0]}`: "velocity",
	} {
		if _, err := plant.Stage(1, 0, edited(t, plant, fields), adaptiveOnly); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want one with %q", fields, err, says)
		}
	}
	covered := edited(t, plant, `{"p": [0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.6]}`)
	made := require.Get(c.Remake(json.RawMessage(`{"q_goal": [0, 0]}`)))(t)
	if _, err := made.Plant.(*Plant).Stage(1, 0, covered, adaptiveOnly); err == nil || !strings.Contains(err.Error(), "q_goal") {
		t.Errorf("a target in the ellipse: %v", err)
	}
}

// A preference of the run that the scene names too scores it.
func TestASceneMayNameTheRunsWeights(t *testing.T) {
	plant := Convex().Plant.(*Plant)
	how := domain.EpisodeOptions{Preference: domain.Preference{W: []float64{0.25, 0.75}}}
	for _, fields := range []string{`{}`, `{"w": [0.25, 0.75]}`} {
		ep := require.Get(plant.Stage(1, 0, edited(t, plant, fields), how))(t)
		if out := require.Get(ep.Apply([]float64{0, 0}))(t); out.Sigma[0] != 0.25 {
			t.Errorf("%s: scored with %v", fields, out.Sigma)
		}
	}
}

// What a scene asks of a map that was not trained for it is said, and nothing of a drawn one.
func TestWhatLiesBeyondTrainingIsSaid(t *testing.T) {
	plant := Convex().Plant.(*Plant)
	for fields, says := range map[string]string{
		`{}`:                   "",
		`{"q0": [-6, 0]}`:      "q1_0 is -6 m",
		`{"v0": [0.2, 2]}`:     "v2_0 is 2 m/s",
		`{"u_prev": [0.1, 0]}`: "u_prev is",
		`{"p": [0.1,0.11,0.12,0.13,0.14,0.15,0.16,0.17,0.18,0.19,0.2,0.21,0.22,0.23,0.24,0.25,0.26,0.27,0.28,0.4]}`: "off the straight line",
	} {
		ep := require.Get(plant.Stage(1, 0, edited(t, plant, fields), adaptiveOnly))(t)
		all := strings.Join(domain.AbilitiesOfEpisode(ep).Beyond(), "; ")
		if says == "" && all != "" || !strings.Contains(all, says) {
			t.Errorf("%s: %q, want %q", fields, all, says)
		}
	}
}

// A target of one's own is where the plant's second objective is least, and the oracle goes there.
func TestTheTargetIsTheParams(t *testing.T) {
	c := Convex()
	made := require.Get(c.Remake(json.RawMessage(`{"q_goal": [2.5, 1.5], "u_max": 1.25}`)))(t)
	y := made.Problem.(*System)
	if y.Params.QGoal != [2]float64{2.5, 1.5} || y.Spec().Action[0].Hi != 1.25 || y.Params.RMax != c.Problem.(*System).Params.RMax {
		t.Errorf("params %+v", y.Params)
	}
	var J [2]float64
	y.Objectives([]float64{2.5, 1.5, 0, 0}, []float64{0, 0}, make([]float64, contextSize), J[:])
	if math.Abs(J[1]) > 1e-12 {
		t.Errorf("at the target J₂ is %v", J[1])
	}
	for params, says := range map[string]string{
		`{"u_max": -1}`: "u_max", `{"umax": 1}`: "umax", `{"semantic": {"rho": 2}}`: "semantic", `{"q_goal": [1]}`: "q_goal has 1 entries, want 2", `{"dt": null}`: "dt is null",
	} {
		if _, err := c.Remake(json.RawMessage(params)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want one with %q", params, err, says)
		}
	}
}
