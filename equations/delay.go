package equations

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
)

// delay is the System's, with the state within a period where a differential equation gives it.
func (p *Problem) delay() domain.Delay {
	d := domain.Delay{Periods: p.system.Delay}
	if p.system.ODE != nil || p.system.Stiff != nil {
		d.Part = func(share float64, s, c, u, sNext []float64) { part(p, share, s, c, u, sNext) }
		d.PartDual = func(share float64, s, c, u, sNext []complex128) { part(p, share, s, c, u, sNext) }
	}
	return d
}

// part is the step of ODE or Stiff over a share of its span.
func part[T dual.Scalar](p *Problem, share float64, s, c, u, sNext []T) {
	y := System{}
	if ode := p.system.ODE; ode != nil {
		y.ODE = &dual.Explicit{Real: ode.Real, Dual: ode.Dual, Span: share * ode.Span, Substeps: ode.Substeps}
	} else {
		y.Stiff = &dual.Stiff{ODE: p.system.Stiff.ODE, Span: share * p.system.Stiff.Span, Substeps: p.system.Stiff.Substeps}
	}
	integrate(&y, s, c, u, sNext)
}
