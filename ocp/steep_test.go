package ocp

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// steep is a stock of millionths whose logarithm costs, as does every action below 1, which adds to it. In units of 1 its
// slope is a million.
type steep struct{ wells }

const millionth = 1e-6

func (p steep) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Derivatives: domain.Derivatives{Step: p.StepDual, Objectives: p.ObjectivesDual, Margins: func(_, _, _, _ []complex128) {}}}
}

func (steep) Step(s, c, u, sn, cn []float64) { sn[0] = 0.5*s[0] + millionth*(1.2+u[0]) }
func (steep) Objectives(s, u, c, J []float64) {
	J[0], J[1] = math.Log(1+s[0]/millionth), 0.4*(1-u[0])
}
func (steep) Gradient(s, u, c, sigma, gs, gu []float64) {
	gs[0], gu[0] = sigma[0]/(millionth+s[0]), -0.4*sigma[1]
}
func (steep) StepDual(s, c, u, sn, cn []complex128) { sn[0] = 0.5*s[0] + millionth*(1.2+u[0]) }
func (steep) ObjectivesDual(s, u, c, J []complex128) {
	v := 1 + real(s[0])/millionth
	J[0], J[1] = complex(math.Log(v), imag(s[0])/millionth/v), 0.4*(1-u[0])
}

// The usual tolerance stops near the least cost whatever the units: those in which a slope is steep cost no more, in a first
// decision and in warm ones.
func TestToleranceWhereASlopeIsSteep(t *testing.T) {
	pref := domain.Preference{W: []float64{0.5, 0.5}}
	drive := func(scale float64) (costs []float64) {
		s := require.Get(New(steep{}, []domain.Variable{{Name: "x", Lo: 0, Hi: millionth}}, func(p, s, c []float64) { copy(s, p) }, Options{StateScale: []float64{scale}}))(t)
		h, state := s.NewHorizon(0), []float64{3e-7}
		for n := 20; n > 15; n-- {
			plan := make([]float64, n)
			cost, solved, err := h.Solve(state, nil, pref, plan)
			if err != nil || !solved {
				t.Fatalf("in units of %g: solved %v, %v", scale, solved, err)
			}
			costs = append(costs, cost)
			steep{}.Step(state, nil, plan, state, nil)
		}
		return costs
	}
	own, steep := drive(millionth), drive(1)
	for i, cost := range steep {
		if math.Abs(cost-own[i]) > 2e-3*own[i] {
			t.Errorf("decision %d costs %.8g in units of 1, %.8g in its own", i, cost, own[i])
		}
	}
}
