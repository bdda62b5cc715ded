package switched

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

const (
	heatPumpSteps = 192
	heatPumpDays  = 2
	heatPumpDt    = 0.25 // h
	heatPumpPower = 2.8  // kW of electricity
	houseRoom     = 4.0  // kWh/K of air, furniture and inner walls
	houseFloor    = 8.0  // kWh/K of the heated screed
	houseLoss     = 0.18 // kW/K to the outside
	houseSurface  = 1.0  // kW/K from the floor
	houseWindow   = 3.5  // m², of the sun that comes in
	houseCold     = 18.0 // °C
	houseHot      = 24.5 // °C
	houseFloorMax = 33.0 // °C
	solarPeak     = 8.0  // kW at 1 kW/m²
	batteryPower  = 4.0  // kW
	batteryLoss   = 0.012
	batteryLow    = 0.5  // kWh
	batteryHigh   = 9.5  // kWh
	feedIn        = 0.07 // €/kWh
	batteryWorth  = 0.2  // €/kWh left at the end
	heatWorth     = 0.05 // €/kWh of heat left at the end
)

// Indices of the house's context.
const (
	houseMean   = iota // °C outside
	houseSwing         // K, half the difference of afternoon and night
	houseSun           // kW/m² at noon
	housePeak          // €/kWh, of the evening above the night
	houseTarget        // °C
	houseClock
)

// bump is 1 at an hour of each day, with a deviation of about 80 minutes.
func bump[T dual.Scalar](hour T, peak float64) T {
	return dual.Exp(8 * (dual.Cos(2*math.Pi/24*(hour-dual.Const[T](peak))) - 1))
}

// houseHour is the time in the middle of a period, in h.
func houseHour[T dual.Scalar](c []T) T { return 24*heatPumpDays*c[houseClock] + heatPumpDt/2 }

// houseLight is the sun on the ground, in kW/m².
func houseLight[T dual.Scalar](c []T) T {
	return c[houseSun] * dual.Max(0, -dual.Cos(2*math.Pi/24*houseHour(c)))
}

// houseODE is of s = (room, floor, battery) and u = (heat pump, charging).
func houseODE[T dual.Scalar](s, c, u, ds []T) {
	ambient := c[houseMean] + c[houseSwing]*dual.Cos(2*math.Pi/24*(houseHour(c)-15))
	gain := 3.8 + 0.07*ambient - 0.06*(s[1]-25) // heat for electricity
	up := houseSurface * (s[1] - s[0])
	ds[0] = 1 / houseRoom * (up - houseLoss*(s[0]-ambient) + houseWindow*houseLight(c))
	ds[1] = 1 / houseFloor * (heatPumpPower*gain*u[0] - up)
	ds[2] = u[1] - batteryLoss*u[1]*u[1]
}

func houseObjectives[T dual.Scalar](s, c, u, n, j []T) {
	hour := houseHour(c)
	evening, morning := bump(hour, 19), bump(hour, 8)
	tariff := 0.22 + c[housePeak]*(evening+0.6*morning)
	grid := 0.4 + 0.8*evening + 0.4*morning + heatPumpPower*u[0] + u[1] - solarPeak*houseLight(c)
	bought := positive(grid, 0.05)
	stored := batteryWorth*(n[2]-s[2]) + heatWorth*(houseRoom*(n[0]-s[0])+houseFloor*(n[1]-s[1]))
	j[0] = heatPumpDt*(tariff*bought-feedIn*(bought-grid)) - stored
	e := n[0] - c[houseTarget]
	j[1] = heatPumpDt * e * e
}

func houseMargins[T dual.Scalar](_, _, _, n, m []T) {
	m[0], m[1], m[2] = n[0]-houseCold, houseHot-n[0], houseFloorMax-n[1]
	m[3], m[4] = n[2]-batteryLow, batteryHigh-n[2]
}

func houseFunctions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{Objectives: houseObjectives[T], Margins: houseMargins[T]}
}

// HeatPump is a house for two winter days. Its heat pump is on or off for at least half an hour each. It has a battery,
// sun on the roof, and a tariff with peaks in the morning and in the evening. Weather and tariff are forecast: the
// context holds their parameters. The cost counts what is left in battery, floor and room. The numbers are our own,
// of a detached house with floor heating.
func HeatPump() equations.System {
	pump := equations.OnOff("heat pump")
	pump.Least, pump.Cost, pump.Objective = []int{2, 2}, 0.02, "cost"
	forecast := []domain.Variable{
		v("outside", "°C", -4, 8), v("swing", "K", 1, 5), v("sun", "kW/m²", 0.05, 0.5), v("peak", "€/kWh", 0.05, 0.4), v("target", "°C", 20.5, 22),
	}
	return equations.System{
		Name: "heat-pump", Description: "heat pump and battery of a house for two days: money against comfort",
		State:      []domain.Variable{v("room", "°C", 18, 24), v("floor", "°C", 20, 32), v("battery", "kWh", 0, 10)},
		Context:    withoutRanges(forecast),
		Action:     []domain.Variable{v("heat pump", "1", 0, 0), v("charging", "kW", -batteryPower, batteryPower)},
		Objectives: []domain.Variable{v("cost", "€", 0, 0), v("discomfort", "K²h", 0, 0)},
		Margins: []domain.Variable{
			v("cold room", "K", 0, 0), v("hot room", "K", 0, 0), v("hot floor", "K", 0, 0), v("empty battery", "kWh", 0, 0), v("full battery", "kWh", 0, 0),
		},
		Scenario: append([]domain.Variable{v("room", "°C", 19.5, 22), v("floor above", "K", 1, 5), v("battery", "kWh", 1, 9)}, forecast...),
		Initial: func(p, s, c []float64) {
			s[0], s[1], s[2] = p[0], p[0]+p[1], p[2]
			copy(c, p[3:])
		},
		Steps: heatPumpSteps, StepSeconds: 3600 * heatPumpDt,
		Switches: []equations.Switch{pump},
		ODE:      &dual.Explicit{Real: houseODE[float64], Dual: houseODE[complex128], Span: heatPumpDt, Substeps: 1},
		Real:     houseFunctions[float64](), Dual: houseFunctions[complex128](),
		Source: equations.From(source, "HeatPump"),
	}
}
