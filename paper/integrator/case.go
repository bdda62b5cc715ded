package integrator

import (
	"encoding/json"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
)

func newCase(name string, params Params) domain.Case {
	c, err := caseOf(name, params)
	if err != nil {
		panic("integrator: default parameters: " + err.Error())
	}
	return c
}

// caseOf is the case with these parameters.
func caseOf(name string, params Params) (domain.Case, error) {
	system, err := NewSystem(name, params)
	if err != nil {
		return domain.Case{}, err
	}
	oracle := newOracle(system)
	return domain.Case{
		Problem: system,
		Solver:  NewSolver(system, LibrarySize),
		Plant:   &Plant{system: system, oracle: oracle},
		Methods: methods(system),
		Guard:   domain.Guard{Off: true}, // the paper's controller is without
		Shifts:  shifts(system),
		Remake: func(params json.RawMessage) (domain.Case, error) {
			p := traceParams{system.Params, semantic}
			if err := jsonin.Merge(params, &p); err != nil {
				return domain.Case{}, err
			}
			if p.Semantic != semantic {
				return domain.Case{}, fmt.Errorf("semantic is %+v, this program scores with %+v", p.Semantic, semantic)
			}
			return remade(system, p.Params)
		},
	}, nil
}

// remade is the case of a system with other parameters. Its answers are the system's: the map
// is still of it.
func remade(y *System, p Params) (domain.Case, error) {
	c, err := caseOf(y.spec.Name, p)
	if err == nil {
		c.Problem.(*System).answers = y.answers
	}
	return c, err
}

// shifts are the plants around a system.
func shifts(y *System) *domain.Shifts {
	return &domain.Shifts{
		Parameters: []domain.PlantParameter{
			{Name: "ellipse", About: "both axes of the keep-out ellipse"},
			{Name: "ellipse-major", About: "its axis along the way"},
			{Name: "ellipse-minor", About: "its axis across"},
			{Name: "obstacle-speed", About: "how far it moves with p"},
			{Name: "input-limit", About: "the bound on the input"},
			{Name: "slew-limit", About: "the bound on the input's change"},
			{Name: "obstacle-age", About: "periods between the ellipse that a position is tested against and the position's time, 1 in the paper; 0: the ellipse where it is then", Zero: true},
		},
		New: func(f []float64) (domain.Case, error) {
			p := y.Params
			p.Ellipse.A *= f[0] * f[1]
			p.Ellipse.B *= f[0] * f[2]
			p.Ellipse.Rho[0] *= f[3]
			p.Ellipse.Rho[1] *= f[3]
			p.UMax *= f[4]
			p.RMax *= f[5]
			p.Lead = 1 - f[6]*(1-p.Lead)
			return remade(y, p)
		},
	}
}
