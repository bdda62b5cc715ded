package equations_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

func fall[T dual.Scalar](s, _, u, ds []T) { ds[0], ds[1] = s[1], u[0] }

// A delay that cannot be is refused by name; one within a period needs a differential equation, whose two parts make the whole step.
func TestADelayOfASystem(t *testing.T) {
	for wrong, want := range map[float64]string{-1: "-1 periods", 0.4: "want a whole number", 1e6: "want 0 to", math.NaN(): "NaN"} {
		y := coasting()
		y.Delay = wrong
		if _, err := y.Case(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("delay %v: %v, want %q", wrong, err, want)
		}
	}
	y := coasting()
	y.Delay, y.Steps, y.Real.Step, y.Dual.Step = 1.4, 4, nil, nil
	y.ODE = &dual.Explicit{Real: fall[float64], Dual: fall[complex128], Span: 1, Substeps: 1}
	c := require.Get(y.Case())(t)
	if c.Delay.Ahead() != 2 || math.Abs(c.Delay.Share()-0.6) > 1e-12 {
		t.Errorf("%d actions are under way, a measurement is made at %v of a period", c.Delay.Ahead(), c.Delay.Share())
	}
	s, u, half, whole, next, after := []float64{0.1, 0.2}, []float64{0.3}, make([]float64, 2), make([]float64, 2), make([]float64, 2), make([]float64, 1)
	c.Delay.Part(0.6, s, []float64{0}, u, half)
	c.Delay.Part(0.4, half, []float64{0}, u, whole)
	c.Problem.Step(s, []float64{0}, u, next, after)
	for i := range next {
		if math.Abs(next[i]-whole[i]) > 1e-12 {
			t.Errorf("state %d is %v after both parts, %v after the step", i, whole[i], next[i])
		}
	}
}
