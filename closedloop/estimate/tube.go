package estimate

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// tube is a plan with the linear feedback that its constraint tightening counts on, and the room of every margin after the
// tightening. The feedback leads a state that deviates from the plan by d to
//
//	d ← (A + B K) d, where a margin is m + (m_s + m_u K) d
//
// to first order. Where all margins have room for that, the plan with its feedback keeps the limits at the stated level
// from there, and needs no new solve. The tightening counts on more errors than are still to come, as it was found before
// some of them were measured.
type tube struct {
	margin           *Margin
	abilities        *domain.ProblemAbilities
	unknown          []int // entries of the context
	foreseen         []int // those that are known, and that the limits depend on
	steps            int   // stages of the plan; 0: there is none that keeps its limits
	stage            int   // that of the present decision
	slack, now       [][]float64
	flow             [][]float64 // of each stage [n][margins+n]: derivatives of its margins and of the next d, by d
	deviation, image []float64   // d, and margins with the next d
	next             []float64
	nextC            []float64
	other            []float64 // margins
	plan             []float64
	box              []domain.Variable
}

// follow has a margin remember its plans as tubes. A plant that runs on has none: its plans end each time later.
func (m *Margin) follow() bool {
	spec := m.problem.Spec()
	if spec.Clock == 0 {
		return false
	}
	steps := len(m.stages.list)
	rows := func(n int) [][]float64 {
		all := make([][]float64, steps)
		for t := range all {
			all[t] = make([]float64, n)
		}
		return all
	}
	m.tube = &tube{
		margin: m, abilities: domain.AbilitiesOfProblem(m.problem), slack: rows(m.nm), now: rows(m.nm), flow: rows(m.n * (m.nm + m.n)),
		deviation: make([]float64, m.n), image: make([]float64, m.nm+m.n), next: make([]float64, len(m.next)), nextC: make([]float64, len(m.nextC)), other: make([]float64, m.nm),
		box: spec.Action,
	}
	for _, u := range m.measurement.Unknown {
		m.tube.unknown = append(m.tube.unknown, u.Context)
	}
	for i := range spec.Context {
		if m.lin.staged != nil && !slices.Contains(m.lin.staged.Limiting(), i) && i != spec.Clock-1 || slices.Contains(m.tube.unknown, i) {
			continue
		}
		m.tube.foreseen = append(m.tube.foreseen, i)
	}
	m.stages.m = make([]float64, steps*m.nm)
	return true
}

// Foreseen are the entries of the context that the limits depend on and that are not estimated, ascending. They are of
// a margin whose plans a guard may follow; nil: of another.
func (m *Margin) Foreseen() []int {
	if m.tube == nil {
		return nil
	}
	return m.tube.foreseen
}

// leave forgets the plan.
func (b *tube) leave() { b.steps = 0 }

// steers takes the derivatives of the margins of a stage under the feedback, [margins][n], closes those of the next
// state, [n][n]. Both are rounded to float32, as the C export holds them to save memory.
func (b *tube) steers(t int, values []float64) { b.write(t, 0, b.margin.nm, values) }
func (b *tube) closes(t int, values []float64) { b.write(t, b.margin.nm, b.margin.n, values) }

func (b *tube) write(t, first, rows int, values []float64) {
	n, width := b.margin.n, b.margin.nm+b.margin.n
	for k := range n {
		dst := b.flow[t][k*width+first:][:rows]
		for i := range dst {
			dst[i] = float64(float32(values[i*n+k]))
		}
	}
}

// open begins with the plan of the tightening, if that plan keeps its limits.
func (b *tube) open(steps int) {
	m := b.margin
	spec := m.problem.Spec()
	b.steps, b.stage = 0, 0
	for t := range steps {
		st, room := &m.stages.list[t], b.slack[t]
		if t > 0 && b.abilities.Lost(st.s, st.c) {
			return
		}
		if m.lin.staged != nil {
			copy(room, m.stages.m[t*m.nm:])
		} else {
			m.problem.Margins(st.s, st.c, st.u, room)
		}
		for i, v := range m.backoff.At(st.c) {
			if room[i] -= v; !spec.Keeps(room[i]) {
				return
			}
		}
	}
	end := &m.stages.list[steps-1]
	m.problem.Step(end.s, end.c, end.u, b.next, b.nextC)
	if !tensor.Finite(b.next) || b.abilities.Lost(b.next, b.nextC) {
		return
	}
	domain.StateMargins(m.problem, b.abilities, b.next, b.nextC, end.u, m.margins, b.other)
	if spec.Keeps(domain.Smallest(m.margins)) {
		b.steps = steps
	}
}

// holds reports whether the present decision is one of the plan, in a context that it has foreseen.
func (b *tube) holds(c []float64) bool { return b.hasNext() && b.foresees(c, b.stage) }

// foresees reports whether a context is that of stage t in all that the limits depend on, but for what is estimated.
func (b *tube) foresees(c []float64, t int) bool {
	for _, i := range b.foreseen {
		if v := b.margin.stages.list[t].c[i]; !(math.Abs(c[i]-v) <= Rounded*(1+math.Abs(v))) {
			return false
		}
	}
	return true
}

// hasNext reports whether there are stages after the present one.
func (b *tube) hasNext() bool { return b.stage+1 < b.steps }

// Rounded is how far an entry of the context may be from the foreseen one, in its unit and relative to its size.
const Rounded = 1e-9

// keeps reports whether the feedback keeps the limits from where an action leads. It returns the action followed by the
// rest of the plan.
func (b *tube) keeps(s, c, u []float64) (plan []float64, keeps bool) {
	m := b.margin
	m.problem.Step(s, c, u, b.next, b.nextC)
	if !tensor.Finite(b.next) || b.abilities.Lost(b.next, b.nextC) || !b.foresees(b.nextC, b.stage+1) {
		return nil, false
	}
	b.deviate(b.next, b.nextC, b.stage+1)
	spec := m.problem.Spec()
	for t := b.stage + 1; t < b.steps; t++ {
		copy(b.image, b.slack[t])
		clear(b.image[m.nm:])
		for k, v := range b.deviation {
			tensor.Axpy(v, b.flow[t][k*len(b.image):][:len(b.image)], b.image)
		}
		for _, v := range b.image[:m.nm] {
			if !spec.Keeps(v) {
				return nil, false
			}
		}
		copy(b.deviation, b.image[m.nm:])
	}
	b.plan = append(b.plan[:0], u...)
	for t := b.stage + 1; t < b.steps; t++ {
		b.plan = append(b.plan, m.stages.list[t].u...)
	}
	return b.plan, true
}

// deviate writes how far a state, with the estimated entries of the context, is from stage t.
func (b *tube) deviate(s, c []float64, t int) {
	st := &b.margin.stages.list[t]
	for i, v := range s {
		b.deviation[i] = v - st.s[i]
	}
	for i, k := range b.unknown {
		b.deviation[len(s)+i] = c[k] - st.c[k]
	}
}

// renew finds the tightening from a state on and begins with its plan. The plan is the last one as the feedback changes
// it, or the actions where there is none.
func (b *tube) renew(s, c, actions []float64, f *Filter, queue *actionQueue) {
	m, ahead, lastSteps := b.margin, b.stage, b.steps
	steps := m.remaining(c)
	b.leave()
	if ahead == 0 || ahead+steps != lastSteps {
		if m.Along(s, c, actions, f, queue) {
			b.open(steps)
		}
		return
	}
	m.roll(s, c, steps, func(t int, st *stage) {
		previous := &m.stages.list[ahead+t]
		for i := range st.u {
			st.u[i] = previous.u[i]
			for k, v := range st.s {
				st.u[i] += previous.k[i*m.n+k] * (v - previous.s[k])
			}
		}
		domain.Clip(st.u, st.u, b.box)
	})
	if m.spread(steps, f, queue) {
		b.open(steps)
	}
}

// actions are those of the plan of the tightening.
func (b *tube) actions(steps int) []float64 {
	b.plan = b.plan[:0]
	for t := range steps {
		b.plan = append(b.plan, b.margin.stages.list[t].u...)
	}
	return b.plan
}

// follower is a loop as the guard asks it.
func (l *Loop) follower() *domain.Follower {
	return &domain.Follower{
		Keeps: func(s, c, u []float64) (plan []float64, keeps bool) {
			if !l.asking || !l.margin.tube.hasNext() {
				return nil, false
			}
			plan, l.followed = l.margin.tube.keeps(s, c, u)
			return plan, l.followed
		},
		Renew: func(s, c []float64) (plan []float64, renewed bool) {
			if !l.asking || l.fresh {
				return nil, false
			}
			l.renew(s, c)
			return l.margin.tube.actions(l.margin.remaining(c)), true
		},
	}
}
