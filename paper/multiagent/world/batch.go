package world

import "github.com/gpc-engine/gpc/paper/multiagent/rollout"

// Motion is robot i's for the batched roll-out; of a double integrator that along x, and lateral[0] gets that along y.
func (h *Prediction) Motion(i int, effort, smooth float64, lateral []rollout.Motion[float32]) rollout.Motion[float32] {
	s, l := &h.State[i], &h.Params.Limits
	r := rollout.Robot{X: s[0], Y: s[1], Theta: s[2], V: s[3], Previous: h.Previous[i], Goal: h.Goal[i]}
	if h.Params.Double() {
		y := rollout.Robot{X: s[1], V: s[3], Previous: [2]float64{h.Previous[i][1]}, Goal: [2]float64{h.Goal[i][1]}}
		lateral[0] = y.Motion(h.Params.Dt, l.VMin, l.VMax, effort, smooth)
		r = rollout.Robot{X: s[0], V: s[2], Previous: [2]float64{h.Previous[i][0]}, Goal: [2]float64{h.Goal[i][0]}}
	}
	return r.Motion(h.Params.Dt, l.VMin, l.VMax, effort, smooth)
}

// Bounds are robot i's limits for the batched roll-out.
func (h *Prediction) Bounds(i int) rollout.Bounds[float32] {
	l := &h.Params.Limits
	return rollout.Bounds[float32]{
		Previous: [2]float32{float32(h.Previous[i][0]), float32(h.Previous[i][1])},
		Lo:       [2]float32{float32(l.AMin), float32(-l.OmegaMax)},
		Hi:       [2]float32{float32(l.AMax), float32(l.OmegaMax)},
		Slew:     [2]float32{float32(l.DuMax[0]), float32(l.DuMax[1])},
	}
}

// Predicted returns the obstacles after 1 to steps periods, [step][obstacle], in the
// memory of reuse as far as that goes.
func (h *Prediction) Predicted(reuse [][]Obstacle, steps int) [][]Obstacle {
	out := reuse[:min(len(reuse), steps)]
	now := h.Obstacles
	for k := range steps {
		if k == len(out) {
			out = append(out, make([]Obstacle, 0, MaxObstacles))
		}
		out[k] = append(out[k][:0], now...)
		for j := range out[k] {
			h.Params.advance(&out[k][j])
		}
		now = out[k]
	}
	return out
}

// Joint is the horizon cost of eq. multiagent-objectives under a preference, for
// whole blocks of joint plans.
func (h *Prediction) Joint(w []float64) *rollout.Joint {
	weights := h.Params.Weights(w)
	repeat := func(x float64) rollout.Vector[float32] { return rollout.Repeat(float32(x)) }
	count := max(float64(h.count()), 1)
	j := &rollout.Joint{
		Steps: Horizon, Count: len(h.Obstacles),
		Penalty: rollout.Penalty[float32]{Exp: repeat(weights[SafetyTerm] / count), Square: repeat(weights[ViolationTerm]), Knee: repeat(rollout.NoKnee)},
	}
	if h.Params.Double() {
		j.Lateral = make([]rollout.Motion[float32], h.Robots)
	}
	obstacles := h.Predicted(nil, Horizon)
	for i := range h.Robots {
		j.Robots = append(j.Robots, h.Motion(i, weights[EffortTerm]/float64(h.Company()), weights[SmoothnessTerm]/float64(h.Params.H), j.Lateral[min(i, len(j.Lateral)):]))
		goal := make([]float32, Horizon)
		for k := range goal {
			goal[k] = float32(weights[GoalTerm] * h.GoalWeight(i))
		}
		goal[Horizon-1] += float32(weights[TerminalTerm] * h.GoalWeight(i))
		j.Goal = append(j.Goal, goal)
		discs := make([]float32, 0, Horizon*len(h.Obstacles)*rollout.DiscFields)
		for _, row := range obstacles {
			for _, o := range row {
				discs = append(discs, float32(o.C[0]), float32(o.C[1]), float32(o.R+h.Radius[i]+h.Params.DSafe))
			}
		}
		j.Discs = append(j.Discs, discs)
		pairs := make([]float32, i)
		for k := range pairs {
			pairs[k] = float32(h.Radius[i] + h.Radius[k] + h.Params.DSafe)
		}
		j.Pair = append(j.Pair, pairs)
	}
	return j
}
