package batchnav

import (
	"context"
	"math"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// scratch is what one thread needs beside the roll-outs' own rows.
type scratch struct {
	delta, margins, slot []float64
	u                    []float64 // actions of the thread's rows, for a block of objectives
}

func (r *Refiner) newScratch() *scratch {
	m := r.spec.ObjectiveSize()
	return &scratch{
		delta:   make([]float64, m),
		margins: make([]float64, len(r.spec.Margins)), slot: make([]float64, r.spec.PreferenceSize()),
	}
}

// evaluate rolls every decoded plan out under the true dynamics and leaves Σσᵀ J
// and the smallest margin of each in r.cost and r.margin, the projected plans in
// r.best.
//
// A problem whose plan is one action continues with the base policy, `direct`:
// all candidates are encoded and decoded together at every step. A problem with
// longer plans executes the decoded plan. Each action is projected against the
// state it is taken in.
func (r *Refiner) evaluate(ctx context.Context, obs *Observation, plan tensor.Matrix, steps int, opt *RefineOptions) error {
	n, nu, np := plan.Rows, r.spec.ActionSize(), r.spec.PlanSize()
	ns, nc := r.spec.MeasuredSize(), r.spec.ContextSize()
	for i := range n {
		copy(r.s[i*ns:], obs.S)
		copy(r.c[i*nc:], obs.C)
		tensor.Widen(r.u[i*np:(i+1)*np], plan.Row(i))
		r.cost[i], r.margin[i] = 0, math.Inf(1)
	}
	copy(r.best, r.u[:n*np])
	follow := r.spec.Plan == 1
	for h := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		last := h == steps-1
		spread := func(from, to int) {
			t := r.newScratch()
			for i := from; i < to; i++ {
				r.act(i, h, t, obs.Preference, opt)
			}
			r.objectives(from, to, h, t)
			for i := from; i < to; i++ {
				if !last || r.scored == nil {
					r.advance(i, h, t, obs.Preference, follow && !last)
				}
			}
		}
		inParallel(opt.Threads, n, spread)
		r.s, r.nextS = r.nextS, r.s
		r.c, r.nextC = r.nextC, r.c
		if follow && !last {
			if err := r.follow(n, nu); err != nil {
				return err
			}
		}
	}
	return nil
}

// action is action h of candidate i, in place.
func (r *Refiner) action(i, h int) []float64 {
	nu, at := r.spec.ActionSize(), i*r.spec.PlanSize()
	if r.spec.Plan > 1 {
		at += h * nu
	}
	return r.u[at : at+nu]
}

// act projects action h of candidate i and sets its priority. A roll-out that
// has left the numbers is marked by a margin of −∞.
func (r *Refiner) act(i, h int, t *scratch, pref domain.Preference, opt *RefineOptions) {
	spec := r.spec
	ns, nc, nu, m := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize(), spec.ObjectiveSize()
	s, c, u := r.s[i*ns:(i+1)*ns], r.c[i*nc:(i+1)*nc], r.action(i, h)
	if !tensor.Finite(u) || !tensor.Finite(s) {
		r.margin[i] = math.Inf(-1)
		clear(u)
	} else if !opt.NoProjection {
		r.problem.Project(s, c, u)
	}
	if h == 0 || spec.Plan > 1 {
		at := i * spec.PlanSize()
		if spec.Plan > 1 {
			at += h * nu
		}
		copy(r.best[at:at+nu], u)
	}
	r.priority(pref, s, u, c, t.delta, r.sigma[i*m:(i+1)*m])
	if r.scored != nil {
		r.scored.Score(s, c, u, r.J[i*m:(i+1)*m], t.margins)
		r.charge(i, t)
	}
}

// charge adds the present action's cost and margins, which are in J and t, to
// candidate i.
func (r *Refiner) charge(i int, t *scratch) {
	m := r.spec.ObjectiveSize()
	for k := range m {
		r.cost[i] += r.sigma[i*m+k] * r.J[i*m+k]
	}
	r.margin[i] = math.Min(r.margin[i], smallest(t.margins))
}

// objectives writes J of the present actions of candidates [from, to): in one
// block where the problem offers it, row by row otherwise.
func (r *Refiner) objectives(from, to, h int, t *scratch) {
	spec := r.spec
	ns, nc, nu, m := spec.MeasuredSize(), spec.ContextSize(), spec.ActionSize(), spec.ObjectiveSize()
	if r.scored != nil {
		return // act has them with the margins
	}
	block, ok := r.problem.(domain.BlockGradient)
	if !ok {
		for i := from; i < to; i++ {
			r.problem.Objectives(r.s[i*ns:(i+1)*ns], r.action(i, h), r.c[i*nc:(i+1)*nc], r.J[i*m:(i+1)*m])
		}
		return
	}
	t.u = t.u[:0]
	for i := from; i < to; i++ {
		t.u = append(t.u, r.action(i, h)...)
	}
	block.GradientBlock(domain.Block{Rows: to - from, S: r.s[from*ns : to*ns], U: t.u[:(to-from)*nu], C: r.c[from*nc : to*nc], J: r.J[from*m : to*m]})
}

// advance scores action h of candidate i where act has not, steps and, for the base policy, writes
// the next observation as E_x reads it.
func (r *Refiner) advance(i, h int, t *scratch, pref domain.Preference, encode bool) {
	spec := r.spec
	ns, nc := spec.MeasuredSize(), spec.ContextSize()
	s, c, u := r.s[i*ns:(i+1)*ns], r.c[i*nc:(i+1)*nc], r.action(i, h)
	nextS, nextC := r.nextS[i*ns:(i+1)*ns], r.nextC[i*nc:(i+1)*nc]
	if r.scored == nil {
		r.problem.Margins(s, c, u, t.margins)
		r.charge(i, t)
	}
	r.problem.Step(s, c, u, nextS, nextC)
	if !tensor.Finite(nextS) || !tensor.Finite(nextC) {
		// The roll-out has left the numbers; it stays where it was and is lost.
		r.margin[i] = math.Inf(-1)
		copy(nextS, s)
		copy(nextC, c)
	}
	if encode {
		r.observe(nextS, nextC, pref, t.slot, r.input.Row(i), r.rollS.Row(i), r.rollC.Row(i), nil)
	}
}

// follow decodes the base policy's next action of every candidate. D_u reads z
// directly: no localization, no flow.
func (r *Refiner) follow(n, nu int) error {
	z, plan := r.z.Slice(0, n), r.plan.Slice(0, n)
	if err := r.encoder.Forward(r.input.Slice(0, n), z); err != nil {
		return err
	}
	if err := r.stepper.Decode(z, r.rollC.Slice(0, n), r.rollS.Slice(0, n), plan, tensor.Matrix{}); err != nil {
		return err
	}
	for i := range n {
		tensor.Widen(r.u[i*nu:(i+1)*nu], plan.Row(i))
	}
	return nil
}

// inParallel calls f on at most threads contiguous parts of [0, n).
func inParallel(threads, n int, f func(from, to int)) {
	threads = min(threads, n)
	if threads <= 1 {
		f(0, n)
		return
	}
	var wait sync.WaitGroup
	for t := range threads {
		wait.Go(func() { f(t*n/threads, (t+1)*n/threads) })
	}
	wait.Wait()
}
