package closedloop_test

import (
	"testing"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// late is a delay of so many periods of the cart, whose state within a period follows from its own step.
func late(periods float64) domain.Delay {
	return domain.Delay{Periods: periods, Part: func(share float64, s, c, u, next []float64) {
		h := share * testdomain.Dt
		next[0], next[1] = s[0]+h*s[1]+0.5*h*h*u[0], s[1]+h*u[0]
	}, PartDual: func(share float64, s, c, u, next []complex128) { panic("nobody estimates") }}
}

// What is decided acts after the delay, and until then the fallback does. What is measured is the state at the measurement: between two
// actions where the delay is of part of a period. A trace of such an episode is verified.
func TestDelayedActionsActLater(t *testing.T) {
	for periods, ahead := range map[float64]int{0: 0, 1: 1, 2: 2, 0.25: 1, 1.5: 2} {
		c := cartCase(t)
		plant := c.Plant.(*closedloop.Simulation)
		plant.Delay = late(periods)
		ep := require.Get(plant.Episode(3, 1, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
		s, next, seen, part, cx := make([]float64, 2), make([]float64, 2), make([]float64, 2), make([]float64, 2), make([]float64, 1)
		ep.State(s)
		var queue []float64
		fallback := make([]float64, 1)
		c.Problem.Fallback(s, []float64{0}, fallback)
		for range ahead {
			queue = append(queue, fallback[0])
		}
		for k := range steps {
			u := 0.1 + 0.05*float64(k)
			queue = append(queue, u)
			ep.Observe(seen, cx)
			want := s
			if share := plant.Delay.Share(); share > 0 {
				plant.Delay.Part(share, s, cx, queue[:1], part)
				want = part
			}
			out := require.Get(ep.Apply([]float64{u}))(t)
			c.Problem.Step(s, cx, queue[:1], next, make([]float64, 1))
			if seen[0] != want[0] || seen[1] != want[1] || out.S[0] != next[0] || out.S[1] != next[1] {
				t.Fatalf("%g periods, decision %d: measured %v, led to %v; want %v and %v", periods, k, seen, out.S, want, next)
			}
			copy(s, next)
			queue = queue[1:]
		}
		c.Delay, plant.Oracle = plant.Delay, nil
		o := options(t.TempDir())
		evaluate(t, c, controller(func(_ int, s []float64) (float64, bool, error) { return clip(-s[0]), true, nil }), o)
		if v := require.Get(closedloop.Verify(t.Context(), o.TracePath, lookup(c)))(t); len(v.Mismatches) > 0 {
			t.Errorf("%g periods: %+v", periods, v.Mismatches[0])
		}
	}
}
