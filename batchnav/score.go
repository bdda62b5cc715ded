package batchnav

import (
	"context"
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/tensor"
)

// rollouts scores decoded plans by the true dynamics, for any problem. A plan of a single action continues with the
// base policy, `direct`: all plans of a batch are encoded and decoded together at every step. A longer plan is
// executed, and its Steps are at most those of the plan.
type rollouts struct {
	*loaded
	scored   func(s, c, u, J, m []float64) // nil: Objectives and Margins score
	block    func(domain.Block)            // nil: objectives row by row
	unpriced bool                          // the costs of the plans are not needed
	many     func() domain.ManyValues      // makes what steps roll-outs together; nil: nothing does
	// failed, if the problem knows, ends roll-outs that lose the state: their margin is −∞.
	// survived are then the steps of every plan before.
	failed       func(s, c []float64) bool
	survived     []int
	terminalCost func(s, c []float64, pref domain.Preference) float64 // nil: there is none
	// noise is what every measured value may be off by; nil: nothing. tight are then the
	// smallest margins of the plans less what that takes from them.
	noise, tight []float64
	// One row per plan.
	s, c, nextS, nextC, u []float64     // states and actions
	sigma, objective      []float64     // of the present actions
	input, state, ctx     tensor.Matrix // E_x's and the base policy's
	z, plan               tensor.Matrix
	scratch               []scratch // one per thread
	// offsets bend the base policy of every plan: [n, steps·width], added to its latents.
	// Without rows nothing is added.
	offsets tensor.Matrix
	// executed are the projected actions of every roll-out of plans of one action,
	// [n, steps·action], where it has room for them.
	executed []float64
	// preferences of the rows, where they are not all the batch's.
	preferences []domain.Preference
	totals      []float64 // each objective summed over a roll-out, [n][objectives], in place of the costs; nil: nobody asks
	// What is scored and at which action, for advanceRows: one closure for all steps of
	// all roll-outs, as one for each would be allocated.
	batch       domain.PlanBatch
	h           int
	advanceRows func(part, from, to int)
}

var _ domain.PlanScorer = (*rollouts)(nil)

// scratch is the memory of one thread, besides the rows of the roll-outs.
type scratch struct {
	delta, margins, slot []float64
	u                    []float64   // actions of the thread's rows, for a block of objectives
	s                    []float64   // a measurement that is off
	above, below, slack  []float64   // its margins
	rowStepper           *rowStepper // nil: every roll-out steps alone
}

func newRollouts(l *loaded) *rollouts {
	r := &rollouts{loaded: l, scored: l.abilities.Score, block: l.abilities.Derivatives.Block, failed: l.abilities.Failed}
	if l.spec.Horizon > 0 && l.spec.Plan == 1 {
		r.terminalCost = l.abilities.TerminalCost
	}
	r.advanceRows = func(part, from, to int) { r.step(&r.batch, r.h, from, to, &r.scratch[part]) }
	return r
}

func (r *rollouts) grow(n, threads int) {
	spec := r.spec
	ns, nc := spec.MeasuredSize(), spec.ContextSize()
	np, m := spec.PlanSize(), spec.ObjectiveSize()
	for len(r.scratch) < threads {
		margins := func() []float64 { return make([]float64, len(spec.Margins)) }
		r.scratch = append(r.scratch, scratch{
			delta: make([]float64, m), margins: margins(), slot: make([]float64, spec.PreferenceSize()), s: make([]float64, ns), above: margins(), below: margins(), slack: margins(),
		})
		if r.many != nil {
			r.scratch[len(r.scratch)-1].rowStepper = &rowStepper{values: r.many()}
		}
	}
	if n*ns <= len(r.s) {
		return
	}
	r.s, r.nextS = make([]float64, n*ns), make([]float64, n*ns)
	r.c, r.nextC = make([]float64, n*nc), make([]float64, n*nc)
	r.u, r.survived = make([]float64, n*np), make([]int, n)
	r.sigma, r.objective = make([]float64, n*m), make([]float64, n*m)
	if r.model != nil {
		r.input, r.state, r.ctx = tensor.New(n, spec.ObservationSize()), tensor.New(n, ns), tensor.New(n, nc)
		r.z, r.plan = tensor.New(n, r.model.Latent()), tensor.New(n, np)
	}
}

// ScorePlans implements domain.PlanScorer.
func (r *rollouts) ScorePlans(ctx context.Context, b domain.PlanBatch) error {
	n, np, threads := b.Plans.Rows, r.spec.PlanSize(), max(1, min(b.Threads, b.Plans.Rows))
	r.grow(n, threads)
	for i := range n {
		copy(r.s[i*len(b.S):], b.S)
		copy(r.c[i*len(b.C):], b.C)
		tensor.Widen(r.u[i*np:(i+1)*np], b.Plans.Row(i))
		b.Cost[i], b.Margin[i] = 0, math.Inf(1)
		if r.noise != nil {
			r.tight[i] = math.Inf(1)
		}
		r.survived[i] = b.Steps
	}
	copy(b.Projected, r.u[:n*np])
	r.batch = b
	defer func() { r.batch = domain.PlanBatch{} }() // none of the inputs is kept
	for h := range b.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.h = h
		parallel.Split(threads, n, r.advanceRows)
		r.s, r.nextS = r.nextS, r.s
		r.c, r.nextC = r.nextC, r.c
		if r.spec.Plan == 1 && h < b.Steps-1 {
			if err := r.follow(n, h+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// replay scores one plan action by action, as ScorePlans does the roll-out of a policy. Without a map it can do no more.
func (r *rollouts) replay(b *domain.PlanBatch, plan []float64) {
	nu := r.spec.ActionSize()
	b.Steps, b.Cost[0], b.Margin[0] = len(plan)/nu, 0, math.Inf(1)
	copy(r.s, b.S)
	copy(r.c, b.C)
	for h := range b.Steps {
		copy(r.action(r.u, h, 0), plan[h*nu:])
		r.step(b, h, 0, 1, &r.scratch[0])
		r.s, r.nextS = r.nextS, r.s
		r.c, r.nextC = r.nextC, r.c
	}
}

// step executes action h of the plans from until to.
func (r *rollouts) step(b *domain.PlanBatch, h, from, to int, t *scratch) {
	if t.rowStepper != nil && r.noise == nil && !r.unpriced && !b.NoProjection {
		r.stepRows(b, h, from, to, t)
		return
	}
	blockwise := r.scored == nil && r.block != nil && !r.unpriced
	for i := from; i < to; i++ {
		if blockwise {
			r.act(b, h, i, t)
		} else {
			r.stepAlone(b, h, i, t)
		}
	}
	if !blockwise {
		return
	}
	t.u = t.u[:0]
	for i := from; i < to; i++ {
		t.u = append(t.u, r.action(r.u, h, i)...)
	}
	ns, nc, m := len(b.S), len(b.C), r.spec.ObjectiveSize()
	r.block(domain.Block{Rows: to - from, S: r.s[from*ns : to*ns], U: t.u, C: r.c[from*nc : to*nc], J: r.objective[from*m : to*m]})
	for i := from; i < to; i++ {
		r.advance(b, h, i, t)
	}
}

// stepAlone executes action h of plan i, at once: a problem may still know what it found for the projection.
func (r *rollouts) stepAlone(b *domain.PlanBatch, h, i int, t *scratch) {
	r.act(b, h, i, t)
	r.advance(b, h, i, t)
}

// action is action h of plan i among the actions of all.
func (r *rollouts) action(values []float64, h, i int) []float64 {
	nu, offset := r.spec.ActionSize(), i*r.spec.PlanSize()
	if r.spec.Plan > 1 {
		offset += h * nu
	}
	return values[offset : offset+nu]
}

// row is row i of a slice with rows of n.
func row(values []float64, i, n int) []float64 { return values[i*n : (i+1)*n] }

// act projects action h of plan i. A roll-out that has left
// the numbers is marked by a margin of −∞.
func (r *rollouts) act(b *domain.PlanBatch, h, i int, t *scratch) {
	s, c, u := row(r.s, i, len(b.S)), row(r.c, i, len(b.C)), r.action(r.u, h, i)
	if !tensor.Finite(u) || !tensor.Finite(s) {
		b.Margin[i] = math.Inf(-1)
		clear(u)
	} else if !b.NoProjection {
		r.problem.Project(s, c, u)
	}
	r.settle(b, h, i, t)
}

// settle notes the projected action h of plan i and sets its priority.
func (r *rollouts) settle(b *domain.PlanBatch, h, i int, t *scratch) {
	s, c, u := row(r.s, i, len(b.S)), row(r.c, i, len(b.C)), r.action(r.u, h, i)
	if h == 0 || r.spec.Plan > 1 {
		copy(r.action(b.Projected, h, i), u)
	}
	if len(r.executed) > 0 {
		copy(r.executed[(i*b.Steps+h)*len(u):], u)
	}
	if !r.unpriced && r.totals == nil {
		r.rates(r.preference(b, i), s, u, c, t.delta, row(r.sigma, i, len(t.delta)))
	}
}

// preference of plan i.
func (r *rollouts) preference(b *domain.PlanBatch, i int) domain.Preference {
	if len(r.preferences) > 0 {
		return r.preferences[i]
	}
	return b.Preference
}

// slack writes how far every margin may be off by the noise of the measurement, in
// quadrature over the measured values.
func (r *rollouts) slack(s, c, u []float64, t *scratch) []float64 {
	clear(t.slack)
	copy(t.s, s)
	for j, sigma := range r.noise {
		if sigma == 0 {
			continue
		}
		t.s[j] = s[j] + sigma
		r.problem.Margins(t.s, c, u, t.above)
		t.s[j] = s[j] - sigma
		r.problem.Margins(t.s, c, u, t.below)
		t.s[j] = s[j]
		for k, v := range t.above {
			t.slack[k] += (v - t.below[k]) * (v - t.below[k]) / 4
		}
	}
	for k, v := range t.slack {
		t.slack[k] = math.Sqrt(v)
	}
	return t.slack
}

// advance adds up cost and margin of action h of plan i, and steps.
func (r *rollouts) advance(b *domain.PlanBatch, h, i int, t *scratch) {
	s, c, u := row(r.s, i, len(b.S)), row(r.c, i, len(b.C)), r.action(r.u, h, i)
	J := row(r.objective, i, len(t.delta))
	switch {
	case r.scored != nil && !r.unpriced:
		r.scored(s, c, u, J, t.margins)
	case r.block == nil && !r.unpriced:
		r.problem.Objectives(s, u, c, J)
		fallthrough
	default:
		r.problem.Margins(s, c, u, t.margins)
	}
	if r.noise != nil {
		for k, deviation := range r.slack(s, c, u, t) {
			r.tight[i] = math.Min(r.tight[i], t.margins[k]-deviation)
		}
	}
	if r.count(b, h, i, J, t.margins); r.endIrrelevant(b, h) {
		return
	}
	r.problem.Step(s, c, u, row(r.nextS, i, len(s)), row(r.nextC, i, len(c)))
	r.arrive(b, h, i, t)
}

// count adds what action h of plan i costs, and its margins.
func (r *rollouts) count(b *domain.PlanBatch, h, i int, J, margins []float64) {
	switch {
	case r.totals != nil:
		tensor.Axpy(1, J, r.totals[i*len(J):])
	case !r.unpriced:
		for k, w := range row(r.sigma, i, len(J)) {
			b.Cost[i] += w * J[k]
		}
	}
	b.Margin[i] = math.Min(b.Margin[i], domain.Smallest(margins))
}

// endIrrelevant reports whether nothing depends on where action h leads: the score of the last action includes it.
func (r *rollouts) endIrrelevant(b *domain.PlanBatch, h int) bool {
	return h == b.Steps-1 && r.scored != nil && r.terminalCost == nil
}

// arrive looks at where action h of plan i leads and, where the base policy acts next, writes the observation as E_x
// reads it.
func (r *rollouts) arrive(b *domain.PlanBatch, h, i int, t *scratch) {
	last := h == b.Steps-1
	nextS, nextC := row(r.nextS, i, len(b.S)), row(r.nextC, i, len(b.C))
	if !tensor.Finite(nextS) || !tensor.Finite(nextC) {
		// The roll-out has left the numbers; it stays where it was and is lost.
		b.Margin[i] = math.Inf(-1)
		copy(nextS, row(r.s, i, len(b.S)))
		copy(nextC, row(r.c, i, len(b.C)))
	}
	if r.failed != nil && r.failed(nextS, nextC) {
		b.Margin[i] = math.Inf(-1)
		r.survived[i] = min(r.survived[i], h)
	}
	if last && r.terminalCost != nil && !r.unpriced && r.totals == nil {
		b.Cost[i] += r.terminalCost(nextS, nextC, r.preference(b, i))
	}
	if r.spec.Plan == 1 && !last && r.model != nil {
		r.observe(nextS, nextC, r.preference(b, i), t.slot, r.input.Row(i), r.state.Row(i), r.ctx.Row(i), nil)
	}
}

// follow decodes action h of the base policy, bent by the offsets, of every
// candidate. D_u reads z directly: no localization, no flow.
func (r *rollouts) follow(n, h int) error {
	z, plan := r.z.Slice(0, n), r.plan.Slice(0, n)
	if err := r.encoder.Forward(r.input.Slice(0, n), z); err != nil {
		return err
	}
	if err := r.decode(z, r.ctx.Slice(0, n), r.state.Slice(0, n), plan, h); err != nil {
		return err
	}
	for i := range n {
		tensor.Widen(row(r.u, i, plan.Cols), plan.Row(i))
	}
	return nil
}

// decode decodes the latents z, which it bends, into plans.
func (r *rollouts) decode(z, ctx, state, plan tensor.Matrix, h int) error {
	r.bend(z, h)
	return r.stepper.Decode(z, ctx, state, plan, tensor.Matrix{})
}

// bend adds every candidate's offset at step h to its row.
func (r *rollouts) bend(rows tensor.Matrix, h int) {
	for i := range min(rows.Rows, r.offsets.Rows) {
		o, v := r.offsets.Row(i)[h*rows.Cols:], rows.Row(i)
		for j := range v {
			v[j] += o[j]
		}
	}
}
