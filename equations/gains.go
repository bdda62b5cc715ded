package equations

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
)

// gained are the systems around y whose actuators make more or less of each action: what every system has as parameters
// of its plant, behind those of y.Plants.
func (y *System) gained() *Plants {
	own := Plants{New: func([]float64) System { return *y }}
	if y.Plants != nil {
		own = *y.Plants
	}
	n := len(own.Parameters)
	all := Plants{Parameters: slices.Clone(own.Parameters)}
	var at []int
	for i, a := range y.Action {
		if slices.ContainsFunc(own.Parameters, func(p domain.PlantParameter) bool { return p.Name == a.Name }) {
			continue
		}
		at = append(at, i)
		all.Parameters = append(all.Parameters, domain.PlantParameter{Name: a.Name, About: "gain of this actuator: what acts of each unit that is asked for"})
	}
	all.New = func(factors []float64) System {
		made := own.New(factors[:n])
		gains := slices.Repeat([]float64{1}, len(y.Action))
		for k, i := range at {
			gains[i] = factors[n+k]
		}
		if !slices.ContainsFunc(gains, func(g float64) bool { return g != 1 }) {
			return made
		}
		made.Source = made.withGains(scaled{constants: gains})
		made.Constants = struct {
			Own   any       `json:"own"`
			Gains []float64 `json:"gains"`
		}{made.Constants, gains}
		return made.moved(func(_, u []float64) []float64 { return times(gains, u) }, func(_, u []complex128) []complex128 { return times(gains, u) })
	}
	return &all
}

func times[T dual.Scalar](gains []float64, u []T) []T {
	acts := make([]T, len(u))
	for i, v := range u {
		acts[i] = dual.Const[T](gains[i]) * v
	}
	return acts
}

// moved is the system that real and dual(c, u) move in place of u. Objectives, margins and what ODE leaves to Step are
// of u.
func (y System) moved(real func(c, u []float64) []float64, dualOf func(c, u []complex128) []complex128) System {
	switch {
	case y.ODE != nil:
		ode := y.ODE
		y.ODE = &dual.Explicit{
			Real: func(s, c, u, ds []float64) { ode.Real(s, c, real(c, u), ds) },
			Dual: func(s, c, u, ds []complex128) { ode.Dual(s, c, dualOf(c, u), ds) },
			Span: ode.Span, Substeps: ode.Substeps,
		}
	case y.Stiff != nil:
		stiff := y.Stiff
		y.Stiff = &dual.Stiff{
			ODE: func(s, c, u, ds []complex128) { stiff.ODE(s, c, dualOf(c, u), ds) }, Span: stiff.Span, Substeps: stiff.Substeps,
		}
	default:
		step, dualStep := y.Real.Step, y.Dual.Step
		y.Real.Step = func(s, c, u, sNext, cNext []float64) { step(s, c, real(c, u), sNext, cNext) }
		y.Dual.Step = func(s, c, u, sNext, cNext []complex128) { dualStep(s, c, dualOf(c, u), sNext, cNext) }
	}
	return y
}

// UncertainGains is the system with the gain of every actuator as a parameter: an entry of the context that the
// scenario draws from 1 − share to 1 + share, so that a map is trained over this range. With a Measurement no gain is
// known; the filter estimates it beside the state, and methods are given the estimate. Its name is y's with "-gains"
// behind it.
func (y System) UncertainGains(share float64) (System, error) {
	if !(share > 0) || share >= 1 {
		return System{}, fmt.Errorf("system %q: gains of 1 ± %v, want a number above 0 and below 1", y.Name, share)
	}
	if y.Real.Step == nil && y.ODE == nil && y.Stiff == nil {
		return System{}, fmt.Errorf("system %q: no action changes its state, so that there are no gains to vary", y.Name)
	}
	own, parameters, gains := len(y.Context), len(y.Scenario), len(y.Action)
	of := y // before its context grows
	y.Name, y.Description = y.Name+"-gains", y.Description+", whose actuators have gains that are not known"
	y.Source, y.Plants = of.withGains(scaled{}), of.plantsWithGains(share)
	y.Context, y.Scenario = slices.Clone(y.Context), slices.Clone(y.Scenario)
	for _, a := range y.Action {
		gain := domain.Variable{Name: "gain of " + a.Name, Unit: "1", Lo: 1 - share, Hi: 1 + share}
		y.Context, y.Scenario = append(y.Context, gain), append(y.Scenario, gain)
	}
	y.Initial = func(p, s, c []float64) {
		of.Initial(p[:parameters], s, c)
		copy(c[own:own+gains], p[parameters:])
	}
	y.gains, y.share = make([]domain.Unknown, gains), share
	for i := range y.gains { // uniform in its range
		y.gains[i] = domain.Unknown{Context: own + i, Mean: 1, Deviation: share / domain.UniformBound, Lo: 1 - 2*share, Hi: 1 + 2*share}
	}
	if of.Measurement != nil {
		m := of.Measurement.With(y.gains)
		if m.Real != nil {
			inner := *m
			m.Real = func(s, c, u, out []float64) { inner.Real(s, without(c, own, gains), u, out) }
			m.Dual = func(s, c, u, out []complex128) { inner.Dual(s, without(c, own, gains), u, out) }
		}
		y.Measurement = m
	}
	y.Real, y.Dual = among(of.Real, own, gains), among(of.Dual, own, gains)
	y.ODE, y.Stiff = odeAmong(of.ODE, own, gains), stiffAmong(of.Stiff, own, gains)
	if of.Failed != nil {
		y.Failed = func(s, c []float64) bool { return of.Failed(s, without(c, own, gains)) }
	}
	if of.Urgency != nil {
		y.Urgency = func(s, c, delta []float64) { of.Urgency(s, without(c, own, gains), delta) }
	}
	if of.Picture != nil {
		y.Picture = func(s, c []float64) []domain.Shape { return of.Picture(s, without(c, own, gains)) }
	}
	return y.moved(func(c, u []float64) []float64 { return product(c[own:], u) }, func(c, u []complex128) []complex128 { return product(c[own:], u) }), nil
}

// UncertainGains is the share of a system with UncertainGains, and the gains as what its Measurement does not know; 0 and none of
// another system.
func (p *Problem) UncertainGains() (share float64, unknown []domain.Unknown) {
	return p.system.share, slices.Clone(p.system.gains)
}

// plantsWithGains are the systems around y with the same gains.
func (y *System) plantsWithGains(share float64) *Plants {
	if y.Plants == nil {
		return nil
	}
	own := *y.Plants
	return &Plants{Parameters: own.Parameters, New: func(factors []float64) System {
		made, err := own.New(factors).UncertainGains(share)
		if err != nil {
			return System{} // whose name is that of no system
		}
		return made
	}}
}

func product[T dual.Scalar](gains, u []T) []T {
	acts := make([]T, len(u))
	for i, v := range u {
		acts[i] = gains[i] * v
	}
	return acts
}

// without is a context as the functions of the system itself know it: its own entries, and then the clock, where there
// is one.
func without[T dual.Scalar](c []T, own, gains int) []T {
	if len(c) == own+gains {
		return c[:own]
	}
	return append(c[:own:own], c[own+gains:]...)
}

// among are functions whose contexts have gains behind own entries.
func among[T dual.Scalar](of Of[T], own, gains int) Of[T] {
	y := of
	if of.Step != nil {
		y.Step = func(s, c, u, sNext, cNext []T) {
			after := slices.Clone(without(cNext, own, gains))
			of.Step(s, without(c, own, gains), u, sNext, after)
			copy(cNext[:own], after)
		}
	}
	y.Objectives = func(s, c, u, sNext, j []T) { of.Objectives(s, without(c, own, gains), u, sNext, j) }
	if of.Margins != nil {
		y.Margins = func(s, c, u, sNext, m []T) { of.Margins(s, without(c, own, gains), u, sNext, m) }
	}
	if of.Escape != nil {
		y.Escape = func(s, c, u []T) { of.Escape(s, without(c, own, gains), u) }
	}
	return y
}

func odeAmong(of *dual.Explicit, own, gains int) *dual.Explicit {
	if of == nil {
		return nil
	}
	return &dual.Explicit{
		Real: func(s, c, u, ds []float64) { of.Real(s, without(c, own, gains), u, ds) },
		Dual: func(s, c, u, ds []complex128) { of.Dual(s, without(c, own, gains), u, ds) },
		Span: of.Span, Substeps: of.Substeps,
	}
}

func stiffAmong(of *dual.Stiff, own, gains int) *dual.Stiff {
	if of == nil {
		return nil
	}
	return &dual.Stiff{ODE: func(s, c, u, ds []complex128) { of.ODE(s, without(c, own, gains), u, ds) }, Span: of.Span, Substeps: of.Substeps}
}
