package program

import "fmt"

// Integrator is what makes a step of the function "ode".
type Integrator uint8

// The integrators; see package equations/dual for their arithmetic.
const (
	NoIntegrator Integrator = iota // "step" writes sNext and cNext
	RK4                            // the classical method of order 4
	Radau                          // Radau IIA of two stages, implicit
)

// System is a controlled system as data: its functions by the names ode, step, objectives, margins, escape, initial, urgency
// and failed, as far as it has them, with inputs s, c, u, sNext and p (docs/reference/program.md), and the numbers that put them together.
type System struct {
	*Program
	// Integrator makes sNext of the ode, over Span in its unit of time, in Substeps equal steps.
	Integrator Integrator
	Span       float64
	Substeps   int
	// EscapeSteps is how many steps of the escape the limits are watched for after an action.
	EscapeSteps int
	// Rest is the action that does the least.
	Rest []float64
	// StateScale is the typical size of each state.
	StateScale []float64
	// ObjectiveScale makes urgencies where there is no function urgency: J/(J + scale) of staying at Rest.
	ObjectiveScale []float64
}

// Validate says which function or number is missing.
func (y *System) Validate() error {
	if y.Program == nil {
		return fmt.Errorf("the system has no program, want its equations as one")
	}
	if err := y.Program.Validate(); err != nil {
		return err
	}
	needed := []string{"step", "objectives", "initial"}
	if y.Integrator != NoIntegrator {
		needed = append(needed, "ode")
		if !(y.Span > 0) || y.Substeps < 1 {
			return fmt.Errorf("system %q: its integrator makes %d steps over a span of %v s, want both positive", y.Name, y.Substeps, y.Span)
		}
	}
	if y.EscapeSteps > 0 {
		needed = append(needed, "escape", "margins")
	}
	for _, name := range needed {
		if y.Function(name) == nil {
			return fmt.Errorf("system %q: its program has no function %s", y.Name, name)
		}
	}
	return nil
}
