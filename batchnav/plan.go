package batchnav

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/tensor"
)

// rollout is a requested roll-out of steps decisions from (s, c): by the prefix, then by the policy, which offsets
// bend.
type rollout struct {
	s, c    []float64
	pref    domain.Preference
	prefix  []float64     // [≤ steps·action]
	escapes bool          // by the problem's escape instead of the policy
	offsets tensor.Matrix // [1, steps·width] of a search; no rows: none
	steps   int
	solved  bool // found by a rescue
	priced  bool // what it costs is asked
	result  *plan
}

// plan is a roll-out with what is known of it.
type plan struct {
	actions      []float64 // [steps·action] as executed, of one that fails to the step that does
	s, c         []float64 // the state after the first action; s is empty where it is not known
	endS, endC   []float64 // and after the last
	cost, margin float64   // a cost only where it is asked
	// fails is the first step that breaks a limit, or steps; narrow says that one comes
	// within the noise of a limit.
	fails, steps int
	narrow       bool
	solved       bool // found by a rescue
}

// keepsLimits reports whether a plan keeps the limits to its end; safe, whether it does by more than the noise.
func (p *plan) keepsLimits() bool { return p.steps > 0 && p.fails == p.steps }
func (p *plan) safe() bool        { return p.keepsLimits() && !p.narrow }
func (p *plan) forget()           { p.actions, p.steps, p.fails = p.actions[:0], 0, 0 }

// take makes it a plan of actions that keep the limits to their end, in unknown states.
func (p *plan) take(actions []float64, nu int) {
	p.actions = append(p.actions[:0], actions...)
	p.steps = len(actions) / nu
	p.fails, p.narrow, p.solved = p.steps, false, false
	p.s = p.s[:0]
}

// continueWith makes it a plan whose actions after the first are those of a plan of the present state, which it did not
// foresee.
func (p *plan) continueWith(actions []float64, nu int) {
	p.take(append(make([]float64, nu), actions...), nu)
	p.s = append(p.s, math.NaN())
}

// better is safe before cheap; where neither keeps the limits, the later failure, then the
// larger margin.
func (p *plan) better(o *plan) bool {
	switch {
	case p.safe() != o.safe():
		return p.safe()
	case p.keepsLimits() != o.keepsLimits():
		return p.keepsLimits()
	case p.keepsLimits():
		return p.cost < o.cost
	case p.fails != o.fails:
		return p.fails > o.fails
	}
	return p.margin > o.margin
}

// rollOne is roll of one roll-out.
func (g *guard) rollOne(r rollout) error {
	g.single[0] = r
	return g.roll(g.single[:])
}

// roll runs all roll-outs together, step by step. Only one that is alone may be bent.
func (g *guard) roll(runs []rollout) error {
	n, nu := len(runs), g.spec.ActionSize()
	if n == 0 {
		return nil
	}
	// Those still running are the first rows at every step.
	slices.SortStableFunc(runs, func(a, b rollout) int { return b.steps - a.steps })
	most := runs[0].steps
	ns, nc := g.spec.MeasuredSize(), g.spec.ContextSize()
	// The last step is not the batch's, so that where it leads is known.
	b := domain.PlanBatch{S: runs[0].s, C: runs[0].c, Steps: most + 1, NoProjection: g.noProjection, Projected: g.projected[:n*nu], Cost: g.cost[:n], Margin: g.margin[:n]}
	g.executed = slices.Grow(g.executed[:0], n*b.Steps*nu)[:n*b.Steps*nu]
	g.preferences = g.preferences[:0]
	g.offsets = runs[0].offsets
	g.unpriced = !slices.ContainsFunc(runs, func(r rollout) bool { return r.priced })
	t := &g.scratch[0]
	for i := range runs {
		r := &runs[i]
		copy(row(g.s, i, ns), r.s)
		copy(row(g.c, i, nc), r.c)
		g.preferences = append(g.preferences, r.pref)
		if len(r.prefix) == 0 {
			g.observe(r.s, r.c, r.pref, t.slot, g.input.Row(i), g.state.Row(i), g.ctx.Row(i), nil)
		}
		b.Cost[i], b.Margin[i], g.tight[i] = 0, math.Inf(1), math.Inf(1)
		r.result.fails, r.result.steps = r.steps, r.steps
		r.result.narrow, r.result.solved = false, r.solved
	}
	g.batch = b
	defer func() { g.batch, g.preferences = domain.PlanBatch{}, g.preferences[:0] }() // none of the inputs is kept
	skips := g.marginBatch != nil && n == 1 && g.unpriced
	if skips {
		g.marginBatch.vain, g.marginBatch.wait = 0, 0
	}
	for h := 0; n > 0; h++ {
		err, finished := g.writeActions(runs[:n], h), false
		if skips && err == nil {
			h, finished, err = g.skip(runs, h)
		}
		if err != nil {
			return err
		}
		if g.h = h; !finished {
			parallel.Split(g.threads, n, g.advanceRows)
		}
		running := 0
		for i := range runs[:n] {
			g.note(&runs[i], h, i)
			if runs[i].result.keepsLimits() && h+1 < runs[i].steps {
				running = i + 1
			}
		}
		n = running
		g.s, g.nextS = g.nextS, g.s
		g.c, g.nextC = g.nextC, g.c
	}
	for i := range runs {
		p := runs[i].result
		p.actions = append(p.actions[:0], g.executed[i*b.Steps*nu:][:min(p.fails+1, p.steps)*nu]...)
	}
	clear(runs)
	return nil
}

// writeActions writes the actions of step h: those of the prefix, then the policy's.
func (g *guard) writeActions(runs []rollout, h int) error {
	nu := g.spec.ActionSize()
	if slices.ContainsFunc(runs, func(r rollout) bool { return h*nu >= len(r.prefix) && !r.escapes }) {
		if err := g.follow(len(runs), h); err != nil {
			return err
		}
	}
	for i := range runs {
		if offset := h * nu; offset < len(runs[i].prefix) {
			copy(row(g.u, i, nu), runs[i].prefix[offset:offset+nu])
		} else if runs[i].escapes {
			g.escape(row(g.s, i, len(runs[i].s)), row(g.c, i, len(runs[i].c)), row(g.u, i, nu))
		}
	}
	return nil
}

// note records step h of roll-out i.
func (g *guard) note(r *rollout, h, i int) {
	p := r.result
	if h >= r.steps || p.fails < h {
		return
	}
	s, c := row(g.nextS, i, len(r.s)), row(g.nextC, i, len(r.c))
	if h == 0 {
		p.s, p.c = append(p.s[:0], s...), append(p.c[:0], c...)
	}
	p.cost, p.margin = g.cost[i], g.margin[i]
	if h == r.steps-1 {
		if g.terminalCost != nil && r.priced {
			p.cost += g.terminalCost(s, c, r.pref)
		}
		p.endS, p.endC = append(p.endS[:0], s...), append(p.endC[:0], c...)
		if t := &g.scratch[0]; tensor.Finite(s) {
			domain.StateMargins(g.problem, g.abilities, s, c, g.action(g.u, h, i), t.above, t.below)
			p.margin = math.Min(p.margin, domain.Smallest(t.above))
		}
		if g.terminal != nil {
			p.margin = math.Min(p.margin, g.terminal(s, c))
		}
	}
	p.narrow = !g.spec.Keeps(g.tight[i])
	if !g.spec.Keeps(p.margin) || r.priced && math.IsNaN(p.cost) {
		p.fails = h
	}
}
