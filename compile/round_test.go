package compile

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// TestWhatWasDrivenIsAStart: a reference that is beaten, or that there is none of, is solved
// for from the driven plan; one that is not beaten stays.
func TestWhatWasDrivenIsAStart(t *testing.T) {
	c := sled(t)
	def := c.Definition()
	own := *def.Plant.(*closedloop.Simulation)
	solve := own.Oracle
	r := &run{c: c}
	for _, x := range []struct {
		name   string
		oracle func(s, c []float64, steps int, pref domain.Preference) (float64, [][]float64, error)
		shift  float64 // of the optimum's plan that is driven
		better bool
	}{
		{"a poor reference", func(s, c []float64, steps int, pref domain.Preference) (float64, [][]float64, error) {
			cost, plan, err := solve(s, c, steps, pref)
			return 2 * cost, plan, err
		}, 1e-2, true},
		{"none", func([]float64, []float64, int, domain.Preference) (float64, [][]float64, error) {
			return math.NaN(), nil, domain.ErrNotConverged
		}, 1e-2, true},
		{"the optimum", solve, 1e-2, false},
		{"limits that were not kept", func([]float64, []float64, int, domain.Preference) (float64, [][]float64, error) {
			return math.NaN(), nil, domain.ErrNotConverged
		}, 100, false},
	} {
		own.Oracle = x.oracle
		plant := r.improvedPlant(&own)
		for index := range 4 {
			ep := require.Get(plant.Episode(991, index, domain.EpisodeOptions{Preference: adaptive}))(t)
			s, ctx := make([]float64, 2), make([]float64, 1)
			ep.Observe(s, ctx)
			want, plan, err := solve(s, ctx, ep.Steps(), adaptive)
			require.OK(t, err)
			cost := 0.0
			for _, u := range plan {
				out := require.Get(ep.Apply([]float64{u[0] + x.shift}))(t)
				cost += out.Cost
			}
			got, _, err := ep.Oracle()
			base, _, baseErr := x.oracle(s, ctx, ep.Steps(), adaptive)
			switch {
			case !x.better && (err == nil) != (baseErr == nil), !x.better && err == nil && got != base:
				t.Errorf("%s, episode %d: %v and %v, want %v and %v", x.name, index, got, err, base, baseErr)
			case x.better && (err != nil || !(got <= cost) || got > want*(1+1e-5)):
				t.Errorf("%s, episode %d: %v and %v, driven at %v, want %v", x.name, index, got, err, cost, want)
			}
		}
	}
}
