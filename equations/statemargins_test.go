package equations_test

import (
	"math"
	"testing"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// coasting is a mass whose position no action reaches within a step, between limits that are of the
// next position, of the present one, of the action and of the way between two positions.
func coasting() equations.System {
	return equations.System{
		Name:  "coasting",
		State: []domain.Variable{{Name: "x"}, {Name: "v"}}, Action: []domain.Variable{{Name: "u", Lo: -1, Hi: 1}},
		Objectives: []domain.Variable{{Name: "away"}, {Name: "effort"}},
		Margins:    []domain.Variable{{Name: "next"}, {Name: "now"}, {Name: "push"}, {Name: "way"}},
		Scenario:   []domain.Variable{{Name: "x", Lo: 0, Hi: 0.1}},
		Initial:    func(p, s, _ []float64) { s[0], s[1] = p[0], 0.5 },
		Steps:      2, StepSeconds: 1,
		Real: coastingOf[float64](), Dual: coastingOf[complex128](),
	}
}

func coastingOf[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{
		Step:       func(s, _, u, n, _ []T) { n[0], n[1] = s[0]+s[1], s[1]+u[0] },
		Objectives: func(_, _, u, n, j []T) { j[0], j[1] = n[0]*n[0], u[0]*u[0] },
		Margins: func(s, _, u, n, m []T) {
			m[0], m[1], m[2], m[3] = 1.2-n[0], 5-s[0], 2-u[0], 3-(n[0]-s[0])
		},
	}
}

// A limit of the state that an action leads to is not judged one step beyond the episode, even where
// no action reaches it within a step; one that is of the state alone holds at the end too.
func TestLimitsOfTheNextStateEndWithTheEpisode(t *testing.T) {
	c := require.Get(coasting().Case())(t)
	m := make([]float64, 4)
	domain.StateMargins(c.Problem, domain.AbilitiesOfProblem(c.Problem), []float64{1, 0.5}, []float64{1}, []float64{0}, m, make([]float64, 4))
	if !math.IsInf(m[0], 1) || m[1] != 4 || !math.IsInf(m[2], 1) || !math.IsInf(m[3], 1) {
		t.Errorf("margins of the state alone are %v, want the second alone, 4", m)
	}
	// The mass ends at 1 to 1.1 with a speed that would take it beyond 1.2 one step later.
	episode := require.Get(c.Plant.Episode(1, 0, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
	for !episode.Done() {
		out := require.Get(episode.Apply([]float64{0}))(t)
		if out.Margin < 0 {
			t.Errorf("the least margin is %v, and the episode ends within every limit: %v", out.Margin, out.Named)
		}
	}
}
