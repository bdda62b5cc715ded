package world

import (
	"math"
	"slices"
)

// Order of the six objectives of eq. multiagent-objectives, and of λ.
const (
	GoalTerm = iota
	SafetyTerm
	EffortTerm
	ViolationTerm
	TerminalTerm
	SmoothnessTerm
	Terms
)

// Kinds of margins, in the order of Spec.Margins.
const (
	egoMargin   = iota // ego to obstacles
	agentMargin        // other robots to obstacles
	pairMargins        // robot to robot
	MarginKinds
)

// NoMargin is the margin of an empty set of pairs, m: beyond any distance in a
// workspace.
const NoMargin = 1000.0

// Prediction is the prediction problem of eq. multiagent-objectives at one
// decision, in float64: what the batched roll-out computes for many plans at
// once, and the stage cost that episodes are scored with.
type Prediction struct {
	Params   *Params
	Robots   int
	State    [][StateSize]float64 // (x, y, θ, v)
	Radius   []float64
	Goal     [][2]float64
	Previous [][ActionSize]float64 // action
	// Absent are robots that are not among the others. With a radius they wait, and enter by an action that is not zero.
	Absent    []bool
	Obstacles []Obstacle // now
}

// hold makes room for a number of robots in the memory that there is. Their numbers are to be written.
func (h *Prediction) hold(robots int) {
	h.Robots = robots
	h.State, h.Radius = slices.Grow(h.State[:0], robots)[:robots], slices.Grow(h.Radius[:0], robots)[:robots]
	h.Goal, h.Previous = slices.Grow(h.Goal[:0], robots)[:robots], slices.Grow(h.Previous[:0], robots)[:robots]
	h.Absent = slices.Grow(h.Absent[:0], robots)[:robots]
}

// Present are the robots that are not outside.
func (h *Prediction) Present(visit func(i int) bool) {
	for i, absent := range h.Absent {
		if !absent && !visit(i) {
			return
		}
	}
}

// admit lets those enter that wait and act, and reports whether any does.
func (h *Prediction) admit(u []float64) (entered bool) {
	for i := range h.Robots {
		if h.Absent[i] && h.Radius[i] > 0 && (u[2*i] != 0 || u[2*i+1] != 0) {
			h.Absent[i], entered = false, true
		}
	}
	return entered
}

// Clone shares no memory with h but the parameters.
func (h *Prediction) Clone() *Prediction {
	c := *h
	c.State, c.Radius, c.Goal = slices.Clone(h.State), slices.Clone(h.Radius), slices.Clone(h.Goal)
	c.Previous, c.Absent, c.Obstacles = slices.Clone(h.Previous), slices.Clone(h.Absent), slices.Clone(h.Obstacles)
	return &c
}

// trajectory is what a plan leads to: states[k] after k actions, and the mean
// heading and speed of each step for the derivatives.
type trajectory struct {
	states   [][][StateSize]float64
	mean     [][]motion
	obstacle [][]Obstacle // obstacle[k] at step k; k = 0 now
}

// simulate rolls a plan [step][robot][2] out.
func (h *Prediction) simulate(plan []float64, steps int) *trajectory {
	p := h.Params
	t := &trajectory{
		states:   rows[[StateSize]float64](steps+1, h.Robots),
		mean:     rows[motion](steps, h.Robots),
		obstacle: make([][]Obstacle, steps+1),
	}
	copy(t.states[0], h.State)
	t.obstacle[0] = h.Obstacles
	for k := range steps {
		for i := range h.Robots {
			u := h.Action(plan, k, i)
			t.states[k+1][i], t.mean[k][i] = p.step(&t.states[k][i], u[0], u[1])
		}
		t.obstacle[k+1] = append([]Obstacle{}, t.obstacle[k]...)
		for j := range h.Obstacles {
			p.advance(&t.obstacle[k+1][j])
		}
	}
	return t
}

// rows are n rows of m values in one piece of memory.
func rows[T any](n, m int) [][]T {
	all, values := make([][]T, n), make([]T, n*m)
	for k := range all {
		all[k] = values[k*m : (k+1)*m]
	}
	return all
}

// pairs visits every margin with the vector between the centres.
func (h *Prediction) pairs(states [][StateSize]float64, obstacles []Obstacle, visit func(kind, i, other int, margin, dx, dy, distance float64)) {
	for i := range h.Present {
		s := &states[i]
		for j := range obstacles {
			o := &obstacles[j]
			dx, dy := s[0]-o.C[0], s[1]-o.C[1]
			d := math.Hypot(dx, dy)
			kind := agentMargin
			if i == 0 {
				kind = egoMargin
			}
			visit(kind, i, -1, d-h.Radius[i]-o.R-h.Params.DSafe, dx, dy, d)
		}
		for j := range i {
			if h.Absent[j] {
				continue
			}
			q := &states[j]
			dx, dy := s[0]-q[0], s[1]-q[1]
			d := math.Hypot(dx, dy)
			visit(pairMargins, i, j, d-h.Radius[i]-h.Radius[j]-h.Params.DSafe, dx, dy, d)
		}
	}
}

// Margin is the smallest margin now.
func (h *Prediction) Margin() float64 {
	low := NoMargin
	h.pairs(h.State, h.Obstacles, func(_, _, _ int, m, _, _, _ float64) { low = math.Min(low, m) })
	return low
}

// Score is what a plan [step][robot][a, ω] costs under the preference w, Σ wᵀJ over its
// steps as the plant counts them, and its smallest margin.
func (h *Prediction) Score(plan []float64, steps int, w []float64) (cost, margin float64) {
	sim := h.Clone()
	margin = NoMargin
	width := h.Params.Room() * ActionSize
	for k := range steps {
		var J [3]float64
		u := plan[k*width:][:width]
		margins, _ := sim.stage(u, J[:])
		stage := 0.0
		for i, v := range w {
			stage += v * J[i]
		}
		cost += stage
		margin = min(margin, slices.Min(margins[:]))
		sim.Apply(u)
	}
	return cost, margin
}

// GoalWeight is the weight of robot i's squared goal distance: 1 for the ego,
// η_g/N for the others. In a crowd N is that of a Few.
func (h *Prediction) GoalWeight(i int) float64 {
	if i == 0 {
		return 1
	}
	return h.Params.EtaG / float64(h.Company()-1)
}

// Crowd says that there are more than a Few robots.
func (h *Prediction) Crowd() bool { return h.Robots > Few }

// Company is the number of robots that divides what they share.
func (h *Prediction) Company() int { return min(h.Robots, Few) }

// count is the number of margins at one step.
func (h *Prediction) count() int {
	n := 0
	for range h.Present {
		n++
	}
	return n*len(h.Obstacles) + n*(n-1)/2
}

// evaluate writes the six objectives of a plan of any length, unweighted, and
// the smallest margin of each kind over its steps.
func (h *Prediction) evaluate(plan []float64, steps int, J *[Terms]float64, margins *[MarginKinds]float64) *trajectory {
	t := h.simulate(plan, steps)
	*J = [Terms]float64{}
	*margins = [MarginKinds]float64{NoMargin, NoMargin, NoMargin}
	count := math.Max(float64(h.count()), 1)
	for k := 1; k <= steps; k++ {
		distance := 0.0
		for i := range h.Present {
			dx, dy := t.states[k][i][0]-h.Goal[i][0], t.states[k][i][1]-h.Goal[i][1]
			distance += h.GoalWeight(i) * (dx*dx + dy*dy)
		}
		J[GoalTerm] += distance
		if k == steps {
			J[TerminalTerm] = distance
		}
		h.pairs(t.states[k], t.obstacle[k], func(kind, _, _ int, m, _, _, _ float64) {
			J[SafetyTerm] += math.Exp(-min(max(m, -3), 3)) / count
			if m < 0 {
				J[ViolationTerm] += m * m
			}
			margins[kind] = math.Min(margins[kind], m)
		})
	}
	for k := range steps {
		for i := range h.Present {
			u, previous := h.Action(plan, k, i), h.Previous[i][:]
			if k > 0 {
				previous = h.Action(plan, k-1, i)
			}
			for c := range ActionSize {
				J[EffortTerm] += u[c] * u[c] / float64(h.Company())
				J[SmoothnessTerm] += (u[c] - previous[c]) * (u[c] - previous[c]) / float64(h.Params.H)
			}
		}
	}
	return t
}

// Action is robot i's part of step k of a plan.
func (h *Prediction) Action(plan []float64, k, i int) []float64 {
	offset := (k*h.Params.Room() + i) * ActionSize
	return plan[offset : offset+ActionSize]
}

// gradient adds the derivatives of weightsᵀJ, by reverse mode through the
// dynamics: in the plan, and in the initial state.
func (h *Prediction) gradient(t *trajectory, plan []float64, steps int, weights *[Terms]float64, gplan []float64, gstate [][StateSize]float64) {
	count := math.Max(float64(h.count()), 1)
	gp := rows[[2]float64](steps+1, h.Robots) // of the positions at step k
	for k := 1; k <= steps; k++ {
		weight := weights[GoalTerm]
		if k == steps {
			weight += weights[TerminalTerm]
		}
		for i := range h.Robots {
			for c := range 2 {
				gp[k][i][c] += 2 * weight * h.GoalWeight(i) * (t.states[k][i][c] - h.Goal[i][c])
			}
		}
		h.pairs(t.states[k], t.obstacle[k], func(_, i, other int, m, dx, dy, d float64) {
			slope := 0.0
			if m > -3 && m < 3 {
				slope -= weights[SafetyTerm] * math.Exp(-m) / count
			}
			if m < 0 {
				slope += 2 * weights[ViolationTerm] * m
			}
			if d == 0 {
				return // centres on each other: no direction is better than another
			}
			gx, gy := slope*dx/d, slope*dy/d
			gp[k][i][0] += gx
			gp[k][i][1] += gy
			if other >= 0 {
				gp[k][other][0] -= gx
				gp[k][other][1] -= gy
			}
		})
	}
	for i := range h.Present {
		var place, rest, action [2]float64 // derivatives in the state after the step
		for k := steps - 1; k >= 0; k-- {
			place[0] += gp[k+1][i][0]
			place[1] += gp[k+1][i][1]
			rest, action = t.mean[k][i].back(h.Params, place, rest)
			g := h.Action(gplan, k, i)
			g[0] += action[0]
			g[1] += action[1]
			u, previous := h.Action(plan, k, i), h.Previous[i][:]
			if k > 0 {
				previous = h.Action(plan, k-1, i)
			}
			for c := range ActionSize {
				change := 2 * weights[SmoothnessTerm] * (u[c] - previous[c]) / float64(h.Params.H)
				g[c] += 2*weights[EffortTerm]*u[c]/float64(h.Company()) + change
				if k > 0 {
					h.Action(gplan, k-1, i)[c] -= change
				}
			}
		}
		for c, g := range [StateSize]float64{place[0], place[1], rest[0], rest[1]} {
			gstate[i][c] += g
		}
	}
}

// Weights are the factors of the six objectives in the horizon cost for a
// preference w ∈ Δ²: w and λ for the first three, λ for those always active.
func (p *Params) Weights(w []float64) [Terms]float64 {
	l := p.Lambda
	return [Terms]float64{w[0] * l[0], w[1] * l[1], w[2] * l[2], l[3], l[4], l[5]}
}
