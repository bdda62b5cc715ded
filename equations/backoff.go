package equations

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations/dual"
)

// withBackoff is the same problem with margins reduced by the backoff of their stage, a constant to every derivative.
func (p *Problem) withBackoff(b *domain.Backoff) *Problem {
	copied := &Problem{
		system: p.system, original: p.original, declared: p.declared, switching: p.switching, relaxation: p.relaxation, spec: p.spec, clock: p.clock, half: p.half, constants: p.constants, behaviour: p.behaviour,
		program: p.program, corners: p.corners, valueCode: p.valueCode, derivativeCode: p.derivativeCode, projectionCode: p.projectionCode,
		stateOnly: p.stateOnly, backoff: b,
	}
	copied.works.New = copied.newWork
	return copied
}

// clockReading is the clock in a context, 0 with an infinite horizon.
func clockReading[T dual.Scalar](p *Problem, c []T) float64 {
	if p.clock < 0 {
		return 0
	}
	return dual.Value(c[p.clock])
}

// subtractBackoff subtracts the backoff at a clock's reading from margins.
func subtractBackoff[T dual.Scalar](p *Problem, clock float64, m []T) {
	if p.backoff == nil {
		return
	}
	row := p.backoff.Row(clock)
	for i := range m { // a relaxed problem has the margins of the system alone
		m[i] -= dual.Const[T](row[i])
	}
}
