package batchnav

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

const (
	// goalPoints are the weightings among which a goal's are looked for at a decision.
	goalPoints = 64
	// closeToLeast is how far an objective that counts first may be above its least, as a share of the front.
	closeToLeast = 0.01
	// Where a polish finds the least of an objective another counts otherWeight as much, so that it is not let go, and one with a bound
	// counts boundedWeight as much. What exceeds a bound counts excessive times as much.
	otherWeight, boundedWeight, excessive = 1e-3, 1e-4, 1e3
	// leastIterations polish the plan of an objective's least.
	leastIterations = 50
	// weightSteps bisect the weight of what is bounded.
	weightSteps = 12
)

// pursuit is a loop on its way to a goal.
type pursuit struct {
	goal    *domain.Goals // nil: it has none
	begins  bool          // the bounds of what comes first are still to be found
	most    []float64     // what each objective may still sum to; +Inf: it has no bound
	reach   []float64     // of each objective along the first front
	weights []float64     // of the last decision
}

// weigh gives observations that have a goal the weights that reach it.
func (a *Batch) weigh(obs []Observation) ([]Observation, error) {
	weighed := obs // a copy from the first goal on
	for i := range obs {
		l := a.loopAt(i)
		if obs[i].Preference.Goal == nil {
			if l.pursuit.goal = nil; l.memory != nil {
				l.memory.target = nil
			}
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

// spend takes what the last action of a loop costs from the bounds of its goal; of a state that nobody measured it is not known.
func (a *Batch) spend(l *loop) {
	if l.pursuit.goal == nil || !l.history.decision {
		return
	}
	J := make([]float64, a.spec.ObjectiveSize())
	a.problem.Objectives(l.lastS, l.lastU, l.lastC, J)
	for j, v := range J {
		l.pursuit.most[j] -= finiteOr(v, 0)
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
	ctx := cmp.Or(a.opt.Context, context.Background())
	start, opt := Observation{S: obs.S, C: obs.C}, FrontOptions{Points: goalPoints, Threads: a.backend.Describe().HostThreads()}
	polishes := a.search != nil && a.search.polish != nil
	first := goal.First
	if len(goal.Bounds)+len(first) == m && len(first) > 0 { // the last of all need not be bounded
		first = first[:len(first)-1]
	}
	if p.begins && (polishes || len(first) > 0) { // what comes first is bounded by about its least, once
		opt.Plans = polishes
		front, err := a.fronts.Front(ctx, start, opt)
		if err != nil {
			return err
		}
		ends := front
		if polishes {
			opt.Weights, opt.Polish = dataset.Proper(m, m), leastIterations
			if ends, err = a.fronts.Front(ctx, start, opt); err != nil {
				return err
			}
			front.Points = append(front.Points, ends.Points...)
			if front.compare(m); ends.Knee < 0 {
				ends = front
			}
		}
		p.reach = p.reach[:0]
		for j := range ends.Ideal {
			p.reach = append(p.reach, max(ends.Nadir[j]-ends.Ideal[j], 1e-9*(1+math.Abs(ends.Ideal[j]))))
		}
		for _, j := range first {
			k := front.least(p.most, j)
			if k < 0 {
				continue
			}
			point := front.Points[k]
			if polishes {
				point = a.polishedFor(p.target(j), start, front)
			}
			p.most[j] = point.J[j] + closeToLeast*p.reach[j]
		}
		if polishes && len(p.reach) > 0 { // the plan before the first decision, one step on
			point := a.polishedFor(p.target(), start, front)
			l.memory.plan = append(append(l.memory.plan[:0], point.U...), point.plan...)
		}
	}
	p.begins = false
	front, err := a.fronts.Front(ctx, start, FrontOptions{Points: goalPoints, Threads: opt.Threads, Most: p.most})
	if err != nil {
		return err
	}
	if polishes && len(p.reach) > 0 {
		l.memory.target = p.target()
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

// target is what a polish minimises: weighted objectives, summed along a plan within bounds.
type target struct {
	weights []float64
	bounds  []domain.Bound
}

// target is of an objective within the bounds, as a share of the front, or where none is named of all without a bound.
func (p *pursuit) target(objectives ...int) *target {
	t, sum := &target{}, 0.0
	bounded := func(m float64) bool { return !math.IsInf(m, 1) }
	all := len(objectives) == 0 && !slices.ContainsFunc(p.most, func(m float64) bool { return !bounded(m) })
	for j, reach := range p.reach {
		w := 1 / reach
		switch {
		case bounded(p.most[j]):
			t.bounds = append(t.bounds, domain.Bound{Objective: j, Most: p.most[j], Unit: 0.1 * reach})
			if !all {
				w *= boundedWeight
			}
		case len(objectives) > 0 && !slices.Contains(objectives, j):
			w *= otherWeight
		}
		t.weights, sum = append(t.weights, w), sum+w
	}
	floats.Scale(1/sum, t.weights)
	return t
}

// cost counts sums of objectives, and what exceeds the bounds a number of times.
func (t *target) cost(J []float64, factor float64) float64 {
	cost := tensor.DotInOrder(t.weights, J)
	for _, b := range t.bounds {
		cost += factor / boundedWeight * t.weights[b.Objective] * max(0, J[b.Objective]-b.Most)
	}
	return cost
}

// polishedFor is a further point of a front: the best of the plans for a target that are polished from what is best within the bounds, and
// from what is about as good beyond them. Either may end at another optimum where the bounds are counted in another unit.
func (a *Batch) polishedFor(t *target, obs Observation, f *Front) FrontPoint {
	least := func(points []FrontPoint, factor float64) (best FrontPoint) {
		for i := range points {
			if p := &points[i]; p.Feasible && (best.J == nil || t.cost(p.J, factor) < t.cost(best.J, factor)) {
				best = *p
			}
		}
		return best
	}
	nearest := least(f.Points, excessive)
	var ends []FrontPoint
	for _, start := range []FrontPoint{nearest, least(f.Points, 1)} {
		var plans []FrontPoint
		for _, unit := range []float64{1, 0.1} {
			plan, scaled := slices.Clone(start.plan), slices.Clone(t.bounds)
			for i := range scaled {
				scaled[i].Unit *= unit
			}
			a.search.polish.method(obs.S, obs.C, domain.Preference{W: t.weights}, scaled, plan, leastIterations)
			plans = append(plans, simulated(a.problem, obs, start.W, plan, true))
			if len(scaled) == 0 {
				break
			}
		}
		ends = append(ends, least(plans, excessive))
	}
	best := least(append([]FrontPoint{nearest}, ends...), excessive)
	dearer := func(p FrontPoint) bool { return p.J == nil || t.cost(p.J, excessive) > 1.01*t.cost(best.J, excessive) }
	if len(t.bounds) > 0 && best.J != nil && slices.ContainsFunc(ends, dearer) { // the starts end at different optima
		best = a.weighted(t, obs, best)
	}
	f.Points = append(f.Points, best)
	return best
}

// weighted is the best of a point within bounds and those that a polish finds under weights. Where the front is steep a polish with bounds
// ends beyond them, or anywhere. What is bounded counts more until the bounds are kept, and no more than that: by bisection.
func (a *Batch) weighted(t *target, obs Observation, best FrontPoint) FrontPoint {
	plan, w := slices.Clone(best.plan), make([]float64, len(t.weights))
	for less, more, i := 1.0, 1/(boundedWeight*otherWeight), 0; i < weightSteps; i++ {
		factor := math.Sqrt(less * more)
		copy(w, t.weights)
		for _, b := range t.bounds {
			w[b.Objective] *= factor
		}
		floats.Scale(1/floats.Sum(w), w)
		a.search.polish.method(obs.S, obs.C, domain.Preference{W: w}, nil, plan, leastIterations)
		p := simulated(a.problem, obs, best.W, slices.Clone(plan), true)
		if !p.Feasible || t.cost(p.J, excessive) > t.cost(p.J, 0) {
			less = factor
			continue
		}
		if more = factor; t.cost(p.J, 0) < t.cost(best.J, 0) {
			best = p
		}
	}
	return best
}
