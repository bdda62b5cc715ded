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

// curvedPole has first derivatives by dual numbers and second ones by differences, wrong ones
// where a factor is not 1.
type curvedPole struct {
	testdomain.Pole
	first, second float64
}

var _ domain.Curved = curvedPole{}

// at evaluates everything with input moved by step and seeded by input seed.
func (p curvedPole) at(s, c, u []float64, moved int, step float64, seed int) (next, j, m []complex128) {
	at := make([]complex128, len(s)+len(c)+len(u))
	for k, v := range slices.Concat(s, c, u) {
		at[k] = complex(v, 0)
	}
	at[moved] += complex(step, 0)
	at[seed] += complex(0, domain.DualStep)
	next, j, m = make([]complex128, len(s)+len(c)), make([]complex128, p.Spec().ObjectiveSize()), make([]complex128, len(p.Spec().Margins))
	p.StepDual(at[:len(s)], at[len(s):len(next)], at[len(next):], next[:len(s)], next[len(s):])
	p.ObjectivesDual(at[:len(s)], at[len(next):], at[len(s):len(next)], j)
	p.MarginsDual(at[:len(s)], at[len(s):len(next)], at[len(next):], m)
	return next, j, m
}

func (p curvedPole) Linearise(s, c, u []float64, by []int, size, next, j, margins []float64) bool {
	for q, b := range by {
		x, dj, dm := p.at(s, c, u, b, 0, b)
		for _, o := range []struct {
			from []complex128
			to   []float64
		}{{x, next}, {dj, j}, {dm, margins}} {
			for r, v := range o.from {
				o.to[r*len(by)+q] = p.first * size[b] * imag(v) / domain.DualStep
			}
		}
	}
	return true
}

func (p curvedPole) Curvature(s, c, u []float64, by []int, size, w, lambda, z []float64, _ bool, h []float64) bool {
	slope := func(moved int, step float64, seed int) (sum float64) {
		x, j, m := p.at(s, c, u, moved, step, seed)
		for k, v := range x {
			sum += lambda[k] * imag(v) / domain.DualStep
		}
		for k, v := range j {
			sum += w[k] * imag(v) / domain.DualStep
		}
		for k, v := range m {
			sum -= z[k] * imag(v) / domain.DualStep
		}
		return sum
	}
	for a, i := range by {
		for b, k := range by[:a+1] {
			const d = 1e-5
			h[a*len(by)+b] = p.second * (slope(i, d, k) - slope(i, -d, k)) / (2 * d) * size[i] * size[k]
		}
	}
	return true
}

func TestCurvedCheckFindsMistakes(t *testing.T) {
	points := must.Get(domainStates(domain.Case{Problem: testdomain.Pole{}}, nil))(t)
	if errs := checkCurved(curvedPole{first: 1, second: 1}, points); len(errs) > 0 {
		t.Fatal(errs[0])
	}
	for what, p := range map[string]curvedPole{"first": {first: 1.001, second: 1}, "second": {first: 1, second: 1.01}} {
		if len(checkCurved(p, points)) == 0 {
			t.Errorf("the %s derivatives are wrong: the check found nothing", what)
		}
	}
}
