package batchnav

import (
	"slices"

	"github.com/gpc-engine/gpc/tensor"
)

// Saved are loops of a batch as they were at one time. The zero value is ready, and holds
// its memory for the next Save.
type Saved struct {
	numbers []int
	loops   []loop
	latents tensor.Matrix // of every loop; no rows: decisions do not depend on them
}

// Save keeps the loops of these numbers as they are, for Restore.
func (a *Batch) Save(numbers []int, saved *Saved) error {
	saved.numbers = append(saved.numbers[:0], numbers...)
	saved.loops = slices.Grow(saved.loops[:0], len(numbers))[:len(numbers)]
	for i, w := range numbers {
		saved.loops[i].copyFrom(&a.loops[w], a.search)
	}
	if !a.smooths() {
		return nil
	}
	if saved.latents.Rows == 0 {
		saved.latents = tensor.New(a.size, a.model.Latent())
	}
	return a.latents.Latents(saved.latents)
}

// Restore makes the loops what they were when they were saved; those that were not are as
// they are.
func (a *Batch) Restore(saved *Saved) error {
	for i, w := range saved.numbers {
		a.loops[w].copyFrom(&saved.loops[i], a.search)
	}
	if saved.latents.Rows == 0 {
		return nil
	}
	now := tensor.New(saved.latents.Rows, saved.latents.Cols)
	if err := a.latents.Latents(now); err != nil {
		return err
	}
	for _, w := range saved.numbers {
		copy(now.Row(w), saved.latents.Row(w))
	}
	return a.latents.SetLatents(now)
}

// Executed reports that u [action] was executed after the last decision of loop i in place of its own action.
func (a *Batch) Executed(i int, u []float64) { copy(a.loops[i].lastU, u) }

// Missed reports that loop i was not asked about an observation, after which u [action] was executed. The next decision
// of the loop follows no other.
func (a *Batch) Missed(i int, obs Observation, u []float64) {
	l := &a.loops[i]
	a.spend(l)
	l.noise.Interrupt()
	l.history.latent, l.history.state = false, false
	if tensor.Finite(obs.S) && tensor.Finite(obs.C) {
		copy(l.lastS, obs.S)
		copy(l.lastC, obs.C)
		copy(l.lastU, u)
		l.history.decision = true
	}
	l.guard.forget()
	l.prepared.forget()
	if l.memory != nil {
		l.memory.lose()
	}
}

// copyFrom makes a loop another one but for its scratch.
func (l *loop) copyFrom(o *loop, s *search) {
	l.noise.previous = append(l.noise.previous[:0], o.noise.previous...)
	l.noise.initialized, l.noise.mean, l.noise.weight = o.noise.initialized, o.noise.mean, o.noise.weight
	l.history, l.bad, l.variance = o.history, o.bad, o.variance
	for _, v := range []struct {
		to   *[]float64
		from []float64
	}{{&l.sigma, o.sigma}, {&l.lastS, o.lastS}, {&l.lastC, o.lastC}, {&l.lastU, o.lastU}, {&l.state, o.state}} {
		*v.to = append((*v.to)[:0], v.from...)
	}
	l.guard.accepted.copyFrom(&o.guard.accepted)
	l.guard.vain, l.guard.wait = o.guard.vain, o.guard.wait
	l.prepared.copyFrom(&o.prepared)
	l.pursuit = pursuit{o.pursuit.goal, o.pursuit.begins, slices.Clone(o.pursuit.most), slices.Clone(o.pursuit.reach), slices.Clone(o.pursuit.weights)}
	if o.memory == nil {
		return
	}
	if l.memory == nil {
		l.memory = &memory{Memory: s.sampler.NewMemory()}
	}
	l.memory.CopyFrom(o.memory.Memory)
	l.memory.plan, l.memory.change = append(l.memory.plan[:0], o.memory.plan...), append(l.memory.change[:0], o.memory.change...)
}

func (p *plan) copyFrom(o *plan) {
	p.actions, p.s, p.c = append(p.actions[:0], o.actions...), append(p.s[:0], o.s...), append(p.c[:0], o.c...)
	p.endS, p.endC = append(p.endS[:0], o.endS...), append(p.endC[:0], o.endC...)
	p.cost, p.margin = o.cost, o.margin
	p.fails, p.steps = o.fails, o.steps
	p.narrow, p.solved = o.narrow, o.solved
}
