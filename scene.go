package gpc

import (
	"bytes"
	"context"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// Staged is the case on the plant of scenes that were given, which name this case and, all of
// them, the same constants; nil is the case itself. Controllers know that plant; the map is
// still the case's, and Definition().Altered says what it was not made for. Evaluate and Pair
// run Options.Scenes on it.
func (c *Case) Staged(s *closedloop.Scenes) (*Case, error) {
	if s == nil {
		return c, nil
	}
	if domain.AbilitiesOfPlant(c.def.Plant).Stage == nil {
		return nil, badInputf("case %s cannot begin from a given scene: its plant has no domain.PlantAbilities.Stage", c.Name())
	}
	var on domain.Case
	var other bool
	for i := range s.Files {
		f := &s.Files[i]
		if f.Case != c.Name() {
			return nil, badInputf("%s: case is %q, want %q", f.Name, f.Case, c.Name())
		}
		if i > 0 {
			if !bytes.Equal(f.Params, s.Files[0].Params) {
				return nil, badInputf("%s: params differ from those of %s: all scenes of a folder need the same plant", f.Name, s.Files[0].Name)
			}
			continue
		}
		var err error
		if on, other, err = closedloop.Remade(&c.def, f.Params); err != nil {
			return nil, badInputf("%s: %w", f.Name, err)
		}
	}
	if !other {
		return c, nil
	}
	return &Case{def: on, models: c.models, unshifted: c.mapped(), remade: true}, nil
}

// Scene is a drawn test scene as a file to begin a scene of one's own with.
func (c *Case) Scene(ctx context.Context, seed uint64, index int, regime string, pref domain.Preference) (*closedloop.SceneFile, error) {
	if domain.AbilitiesOfPlant(c.def.Plant).Stage == nil {
		return nil, badInputf("case %s cannot begin from a given scene: its plant has no domain.PlantAbilities.Stage", c.Name())
	}
	ep, err := c.def.Plant.Episode(seed, index, domain.EpisodeOptions{Regime: regime, Preference: pref, Context: ctx})
	if err != nil {
		return nil, asBadInput(err)
	}
	return closedloop.NewSceneFile(&c.def, ep)
}
