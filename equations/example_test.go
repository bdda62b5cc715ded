package equations_test

import (
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

const dt = 0.1

// step is s = (position, speed) after the push u.
func step[T dual.Scalar](s, _, u, sNext, _ []T) {
	sNext[0], sNext[1] = s[0]+dt*s[1], s[1]+dt*u[0]
}

// objectives are the distance to the reference c[0], and effort.
func objectives[T dual.Scalar](_, c, u, sNext, j []T) {
	e := sNext[0] - c[0]
	j[0], j[1] = e*e+0.1*sNext[1]*sNext[1], u[0]*u[0]
}

func margins[T dual.Scalar](_, _, _, sNext, m []T) { m[0], m[1] = 1-sNext[1], 1+sNext[1] }

func functions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Step: step[T], Objectives: objectives[T], Margins: margins[T]}
}

// A cart with a speed limit is brought to a reference.
func ExampleSystem() {
	cart, err := equations.System{
		Name: "cart", Description: "a cart with a speed limit",
		State:      []domain.Variable{{Name: "position", Unit: "m"}, {Name: "speed", Unit: "m/s"}},
		Context:    []domain.Variable{{Name: "reference", Unit: "m"}},
		Action:     []domain.Variable{{Name: "push", Unit: "m/s²", Lo: -3, Hi: 3}},
		Objectives: []domain.Variable{{Name: "distance", Unit: "m²"}, {Name: "effort", Unit: "m²/s⁴"}},
		Margins:    []domain.Variable{{Name: "forward", Unit: "m/s"}, {Name: "back", Unit: "m/s"}},
		Scenario:   []domain.Variable{{Name: "position", Unit: "m", Lo: -2, Hi: 2}, {Name: "reference", Unit: "m", Lo: -2, Hi: 2}},
		Initial:    func(p, s, c []float64) { s[0], s[1], c[0] = p[0], 0, p[1] },
		Steps:      40, StepSeconds: dt,
		Real: functions[float64](), Dual: functions[complex128](),
	}.Case()
	if err != nil {
		fmt.Println(err)
		return
	}
	// The case has everything that the commands need; here, its oracle drives an episode.
	episode, err := cart.Plant.Episode(1, 1, domain.EpisodeOptions{Preference: domain.Preference{W: []float64{0.9, 0.1}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, plan, err := episode.Oracle()
	if err != nil {
		fmt.Println(err)
		return
	}
	least := 1.0
	s := make([]float64, 2)
	for _, u := range plan {
		out, err := episode.Apply(u)
		if err != nil {
			fmt.Println(err)
			return
		}
		least = min(least, out.Margin)
	}
	c := make([]float64, 2)
	episode.Observe(s, c)
	fmt.Printf("within 0.1 m: %t, clock %.0f, limit kept: %t, least margin %.2f m/s\n", math.Abs(s[0]-c[0]) < 0.1, c[1], least >= 0, math.Abs(least))
	// Output: within 0.1 m: true, clock 1, limit kept: true, least margin 0.00 m/s
}
