package integrator

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
)

// Bounds of a scene that is given: beyond them numbers, not the problem, are what a run shows.
const (
	farthest = 1000 // m
	fastest  = 100  // m/s
)

// Draft is domain.PlantAbilities.Stage.
func (l *Plant) Draft(e domain.Episode) any { return e.Scene() }

// Stage is domain.PlantAbilities.Stage. p may be any series: what controllers know of it is its
// present value and the rate of its first step.
func (l *Plant) Stage(seed uint64, index int, text json.RawMessage, opt domain.EpisodeOptions) (domain.Episode, error) {
	if err := opt.NoRegime(l.system.spec.Name); err != nil {
		return nil, err
	}
	var scene Scene
	if err := jsonin.Exact(text, &scene); err != nil {
		return nil, err
	}
	var err error
	if scene.W, err = opt.Scored(index, 2, scene.W); err != nil {
		return nil, err
	}
	if err := l.system.possible(&scene); err != nil {
		return nil, err
	}
	_, noise := draw(seed, index)
	return l.measured(scene, noise, opt), nil
}

// possible says what in a scene that was read cannot be the start of an episode.
func (y *System) possible(s *Scene) error {
	e := &y.Params.Ellipse
	for _, v := range []struct {
		name  string
		value [2]float64
		most  float64
	}{{"q0", s.Q0, farthest}, {"v0", s.V0, fastest}} {
		if size := math.Hypot(v.value[0], v.value[1]); !(size <= v.most) {
			return fmt.Errorf("%s is %v, want it within %v", v.name, v.value, v.most)
		}
	}
	for t, p := range s.P {
		if !(math.Abs(p) <= farthest) {
			return fmt.Errorf("p[%d] is %v, want it within ±%v", t, p, farthest)
		}
	}
	if u := math.Hypot(s.UPrev[0], s.UPrev[1]); u > y.Params.UMax {
		return fmt.Errorf("u_prev is %v, of size %v, and u_max is %v", s.UPrev, u, y.Params.UMax)
	}
	if psi := e.clearance(s.Q0[0], s.Q0[1], s.P[0]); psi < 1 {
		return fmt.Errorf("q0 is %v, inside the keep-out ellipse: ψ is %.4g, want it ≥ 1", s.Q0, psi)
	}
	if goal := y.Params.QGoal; e.clearance(goal[0], goal[1], s.P[Horizon-1]) < 1 {
		return fmt.Errorf("p[%d] is %v, with which the keep-out ellipse covers params.q_goal %v", Horizon-1, s.P[Horizon-1], goal)
	}
	return nil
}

// Abilities implements domain.Able.
func (e *episode) Abilities() *domain.EpisodeAbilities {
	return &domain.EpisodeAbilities{Beyond: e.Beyond}
}

// Beyond is domain.EpisodeAbilities.Beyond.
func (e *episode) Beyond() (all []string) {
	s, dt := &e.scene, e.system.Params.Dt
	rate := (s.P[1] - s.P[0]) / dt
	for i, v := range []float64{s.Q0[0], s.Q0[1], s.V0[0], s.V0[1], s.P[0], rate} {
		axis := trainingRange()[i]
		if text := domain.Outside(axis.Name, v, axis.Lo, axis.Hi, axis.Unit); text != "" {
			all = append(all, text)
		}
	}
	for t, p := range s.P {
		if want := s.P[0] + rate*float64(t)*dt; math.Abs(p-want) > 1e-9*(1+math.Abs(want)) {
			all = append(all, fmt.Sprintf("p[%d] is %.4g, off the straight line of the first two by %.2g: maps are trained on straight lines", t, p, p-want))
			break
		}
	}
	if s.UPrev != [2]float64{} {
		all = append(all, fmt.Sprintf("u_prev is %v, episodes are drawn with 0", s.UPrev))
	}
	return all
}
