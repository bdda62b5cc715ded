package plan

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
	"github.com/gpc-engine/gpc/domains/multiagent/world"
)

// optimise runs the block-coordinate search; descent is the number of iterations
// from different starts in the first round, 0 where the present plans are good
// already. After the first round only those robots are searched for whose plans the
// others' new ones have left with something to gain.
func (r *Solver) optimise(p *Planner, weights *[world.MaxRobots][3]float64, descent int) {
	for round := range solverRounds {
		settled := true
		for i := range p.h.Robots {
			w := weights[i][:]
			cold := descent > 0 && round == 0
			if !cold && r.residual(p, i, w) <= solverSettled {
				continue
			}
			settled = false
			p.robots[i].plan = r.calm(p, i, r.search(p, i, w, cold, descent))
			p.follow(i)
		}
		if settled {
			return
		}
	}
}

// search is the best plan found for robot i among the others' present ones: by a
// descent from its present plan, or, cold, by one from the base plan and one from
// many starts. Where these two differ by less than preferBase, the first is taken:
// it depends on what the robot sees alone, so that a map can learn it.
func (r *Solver) search(p *Planner, i int, w []float64, cold bool, descent int) [world.LookAhead][2]float32 {
	r.score(p, i, w)
	p.kept, p.daring = 0, 0
	p.seeds(i, 0, 1)
	if p.settled(i, world.Thirds) {
		return p.best[0].plan
	}
	if !cold {
		p.refine(i, solverPolish)
		return p.best[0].plan
	}
	p.seeds(i, 1, solverStarts)
	p.spread()
	p.slide(i, spreadRates, descent, math.Pow(spreadEnd, 1/float64(descent)))
	p.refine(i, solverPolish)
	best := p.best[0]

	v := r.view
	s, c := make([]float64, v.Spec().MeasuredSize()), make([]float64, v.Spec().ContextSize())
	base := make([]float64, v.Spec().PlanSize())
	l := p.outlook(i)
	v.Observe(&l, i, s, c)
	v.Base(s, c, base)
	p.kept, p.daring = 0, 0
	for k, u := range base {
		for lane := range rollout.Lanes {
			p.block[k*rollout.Lanes+lane] = float32(u)
		}
	}
	var rates [rollout.Lanes]float32
	for lane := range rates {
		rates[lane] = float32(descentRate * math.Pow(0.75, float64(lane)))
	}
	p.slide(i, &rates, solverDescent, math.Pow(spreadEnd, 1.0/solverDescent))
	p.refine(i, solverPolish)
	if p.best[0].key <= best.key+preferBase*(math.Abs(best.key)+scoreScale) {
		return p.best[0].plan
	}
	return best.plan
}

// calm is the calmest plan that costs at most calmSlack more than the given one,
// which search has just found. The optimum of a score is flat: at full speed
// acceleration has no effect, at rest turning has none, and a centimetre at the goal
// is worth a manoeuvre. What a plan does there would be noise to a map. Each lane
// descends with effort and smoothness weighed more than the lane before.
func (r *Solver) calm(p *Planner, i int, plan [world.LookAhead][2]float32) [world.LookAhead][2]float32 {
	s := &p.single
	effort, smooth := s.Robot.Effort, s.Robot.Smooth
	var rates [rollout.Lanes]float32
	for l := range rates {
		p.put(&plan, l)
		rates[l] = calmRate
		f := float32(math.Pow(2, float64(l)/1.5))
		s.Robot.Effort[l] = f*effort[l] + f*calmEffort
		s.Robot.Smooth[l] = f*smooth[l] + f*calmEffort
	}
	p.kept, p.daring = 0, 0
	p.slide(i, &rates, solverCalm, math.Pow(1e-3, 1.0/solverCalm))
	s.Robot.Effort, s.Robot.Smooth = effort, smooth
	calmed := slices.Clone(p.block)
	best, safe := p.worth(&plan)
	copy(p.block, calmed)
	p.kept, p.daring = 0, 0
	p.evaluate(nil)
	for l := rollout.Lanes - 1; l >= 0; l-- {
		if int(p.result.Safe[l]) >= safe && float64(p.result.Cost[l]) <= best+calmSlack*(math.Abs(best)+scoreScale) {
			for k := range plan {
				plan[k] = [2]float32{p.block[(2*k)*rollout.Lanes+l], p.block[(2*k+1)*rollout.Lanes+l]}
			}
			return plan
		}
	}
	return plan
}

// worth scores one plan of the robot that score was called for.
func (p *Planner) worth(plan *[world.LookAhead][2]float32) (cost float64, safe int) {
	for l := range rollout.Lanes {
		p.put(plan, l)
	}
	p.kept, p.daring = 0, 0
	p.evaluate(nil)
	return float64(p.result.Cost[0]), int(p.result.Safe[0])
}

// score sets up robot i's score under its weights.
func (r *Solver) score(p *Planner, i int, w []float64) {
	p.prepare(i, w)
	p.single.Penalty.Square = rollout.Repeat(float32(3 * math.Max(w[1], leastSafety) * p.stiffness(i)))
	p.single.Ending = p.ending(i, p.stage(i, world.Thirds))
	p.single.Ending.Scale = 3 * w[0]
}

// spreadRates are the first steps from different starts.
var spreadRates = func() *[rollout.Lanes]float32 {
	var r [rollout.Lanes]float32
	for l := range r {
		r[l] = spreadRate
	}
	return &r
}()

// spread fills the block with the best eight plans and the eight that would be
// best were they safe.
func (p *Planner) spread() {
	for l := range rollout.Lanes {
		if l < rollout.Lanes/2 {
			p.put(&p.best[l%p.kept].plan, l)
		} else {
			p.put(&p.bold[l%p.daring].plan, l)
		}
	}
}

// refine descends from the best plan with sixteen first steps.
func (p *Planner) refine(i, steps int) {
	var rates [rollout.Lanes]float32
	for l := range rates {
		p.put(&p.best[0].plan, l)
		rates[l] = float32(spreadRate * math.Pow(0.7, float64(l)))
	}
	p.slide(i, &rates, steps, math.Pow(1e-3, 1/float64(steps)))
}

// residual is how far robot i's plan is from stationary: the largest decrease of
// its score, relative to the score plus scoreScale, by a projected gradient step of sixteen lengths
// between 10⁻⁵ and 0.3 in the largest entry; +Inf for a plan that is not safe.
func (r *Solver) residual(p *Planner, i int, w []float64) float64 {
	r.score(p, i, w)
	p.kept, p.daring = 0, 0
	plan := &p.robots[i].plan
	for l := range rollout.Lanes {
		p.put(plan, l)
	}
	p.evaluate(p.slope)
	before := float64(p.result.Cost[0])
	if p.result.Safe[0] < world.LookAhead {
		return math.Inf(1)
	}
	largest := float32(0)
	for _, g := range p.slope {
		largest = max(largest, g, -g)
	}
	if largest == 0 {
		return 0
	}
	bounds := p.h.Bounds(i)
	for l := range rollout.Lanes {
		length := float32(0.3*math.Pow(0.5, float64(l))) / largest
		for e := l; e < len(p.block); e += rollout.Lanes {
			p.block[e] -= length * p.slope[e]
		}
	}
	p.engine.Limit(p.block, world.LookAhead, &bounds)
	p.evaluate(nil)
	least := before
	for l := range rollout.Lanes {
		if p.result.Safe[l] == world.LookAhead {
			least = math.Min(least, float64(p.result.Cost[l]))
		}
	}
	return (before - least) / (math.Abs(before) + scoreScale)
}
