package gallery

import (
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/examples/gallery/basins"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Between decisions `nmpc-ahead` leaves worse ways round: a car that parks costs a tenth less than by `nmpc` in some episodes, and
// in none more. What it does there depends on counts, not on the clock.
func TestIdleTimeFindsOtherWays(t *testing.T) {
	if testing.Short() {
		t.Skip("27 episodes take half a minute")
	}
	c := require.Get(gpc.NewCase(require.Get(basins.Parking().Case())(t)))(t)
	drive := func(method string, threads int) (costs []float64) {
		costs = make([]float64, 9)
		_, err := c.Evaluate(t.Context(), gpc.Setup{Method: method}, engine.Options{}, closedloop.Options{
			Episodes: len(costs), Seed: 31, Threads: threads, Preference: domain.Preference{Adaptive: true}, WithoutOptima: true,
			Visit: func(e *closedloop.EpisodeRecord) { costs[e.Episode] = float64(e.End.Cost) },
		})
		require.OK(t, err)
		return costs
	}
	exact, ahead, again := drive("nmpc", 2), drive("nmpc-ahead", 2), drive("nmpc-ahead", 1)
	cheaper := 0
	for i, cost := range ahead {
		if cost > exact[i]*(1+1e-3) || cost != again[i] {
			t.Errorf("episode %d costs %v, and then %v, want no more than %v of nmpc", i, cost, again[i], exact[i])
		}
		if cost < 0.9*exact[i] {
			cheaper++
		}
	}
	if cheaper == 0 {
		t.Errorf("%v by nmpc-ahead, %v by nmpc: no episode costs a tenth less", ahead, exact)
	}
}
