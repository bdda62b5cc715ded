package batchnav

import (
	"context"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

const (
	// goalPoints are the weightings among which a goal's are looked for at a decision.
	goalPoints = 64
	// closeToLeast is how far an objective that counts first may be above its least, as a share of the front.
	closeToLeast = 0.01
)

// pursuit is a loop on its way to a goal.
type pursuit struct {
	goal    *domain.Goals // nil: it has none
	begins  bool          // the bounds of what comes first are still to be found
	most    []float64     // what each objective may still sum to; +Inf: it has no bound
	weights []float64     // of the last decision
}

// weigh gives observations that have a goal the weights that reach it.
func (a *Batch) weigh(obs []Observation) ([]Observation, error) {
	weighed := obs // a copy from the first goal on
	for i := range obs {
		l := a.loopAt(i)
		if obs[i].Preference.Goal == nil {
			l.pursuit.goal = nil
			continue
		}
		if err := a.reach(l, &obs[i]); err != nil {
			return nil, err
		}
		if &weighed[0] == &obs[0] {
			a.weighed = append(a.weighed[:0], obs...)
			weighed = a.weighed
		}
		if weighed[i].Preference.Goal = nil; !obs[i].Preference.Weighs() {
			weighed[i].Preference.W = l.pursuit.weights
		}
	}
	return weighed, nil
}

// spend takes what the last action of a loop costs from the bounds of its goal.
func (a *Batch) spend(l *loop) {
	if l.pursuit.goal == nil || !l.history.decision {
		return
	}
	J := make([]float64, a.spec.ObjectiveSize())
	a.problem.Objectives(l.lastS, l.lastU, l.lastC, J)
	for j, v := range J {
		l.pursuit.most[j] -= v
	}
}

// reach finds the weights of the front's point that reaches a goal best from here on. Of an observation that is not
// finite, or that has weights of its own, they are those before.
func (a *Batch) reach(l *loop, obs *Observation) error {
	goal, p, m := obs.Preference.Goal, &l.pursuit, a.spec.ObjectiveSize()
	if p.goal.Equal(goal) {
		a.spend(l)
	} else {
		if err := goal.Validate(m); err != nil {
			return err
		}
		p.goal, p.begins = &domain.Goals{Bounds: slices.Clone(goal.Bounds), First: slices.Clone(goal.First)}, true
		p.weights, p.most = slices.Clone(a.uniform.W), slices.Repeat([]float64{math.Inf(1)}, m)
		for _, b := range goal.Bounds {
			p.most[b.Objective] = b.Most
		}
	}
	if !tensor.Finite(obs.S) || !tensor.Finite(obs.C) || obs.Preference.Weighs() {
		return nil
	}
	if a.fronts == nil {
		var err error
		if a.fronts, err = newFronts(a.loaded); err != nil {
			return err
		}
	}
	start, opt := Observation{S: obs.S, C: obs.C}, FrontOptions{Points: goalPoints, Threads: a.backend.Describe().Threads}
	first := goal.First
	if len(goal.Bounds)+len(first) == m && len(first) > 0 { // the last of all need not be bounded
		first = first[:len(first)-1]
	}
	if p.begins && len(first) > 0 { // what comes first is bounded by about its least, once
		front, err := a.fronts.Front(context.Background(), start, opt)
		if err != nil {
			return err
		}
		for _, j := range first {
			if k := front.least(p.most, j); k >= 0 {
				p.most[j] = front.Points[k].J[j] + closeToLeast*(front.Nadir[j]-front.Ideal[j])
			}
		}
	}
	p.begins, opt.Most = false, p.most
	front, err := a.fronts.Front(context.Background(), start, opt)
	if err != nil {
		return err
	}
	k := front.Best(p.most)
	if k < 0 {
		k = front.nearest(p.most, first...)
	}
	if k >= 0 {
		copy(p.weights, front.Points[k].W)
	}
	return nil
}
