package ocp

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// terminalCost is the cost beyond the horizon, to second order about the optimal steady state. With δ the deviation
// from it in units of scale,
//
//	V(s, c) = gᵀδ + ½ δᵀPδ, g its Slope and P its Curvature.
//
// g are the multipliers of the steady-state equation. P is the cost-to-go of the linear regulator. V leaves out the
// stage cost of the steady state, which every plan pays. A nil terminalCost is zero.
type terminalCost struct {
	domain.Quadratic           // of (s, c), [nx]; zero for inactive entries
	action           []float64 // of the steady state
	rank                       // of the steady state
	gains            []float64 // of the regulator, [nu][nx]: half widths of the box per unit of scale; nil where P did not converge
}

// newTerminalCost is zero.
func newTerminalCost(q *program) *terminalCost {
	return &terminalCost{Quadratic: domain.Quadratic{At: make([]float64, q.nx), Slope: make([]float64, q.nx), Curvature: make([]float64, q.nx*q.nx), Scale: q.scale[:q.nx:q.nx]}}
}

// value is V at the end of a point.
func (l *terminalCost) value(q *program, p *point) float64 {
	if l == nil {
		return 0
	}
	return l.Value(q.state(p, q.steps))
}

// addGradient adds scale·∇V at the end of a point to out, [nX], over the active components.
func (l *terminalCost) addGradient(q *program, p *point, scale float64, out []float64) {
	if l == nil || scale == 0 {
		return
	}
	s, c := q.state(p, q.steps)
	for i, a := range q.active {
		out[i] += scale * (l.Slope[a] + l.Row(s, c, a))
	}
}

// addHessian adds scale·∇²V to out, [nX][nX].
func (l *terminalCost) addHessian(q *program, scale float64, out []float64) {
	if l == nil || scale == 0 {
		return
	}
	for i, a := range q.active {
		for k, b := range q.active {
			out[i*q.nX+k] += scale * l.Curvature[a*q.nx+b]
		}
	}
}

// terminalCosts caches the terminal cost of each context and preference. It is safe for concurrent use. A result
// depends only on the preference and the inactive context entries.
type terminalCosts struct {
	problem domain.Problem
	scale   []float64
	start   []float64 // the state of a scenario in the middle of its axes
	lock    sync.Mutex
	steady  *steadyStateSolver // nil before the first
	buffers [3][]float64       // of forPlan
	cache   map[string]*terminalCost
	key     []byte
}

// maxTerminalCosts bounds the memory of a loop whose context varies; a full cache is cleared.
const maxTerminalCosts = 4096

// forContext is the terminal cost of a context under a preference; nil where there is no steady state.
func (l *terminalCosts) forContext(c []float64, pref domain.Preference) *terminalCost {
	if l == nil {
		return nil
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.lookUp(c, pref)
}

// forPlan is the terminal cost of all plans of that many steps from a state and context: their ends differ only in active
// components, and the others move by themselves. It returns false where one of these becomes non-finite.
func (l *terminalCosts) forPlan(state, c []float64, steps int, pref domain.Preference) (*terminalCost, bool) {
	if l == nil {
		return nil, true
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	moves, n := l.activeFrom(c), len(state)
	current, next, u := l.buffers[0], l.buffers[1], l.buffers[2]
	copy(current[copy(current, state):], c)
	for range steps {
		l.problem.Base(current[:n], current[n:], u)
		l.problem.Step(current[:n], current[n:], u[:l.steady.q.nu], next[:n], next[n:])
		constant := true
		for i, v := range next {
			if constant = constant && (moves[i] || v == current[i]); !moves[i] && (math.IsNaN(v) || math.IsInf(v, 0)) {
				return nil, false
			}
		}
		if current, next = next, current; constant {
			break // constant from here on
		}
	}
	for i, v := range c {
		if moves[n+i] {
			current[n+i] = v
		}
	}
	return l.lookUp(current[n:], pref), true
}

// activeFrom marks the active components; the first context finds them.
func (l *terminalCosts) activeFrom(c []float64) []bool {
	if l.steady == nil {
		l.steady = newSteadyStateSolver(l.problem, l.scale, l.start, c)
		nx := l.steady.q.nx
		l.buffers = [3][]float64{make([]float64, nx), make([]float64, nx), make([]float64, l.steady.q.spec.PlanSize())}
	}
	return l.steady.q.isActive
}

// lookUp is forContext with the lock held. A new context is solved from the steady state of its cell's centre. An
// estimated context, new at every decision, then takes one search.
func (l *terminalCosts) lookUp(c []float64, pref domain.Preference) *terminalCost {
	l.key = l.key[:0]
	moves := l.activeFrom(c)[len(l.start):]
	for i, v := range c {
		if !moves[i] {
			l.key = binary.LittleEndian.AppendUint64(l.key, math.Float64bits(v))
		}
	}
	if !pref.Adaptive {
		for _, v := range pref.W {
			l.key = binary.LittleEndian.AppendUint64(l.key, math.Float64bits(v))
		}
	}
	found, ok := l.cache[string(l.key)]
	if ok {
		return found
	}
	key := string(l.key)
	if centre := l.steady.cellCentre(c); !slices.Equal(centre, c) {
		if neighbour := l.lookUp(centre, pref); neighbour != nil {
			if found = l.steady.warmSolve(c, pref, neighbour); found != nil && found.excess > sameExcess && neighbour.excess <= sameExcess {
				found = nil // another one may be inside
			}
		}
	}
	if found == nil {
		found = l.steady.solve(c, pref)
	}
	if len(l.cache) >= maxTerminalCosts {
		clear(l.cache)
	}
	l.cache[key] = found
	return found
}

// TerminalCost is the cost beyond the horizon of a plan that ends in a state and context (Options.TerminalCost), less
// that of the optimal steady state. It is 0 without a terminal cost.
func (s *Solver) TerminalCost(state, c []float64, pref domain.Preference) float64 {
	l := s.terminalCosts.forContext(c, pref)
	if l == nil {
		return 0
	}
	return l.Value(state, c)
}

// PlanTerminalCost is TerminalCost as a quadratic form, for all plans of that many steps from a state and context. It is nil
// without a terminal cost. It returns false where a component that no action moves becomes non-finite.
func (s *Solver) PlanTerminalCost(state, c []float64, steps int, pref domain.Preference) (*domain.Quadratic, bool) {
	l, ok := s.terminalCosts.forPlan(state, c, steps, pref)
	if l == nil {
		return nil, ok
	}
	return &l.Quadratic, true
}

// regulatorSpace holds the buffers of one roll-out of a regulator.
type regulatorSpace struct{ s, c, nextS, nextC, u, m []float64 }

// RegulatorMargin is the smallest margin over the given steps of the linear regulator about the optimal steady state
// under the adaptive priority. Actions are clipped to the box and projected where they violate a limit. It is −Inf
// where a state is lost. It returns false where there is no regulator.
func (s *Solver) RegulatorMargin(state, c []float64, steps int) (margin float64, ok bool) {
	l := s.terminalCosts.forContext(c, domain.Preference{Adaptive: true})
	if l == nil || l.gains == nil {
		return 0, false
	}
	p := s.problem
	spec := p.Spec()
	space := s.work.regulators.Get().(*regulatorSpace)
	defer s.work.regulators.Put(space)
	copy(space.s, state)
	copy(space.c, c)
	margin = math.Inf(1)
	for range steps {
		for j, a := range spec.Action {
			sum := 0.0
			for i, k := range l.gains[j*len(l.At) : (j+1)*len(l.At)] {
				if k != 0 {
					sum += k * l.Away(space.s, space.c, i)
				}
			}
			space.u[j] = l.action[j] + a.Half()*sum
		}
		domain.Clip(space.u, space.u, spec.Action)
		p.Margins(space.s, space.c, space.u, space.m)
		if !spec.Keeps(domain.Smallest(space.m)) {
			p.Project(space.s, space.c, space.u)
			p.Margins(space.s, space.c, space.u, space.m)
		}
		if margin = math.Min(margin, domain.Smallest(space.m)); !spec.Keeps(margin) {
			return margin, true
		}
		p.Step(space.s, space.c, space.u, space.nextS, space.nextC)
		space.s, space.nextS = space.nextS, space.s
		space.c, space.nextC = space.nextC, space.c
		if !tensor.Finite(space.s) || !tensor.Finite(space.c) || s.abilities.Lost(space.s, space.c) {
			return math.Inf(-1), true
		}
	}
	return margin, true
}
