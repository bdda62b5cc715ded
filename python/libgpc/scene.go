//go:build cgo

package main

import (
	"context"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
)

// readScenes are the scenes of a file or a folder, nil for "".
func readScenes(path string) (*closedloop.Scenes, error) {
	if path == "" {
		return nil, nil
	}
	s, err := closedloop.ReadScenes(path)
	return s, gpc.BadInput(err)
}

// stage puts a session on the plant of the scenes at a path, "" for none, of which its notices
// say what lies outside of what maps are made for.
func (s *session) stage(path string) (err error) {
	s.scene = path
	if s.scenes, err = readScenes(path); err != nil {
		return err
	}
	if s.staged, err = s.catalogued.Staged(s.scenes); err != nil || s.scenes == nil {
		return err
	}
	excursions, err := s.scenes.Check(context.Background(), s.staged.Definition(), 0, 0, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}})
	if err != nil {
		return gpc.BadInput(err)
	}
	for _, b := range excursions {
		s.notices.add("not what maps are made for: " + b.Quantity)
	}
	return nil
}

// sceneAlone refuses what says how episodes are drawn beside scenes that are given.
func sceneAlone(path string, draw scene, episodes *int) error {
	for _, o := range []struct {
		name    string
		present bool
	}{{"episodes", episodes != nil}, {"regime", draw.Regime != ""}, {"shift", len(draw.Shift) > 0}} {
		if o.present {
			return wrongf("%s and scene %s exclude each other: the scene fixes what %[1]s would choose", o.name, path)
		}
	}
	return nil
}

// firstObservation is what is observed first in scene number index.
func (s *session) firstObservation(index int, o scene, pref domain.Preference) (obs batchnav.Observation, err error) {
	if err := sceneAlone(s.scene, o, nil); err != nil {
		return obs, err
	}
	ep, err := s.scenes.Episode(s.staged.Definition(), o.Seed, index, domain.EpisodeOptions{Noise: o.Noise, Preference: pref})
	if err != nil {
		return obs, gpc.BadInput(err)
	}
	obs.S, obs.C = make([]float64, s.staged.Spec().MeasuredSize()), make([]float64, s.staged.Spec().ContextSize())
	ep.Observe(obs.S, obs.C)
	return obs, nil
}

// run adds the scenes at a path, "" for the session's, to what is evaluated, and says on which
// case. Without scenes it is the one with a shift.
func (s *session) run(path string, o scene, episodes *int, opt *closedloop.Options) (*gpc.Case, error) {
	scenes := s.scenes
	if path == "" {
		path = s.scene
	} else {
		var err error
		if scenes, err = readScenes(path); err != nil {
			return nil, err
		}
	}
	if scenes == nil {
		const usual = 100
		opt.Episodes = usual
		if episodes != nil {
			opt.Episodes = *episodes
		}
		return s.catalogued.Shifted(o.Shift)
	}
	if err := sceneAlone(path, o, episodes); err != nil {
		return nil, err
	}
	if err := durable.Apart([]durable.File{{Name: "trace", Path: opt.TracePath}}, []durable.File{{Name: "scene", Path: path}}); err != nil {
		return nil, gpc.BadInput(err)
	}
	opt.Scenes, opt.Episodes = scenes, len(scenes.Files)
	return s.catalogued, nil
}
