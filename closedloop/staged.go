package closedloop

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
)

// stagedScene is a scene of a Simulation as it is given: its parameters, or its initial state
// and context, or both, where they agree.
type stagedScene struct {
	P          []float64          `json:"p,omitempty"`
	S          []float64          `json:"s,omitempty"`
	C          []float64          `json:"c,omitempty"`
	Preference *domain.Preference `json:"preference,omitempty"`
}

// Abilities implements domain.Able.
func (m *Simulation) Abilities() *domain.PlantAbilities {
	return &domain.PlantAbilities{Draft: m.Draft, Stage: m.Stage}
}

// Draft is domain.PlantAbilities.Stage.
func (m *Simulation) Draft(e domain.Episode) any {
	scene := e.(*simulated).scene
	return stagedScene{P: scene.P, S: scene.S, C: scene.C}
}

// Stage is domain.PlantAbilities.Stage.
func (m *Simulation) Stage(seed uint64, index int, text json.RawMessage, opt domain.EpisodeOptions) (domain.Episode, error) {
	spec := m.Problem.Spec()
	if err := m.check(index, opt); err != nil {
		return nil, err
	}
	var staged stagedScene
	if err := jsonin.Exact(text, &staged); err != nil {
		return nil, err
	}
	if p := staged.Preference; p != nil && !p.Equal(opt.Preference) {
		return nil, fmt.Errorf("preference is %v, but the run scores episodes with %v: leave it out, or run with the scene's preference", *p, opt.Preference)
	}
	scene := simulationScene{P: []float64{}, S: staged.S, C: staged.C, Preference: opt.Preference}
	if staged.P != nil && (len(staged.P) > 0 || len(m.Parameters) == 0) { // a scene without p is [] in a trace
		if len(staged.P) != len(m.Parameters) {
			return nil, fmt.Errorf("p has %d entries, case %q has %d parameters", len(staged.P), spec.Name, len(m.Parameters))
		}
		s, c := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
		m.Initial(slices.Clone(staged.P), s, c)
		if staged.S != nil && !slices.Equal(staged.S, s) || staged.C != nil && !slices.Equal(staged.C, c) {
			return nil, errors.New("s or c differs from the start that p gives: leave out either p, or s and c")
		}
		scene.P, scene.S, scene.C = staged.P, s, c
	}
	for _, v := range []struct {
		name      string
		values    []float64
		variables []domain.Variable
	}{{"s", scene.S, spec.Measured}, {"c", scene.C, spec.Context}} {
		if len(v.values) != len(v.variables) {
			return nil, fmt.Errorf("%s has %d entries, case %q has %d; p alone gives both", v.name, len(v.values), spec.Name, len(v.variables))
		}
		for i, x := range v.values {
			if !finite(x) {
				return nil, fmt.Errorf("%s[%d] (%s) is %v, want a finite number", v.name, i, v.variables[i].Name, x)
			}
		}
	}
	if domain.AbilitiesOfProblem(m.Problem).Lost(scene.S, scene.C) {
		return nil, errors.New("from s and c no action can keep the limits (the state is lost): give another start")
	}
	return m.measured(scene, seed, index, opt)
}

// Beyond is domain.EpisodeAbilities.Beyond.
func (e *simulated) Beyond() (all []string) {
	p := e.plant.Problem
	spec := p.Spec()
	if len(e.scene.P) == 0 && len(e.plant.Parameters) > 0 {
		all = append(all, "s and c are given without p: whether they are among the starts that maps are trained on is not known")
	}
	for i, v := range e.scene.P {
		axis := e.plant.Parameters[i]
		if text := domain.Outside(fmt.Sprintf("p[%d] (%s)", i, axis.Name), v, axis.Lo, axis.Hi, axis.Unit); text != "" {
			all = append(all, text)
		}
	}
	s, c, u := slices.Clone(e.scene.S), slices.Clone(e.scene.C), make([]float64, spec.ActionSize())
	p.Fallback(s, c, u)
	if !p.Project(s, c, u) {
		all = append(all, "the projection finds no action that keeps every limit from the start on")
	}
	return all
}
