package estimate

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// linearised writes the derivatives of a stage by dual numbers.
type linearised struct {
	dual    domain.Dual
	of      *domain.Measurement
	n, ns   int
	nu, nc  int
	nm      int
	by      []int     // the inputs: estimated entries, then actions
	next    []float64 // [ns+nc][k]
	margins []float64 // [nm][k]
	row     []float64
	s, c, u []complex128
	sn, cn  []complex128
	m, y    []complex128
}

func newLinearised(problem domain.Problem, f *Filter) linearised {
	spec := problem.Spec()
	l := linearised{dual: f.dual, of: f.of, n: f.n, ns: f.ns, nu: f.nu, nc: f.nc, nm: len(spec.Margins), row: make([]float64, f.n)}
	if d, is := problem.(domain.Dual); is {
		l.dual = d
	}
	for i := range f.ns {
		l.by = append(l.by, i)
	}
	for _, p := range f.of.Unknown {
		l.by = append(l.by, f.ns+p.Context)
	}
	for i := range f.nu {
		l.by = append(l.by, f.ns+f.nc+i)
	}
	k := len(l.by)
	l.next, l.margins = make([]float64, (f.ns+f.nc)*k), make([]float64, l.nm*k)
	l.s, l.c, l.u = make([]complex128, f.ns), make([]complex128, f.nc), make([]complex128, f.nu)
	l.sn, l.cn, l.m, l.y = make([]complex128, f.ns), make([]complex128, f.nc), make([]complex128, l.nm), make([]complex128, f.ny)
	return l
}

// at writes the derivatives of a stage; false where they are not finite.
func (l *linearised) at(x *stage) bool {
	l.byDuals(x)
	k, nk := len(l.by), l.n-l.ns
	for i := range l.n {
		row := i
		if i >= l.ns {
			row = l.ns + l.of.Unknown[i-l.ns].Context
		}
		copy(x.a[i*l.n:(i+1)*l.n], l.next[row*k:])
		if i < l.ns {
			copy(x.b[i*l.nu:(i+1)*l.nu], l.next[row*k+l.ns+nk:])
		}
	}
	for i := range l.nm {
		copy(x.ms[i*l.n:(i+1)*l.n], l.margins[i*k:])
		copy(x.mu[i*l.nu:(i+1)*l.nu], l.margins[i*k+l.n:])
	}
	return tensor.Finite(x.a) && tensor.Finite(x.b) && tensor.Finite(x.ms) && tensor.Finite(x.mu)
}

// input is where input i of l.by stands among the dual numbers.
func (l *linearised) input(i int) *complex128 {
	switch {
	case i < l.ns:
		return &l.s[i]
	case i < l.ns+l.nc:
		return &l.c[i-l.ns]
	}
	return &l.u[i-l.ns-l.nc]
}

func (l *linearised) widen(s, c, u []float64) {
	for _, w := range [3]struct {
		to   []complex128
		from []float64
	}{{l.s, s}, {l.c, c}, {l.u, u}} {
		for i, v := range w.from {
			w.to[i] = complex(v, 0)
		}
	}
}

func (l *linearised) byDuals(x *stage) {
	l.widen(x.s, x.c, x.u)
	width := len(l.by)
	for k, i := range l.by {
		at := l.input(i)
		was := *at
		*at = complex(real(was), domain.DualStep)
		l.dual.StepDual(l.s, l.c, l.u, l.sn, l.cn)
		l.dual.MarginsDual(l.s, l.c, l.u, l.m)
		*at = was
		for a, v := range l.sn {
			l.next[a*width+k] = imag(v) / domain.DualStep
		}
		for a, v := range l.cn {
			l.next[(l.ns+a)*width+k] = imag(v) / domain.DualStep
		}
		for a, v := range l.m {
			l.margins[a*width+k] = imag(v) / domain.DualStep
		}
	}
}

// output is the derivative of output i in the estimated entries at a stage.
func (l *linearised) output(i int, x *stage, before []float64) []float64 {
	clear(l.row)
	if l.of.Dual == nil {
		l.row[i] = 1
		return l.row
	}
	l.widen(x.s, x.c, before)
	for k := range l.n {
		at := l.input(l.by[k])
		was := *at
		*at = complex(real(was), domain.DualStep)
		l.of.Dual(l.s, l.c, l.u, l.y)
		*at = was
		l.row[k] = imag(l.y[i]) / domain.DualStep
	}
	return l.row
}
