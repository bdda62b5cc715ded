package closedloop_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// drafted is the scene file of test episode number index of a case.
func drafted(t testing.TB, c *domain.Case, seed uint64, index int) []byte {
	t.Helper()
	ep := require.Get(c.Plant.Episode(seed, index, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	return require.Get(require.Get(closedloop.NewSceneFile(c, ep))(t).Text())(t)
}

// Scenes that were drawn, written as files of a folder and read again are the episodes that they were drawn
// from, noise included, in shards too, and their trace verifies without the files.
func TestScenesOfAFolderAreTheEpisodesThatTheyWereDrawnFrom(t *testing.T) {
	c := cartCase(t)
	dir := t.TempDir()
	folder := filepath.Join(dir, "scenes")
	require.OK(t, os.Mkdir(folder, 0o755))
	var listing bytes.Buffer
	for i := range 6 {
		name := fmt.Sprintf("%02d.json", i)
		text := drafted(t, c, 7, i)
		require.OK(t, os.WriteFile(filepath.Join(folder, name), text, 0o644))
		fmt.Fprintf(&listing, "%x  %s\n", sha256.Sum256(text), name)
	}
	s := require.Get(closedloop.ReadScenes(folder))(t)
	if want := fmt.Sprintf("%x", sha256.Sum256(listing.Bytes())); s.SHA256 != want || len(s.Files) != 6 {
		t.Errorf("%d files with the hash %s, want %s", len(s.Files), s.SHA256, want)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	adaptive := domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}
	if _, err := s.Check(ended, c, 7, 0, 1, adaptive); !errors.Is(err, context.Canceled) {
		t.Errorf("a check goes on after its end: %v", err)
	}
	altered := *c
	altered.Altered = []string{"params.g is 9"}
	if all := require.Get(s.Check(t.Context(), &altered, 7, 0, 1, adaptive))(t); len(all) != 1 || all[0] != (closedloop.Excursion{Episode: -1, Quantity: "params.g is 9"}) {
		t.Errorf("excursions %v", all)
	}
	for _, index := range []int{-1, 6} {
		if _, err := s.Episode(c, 7, index, adaptive); err == nil || !strings.Contains(err.Error(), "beyond the 6 scenes") {
			t.Errorf("scene %d: %v", index, err)
		}
	}
	drawn, given := options(""), options("")
	drawn.Noise, given.Noise, given.Scenes = 0.02, 0.02, s
	drawn.TracePath, given.TracePath = filepath.Join(dir, "drawn.jsonl"), filepath.Join(dir, "given.jsonl")
	evaluate(t, c, direct(c), drawn)
	r := evaluate(t, c, direct(c), given)
	want, got := withoutTimes(t, drawn.TracePath), withoutTimes(t, given.TracePath)
	if got = strings.Replace(got, `"scenes_sha256":"`+s.SHA256+`",`, "", 1); got != want {
		t.Error("the trace of scenes that were given is not that of the drawn ones")
	}
	if r.ScenesSHA256 != s.SHA256 || len(r.Excursions) != 0 {
		t.Errorf("the result has %q and %v", r.ScenesSHA256, r.Excursions)
	}
	require.OK(t, os.RemoveAll(folder))
	v := require.Get(closedloop.Verify(t.Context(), given.TracePath, decided(c, direct(c))))(t)
	if !v.OK {
		t.Errorf("the trace does not verify: %v", v.Mismatches[0])
	}
	how := map[string]string{}
	for _, check := range v.Checks {
		how[check.Field] = check.Verdict
	}
	if how["scene"] != closedloop.Unchecked || how["header.scenes_sha256"] != closedloop.Unchecked || how["x"] != closedloop.Recomputed || how["s"] != closedloop.Confirmed {
		t.Errorf("what was done with the fields of scenes that were given: %v", how)
	}
	// Half of them, as a shard, has the same episodes.
	part := given
	part.TracePath, part.ShardIndex, part.ShardCount = filepath.Join(dir, "part.jsonl"), 1, 2
	evaluate(t, c, direct(c), part)
	for _, line := range strings.Split(withoutTimes(t, part.TracePath), "\n")[1:] {
		if !strings.Contains(got, line) {
			t.Fatalf("the shard's line %.200s is none of the whole", line)
		}
	}
}

// What a trace says of a scene that was given is held to what its plant makes of it.
func TestAlteredScenesAreFound(t *testing.T) {
	c := cartCase(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "one.json")
	require.OK(t, os.WriteFile(file, []byte(`{"gpc_scene": 1, "case": "cart", "scene": {"s": [0.5, 0.25], "c": [0]}}`), 0o644))
	o := options(dir)
	o.Scenes, o.Episodes = require.Get(closedloop.ReadScenes(file))(t), 1
	r := evaluate(t, c, direct(c), o)
	if len(r.Excursions) != 1 || r.Excursions[0].Episode != 0 || !strings.Contains(r.Excursions[0].Quantity, "without p") {
		t.Errorf("what lies beyond: %v", r.Excursions)
	}
	text := string(require.Get(os.ReadFile(o.TracePath))(t))
	for _, change := range [][2]string{{`"scene":{"p":[],"s":[0.5`, `"scene":{"p":[],"s":[0.75`}, {`"scene":{"p":[]`, `"scene":{"p":[0.5,0.5]`}} {
		altered := sealed(strings.Replace(text, change[0], change[1], 1))
		v, err := closedloop.VerifyReader(t.Context(), strings.NewReader(altered), lookup(c))
		if altered == text || err == nil && v.OK {
			t.Errorf("changing %s to %s is confirmed", change[0], change[1])
		}
	}
}

func TestUnusableScenesAreRefusedByFileAndField(t *testing.T) {
	c := cartCase(t)
	dir := t.TempDir()
	good := string(drafted(t, c, 7, 0))
	run := func(text string) error {
		file := filepath.Join(dir, "bad.json")
		require.OK(t, os.WriteFile(file, []byte(text), 0o644))
		s, err := closedloop.ReadScenes(file)
		if err != nil {
			return err
		}
		o := options("")
		o.Scenes, o.Episodes = s, 1
		_, err = closedloop.Evaluate(context.Background(), c, direct(c), o)
		return err
	}
	require.OK(t, run(good))
	scene := func(text string) string { return `{"gpc_scene": 1, "case": "cart", "scene": ` + text + `}` }
	for text, says := range map[string]string{
		`{}`:                               `"gpc_scene": 1`,
		`{"gpc_scene": 2, "case": "cart"}`: `"gpc_scene": 1`,
		`{"gpc_scene": 1, "case": "cart"}`: "scene is missing",
		`{"gpc_scene": 1, "scene": {}}`:    "case is missing",
		`{"gpc_scene": 1, "case": "cart", "scene": {"p": [0, 0]}, "sceen": 1}`: `unknown field "sceen"`,
		`{"gpc_scene": 1, "case": "cart", "case": "cart", "scene": {}}`:        "case appears twice",
		"not json":                               "invalid character",
		scene(`{"q": [0]}`):                      `unknown field "q"`,
		scene(`{"p": [0]}`):                      "p has 1 entries",
		scene(`{"p": [0, "x"]}`):                 "p is a string",
		scene(`{"p": [0, null]}`):                "scene.p[1] is null",
		scene(`{"s": [0, 0]}`):                   "c has 0 entries",
		scene(`{"s": [0, 0, 0], "c":[0]}`):       "s has 3 entries",
		scene(`{"p": [0.5, 0], "s": [0.25, 0]}`): "p gives",
		scene(`{"p": [0, 0], "preference": {"adaptive": false, "w": [1, 0]}}`): "preference is",
		scene(`[]`):   "want",
		scene(`null`): "scene is null",
	} {
		err := run(text)
		var of *closedloop.SceneError
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "bad.json") || !errors.As(err, &of) {
			t.Errorf("%s: error %v, want one of bad.json with %q", text, err, says)
		}
	}
	empty, mixed := t.TempDir(), t.TempDir()
	require.OK(t, os.WriteFile(filepath.Join(mixed, "notes.txt"), nil, 0o644))
	for path, says := range map[string]string{mixed: "notes.txt", empty: "0 files", filepath.Join(dir, "none"): "none"} {
		if _, err := closedloop.ReadScenes(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want one with %q", path, err, says)
		}
	}
	large := filepath.Join(dir, "large.json")
	require.OK(t, os.WriteFile(large, nil, 0o644))
	require.OK(t, os.Truncate(large, closedloop.MaxSceneBytes+1))
	if _, err := closedloop.ReadScenes(large); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a file that is too long: %v", err)
	}
	bare := domain.Case{Problem: testdomain.NewCart(steps), Plant: struct{ domain.Plant }{c.Plant}}
	if _, err := closedloop.NewSceneFile(&bare, nil); err == nil || !strings.Contains(err.Error(), "domain.PlantAbilities.Stage") {
		t.Errorf("a plant that takes no scenes: %v", err)
	}
}

// Constants of a plant that are fixed are those that a scene may name, and no others.
func TestFixedParamsMayBeNamed(t *testing.T) {
	c := cartCase(t)
	own := require.Get(json.Marshal(c.Plant.Params()))(t)
	for _, params := range [][]byte{nil, own} {
		if _, other, err := closedloop.Remade(c, params); err != nil || other {
			t.Errorf("%s: another plant %v, error %v", params, other, err)
		}
	}
	if _, _, err := closedloop.Remade(c, []byte(`{"steps": 5}`)); err == nil || !strings.Contains(err.Error(), "fixed") {
		t.Errorf("other steps: %v", err)
	}
}

// A list of numbers has a line of its own, whatever strings look like.
func TestSceneFilesAreReadable(t *testing.T) {
	f := closedloop.SceneFile{Version: 1, Case: "c", Params: []byte(`{"text":"mpc = [\n1,2\n]","none":[]}`), Scene: []byte(`{"rows":[[1,-2.5e-7],[3]],"words":["a"]}`)}
	text := require.Get(f.Text())(t)
	for _, want := range []string{"[1, -2.5e-7]", "[3]", `"a"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	again := require.Get(closedloop.ParseScene(text))(t)
	var a, b any
	require.OK(t, json.Unmarshal(f.Params, &a))
	require.OK(t, json.Unmarshal(again.Params, &b))
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("params %v, written and read %v", a, b)
	}
}

// FuzzSceneFile: whatever a scene file holds, it is refused or made into an episode that steps
// without a panic.
func FuzzSceneFile(f *testing.F) {
	c := cartCase(f)
	f.Add(drafted(f, c, 7, 0))
	f.Add([]byte(`{"gpc_scene": 1, "case": "cart", "params": {"steps": 3}, "scene": {"s": [1e300, -1e300], "c": [1]}}`))
	f.Add([]byte(`{"gpc_scene": 1, "case": "cart", "scene": {"p": []}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := closedloop.ParseScene(text)
		if err != nil {
			return
		}
		on, _, err := closedloop.Remade(c, s.Params)
		if err != nil {
			return
		}
		all := closedloop.Scenes{Files: []closedloop.NamedScene{{Name: "fuzzed", SceneFile: *s}}}
		how := domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}
		if _, err := all.Check(t.Context(), &on, 1, 0, 1, how); err != nil {
			return
		}
		ep := require.Get(all.Episode(&on, 1, 0, how))(t)
		if _, err := ep.Apply([]float64{0.5}); err != nil {
			t.Fatal(err)
		}
	})
}

// A plant that is made of other constants says what they alter; what its constants cannot be is said, and what is the same is the case itself.
func TestAPlantIsRemadeOfItsParams(t *testing.T) {
	c := cartCase(t)
	plant := c.Plant.(*closedloop.Simulation)
	broken := errors.New("no such steps")
	remade := func(steps int) func(json.RawMessage) (domain.Case, error) {
		return func(json.RawMessage) (domain.Case, error) {
			other, p := *c, *plant
			p.Steps, other.Plant = steps, &p
			return other, nil
		}
	}
	params := json.RawMessage(`{"steps":5}`)
	for name, x := range map[string]struct {
		change func(c *domain.Case)
		want   string // of the error, or of what is altered
	}{
		"other steps": {func(c *domain.Case) { c.Remake = remade(5) }, "params.steps is 5"},
		"the same":    {func(c *domain.Case) { c.Remake = remade(steps) }, ""},
		"refused": {func(c *domain.Case) {
			c.Remake = func(json.RawMessage) (domain.Case, error) { return domain.Case{}, broken }
		}, "params: no such steps"},
		"not described": {func(c *domain.Case) { c.Plant, c.Remake = nan{c.Plant, true, false}, remade(5) }, "plant parameters"},
		"remade of nothing": {func(c *domain.Case) {
			c.Remake = func(json.RawMessage) (domain.Case, error) { return domain.Case{Plant: nan{plant, true, false}}, nil }
		}, "plant parameters"},
	} {
		of := *c
		of.Altered, of.Shift, of.Guard.Off = []string{"before"}, map[string]float64{"g": 2}, true
		x.change(&of)
		got, other, err := closedloop.Remade(&of, params)
		switch {
		case err != nil:
			if !strings.HasPrefix(err.Error(), x.want) || other || x.want == "" {
				t.Errorf("%s: %v, want %q", name, err, x.want)
			}
		case x.want == "":
			if other || len(got.Altered) != 1 {
				t.Errorf("%s: another plant %v, altered %q", name, other, got.Altered)
			}
		case !other || len(got.Altered) != 2 || got.Altered[0] != "before" || !strings.HasPrefix(got.Altered[1], x.want) || got.Shift["g"] != 2 || !got.Guard.Off:
			t.Errorf("%s: %v, %+v", name, other, got)
		}
	}
	h := closedloop.Header{Shift: map[string]float64{"g": 2}}
	if _, _, err := h.On(c); err == nil {
		t.Error("a case without shifts is shifted")
	}
	crowd := *c
	crowd.ForRobots = func(n int) (json.RawMessage, error) { return nil, broken }
	if _, _, err := (&closedloop.Header{Params: json.RawMessage(`{"robots":3}`)}).On(&crowd); !errors.Is(err, broken) {
		t.Errorf("a crowd that cannot be: %v", err)
	}
	bare := *c
	bare.Plant = nil
	if got, other, err := (&closedloop.Header{ScenesSHA256: "x", Params: params}).On(&bare); got.Plant != nil || other || err != nil {
		t.Errorf("a case without a plant: %v, %v", other, err)
	}
}

// A scene file has the constants of a plant that can have others, and says what of it cannot be written or begun.
func TestSceneFilesOfPlants(t *testing.T) {
	c := cartCase(t)
	ep := require.Get(c.Plant.Episode(7, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	c.Remake = func(json.RawMessage) (domain.Case, error) { return *c, nil }
	if f := require.Get(closedloop.NewSceneFile(c, ep))(t); f.Case != "cart" || f.Version != 1 || !strings.Contains(string(f.Params), `"steps":12`) {
		t.Errorf("%+v", f)
	}
	plant := c.Plant.(*closedloop.Simulation)
	for want, x := range map[string]domain.Plant{"plant parameters": drafting{nan{plant, true, false}, plant.Abilities()}, "scene: ": drafting{plant, &domain.PlantAbilities{Stage: plant.Stage, Draft: func(domain.Episode) any { return func() {} }}}} {
		other := *c
		other.Plant = x
		if _, err := closedloop.NewSceneFile(&other, ep); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := (&closedloop.SceneFile{Scene: json.RawMessage("{")}).Text(); err == nil {
		t.Error("a scene that is no JSON is written")
	}
	// An end of the context is no fault of the scene.
	s := closedloop.Scenes{Files: []closedloop.NamedScene{{Name: "a"}}}
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, errors.New("no way")} {
		ended := *c
		ended.Plant = drafting{plant, &domain.PlantAbilities{Stage: func(uint64, int, json.RawMessage, domain.EpisodeOptions) (domain.Episode, error) { return nil, err }}}
		_, got := s.Episode(&ended, 1, 0, domain.EpisodeOptions{})
		var fault *closedloop.SceneError
		if !errors.Is(got, err) || errors.As(got, &fault) != (err.Error() == "no way") || fault != nil && fault.File != "a" {
			t.Errorf("%v", got)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"a.json": "\ufeff" + string(require.Get(require.Get(closedloop.NewSceneFile(c, ep))(t).Text())(t)), "b.json": "{}"} {
		require.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	if _, err := closedloop.ReadScenes(dir); err == nil || !strings.Contains(err.Error(), "b.json: want an object") {
		t.Errorf("a folder with a file that is no scene: %v", err)
	}
	if one := require.Get(closedloop.ReadScenes(filepath.Join(dir, "a.json")))(t); len(one.Files) != 1 || one.Files[0].Name != "a.json" {
		t.Errorf("%+v", one)
	}
	require.OK(t, os.Remove(filepath.Join(dir, "b.json")))
	require.OK(t, os.Mkdir(filepath.Join(dir, "b.json"), 0o755))
	if _, err := closedloop.ReadScenes(dir); err == nil || !strings.Contains(err.Error(), "b.json is not a .json file") {
		t.Errorf("a folder in a folder: %v", err)
	}
}

// drafting is a plant with abilities of its own.
type drafting struct {
	domain.Plant
	abilities *domain.PlantAbilities
}

func (p drafting) Abilities() *domain.PlantAbilities { return p.abilities }
