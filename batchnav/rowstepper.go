package batchnav

import (
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// rowStepper steps many roll-outs at once (domain.ManyValues). It is right for those whose action, inside its box,
// keeps the limits by more than rounding: Project leaves such an action alone. The roll-outs are independent.
type rowStepper struct {
	values domain.ManyValues
	rows   []int // of the roll-outs that step together
	// Of these (s, c), the action inside its box, and what comes of them.
	x, u, next, j, margins []float64
}

// manyValues makes the evaluator of one thread; nil: there is none.
func (l *loaded) manyValues() (func() domain.ManyValues, error) {
	if l.abilities.ManyValues == nil || l.spec.Plan > 1 {
		return nil, nil
	}
	return l.abilities.ManyValues()
}

// grow makes room for n rows.
func (g *rowStepper) grow(spec *domain.Spec, n int) {
	if n <= cap(g.rows) {
		return
	}
	nx := spec.MeasuredSize() + spec.ContextSize()
	g.rows, g.u = make([]int, 0, n), make([]float64, n*spec.ActionSize())
	g.x, g.next = make([]float64, n*nx), make([]float64, n*nx)
	g.j, g.margins = make([]float64, n*spec.ObjectiveSize()), make([]float64, n*len(spec.Margins))
}

// stepRows executes action h of the plans from until to.
func (r *rollouts) stepRows(b *domain.PlanBatch, h, from, to int, t *scratch) {
	g, ns, nu := t.rowStepper, len(b.S), r.spec.ActionSize()
	nc := len(b.C)
	nx := ns + nc
	g.grow(r.spec, to-from)
	g.rows = g.rows[:0]
	for i := from; i < to; i++ {
		s, u := row(r.s, i, ns), r.action(r.u, h, i)
		if !tensor.Finite(u) || !tensor.Finite(s) {
			r.stepAlone(b, h, i, t)
			continue
		}
		k := len(g.rows)
		x := row(g.x, k, nx)
		copy(x, s)
		copy(x[ns:], row(r.c, i, nc))
		domain.Clip(row(g.u, k, nu), u, r.spec.Action)
		g.rows = append(g.rows, i)
	}
	nj, nm := r.spec.ObjectiveSize(), len(r.spec.Margins)
	g.values.Evaluate(len(g.rows), g.x, g.u, g.next, g.j, g.margins)
	inLanes := h > 0 && len(r.spec.Switches) == 0 // what follows a first action need not be a single loop's to the bit
	if inLanes {
		g.values.Project(len(g.rows), g.x, g.u, g.next, g.j, g.margins)
	}
	for k, i := range g.rows {
		margins := row(g.margins, k, nm)
		if !inLanes && !surelyKept(margins) {
			r.stepAlone(b, h, i, t)
			continue
		}
		copy(r.action(r.u, h, i), row(g.u, k, nu))
		r.settle(b, h, i, t)
		next := row(g.next, k, nx)
		if r.count(b, h, i, row(g.j, k, nj), margins); r.endIrrelevant(b, h) {
			continue
		}
		copy(row(r.nextS, i, ns), next)
		copy(row(r.nextC, i, nc), next[ns:])
		r.arrive(b, h, i, t)
	}
}

// surelyKept reports whether rounding cannot bring a margin below zero.
func surelyKept(margins []float64) bool {
	return !slices.ContainsFunc(margins, func(v float64) bool { return !(v >= surely) }) // as a NaN is not
}
