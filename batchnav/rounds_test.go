package batchnav

import (
	"slices"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// How far a roll-out looks ahead: as requested, else to the known end of the episode, else a whole one; never beyond a clock, and at least a step.
func TestLookAheads(t *testing.T) {
	for _, c := range []struct {
		plan, steps, horizon      int
		clock                     float64
		known, request, remaining int // known: by the problem, 0: not
		want                      int
	}{
		{1, 20, 0, 0, 0, 0, 0, 20}, {1, 20, 0, 0, 0, 7, 0, 7}, {1, 20, 0, 0, 0, 7, 5, 7}, {1, 20, 0, 0, 0, 0, 5, 5}, {1, 20, 0, 0, 0, 30, 0, 30},
		{1, 20, 0, 0, 6, 0, 0, 6}, {1, 20, 0, 0, 30, 0, 0, 20}, {1, 20, 0, 0, 6, 9, 0, 9}, {1, 20, 0, 0, -3, 0, 0, 1},
		{4, 20, 0, 0, 0, 0, 0, 4}, {4, 20, 0, 0, 0, 3, 0, 3}, {4, 20, 0, 0, 0, 9, 2, 4},
		{1, 20, 0, 1, 6, 9, 0, 6}, {1, 20, 0, 1, 6, 4, 0, 4}, {1, 20, 0, 1, 0, 30, 0, 20},
	} {
		spec := &domain.Spec{Plan: c.plan, Steps: c.steps}
		spec.Clock = domain.Spec{}.Clock
		if c.clock > 0 {
			spec.Clock++
		}
		may := &domain.ProblemAbilities{}
		if c.known != 0 {
			may.Remaining = func([]float64) int { return c.known }
		}
		if got := lookAhead(spec, may, nil, c.request, c.remaining); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// Rounds and their sizes: eight on a host; where places take candidates at once, enough to fill them, from four, or three of one step, to eight.
func TestRoundsFillThePlaces(t *testing.T) {
	for _, c := range []struct{ n, steps, places, rounds, size int }{
		{512, 20, 0, 8, 64}, {512, 1, 0, 8, 64}, {513, 20, 0, 8, 65}, {64, 20, 0, 8, 16}, {10, 20, 0, 8, 10}, {16, 5, 0, 8, 16}, {1, 5, 0, 8, 1},
		{512, 20, 512, 4, 128}, {512, 1, 512, 3, 171}, {512, 2, 512, 4, 128}, {512, 20, 100, 6, 86}, {500, 20, 100, 5, 100}, {501, 20, 100, 6, 84}, {512, 20, 10, 8, 64}, {400, 1, 100, 4, 100}, {200, 1, 100, 3, 67},
	} {
		if got := roundsOf(c.n, c.steps, c.places); got != c.rounds || roundSize(c.n, got) != c.size {
			t.Errorf("%+v: %d rounds of %d", c, got, roundSize(c.n, got))
		}
		spec := &domain.Spec{Plan: 1}
		rounds := c.rounds
		if c.places == 0 {
			rounds++ // the proposals
		}
		proposed, rest := Split(spec, RefineOptions{Candidates: c.n}, c.steps, c.places)
		if proposed != roundSize(c.n, rounds) || proposed+rest != c.n {
			t.Errorf("%+v: %d proposals and %d", c, proposed, rest)
		}
	}
	for _, c := range []struct {
		plan int
		none bool
	}{{2, false}, {1, true}} {
		if proposed, rest := Split(&domain.Spec{Plan: c.plan}, RefineOptions{Candidates: 100, NoRounds: c.none}, 3, 0); proposed != 100 || rest != 0 {
			t.Errorf("%+v: %d and %d", c, proposed, rest)
		}
	}
	hour := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		limit  time.Duration
		rounds int
		want   bool
	}{{0, 1, false}, {time.Minute, 0, false}, {time.Minute, 1, true}, {90 * time.Minute, 1, true}, {3 * time.Hour, 1, false}, {70 * time.Minute, 4, true}, {80 * time.Minute, 4, false}} {
		if late(c.limit, hour, c.rounds) != c.want {
			t.Errorf("behind an hour of %d rounds, %v at most: late is %t", c.rounds, c.limit, !c.want)
		}
	}
}

// The plans of a question are its fixed ones and the shares of the rest, rounded down, of which none goes beyond what is left.
func TestSharesAreOfTheRest(t *testing.T) {
	for _, c := range []struct {
		count                              int
		previous                           bool
		mix                                Mixture
		neighbours, preferences, previous_ int
	}{
		{102, false, Mixture{Neighbours: 0.25, Preference: 0.5, Previous: 0.25}, 25, 50, 0}, {103, true, Mixture{Neighbours: 0.25, Preference: 0.5, Previous: 0.25}, 25, 50, 25}, {102, false, Mixture{Neighbours: 0.29, Preference: 0.7, Previous: 0}, 29, 70, 0},
		{2, false, Mixture{Neighbours: 1, Preference: 0, Previous: 0}, 0, 0, 0}, {1, false, Mixture{Neighbours: 1, Preference: 0, Previous: 0}, 0, 0, 0}, {0, true, Mixture{Neighbours: 1, Preference: 0, Previous: 0}, 0, 0, 0}, {3, false, Mixture{Neighbours: 1, Preference: 0, Previous: 0}, 1, 0, 0}, {3, true, Mixture{Neighbours: 1, Preference: 0, Previous: 0}, 0, 0, 0},
		{12, false, Mixture{Neighbours: 0.99, Preference: 0, Previous: 0}, 9, 0, 0}, {12, false, Mixture{Neighbours: 0.7, Preference: 0.7, Previous: 0}, 7, 3, 0}, {13, true, Mixture{Neighbours: 0.5, Preference: 0.4, Previous: 0.5}, 5, 4, 1},
	} {
		q := domain.Question{Count: c.count}
		if c.previous {
			q.Previous = []float32{0}
		}
		if a, b, d := shares(&q, c.mix); a != c.neighbours || b != c.preferences || d != c.previous_ {
			t.Errorf("%+v: %d, %d and %d", c, a, b, d)
		}
	}
	z, normals := make([]float32, 2), make([]float64, 2)
	perturb([]float32{1, 2}, 0.5, 3, 4, normals, z)
	for j := range z {
		if normals[j] == 0 || z[j] != float32(j+1)+float32(0.5*normals[j]) {
			t.Errorf("%v of %v", z, normals)
		}
	}
}

// A deadline is shared by the loops that still search; the shorter of it and a time limit counts. One that has passed leaves one round.
func TestADeadlineIsShared(t *testing.T) {
	p := finite{testdomain.NewCart(cartSteps)}
	for _, c := range []struct {
		limit, left time.Duration
		want        []int
	}{
		{0, time.Hour, []int{2, 5}}, {15 * time.Minute, time.Hour, []int{1, 1}}, {2 * time.Hour, time.Hour, []int{2, 5}}, {0, -time.Hour, []int{1, 1}}, {0, 0, []int{0, 0}}, {50 * time.Minute, 0, []int{4, 4}},
	} {
		b := &scripted{Backend: ref.New(), search: func(backend.SearchInput, *backend.SearchOutput) error { return nil }}
		a := require.Get(NewBatch(b, testdomain.Map(p.Cart, 3, false), p, Options{Search: SearchOptions{Candidates: 20, TimeLimit: c.limit}}, 2))(t)
		a.search.device.round = time.Hour/5 - time.Minute/2
		obs := slices.Repeat([]Observation{{S: []float64{0.1, 0}, C: []float64{0}, Preference: adaptively}}, 2)
		if c.left != 0 {
			obs[0].Deadline = time.Now().Add(c.left)
			obs[1].Deadline = obs[0].Deadline
		}
		require.OK(t, a.Decide(obs, make([]Decision, 2)))
		if !slices.Equal(b.rounds, c.want) {
			t.Errorf("%v of %v: rounds %v, want %v", c.limit, c.left, b.rounds, c.want)
		}
	}
}
