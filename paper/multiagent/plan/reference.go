package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Constants of the finite-budget reference.
const (
	referenceRounds = 4    // of the cross-entropy method
	referenceElite  = 10   // of every 96 samples
	referenceSpread = 1.0  // standard deviation of the first round, m/s² and rad/s: the slew bound
	referenceFloor  = 0.05 // least standard deviation
	referenceSeed   = 0x7265_6665_7265_6e63
)

// Reference is the finite-budget white-box optimiser of the paper: the cross-entropy method over the joint plan of all
// robots, H steps, with the horizon cost of eq. multiagent-objectives. A round samples around a mean (the shifted
// previous plan in the first), limits the samples, and takes mean and deviation of the best tenth: those that keep every
// margin first, then by cost. The best of all rounds is executed.
type Reference struct {
	system    *world.System
	engine    *rollout.Engine
	samples   int // of one round, a multiple of rollout.Lanes
	work      *rollout.Workspace
	rng       *rand.Rand
	mean, dev [][world.Horizon * rollout.PlanFields]float64
	warm      bool
	pool      []float32 // plans of a round, [block][robot][step][field][lane]
	order     []ranked
}

var _ domain.Controller = (*Reference)(nil)

// ranked is one sample's standing.
type ranked struct {
	feasible bool
	cost     float32
	index    int
}

// NewReference returns the optimiser with a budget of candidates per decision, at least
// 64, of which multiples of 64 are used.
func NewReference(y *world.System, budget int) (*Reference, error) {
	if least := referenceRounds * rollout.Lanes; budget < least {
		return nil, fmt.Errorf("multiagent: the reference has %d candidates, want at least %d", budget, least)
	}
	engine, err := rollout.New()
	if err != nil {
		return nil, err
	}
	samples := budget / referenceRounds / rollout.Lanes * rollout.Lanes
	r := &Reference{
		system: y, engine: engine, samples: samples, work: rollout.NewWorkspace(y.Params.Room(), world.Horizon),
		pool: make([]float32, samples/rollout.Lanes*y.Params.Room()*rollout.PlanSize(world.Horizon)), order: make([]ranked, samples),
	}
	r.mean, r.dev = make([][world.Horizon * rollout.PlanFields]float64, y.Params.Room()), make([][world.Horizon * rollout.PlanFields]float64, y.Params.Room())
	return r, r.Reset(nil)
}

// Reset implements domain.Controller; the reference uses only what Decide gets.
func (r *Reference) Reset(domain.Episode) error {
	r.warm = false
	r.rng = rand.New(rand.NewPCG(referenceSeed, uint64(r.samples)))
	return nil
}

// offset is the place of sample n's entry e of robot i in the pool.
func (r *Reference) offset(n, i, e int) int {
	plan := rollout.PlanSize(world.Horizon)
	return (n/rollout.Lanes*r.system.Params.Room()+i)*plan + e*rollout.Lanes + n%rollout.Lanes
}

// Decide implements domain.Controller; it is solved where the executed plan keeps every
// margin over the H predicted steps.
func (r *Reference) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	h := r.system.Decode(s, c)
	if err := complete(h); err != nil {
		return domain.Decision{}, err
	}
	problem := h.Joint(weightsOf(pref))
	const entries = world.Horizon * rollout.PlanFields
	for i := range h.Robots {
		for e := range entries {
			r.dev[i][e] = referenceSpread
			if !r.warm {
				r.mean[i][e] = 0
			}
		}
	}
	best := ranked{cost: float32(math.Inf(1))}
	plan := make([][entries]float64, h.Robots)
	for range referenceRounds {
		r.sample(h)
		r.score(h, problem)
		if top := r.order[0]; better(top, best) {
			best = top
			for i := range h.Robots {
				for e := range entries {
					plan[i][e] = float64(r.pool[r.offset(top.index, i, e)])
				}
			}
		}
		r.update(h)
	}
	clear(u)
	for i := range h.Robots {
		copy(u[2*i:], plan[i][:2])
		r.system.Params.Limits.Nearest(u[2*i:2*i+2], h.Previous[i][:])
		// Shift by one step, the last action held.
		copy(r.mean[i][:], plan[i][2:])
	}
	r.warm = true
	return domain.Decided(best.feasible), nil
}

// complete is an error where a robot is outside.
func complete(h *world.Prediction) error {
	if i := slices.Index(h.Absent, true); i >= 0 {
		return fmt.Errorf("multiagent: robot %d is outside: planner and distributed are the methods for robots that enter and leave", i)
	}
	return nil
}

func better(a, b ranked) bool {
	if a.feasible != b.feasible {
		return a.feasible
	}
	return a.cost < b.cost
}

// sample draws the plans of a round; the first is the mean itself.
func (r *Reference) sample(h *world.Prediction) {
	for n := range r.samples {
		for i := range h.Robots {
			for e := range world.Horizon * rollout.PlanFields {
				x := r.mean[i][e]
				if n > 0 {
					x += r.dev[i][e] * r.rng.NormFloat64()
				}
				r.pool[r.offset(n, i, e)] = float32(x)
			}
		}
	}
}

// score limits and rolls out the pool and orders it, best first.
func (r *Reference) score(h *world.Prediction, problem *rollout.Joint) {
	plan := rollout.PlanSize(world.Horizon)
	var result rollout.Result
	for b := range r.samples / rollout.Lanes {
		block := r.pool[r.offset(b*rollout.Lanes, 0, 0):r.offset((b+1)*rollout.Lanes, 0, 0)]
		for i := range h.Robots {
			bounds := h.Bounds(i)
			r.engine.Limit(block[i*plan:(i+1)*plan], world.Horizon, &bounds)
		}
		r.engine.Evaluate(problem, block, r.work, &result, nil)
		for l := range rollout.Lanes {
			r.order[b*rollout.Lanes+l] = ranked{result.Low[l] >= 0, result.Cost[l], b*rollout.Lanes + l}
		}
	}
	slices.SortFunc(r.order, func(a, b ranked) int {
		if better(a, b) {
			return -1
		} else if better(b, a) {
			return 1
		}
		return a.index - b.index
	})
}

// update fits mean and deviation to the best tenth.
func (r *Reference) update(h *world.Prediction) {
	elite := r.order[:r.samples*referenceElite/96]
	for i := range h.Robots {
		for e := range world.Horizon * rollout.PlanFields {
			sum, square := 0.0, 0.0
			for _, o := range elite {
				x := float64(r.pool[r.offset(o.index, i, e)])
				sum += x
				square += x * x
			}
			mean := sum / float64(len(elite))
			r.mean[i][e] = mean
			r.dev[i][e] = max(math.Sqrt(max(square/float64(len(elite))-mean*mean, 0)), referenceFloor)
		}
	}
}
