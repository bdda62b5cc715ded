package ocp

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// Of screenedPlans smooth plans at random, those screenedStarts whose roll-outs cost least are further starts of an
// episode's first decision and of a reference. Either costs at most 1 + screenedStarts solves and the roll-outs. A start
// that ends where the best one does ends them, and one that costs hopeless times as much as a solution is left out: its
// solve takes many times as long, and mostly fails.
const (
	screenedPlans  = 16
	screenedStarts = 4
	hopeless       = 1e3
)

// minimiseBest minimises a weighted sum by a task, and where screened, again from each screened plan. The task's own
// solution stays unless another costs less by more than the share improvement.
func (t *task) minimiseBest(pref domain.Preference, screened bool) (*Trajectory, error) {
	best, err := t.minimise(pref, domain.WeightedSum)
	if !screened || t.solver.single || err != nil && !unsolved(err) {
		return best, err
	}
	most := math.Inf(1)
	if err == nil {
		most = hopeless * math.Abs(best.Cost)
	}
	for _, plan := range t.screenedPlans(pref, most) {
		next := task{solver: t.solver, state: t.state, ctx: t.ctx, steps: t.steps, starts: [][][]float64{plan}, keepWorkspace: t.keepWorkspace}
		other, failure := next.minimise(pref, domain.WeightedSum)
		if failure != nil && !unsolved(failure) {
			return nil, failure
		}
		same := failure == nil && err == nil && math.Abs(other.Cost-best.Cost) <= improvement*math.Abs(best.Cost)
		if failure == nil && (err != nil || other.Cost < best.Cost-improvement*math.Abs(best.Cost)) {
			best, err = other, nil
			t.workspace, next.workspace = next.workspace, t.workspace
		}
		if next.workspace != nil {
			t.solver.work.workspaces.Put(next.workspace)
		}
		if same {
			break
		}
	}
	return best, err
}

// screenedPlans are the plans of least cost, of which each broken limit adds its violation times the cost, where that is below most.
func (t *task) screenedPlans(pref domain.Preference, most float64) (plans [][][]float64) {
	type rolled struct {
		plan  [][]float64
		score float64
	}
	var all []rolled
	p := t.solver.work.workspaces.Get().(*ipm)
	defer t.solver.work.workspaces.Put(p)
	random := task{solver: t.solver, state: t.state, ctx: t.ctx, steps: t.steps, seed: horizonSeed}
	random.configure(p, func(q *program) {
		q.setWeights(pref.Adaptive, pref.W)
		q.terminal = t.solver.terminalCosts.forContext(t.ctx, pref)
	}, 1)
	for k := range screenedPlans {
		p.opt.mu = firstBarrier
		p.setInitialState(t.state, t.ctx, t.steps)
		random.writeStart(p.q, p.cur, 2+k)
		if !p.start(false, nil) {
			continue
		}
		score := p.cur.f
		for _, g := range p.cur.g {
			score += math.Abs(p.cur.f) * math.Max(0, -g)
		}
		if !(score < most) {
			continue
		}
		all = append(all, rolled{slices.Collect(slices.Chunk(slices.Clone(p.cur.u), p.q.nu)), score})
	}
	slices.SortStableFunc(all, func(a, b rolled) int { return cmp.Compare(a.score, b.score) })
	for _, r := range all[:min(screenedStarts, len(all))] {
		plans = append(plans, r.plan)
	}
	return plans
}
