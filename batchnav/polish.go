package batchnav

import (
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/crossentropy"
	"github.com/gpc-engine/gpc/tensor"
)

// polishIterations of the methods that polish.
const polishIterations = 10

// polish continues from the best roll-out of a search. The problem's own method improves its actions, or the actions of
// the last decision, one step on, where those are better. The first action of the result is executed where its roll-out
// is better than the best.
type polish struct {
	*search
	method        func(s, c []float64, pref domain.Preference, bounds []domain.Bound, plan []float64, iterations int) bool
	best, another []float64 // [steps·action]
}

func newPolish(r *search) (*polish, error) {
	if r.abilities.Polish == nil || r.opt.Polish < 0 {
		return nil, fmt.Errorf("a polish of %d iterations in case %q: want a number ≥ 0, and a problem that has domain.ProblemAbilities.Polish", r.opt.Polish, r.spec.Name)
	}
	return &polish{search: r, method: r.abilities.Polish}, nil
}

// makeRoom begins a decision.
func (p *polish) makeRoom(steps int) {
	size := steps * p.first.Cols
	p.executed = slices.Grow(p.executed[:0], p.round*size)[:p.round*size]
	p.best, p.another = slices.Grow(p.best[:0], size)[:size], slices.Grow(p.another[:0], size)[:size]
}

// improve polishes the best roll-out of a loop's decision, which plan begins with.
func (p *polish) improve(m *memory, elite *crossentropy.Elite, x root, plan []float32) {
	nu := len(plan)
	best, better := crossentropy.Elite{Cost: elite.Cost, Margin: elite.Margin}, false
	var bounds []domain.Bound
	if m.target != nil {
		x.pref, bounds = domain.Preference{W: m.target.weights}, m.target.bounds
		best.Cost, best.Margin = p.scorePlan(x, m.target, p.best)
	}
	if len(m.plan) > 0 {
		for offset := 0; offset < len(p.another); offset += nu { // the last action is held
			copy(p.another[offset:offset+nu], m.plan[min(offset+nu, len(m.plan)-nu):])
		}
		better = p.adopt(x, m.target, &best)
	}
	copy(p.another, p.best)
	if p.method(x.s, x.c, x.pref, bounds, p.another, p.opt.Polish) {
		better = p.adopt(x, m.target, &best) || better
	}
	m.change = m.change[:0]
	if better {
		tensor.Narrow(plan, p.best[:nu])
		for j, u := range p.best[:nu] {
			m.change = append(m.change, u-float64(elite.Payload[j]))
		}
	}
	m.plan = append(m.plan[:0], p.best...)
}

// adopt makes another plan the best where its roll-out is better.
func (p *polish) adopt(x root, t *target, best *crossentropy.Elite) bool {
	var e crossentropy.Elite
	e.Cost, e.Margin = p.scorePlan(x, t, p.another)
	if !p.sampler.Better(&e, best) {
		return false
	}
	*best = e
	copy(p.best, p.executed)
	return true
}

// scorePlan scores a plan, with a target by that and by what is beyond its bounds.
func (p *polish) scorePlan(x root, t *target, plan []float64) (cost, margin float64) {
	b := domain.PlanBatch{S: x.s, C: x.c, Preference: x.pref, NoProjection: p.noProjection, Projected: p.projected[:p.first.Cols], Cost: p.cost[:1], Margin: p.margin[:1]}
	if t != nil {
		p.totals = make([]float64, len(x.pref.W))
		defer func() { p.totals = nil }()
	}
	if p.replay(&b, plan); t != nil {
		b.Cost[0] = t.cost(p.totals, excessive)
	}
	return b.Cost[0], b.Margin[0]
}
