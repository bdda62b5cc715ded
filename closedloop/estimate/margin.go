package estimate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/dense"
	"github.com/gpc-engine/gpc/tensor"
)

// defaultLevel is the tightening in standard deviations.
const defaultLevel = 3.0

// Margin finds the constraint tightening along a plan with which the limits hold in the plant and not in the
// estimate alone. It is Level standard deviations of each margin under the covariance of the closed loop, which a
// linear feedback holds to the plan (as zoRO does: Zanelli, Frey, Messerer and Diehl, 2021).
//
// Let e be the error of the estimate, of covariance P, and d the estimate's deviation from the plan, of covariance
// D. The filter makes both independent. One step is
//
//	P⁻ = A P Aᵀ + Q, P = P⁻ less what the outputs tell, D = (A + B K) D (A + B K)ᵀ + P⁻ − P,
//
// and a margin m(s, u, n) of the state n after the step varies by (m_s + m_u K) D (·)ᵀ + m_s P m_sᵀ + m_n Q m_nᵀ. At the present decision D is zero. Where actions are
// queued, E takes P's place in these two: the P of their number of steps before, moved by A and Q alone since.
//
// Where bounds are stated (domain.Measurement.Bounded), e and d are zonotopes of the same |ξ_j| ≤ 1 (errorSet) in place
// of covariances. The same gains move them, and a margin varies by Level Σ_j |m_s e_j + (m_s + m_u K) d_j|.
//
// A plant that runs on has no stages: there each margin has the largest tightening of any stage of the plan.
type Margin struct {
	problem       domain.Problem        // without tightening
	decisionsLeft func(c []float64) int // decisions of an episode; nil: its spec's
	backoff       *domain.Backoff
	Level         float64

	measurement  *domain.Measurement
	n, nu, nm    int
	stages       *stages   // of the plan
	way          *stages   // of the queued actions before it
	p, e, d      []float64 // [n][n] each: the filter's covariance, of the state when a decision acts, and of the way off the plan
	prior        []float64 // [n][n], of the state when a decision acts, before the last outputs are told
	closed       []float64 // [n][n], derivatives of a step under the feedback
	steered      []float64 // [margins][n], those of the margins
	weighed      []float64 // [margins][n], derivatives of margins times a covariance
	variance     []float64 // [margins]
	acts         []float64 // [margins], of what acts on the state that a stage leads to: variances, or bounds where these are stated
	disturbance  []complex128
	ph, scaledPH []float64 // [n], of an output
	next, nextC  []float64
	margins      []float64
	lin          *linearised
	feedback     *feedback
	products     products
	set          *errorSet // of a filter with stated bounds; nil: there are none
	gain         []float64 // [n]
	tube         *tube     // of the plan; nil: it is asked for none
	bound        int       // decisions that a change of a switch binds, of an episode with stages; 0: none
}

// products are those that move covariances: A x, (A x) Aᵀ, A + B K, the same of the margins, and these times a
// covariance. The last is a covariance less the information of an output.
type products struct {
	work, transposed, zeros           []float64
	move, moveBack, shut, shutBack    dense.Product
	close, steer, weigh, weighSteered dense.Product
	tell                              dense.Product
}

func newProducts(n, nu, nm, width int) products {
	return products{
		work: make([]float64, n*n), transposed: make([]float64, n*n), zeros: make([]float64, max(n, nm)*n),
		move: dense.New(n, n, n).Left(width), moveBack: dense.New(n, n, n).Left(width).Lower(), shut: dense.New(n, n, n), shutBack: dense.New(n, n, n).Lower(),
		close: dense.New(n, nu, n).Left(width).Within(width), steer: dense.New(nm, nu, n).Left(width).Within(width),
		weigh: dense.New(nm, n, n).Left(width), weighSteered: dense.New(nm, n, n), tell: dense.New(n, 1, n),
	}
}

// NewMargin tightens the constraints of a problem by level standard deviations, 0 for 3, in b.
func NewMargin(problem domain.Problem, b *domain.Backoff, f *Filter, level float64) (*Margin, error) {
	level = cmp.Or(level, defaultLevel)
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
	n, nu, nm := f.n, f.nu, len(spec.Margins)
	square := func() []float64 { return make([]float64, n*n) }
	m := &Margin{
		decisionsLeft: domain.AbilitiesOfProblem(problem).Remaining,
		problem:       problem, backoff: b, Level: level, measurement: f.measurement, n: n, nu: nu, nm: nm,
		stages: lin.newStages(spec.LookAhead()), way: lin.newStages(0), p: square(), e: square(), d: square(), prior: square(), closed: square(),
		steered: make([]float64, nm*n), weighed: make([]float64, nm*n), variance: make([]float64, nm), acts: make([]float64, nm), disturbance: make([]complex128, f.ns), ph: make([]float64, n), scaledPH: make([]float64, n),
		next: make([]float64, f.ns), nextC: make([]float64, f.nc), margins: make([]float64, nm), lin: lin, products: newProducts(n, nu, nm, lin.width),
	}
	if f.set != nil {
		m.set, m.gain = newErrorSet(n), make([]float64, n)
	}
	for i := range spec.Switches {
		if spec.Clock > 0 {
			m.bound = max(m.bound, slices.Max(spec.Switches[i].Least))
		}
	}
	m.feedback = newFeedback(n, halves(spec.Measured), halves(spec.Action), lin.width)
	return m, nil
}

// halves are half the scales of variables.
func halves(variables []domain.Variable) (half []float64) {
	for _, v := range variables {
		half = append(half, v.Scale()/2)
	}
	return half
}

// Clear removes the tightening.
func (m *Margin) Clear() { m.backoff.Clear() }

// remaining is how many decisions an episode still has.
func (m *Margin) remaining(c []float64) int {
	if m.decisionsLeft != nil {
		return min(len(m.stages.list), m.decisionsLeft(c))
	}
	return len(m.stages.list)
}

// Along writes the tightening from a state on along the plan [steps·action], whose last action is held. Without a plan
// it is along Fallback. The state is the estimate after the queued actions; nil: there are none. Where a derivative is
// not finite it writes nothing and returns false: the last tightening is the best known.
func (m *Margin) Along(s, c, plan []float64, f *Filter, queue *actionQueue) bool {
	steps := m.remaining(c)
	m.roll(s, c, steps, func(t int, st *stage) {
		if count := len(plan) / m.nu; count > 0 {
			copy(st.u, plan[min(t, count-1)*m.nu:])
		} else {
			m.problem.Fallback(st.s, st.c, st.u)
		}
	})
	return m.spread(steps, f, queue)
}

// spread is Along of the stages of a plan.
func (m *Margin) spread(steps int, f *Filter, queue *actionQueue) bool {
	if !m.lin.derive(m.stages, steps) || !m.deriveQueue(queue) {
		return false
	}
	m.feedback.solve(m.stages.list[:steps])
	m.backoff.Clear()
	m.products.covariance(m.p, f.root, m.n)
	clear(m.d)
	m.foresee(0, f)
	if m.set != nil {
		m.set.copyOf(f.set)
	}
	for t := range steps {
		m.keep(t)
		if t+1 < steps {
			m.step(t, f)
		}
	}
	return true
}

// covariance writes that of a root.
func (a *products) covariance(x, root []float64, n int) {
	for i := range n {
		for j := range i + 1 {
			x[i*n+j] = tensor.Dot(root[i*n:(i+1)*n], root[j*n:(j+1)*n])
		}
	}
	mirror(x, n)
}

// deriveQueue writes the derivatives of the queued actions; false where they are not finite. A measurement within a
// period counts as one at its beginning.
func (m *Margin) deriveQueue(queue *actionQueue) bool {
	if queue == nil {
		queue = &actionQueue{}
	}
	if len(m.way.list) != queue.n {
		m.way = m.lin.newStages(queue.n)
	}
	for i := range m.way.list {
		st, source := &m.way.list[i], &queue.path[i]
		copy(st.s, source.s)
		copy(st.c, source.c)
		copy(st.u, source.u)
	}
	return m.lin.derive(m.way, queue.n)
}

// stageAt is stage t of the queued actions and then of the plan.
func (m *Margin) stageAt(t int) *stage {
	if t < len(m.way.list) {
		return &m.way.list[t]
	}
	return &m.stages.list[t-len(m.way.list)]
}

// foresee writes the covariance of the state in which the action of stage t begins to act, by what is measured when it is decided.
func (m *Margin) foresee(t int, f *Filter) {
	copy(m.e, m.p)
	for k := range m.way.list {
		m.grow(m.e, m.stageAt(t+k), f)
	}
}

// grow is a step of a covariance of which nothing is measured.
func (m *Margin) grow(x []float64, st *stage, f *Filter) {
	m.products.grow(x, st.d[m.nu:], m.n)
	for i, v := range f.noise {
		x[i*m.n+i] += v * v
	}
}

// roll writes the stages of a plan from a state on, whose actions decide writes.
func (m *Margin) roll(s, c []float64, steps int, decide func(t int, st *stage)) {
	list := m.stages.list[:steps]
	copy(list[0].s, s)
	copy(list[0].c, c)
	for t := range list {
		st := &list[t]
		decide(t, st)
		if t+1 < steps {
			m.problem.Step(st.s, st.c, st.u, list[t+1].s, list[t+1].c)
		}
	}
}

// relaxation scales a tightening: of the decisions that a change of a switch binds, and of the rest.
type relaxation struct{ bound, rest float64 }

var unrelaxed = relaxation{1, 1}

// firstRelaxations are of an episode's first tightening, one instead of another until a plan keeps what stays.
func (m *Margin) firstRelaxations() []relaxation {
	if m.bound > 0 {
		return []relaxation{unrelaxed, {1, 0.5}, {1, 0}, {0.5, 0}, {0.25, 0}}
	}
	return []relaxation{unrelaxed, {0.5, 0.5}, {0.25, 0.25}}
}

// laterRelaxations are of each other one, each after the ones before.
func (m *Margin) laterRelaxations() []relaxation {
	if m.bound > 0 {
		return []relaxation{{1, 0.5}, {1, 0}, {0.5, 0}, {0, 0}}
	}
	return []relaxation{{0.5, 0.5}, {0.5, 0.5}, {0, 0}}
}

// relax scales the tightening of the decisions from a context on.
func (m *Margin) relax(r relaxation, c []float64) {
	if r.bound == r.rest {
		m.backoff.Scale(r.rest)
	} else {
		m.backoff.ScaleFrom(c, m.bound, r.bound, r.rest)
	}
}

// Keeps reports whether a plan keeps every tightened limit and loses no state.
func (m *Margin) Keeps(s, c, plan []float64) bool {
	x, y, fails := slices.Clone(s), slices.Clone(c), domain.AbilitiesOfProblem(m.problem).Lost
	for t := range m.remaining(c) {
		u := plan[min(t, len(plan)/m.nu-1)*m.nu:][:m.nu]
		m.problem.Margins(x, y, u, m.margins)
		for i, v := range m.backoff.At(y) {
			if !(m.margins[i]-v >= -keepsTolerance*m.problem.Spec().Margins[i].Scale()) {
				return false
			}
		}
		m.problem.Step(x, y, u, m.next, m.nextC)
		copy(x, m.next)
		copy(y, m.nextC)
		if fails(x, y) {
			return false
		}
	}
	return true
}

// keepsTolerance is that of the solver of a plan, in the size of a margin.
const keepsTolerance = 1e-4

// disturb writes what acts on the margins of a stage.
func (m *Margin) disturb(st *stage) {
	clear(m.acts)
	if m.lin.dual.Disturbed == nil {
		return
	}
	d := &m.lin.duals
	d.set(st.s, st.c, st.u)
	for i, v := range m.measurement.Process {
		if v == 0 {
			continue
		}
		m.disturbance[i] = complex(0, domain.DualStep*v)
		m.lin.dual.Disturbed(d.s, d.c, d.u, m.disturbance, m.lin.m)
		m.disturbance[i] = 0
		for k, x := range m.lin.m {
			if x := imag(x) / domain.DualStep; m.set != nil {
				m.acts[k] += domain.UniformBound * math.Abs(x)
			} else {
				m.acts[k] += x * x
			}
		}
	}
}

// keep writes the tightening of the margins of stage t.
func (m *Margin) keep(t int) {
	st := &m.stages.list[t]
	n, a, row := m.n, &m.products, m.backoff.At(st.c)
	if m.nm == 0 {
		return
	}
	m.disturb(st)
	a.steer.Sum(m.steered, st.dm[m.nu:], st.dm, st.k)
	if m.tube != nil {
		m.tube.steers(t, m.steered)
	}
	if m.set != nil {
		for i := range row {
			h := m.lin.row(st.dm, i)
			row[i] = math.Max(row[i], m.Level*(m.acts[i]+m.set.most(h, m.steered[i*n:(i+1)*n])))
			if m.tube != nil {
				m.tube.now[t][i] = m.Level * (m.acts[i] + m.set.most(h, a.zeros[:n]))
			}
		}
		return
	}
	a.weigh.Sum(m.weighed, a.zeros, st.dm[m.nu:], m.e)
	for i := range row {
		m.variance[i] = m.acts[i] + tensor.Dot(m.weighed[i*n:(i+1)*n], m.lin.row(st.dm, i))
		if m.tube != nil {
			m.tube.now[t][i] = m.Level * math.Sqrt(math.Max(0, m.variance[i]))
		}
	}
	a.weighSteered.Sum(m.weighed, a.zeros, m.steered, m.d)
	for i, v := range m.variance {
		v += tensor.Dot(m.weighed[i*n:(i+1)*n], m.steered[i*n:(i+1)*n])
		row[i] = math.Max(row[i], m.Level*math.Sqrt(math.Max(0, v)))
	}
}

// step moves the covariances from stage t to the next. The measurement there is as old as the queue is long.
func (m *Margin) step(t int, f *Filter) {
	a, st := &m.products, &m.stages.list[t]
	from, to := m.stageAt(t), m.stageAt(t+1)
	a.close.Sum(m.closed, st.d[m.nu:], st.d, st.k)
	if m.tube != nil {
		m.tube.closes(t, m.closed)
	}
	a.congruent(m.d, &a.shut, &a.shutBack, m.closed, m.n)
	if m.set != nil {
		m.set.move(st.d[m.nu:], m.lin.width, m.closed)
		m.set.add(f.widths)
		m.set.addEstimate(1)
	}
	m.grow(m.p, from, f)
	copy(m.prior, m.p)
	if len(m.way.list) > 0 {
		copy(m.prior, m.e)
		m.grow(m.prior, st, f)
	}
	m.measure(to, from.u)
	m.foresee(t+1, f)
	for i, v := range m.prior {
		m.d[i] += v - m.e[i]
	}
	if m.set != nil {
		m.set.addEstimate(-1)
	}
}

// measure takes from P what the outputs of a stage say.
func (m *Margin) measure(st *stage, lastAction []float64) {
	n := m.n
	if m.lin.unit && m.set == nil {
		for i, deviation := range m.measurement.Deviation {
			state := m.measurement.State(i)
			copy(m.ph, m.p[state*n:(state+1)*n])
			m.tell(deviation*deviation + m.ph[state])
		}
		return
	}
	rows := m.lin.outputs(st, lastAction)
	for i, deviation := range m.measurement.Deviation {
		h := rows[i*n : (i+1)*n]
		clear(m.ph)
		for b, v := range h {
			if v != 0 {
				tensor.Axpy(v, m.p[b*n:(b+1)*n], m.ph)
			}
		}
		variance := deviation*deviation + tensor.Dot(h, m.ph)
		if m.set != nil {
			clear(m.gain)
			tensor.Axpy(1/variance, m.ph, m.gain)
			m.set.tell(h, m.gain, domain.UniformBound*deviation)
		}
		m.tell(variance)
	}
}

// tell takes from P what an output says of which P h is ph, and whose prediction has that variance.
func (m *Margin) tell(variance float64) {
	factor := -1 / variance
	for i, v := range m.ph {
		m.scaledPH[i] = v * factor
	}
	m.products.tell.Sum(m.p, m.p, m.scaledPH, m.ph)
}

// grow writes x ← a x aᵀ of a symmetric x and derivatives of a stage.
func (a *products) grow(x, factor []float64, n int) { a.congruent(x, &a.move, &a.moveBack, factor, n) }

// congruent writes x ← of x ofᵀ of a symmetric x by the two products of it.
func (a *products) congruent(x []float64, first, second *dense.Product, factor []float64, n int) {
	first.Sum(a.work, a.zeros, factor, x)
	for i := range n {
		for j, v := range a.work[i*n : (i+1)*n] {
			a.transposed[j*n+i] = v
		}
	}
	second.Sum(x, a.zeros, factor, a.transposed)
	mirror(x, n)
}
