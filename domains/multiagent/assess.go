package multiagent

import "math"

// assessment is what one robot's plan of L steps is worth among bodies on known
// paths, in float64 and with the exact dynamics.
type assessment struct {
	J    [3]float64 // objectives of View, summed over the steps
	low  float64    // smallest margin over the steps, m
	safe int        // leading steps that keep hard
	end  [stateSize]float64
}

// assess rolls robot i's plan out, [step][a, ω]. The goal term is the squared
// distance, without a detour.
func (v *View) assess(l *outlook, i int, plan []float64, hard float64) (out assessment) {
	h := l.scene
	p := h.params
	share := math.Sqrt(h.goalWeight(i))
	stiffness := 3 * share * v.options.Stiffness
	smooth := p.Lambda[smoothnessTerm] / float64(p.H)
	state, before := h.state[i], h.previous[i]
	out.low = noMargin
	alive := true
	var always float64
	for k := range lookAhead {
		u := plan[2*k : 2*k+2]
		state = p.step(&state, u[0], u[1])
		dx, dy := state[0]-h.goal[i][0], state[1]-h.goal[i][1]
		out.J[0] += p.Lambda[goalTerm] * share * share * (dx*dx + dy*dy)
		out.J[2] += p.Lambda[effortTerm] * (u[0]*u[0] + u[1]*u[1]) / float64(h.robots)
		da, dw := u[0]-before[0], u[1]-before[1]
		always += smooth * (da*da + dw*dw)
		before = [actionSize]float64{u[0], u[1]}
		low := noMargin
		meet := func(x, y, radius float64) {
			m := math.Hypot(state[0]-x, state[1]-y) - radius - h.radius[i] - p.DSafe
			low = math.Min(low, m)
			if t := v.options.Buffer - m; t > 0 {
				m := math.Min(t, v.options.Knee)
				out.J[1] += stiffness * m * (2*t - m)
			}
		}
		for j := range l.obstacles[k] {
			o := &l.obstacles[k][j]
			meet(o.C[0], o.C[1], o.R)
		}
		for j := range h.robots {
			if path := l.paths[j]; j != i && path != nil {
				meet(float64(path[k][0]), float64(path[k][1]), h.radius[j])
			}
		}
		out.low = math.Min(out.low, low)
		if alive = alive && low >= hard; alive {
			out.safe++
		}
	}
	for j := range out.J {
		out.J[j] += always
	}
	out.end = state
	return out
}
