package multiagent

import "math"

// Order of the six objectives of eq. multiagent-objectives, and of λ.
const (
	goalTerm = iota
	safetyTerm
	effortTerm
	violationTerm
	terminalTerm
	smoothnessTerm
	terms
)

// Kinds of margins, in the order of Spec.Margins.
const (
	egoMargin   = iota // ego to obstacles
	agentMargin        // other robots to obstacles
	pairsMargin        // robot to robot
	marginKinds
)

// noMargin is the margin of an empty set of pairs, m: beyond any distance in a
// workspace.
const noMargin = 1000.0

// horizonProblem is the prediction problem of eq. multiagent-objectives at one
// decision, in float64: what the batched roll-out computes for many plans at
// once, and the stage cost that episodes are scored with.
type horizonProblem struct {
	params    *Params
	robots    int
	state     [MaxRobots][stateSize]float64
	radius    [MaxRobots]float64
	goal      [MaxRobots][2]float64
	previous  [MaxRobots][actionSize]float64
	obstacles []Obstacle // now
}

// trajectory is what a plan leads to: states[k] after k actions, and the mean
// heading and speed of each step for the derivatives.
type trajectory struct {
	states   [][MaxRobots][stateSize]float64
	mean     [][MaxRobots]motion
	obstacle [][]Obstacle // obstacle[k] at step k; k = 0 now
}

type motion struct {
	cos, sin, speed float64
	free            bool // the speed is inside its limits, so the acceleration acts
}

// simulate rolls a plan [step][robot][2] out.
func (h *horizonProblem) simulate(plan []float64, steps int) *trajectory {
	p := h.params
	t := &trajectory{
		states:   make([][MaxRobots][stateSize]float64, steps+1),
		mean:     make([][MaxRobots]motion, steps),
		obstacle: make([][]Obstacle, steps+1),
	}
	t.states[0] = h.state
	t.obstacle[0] = h.obstacles
	for k := range steps {
		for i := range h.robots {
			a, omega := plan[k*MaxRobots*actionSize+2*i], plan[k*MaxRobots*actionSize+2*i+1]
			s := &t.states[k][i]
			next := p.step(s, a, omega)
			t.states[k+1][i] = next
			sin, cos := math.Sincos(s[2] + 0.5*p.Dt*omega)
			raw := s[3] + p.Dt*a
			t.mean[k][i] = motion{cos, sin, 0.5 * (s[3] + next[3]), raw > p.Limits.VMin && raw < p.Limits.VMax}
		}
		t.obstacle[k+1] = append([]Obstacle{}, t.obstacle[k]...)
		for j := range t.obstacle[k+1] {
			p.advance(&t.obstacle[k+1][j])
		}
	}
	return t
}

// pairs visits every margin at step k with the vector between the centres.
func (h *horizonProblem) pairs(t *trajectory, k int, visit func(kind, i, other int, margin, dx, dy, distance float64)) {
	for i := range h.robots {
		s := &t.states[k][i]
		for j := range t.obstacle[k] {
			o := &t.obstacle[k][j]
			dx, dy := s[0]-o.C[0], s[1]-o.C[1]
			d := math.Hypot(dx, dy)
			kind := agentMargin
			if i == 0 {
				kind = egoMargin
			}
			visit(kind, i, -1, d-h.radius[i]-o.R-h.params.DSafe, dx, dy, d)
		}
		for j := range i {
			q := &t.states[k][j]
			dx, dy := s[0]-q[0], s[1]-q[1]
			d := math.Hypot(dx, dy)
			visit(pairsMargin, i, j, d-h.radius[i]-h.radius[j]-h.params.DSafe, dx, dy, d)
		}
	}
}

// goalWeight is the weight of robot i's squared goal distance: 1 for the ego,
// η_g/N for the others.
func (h *horizonProblem) goalWeight(i int) float64 {
	if i == 0 {
		return 1
	}
	return h.params.EtaG / float64(h.robots-1)
}

// count is the number of margins at one step.
func (h *horizonProblem) count() int {
	return h.robots*len(h.obstacles) + h.robots*(h.robots-1)/2
}

// evaluate writes the six objectives of a plan of any length, unweighted, and
// the smallest margin of each kind over its steps.
func (h *horizonProblem) evaluate(plan []float64, steps int, J *[terms]float64, margins *[marginKinds]float64) *trajectory {
	t := h.simulate(plan, steps)
	*J = [terms]float64{}
	*margins = [marginKinds]float64{noMargin, noMargin, noMargin}
	count := math.Max(float64(h.count()), 1)
	for k := 1; k <= steps; k++ {
		distance := 0.0
		for i := range h.robots {
			dx, dy := t.states[k][i][0]-h.goal[i][0], t.states[k][i][1]-h.goal[i][1]
			distance += h.goalWeight(i) * (dx*dx + dy*dy)
		}
		J[goalTerm] += distance
		if k == steps {
			J[terminalTerm] = distance
		}
		h.pairs(t, k, func(kind, _, _ int, m, _, _, _ float64) {
			J[safetyTerm] += math.Exp(-min(max(m, -3), 3)) / count
			if m < 0 {
				J[violationTerm] += m * m
			}
			margins[kind] = math.Min(margins[kind], m)
		})
	}
	for k := range steps {
		for i := range h.robots {
			u, before := h.action(plan, k, i), h.previous[i][:]
			if k > 0 {
				before = h.action(plan, k-1, i)
			}
			for c := range actionSize {
				J[effortTerm] += u[c] * u[c] / float64(h.robots)
				J[smoothnessTerm] += (u[c] - before[c]) * (u[c] - before[c]) / float64(h.params.H)
			}
		}
	}
	return t
}

// action is robot i's part of step k of a plan.
func (h *horizonProblem) action(plan []float64, k, i int) []float64 {
	at := (k*MaxRobots + i) * actionSize
	return plan[at : at+actionSize]
}

// gradient adds the derivatives of weightsᵀJ, by reverse mode through the
// dynamics: in the plan, and in the initial state.
func (h *horizonProblem) gradient(t *trajectory, plan []float64, steps int, weights *[terms]float64, gplan []float64, gstate *[MaxRobots][stateSize]float64) {
	dt := h.params.Dt
	count := math.Max(float64(h.count()), 1)
	gp := make([][MaxRobots][2]float64, steps+1) // of the positions at step k
	for k := 1; k <= steps; k++ {
		weight := weights[goalTerm]
		if k == steps {
			weight += weights[terminalTerm]
		}
		for i := range h.robots {
			for c := range 2 {
				gp[k][i][c] += 2 * weight * h.goalWeight(i) * (t.states[k][i][c] - h.goal[i][c])
			}
		}
		h.pairs(t, k, func(_, i, other int, m, dx, dy, d float64) {
			slope := 0.0
			if m > -3 && m < 3 {
				slope -= weights[safetyTerm] * math.Exp(-m) / count
			}
			if m < 0 {
				slope += 2 * weights[violationTerm] * m
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
	for i := range h.robots {
		var px, py, heading, speed float64 // adjoints of p, θ and v after the step
		for k := steps - 1; k >= 0; k-- {
			px += gp[k+1][i][0]
			py += gp[k+1][i][1]
			m := &t.mean[k][i]
			gh := dt * m.speed * (m.cos*py - m.sin*px)
			gv := 0.5 * dt * (m.cos*px + m.sin*py)
			g := h.action(gplan, k, i)
			through := 0.0
			if m.free {
				through = speed + gv
			}
			g[0] += dt * through
			g[1] += dt * (heading + 0.5*gh)
			heading += gh
			speed = through + gv
			u, before := h.action(plan, k, i), h.previous[i][:]
			if k > 0 {
				before = h.action(plan, k-1, i)
			}
			for c := range actionSize {
				change := 2 * weights[smoothnessTerm] * (u[c] - before[c]) / float64(h.params.H)
				g[c] += 2*weights[effortTerm]*u[c]/float64(h.robots) + change
				if k > 0 {
					h.action(gplan, k-1, i)[c] -= change
				}
			}
		}
		gstate[i][0] += px
		gstate[i][1] += py
		gstate[i][2] += heading
		gstate[i][3] += speed
	}
}

// weights are the factors of the six objectives in the horizon cost for a
// preference w ∈ Δ²: w and λ for the first three, λ for those always active.
func (p *Params) weights(w []float64) [terms]float64 {
	l := p.Lambda
	return [terms]float64{w[0] * l[0], w[1] * l[1], w[2] * l[2], l[3], l[4], l[5]}
}
