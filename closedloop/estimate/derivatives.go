package estimate

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// linearised writes the derivatives of a stage by dual numbers.
type linearised struct {
	dual    domain.Derivatives
	n, ns   int
	nu, nm  int
	next    []float64 // [ns+nc][n+nu]
	margins []float64 // [nm][n+nu]
	rows    []float64 // [outputs][n]
	at      duals
	sn, cn  []complex128
	m       []complex128
}

func newLinearised(problem domain.Problem, f *Filter) linearised {
	k, nm := f.n+f.nu, len(problem.Spec().Margins)
	l := linearised{
		dual: f.dual, n: f.n, ns: f.ns, nu: f.nu, nm: nm, next: make([]float64, (f.ns+f.nc)*k), margins: make([]float64, nm*k), rows: make([]float64, f.ny*f.n),
		at: newDuals(f.of, f.ns, f.nc, f.nu), sn: make([]complex128, f.ns), cn: make([]complex128, f.nc), m: make([]complex128, nm),
	}
	if d := domain.AbilitiesOfProblem(problem).Derivatives; d.Dual() {
		l.dual = d
	}
	return l
}

// stage writes the derivatives of a stage; false where they are not finite.
func (l *linearised) stage(x *stage) bool {
	d, k := &l.at, l.n+l.nu
	d.set(x.s, x.c, x.u)
	for by := range k {
		d.vary(by, func() {
			l.dual.Step(d.s, d.c, d.u, l.sn, l.cn)
			l.dual.Margins(d.s, d.c, d.u, l.m)
		})
		slopes(l.sn, l.next, k, by)
		slopes(l.cn, l.next[l.ns*k:], k, by)
		slopes(l.m, l.margins, k, by)
	}
	for i := range l.n {
		row := i
		if i >= l.ns {
			row = l.ns + d.of.Unknown[i-l.ns].Context
		}
		copy(x.a[i*l.n:(i+1)*l.n], l.next[row*k:])
		if i < l.ns {
			copy(x.b[i*l.nu:(i+1)*l.nu], l.next[row*k+l.n:])
		}
	}
	for i := range l.nm {
		copy(x.ms[i*l.n:(i+1)*l.n], l.margins[i*k:])
		copy(x.mu[i*l.nu:(i+1)*l.nu], l.margins[i*k+l.n:])
	}
	return tensor.Finite(x.a) && tensor.Finite(x.b) && tensor.Finite(x.ms) && tensor.Finite(x.mu)
}

// outputs are the derivatives of what is measured in the estimated entries at a stage, [outputs][n].
func (l *linearised) outputs(x *stage, before []float64) []float64 {
	l.at.outputs(x.s, x.c, before, l.rows, l.n)
	return l.rows
}
