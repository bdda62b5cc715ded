package closedloop

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/jsonin"
)

// Limits on what scenes from files can make a reader hold.
const (
	MaxSceneBytes  = 32 << 20  // of one file
	MaxScenesBytes = 512 << 20 // of a folder's files
	MaxScenes      = 10_000    // files of a folder
)

// sceneVersion is the value of a scene file's "gpc_scene".
const sceneVersion = 1

// SceneFile is a scene of a user's own, with the plant that it is a scene of.
type SceneFile struct {
	Version int    `json:"gpc_scene"`
	Case    string `json:"case"`
	// Params are the constants of the plant that are other than the case's own (Plant.Params),
	// which has those that are left out.
	Params json.RawMessage `json:"params,omitempty"`
	// Scene is as the plant reads it; see domain.PlantAbilities.Stage.
	Scene json.RawMessage `json:"scene"`
}

// NewSceneFile is the file of an episode of a plant.
func NewSceneFile(c *domain.Case, e domain.Episode) (*SceneFile, error) {
	plant, err := staging(c)
	if err != nil {
		return nil, err
	}
	f := &SceneFile{Version: sceneVersion, Case: c.Problem.Spec().Name}
	if c.Remake != nil {
		if f.Params, err = json.Marshal(c.Plant.Params()); err != nil {
			return nil, fmt.Errorf("plant parameters: %w", err)
		}
	}
	if f.Scene, err = json.Marshal(plant.Draft(e)); err != nil {
		return nil, fmt.Errorf("scene: %w", err)
	}
	return f, nil
}

// Text is the file as it is written: indented, with a line for every list of numbers.
func (f *SceneFile) Text() ([]byte, error) {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, err
	}
	text = numberList.ReplaceAllFunc(text, func(list []byte) []byte {
		return append(append([]byte{'['}, lineBreak.ReplaceAll(bytes.TrimSpace(list[1:len(list)-1]), []byte(" "))...), ']')
	})
	return append(text, '\n'), nil
}

// numberList is a list of numbers alone, a line each, which no JSON string can hold.
var (
	numberList = regexp.MustCompile(`\[\n\s+-?[0-9][^\[\]{}"]*\n\s*\]`)
	lineBreak  = regexp.MustCompile(`\n\s*`)
)

// Scenes are scenes that were given, instead of drawn: the episodes in their order.
type Scenes struct {
	Files []NamedScene
	// SHA256 is of the file's bytes; of a folder that of the lines that sha256sum prints for its
	// files in their order.
	SHA256 string
}

// NamedScene is a SceneFile with the name that it was read under.
type NamedScene struct {
	Name string
	SceneFile
}

// SceneError says what in a scene that was given cannot be run.
type SceneError struct {
	File string
	Err  error
}

func (e *SceneError) Error() string { return fmt.Sprintf("%s: %v", e.File, e.Err) }
func (e *SceneError) Unwrap() error { return e.Err }

// ReadScenes reads a scene file, or a folder of nothing else: its files, which end in .json,
// in the order of their names. Errors name file and field.
func ReadScenes(path string) (*Scenes, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("scene: %w", err)
	}
	if !info.IsDir() {
		f, text, err := readScene(path)
		if err != nil {
			return nil, err
		}
		return &Scenes{Files: []NamedScene{{filepath.Base(path), *f}}, SHA256: durable.Sum(sha256.Sum256(text))}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("scene: %w", err)
	}
	if len(entries) == 0 || len(entries) > MaxScenes {
		return nil, fmt.Errorf("scene: folder %s has %d files, want 1 to %d", path, len(entries), MaxScenes)
	}
	s, sums, total := &Scenes{}, sha256.New(), 0
	for _, entry := range entries {
		file := filepath.Join(path, entry.Name())
		if entry.IsDir() || !strings.HasSuffix(entry.Name(), ".json") {
			return nil, fmt.Errorf("scene: %s is not a .json file: a folder of scenes holds nothing else", file)
		}
		f, text, err := readScene(file)
		if err != nil {
			return nil, err
		}
		if total += len(text); total > MaxScenesBytes {
			return nil, fmt.Errorf("scene: the files of folder %s have more than %d bytes", path, MaxScenesBytes)
		}
		s.Files = append(s.Files, NamedScene{entry.Name(), *f})
		fmt.Fprintf(sums, "%x  %s\n", sha256.Sum256(text), entry.Name())
	}
	s.SHA256 = durable.Sum([sha256.Size]byte(sums.Sum(nil)))
	return s, nil
}

// readScene reads a scene file, and returns its bytes too.
func readScene(path string) (scene *SceneFile, text []byte, err error) {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(f, MaxSceneBytes+1))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("scene: %w", err)
	}
	if len(text) > MaxSceneBytes {
		return nil, nil, &SceneError{path, fmt.Errorf("longer than %d bytes", MaxSceneBytes)}
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if scene, err = ParseScene(text); err != nil {
		return nil, nil, &SceneError{path, err}
	}
	return scene, text, nil
}

// ParseScene reads a scene file as far as that needs no case. Errors name the field.
func ParseScene(text []byte) (*SceneFile, error) {
	var version struct {
		Version *int `json:"gpc_scene"`
	}
	if err := json.Unmarshal(text, &version); err == nil && (version.Version == nil || *version.Version != sceneVersion) {
		return nil, fmt.Errorf("want an object with \"gpc_scene\": %d, the version that this program reads", sceneVersion)
	}
	f := &SceneFile{}
	if err := jsonin.Exact(text, f); err != nil {
		return nil, err
	}
	return f, nil
}

// staging is the plant of a case where it takes scenes that are given.
func staging(c *domain.Case) (*domain.PlantAbilities, error) {
	plant := domain.AbilitiesOfPlant(c.Plant)
	if plant.Stage == nil {
		return nil, fmt.Errorf("case %q cannot begin from a given scene: its plant has no domain.PlantAbilities.Stage", c.Problem.Spec().Name)
	}
	return plant, nil
}

// Episode makes episode number index of a case's plant.
func (s *Scenes) Episode(c *domain.Case, seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	plant, err := staging(c)
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(s.Files) {
		return nil, fmt.Errorf("episode %d is beyond the %d scenes", index, len(s.Files))
	}
	ep, err := plant.Stage(seed, index, s.Files[index].Scene, opt)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	case err != nil:
		return nil, &SceneError{s.Files[index].Name, fmt.Errorf("scene: %w", err)}
	}
	return ep, nil
}

// first are the first n scenes, of the same files.
func (s *Scenes) first(n int) *Scenes {
	if s == nil {
		return nil
	}
	return &Scenes{Files: s.Files[:n], SHA256: s.SHA256}
}

// Excursion is one entry of Result.Excursions.
type Excursion struct {
	Episode  int    `json:"episode"` // of a scene that was given, −1 for the plant of all of them: something that maps are not made for
	Quantity string `json:"what"`    // what
}

// Check makes every episode from number on, each step-th, without running it. It reports what lies outside the range of
// the case's maps.
func (s *Scenes) Check(ctx context.Context, c *domain.Case, seed uint64, number, step int, opt domain.EpisodeOptions) (all []Excursion, err error) {
	for _, quantity := range c.Altered {
		all = append(all, Excursion{-1, quantity})
	}
	for ; number < len(s.Files); number += step {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ep, err := s.Episode(c, seed, number, opt)
		if err != nil {
			return nil, err
		}
		if excursions := domain.AbilitiesOfEpisode(ep).Beyond; excursions != nil {
			for _, quantity := range excursions() {
				all = append(all, Excursion{number, quantity})
			}
		}
	}
	return all, nil
}

// On is a case on the plant of a trace: shifted, of as many robots, or remade of the header's params where its
// scenes were given. It says whether it is made of what the trace holds.
func (h *Header) On(c *domain.Case) (remade domain.Case, embedded bool, err error) {
	remade, err = c.Shifted(h.Shift)
	switch {
	case err != nil || remade.Plant == nil:
		return remade, false, err
	case h.ScenesSHA256 != "":
		return Remade(&remade, h.Params)
	case c.ForRobots != nil:
		var crowd struct {
			Robots int `json:"robots"`
		}
		if json.Unmarshal(h.Params, &crowd) != nil || crowd.Robots == 0 {
			return remade, false, nil
		}
		params, err := c.ForRobots(crowd.Robots)
		if err == nil {
			remade, _, err = Remade(&remade, params)
		}
		return remade, false, err
	}
	return remade, false, nil
}

// Remade is the case with other constants of its plant, those of params that differ, and
// whether any did.
func Remade(c *domain.Case, params json.RawMessage) (remade domain.Case, other bool, err error) {
	if len(params) == 0 {
		return *c, false, nil
	}
	current, err := json.Marshal(c.Plant.Params())
	if err != nil {
		return domain.Case{}, false, fmt.Errorf("plant parameters: %w", err)
	}
	if sameJSON(current, params) {
		return *c, false, nil
	}
	if c.Remake == nil {
		return domain.Case{}, false, fmt.Errorf("params: the constants of case %q are fixed: leave them out", c.Problem.Spec().Name)
	}
	alternative, err := c.Remake(params)
	if err != nil {
		return domain.Case{}, false, fmt.Errorf("params: %w", err)
	}
	text, err := json.Marshal(alternative.Plant.Params())
	if err != nil {
		return domain.Case{}, false, fmt.Errorf("plant parameters: %w", err)
	}
	if bytes.Equal(current, text) {
		return *c, false, nil
	}
	var before, after any
	if err := cmp.Or(json.Unmarshal(current, &before), json.Unmarshal(text, &after)); err != nil {
		return domain.Case{}, false, err
	}
	alternative.Altered = slices.Concat(c.Altered, altered("params", before, after))
	alternative.Shift, alternative.Guard = c.Shift, c.Guard
	return alternative, true, nil
}

// altered says in what one decoded JSON value is another than the one that maps are made for.
func altered(path string, current, now any) (all []string) {
	a, objects := current.(map[string]any)
	b, ok := now.(map[string]any)
	if objects && ok {
		names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			all = append(all, altered(path+"."+name, a[name], b[name])...)
		}
		return all
	}
	x, errX := json.Marshal(current)
	y, errY := json.Marshal(now)
	if errX == nil && errY == nil && bytes.Equal(x, y) {
		return nil
	}
	return []string{fmt.Sprintf("%s is %s, maps and policies are trained with %s", path, short(y), short(x))}
}

// short is a JSON value in a line.
func short(text []byte) string {
	const most = 80
	switch {
	case string(text) == "null":
		return "the default"
	case len(text) > most:
		return string(text[:most]) + "…"
	}
	return string(text)
}
