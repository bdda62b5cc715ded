package backend

import "github.com/gpc-engine/gpc/domain"

// DeviceFunctions is implemented by a backend that runs the device functions of a
// problem (domain.ProblemAbilities.Device) also by themselves, which is what tests hold to the
// problem's own methods.
type DeviceFunctions interface {
	// DeviceGradient runs Base, Objectives and Gradient, in float32.
	DeviceGradient(p domain.Problem, points DeviceRows) (DeviceGradients, error)
	// DeviceStep runs one step of roll-outs in float64 under the adaptive priority.
	// Actions, rounded to float32, are projected or taken as they are. Entry i of the
	// input of E_x is normalised by DeviceNormal(i).
	DeviceStep(p domain.Problem, points DeviceRows, project bool) (DeviceSteps, error)
}

// Teller is implemented by a backend that says what it leaves to the CPU, once for each key.
type Teller interface{ Tell(key, text string) }

// Planner is implemented by a backend that solves plans (domain.Planner).
type Planner interface {
	NewPlans(p domain.Problem, steps int, tolerance float64, iterations int) (*domain.Plans, error)
}

// DeviceRows are points to run device functions at, a row each: states, contexts,
// actions and priorities.
type DeviceRows struct{ S, C, U, Sigma [][]float64 }

// DeviceGradients are results of a batch, a row behind the other.
type DeviceGradients struct{ J, GS, GU, Base []float32 }

// DeviceSteps are what one step of roll-outs leaves, a row behind the other: executed
// actions, each at the begin of a plan, next states and contexts, costs, smallest margins
// and all of them, and the input of E_x there.
type DeviceSteps struct {
	Plan, S, C, Cost, Margin, Margins []float64
	Input                             []float32
}

// DeviceNormal is the mean and the scale of entry i of DeviceStep's input of E_x.
func DeviceNormal(i int) (mean, scale float32) { return float32(i) / 8, 1 + float32(i)/4 }
