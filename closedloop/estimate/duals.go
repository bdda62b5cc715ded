package estimate

import "github.com/gpc-engine/gpc/domain"

// duals are state, context and action as dual numbers, one of which varies at a time.
type duals struct {
	measurement *domain.Measurement
	s, c, u     []complex128
	y           []complex128
}

func newDuals(measurement *domain.Measurement, ns, nc, nu int) duals {
	return duals{measurement: measurement, s: make([]complex128, ns), c: make([]complex128, nc), u: make([]complex128, nu), y: make([]complex128, len(measurement.Outputs))}
}

// set writes values that do not vary.
func (d *duals) set(s, c, u []float64) {
	domain.Constants(d.s, s)
	domain.Constants(d.c, c)
	domain.Constants(d.u, u)
}

// entry is input k: the states, the unknown entries of the context, then the actions.
func (d *duals) entry(k int) *complex128 {
	unknown := k - len(d.s)
	switch action := unknown - len(d.measurement.Unknown); {
	case unknown < 0:
		return &d.s[k]
	case action < 0:
		return &d.c[d.measurement.Unknown[unknown].Context]
	default:
		return &d.u[action]
	}
}

// vary calls f while input k varies.
func (d *duals) vary(k int, f func()) {
	entry := d.entry(k)
	value := *entry
	*entry = complex(real(value), domain.DualStep)
	f()
	*entry = value
}

// slopes writes derivatives by the varying input into column k of rows of n.
func slopes(values []complex128, rows []float64, n, k int) {
	for i, v := range values {
		rows[i*n+k] = imag(v) / domain.DualStep
	}
}

// outputs writes the derivatives of what is measured in the n estimated entries, [outputs][n].
func (d *duals) outputs(s, c, u []float64, rows []float64, n int) {
	if d.measurement.Dual == nil {
		clear(rows)
		for i := range d.y {
			rows[i*n+d.measurement.State(i)] = 1
		}
		return
	}
	d.set(s, c, u)
	for k := range n {
		d.vary(k, func() { d.measurement.Dual(d.s, d.c, d.u, d.y) })
		slopes(d.y, rows, n, k)
	}
}
