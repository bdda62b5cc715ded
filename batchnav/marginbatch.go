package batchnav

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// marginBatch checks several steps of a roll-out at once. It goes ahead by actions inside their box, which Project
// leaves alone where they keep the limits. Then it evaluates the margins of all steps together (domain.ManyMargins).
// The result is that of one step after the other: a step whose margin is so small that rounding could matter is checked
// singly.
type marginBatch struct {
	limits domain.ManyMargins
	// Of the steps gone ahead: (s, c), the requested actions, these clipped to the box, and (s, c) after them.
	x, requested, u, next []float64
	margins               []float64
	size                  []float64 // the largest of each margin
	// vain counts the tries in a row that passed no step; the next waits for wait steps.
	vain, wait int
}

// surely is the size of a margin, relative to its kind, that rounding cannot bring below zero. It is far above
// rounding, so that few steps are checked twice.
const surely = 1e-6

// newMarginBatch is nil where the problem has no domain.ManyMargins.
func newMarginBatch(l *loaded) (*marginBatch, error) {
	if l.abilities.ManyMargins == nil {
		return nil, nil
	}
	limits, err := l.abilities.ManyMargins()
	if limits == nil || err != nil {
		return nil, err
	}
	most, spec := limits.Most(), l.spec
	t := &marginBatch{
		limits: limits, x: make([]float64, most*(spec.MeasuredSize()+spec.ContextSize())), next: make([]float64, most*(spec.MeasuredSize()+spec.ContextSize())), u: make([]float64, most*spec.ActionSize()),
		requested: make([]float64, most*spec.ActionSize()), margins: make([]float64, most*len(spec.Margins)), size: make([]float64, len(spec.Margins)),
	}
	return t, nil
}

// sure is the number of leading steps, of n, whose margins are surely kept, and the least margin of these.
func (t *marginBatch) sure(n int) (steps int, least float64) {
	nm := len(t.size)
	clear(t.size)
	for i := range n {
		for k, v := range row(t.margins, i, nm) {
			t.size[k] = math.Max(t.size[k], math.Abs(v))
		}
	}
	least = math.Inf(1)
	for i := range n {
		m := row(t.margins, i, nm)
		for k, v := range m {
			if !(v >= surely*(1+t.size[k])) { // as a NaN is not
				return i, least
			}
		}
		least = math.Min(least, domain.Smallest(m))
	}
	return n, least
}

// skip passes the steps from h on whose limits are surely kept, of a single roll-out. It returns the step to check
// singly, or the last one, which is then finished. The actions of step h and of the returned step are decided. After a
// try in vain it waits for 1, 2, 4, … steps.
func (g *guard) skip(runs []rollout, h int) (last int, finished bool, err error) {
	t := g.marginBatch
	if t.wait > 0 {
		t.wait--
		return h, false, nil
	}
	for {
		n, err := g.goAhead(runs, h)
		if n == 0 || err != nil {
			return h, false, err
		}
		t.limits.Evaluate(n, t.x, t.u, t.next, t.margins)
		steps, least := t.sure(n)
		g.pass(&runs[0], h, steps, n)
		g.margin[0] = math.Min(g.margin[0], least)
		switch h += steps; {
		case h == runs[0].steps:
			return h - 1, true, nil
		case steps == n && n == t.limits.Most():
			continue
		case steps > 0:
			t.vain = 0
		default:
			t.wait, t.vain = 1<<t.vain, t.vain+1
		}
		return h, false, nil
	}
}

// goAhead takes at most the number of steps that can be evaluated together, and returns their number. State and action
// of the next step are then in place. After the last step its own action is, with the state after it.
func (g *guard) goAhead(runs []rollout, h int) (n int, err error) {
	t, r := g.marginBatch, &runs[0]
	ns, nc, nu := len(r.s), len(r.c), g.spec.ActionSize()
	for n < t.limits.Most() {
		s, c, u := g.s[:ns], g.c[:nc], g.u[:nu]
		clipped := row(t.u, n, nu)
		if !tensor.Finite(u) || !tensor.Finite(s) {
			break
		}
		x := row(t.x, n, ns+nc)
		copy(x, s)
		copy(x[ns:], c)
		copy(row(t.requested, n, nu), u)
		domain.Clip(clipped, u, g.spec.Action)
		nextS, nextC := g.nextS[:ns], g.nextC[:nc]
		g.problem.Step(s, c, clipped, nextS, nextC)
		if !tensor.Finite(nextS) || !tensor.Finite(nextC) || g.failed != nil && g.failed(nextS, nextC) {
			break
		}
		nextX := row(t.next, n, ns+nc)
		copy(nextX, nextS)
		copy(nextX[ns:], nextC)
		if n++; h+n == r.steps {
			break
		}
		g.s, g.nextS = g.nextS, g.s
		g.c, g.nextC = g.nextC, g.c
		g.observe(nextS, nextC, r.pref, g.scratch[0].slot, g.input.Row(0), g.state.Row(0), g.ctx.Row(0), nil)
		if err := g.writeActions(runs, h+n); err != nil {
			return n, err
		}
	}
	return n, nil
}

// pass records the first steps of n from h on, and restores the state after them.
func (g *guard) pass(r *rollout, h, steps, n int) {
	t, ns, nu := g.marginBatch, len(r.s), g.spec.ActionSize()
	copy(g.executed[h*nu:], t.u[:steps*nu])
	if h+steps == r.steps {
		copy(g.u, row(t.u, steps-1, nu))
	}
	if steps < n {
		x := row(t.x, steps, ns+len(r.c))
		copy(g.s, x[:ns])
		copy(g.c, x[ns:])
		copy(g.u, row(t.requested, steps, nu))
	}
	if h > 0 || steps == 0 {
		return
	}
	firstX := row(t.next, 0, ns+len(r.c))
	s, c := firstX[:ns], firstX[ns:]
	r.result.s, r.result.c = append(r.result.s[:0], s...), append(r.result.c[:0], c...)
}
