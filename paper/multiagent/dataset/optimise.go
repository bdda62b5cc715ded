package dataset

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/paper/multiagent/plan"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// optimise runs the block-coordinate search; descent is the number of iterations
// from different starts in the first round, 0 where the present plans are good
// already. After the first round only those robots are searched for whose plans the
// others' new ones have left with something to gain.
func (r *Solver) optimise(x *work, weights *[world.MaxRobots][3]float64, descent int) {
	for round := range solverRounds {
		settled := true
		for i := range x.joint.Scene.Robots {
			w := weights[i][:]
			cold := descent > 0 && round == 0
			if !cold && r.residual(x, i, w) <= solverSettled {
				continue
			}
			settled = false
			result := r.seek(x, i, w, cold, descent)
			calm(x.search, &result)
			x.joint.Commit(i, &result)
		}
		if settled {
			return
		}
	}
}

// begin sets the search to robot i's plans among the others' present ones, under its
// weights.
func (r *Solver) begin(x *work, i int, w []float64) {
	h := x.joint.Scene
	score := r.options.Score(h, i, w)
	score.Stiffness *= 3 * math.Max(w[1], leastSafety)
	score.Rest, score.Share = r.options.Score(h, i, world.Thirds).Goal, 3*w[0]
	score.Hard += certifiedRoom
	x.joint.Outlook(i, &x.look)
	x.search.Begin(&x.look, i, score, &x.joint.Robots[i].Plan)
}

// seek is the best plan found for robot i among the others' present ones: by a descent from its present plan, or, cold, by
// one from the base plan and one from many starts. Where these two differ by less than preferBase, the first is taken. A map
// can learn it: it depends on what the robot sees alone.
func (r *Solver) seek(x *work, i int, w []float64, cold bool, descent int) plan.Plan {
	s := x.search
	r.begin(x, i, w)
	s.Seed(0, 1)
	if !s.Settled(r.options.Score(x.joint.Scene, i, world.Thirds).Goal, x.joint.Robots[i].Exhausted) {
		if cold {
			s.Seed(1, solverStarts)
			s.Spread()
			s.Slide(&spreadRates, descent, math.Pow(spreadEnd, 1/float64(descent)))
		}
		refine(s, solverPolish)
	} else {
		cold = false
	}
	optimum, best, _ := s.Best()
	result := *optimum
	if !cold {
		return result
	}
	v := r.view
	measured, context := make([]float64, v.Spec().MeasuredSize()), make([]float64, v.Spec().ContextSize())
	base := make([]float64, v.Spec().PlanSize())
	v.Observe(&x.look, i, measured, context)
	v.Base(measured, context, base)
	var start plan.Plan
	for k, u := range base {
		start[k/world.ActionSize][k%world.ActionSize] = float32(u)
	}
	var rates [rollout.Lanes]float32
	for l := range rates {
		s.Put(&start, l)
		rates[l] = float32(baseRate * math.Pow(0.75, float64(l)))
	}
	s.Clear()
	s.Slide(&rates, solverDescent, math.Pow(spreadEnd, 1.0/solverDescent))
	refine(s, solverPolish)
	if optimum, score, _ := s.Best(); score <= best+preferBase*(math.Abs(best)+scoreScale) {
		return *optimum
	}
	return result
}

// calm makes a plan, which a search has just found, the calmest that costs at most calmSlack more: the optimum of a score
// is flat, and would be noise to a map. Each lane descends with effort and smoothness weighed more than the lane before.
func calm(s *plan.Search, result *plan.Plan) {
	robot := &s.Problem.Robots[0]
	effort, smooth := robot.Effort, robot.Smooth
	var rates [rollout.Lanes]float32
	for l := range rates {
		s.Put(result, l)
		rates[l] = calmRate
		f := float32(math.Pow(2, float64(l)/1.5))
		robot.Effort[l] = f*effort[l] + f*calmEffort
		robot.Smooth[l] = f*smooth[l] + f*calmEffort
	}
	s.Slide(&rates, solverCalm, math.Pow(1e-3, 1.0/solverCalm))
	robot.Effort, robot.Smooth = effort, smooth
	calmed := slices.Clone(s.Plans[:rollout.PlanSize(world.LookAhead)])
	best, safe := worth(s, result)
	copy(s.Plans, calmed)
	s.Score(rollout.Lanes)
	r := &s.Results[0]
	for l := rollout.Lanes - 1; l >= 0; l-- {
		if int(r.Safe[l]) >= safe && float64(r.Cost[l]) <= best+calmSlack*(math.Abs(best)+scoreScale) {
			s.Get(l, result)
			return
		}
	}
}

// worth is the score of one plan of the robot that is searched for, and its leading safe
// steps.
func worth(s *plan.Search, p *plan.Plan) (cost float64, safe int) {
	for l := range rollout.Lanes {
		s.Put(p, l)
	}
	s.Score(rollout.Lanes)
	return float64(s.Results[0].Cost[0]), int(s.Results[0].Safe[0])
}

// spreadRates are the first steps from different starts.
var spreadRates = [rollout.Lanes]float32(rollout.Repeat[float32](spreadRate))

// refine descends from the best plan with sixteen first steps.
func refine(s *plan.Search, steps int) {
	best, _, _ := s.Best()
	var rates [rollout.Lanes]float32
	for l := range rates {
		s.Put(best, l)
		rates[l] = float32(spreadRate * math.Pow(0.7, float64(l)))
	}
	s.Slide(&rates, steps, math.Pow(1e-3, 1/float64(steps)))
}

// residual is how far robot i's plan is from stationary: the largest decrease of
// its score, relative to the score plus scoreScale, by a projected gradient step of sixteen lengths
// between 10⁻⁵ and 0.3 in the largest entry; +Inf for a plan that is not safe.
func (r *Solver) residual(x *work, i int, w []float64) float64 {
	s := x.search
	r.begin(x, i, w)
	for l := range rollout.Lanes {
		s.Put(&x.joint.Robots[i].Plan, l)
	}
	s.ScoreSlopes()
	initialCost := float64(s.Results[0].Cost[0])
	if s.Results[0].Safe[0] < world.LookAhead {
		return math.Inf(1)
	}
	largest := float32(0)
	for _, g := range s.Slopes {
		largest = max(largest, g, -g)
	}
	if largest == 0 {
		return 0
	}
	for l := range rollout.Lanes {
		length := float32(0.3*math.Pow(0.5, float64(l))) / largest
		for e := l; e < len(s.Slopes); e += rollout.Lanes {
			s.Plans[e] -= length * s.Slopes[e]
		}
	}
	s.ScoreWithin(rollout.Lanes)
	least := initialCost
	for l := range rollout.Lanes {
		if s.Results[0].Safe[l] == world.LookAhead {
			least = math.Min(least, float64(s.Results[0].Cost[l]))
		}
	}
	return (initialCost - least) / (math.Abs(initialCost) + scoreScale)
}
