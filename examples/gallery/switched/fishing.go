package switched

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

const (
	fishingSteps = 30
	fishingSpan  = 12.0
)

func fishingODE[T dual.Scalar](s, _, u, ds []T) {
	prey, predator := s[0], s[1]
	ds[0] = prey - prey*predator - 0.4*prey*u[0]
	ds[1] = -predator + prey*predator - 0.2*predator*u[0]
	ds[2] = (prey-1)*(prey-1) + (predator-1)*(predator-1)
}

func fishingFunctions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Objectives: func(s, _, _, n, j []T) { j[0] = n[2] - s[2] }}
}

// Fishing is mintOC's Lotka Volterra fishing problem: a fleet that fishes or does not brings prey and predators to
// their steady state. From (0.5, 0.7), mintOC has 1.34408 of the relaxed problem, 1.34416 with 56 changes and
// 1.38276 with two. On this grid of 30 periods the optimum is 1.360138.
func Fishing() equations.System {
	return equations.System{
		Name: "fishing", Description: "fishing of prey and predators to their steady state",
		State:      []domain.Variable{v("prey", "1", 0.2, 2), v("predators", "1", 0.2, 2), v("deviation", "1", 0, 10)},
		Action:     []domain.Variable{v("fishing", "1", 0, 0)},
		Objectives: []domain.Variable{v("deviation", "1", 0, 0)},
		Scenario:   []domain.Variable{v("prey", "1", 0.3, 1.7), v("predators", "1", 0.3, 1.7)},
		Initial:    func(p, s, _ []float64) { s[0], s[1], s[2] = p[0], p[1], 0 },
		Steps:      fishingSteps, StepSeconds: fishingSpan / fishingSteps,
		Switches: []equations.Switch{equations.OnOff("fishing")},
		ODE:      &dual.Explicit{Real: fishingODE[float64], Dual: fishingODE[complex128], Span: fishingSpan / fishingSteps, Substeps: 4},
		Real:     fishingFunctions[float64](), Dual: fishingFunctions[complex128](),
		Source: equations.From(source, "Fishing"),
	}
}
