package estimate

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// stageBatch is the number of stages that are differentiated at once. A workspace holds that number, and lanes have at
// most that number.
const stageBatch = 8

// stage is one decision of a plan with its derivatives. They are rows with a number for each direction: first the
// action, then the estimated entries.
type stage struct {
	s, c, u []float64
	d       []float64 // of what is estimated after the step, [n][nu+n]; of the unknown none by the action
	dm      []float64 // of the margins, [margins][nu+n]
	k       []float64 // the feedback, [nu][n]: zeros after those of the states
}

// row are derivatives of entry i by what is estimated.
func (l *linearised) row(d []float64, i int) []float64 { return d[i*l.width+l.nu:][:l.n] }

// stages are several, one after another.
type stages struct {
	list  []stage
	x, u  []float64 // (s, c) and u of each
	d, dm []float64
	m     []float64 // margins of each; nil: they are not asked for
}

func (l *linearised) newStages(count int) *stages {
	nx, rows := l.ns+l.nc, max(l.n, l.ns+l.nc)*l.width
	all := &stages{
		list: make([]stage, count), x: make([]float64, count*nx), u: make([]float64, count*l.nu), d: make([]float64, count*rows), dm: make([]float64, count*l.nm*l.width),
	}
	for i := range all.list {
		x := all.x[i*nx : (i+1)*nx]
		all.list[i] = stage{
			s: x[:l.ns], c: x[l.ns:], u: all.u[i*l.nu : (i+1)*l.nu], d: all.d[i*rows : (i+1)*rows], dm: all.dm[i*l.nm*l.width : (i+1)*l.nm*l.width],
			k: make([]float64, l.nu*l.n),
		}
	}
	return all
}

// linearised writes the derivatives of stages. A domain.Stages computes them where the problem has one, without the
// entries that no action moves; dual numbers compute those.
type linearised struct {
	dual        domain.Derivatives
	n, ns, nc   int
	nu, nm      int
	width       int       // numbers of a row of derivatives
	switched    []int     // entries of the action with a switch
	unit        bool      // states are measured by themselves
	rows        []float64 // [outputs][n]
	duals       duals
	sn, cn      []complex128
	m           []complex128
	byDual      []int         // inputs that dual numbers vary
	staged      domain.Stages // nil: dual numbers vary all
	whole       bool          // what it writes are the rows of a stage
	columns     []int         // of each of its directions, the input; −1: none
	dx, dj, dms []float64
	next, j     []float64 // values that come with those of margins
}

func newLinearised(problem domain.Problem, f *Filter) (*linearised, error) {
	spec := problem.Spec()
	l := &linearised{
		dual: f.dual, n: f.n, ns: f.ns, nc: f.nc, nu: f.nu, nm: len(spec.Margins), width: f.nu + f.n, unit: f.measurement.Dual == nil, rows: make([]float64, f.ny*f.n),
		duals: newDuals(f.measurement, f.ns, f.nc, f.nu), sn: make([]complex128, f.ns), cn: make([]complex128, f.nc), m: make([]complex128, len(spec.Margins)),
	}
	for i := range spec.Switches {
		l.switched = append(l.switched, spec.Switches[i].Action)
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
		l.dj, l.next, l.j = make([]float64, stageBatch*objectives*k), make([]float64, stageBatch*nx), make([]float64, stageBatch*objectives)
		l.whole = l.n == l.ns
		for i := range l.ns {
			l.whole = l.whole && l.nu+i < k && l.columns[l.nu+i] == i
		}
		if l.whole {
			l.width = k
			return
		}
		l.dx, l.dms = make([]float64, stageBatch*nx*k), make([]float64, stageBatch*l.nm*k)
	}
	for i := range l.n + l.nu {
		if !slices.Contains(l.columns, i) {
			l.byDual = append(l.byDual, i)
		}
	}
}

// input is which one an entry of (s, c) is, -1 where it is known.
func (l *linearised) input(entry int) int {
	if entry < l.ns {
		return entry
	}
	i := slices.IndexFunc(l.duals.measurement.Unknown, func(u domain.Unknown) bool { return l.ns+u.Context == entry })
	if i < 0 {
		return -1
	}
	return l.ns + i
}

// column is where the derivatives by an input stand in a row.
func (l *linearised) column(input int) int {
	if input < l.n {
		return l.nu + input
	}
	return input - l.n
}

// derive writes the derivatives of the first stages; false where they are not finite.
func (l *linearised) derive(all *stages, count int) bool {
	nx := l.ns + l.nc
	for first := 0; first < count; first += stageBatch {
		n := min(stageBatch, count-first)
		x, u := all.x[first*nx:], all.u[first*l.nu:]
		var next, j, margins []float64
		if all.m != nil {
			next, j, margins = l.next, l.j, all.m[first*l.nm:]
		}
		switch {
		case l.whole:
			l.staged.Linearise(n, x, u, next, j, margins, all.d[first*nx*l.width:], l.dj, all.dm[first*l.nm*l.width:])
		case l.staged != nil:
			l.staged.Linearise(n, x, u, next, j, margins, l.dx, l.dj, l.dms)
		}
		for i := range all.list[first : first+n] {
			st := &all.list[first+i]
			if !l.whole {
				l.differentiate(st)
				l.write(st, i)
			}
			if !tensor.Finite(st.d[:l.n*l.width]) || !tensor.Finite(st.dm) {
				return false
			}
			l.holdSwitches(st)
		}
	}
	return true
}

// holdSwitches clears the derivatives of the margins by the actions that have a switch: none moves by a little. Later decisions search
// anew, so the way off the plan is held by these as by any action.
func (l *linearised) holdSwitches(x *stage) {
	for _, action := range l.switched {
		for at := action; at < len(x.dm); at += l.width {
			x.dm[at] = 0
		}
	}
}

// differentiate differentiates a stage by the inputs that dual numbers vary.
func (l *linearised) differentiate(x *stage) {
	if len(l.byDual) == 0 {
		return
	}
	d := &l.duals
	d.set(x.s, x.c, x.u)
	for _, input := range l.byDual {
		d.vary(input, func() {
			l.dual.Step(d.s, d.c, d.u, l.sn, l.cn)
			l.dual.Margins(d.s, d.c, d.u, l.m)
		})
		column := l.column(input)
		slopes(l.sn, x.d, l.width, column)
		for i, p := range d.measurement.Unknown {
			slopes(l.cn[p.Context:p.Context+1], x.d[(l.ns+i)*l.width:], l.width, column)
		}
		slopes(l.m, x.dm, l.width, column)
	}
}

// write gives a stage, number i of those together, the derivatives that were written together.
func (l *linearised) write(x *stage, i int) {
	k := len(l.columns)
	row := func(to, from []float64) {
		for d, input := range l.columns {
			if input >= 0 {
				to[l.column(input)] = from[d]
			}
		}
	}
	for r := range l.n {
		from, to := r, x.d[r*l.width:][:l.width]
		if r >= l.ns {
			from = l.ns + l.duals.measurement.Unknown[r-l.ns].Context
		}
		if k > 0 {
			row(to, l.dx[(i*(l.ns+l.nc)+from)*k:])
		}
		if r >= l.ns {
			clear(to[:l.nu])
		}
	}
	for r := range l.nm {
		if k > 0 {
			row(x.dm[r*l.width:], l.dms[(i*l.nm+r)*k:])
		}
	}
}

// outputs are the derivatives of what is measured in the estimated entries at a stage, [outputs][n].
func (l *linearised) outputs(x *stage, lastAction []float64) []float64 {
	l.duals.outputs(x.s, x.c, lastAction, l.rows, l.n)
	return l.rows
}
