package gallery

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/examples/gallery/quadrotor"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// What is kept off the limits is kept off wherever margins are evaluated: one by one, with derivatives, and by
// the lanes that the solver has; nothing of it is in the plant.
func TestWhatIsKeptOffIsKeptOffEverywhere(t *testing.T) {
	c := require.Get(quadrotor.System().Case())(t)
	spec := c.Problem.Spec()
	off := domain.NewBackoff(spec)
	tight := require.Get(c.Tightened(off))(t)
	nm, ns, nc := len(spec.Margins), spec.MeasuredSize(), spec.ContextSize()
	for i := range off.Row(0.2) {
		off.Row(0.2)[i] = 0.01 * float64(i+1)
	}
	x := []float64{-1, 0.1, 0.05, 0.3, -0.2, 0.1, 1.5, 0.2, 0.2}
	u := []float64{2.5, 2.4}
	plain, m, next, j := make([]float64, nm), make([]float64, nm), make([]float64, ns+nc), make([]float64, 2)
	c.Problem.Margins(x[:ns], x[ns:], u, plain)
	check := func(how string, m []float64) {
		t.Helper()
		for i, v := range m {
			if math.Abs(plain[i]-0.01*float64(i+1)-v) > 1e-9 {
				t.Errorf("%s: margin %s is %v, want %v less %v", how, spec.Margins[i].Name, v, plain[i], 0.01*float64(i+1))
			}
		}
	}
	tight.Problem.Margins(x[:ns], x[ns:], u, m)
	check("one by one", m)
	require.Get(domain.AbilitiesOfProblem(tight.Problem).Derivatives.Stages())(t).Evaluate(1, x, u, next, j, m)
	check("on lanes", m)
	x[ns+nc-1] = 0.22 // another stage
	c.Problem.Margins(x[:ns], x[ns:], u, plain)
	tight.Problem.Margins(x[:ns], x[ns:], u, m)
	for i := range m {
		if m[i] != plain[i] {
			t.Errorf("at another stage margin %s is %v, want %v", spec.Margins[i].Name, m[i], plain[i])
		}
	}
	if tight.Plant != c.Plant {
		t.Error("the plant is another one")
	}
}
