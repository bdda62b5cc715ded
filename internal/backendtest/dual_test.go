package backendtest

import (
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/internal/testdomain"
)

// wrongDual is the pole with one dual function gone wrong.
type wrongDual struct {
	testdomain.Pole
	step, objectives, margins func(out []complex128)
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
	points := must.Get(domainStates(domain.Case{Problem: testdomain.Pole{}}, nil))(t)
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

// curvedPole has second derivatives by differences, wrong ones where factor is not 1.
type curvedPole struct {
	testdomain.Pole
	factor float64
}

func (p curvedPole) Curvature(s, c, u []float64, by []int, size, w, lambda, z, h []float64) bool {
	slopes := func(moved int, step float64) []float64 {
		out := make([]float64, len(by))
		for i, b := range by {
			at := make([]complex128, len(s)+len(c)+len(u))
			for k, v := range slices.Concat(s, c, u) {
				at[k] = complex(v, 0)
			}
			at[by[moved]] += complex(step, 0)
			at[b] += complex(0, domain.DualStep)
			x, j, m := make([]complex128, len(s)+len(c)), make([]complex128, len(w)), make([]complex128, len(z))
			p.StepDual(at[:len(s)], at[len(s):len(x)], at[len(x):], x[:len(s)], x[len(s):])
			p.ObjectivesDual(at[:len(s)], at[len(x):], at[len(s):len(x)], j)
			p.MarginsDual(at[:len(s)], at[len(s):len(x)], at[len(x):], m)
			for k, v := range x {
				out[i] += lambda[k] * imag(v) / domain.DualStep
			}
			for k, v := range j {
				out[i] += w[k] * imag(v) / domain.DualStep
			}
			for k, v := range m {
				out[i] -= z[k] * imag(v) / domain.DualStep
			}
		}
		return out
	}
	for a, i := range by {
		const d = 1e-5
		plus, minus := slopes(a, d), slopes(a, -d)
		for b, k := range by[:a+1] {
			h[a*len(by)+b] = p.factor * (plus[b] - minus[b]) / (2 * d) * size[i] * size[k]
		}
	}
	return true
}

func TestCurvedCheckFindsMistakes(t *testing.T) {
	points := must.Get(domainStates(domain.Case{Problem: testdomain.Pole{}}, nil))(t)
	if errs := checkCurved(curvedPole{factor: 1}, points); len(errs) > 0 {
		t.Fatal(errs[0])
	}
	if len(checkCurved(curvedPole{factor: 1.01}, points)) == 0 {
		t.Error("second derivatives are one percent off: the check found nothing")
	}
}
