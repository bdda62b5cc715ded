package plan

import (
	"math"

	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Score is what a plan of one robot costs: its part of the episode's cost over the
// steps, a soft penalty of closeness, and what is expected to be paid after them.
type Score struct {
	Goal           float64 // weight of the squared goal distance of a step
	Effort, Smooth float64 // weights of a² + ω² and of the squared change of (a, ω)
	view.Soft
	Hard float64 // least margin of a step that counts as safe, m
	// Rest is the goal weight of what is expected after the plan, Share its factor.
	Rest, Share float64
}

// Score is that of robot i's plans under a preference.
func (o *Options) Score(h *world.Prediction, i int, w []float64) Score {
	weights := h.Params.Weights(w)
	s := Score{
		Goal:   weights[world.GoalTerm] * h.GoalWeight(i),
		Effort: weights[world.EffortTerm] / float64(h.Company()), Smooth: weights[world.SmoothnessTerm] / float64(h.Params.H),
		Soft: o.Soft, Hard: o.Hard, Share: 1,
	}
	s.Stiffness *= math.Pow(h.GoalWeight(i), o.Weight)
	s.Rest = s.Goal
	return s
}

// detour is added to the straight way where the grid knows none, m.
const detour = 20

// ending is what robot i is expected to pay after a plan: the cost-to-go of its
// guide, or, where there is none, of the straight way at full speed.
func ending(l *view.Outlook, i int, rest, share float64) rollout.Ending {
	p := l.Scene.Params
	e := rollout.Ending{Goal: l.Scene.Goal[i], Stage: rest, Stride: p.Dt * p.Limits.VMax, Detour: detour, Scale: share}
	if l.Guide != nil {
		e.Grid = &l.Guide.Grid
	}
	return e
}

// write sets up the roll-out of robot i's plans among the bodies of its outlook.
func (s *Score) write(l *view.Outlook, i int, dst *rollout.Joint) {
	h, p := l.Scene, l.Scene.Params
	if p.Double() && dst.Lateral == nil {
		dst.Lateral = make([]rollout.Motion[float32], 1)
	}
	dst.Robots[0] = h.Motion(i, s.Effort, s.Smooth, dst.Lateral)
	for k := range dst.Goal[0] {
		dst.Goal[0][k] = float32(s.Goal)
	}
	*dst.Ending = ending(l, i, s.Rest, s.Share)
	repeat := func(x float64) rollout.Vector[float32] { return rollout.Repeat(float32(x)) }
	dst.Penalty = rollout.Penalty[float32]{Square: repeat(s.Stiffness), Buffer: repeat(s.Buffer), Knee: repeat(s.Knee), Hard: repeat(s.Hard)}
	discs := dst.Discs[0][:0]
	for k, row := range l.Obstacles[:dst.Steps] {
		for _, j := range l.Visible {
			o := &row[j]
			discs = append(discs, float32(o.C[0]), float32(o.C[1]), float32(o.R+h.Radius[i]+p.DSafe))
		}
		for _, o := range l.Robots {
			discs = append(discs, o.Path[k][0], o.Path[k][1], float32(h.Radius[o.Robot]+h.Radius[i]+p.DSafe))
		}
	}
	dst.Discs[0], dst.Count = discs, len(discs)/rollout.DiscFields/dst.Steps
}
