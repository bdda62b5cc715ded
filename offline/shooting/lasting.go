package shooting

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// lasting is what a plan costs behind its horizon, to second order about a place to rest: with δ the way from
// there in units of scale,
//
//	V(s, c) = gᵀδ + ½ δᵀPδ, g its Slope and P its Curvature.
//
// g are the multipliers of the place's own equation and P is the cost-to-go of the linear regulator. The cost of
// resting itself, which every plan pays, is left out. A nil one costs nothing.
type lasting struct {
	domain.Quadratic           // of (s, c), [nx]: zero where no action moves an entry
	action           []float64 // that rests
	each             float64   // what resting costs a step
	gains            []float64 // of the regulator, [nu][nx]: halves of the box by units of scale; nil where P is not known
}

// newLasting is one that costs nothing.
func newLasting(q *program) *lasting {
	return &lasting{Quadratic: domain.Quadratic{At: make([]float64, q.nx), Slope: make([]float64, q.nx), Curvature: make([]float64, q.nx*q.nx), Scale: q.scale[:q.nx:q.nx]}}
}

// cost is V at the end of a point.
func (l *lasting) cost(q *program, p *point) float64 {
	if l == nil {
		return 0
	}
	return l.Value(q.state(p, q.steps))
}

// addGradient adds scale·∇V at the end of a point to out, [nX], over the active components.
func (l *lasting) addGradient(q *program, p *point, scale float64, out []float64) {
	if l == nil || scale == 0 {
		return
	}
	s, c := q.state(p, q.steps)
	for i, a := range q.active {
		out[i] += scale * (l.Slope[a] + l.Row(s, c, a))
	}
}

// addHessian adds scale·∇²V to out, [nX][nX].
func (l *lasting) addHessian(q *program, scale float64, out []float64) {
	if l == nil || scale == 0 {
		return
	}
	for i, a := range q.active {
		for k, b := range q.active {
			out[i*q.nX+k] += scale * l.Curvature[a*q.nx+b]
		}
	}
}

// lastings finds the lasting of every context and preference once. It is safe for concurrent use, and what it returns
// depends on the context's entries that no action moves, and on the preference, alone.
type lastings struct {
	problem domain.Problem
	scale   []float64
	lock    sync.Mutex
	rest    *resting // nil before the first
	known   map[string]*lasting
	key     []byte
}

// mostLastings bounds the memory of a loop whose context varies; behind it everything is forgotten.
const mostLastings = 4096

func newLastings(p domain.Problem, stateScale []float64) *lastings {
	return &lastings{problem: p, scale: stateScale, known: map[string]*lasting{}}
}

// of is the lasting of a context under a preference; nil where there is no place to rest.
func (l *lastings) of(c []float64, pref domain.Preference) *lasting {
	if l == nil {
		return nil
	}
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.rest == nil {
		l.rest = newResting(l.problem, l.scale, c)
	}
	return l.under(c, pref)
}

// under is of, with the lock held. A context that is not known yet begins at the place of the middle of its cell, so that a
// context that is estimated, and new at every decision, takes one search.
func (l *lastings) under(c []float64, pref domain.Preference) *lasting {
	l.key = l.key[:0]
	for i, v := range c {
		if !l.rest.q.moves[l.rest.q.ns+i] {
			l.key = binary.LittleEndian.AppendUint64(l.key, math.Float64bits(v))
		}
	}
	if !pref.Adaptive {
		for _, v := range pref.W {
			l.key = binary.LittleEndian.AppendUint64(l.key, math.Float64bits(v))
		}
	}
	found, ok := l.known[string(l.key)]
	if ok {
		return found
	}
	key := string(l.key)
	if middle := l.rest.middle(c); !slices.Equal(middle, c) {
		if near := l.under(middle, pref); near != nil {
			found = l.rest.near(c, pref, near)
		}
	}
	if found == nil {
		found = l.rest.find(c, pref)
	}
	if len(l.known) >= mostLastings {
		clear(l.known)
	}
	l.known[key] = found
	return found
}

// Behind is what a plan that ends in a state and context costs behind its horizon under a preference (Options.Lasting), less what
// resting would; 0 where nothing is counted there.
func (s *Solver) Behind(state, c []float64, pref domain.Preference) float64 {
	l := s.lastings.of(c, pref)
	if l == nil {
		return 0
	}
	return l.Value(state, c)
}

// BehindPlans is Behind of all plans of so many steps from a state and context, which differ where they end only in what actions
// move; nil where nothing is counted there. It reports false where what no action moves leaves the numbers.
func (s *Solver) BehindPlans(state, c []float64, steps int, pref domain.Preference) (*domain.Quadratic, bool) {
	if s.lastings == nil {
		return nil, true
	}
	s.lastings.of(c, pref) // finds what moves
	p, moves := s.problem, s.lastings.rest.q.moves
	now, then := slices.Concat(state, c), make([]float64, len(state)+len(c))
	u := make([]float64, p.Spec().PlanSize())
	n := len(state)
	for range steps {
		p.Base(now[:n], now[n:], u)
		p.Step(now[:n], now[n:], u[:p.Spec().ActionSize()], then[:n], then[n:])
		stays := true
		for i, v := range then {
			if stays = stays && (moves[i] || v == now[i]); !moves[i] && (math.IsNaN(v) || math.IsInf(v, 0)) {
				return nil, false
			}
		}
		if now, then = then, now; stays {
			break // as from then on
		}
	}
	for i, v := range c {
		if moves[n+i] {
			now[n+i] = v
		}
	}
	l := s.lastings.of(now[n:], pref)
	if l == nil {
		return nil, true
	}
	return &l.Quadratic, true
}

// settling is what one roll-out of a regulator computes in.
type settling struct{ s, c, nextS, nextC, u, m []float64 }

// Settles is the smallest margin of so many steps of the linear regulator about the place to rest under the adaptive priority,
// within the box and projected where a limit asks for it; −Inf where a state is lost. It reports false where there is no regulator.
func (s *Solver) Settles(state, c []float64, steps int) (margin float64, known bool) {
	l := s.lastings.of(c, domain.Preference{Adaptive: true})
	if l == nil || l.gains == nil {
		return 0, false
	}
	p := s.problem
	spec := p.Spec()
	w := s.work.settlings.Get().(*settling)
	defer s.work.settlings.Put(w)
	copy(w.s, state)
	copy(w.c, c)
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
					sum += k * l.Away(w.s, w.c, i)
				}
			}
			w.u[j] = l.action[j] + half*sum
		}
		domain.Clip(w.u, w.u, spec.Action)
		p.Margins(w.s, w.c, w.u, w.m)
		if !spec.Keeps(domain.Smallest(w.m)) {
			p.Project(w.s, w.c, w.u)
			p.Margins(w.s, w.c, w.u, w.m)
		}
		if margin = math.Min(margin, domain.Smallest(w.m)); !spec.Keeps(margin) {
			return margin, true
		}
		p.Step(w.s, w.c, w.u, w.nextS, w.nextC)
		w.s, w.nextS, w.c, w.nextC = w.nextS, w.s, w.nextC, w.c
		if !tensor.Finite(w.s) || !tensor.Finite(w.c) || s.may.Lost(w.s, w.c) {
			return math.Inf(-1), true
		}
	}
	return margin, true
}
