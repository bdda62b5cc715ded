package estimate

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// together is how many stages are differentiated at once: a workspace keeps as many, and lanes have at most as many.
const together = 8

// linearised writes the derivatives of stages: by a domain.Stages where the problem has them, in which entries that no action moves are
// left out, and those by dual numbers.
type linearised struct {
	dual        domain.Derivatives
	n, ns, nc   int
	nu, nm      int
	next        []float64 // [ns+nc][n+nu]
	margins     []float64 // [nm][n+nu]
	rows        []float64 // [outputs][n]
	at          duals
	sn, cn      []complex128
	m           []complex128
	by          []int         // inputs that dual numbers vary
	staged      domain.Stages // nil: dual numbers vary all
	columns     []int         // of each of its directions, the input
	x, u        []float64     // of stages together
	dx, dj, dms []float64
}

func newLinearised(problem domain.Problem, f *Filter) (*linearised, error) {
	spec := problem.Spec()
	k, nm := f.n+f.nu, len(spec.Margins)
	l := &linearised{
		dual: f.dual, n: f.n, ns: f.ns, nc: f.nc, nu: f.nu, nm: nm, next: make([]float64, (f.ns+f.nc)*k), margins: make([]float64, nm*k), rows: make([]float64, f.ny*f.n),
		at: newDuals(f.of, f.ns, f.nc, f.nu), sn: make([]complex128, f.ns), cn: make([]complex128, f.nc), m: make([]complex128, nm),
	}
	d := domain.AbilitiesOfProblem(problem).Derivatives
	if d.Dual() {
		l.dual = d
	}
	if d.Stages != nil {
		var err error
		if l.staged, err = d.Stages(); err != nil {
			return nil, fmt.Errorf("estimate: case %q: %w", spec.Name, err)
		}
	}
	l.direct(len(spec.Objectives))
	return l, nil
}

// direct divides the inputs among the derivatives.
func (l *linearised) direct(objectives int) {
	if l.staged != nil {
		for i := range l.nu {
			l.columns = append(l.columns, l.n+i)
		}
		for _, a := range l.staged.Moving() {
			l.columns = append(l.columns, l.input(a))
		}
		nx, k := l.ns+l.nc, len(l.columns)
		l.x, l.u = make([]float64, together*nx), make([]float64, together*l.nu)
		l.dx, l.dj, l.dms = make([]float64, together*nx*k), make([]float64, together*objectives*k), make([]float64, together*l.nm*k)
	}
	for i := range l.n + l.nu {
		if !slices.Contains(l.columns, i) {
			l.by = append(l.by, i)
		}
	}
}

// input is which one an entry of (s, c) is, -1 where it is known.
func (l *linearised) input(entry int) int {
	if entry < l.ns {
		return entry
	}
	i := slices.IndexFunc(l.at.of.Unknown, func(u domain.Unknown) bool { return l.ns+u.Context == entry })
	if i < 0 {
		return -1
	}
	return l.ns + i
}

// stages writes the derivatives of stages; false where they are not finite.
func (l *linearised) stages(list []stage) bool {
	for chunk := range slices.Chunk(list, together) {
		if l.staged != nil {
			l.together(chunk)
		}
		for i := range chunk {
			x := &chunk[i]
			l.each(x)
			l.write(x, i)
			if !(tensor.Finite(x.a) && tensor.Finite(x.b) && tensor.Finite(x.ms) && tensor.Finite(x.mu)) {
				return false
			}
		}
	}
	return true
}

// together differentiates stages at once.
func (l *linearised) together(list []stage) {
	nx := l.ns + l.nc
	for i := range list {
		copy(l.x[i*nx:], list[i].s)
		copy(l.x[i*nx+l.ns:], list[i].c)
		copy(l.u[i*l.nu:], list[i].u)
	}
	l.staged.Linearise(len(list), l.x, l.u, nil, nil, nil, l.dx, l.dj, l.dms)
}

// each differentiates a stage by the inputs that dual numbers vary.
func (l *linearised) each(x *stage) {
	if len(l.by) == 0 {
		return
	}
	d, k := &l.at, l.n+l.nu
	d.set(x.s, x.c, x.u)
	for _, by := range l.by {
		d.vary(by, func() {
			l.dual.Step(d.s, d.c, d.u, l.sn, l.cn)
			l.dual.Margins(d.s, d.c, d.u, l.m)
		})
		slopes(l.sn, l.next, k, by)
		slopes(l.cn, l.next[l.ns*k:], k, by)
		slopes(l.m, l.margins, k, by)
	}
}

// write gives a stage, number i of those together, its derivatives.
func (l *linearised) write(x *stage, i int) {
	k, nd := l.n+l.nu, len(l.columns)
	row := func(to []float64, width, stagedRow int, staged []float64) {
		for d, col := range l.columns {
			if col >= 0 {
				to[stagedRow*k+col] = staged[(i*width+stagedRow)*nd+d]
			}
		}
	}
	for r := range l.ns + l.nc {
		row(l.next, l.ns+l.nc, r, l.dx)
	}
	for r := range l.nm {
		row(l.margins, l.nm, r, l.dms)
	}
	for i := range l.n {
		row := i
		if i >= l.ns {
			row = l.ns + l.at.of.Unknown[i-l.ns].Context
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
}

// outputs are the derivatives of what is measured in the estimated entries at a stage, [outputs][n].
func (l *linearised) outputs(x *stage, before []float64) []float64 {
	l.at.outputs(x.s, x.c, before, l.rows, l.n)
	return l.rows
}
