package estimate

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
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
// A plant that runs on has no stages: there the most that any stage of the plan asks for is kept off each margin.
type Margin struct {
	problem domain.Problem        // as it is, nothing kept off
	left    func(c []float64) int // decisions of an episode; nil: its spec's
	backoff *domain.Backoff
	Level   float64

	of             *domain.Measurement
	n, ns, nu, nm  int
	scale, half    []float64 // of the states and of the actions, which weigh the feedback
	stages, way    []stage   // of the plan, and of what is under way before it
	p, e, d, work  []float64 // [n][n] each: the filter's covariance, of the state when a decision acts, and of the way off the plan
	steer          []float64 // [n] of a margin, or of an output
	value, kk      []float64 // of the feedback: cost-to-go [ns][ns], gains [nu][ns]
	next, after    []float64
	margins, tight []float64
	lin            linearised
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
	n, ns, nu, nm := f.n, f.ns, f.nu, len(spec.Margins)
	m := &Margin{
		left:    domain.AbilitiesOfProblem(problem).Remaining,
		problem: problem, backoff: b, Level: level, of: f.of, n: n, ns: ns, nu: nu, nm: nm,
		p: make([]float64, n*n), e: make([]float64, n*n), d: make([]float64, n*n), work: make([]float64, n*n), steer: make([]float64, n),
		value: make([]float64, ns*ns), kk: make([]float64, nu*ns), next: make([]float64, ns), after: make([]float64, f.nc),
		margins: make([]float64, nm), tight: make([]float64, nm), lin: newLinearised(problem, f),
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
			sum := 0.0
			for k := range m.n {
				sum += f.root[i*m.n+k] * f.root[j*m.n+k]
			}
			m.p[i*m.n+j] = sum
		}
	}
	clear(m.d)
	m.foresee(0, f)
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
		if !m.lin.stage(at) {
			return false
		}
	}
	return true
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

// roll writes the stages of a plan and their derivatives; false where a state is not finite.
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
		if !m.lin.stage(at) {
			return false
		}
		m.problem.Step(at.s, at.c, at.u, m.next, m.after)
		if t+1 < steps {
			copy(m.stages[t+1].s, m.next)
			copy(m.stages[t+1].c, m.after)
		}
	}
	return true
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
	va, vb := make([]float64, ns*ns), make([]float64, ns*nu)
	h, g := make([]float64, nu*nu), make([]float64, nu*ns)
	for t := steps - 1; t >= 0; t-- {
		at := &m.stages[t]
		for i := range ns {
			for j := range ns {
				sum := 0.0
				for k := range ns {
					sum += m.value[i*ns+k] * at.a[k*m.n+j]
				}
				va[i*ns+j] = sum
			}
			for j := range nu {
				sum := 0.0
				for k := range ns {
					sum += m.value[i*ns+k] * at.b[k*nu+j]
				}
				vb[i*nu+j] = sum
			}
		}
		for i := range nu {
			for j := range nu {
				sum := 0.0
				for k := range ns {
					sum += at.b[k*nu+i] * vb[k*nu+j]
				}
				h[i*nu+j] = sum
			}
			h[i*nu+i] += 1 / (m.half[i] * m.half[i])
			for j := range ns {
				sum := 0.0
				for k := range ns {
					sum += at.b[k*nu+i] * va[k*ns+j]
				}
				g[i*ns+j] = sum
			}
		}
		solve(h, g, nu, ns, at.k)
		for i := range at.k {
			at.k[i] = -at.k[i]
		}
		for i := range ns {
			for j := range ns {
				sum := 0.0
				for k := range ns {
					sum += at.a[k*m.n+i] * va[k*ns+j]
				}
				for k := range nu {
					sum += g[k*ns+i] * at.k[k*ns+j]
				}
				m.value[i*ns+j] = sum
			}
			m.value[i*ns+i] += 1 / (m.scale[i] * m.scale[i])
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
		variance := quadratic(m.e, ms) + quadratic(m.d, m.steer)
		row[i] = math.Max(row[i], m.Level*math.Sqrt(math.Max(0, variance)))
	}
}

// quadratic is vᵀ x v.
func quadratic(x, v []float64) (sum float64) {
	n := len(v)
	for i, a := range v {
		if a == 0 {
			continue
		}
		for j, b := range v {
			sum += a * b * x[i*n+j]
		}
	}
	return sum
}

// step moves the covariances from stage t to the next. What is measured there is of as many stages before as are under way.
func (m *Margin) step(t int, f *Filter) {
	n, at := m.n, &m.stages[t]
	closed := slices.Clone(at.a)
	for i := range m.ns {
		for j := range m.ns {
			for k := range m.nu {
				closed[i*n+j] += at.b[i*m.nu+k] * at.k[k*m.ns+j]
			}
		}
	}
	m.congruent(m.d, closed)
	from := m.along(t)
	m.grow(m.p, from.a, f)
	before := slices.Clone(m.p)
	if len(m.way) > 0 {
		copy(before, m.e)
		m.grow(before, at.a, f)
	}
	rows := m.lin.outputs(m.along(t+1), from.u)
	for i, deviation := range m.of.Deviation {
		m.tell(rows[i*n:(i+1)*n], deviation)
	}
	m.foresee(t+1, f)
	for i := range m.d {
		m.d[i] += before[i] - m.e[i]
	}
}

// tell takes from P what an output says of which the derivatives are h.
func (m *Margin) tell(h []float64, deviation float64) {
	n, ph := m.n, m.steer
	variance := deviation * deviation
	for a := range n {
		ph[a] = 0
		for b := range n {
			ph[a] += m.p[a*n+b] * h[b]
		}
	}
	for a := range n {
		variance += h[a] * ph[a]
	}
	for a := range n {
		for b := range n {
			m.p[a*n+b] -= ph[a] * ph[b] / variance
		}
	}
}

// congruent writes x ← a x aᵀ.
func (m *Margin) congruent(x, a []float64) {
	n := m.n
	for i := range n {
		for j := range n {
			sum := 0.0
			for k := range n {
				sum += a[i*n+k] * x[k*n+j]
			}
			m.work[i*n+j] = sum
		}
	}
	for i := range n {
		for j := range n {
			sum := 0.0
			for k := range n {
				sum += m.work[i*n+k] * a[j*n+k]
			}
			x[i*n+j] = sum
		}
	}
}
