package equations

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
)

// withActuatorGains are the systems around y with other actuator gains. Every system has these parameters, after
// those of y.Plants.
func (y *System) withActuatorGains() *Plants {
	plants := Plants{New: func([]float64) System { return *y }}
	if y.Plants != nil {
		plants = *y.Plants
	}
	n := len(plants.Parameters)
	extended := Plants{Parameters: slices.Clone(plants.Parameters)}
	var varied []int
	for i, a := range y.Action {
		if slices.ContainsFunc(plants.Parameters, func(p domain.PlantParameter) bool { return p.Name == a.Name }) {
			continue
		}
		varied = append(varied, i)
		extended.Parameters = append(extended.Parameters, domain.PlantParameter{Name: a.Name, About: "gain of this actuator: what acts of each unit that is asked for"})
	}
	extended.New = func(factors []float64) System {
		scaledSystem := plants.New(factors[:n])
		gains := slices.Repeat([]float64{1}, len(y.Action))
		for k, i := range varied {
			gains[i] = factors[n+k]
		}
		if !slices.ContainsFunc(gains, func(g float64) bool { return g != 1 }) {
			return scaledSystem
		}
		scaledSystem.Source = scaledSystem.withGains(gainSource{constants: gains})
		scaledSystem.Constants = struct {
			Inner any       `json:"own"`
			Gains []float64 `json:"gains"`
		}{scaledSystem.Constants, gains}
		constants := domain.Constants(make([]complex128, len(gains)), gains)
		return scaledSystem.withActuator(func(_, u []float64) []float64 { return multiply(gains, u) }, func(_, u []complex128) []complex128 { return multiply(constants, u) })
	}
	return &extended
}

// withActuator is the system with real and dual(c, u) in place of u in its dynamics. Objectives, margins and Step
// next to an ODE still get u.
func (y System) withActuator(real func(c, u []float64) []float64, dualOf func(c, u []complex128) []complex128) System {
	switch {
	case y.ODE != nil:
		ode := y.ODE
		y.ODE = ode.With(func(s, c, u, ds []float64) { ode.Real(s, c, real(c, u), ds) }, func(s, c, u, ds []complex128) { ode.Dual(s, c, dualOf(c, u), ds) })
	case y.Stiff != nil:
		stiff := y.Stiff
		y.Stiff = stiff.With(func(s, c, u, ds []complex128) { stiff.ODE(s, c, dualOf(c, u), ds) })
	default:
		step, dualStep := y.Real.Step, y.Dual.Step
		y.Real.Step = func(s, c, u, sNext, cNext []float64) { step(s, c, real(c, u), sNext, cNext) }
		y.Dual.Step = func(s, c, u, sNext, cNext []complex128) { dualStep(s, c, dualOf(c, u), sNext, cNext) }
	}
	return y
}

// UncertainGains is the system with the gain of every actuator as a parameter. It is an entry of the context, drawn
// from 1 − share to 1 + share, so that a map is trained over this range. With a Measurement no gain is known: the
// filter estimates it with the state, and methods get the estimate. The name is y's and "-gains".
func (y System) UncertainGains(share float64) (System, error) {
	if !(share > 0) || share >= 1 {
		return System{}, fmt.Errorf("system %q: gains of 1 ± %v, want a number above 0 and below 1", y.Name, share)
	}
	if y.Real.Step == nil && y.ODE == nil && y.Stiff == nil {
		return System{}, fmt.Errorf("system %q: no action changes its state, so that there are no gains to vary", y.Name)
	}
	nc, parameters, gains := len(y.Context), len(y.Scenario), len(y.Action)
	inner := y // before its context is extended
	y.Name, y.Description = y.Name+"-gains", y.Description+", whose actuators have gains that are not known"
	y.Source, y.Plants = inner.withGains(gainSource{}), inner.plantsWithGains(share)
	y.Context, y.Scenario = slices.Clone(y.Context), slices.Clone(y.Scenario)
	for _, a := range y.Action {
		gain := domain.Variable{Name: "gain of " + a.Name, Unit: "1", Lo: 1 - share, Hi: 1 + share}
		y.Context, y.Scenario = append(y.Context, gain), append(y.Scenario, gain)
	}
	y.Initial = func(p, s, c []float64) {
		inner.Initial(p[:parameters], s, c)
		copy(c[nc:nc+gains], p[parameters:])
	}
	y.gains, y.share = make([]domain.Unknown, gains), share
	for i := range y.gains { // of a uniform distribution
		y.gains[i] = domain.Unknown{Context: nc + i, Mean: 1, Deviation: share / domain.UniformBound, Lo: 1 - 2*share, Hi: 1 + 2*share}
	}
	if inner.Measurement != nil {
		y.Measurement = inner.Measurement.With(y.gains)
	}
	y.Real, y.Dual = withGainContext(inner.Real, nc, gains), withGainContext(inner.Dual, nc, gains)
	innerContext(&y, &inner, func(c []float64) []float64 { return ownContext(c, nc, gains) }, func(c []complex128) []complex128 { return ownContext(c, nc, gains) })
	return y.withActuator(func(c, u []float64) []float64 { return multiply(c[nc:], u) }, func(c, u []complex128) []complex128 { return multiply(c[nc:], u) }), nil
}

// UncertainGains is the share of a system with UncertainGains, and the gains as unknowns of its Measurement; 0 and
// none of another system.
func (p *Problem) UncertainGains() (share float64, unknown []domain.Unknown) {
	return p.system.share, slices.Clone(p.system.gains)
}

// plantsWithGains are the plants of y with the same uncertain gains.
func (y *System) plantsWithGains(share float64) *Plants {
	if y.Plants == nil {
		return nil
	}
	plants := *y.Plants
	return &Plants{Parameters: plants.Parameters, New: func(factors []float64) System {
		varied, err := plants.New(factors).UncertainGains(share)
		if err != nil {
			return System{} // shifts refuses it by its name
		}
		return varied
	}}
}

func multiply[T dual.Scalar](gains, u []T) []T {
	applied := make([]T, len(u))
	for i, v := range u {
		applied[i] = gains[i] * v
	}
	return applied
}

// ownContext is a context without gains: the system's own entries, then the clock, if any.
func ownContext[T dual.Scalar](c []T, nc, gains int) []T {
	if len(c) == nc+gains {
		return c[:nc]
	}
	return append(c[:nc:nc], c[nc+gains:]...)
}

// withGainContext are functions whose context has gains after the first nc entries.
func withGainContext[T dual.Scalar](inner Functions[T], nc, gains int) Functions[T] {
	y := inner
	if inner.Step != nil {
		y.Step = func(s, c, u, sNext, cNext []T) {
			next := slices.Clone(ownContext(cNext, nc, gains))
			inner.Step(s, ownContext(c, nc, gains), u, sNext, next)
			copy(cNext[:nc], next)
		}
	}
	y.Objectives = func(s, c, u, sNext, j []T) { inner.Objectives(s, ownContext(c, nc, gains), u, sNext, j) }
	if inner.Margins != nil {
		y.Margins = func(s, c, u, sNext, m []T) { inner.Margins(s, ownContext(c, nc, gains), u, sNext, m) }
	}
	if inner.Escape != nil {
		y.Escape = func(s, c, u []T) { inner.Escape(s, ownContext(c, nc, gains), u) }
	}
	return y
}
