package view

import (
	"math"

	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Assessment is what one robot's plan of L steps is worth among bodies on known
// paths, in float64 and with the exact dynamics.
type Assessment struct {
	J    [3]float64 // objectives of View, summed over the steps
	Low  float64    // smallest margin over the steps, m
	Safe int        // leading steps that keep hard
}

// Assess rolls robot i's plan out, [step][a, ω]. The goal term is the squared
// distance, without a detour.
func (v *View) Assess(l *Outlook, i int, plan []float64, hard float64) (out Assessment) {
	h := l.Scene
	p := h.Params
	share := math.Sqrt(h.GoalWeight(i))
	stiffness := 3 * share * v.soft.Stiffness
	smooth := p.Lambda[world.SmoothnessTerm] / float64(p.H)
	state, previous := h.State[i], h.Previous[i]
	out.Low = world.NoMargin
	alive := true
	var always float64
	for k := range world.LookAhead {
		u := plan[2*k : 2*k+2]
		state = p.Step(&state, u[0], u[1])
		dx, dy := state[0]-h.Goal[i][0], state[1]-h.Goal[i][1]
		out.J[0] += p.Lambda[world.GoalTerm] * share * share * (dx*dx + dy*dy)
		out.J[2] += p.Lambda[world.EffortTerm] * (u[0]*u[0] + u[1]*u[1]) / float64(h.Company())
		da, dw := u[0]-previous[0], u[1]-previous[1]
		always += smooth * (da*da + dw*dw)
		previous = [world.ActionSize]float64{u[0], u[1]}
		low := world.NoMargin
		meet := func(x, y, radius float64) {
			m := math.Hypot(state[0]-x, state[1]-y) - radius - h.Radius[i] - p.DSafe
			low = math.Min(low, m)
			if t := v.soft.Buffer - m; t > 0 {
				cost, _ := rollout.Huber(stiffness, t, v.soft.Knee)
				out.J[1] += cost
			}
		}
		for _, j := range l.Visible {
			o := &l.Obstacles[k][j]
			meet(o.C[0], o.C[1], o.R)
		}
		for _, o := range l.Robots {
			meet(float64(o.Path[k][0]), float64(o.Path[k][1]), h.Radius[o.Robot])
		}
		out.Low = math.Min(out.Low, low)
		if alive = alive && low >= hard; alive {
			out.Safe++
		}
	}
	for j := range out.J {
		out.J[j] += always
	}
	return out
}
