package switched

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
)

const (
	gearsSteps   = 60
	gearsDt      = 2.0    // s
	gearsMass    = 1239.0 // kg
	gearsGravity = 9.81   // m/s²
	gearsAir     = 0.5 * 0.3 * 1.249512 * 1.4378946874
	gearsRolling = 0.012
	gearsAxle    = 3.91 / 0.302 // 1/m, final drive by the wheel's radius
	gearsBrake   = 6000.0       // N
	gearsIdle    = 85.0         // rad/s
	gearsFastest = 600.0        // rad/s
	gearsBurst   = 700.0        // rad/s, beyond which the curves stay as they are
	gearsBurn    = 1 / (0.4 * 43000)
	gearsTown    = 1200.0 // m, its middle
	gearsSlope   = 80.0   // m, over which its limit sets in
	gearsHalf    = 250.0  // m
)

// ratio is that of a gear, 1 to 5.
func ratio[T dual.Scalar](gear T) T {
	return 3.91*indicator(gear, 1, 5) + 2.002*indicator(gear, 2, 5) + 1.33*indicator(gear, 3, 5) + indicator(gear, 4, 5) + 0.805*indicator(gear, 5, 5)
}

// engine is its torque at full throttle and without, in Nm, at rad/s.
func engine[T dual.Scalar](speed T) (full, drag T) {
	return -37.8 + 1.54*speed - 0.0019*speed*speed, -34.9 - 0.04775*speed
}

// grade is the slope of the road, of two waves.
func grade[T dual.Scalar](x T, c []T) T {
	return c[0]*dual.Sin(2*math.Pi/900*x+c[1]) + c[2]*dual.Sin(2*math.Pi/370*x+2*c[1])
}

// limit is the largest speed at a place.
func limit[T dual.Scalar](x T, c []T) T {
	return c[3] - c[4]*rise(1/gearsSlope*(x-(gearsTown-gearsHalf)))*rise(1/gearsSlope*(gearsTown+gearsHalf-x))
}

// gearsODE is of s = (position, speed, fuel).
func gearsODE[T dual.Scalar](s, c, u, ds []T) {
	total := gearsAxle * ratio(u[0])
	speed := dual.Min(gearsBurst, total*dual.Max(0, s[1]))
	full, drag := engine(speed)
	moving := dual.Tanh(0.5 * s[1]) // a car at rest does not brake
	torque := moving*drag + u[1]*(full-drag)
	slope := grade(s[0], c)
	ds[0] = s[1]
	ds[1] = 1/gearsMass*(total*torque-gearsBrake*u[2]*moving-gearsAir*s[1]*dual.Abs(s[1])) - gearsGravity*(gearsRolling*moving+slope)
	// The work in the cylinders is that of the torque and of the drag.
	ds[2] = 0.08 + gearsBurn*u[1]*(full-drag)*speed
}

func gearsFunctions[T dual.Scalar]() equations.Functions[T] {
	return equations.Functions[T]{
		Objectives: func(s, c, _, n, j []T) {
			j[0] = gearsDt - (n[0]-s[0])/c[3]
			j[1] = 0.1 * (n[2] - s[2])
		},
		Margins: func(s, c, u, n, m []T) {
			total := gearsAxle * ratio(u[0])
			m[0] = limit(n[0], c) - n[1]
			m[1] = 0.01 * (gearsFastest - total*dual.Max(s[1], n[1]))
			m[2] = 0.01 * (total*n[1] - gearsIdle)
		},
	}
}

// Gears is a car on a hilly road, which passes a town: gear, throttle and brake for little time and fuel. Mass, air
// drag, gears and the engine's curves are of Gerdts (Optimal Control Applications and Methods 26, 2005). His title is
// "Solving mixed-integer optimal control problems by branch&bound: a case study from automobile test-driving with gear
// shift". Road, limits and fuel, by 40 % efficiency inside the engine, are our own.
func Gears() equations.System {
	shift := equations.Integer("gear", 1, 5)
	shift.Cost, shift.Objective = 0.1, "fuel"
	return equations.System{
		Name: "gears", Description: "car with five gears on a hilly road: time against fuel",
		State:      []domain.Variable{v("position", "m", 0, 2800), v("speed", "m/s", 5, 28), v("fuel", "g", 0, 200)},
		Context:    []domain.Variable{v("hills", "1", 0, 0), v("phase", "rad", 0, 0), v("bumps", "1", 0, 0), v("limit", "m/s", 0, 0), v("drop", "m/s", 0, 0)},
		Action:     []domain.Variable{v("gear", "1", 0, 0), v("throttle", "1", 0, 1), v("brake", "1", 0, 1)},
		Objectives: []domain.Variable{v("delay", "s", 0, 0), v("fuel", "10 g", 0, 0)},
		Margins:    []domain.Variable{v("speed limit", "m/s", 0, 0), v("fast engine", "100 rad/s", 0, 0), v("slow engine", "100 rad/s", 0, 0)},
		Scenario: []domain.Variable{
			v("speed", "m/s", 10, 17), v("hills", "1", 0, 0.05), v("phase", "rad", -math.Pi, math.Pi), v("bumps", "1", 0, 0.02), v("limit", "m/s", 20, 27), v("drop", "m/s", 4, 8),
		},
		Initial: func(p, s, c []float64) {
			s[0], s[1], s[2] = 0, p[0], 0
			copy(c, p[1:])
		},
		Steps: gearsSteps, StepSeconds: gearsDt,
		Switches: []equations.Switch{shift},
		ODE:      &dual.Explicit{Real: gearsODE[float64], Dual: gearsODE[complex128], Span: gearsDt, Substeps: 4},
		Real:     gearsFunctions[float64](), Dual: gearsFunctions[complex128](),
		Source: equations.From(source, "Gears"),
		Rest:   []float64{3, 0.2, 0},
	}
}
