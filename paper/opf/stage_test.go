package opf

import (
	"encoding/json"
	"fmt"
	"slices"
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
	page.Hold(t, map[string]any{"dispatch scene": staged{}, "dispatch params": Params{}})
}

// level is a scene of one load level, or of one a row.
func level(more string, at ...float64) json.RawMessage {
	if len(at) == 1 {
		at = slices.Repeat(at, Steps+1)
	}
	text, err := json.Marshal(at)
	if err != nil {
		panic(err)
	}
	return json.RawMessage(fmt.Sprintf(`{"level": %s%s}`, text, more))
}

// A level is the file's load times it at every bus, and the episode begins at its optimum.
func TestALevelIsTimesTheNetworksLoad(t *testing.T) {
	plant := Thirty().Plant.(*Plant)
	n := plant.system.Network
	ep := require.Get(plant.Stage(1, 0, level("", 0.75), adaptiveOnly))(t)
	scene := ep.Scene().(Scene)
	if got, want := scene.Pd[Steps][1], 0.75*n.Pd[1]*n.BaseMVA; got != want || scene.Regime != givenRegime || len(scene.Pg0) != n.Gens() {
		t.Errorf("load %v MW, want %v; regime %q, %d set-points", got, want, scene.Regime, len(scene.Pg0))
	}
	u := append(slices.Clone(scene.Pg0), scene.Vg0...)
	if out := require.Get(ep.Apply(u))(t); !plant.system.spec.Keeps(out.Margin) {
		t.Errorf("the optimum of the first row has the margin %v", out.Margin)
	}
	if all := domain.AbilitiesOfEpisode(ep).Beyond(); len(all) != 0 {
		t.Errorf("what lies beyond at 0.75: %q", all)
	}
}

func TestImpossibleScenesAreRefusedByField(t *testing.T) {
	nominal, uncertain := Thirty().Plant.(*Plant), ThirtyUncertain().Plant.(*Plant)
	branches := nominal.system.Network.Branches()
	factors := func(first float64) string {
		b := slices.Repeat([]float64{1}, branches)
		b[0] = first
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	rows := func(bus int, mw float64, more string) json.RawMessage {
		row := make([]float64, nominal.system.Network.Buses())
		row[bus] = mw
		text, err := json.Marshal(slices.Repeat([][]float64{row}, Steps+1))
		if err != nil {
			t.Fatal(err)
		}
		return json.RawMessage(`{"pd_mw": ` + string(text) + `, "qd_mvar": ` + string(text) + more + `}`)
	}
	for _, c := range []struct {
		plant *Plant
		scene json.RawMessage
		says  string
	}{
		{nominal, level("", 0.7, 0.8), "level has 2 entries, want 301"},
		{nominal, level("", -1), "level[0] is -1"},
		{nominal, level("", 9), "row 0 of the loads"},
		{nominal, level(`, "pd_mw": [[1]]`, 0.7), "exclude each other"},
		{nominal, json.RawMessage(`{"pd_mw": [[1, 2]], "qd_mvar": []}`), "pd_mw has 1 rows"},
		{nominal, json.RawMessage(`{"pd_mw": [[1, null]]}`), "pd_mw[0][1] is null"},
		{nominal, json.RawMessage(`{"lavel": [1]}`), "lavel"},
		{nominal, rows(0, 5, ""), "pd_mw[0][0] is 5: bus 1 has no such load"},
		{nominal, level(`, "branch_factor": `+factors(1.01), 0.7), "branch_factor[0] is 1.01: this case has no branch factors"},
		{nominal, level(`, "hidden": true`, 0.7), "hidden"},
		{uncertain, level(`, "branch_factor": `+factors(-1), 0.7), "branch_factor[0] is -1"},
		{uncertain, level(`, "branch_factor": `+factors(50), 0.7), "branch_factor[0] is 50"},
		{uncertain, level(`, "branch_factor": [1]`, 0.7), "branch_factor has 1 entries, want 41"},
		{nominal, level(`, "pg0_pu": [9,9,9,9,9,9], "vg0_pu": [1,1,1,1,1,1]`, 0.7), "pg0_pu[0] is 9"},
		{nominal, level(`, "pg0_pu": [0.1]`, 0.7), "pg0_pu has 1 entries"},
		{nominal, level(`, "w": [1, 0, 0]`, 0.7), "w is [1 0 0]"},
	} {
		if _, err := c.plant.Stage(1, 0, c.scene, adaptiveOnly); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.80s…: error %v, want one with %q", c.scene, err, c.says)
		}
	}
}

// Loads that no dispatch carries, and drift beyond what was trained on, are named.
func TestWhatLiesBeyondIsSaid(t *testing.T) {
	plant := ThirtyUncertain().Plant.(*Plant)
	path := slices.Repeat([]float64{0.7}, Steps+1)
	path[40] = 3
	b := slices.Repeat([]float64{1}, plant.system.Network.Branches())
	b[3] = 1.2
	text := require.Get(json.Marshal(b))(t)
	ep := require.Get(plant.Stage(1, 0, level(`, "branch_factor": `+string(text), path...), adaptiveOnly))(t)
	all := strings.Join(domain.AbilitiesOfEpisode(ep).Beyond(), "; ")
	for _, says := range []string{"pd_mw[40]", "branch_factor[3] is 1.2", "row 40 of the loads"} {
		if !strings.Contains(all, says) {
			t.Errorf("no %q in %q", says, all)
		}
	}
}

// Drift that is withheld is not in the context, in a draft of a hidden trajectory either.
func TestHiddenDriftIsNotObserved(t *testing.T) {
	plant := ThirtyUncertain().Plant.(*Plant)
	how := adaptiveOnly
	how.Regime = "envelope-hidden"
	drawn := require.Get(plant.Episode(991, 0, how))(t)
	text := require.Get(json.Marshal(plant.Draft(drawn)))(t)
	given := require.Get(plant.Stage(991, 0, text, adaptiveOnly))(t)
	l := &plant.system.layout
	for _, ep := range []domain.Episode{drawn, given} {
		s, c := make([]float64, 2*l.buses), make([]float64, l.context)
		ep.Observe(s, c)
		if f := c[l.factors:]; slices.Max(f) != 1 || slices.Min(f) != 1 {
			t.Errorf("%T observes factors %v", ep, f)
		}
	}
	if strings.Contains(string(require.Get(json.Marshal(drawn.Scene()))(t)), "hidden") {
		t.Error("the scene of a drawn trajectory has a new field")
	}
}

// Ramps and the network's file may be others; a network of another shape is another case.
func TestRemakeKeepsTheShape(t *testing.T) {
	c := Thirty()
	y := c.Problem.(*System)
	own := c.Plant.(*Plant).params()
	ramp := slices.Clone(own.Ramp)
	ramp[1] *= 0.5
	edit := func(fields map[string]any) json.RawMessage { return require.Get(json.Marshal(fields))(t) }
	made := require.Get(c.Remake(edit(map[string]any{"ramp_pu": ramp, "case_m": own.Case + "\nmpc.branch(1, 6) = 65;\n"})))(t)
	z := made.Problem.(*System)
	if z.Ramp[1] != ramp[1] || z.Ramp[0] != own.Ramp[0] || z.Network.Rate[0] != 0.65 || y.Ramp[1] == ramp[1] {
		t.Errorf("ramps %v of %v, rating %v", z.Ramp, y.Ramp, z.Network.Rate[0])
	}
	for says, fields := range map[string]map[string]any{
		"6 units":          {"ramp_pu": []float64{1}},
		"ramp_pu[0] is -1": {"ramp_pu": []float64{-1, 1, 1, 1, 1, 1}},
		"case_m":           {"case_m": "no network"},
		"opf:FILE.m":       {"case_m": own.Case + "\nmpc.branch(1, 11) = 0;\n"},
		"tolerance":        {"tol_pu": 0.5},
		"dt_s is 60":       {"dt_s": 60},
		"ramp":             {"ramp": 1},
	} {
		if _, err := c.Remake(edit(fields)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: error %v, want one with %q", fields["ramp_pu"], err, says)
		}
	}
	if !slices.Equal(c.Plant.(*Plant).params().Ramp, own.Ramp) {
		t.Error("making another case has changed this one's ramps")
	}
}

// FuzzStage: whatever a scene that is given holds, it is refused or dispatched without a panic.
func FuzzStage(f *testing.F) {
	plant := ThirtyUncertain().Plant.(*Plant)
	ep := require.Get(plant.Episode(1, 1, adaptiveOnly))(f)
	f.Add([]byte(require.Get(json.Marshal(plant.Draft(ep)))(f)))
	f.Add([]byte(level("", 0.7)))
	f.Add([]byte(`{"level": [1], "hidden": true}`))
	f.Fuzz(func(t *testing.T, scene []byte) {
		e, err := plant.Stage(1, 0, scene, adaptiveOnly)
		if err != nil {
			return
		}
		y := plant.system
		s, c, u := make([]float64, 2*y.layout.buses), make([]float64, y.layout.context), make([]float64, 2*y.layout.gens)
		e.Observe(s, c)
		y.Project(s, c, u)
		_, _ = e.Apply(u)
	})
}
