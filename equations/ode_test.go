package equations

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domain/domaintest"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// A cart on a nonlinear spring before a wall. The context remembers how far it has come and its
// last push, and the escape depends on both; at speed it is clipped.
func springODE[T dual.Scalar](s, c, u, ds []T) {
	ds[0], ds[1] = s[1], u[0]-0.3*s[0]*s[0]*s[0]+0.1*c[0]*s[1]
}

func spring(escapeSteps int) System {
	v := func(name string, lo, hi float64) domain.Variable { return domain.Variable{Name: name, Lo: lo, Hi: hi} }
	return System{
		Name: "spring", State: []domain.Variable{v("x", -1, 1), v("v", -1, 1)}, Context: []domain.Variable{v("way", 0, 0), v("before", 0, 0)},
		Action: []domain.Variable{v("push", -1, 1)}, Objectives: []domain.Variable{v("distance", 0, 0), v("effort", 0, 0)},
		Margins: []domain.Variable{v("wall", 0, 0)}, Scenario: []domain.Variable{v("x", -2, -1), v("v", -0.2, 0.2)},
		Initial: func(p, s, c []float64) { s[0], s[1], c[0], c[1] = p[0], p[1], 0, 0 },
		Steps:   8, StepSeconds: 0.1, EscapeSteps: escapeSteps,
		Real: springOf[float64](escapeSteps > 0), Dual: springOf[complex128](escapeSteps > 0),
		ODE: &dual.Explicit{Real: springODE[float64], Dual: springODE[complex128], Span: 0.1, Substeps: 2},
	}
}

func springOf[T dual.Scalar](escape bool) Functions[T] {
	of := Functions[T]{
		Step: func(s, c, u, sNext, cNext []T) { cNext[0], cNext[1] = c[0]+0.1*(sNext[0]-s[0])*sNext[1], u[0] },
		Objectives: func(s, c, u, n, j []T) {
			j[0], j[1] = (n[0]-1)*(n[0]-1)+0.1*c[0]*s[1], u[0]*u[0]+(u[0]-c[1])*(u[0]-c[1])
		},
		Margins: func(_, _, u, n, m []T) { m[0] = 1 - n[0] - 0.01*u[0]*n[1] },
	}
	if escape {
		of.Escape = func(s, c, u []T) { u[0] = -dual.Sin(1.5*s[1]+0.2*c[1]) - 0.3*s[1]*c[0] - 0.4 }
	}
	return of
}

// TestODE: the contract, first and second derivatives among it, holds of a differential
// equation, also along an escape and of what the context remembers.
func TestODE(t *testing.T) {
	for _, escapeSteps := range []int{0, 1, 4} {
		y := spring(escapeSteps)
		domaintest.Run(t, require.Get(y.Case())(t))
	}
	y := spring(2)
	y.Real.Step, y.Dual.Step, y.Context = nil, nil, nil
	y.Real.Objectives, y.Dual.Objectives = func(_, _, u, n, j []float64) { j[0], j[1] = n[0]*n[0], u[0]*u[0] }, func(_, _, u, n, j []complex128) { j[0], j[1] = n[0]*n[0], u[0]*u[0] }
	y.Real.Escape, y.Dual.Escape = func(s, _, u []float64) { u[0] = -s[1] }, func(s, _, u []complex128) { u[0] = -s[1] }
	y.Initial = func(p, s, _ []float64) { s[0], s[1] = p[0], p[1] }
	domaintest.Run(t, require.Get(y.Case())(t))
}

func TestODERefuses(t *testing.T) {
	for says, change := range map[string]func(*System){
		"ODE: Real is nil: true":           func(y *System) { y.ODE = &dual.Explicit{Dual: springODE[complex128], Span: 1, Substeps: 1} },
		"Dual is nil: true":                func(y *System) { y.ODE = &dual.Explicit{Real: springODE[float64], Span: 1, Substeps: 1} },
		"Span is 0":                        func(y *System) { y.ODE.Span = 0 },
		"Substeps is -1":                   func(y *System) { y.ODE.Substeps = -1 },
		"ODE and Stiff exclude each other": func(y *System) { y.Stiff = &dual.Stiff{ODE: springODE[complex128], Span: 0.1, Substeps: 1} },
		"Dual.Step is nil":                 func(y *System) { y.Dual.Step = nil },
		"which ODE or Stiff has written":   func(y *System) { y.Real.Step = func(_, _, _, sNext, _ []float64) { sNext[0]++ } },
	} {
		y := spring(0)
		change(&y)
		if _, err := New(y); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not said of %v", says, err)
		}
	}
}
