package backendtest

import (
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// wrongDual is the pole with one dual function gone wrong.
type wrongDual struct {
	testdomain.Pole
	step, objectives, margins func(out []complex128)
}

func (p wrongDual) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Derivatives: domain.Derivatives{Step: p.StepDual, Objectives: p.ObjectivesDual, Margins: p.MarginsDual}}
}

func (p wrongDual) StepDual(s, c, u, sn, cn []complex128) {
	p.Pole.StepDual(s, c, u, sn, cn)
	if p.step != nil {
		p.step(sn)
	}
}

func (p wrongDual) ObjectivesDual(s, u, c, j []complex128) {
	p.Pole.ObjectivesDual(s, u, c, j)
	if p.objectives != nil {
		p.objectives(j)
	}
}

func (p wrongDual) MarginsDual(s, c, u, m []complex128) {
	p.Pole.MarginsDual(s, c, u, m)
	if p.margins != nil {
		p.margins(m)
	}
}

func TestDualCheckFindsMistakes(t *testing.T) {
	points := require.Get(domainStates(domain.Case{Problem: testdomain.Pole{}}, nil))(t)
	if errs := checkDual(testdomain.Pole{}, points); len(errs) > 0 {
		t.Fatal(errs[0])
	}
	for name, p := range map[string]wrongDual{
		"a value":                    {step: func(sn []complex128) { sn[1] += 1e-9 }},
		"a derivative of the step":   {step: func(sn []complex128) { sn[3] = complex(real(sn[3]), 1.001*imag(sn[3])) }},
		"a derivative lost":          {objectives: func(j []complex128) { j[1] = complex(real(j[1]), 0) }},
		"a derivative of the margin": {margins: func(m []complex128) { m[0] = complex(real(m[0]), -imag(m[0])) }},
	} {
		if len(checkDual(p, points)) == 0 {
			t.Errorf("%s: the check found nothing", name)
		}
	}
}
