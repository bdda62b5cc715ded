package estimate

import "github.com/gpc-engine/gpc/domain"

// duals are state, context and action as dual numbers, one of which varies at a time.
type duals struct {
	of      *domain.Measurement
	s, c, u []complex128
	y       []complex128
}

func newDuals(of *domain.Measurement, ns, nc, nu int) duals {
	return duals{of: of, s: make([]complex128, ns), c: make([]complex128, nc), u: make([]complex128, nu), y: make([]complex128, len(of.Outputs))}
}

// set writes values that do not vary.
func (d *duals) set(s, c, u []float64) {
	for _, w := range [3]struct {
		to   []complex128
		from []float64
	}{{d.s, s}, {d.c, c}, {d.u, u}} {
		for i, v := range w.from {
			w.to[i] = complex(v, 0)
		}
	}
}

// entry is input k: the states, the unknown entries of the context, then the actions.
func (d *duals) entry(k int) *complex128 {
	unknown := k - len(d.s)
	switch action := unknown - len(d.of.Unknown); {
	case unknown < 0:
		return &d.s[k]
	case action < 0:
		return &d.c[d.of.Unknown[unknown].Context]
	default:
		return &d.u[action]
	}
}

// vary calls f while input k varies.
func (d *duals) vary(k int, f func()) {
	at := d.entry(k)
	was := *at
	*at = complex(real(was), domain.DualStep)
	f()
	*at = was
}

// slopes writes derivatives by the varying input into column k of rows of n.
func slopes(of []complex128, rows []float64, n, k int) {
	for i, v := range of {
		rows[i*n+k] = imag(v) / domain.DualStep
	}
}

// outputs writes the derivatives of what is measured in the n estimated entries, [outputs][n].
func (d *duals) outputs(s, c, u []float64, rows []float64, n int) {
	if d.of.Dual == nil {
		clear(rows)
		for i := range d.y {
			rows[i*n+d.of.State(i)] = 1
		}
		return
	}
	d.set(s, c, u)
	for k := range n {
		d.vary(k, func() { d.of.Dual(d.s, d.c, d.u, d.y) })
		slopes(d.y, rows, n, k)
	}
}
