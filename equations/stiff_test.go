package equations

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A relaxation with the rates 1 and 500, which remembers in the context how far it has come and
// its last action.
func relax[T dual.Scalar](s, c, u, ds []T) {
	ds[0] = -s[0] + 0.5*s[1]*s[1] + u[0]
	ds[1] = 500*(dual.Sin(s[0])+0.1*c[0]*u[1]-s[1]) - s[1]*s[1]*s[1]
}

func relaxStep[T dual.Scalar](_, c, u, sNext, cNext []T) {
	cNext[1], cNext[2] = c[1]+sNext[0]*sNext[1], u[0]
}

func relaxObjectives[T dual.Scalar](s, c, u, n, j []T) {
	e := n[0]*n[1] - c[0]
	j[0], j[1] = e*e+0.1*s[0]*n[1], (u[0]-c[2])*(u[0]-c[2])+u[1]*u[1]*(1+n[1]*n[1])
}

func relaxMargins[T dual.Scalar](_, _, u, n, m []T) { m[0] = 4 - n[0]*n[0] - n[1]*u[0] }

func relaxation() System {
	functions := func() (Functions[float64], Functions[complex128]) {
		return Functions[float64]{Step: relaxStep[float64], Objectives: relaxObjectives[float64], Margins: relaxMargins[float64]},
			Functions[complex128]{Step: relaxStep[complex128], Objectives: relaxObjectives[complex128], Margins: relaxMargins[complex128]}
	}
	v := func(name string, lo, hi float64) domain.Variable { return domain.Variable{Name: name, Lo: lo, Hi: hi} }
	y := System{
		Name: "relaxation", State: []domain.Variable{v("slow", -1, 1), v("fast", 0, 0)}, Context: []domain.Variable{v("target", 0, 0), v("way", 0, 0), v("before", 0, 0)},
		Action: []domain.Variable{v("slow", -1, 1), v("fast", -2, 2)}, Objectives: []domain.Variable{v("distance", 0, 0), v("effort", 0, 0)},
		Margins: []domain.Variable{v("disc", 0, 0)}, Scenario: []domain.Variable{v("slow", -1, 1), v("fast", -0.5, 0.5), v("target", -0.5, 0.5)},
		Initial: func(p, s, c []float64) { s[0], s[1], c[0], c[1], c[2] = p[0], p[1], p[2], 0, 0 },
		Steps:   6, StepSeconds: 0.1, Stiff: &dual.Stiff{ODE: relax[complex128], Span: 0.1, Substeps: 2},
	}
	y.Real, y.Dual = functions()
	return y
}

// TestStiff: the contract holds of equations that Stiff solves, or Step by the same method; a step without memory needs no Step.
func TestStiff(t *testing.T) {
	domaintest.Run(t, require.Get(relaxation().Case())(t))
	y := relaxation()
	y.Real.Step, y.Dual.Step = nil, nil
	domaintest.Run(t, require.Get(y.Case())(t))
	domaintest.Run(t, require.Get(stepwise().Case())(t))
}

// stepwise is the relaxation by a step of its own.
func stepwise() System {
	y := relaxation()
	stiff := y.Stiff
	y.Stiff = nil
	y.Real.Step = func(s, c, u, sNext, cNext []float64) {
		dual.Radau(stiff, s, c, u, sNext)
		relaxStep(s, c, u, sNext, cNext)
	}
	y.Dual.Step = func(s, c, u, sNext, cNext []complex128) {
		dual.Radau(stiff, s, c, u, sNext)
		relaxStep(s, c, u, sNext, cNext)
	}
	return y
}

func TestStiffRefuses(t *testing.T) {
	for says, change := range map[string]func(*System){
		"Stiff: ODE is nil: true":        func(y *System) { y.Stiff = &dual.Stiff{Span: 1, Substeps: 1} },
		"Span is 0":                      func(y *System) { y.Stiff = &dual.Stiff{ODE: relax[complex128], Substeps: 1} },
		"Substeps is -1":                 func(y *System) { y.Stiff = &dual.Stiff{ODE: relax[complex128], Span: 1, Substeps: -1} },
		"Dual.Step is nil":               func(y *System) { y.Dual.Step = nil },
		"Real.Step is nil":               func(y *System) { y.Real.Step = nil },
		"which ODE or Stiff has written": func(y *System) { y.Real.Step = func(_, _, _, sNext, _ []float64) { sNext[0]++ } },
		"writes NaN into sNext[0]": func(y *System) {
			y.Stiff = &dual.Stiff{ODE: func(s, _, _, ds []complex128) { ds[0], ds[1] = 1e3*(1+s[0]*s[0]), 0 }, Span: 1, Substeps: 1}
		},
	} {
		y := relaxation()
		change(&y)
		if _, err := New(y); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not said of %v", says, err)
		}
	}
}
