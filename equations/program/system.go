package program

import "fmt"

// Integrator integrates the function "ode" over a step.
type Integrator uint8

// The integrators; see package equations/dual for their arithmetic.
const (
	NoIntegrator Integrator = iota // "step" writes sNext and cNext
	RK4                            // the classical method of order 4
	Radau                          // Radau IIA of two stages, implicit
)

// System is a controlled system as data. Its functions are ode, step, objectives, margins, escape, initial, urgency
// and failed, as far as it has them. Their inputs are s, c, u, sNext and p (docs/reference/program.md).
type System struct {
	*Program
	// Integrator computes sNext from the ode, over Span in its unit of time, in Substeps equal steps.
	Integrator Integrator
	Span       float64
	Substeps   int
	// EscapeSteps is the number of escape steps after an action whose limits count.
	EscapeSteps int
	// Rest is the neutral action.
	Rest []float64
	// StateScale is the typical size of each state.
	StateScale []float64
	// ObjectiveScale gives urgencies without a function urgency: J/(J + scale) of staying at Rest.
	ObjectiveScale []float64
}

// Validate reports a missing function or number.
func (y *System) Validate() error {
	if y.Program == nil {
		return fmt.Errorf("the system has no program, want its equations as one")
	}
	if err := y.Program.Validate(); err != nil {
		return err
	}
	required := []string{"step", "objectives", "initial"}
	if y.Integrator != NoIntegrator {
		required = append(required, "ode")
		if !(y.Span > 0) || y.Substeps < 1 {
			return fmt.Errorf("system %q: its integrator makes %d steps over a span of %v s, want both positive", y.Name, y.Substeps, y.Span)
		}
	}
	if y.EscapeSteps > 0 {
		required = append(required, "escape", "margins")
	}
	for _, name := range required {
		if y.Function(name) == nil {
			return fmt.Errorf("system %q: its program has no function %s", y.Name, name)
		}
	}
	return nil
}
