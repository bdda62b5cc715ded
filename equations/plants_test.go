package equations_test

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/internal/testing/require"

	"github.com/gpc-engine/gpc/domain"
)

// heavy is the coasting mass with a push that moves it by a factor.
func heavy(factor float64) equations.System {
	y := coasting()
	step, dualStep := y.Real.Step, y.Dual.Step
	y.Real.Step = func(s, c, u, n, after []float64) { step(s, c, []float64{factor * u[0]}, n, after) }
	y.Dual.Step = func(s, c, u, n, after []complex128) {
		dualStep(s, c, []complex128{complex(factor, 0) * u[0]}, n, after)
	}
	return y
}

// A system says which of its plant's parameters an evaluation may shift; the shifted plant moves as they say,
// and one of another name is refused.
func TestPlantsAroundASystem(t *testing.T) {
	y := coasting()
	y.Plants = &equations.Plants{
		Parameters: []domain.PlantParameter{{Name: "push", About: "what the action moves"}},
		New:        func(f []float64) equations.System { return heavy(f[0]) },
	}
	c := require.Get(y.Case())(t)
	shifted := require.Get(c.Shifted(map[string]float64{"push": 1.5}))(t)
	next, after := make([]float64, 2), make([]float64, 1)
	if shifted.Problem.Step([]float64{0, 0}, []float64{0}, []float64{0.4}, next, after); next[1] < 0.599 || next[1] > 0.601 {
		t.Errorf("the shifted plant's speed is %v, want 0.6", next[1])
	}
	if _, err := c.Shifted(map[string]float64{"mass": 2}); err == nil || !strings.Contains(err.Error(), "push") {
		t.Errorf("a parameter that there is not: %v", err)
	}
	y.Plants.New = func([]float64) equations.System {
		other := coasting()
		other.Name = "other"
		return other
	}
	broken := require.Get(y.Case())(t)
	if _, err := broken.Shifted(map[string]float64{"push": 2}); err == nil || !strings.Contains(err.Error(), "Plants.New") {
		t.Errorf("another system: %v", err)
	}
}
