package shooting

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// terminalCost is what a plan costs behind its horizon, to second order about a place to rest: with δ the way from
// there in units of scale,
//
//	V(s, c) = gᵀδ + ½ δᵀPδ, g its Slope and P its Curvature.
//
// g are the multipliers of the place's own equation and P is the cost-to-go of the linear regulator. The cost of
// resting itself, which every plan pays, is left out. A nil one costs nothing.
type terminalCost struct {
	domain.Quadratic           // of (s, c), [nx]: zero where no action moves an entry
	action           []float64 // that rests
	stageCost        float64   // what resting costs a step
	gains            []float64 // of the regulator, [nu][nx]: halves of the box by units of scale; nil where P is not known
}

// newTerminalCost is one that costs nothing.
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

// terminalCosts finds the lasting of every context and preference once. It is safe for concurrent use, and what it returns
// depends on the context's entries that no action moves, and on the preference, alone.
type terminalCosts struct {
	problem domain.Problem
	scale   []float64
	lock    sync.Mutex
	steady  *steadyStateSolver // nil before the first
	cache   map[string]*terminalCost
	key     []byte
}

// maxTerminalCosts bounds the memory of a loop whose context varies; behind it everything is forgotten.
const maxTerminalCosts = 4096

func newTerminalCosts(p domain.Problem, stateScale []float64) *terminalCosts {
	return &terminalCosts{problem: p, scale: stateScale, cache: map[string]*terminalCost{}}
}

// forContext is the lasting of a context under a preference; nil where there is no place to rest.
func (l *terminalCosts) forContext(c []float64, pref domain.Preference) *terminalCost {
	if l == nil {
		return nil
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.steady == nil {
		l.steady = newSteadyStateSolver(l.problem, l.scale, c)
	}
	return l.lookUp(c, pref)
}

// lookUp is of, with the lock held. A context that is not known yet begins at the place of the middle of its cell, so that a
// context that is estimated, and new at every decision, takes one search.
func (l *terminalCosts) lookUp(c []float64, pref domain.Preference) *terminalCost {
	l.key = l.key[:0]
	for i, v := range c {
		if !l.steady.q.isActive[l.steady.q.ns+i] {
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
			found = l.steady.warmSolve(c, pref, neighbour)
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

// TerminalCost is what a plan that ends in a state and context costs behind its horizon under a preference (Options.Lasting), less what
// resting would; 0 where nothing is counted there.
func (s *Solver) TerminalCost(state, c []float64, pref domain.Preference) float64 {
	l := s.terminalCosts.forContext(c, pref)
	if l == nil {
		return 0
	}
	return l.Value(state, c)
}

// PlanTerminalCost is Behind of all plans of so many steps from a state and context, which differ where they end only in what actions
// move; nil where nothing is counted there. It reports false where what no action moves leaves the numbers.
func (s *Solver) PlanTerminalCost(state, c []float64, steps int, pref domain.Preference) (*domain.Quadratic, bool) {
	if s.terminalCosts == nil {
		return nil, true
	}
	s.terminalCosts.forContext(c, pref) // finds what moves
	p, moves := s.problem, s.terminalCosts.steady.q.isActive
	current, next := slices.Concat(state, c), make([]float64, len(state)+len(c))
	u := make([]float64, p.Spec().PlanSize())
	n := len(state)
	for range steps {
		p.Base(current[:n], current[n:], u)
		p.Step(current[:n], current[n:], u[:p.Spec().ActionSize()], next[:n], next[n:])
		constant := true
		for i, v := range next {
			if constant = constant && (moves[i] || v == current[i]); !moves[i] && (math.IsNaN(v) || math.IsInf(v, 0)) {
				return nil, false
			}
		}
		if current, next = next, current; constant {
			break // as from then on
		}
	}
	for i, v := range c {
		if moves[n+i] {
			current[n+i] = v
		}
	}
	l := s.terminalCosts.forContext(current[n:], pref)
	if l == nil {
		return nil, true
	}
	return &l.Quadratic, true
}

// regulatorSpace is what one roll-out of a regulator computes in.
type regulatorSpace struct{ s, c, nextS, nextC, u, m []float64 }

// RegulatorMargin is the smallest margin of so many steps of the linear regulator about the place to rest under the adaptive priority,
// within the box and projected where a limit asks for it; −Inf where a state is lost. It reports false where there is no regulator.
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
			half := 1.0
			if a.Bounded() {
				half = (a.Hi - a.Lo) / 2
			}
			sum := 0.0
			for i, k := range l.gains[j*len(l.At) : (j+1)*len(l.At)] {
				if k != 0 {
					sum += k * l.Away(space.s, space.c, i)
				}
			}
			space.u[j] = l.action[j] + half*sum
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
