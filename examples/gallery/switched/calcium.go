package switched

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

const (
	calciumSteps = 48
	calciumSpan  = 22.0
	calciumDose  = 1.3   // of the inhibitor
	calciumPrice = 100.0 // of the inhibitor for the whole time
)

// calciumODE is of s = (G-protein, phospholipase C, calcium of the cell, calcium of its store, cost).
func calciumODE[T dual.Scalar](s, _, u, ds []T) {
	g, plc := s[0], s[1]
	cell, store := s[2], s[3]
	release := 5 * plc * cell * store / (store + 2.67)
	uptake := 4.85 * cell / (cell + 0.05)
	// The inhibitor makes the pump out of the cell saturate at less calcium.
	pump := (1-u[0])*153*cell/(cell+0.16) + u[0]*153*cell/(calciumDose*cell+0.16)
	ds[0] = 0.09 + 2.30066*g - 0.64*g*plc/(g+0.19) - 4.88*g*cell/(g+1.18)
	ds[1] = 2.08*g - 32.24*plc/(plc+29.09)
	ds[2] = release + 0.7*plc + 13.58*g - pump - uptake + 0.1*store
	ds[3] = -release + uptake - 0.1*store
	e0, e1 := g-6.78677, plc-22.65836
	e2, e3 := cell-0.384306, store-0.28977
	ds[4] = e0*e0 + e1*e1 + e2*e2 + e3*e3 + calciumPrice/calciumSpan*u[0]
}

func calciumFunctions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Objectives: func(s, _, _, n, j []T) { j[0] = n[4] - s[4] }}
}

// Calcium is mintOC's Annihilation of calcium oscillations. An inhibitor of given dose, on or off, leads a cell to its
// unstable steady state. It is of Lebiedz, Sager, Bock and Lebiedz (Physical Review Letters 95, 2005), "Annihilation of
// limit-cycle oscillations by identification of critical perturbing stimuli via mixed-integer optimal control". Dose, price and the 48 periods are those of the model calcium of ampl_mintoc
// (https://github.com/czeile/ampl_mintoc). mintOC starts at (0.03966, 1.09799, 0.00142, 1.65431).
func Calcium() equations.System {
	return equations.System{
		Name: "calcium", Description: "calcium oscillations of a cell, ended by an inhibitor",
		State: []domain.Variable{
			v("G-protein", "1", 0, 14), v("phospholipase C", "1", 0, 30), v("calcium", "1", 0, 4), v("stored calcium", "1", 0, 2), v("deviation", "1", 0, 3000),
		},
		Action:     []domain.Variable{v("inhibitor", "1", 0, 0)},
		Objectives: []domain.Variable{v("deviation", "1", 0, 0)},
		Scenario: []domain.Variable{
			v("G-protein", "1", 0.03, 0.3), v("phospholipase C", "1", 0.8, 4), v("calcium", "1", 0.001, 0.05), v("stored calcium", "1", 0.8, 1.8),
		},
		Initial: func(p, s, _ []float64) { copy(s, p); s[4] = 0 },
		Steps:   calciumSteps, StepSeconds: calciumSpan / calciumSteps,
		Switches: []equations.Switch{equations.OnOff("inhibitor")},
		// The pump is a thousand times as fast as the oscillation, and Newton's method of an implicit step is lost
		// in a spike unless it is as short as explicit ones.
		ODE:  &dual.Explicit{Real: calciumODE[float64], Dual: calciumODE[complex128], Span: calciumSpan / calciumSteps, Substeps: 240},
		Real: calciumFunctions[float64](), Dual: calciumFunctions[complex128](),
		Source: equations.From(source, "Calcium"),
	}
}
