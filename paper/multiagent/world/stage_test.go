package world

import (
	"encoding/json"
	"fmt"
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
	page := require.Get(pages.ReadKeys("../../../docs/reference/formats.md"))(t)
	page.Hold(t, map[string]any{"multiagent scene": staged{}, "multiagent params": Params{}})
}

const (
	robotText    = `{"p": [-5, %d], "theta": 0, "v": 0, "r": 0.3, "goal": [5, %d]}`
	obstacleText = `{"c": [0, 0.7], "v": [0, 0], "r": 0.5}`
)

// crowd is a scene of n robots in rows a metre apart.
func crowd(n int) string {
	var robots []string
	for i := range n {
		robots = append(robots, fmt.Sprintf(robotText, i-n/2, i-n/2))
	}
	return `{"agents": [` + strings.Join(robots, ",") + `], "obstacles": [` + obstacleText + `]}`
}

func TestImpossibleScenesAreRefusedByField(t *testing.T) {
	for _, moving := range []bool{false, true} {
		plant := &Plant{System: system(t, moving)}
		for text, says := range map[string]string{
			crowd(7):                          "room for 6; params.robots makes more, at most 4096",
			`{"agents": [], "obstacles": []}`: "no agents",
			`{"agents": [` + fmt.Sprintf(robotText, 0, 0) + `]}`:                    "obstacles is missing",
			strings.Replace(crowd(1), `[5, 0]`, `[5]`, 1):                           "agents[0].goal has 1 entries, want 2",
			strings.Replace(crowd(1), `"r": 0.3`, `"radius": 0.3`, 1):               `unknown field "radius"`,
			strings.Replace(crowd(1), `"r": 0.3, `, ``, 1):                          "agents[0].r is missing",
			strings.Replace(crowd(1), `"r": 0.3`, `"r": null`, 1):                   "agents[0].r is null",
			strings.Replace(crowd(1), `[5, 0]`, `[0, 1]`, 1):                        "agents[0].goal [0 1] lies in obstacles[0]",
			strings.Replace(crowd(1), `[-5, 0]`, `[0, 1]`, 1):                       "agent 0 and obstacle 0 overlap",
			strings.Replace(crowd(2), `[-5, 0]`, `[-5, -1]`, 1):                     "agents 0 and 1 overlap",
			strings.Replace(crowd(1), `"v": 0,`, `"v": 3,`, 1):                      "agent 0: speed is 3",
			strings.Replace(crowd(1), `[-5, 0]`, `[-50, 0]`, 1):                     "outside the workspace",
			strings.Replace(crowd(1), `"obstacles"`, `"w": [1,0,0],"obstacles"`, 1): "w is [1 0 0]",
		} {
			if _, err := plant.Stage(1, 0, json.RawMessage(text), adaptiveOnly); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: error %v, want one with %q", text, err, says)
			}
		}
		walking := strings.Replace(crowd(1), `"v": [0, 0]`, `"v": [0.5, 0]`, 1)
		if _, err := plant.Stage(1, 0, json.RawMessage(walking), adaptiveOnly); (err == nil) != moving {
			t.Errorf("moving %v: an obstacle that moves gives %v", moving, err)
		}
	}
}

func TestWhatLiesBeyondTrainingIsSaid(t *testing.T) {
	plant := &Plant{System: system(t, false)}
	beyond := func(text string) string {
		ep := require.Get(plant.Stage(1, 0, json.RawMessage(text), adaptiveOnly))(t)
		return strings.Join(domain.AbilitiesOfEpisode(ep).Beyond(), "; ")
	}
	all := beyond(strings.Replace(crowd(2), `"r": 0.3`, `"r": 0.38`, 1))
	for _, says := range []string{"number of agents is 2", "number of obstacles is 1", "agents[0].r is 0.38 m"} {
		if !strings.Contains(all, says) {
			t.Errorf("no %q in %q", says, all)
		}
	}
	if all := beyond(strings.Replace(crowd(2), `[5, 0]`, `[5, -1]`, 1)); !strings.Contains(all, "agents 0 and 1 cannot stand at their goals together") {
		t.Errorf("goals on each other: %q", all)
	}
	var wall []string
	for y := -9.3; y < 9.4; y += 1.33 {
		wall = append(wall, fmt.Sprintf(`{"c": [0, %g], "v": [0, 0], "r": 0.59}`, y))
	}
	closed := strings.Replace(crowd(1), obstacleText, strings.Join(wall, ","), 1)
	if all := beyond(closed); !strings.Contains(all, "no way to its goal") {
		t.Errorf("a closed wall: %q", all)
	}
	moving := system(t, true)
	slow, fast := moving.scenes.Speed[0], moving.scenes.Speed[1]
	for _, c := range []struct {
		v    [2]float64
		said bool
	}{{[2]float64{fast, 0}, false}, {[2]float64{0, -fast}, false}, {[2]float64{1.1 * fast, 0}, true}, {[2]float64{0, -1.1 * fast}, true}, {[2]float64{0.8 * fast, 0.8 * fast}, true}, {[2]float64{0, slow}, false}, {[2]float64{0.9 * slow, 0}, true}} {
		s := Scene{Robots: []Robot{{R: 0.3, Goal: [2]float64{2, 0}}}, Obstacles: []Obstacle{{C: [2]float64{5, 5}, V: c.v, R: 0.5}}}
		all := strings.Join(start(moving, s).Beyond(), "; ")
		if strings.Contains(all, "the speed of obstacles[0]") != c.said {
			t.Errorf("an obstacle at %v m/s: %q", c.v, all)
		}
	}
	drawn := require.Get(plant.Episode(991, 0, adaptiveOnly))(t)
	if all := domain.AbilitiesOfEpisode(drawn).Beyond(); len(all) != 0 {
		t.Errorf("a drawn scene: %q", all)
	}
}

// With room for more robots the problem is the same for the robots that are there: roll-outs, objectives,
// margins and derivatives do not depend on the room.
func TestRoomChangesNothingForTheRobotsThatAreThere(t *testing.T) {
	six := system(t, true)
	p := six.Params
	p.Robots = MostRobots
	twelve := require.Get(NewSystem("test", p, true))(t)
	scene := require.Get(six.Draw(Test, 5, 0))(t)
	small, large := scene.Prediction(&six.Params), scene.Prediction(&twelve.Params)
	vectors := func(y *System, h *Prediction) (s, c, u []float64) {
		spec := y.Spec()
		s, c, u = make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
		h.Encode(s, c)
		for i := range h.Robots {
			u[2*i], u[2*i+1] = 0.3-0.1*float64(i), 0.1*float64(i)-0.2
		}
		return s, c, u
	}
	sa, ca, ua := vectors(six, small)
	sb, cb, ub := vectors(twelve, large)
	if back := twelve.Decode(sb, cb); back.Robots != small.Robots || back.Goal[0] != small.Goal[0] || len(back.Obstacles) != len(small.Obstacles) {
		t.Fatalf("a context with more room is read as %+v", back)
	}
	var Ja, Jb [3]float64
	ma, mb := make([]float64, MarginKinds), make([]float64, MarginKinds)
	sigma := []float64{0.3, 0.3, 0.4}
	gsa, gua, gsb, gub := make([]float64, len(sa)), make([]float64, len(ua)), make([]float64, len(sb)), make([]float64, len(ub))
	for range 5 {
		six.Objectives(sa, ua, ca, Ja[:])
		twelve.Objectives(sb, ub, cb, Jb[:])
		six.Margins(sa, ca, ua, ma)
		twelve.Margins(sb, cb, ub, mb)
		six.Gradient(sa, ua, ca, sigma, gsa, gua)
		twelve.Gradient(sb, ub, cb, sigma, gsb, gub)
		six.Step(sa, ca, ua, sa, ca)
		twelve.Step(sb, cb, ub, sb, cb)
		for _, v := range []struct {
			name string
			a, b []float64
		}{{"objectives", Ja[:], Jb[:]}, {"margins", ma, mb}, {"state", sa, sb[:len(sa)]}, {"slope in the state", gsa, gsb[:len(gsa)]}, {"slope in the action", gua, gub[:len(gua)]}} {
			for k := range v.a {
				if v.a[k] != v.b[k] {
					t.Fatalf("%s differ: %v with room for 6, %v for 12", v.name, v.a, v.b)
				}
			}
		}
	}
	if sixth := require.Get(NewSystem("test", func() Params { q := six.Params; q.Robots = MaxRobots; return q }(), true))(t); sixth.Fingerprint() != six.Fingerprint() {
		t.Error("room for six that is named makes another problem")
	}
	if twelve.Fingerprint() == six.Fingerprint() {
		t.Error("room for twelve makes no other problem")
	}
	for _, n := range []int{-1, 5, MostRobots + 1} {
		p.Robots = n
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "robots") {
			t.Errorf("room for %d: %v", n, err)
		}
	}
	p.Robots, p.Workspace = 0, [4]float64{-1e6, 1e6, -10, 10}
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "workspace") {
		t.Errorf("a workspace of 2000 km: %v", err)
	}
	if math.IsNaN(Ja[0]) {
		t.Error("no numbers were compared")
	}
}

// FuzzStage: whatever a scene that is given holds, it is refused or stands still without a panic.
func FuzzStage(f *testing.F) {
	plant := &Plant{System: system(f, true)}
	ep := require.Get(plant.Episode(3, 0, adaptiveOnly))(f)
	f.Add([]byte(require.Get(json.Marshal(plant.Draft(ep)))(f)))
	f.Add([]byte(crowd(3)))
	f.Add([]byte(`{"agents": [], "obstacles": [], "rejected": {"placement": 1}}`))
	f.Fuzz(func(t *testing.T, scene []byte) {
		e, err := plant.Stage(1, 0, scene, adaptiveOnly)
		if err != nil {
			return
		}
		domain.AbilitiesOfEpisode(e).Beyond()
		out := require.Get(e.Apply(make([]float64, plant.System.Spec().ActionSize())))(t)
		if math.IsNaN(out.Margin) {
			t.Fatalf("outcome %+v", out)
		}
	})
}
