package opf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
)

// staged is a Scene as it is given: with loads by bus, or with a level that is times the
// file's load at every bus; what is left out is 1 for branch factors and the exact dispatch
// of the first row for set-points.
type staged struct {
	Level    []float64   `json:"level,omitempty"`
	Pd       [][]float64 `json:"pd_mw,omitempty"`
	Qd       [][]float64 `json:"qd_mvar,omitempty"`
	Branch   []float64   `json:"branch_factor,omitempty"`
	Pg0      []float64   `json:"pg0_pu,omitempty"`
	Vg0      []float64   `json:"vg0_pu,omitempty"`
	Regime   string      `json:"regime,omitempty"`
	Hidden   bool        `json:"hidden,omitempty"`
	W        []float64   `json:"w,omitempty"`
	Excluded []Exclusion `json:"excluded,omitempty"`
}

// givenRegime is that of a scene that names none.
const givenRegime = "given"

// Draft is domain.PlantAbilities.Stage.
func (l *Plant) Draft(e domain.Episode) any {
	ep := e.(*episode)
	scene := ep.scene
	scene.Hidden = ep.hidden || ep.estimator != nil
	return scene
}

// Stage is domain.PlantAbilities.Stage. Loads that no dispatch can carry are refused in the first
// row, which the episode begins with; of the others Beyond tells.
func (l *Plant) Stage(seed uint64, index int, text json.RawMessage, opt domain.EpisodeOptions) (domain.Episode, error) {
	if err := opt.NoRegime(l.system.spec.Name); err != nil {
		return nil, err
	}
	var request staged
	if err := jsonin.Exact(text, &request); err != nil {
		return nil, err
	}
	w, err := opt.Scored(index, objectives, request.W)
	if err != nil {
		return nil, err
	}
	scene, err := l.system.scene(&request)
	if err != nil {
		return nil, err
	}
	scene.W = w
	exact := scene.Pg0 == nil && scene.Vg0 == nil
	if gens := l.system.Network.Gens(); exact {
		scene.Pg0, scene.Vg0 = make([]float64, gens), make([]float64, gens)
	}
	if err := l.system.checkScene(&scene); err != nil {
		return nil, err
	}
	if err := l.system.possible(&scene); err != nil {
		return nil, err
	}
	if exact {
		first := scene
		first.Pd, first.Qd = scene.Pd[:1], scene.Qd[:1]
		chain, err := l.system.runChain(opt.Until(), &first)
		if out, ok := errors.AsType[*chainError](err); ok {
			return nil, fmt.Errorf("row 0 of the loads: an episode begins at its optimum, and the exact solver finds it %s", out.reason)
		}
		if err != nil {
			return nil, err
		}
		scene.Pg0, scene.Vg0 = chain.Pg0, chain.Vg0
	}
	if err := l.system.checkSetpoints(&scene); err != nil {
		return nil, err
	}
	e, err := newEpisode(l, scene)
	if err != nil {
		return nil, err
	}
	return e.measured(seed, index, opt), nil
}

// scene fills in what a given scene may leave out, but for the set-points.
func (y *System) scene(g *staged) (Scene, error) {
	s := Scene{Pd: g.Pd, Qd: g.Qd, Branch: g.Branch, Pg0: g.Pg0, Vg0: g.Vg0, Regime: g.Regime, Hidden: g.Hidden, Excluded: g.Excluded}
	n := y.Network
	if g.Level != nil {
		if g.Pd != nil || g.Qd != nil {
			return s, errors.New("level and pd_mw or qd_mvar exclude each other: give one")
		}
		if len(g.Level) != Steps+1 {
			return s, fmt.Errorf("level has %d entries, want %d: one for the state before, and one for each step", len(g.Level), Steps+1)
		}
		for t, v := range g.Level {
			if !(0 < v && v <= largestLevel) {
				return s, fmt.Errorf("level[%d] is %v, want it above 0 and at most %v", t, v, largestLevel)
			}
			pd, qd := n.Loads(v)
			for i := range pd {
				pd[i] *= n.BaseMVA
				qd[i] *= n.BaseMVA
			}
			s.Pd, s.Qd = append(s.Pd, pd), append(s.Qd, qd)
		}
	}
	if s.Branch == nil {
		s.Branch = ones(n.Branches())
	}
	s.Regime = cmp.Or(s.Regime, givenRegime)
	return s, nil
}

// possible says what in a scene of the right sizes no network of this case has.
func (y *System) possible(s *Scene) error {
	n := y.Network
	for _, v := range []struct {
		name string
		rows [][]float64
		file []float64
	}{{"pd_mw", s.Pd, n.Pd}, {"qd_mvar", s.Qd, n.Qd}} {
		most := 0.0
		for _, load := range v.file {
			most += largestLevel * n.BaseMVA * math.Abs(load)
		}
		for t, row := range v.rows {
			for i, load := range row {
				if v.file[i] == 0 && load != 0 {
					return fmt.Errorf("%s[%d][%d] is %v: bus %d has no such load in the network, so that the context has no entry for it: want 0", v.name, t, i, load, n.BusID[i])
				}
				if !(math.Abs(load) <= most) {
					return fmt.Errorf("%s[%d][%d] is %v, want at most %v times all loads of the network", v.name, t, i, load, largestLevel)
				}
			}
		}
	}
	for k, b := range s.Branch {
		if b != 1 && !y.layout.uncertain {
			return fmt.Errorf("branch_factor[%d] is %v: this case has no branch factors, want 1 or leave it out", k, b)
		}
		if !(0.1 <= b && b <= 10) {
			return fmt.Errorf("branch_factor[%d] is %v, want 0.1 to 10", k, b)
		}
	}
	if s.Hidden && !y.layout.uncertain {
		return errors.New("hidden is true: this case has no branch factors to hide")
	}
	return nil
}

// checkSetpoints says which set-point before the first decision leaves its limits.
func (y *System) checkSetpoints(s *Scene) error {
	n := y.Network
	for g, b := range n.GenBus {
		for _, v := range []struct {
			name      string
			v, lo, hi float64
		}{{"pg0_pu", s.Pg0[g], n.PMin[g], n.PMax[g]}, {"vg0_pu", s.Vg0[g], n.VMin[b], n.VMax[b]}} {
			if !(v.lo-MarginTolerance <= v.v && v.v <= v.hi+MarginTolerance) {
				return fmt.Errorf("%s[%d] is %v, want %v to %v", v.name, g, v.v, v.lo, v.hi)
			}
		}
	}
	return nil
}

// Beyond is domain.EpisodeAbilities.Beyond. It solves the episode's chain.
func (e *episode) Beyond() (all []string) {
	y, n := e.system, e.system.Network
	add := func(name string, v, lo, hi float64) {
		if text := domain.Outside(name, v, lo, hi, ""); text != "" {
			all = append(all, text)
		}
	}
	lo, hi := levelLo*(1-factorHalfRange), levelHi*(1+factorHalfRange)
	for _, v := range []struct {
		name string
		rows [][]float64
		file []float64
	}{{"pd_mw", e.scene.Pd, n.Pd}, {"qd_mvar", e.scene.Qd, n.Qd}} {
		least, most := math.Inf(1), math.Inf(-1)
		var names [2]string
		for t, row := range v.rows {
			for i, load := range row {
				if v.file[i] == 0 {
					continue
				}
				factor := load / (n.BaseMVA * v.file[i])
				name := fmt.Sprintf("%s[%d][%d] over the file's load of bus %d", v.name, t, i, n.BusID[i])
				if factor < least {
					least, names[0] = factor, name
				}
				if factor > most {
					most, names[1] = factor, name
				}
			}
		}
		if least < lo {
			add(names[0], least, lo, hi)
		}
		if most > hi {
			add(names[1], most, lo, hi)
		}
	}
	for k, b := range e.scene.Branch {
		if y.layout.uncertain {
			add(fmt.Sprintf("branch_factor[%d]", k), b, 1-BranchRange, 1+BranchRange)
		}
	}
	_, _, err := e.Oracle()
	if out, ok := errors.AsType[*chainError](err); ok {
		all = append(all, fmt.Sprintf("row %d of the loads: the exact solver finds it %s, so that there is no optimum to compare with", out.step+1, out.reason))
	}
	return all
}
