package switched

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

const (
	towerSteps    = 48
	towerDt       = 0.5   // h
	towerArea     = 150.0 // m²
	towerLow      = 1.0   // m
	towerHigh     = 5.0   // m
	towerReserve  = 3.0   // m, wanted at midnight
	towerFriction = 0.0008
)

// Indices of the tower's context.
const (
	towerDemand  = iota // m³/h, of the night
	towerMorning        // share of that on top, at 7
	towerEvening        // and at 19
	towerDay            // €/kWh, of the day above the night
	towerClock
)

func towerHour[T dual.Scalar](c []T) T { return 24*c[towerClock] + towerDt/2 }

// towerODE is of the level and three pumps. They share a pipe, and pump less against a higher level.
func towerODE[T dual.Scalar](s, c, u, ds []T) {
	flow := 40*u[0] + 70*u[1] + 120*u[2]
	flow = (flow - towerFriction*flow*flow) * (1 - 0.02*(s[0]-towerReserve))
	hour := towerHour(c)
	demand := c[towerDemand] * (1 + c[towerMorning]*bump(hour, 7) + c[towerEvening]*bump(hour, 19))
	ds[0] = 1 / towerArea * (flow - demand)
}

func towerFunctions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{
		Objectives: func(_, c, u, n, j []T) {
			hour := towerHour(c)
			tariff := 0.12 + c[towerDay]*rise(2*(hour-6))*rise(2*(22-hour))
			j[0] = towerDt * tariff * (9*u[0] + 15*u[1] + 27*u[2])
			short := positive(towerReserve-n[0], 0.05)
			j[1] = 10 * last(c[towerClock], towerSteps) * short * short
		},
		Margins: func(_, _, _, n, m []T) { m[0], m[1] = n[0]-towerLow, towerHigh-n[0] },
	}
}

// WaterTower is a water tower with three pumps of different size for a day. Electricity by a tariff of day and night and
// starts of the pumps stand against what is left at midnight. The numbers are our own, of a tower for some 10,000
// people.
func WaterTower() equations.System {
	small, middle, large := equations.OnOff("small pump"), equations.OnOff("middle pump"), equations.OnOff("large pump")
	for _, w := range []*equations.Switch{&small, &middle, &large} {
		w.Cost, w.Objective = 0.25, "cost"
	}
	day := []domain.Variable{v("demand", "m³/h", 30, 50), v("morning", "1", 0.5, 1.2), v("evening", "1", 0.5, 1.2), v("day tariff", "€/kWh", 0.05, 0.25)}
	return equations.System{
		Name: "water-tower", Description: "water tower with three pumps for a day: money against reserve",
		State:          []domain.Variable{v("level", "m", towerLow, towerHigh)},
		Context:        withoutRanges(day),
		Action:         []domain.Variable{v("small pump", "1", 0, 0), v("middle pump", "1", 0, 0), v("large pump", "1", 0, 0)},
		Objectives:     []domain.Variable{v("cost", "€", 0, 0), v("shortage", "0.1 m²", 0, 0)},
		ObjectiveScale: []float64{2, 10},
		Margins:        []domain.Variable{v("low", "m", 0, 0), v("high", "m", 0, 0)},
		Scenario:       append([]domain.Variable{v("level", "m", 2, 4)}, day...),
		Initial: func(p, s, c []float64) {
			s[0] = p[0]
			copy(c, p[1:])
		},
		Steps: towerSteps, StepSeconds: 3600 * towerDt,
		Switches: []equations.Switch{small, middle, large},
		ODE:      &dual.Explicit{Real: towerODE[float64], Dual: towerODE[complex128], Span: towerDt, Substeps: 1},
		Real:     towerFunctions[float64](), Dual: towerFunctions[complex128](),
		Source: equations.From(source, "WaterTower"),
	}
}
