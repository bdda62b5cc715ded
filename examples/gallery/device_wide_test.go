package gallery

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// warm has tanks that share heat: all together within a sphere, neighbours within a curve.
func warm[T dual.Scalar](s, _, u, n, _ []T) {
	n[0] = 0.9 * s[0]
	for i := range u {
		n[0] = n[0] + 0.05*u[i]
	}
}

func heat[T dual.Scalar](_, _, u, n, j []T) { j[0] = (n[0]-1)*(n[0]-1) + 0.1*u[0]*u[0] }

func shared[T dual.Scalar](s, _, u, _, m []T) {
	m[0], m[1] = 1+0.1*s[0], 0.5-u[0]*u[1]
	for i := range u {
		m[0] = m[0] - u[i]*u[i]
	}
}

const warmText = `package p

import (
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

func warm[T dual.Scalar](s, _, u, n, _ []T) {
	n[0] = 0.9 * s[0]
	for i := range u {
		n[0] = n[0] + 0.05*u[i]
	}
}

func heat[T dual.Scalar](_, _, u, n, j []T) { j[0] = (n[0]-1)*(n[0]-1) + 0.1*u[0]*u[0] }

func shared[T dual.Scalar](s, _, u, _, m []T) {
	m[0], m[1] = 1+0.1*s[0], 0.5-u[0]*u[1]
	for i := range u {
		m[0] = m[0] - u[i]*u[i]
	}
}

func System() equations.System {
	return equations.System{
		Initial: func(p, s, c []float64) { s[0] = p[0] },
		Real:    equations.Functions[float64]{Step: warm[float64], Objectives: heat[float64], Margins: shared[float64]},
	}
}
`

// warming has so many actions.
func warming(actions int) equations.System {
	y := equations.System{
		Name: fmt.Sprint("warming-", actions), State: []domain.Variable{{Name: "heat", Lo: -1, Hi: 1}}, Objectives: []domain.Variable{{Name: "distance"}},
		Margins: []domain.Variable{{Name: "energy"}, {Name: "neighbours"}}, Scenario: []domain.Variable{{Name: "heat", Lo: -1, Hi: 1}},
		Initial: func(p, s, _ []float64) { s[0] = p[0] }, Steps: 8, StepSeconds: 1,
		Real:   equations.Functions[float64]{Step: warm[float64], Objectives: heat[float64], Margins: shared[float64]},
		Dual:   equations.Functions[complex128]{Step: warm[complex128], Objectives: heat[complex128], Margins: shared[complex128]},
		Source: equations.From(fstest.MapFS{"p.go": {Data: []byte(warmText)}}, "System"),
	}
	for i := range actions {
		y.Action = append(y.Action, domain.Variable{Name: fmt.Sprint("valve ", i), Lo: -1, Hi: 1})
	}
	return y
}

// TestManyActionsOnTheDevice projects where a warp has a row, and where its lanes do not reach both sides of every action at once.
func TestManyActionsOnTheDevice(t *testing.T) {
	var cases []domain.Case
	var problems []domain.Problem
	for _, actions := range []int{7, 9, 18} {
		c := require.Get(warming(actions).Case())(t)
		cases, problems = append(cases, c), append(problems, c.Problem)
	}
	b := deviceOf(t, problems...)
	for _, c := range cases {
		at, actions := rowsOf(t, c, 12), c.Problem.Spec().ActionSize()
		moved, off, errs := projectedOnDevice(t, b, c.Problem, at)
		for _, err := range errs[:min(len(errs), 4)] {
			t.Error(err)
		}
		if moved < 3 {
			t.Errorf("%d of %d actions were projected", moved, len(at.S))
		}
		t.Logf("%d actions: %d of %d projected, to within %.1e of half a box", actions, moved, len(at.S), off)
	}
}
