package batchnav

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// prepared is what one loop keeps of a search ahead (SearchOptions.Ahead). The search finds a policy, D_u(E_x(x) + o),
// and a polish may change its first action. The decision still answers the measured state.
type prepared struct {
	preference domain.Preference // of the last decision
	ready      bool              // the memory's best roll-out begins with the next decision
}

func (p *prepared) forget() { p.ready = false }

// finish ends the prepared decision, and keeps the preference for the next one.
func (p *prepared) finish(pref domain.Preference) {
	p.ready, p.preference.Adaptive = false, pref.Adaptive
	p.preference.W = append(p.preference.W[:0], pref.W...)
}

func (p *prepared) copyFrom(o *prepared) {
	p.finish(o.preference)
	p.ready = o.ready
}

// Prepares reports whether the batch searches between decisions (SearchOptions.Ahead), so
// that Prepare is to be called after each.
func (a *Batch) Prepares() bool { return a.ahead != nil }

// Prepare searches the next decision of every loop, one after another, where the known
// dynamics lead from the last one. It is called after the actions were executed, or
// replaced (Executed), and before the next Decide, whose times it is no part of. Without
// SearchOptions.Ahead it does nothing.
func (a *Batch) Prepare() error { return a.PrepareSome(a.allLoops) }

// PrepareSome is Prepare of the loops of these numbers.
func (a *Batch) PrepareSome(numbers []int) error {
	if a.ahead == nil {
		return nil
	}
	for _, w := range numbers {
		if w < 0 || w >= a.size {
			return fmt.Errorf("loop %d is to be prepared, want 0 to %d", w, a.size-1)
		}
		if err := a.prepare(&a.loops[w]); err != nil {
			return err
		}
	}
	return nil
}

// prepare looks for the next decision of a loop that has made one. Where its roll-out is
// safe it becomes the guard's incumbent, so that a decision in the state that was expected
// has nothing to roll out.
func (a *Batch) prepare(l *loop) error {
	l.prepared.ready = false
	if !l.history.state {
		l.memory.lose()
		return nil
	}
	s, c, pref := l.predictedS, l.predictedC, l.prepared.preference
	a.problem.Step(l.state, l.lastC, l.lastU, s, c)
	if !tensor.Finite(s) || !tensor.Finite(c) || a.abilities.Remaining != nil && a.abilities.Remaining(c) < 1 {
		l.memory.lose()
		return nil
	}
	best, err := a.ahead.find(l.memory, s, c, pref, a.ahead.opt.TimeLimit)
	if err != nil || best == nil {
		return err
	}
	l.prepared.ready = true
	if a.guard == nil {
		return nil
	}
	tensor.Widen(l.alternative, a.ahead.action)
	return a.guard.expect(l, pref)
}

// expect rolls out a loop's prepared policy, which begins with l.alternative where the last action leads. If the plan
// is safe it is accepted, with the last action before it. A plan of a rescue stays: later decisions are compared with
// it.
func (g *guard) expect(l *loop, pref domain.Preference) error {
	w := &l.guard
	if w.accepted.solved && w.accepted.keepsLimits() {
		return nil
	}
	steps := g.steps(l.predictedC)
	r := rollout{s: l.predictedS, c: l.predictedC, pref: pref, steps: steps, result: &w.next}
	g.resumeSearch(l.memory, l.alternative, &r)
	if err := g.rollOne(r); err != nil {
		return err
	}
	if !w.next.safe() {
		return nil
	}
	w.next.prepend(l.lastU, l.predictedS, l.predictedC)
	w.accepted, w.next = w.next, w.accepted
	return nil
}

// prepend puts an action that leads to (s, c), where the plan begins, before it.
func (p *plan) prepend(u, s, c []float64) {
	p.actions = slices.Insert(p.actions, 0, u...)
	p.s, p.c = append(p.s[:0], s...), append(p.c[:0], c...)
	p.steps, p.fails = p.steps+1, p.fails+1
}

// single is a matrix of one row.
func single(v []float32) tensor.Matrix {
	return tensor.Matrix{Rows: 1, Cols: len(v), Stride: len(v), Data: v}
}

// bend makes a decision from a policy. It moves z, the latent of the observation, by the first offset, decodes it into
// plan, and adds the change of the polish.
func (f *finder) bend(m *memory, c []float64, state, z, plan []float32) (distance float64, err error) {
	distance = displaceBy(m.Best().Offsets, z)
	tensor.Narrow(f.present, c)
	err = f.stepper.Decode(single(z), single(f.present), single(state), single(plan), tensor.Matrix{})
	for j, more := range m.change {
		plan[j] = float32(float64(plan[j]) + more)
	}
	return distance, err
}
