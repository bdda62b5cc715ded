package estimate

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// smoothing is the problem of a window as package ocp solves it. Its state is the entries, its context the stage.
// The first action, v, leads to the entries of the oldest decision, whatever the state is. The action w of a later
// stage leads to those of the next.
type smoothing struct {
	spec  domain.Spec
	n     int
	scale []float64 // of the entries
	bound []bounded
	real  side[float64]
	dual  side[complex128]
}

// bounded is a bound of an entry: sign·(x − at) ≥ 0.
type bounded struct {
	entry       int
	limit, sign float64
}

func newSmoothing(w *window) *smoothing {
	f := w.tail
	p := &smoothing{n: f.n}
	p.real = newSide(w, func(v float64) float64 { return v }, func(m *appliedMove) func(s, c, u, sNext, cNext []float64) { return m.real }, f.measurement.Output)
	outputs := f.measurement.Dual
	if outputs == nil {
		outputs = func(s, _, _, y []complex128) { copy(y, s) }
	}
	p.dual = newSide(w, func(v float64) complex128 { return complex(v, 0) }, func(m *appliedMove) func(s, c, u, sNext, cNext []complex128) { return m.dual }, outputs)
	for i := range f.n {
		p.entry(f, i)
	}
	spec := f.problem.Spec()
	p.spec.Name, p.spec.MarginTolerance = spec.Name+", a window", windowTolerance
	p.spec.Steps, p.spec.Plan = w.size, 1
	p.spec.Context, p.spec.Objectives = []domain.Variable{{Name: "stage"}}, []domain.Variable{{Name: "misfit"}}
	return p
}

// entry adds an estimated entry with its bounds.
func (p *smoothing) entry(f *Filter, i int) {
	v := domain.Variable{Name: fmt.Sprintf("unknown %d", i-f.ns)}
	scale := f.spread[i]
	if i < f.ns {
		v = f.problem.Spec().Measured[i]
		scale = v.Scale()
	}
	if !(scale > 0) {
		scale = 1
	}
	p.scale, p.spec.Measured = append(p.scale, scale), append(p.spec.Measured, v)
	p.spec.Action = append(p.spec.Action, domain.Variable{Name: "noise of " + v.Name})
	lo, hi := f.measurement.Bounds(i, f.ns)
	for _, b := range []bounded{{i, lo, 1}, {i, hi, -1}} {
		if !math.IsInf(b.limit, 0) {
			p.bound = append(p.bound, b)
			p.spec.Margins = append(p.spec.Margins, domain.Variable{Name: "bound of " + v.Name})
		}
	}
}

// number is what the functions of a problem compute with.
type number interface{ float64 | complex128 }

// side is the window in one type of number. It remembers the last stage: who asks for a step asks for its objectives next.
type side[T number] struct {
	window                       *window
	lift                         func(v float64) T
	step                         func(m *appliedMove) func(s, c, u, sNext, cNext []T)
	output                       func(s, c, u, y []T)
	c, sNext, cNext, u, y        []T
	lastX, lastC, lastW, arrival []T
	cached                       bool
}

func newSide[T number](w *window, lift func(v float64) T, step func(m *appliedMove) func(s, c, u, sNext, cNext []T), output func(s, c, u, y []T)) side[T] {
	f := w.tail
	row := func(n int) []T { return make([]T, n) }
	return side[T]{
		window: w, lift: lift, step: step, output: output, c: row(f.nc), sNext: row(f.ns), cNext: row(f.nc), u: row(f.nu), y: row(f.ny),
		lastX: row(f.n), lastC: row(1), lastW: row(f.n), arrival: row(f.n),
	}
}

// forget is for a window that has changed.
func (p *smoothing) forget() { p.real.cached, p.dual.cached = false, false }

// widened writes numbers without a derivative.
func (p *side[T]) widened(to []T, from []float64) []T {
	for i, v := range from {
		to[i] = p.lift(v)
	}
	return to
}

// arrive views the entries of the decision that a stage leads to.
func (p *side[T]) arrive(x, c, w []T) []T {
	if p.cached && slices.Equal(p.lastX, x) && slices.Equal(p.lastC, c) && slices.Equal(p.lastW, w) {
		return p.arrival
	}
	p.cached = false
	copy(p.lastX, x)
	copy(p.lastC, c)
	copy(p.lastW, w)
	if k := stageOf(c[0]); k == 0 {
		p.begin(w)
	} else {
		p.follow(&p.window.decisions[k-1], x, w)
	}
	p.cached = true
	return p.arrival
}

// begin is mean + root·v.
func (p *side[T]) begin(v []T) {
	f := p.window.tail
	for i := range f.n {
		p.arrival[i] = p.lift(f.x[i])
		for j, factor := range v {
			p.arrival[i] += p.lift(f.root[i*f.n+j]) * factor
		}
	}
}

// follow moves from one decision to the next.
func (p *side[T]) follow(origin *observed, x, w []T) {
	f := p.window.tail
	copy(p.arrival, x)
	p.widened(p.c, origin.c)
	for i := range origin.moves {
		m := &origin.moves[i]
		p.place(p.c, p.arrival)
		p.step(m)(p.arrival[:f.ns], p.c, p.widened(p.u, m.u), p.sNext, p.cNext)
		copy(p.arrival, p.sNext)
		copy(p.c, p.cNext)
		for k, unknown := range f.measurement.Unknown {
			p.arrival[f.ns+k] = p.c[unknown.Context]
		}
		if !m.acts {
			continue
		}
		for k, v := range f.noise {
			p.arrival[k] += p.lift(v) * w[k]
		}
	}
}

// place writes the unknown entries into a context.
func (p *side[T]) place(c, x []T) {
	f := p.window.tail
	for k, unknown := range f.measurement.Unknown {
		c[unknown.Context] = x[f.ns+k]
	}
}

// misfit is a stage's part of what is minimised.
func (p *side[T]) misfit(x, c, w []T) (sum T) {
	f := p.window.tail
	for _, v := range w {
		sum += v * v
	}
	arrival, decision := p.arrive(x, c, w), &p.window.decisions[stageOf(c[0])]
	p.place(p.widened(p.c, decision.c), arrival)
	p.output(arrival[:f.ns], p.c, p.widened(p.u, decision.lastAction), p.y)
	for i, y := range decision.y {
		if y-y == 0 {
			residual := (p.lift(y) - p.y[i]) * p.lift(1/f.measurement.Deviation[i])
			sum += residual * residual
		}
	}
	return sum * p.lift(0.5)
}

func stageOf[T number](c T) int {
	switch v := any(c).(type) {
	case complex128:
		return int(real(v))
	case float64:
		return int(v)
	}
	return 0
}

func (p *side[T]) margins(bounds []bounded, scale []float64, x, c, w, m []T) {
	arrival := p.arrive(x, c, w)
	for i, b := range bounds {
		m[i] = (arrival[b.entry] - p.lift(b.limit)) * p.lift(b.sign/scale[b.entry])
	}
}

// Abilities implements domain.Able.
func (p *smoothing) Abilities() *domain.ProblemAbilities {
	return &domain.ProblemAbilities{Derivatives: domain.Derivatives{
		Step: func(s, c, u, sNext, cNext []complex128) {
			copy(sNext, p.dual.arrive(s, c, u))
			cNext[0] = c[0] + 1
		},
		Objectives: func(s, u, c, j []complex128) { j[0] = p.dual.misfit(s, c, u) },
		Margins:    func(s, c, u, m []complex128) { p.dual.margins(p.bound, p.scale, s, c, u, m) },
	}}
}

// Spec implements domain.Problem, as do the methods below.
func (p *smoothing) Spec() *domain.Spec { return &p.spec }

// Step leads to the decision of a stage.
func (p *smoothing) Step(s, c, u, sNext, cNext []float64) {
	copy(sNext, p.real.arrive(s, c, u))
	cNext[0] = c[0] + 1
}

// Objectives are what misses, weighed by the deviations.
func (p *smoothing) Objectives(s, u, c, j []float64) { j[0] = p.real.misfit(s, c, u) }

// Margins are the bounds of the entries.
func (p *smoothing) Margins(s, c, u, m []float64) { p.real.margins(p.bound, p.scale, s, c, u, m) }

// Gradient is that of the objective, by dual numbers.
func (p *smoothing) Gradient(s, u, c, sigma, gs, gu []float64) {
	x, w := make([]complex128, p.n), make([]complex128, p.n)
	p.dual.widened(x, s)
	p.dual.widened(w, u)
	stage := []complex128{complex(c[0], 0)}
	for _, part := range [2]struct {
		values []complex128
		g      []float64
	}{{x, gs}, {w, gu}} {
		for i, v := range part.values {
			part.values[i] = complex(real(v), domain.DualStep)
			part.g[i] = sigma[0] * imag(p.dual.misfit(x, stage, w)) / domain.DualStep
			part.values[i] = v
		}
	}
}

// Base is that nothing has acted.
func (p *smoothing) Base(_, _, plan []float64) { clear(plan) }

// Fallback is Base.
func (p *smoothing) Fallback(_, _, u []float64) { clear(u) }

// Indicators are zero.
func (p *smoothing) Indicators(_, _, _, delta []float64) { clear(delta) }

// Project leaves a noise as it is: it has no box.
func (p *smoothing) Project(_, _, _ []float64) bool { return true }
