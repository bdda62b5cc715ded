package estimate

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// DefaultLevel is how many standard deviations are kept off a limit.
const DefaultLevel = 3.0

// Margin finds what has to be kept off every limit along a plan, for the limits to hold in the plant and
// not in the estimate alone: Level standard deviations of each margin under the covariance of the closed
// loop, which a linear feedback holds to the plan (as zoRO does: Zanelli, Frey, Messerer and Diehl, 2021).
//
// With e the error of the estimate, of covariance P, and d the estimate's own way off the plan, of covariance
// D, both of which the filter makes independent, one step is
//
//	P⁻ = A P Aᵀ + Q, P = P⁻ less what the outputs tell, D = (A + B K) D (A + B K)ᵀ + P⁻ − P,
//
// and a margin m(s, u) varies by (m_s + m_u K) D (·)ᵀ + m_s P m_sᵀ. At the present decision D is zero. Where actions are
// under way, E takes P's place in these two: P of so many steps before, moved by A and Q alone since.
//
// Where bounds are stated (domain.Measurement.Bounded), e and d are Σ_j g_j ξ_j of the same |ξ_j| ≤ 1 in the place of covariances, moved by
// the same gains, and a margin varies by Level Σ_j |m_s e_j + (m_s + m_u K) d_j|.
//
// A plant that runs on has no stages: there the most that any stage of the plan asks for is kept off each margin.
type Margin struct {
	problem domain.Problem        // as it is, nothing kept off
	left    func(c []float64) int // decisions of an episode; nil: its spec's
	backoff *domain.Backoff
	Level   float64

	of            *domain.Measurement
	n, ns, nu, nm int
	scale, half   []float64 // of the states and of the actions, which weigh the feedback
	stages, way   []stage   // of the plan, and of what is under way before it
	p, e, d       []float64 // [n][n] each: the filter's covariance, of the state when a decision acts, and of the way off the plan
	untold        []float64 // [n][n], of the state when a decision acts, before the last outputs are told
	closed, work  []float64 // [n][n]
	steer         []float64 // [n] of a margin, or of an output
	value         []float64 // of the feedback: cost-to-go [ns][ns]
	va, vb, h, g  []float64 // products with it, [ns][ns], [ns][nu], [nu][nu] and [nu][ns]
	next, after   []float64
	margins       []float64
	lin           *linearised
	set           *errorSet // of a filter with stated bounds; nil: there are none
	gain          []float64 // [n]
}

// stage is one decision of the plan with its derivatives.
type stage struct {
	s, c, u []float64
	a       []float64 // [n][n]
	b       []float64 // [ns][nu]
	ms      []float64 // [margins][n]
	mu      []float64 // [margins][nu]
	k       []float64 // [nu][ns]
}

// NewMargin keeps off the limits of a problem by level standard deviations, 0 for DefaultLevel, into b.
func NewMargin(problem domain.Problem, b *domain.Backoff, f *Filter, level float64) (*Margin, error) {
	if level == 0 {
		level = DefaultLevel
	}
	spec := problem.Spec()
	if !(level > 0) || math.IsInf(level, 0) {
		return nil, fmt.Errorf("estimate: limits kept off by %v standard deviations, want a number above 0", level)
	}
	if spec.Clock == 0 && spec.Horizon == 0 {
		return nil, fmt.Errorf("estimate: case %q has no clock that tells the stages of its episode, along which limits are kept off, and does not run on", spec.Name)
	}
	lin, err := newLinearised(problem, f)
	if err != nil {
		return nil, err
	}
	n, ns, nu, nm := f.n, f.ns, f.nu, len(spec.Margins)
	m := &Margin{
		left:    domain.AbilitiesOfProblem(problem).Remaining,
		problem: problem, backoff: b, Level: level, of: f.of, n: n, ns: ns, nu: nu, nm: nm,
		p: make([]float64, n*n), e: make([]float64, n*n), d: make([]float64, n*n), untold: make([]float64, n*n), closed: make([]float64, n*n), work: make([]float64, n*n), steer: make([]float64, n),
		value: make([]float64, ns*ns), va: make([]float64, ns*ns), vb: make([]float64, ns*nu), h: make([]float64, nu*nu), g: make([]float64, nu*ns), next: make([]float64, ns), after: make([]float64, f.nc),
		margins: make([]float64, nm), lin: lin,
	}
	if f.set != nil {
		m.set, m.gain = newErrorSet(n), make([]float64, n)
	}
	for _, v := range spec.Measured {
		m.scale = append(m.scale, v.Scale()/2)
	}
	for _, v := range spec.Action {
		m.half = append(m.half, v.Scale()/2)
	}
	for range spec.LookAhead() {
		m.stages = append(m.stages, m.newStage())
	}
	return m, nil
}

func (m *Margin) newStage() stage {
	n, ns, nu := m.n, m.ns, m.nu
	return stage{
		s: make([]float64, ns), c: make([]float64, len(m.after)), u: make([]float64, nu), a: make([]float64, n*n), b: make([]float64, ns*nu),
		ms: make([]float64, m.nm*n), mu: make([]float64, m.nm*nu), k: make([]float64, nu*ns),
	}
}

// Clear keeps nothing off.
func (m *Margin) Clear() { m.backoff.Clear() }

// remaining is how many decisions an episode still has.
func (m *Margin) remaining(c []float64) int {
	if m.left != nil {
		return min(len(m.stages), m.left(c))
	}
	return len(m.stages)
}

// Along writes what is to be kept off from a state on, along the plan [steps·action], whose last action
// is held, or Fallback where there is none. The state is the estimate, behind what is under way; nil: nothing is.
func (m *Margin) Along(s, c, plan []float64, f *Filter, under *underWay) {
	steps := m.remaining(c)
	if !m.roll(s, c, plan, steps) || !m.before(under) {
		return // what was kept off before is the best that is known
	}
	m.feedback(steps)
	m.backoff.Clear()
	for i := range m.n {
		for j := range m.n {
			m.p[i*m.n+j] = tensor.Dot(f.root[i*m.n:(i+1)*m.n], f.root[j*m.n:(j+1)*m.n])
		}
	}
	clear(m.d)
	m.foresee(0, f)
	if m.set != nil {
		m.set.copyOf(f.set)
	}
	for t := range steps {
		m.keep(&m.stages[t])
		if t+1 < steps {
			m.step(t, f)
		}
	}
}

// before writes the derivatives of what is under way; false where they are not finite. A measurement within a period counts as one at
// its beginning.
func (m *Margin) before(under *underWay) bool {
	if under == nil {
		under = &underWay{}
	}
	for len(m.way) < under.n {
		m.way = append(m.way, m.newStage())
	}
	m.way = m.way[:under.n]
	for i := range m.way {
		at, from := &m.way[i], &under.path[i]
		copy(at.s, from.s)
		copy(at.c, from.c)
		copy(at.u, from.u)
	}
	return m.lin.stages(m.way)
}

// along is stage t of what is under way and the plan behind it.
func (m *Margin) along(t int) *stage {
	if t < len(m.way) {
		return &m.way[t]
	}
	return &m.stages[t-len(m.way)]
}

// foresee writes the covariance of the state in which the action of stage t begins to act, by what is measured when it is decided.
func (m *Margin) foresee(t int, f *Filter) {
	copy(m.e, m.p)
	for k := range m.way {
		m.grow(m.e, m.along(t+k).a, f)
	}
}

// grow is a step of a covariance of which nothing is measured.
func (m *Margin) grow(x, a []float64, f *Filter) {
	m.congruent(x, a)
	for i, v := range f.noise {
		x[i*m.n+i] += v * v
	}
}

// roll writes the stages of a plan and their derivatives; false where these are not finite.
func (m *Margin) roll(s, c, plan []float64, steps int) bool {
	copy(m.stages[0].s, s)
	copy(m.stages[0].c, c)
	for t := range steps {
		at := &m.stages[t]
		if have := len(plan) / m.nu; have > 0 {
			copy(at.u, plan[min(t, have-1)*m.nu:])
		} else {
			m.problem.Fallback(at.s, at.c, at.u)
		}
		if t+1 < steps {
			m.problem.Step(at.s, at.c, at.u, m.stages[t+1].s, m.stages[t+1].c)
		}
	}
	return m.lin.stages(m.stages[:steps])
}

// Keeps reports whether a plan keeps every limit with what is kept off it, and loses no state.
func (m *Margin) Keeps(s, c, plan []float64) bool {
	x, y, lost := slices.Clone(s), slices.Clone(c), domain.AbilitiesOfProblem(m.problem).Lost
	for t := range m.remaining(c) {
		u := plan[min(t, len(plan)/m.nu-1)*m.nu:][:m.nu]
		m.problem.Margins(x, y, u, m.margins)
		for i, v := range m.backoff.At(y) {
			if !(m.margins[i]-v >= -keepsTolerance) {
				return false
			}
		}
		m.problem.Step(x, y, u, m.next, m.after)
		copy(x, m.next)
		copy(y, m.after)
		if lost(x, y) {
			return false
		}
	}
	return true
}

// keepsTolerance is that of the solver of a plan, in the unit of a margin.
const keepsTolerance = 1e-4

// feedback writes the gains of the linear regulator along the stages, in which a state counts in units of its
// scale and an action in halves of its box.
func (m *Margin) feedback(steps int) {
	ns, nu := m.ns, m.nu
	clear(m.value)
	for i, v := range m.scale {
		m.value[i*ns+i] = 1 / (v * v)
	}
	for t := steps - 1; t >= 0; t-- {
		at := &m.stages[t]
		clear(m.va)
		clear(m.vb)
		for i := range ns {
			for k, v := range m.value[i*ns : (i+1)*ns] {
				tensor.Axpy(v, at.a[k*m.n:k*m.n+ns], m.va[i*ns:])
				tensor.Axpy(v, at.b[k*nu:(k+1)*nu], m.vb[i*nu:])
			}
		}
		clear(m.h)
		clear(m.g)
		for k := range ns {
			for i, v := range at.b[k*nu : (k+1)*nu] {
				tensor.Axpy(v, m.vb[k*nu:(k+1)*nu], m.h[i*nu:])
				tensor.Axpy(v, m.va[k*ns:(k+1)*ns], m.g[i*ns:])
			}
		}
		for i, v := range m.half {
			m.h[i*nu+i] += 1 / (v * v)
		}
		solve(m.h, m.g, nu, ns, at.k)
		for i := range at.k {
			at.k[i] = -at.k[i]
		}
		clear(m.value)
		for k := range ns {
			for i, v := range at.a[k*m.n : k*m.n+ns] {
				tensor.Axpy(v, m.va[k*ns:(k+1)*ns], m.value[i*ns:])
			}
		}
		for k := range nu {
			for i, v := range m.g[k*ns : (k+1)*ns] {
				tensor.Axpy(v, at.k[k*ns:(k+1)*ns], m.value[i*ns:])
			}
		}
		for i, v := range m.scale {
			m.value[i*ns+i] += 1 / (v * v)
		}
	}
}

// solve writes x = h⁻¹ g of a positive definite h [n][n] and g [n][w], by Cholesky; h is overwritten.
func solve(h, g []float64, n, w int, x []float64) {
	for j := range n {
		for k := range j {
			h[j*n+j] -= h[j*n+k] * h[j*n+k]
		}
		h[j*n+j] = math.Sqrt(h[j*n+j])
		for i := j + 1; i < n; i++ {
			for k := range j {
				h[i*n+j] -= h[i*n+k] * h[j*n+k]
			}
			h[i*n+j] /= h[j*n+j]
		}
	}
	copy(x, g)
	for c := range w {
		for i := range n {
			for k := range i {
				x[i*w+c] -= h[i*n+k] * x[k*w+c]
			}
			x[i*w+c] /= h[i*n+i]
		}
		for i := n - 1; i >= 0; i-- {
			for k := i + 1; k < n; k++ {
				x[i*w+c] -= h[k*n+i] * x[k*w+c]
			}
			x[i*w+c] /= h[i*n+i]
		}
	}
}

// keep writes what is kept off the margins of a stage.
func (m *Margin) keep(at *stage) {
	row := m.backoff.At(at.c)
	for i := range row {
		ms, mu := at.ms[i*m.n:(i+1)*m.n], at.mu[i*m.nu:(i+1)*m.nu]
		copy(m.steer, ms)
		for j := range m.ns {
			for k, v := range mu {
				m.steer[j] += v * at.k[k*m.ns+j]
			}
		}
		deviation := 0.0
		if m.set != nil {
			deviation = m.set.most(ms, m.steer)
		} else {
			deviation = math.Sqrt(math.Max(0, quadratic(m.e, ms)+quadratic(m.d, m.steer)))
		}
		row[i] = math.Max(row[i], m.Level*deviation)
	}
}

// quadratic is vᵀ x v.
func quadratic(x, v []float64) (sum float64) {
	n := len(v)
	for i, a := range v {
		if a != 0 {
			sum += a * tensor.Dot(x[i*n:(i+1)*n], v)
		}
	}
	return sum
}

// step moves the covariances from stage t to the next. What is measured there is of as many stages before as are under way.
func (m *Margin) step(t int, f *Filter) {
	n, at := m.n, &m.stages[t]
	copy(m.closed, at.a)
	for i := range m.ns {
		for k, v := range at.b[i*m.nu : (i+1)*m.nu] {
			tensor.Axpy(v, at.k[k*m.ns:(k+1)*m.ns], m.closed[i*n:])
		}
	}
	m.congruent(m.d, m.closed)
	if m.set != nil {
		m.set.move(at.a, m.closed)
		m.set.add(f.widths)
		m.set.untold()
	}
	from := m.along(t)
	m.grow(m.p, from.a, f)
	copy(m.untold, m.p)
	if len(m.way) > 0 {
		copy(m.untold, m.e)
		m.grow(m.untold, at.a, f)
	}
	rows := m.lin.outputs(m.along(t+1), from.u)
	for i, deviation := range m.of.Deviation {
		m.tell(rows[i*n:(i+1)*n], deviation)
	}
	m.foresee(t+1, f)
	for i := range m.d {
		m.d[i] += m.untold[i] - m.e[i]
	}
	if m.set != nil {
		m.set.told()
	}
}

// tell takes from P what an output says of which the derivatives are h.
func (m *Margin) tell(h []float64, deviation float64) {
	n, ph := m.n, m.steer
	clear(ph)
	for b, v := range h {
		if v != 0 {
			tensor.Axpy(v, m.p[b*n:(b+1)*n], ph)
		}
	}
	variance := deviation*deviation + tensor.Dot(h, ph)
	if m.set != nil {
		clear(m.gain)
		tensor.Axpy(1/variance, ph, m.gain)
		m.set.tell(h, m.gain, domain.UniformBound*deviation)
	}
	for a, v := range ph {
		tensor.Axpy(-v/variance, ph, m.p[a*n:])
	}
}

// congruent writes x ← a x aᵀ of a symmetric x.
func (m *Margin) congruent(x, a []float64) {
	n := m.n
	clear(m.work)
	for i := range n {
		for k, v := range a[i*n : (i+1)*n] {
			if v != 0 {
				tensor.Axpy(v, x[k*n:(k+1)*n], m.work[i*n:])
			}
		}
	}
	for i := range n {
		for j := range i + 1 {
			sum := tensor.Dot(m.work[i*n:(i+1)*n], a[j*n:(j+1)*n])
			x[i*n+j], x[j*n+i] = sum, sum
		}
	}
}
