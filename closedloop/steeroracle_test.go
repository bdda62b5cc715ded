package closedloop_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
)

// An episode whose optimum the solver does not find is driven and not compared; the sweep goes on, as an evaluation does.
func TestASweepGoesOnWithoutAnOptimum(t *testing.T) {
	c := rowCase(t, testdomain.NewCart(steps), ocp.Options{})
	plant := c.Plant.(*closedloop.Simulation)
	found, asked := plant.Oracle, 0
	plant.Oracle = func(s, c []float64, steps int, pref domain.Preference) (float64, [][]float64, error) {
		if asked++; asked <= 3 { // an episode of the first preference has one, of the others none
			return math.NaN(), nil, errors.New("lost state")
		}
		return found(s, c, steps, pref)
	}
	m, _ := closedloop.Row(c, "hold")
	hold := require.Get(m.New(domain.Means{}))(t)
	got := require.Get(closedloop.Steer(context.Background(), c, hold, closedloop.SteerOptions{
		Episodes: 2, Seed: 1, Weights: [][]float64{{0.8, 0.2}, {0.5, 0.5}, {0.2, 0.8}},
	}))(t)
	for i, want := range []int{0, 1, 2} {
		if p := got.Front[i]; p.Compared+p.Violations != want || p.Episodes != 2 {
			t.Errorf("preference %v: %d of %d episodes compared, %d unsafe; want %d compared", p.W, p.Compared, p.Episodes, p.Violations, want)
		}
	}
}
