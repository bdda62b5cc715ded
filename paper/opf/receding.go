package opf

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// Constants of the receding horizon.
const (
	// recedingSteps are looked ahead: as many as Case 1's `mpc`.
	recedingSteps = 5
	// recedingIterations of linearisation and quadratic program at most.
	recedingIterations = 20
	// The trust region begins at these: V_G, pu, and P_G in ramp limits.
	trustVoltage = 0.02
	trustRamps   = 4
	leastTrust   = 1e-6 // share of it below which nothing is gained any more
	// leastPromise is the predicted gain, in units of the merit, that ends the iterations.
	leastPromise = 1e-7
	// violationPrice is that of a pu by which a limit is broken, in units of the largest
	// marginal value of a pu of anything: above every multiplier.
	violationPrice = 30
	// boxRoom, pu, is given to a variable that has one value.
	boxRoom = 1e-9
)

// recedingDispatch is model predictive control (paper, Experimental Setup and Case 4): the
// AC-OPF over the next steps, coupled by the ramps, is linearised at the plan, the
// quadratic program of the linearisation gives the next plan within a trust region, and
// so on: Sℓ1QP (R. Fletcher, Practical Methods of Optimization, 2nd ed., §14.4). The first
// plan is that of the decision before, one step on. The loads to come are taken to be
// those at hand, since no forecast is given.
type recedingDispatch struct {
	*linearDispatch
	now, next   []*plannedStep // the plan, and one that is tried
	model       []*plannedStep // what the linearisation says of it
	program     *horizonProgram
	plus, minus [][]float64 // unit vectors of the controls
	price       float64
	slackLo     float64 // window of the reference unit in the first step
	slackHi     float64
	warm        bool
	iterations  int // at most
	rounds      int // linearisations of the last decision
}

func newRecedingDispatch(y *System, steps, iterations int) *recedingDispatch {
	m := &recedingDispatch{linearDispatch: newLinearDispatch(y), iterations: iterations}
	k := len(m.control)
	m.program = newHorizonProgram(k, steps)
	for _, plan := range []*[]*plannedStep{&m.now, &m.next, &m.model} {
		for range steps {
			*plan = append(*plan, m.newStep())
		}
	}
	m.plus, m.minus = make([][]float64, k), make([][]float64, k)
	for j := range k {
		m.plus[j], m.minus[j] = make([]float64, k), make([]float64, k)
		m.plus[j][j], m.minus[j][j] = 1, -1
	}
	return m
}

// Reset implements domain.Controller.
func (m *recedingDispatch) Reset(domain.Episode) error {
	m.warm = false
	return nil
}

// Decide implements domain.Controller. The first dispatch of the plan is projected, since
// limits are kept to the program's tolerance; it is solved where the iterations came to an
// end and the dispatch keeps every limit.
func (m *recedingDispatch) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	if m.warm = m.start(s, c, pref); !m.warm {
		m.system.Fallback(s, c, u)
		return domain.Decided(false), nil
	}
	solved := m.plan(s, u)
	return domain.Decided(m.system.Project(s, c, u) && solved), nil
}

// plan improves the plan that start made and writes its first dispatch; it reports whether
// the iterations came to an end.
func (m *recedingDispatch) plan(s, u []float64) bool {
	slack := m.system.model.slackGen
	m.bend(s, m.now[0].u)
	solved := m.improve()
	copy(u, m.now[0].u)
	u[slack] = m.now[0].pg[slack]
	return solved
}

// start makes the first plan: the one before, one step on, within boxes and ramps; it
// reports whether all of it has a power flow.
func (m *recedingDispatch) start(s, c []float64, pref domain.Preference) bool {
	y := m.system
	n, l := y.Network, &y.layout
	var weights [objectives]float64
	y.Weigh(pref, weights[:])
	m.begin(c, weights)
	m.price = m.highestPrice()
	previous := c[l.previous : l.previous+l.gens]
	m.slackLo, m.slackHi = y.window(y.model.slackGen, previous[y.model.slackGen])
	if m.warm {
		first := m.now[0]
		copy(m.now, m.now[1:])
		last := len(m.now) - 1
		m.now[last] = first
		if last > 0 { // what the last step of the plan before held stays
			previous := m.now[last-1]
			copy(first.u, previous.u)
			copy(first.vm, previous.vm)
			copy(first.va, previous.va)
		}
	} else {
		for _, t := range m.now {
			copy(t.u, previous)
			for g, b := range n.GenBus {
				t.u[l.gens+g] = s[b]
			}
			copy(t.vm, s[:l.buses])
			for i, v := range s[l.buses:] {
				t.va[i] = v - s[l.buses+n.Slack]
			}
		}
	}
	for _, t := range m.now {
		for g, b := range n.GenBus {
			lo, hi := y.window(g, previous[g])
			t.u[g] = math.Min(math.Max(t.u[g], lo), hi)
			v := l.gens + g
			t.u[v] = math.Min(math.Max(t.u[l.gens+y.model.unit[b]], n.VMin[b]), n.VMax[b])
		}
		if !m.evaluate(t) {
			return false
		}
		previous = t.u[:l.gens]
	}
	return true
}

// highestPrice is violationPrice times the largest marginal value of a pu of power, flow
// or voltage.
func (m *recedingDispatch) highestPrice() float64 {
	n, dearest, tightest := m.system.Network, 0.0, math.Inf(1)
	for g := range n.GenBus {
		_, first, _ := n.Cost[g].At(n.PMin[g])
		_, last, _ := n.Cost[g].At(n.PMax[g])
		dearest = math.Max(dearest, math.Max(math.Abs(first), math.Abs(last)))
	}
	for _, r := range n.Rate {
		tightest = math.Min(tightest, r)
	}
	const excess = 1 - ThermalThreshold
	return violationPrice * (m.weights[economic]*math.Max(dearest, 1) + m.weights[thermal]*4*excess*excess*excess/tightest + m.weights[voltage]*2*VoltageDeadband)
}

// improve iterates until the model promises nothing more, and reports whether it came to
// that.
func (m *recedingDispatch) improve() bool {
	merit, radius, fresh := m.merit(m.now), 1.0, true
	m.rounds = 0
	for range m.iterations {
		if fresh {
			m.rounds++
			for _, t := range m.now {
				if !m.linearise(t) {
					return false
				}
			}
		}
		m.pose(radius)
		m.program.solve() // what it leaves is judged by the model, whether it met its tolerances or not
		promised := merit - m.predict()
		if !(promised > leastPromise*math.Max(1, math.Abs(merit))) {
			return true
		}
		gain := math.Inf(-1)
		if m.try() {
			gain = merit - m.merit(m.next)
		}
		if fresh = gain > 0.1*promised; fresh {
			m.now, m.next = m.next, m.now
			merit -= gain
		}
		switch {
		case gain < 0.25*promised:
			radius /= 4
		case gain > 0.75*promised:
			radius = math.Min(2*radius, 1)
		}
		if radius < leastTrust {
			return true
		}
	}
	return false
}

// merit is the value of a plan with the price of what it breaks.
func (m *recedingDispatch) merit(plan []*plannedStep) float64 {
	y := m.system
	sum, violation := 0.0, 0.0
	for k, t := range plan {
		sum += t.value
		for i, v := range t.quantity {
			lo, hi := m.limit(k, i)
			violation += math.Max(0, lo-v) + math.Max(0, v-hi)
		}
		if k == 0 {
			continue
		}
		previous := plan[k-1]
		for _, entry := range m.control {
			if entry < y.layout.gens {
				violation += math.Max(0, math.Abs(t.u[entry]-previous.u[entry])-y.Ramp[entry])
			}
		}
		violation += math.Max(0, math.Abs(t.quantity[0]-previous.quantity[0])-y.Ramp[y.model.slackGen])
	}
	return sum + m.price*violation
}

// limit is what limit i allows in step k.
func (m *recedingDispatch) limit(k, i int) (lo, hi float64) {
	if k == 0 && i == 0 {
		return m.slackLo, m.slackHi
	}
	return m.lo[i], m.hi[i]
}

// box is what control j may be in step k.
func (m *recedingDispatch) box(k, j int) (lo, hi float64) {
	y, entry := m.system, m.control[j]
	n, gens := y.Network, y.layout.gens
	switch {
	case entry >= gens:
		b := n.GenBus[entry-gens]
		return n.VMin[b], n.VMax[b]
	case k == 0:
		return y.window(entry, m.c[y.layout.previous+entry])
	}
	return n.PMin[entry], n.PMax[entry]
}

// pose writes the program of the linearised plan within a share of the trust region.
func (m *recedingDispatch) pose(radius float64) {
	y, p, n := m.system, m.program, len(m.control)
	gens := y.layout.gens
	p.price, p.rows = m.price, p.rows[:0]
	for k, t := range m.now {
		copy(p.gradient[k*n:], t.gradient)
		copy(p.hessian[k*n*n:], t.hessian)
		lo, hi := p.lo[k*n:(k+1)*n], p.hi[k*n:(k+1)*n]
		for j, entry := range m.control {
			low, high := m.box(k, j)
			trust := radius * trustVoltage
			if entry < gens {
				trust = radius * trustRamps * y.Ramp[entry]
			}
			lo[j], hi[j] = math.Max(low-t.u[entry], -trust), math.Min(high-t.u[entry], trust)
			if hi[j]-lo[j] < 2*boxRoom {
				lo[j], hi[j] = lo[j]-boxRoom, hi[j]+boxRoom
			}
		}
		for i, v := range t.quantity {
			slope := t.slope[i*n : (i+1)*n]
			reach := 0.0
			for j, a := range slope {
				reach += math.Abs(a) * math.Max(-lo[j], hi[j])
			}
			low, high := m.limit(k, i)
			if v-low < reach {
				p.rows = append(p.rows, elasticRow{step: k, sign: 1, current: slope, bound: low - v})
			}
			if high-v < reach {
				p.rows = append(p.rows, elasticRow{step: k, sign: -1, current: slope, bound: v - high})
			}
		}
		if k == 0 {
			continue
		}
		previous := m.now[k-1]
		for j, entry := range m.control {
			if entry < gens {
				m.ramp(k, m.plus[j], m.minus[j], t.u[entry]-previous.u[entry], y.Ramp[entry])
			}
		}
		m.ramp(k, t.slope[:n], previous.lessSlack, t.quantity[0]-previous.quantity[0], y.Ramp[y.model.slackGen])
	}
}

// ramp adds the two rows that hold a power's change from step to step.
func (m *recedingDispatch) ramp(k int, current, previous []float64, change, limit float64) {
	m.program.rows = append(m.program.rows,
		elasticRow{step: k, sign: 1, current: current, previous: previous, bound: -limit - change},
		elasticRow{step: k, sign: -1, current: current, previous: previous, bound: change - limit})
}

// predict writes what the linearisation says of the program's answer, and returns its
// merit.
func (m *recedingDispatch) predict() float64 {
	n := len(m.control)
	for k, t := range m.now {
		model, d := m.model[k], m.program.x[k*n:(k+1)*n]
		m.move(k, model)
		for i, v := range t.quantity {
			model.quantity[i] = v + tensor.Dot(t.slope[i*n:(i+1)*n], d)
		}
		model.value = t.value + tensor.Dot(t.gradient, d)
		for j, v := range d {
			model.value += 0.5 * v * tensor.Dot(t.hessian[j*n:(j+1)*n], d)
		}
	}
	return m.merit(m.model)
}

// move writes the set-points of step k after the program's answer.
func (m *recedingDispatch) move(k int, step *plannedStep) {
	y, n := m.system, len(m.control)
	gens := y.layout.gens
	copy(step.u, m.now[k].u)
	for j, entry := range m.control {
		lo, hi := m.box(k, j)
		step.u[entry] = math.Min(math.Max(step.u[entry]+m.program.x[k*n+j], lo), hi)
	}
	for g, b := range y.Network.GenBus {
		step.u[gens+g] = step.u[gens+y.model.unit[b]]
	}
}

// try evaluates the plan of the program's answer.
func (m *recedingDispatch) try() bool {
	for k, t := range m.next {
		m.move(k, t)
		copy(t.vm, m.now[k].vm)
		copy(t.va, m.now[k].va)
		if !m.evaluate(t) {
			return false
		}
	}
	return true
}
