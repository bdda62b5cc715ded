package multiagent

import (
	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
)

// robot is robot i for the batched roll-out.
func (h *horizonProblem) robot(i int) rollout.Robot {
	s := &h.state[i]
	return rollout.Robot{X: s[0], Y: s[1], Theta: s[2], V: s[3], Previous: h.previous[i], Goal: h.goal[i], Radius: h.radius[i]}
}

// bounds are robot i's limits for the batched roll-out.
func (h *horizonProblem) bounds(i int) rollout.Bounds[float32] {
	l := &h.params.Limits
	return rollout.Bounds[float32]{
		Previous: [2]float32{float32(h.previous[i][0]), float32(h.previous[i][1])},
		Lo:       [2]float32{float32(l.AMin), float32(-l.OmegaMax)},
		Hi:       [2]float32{float32(l.AMax), float32(l.OmegaMax)},
		Slew:     [2]float32{float32(l.DuMax[0]), float32(l.DuMax[1])},
	}
}

// predicted returns the obstacles after 1 to steps periods, [step][obstacle].
func (h *horizonProblem) predicted(steps int) [][]Obstacle {
	out := make([][]Obstacle, steps)
	now := h.obstacles
	for k := range out {
		out[k] = append([]Obstacle{}, now...)
		for j := range out[k] {
			h.params.advance(&out[k][j])
		}
		now = out[k]
	}
	return out
}

// joint is the horizon cost of eq. multiagent-objectives under a preference, for
// whole blocks of joint plans.
func (h *horizonProblem) joint(w []float64) *rollout.Joint {
	weights := h.params.weights(w)
	repeat := func(x float64) rollout.Vector[float32] { return rollout.Repeat(float32(x)) }
	count := max(float64(h.count()), 1)
	j := &rollout.Joint{
		Steps: Horizon, Count: len(h.obstacles),
		Penalty: rollout.Penalty[float32]{Exp: repeat(weights[safetyTerm] / count), Square: repeat(weights[violationTerm]), Knee: repeat(rollout.NoKnee)},
	}
	l := &h.params.Limits
	obstacles := h.predicted(Horizon)
	for i := range h.robots {
		r := h.robot(i)
		j.Robots = append(j.Robots, r.Motion(h.params.Dt, l.VMin, l.VMax, weights[effortTerm]/float64(h.robots), weights[smoothnessTerm]/float64(h.params.H)))
		goal := make([]float32, Horizon)
		for k := range goal {
			goal[k] = float32(weights[goalTerm] * h.goalWeight(i))
		}
		goal[Horizon-1] += float32(weights[terminalTerm] * h.goalWeight(i))
		j.Goal = append(j.Goal, goal)
		discs := make([]float32, 0, Horizon*len(h.obstacles)*rollout.DiscFields)
		for _, row := range obstacles {
			for _, o := range row {
				discs = append(discs, float32(o.C[0]), float32(o.C[1]), float32(o.R+h.radius[i]+h.params.DSafe))
			}
		}
		j.Discs = append(j.Discs, discs)
		pairs := make([]float32, i)
		for k := range pairs {
			pairs[k] = float32(h.radius[i] + h.radius[k] + h.params.DSafe)
		}
		j.Pair = append(j.Pair, pairs)
	}
	return j
}

// thirds is the preference that episodes are scored with unless the user fixes
// another.
var thirds = []float64{1.0 / 3, 1.0 / 3, 1.0 / 3}
