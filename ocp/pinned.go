package ocp

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// MinimisePinned is Minimise of a weighted sum with some actions given: the entries of pinned, [steps·action], that are
// no NaN. It finds the best of the other actions of a plan of switches, and their gains.
func (s *Solver) MinimisePinned(state, ctx []float64, steps int, pref domain.Preference, pinned []float64, seed uint64, starts ...[][]float64) (*Trajectory, error) {
	t := s.taskFrom(state, ctx, steps, seed, starts...)
	t.pinned = pinned
	return t.minimise(pref, domain.WeightedSum)
}

// gains are how the actions of a plan answer to other states than its own, to first order, [steps][action][state]; nil where that is not
// known. The barrier of the method keeps the answer's distance from the limits.
func (p *ipm) gains() []float64 {
	q := p.q
	q.initialFree = true
	defer q.fixInitialState()
	q.differentiate(p.cur)
	q.hessian(p.cur, p.mu, p.objectiveScale, p.z, p.lambda)
	p.assemble()
	if !p.factor() {
		return nil
	}
	out, xi, v := make([]float64, q.steps*q.nu*q.ns), make([]float64, q.nX), make([]float64, q.nu)
	for t := range q.steps {
		for i, a := range q.active {
			if a >= q.ns {
				continue
			}
			clear(xi)
			clear(v)
			xi[i] = 1 / q.scale[a]
			p.r.feedback(t, xi, v)
			for j, g := range v {
				out[(t*q.nu+j)*q.ns+a] = q.half[j] * g
			}
		}
	}
	return out
}

// isPinned reports whether action j of stage t is given.
func (q *program) isPinned(t, j int) bool {
	return q.pinned != nil && !math.IsNaN(q.pinned[t*q.nu+j])
}

// fixPinned clears the first derivatives with respect to actions that are given.
func (q *program) fixPinned() {
	q.eachPinned(func(t, j int) { q.clearColumns(t, j, j+1) })
}

// fixPinnedCurvature clears the second derivatives with respect to them.
func (q *program) fixPinnedCurvature() {
	q.eachPinned(func(t, j int) {
		h := q.stageHessian(t)
		for i := range q.d {
			h[i*q.d+j], h[j*q.d+i] = 0, 0
		}
	})
}

func (q *program) eachPinned(f func(t, j int)) {
	for i, v := range q.pinned {
		if !math.IsNaN(v) {
			f(i/q.nu, i%q.nu)
		}
	}
}
