package multiagent

import (
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
)

// lookAhead is L, the steps that a committed plan is proven safe for: 8 s. With
// 8 steps a robot meets obstacles that it can no longer avoid.
const lookAhead = 40

// PlannerOptions say how the planner searches. The zero value is not usable; see
// DefaultPlanner.
type PlannerOptions struct {
	Candidates int     // plans evaluated per decision, over all robots
	Buffer     float64 // margin below which closeness costs, m
	Stiffness  float64 // cost of a step per squared metre inside the buffer
	Knee       float64 // depth from which the cost grows linearly, m
	Hard       float64 // least margin of a plan that counts as safe, m
	Gradient   bool    // refine the best candidates through the dynamics
	Weight     float64 // power of a robot's goal weight in its stiffness
	Descent    float64 // share of the candidates that are iterates of the descent
	Noise      float64 // share that are perturbations; the rest are primitives
}

// DefaultPlanner returns the options of the benchmark.
//
//	4096 candidates   the paper's budget
//	buffer            what the margin of an episode settles at; smaller is faster
//	hard 0.02 m       float32 against the plant's float64, with room
func DefaultPlanner(moving bool) PlannerOptions {
	o := PlannerOptions{Candidates: 4096, Buffer: 0.42, Stiffness: 1200, Knee: 0.03, Hard: 0.02, Gradient: true, Weight: 0.5, Descent: 0.5, Noise: 0.1}
	if moving {
		o.Buffer, o.Stiffness, o.Knee = 0.38, 400, 0.07
	}
	return o
}

// Planner looks ahead and commits. Every robot holds a committed plan of L steps.
// At each decision the plans are shifted, and robot after robot (in an order that
// rotates) a new plan is searched for while all others keep theirs: one block of
// coordinates of the joint plan. A candidate is adopted only if it keeps every
// margin for all L steps against the exact prediction of the obstacles and the
// others' commitments; among those the cheapest is taken. Where none does, the
// plan that is safe for the most steps is kept, and Decide reports it.
//
// The score of a plan is its part of the episode's cost over L steps (goal,
// effort, smoothness), an estimate of what remains after them, and a soft
// penalty inside a buffer around every body.
type Planner struct {
	system  *System
	options PlannerOptions
	engine  *rollout.Engine
	rng     *rand.Rand

	started bool
	t       int
	h       *horizonProblem
	robots  [MaxRobots]committed
	planned int // robots that have plans others must keep clear of
	fields  [MaxRobots]field
	waits   [MaxRobots]patience

	single   rollout.Single
	work     *rollout.Workspace
	result   rollout.Result
	block    []float32 // plans being evaluated
	slope    []float32 // their derivatives
	first    []float32 // moments of the gradient refinement
	second   []float32
	best     []candidate // best candidates of the robot being planned, best first
	kept     int
	bold     []candidate // best by score alone, safe or not
	daring   int
	obstacle [][]Obstacle
}

// committed is one robot's plan and where it leads.
type committed struct {
	plan [lookAhead][2]float32
	path [lookAhead][2]float32
	end  [stateSize]float64
}

// candidate is one evaluated plan; a smaller key is better.
type candidate struct {
	key  float64
	safe int // leading steps that keep every margin
	plan [lookAhead][2]float32
}

// unsafeStep is what each step without safety adds to a key: more than any score.
const unsafeStep = 1e9

// NewPlanner returns a planner; it is used by one goroutine.
func NewPlanner(y *System, options PlannerOptions) (*Planner, error) {
	engine, err := rollout.New()
	if err != nil {
		return nil, err
	}
	size := rollout.PlanSize(lookAhead)
	p := &Planner{
		system: y, options: options, engine: engine, work: rollout.NewWorkspace(1, lookAhead),
		block: make([]float32, size), slope: make([]float32, size), first: make([]float32, size), second: make([]float32, size),
		best: make([]candidate, rollout.Lanes), bold: make([]candidate, descentBold),
	}
	repeat := func(x float64) rollout.Vector[float32] { return rollout.Repeat(float32(x)) }
	p.single.Steps = lookAhead
	p.single.Goal = make([]float32, lookAhead)
	p.single.Penalty = rollout.Penalty[float32]{Square: repeat(options.Stiffness), Buffer: repeat(options.Buffer), Knee: repeat(options.Knee), Hard: repeat(options.Hard)}
	return p, p.Reset(nil)
}

// Reset implements domain.Controller; the planner uses only what Decide gets.
func (p *Planner) Reset(domain.Episode) error {
	p.started, p.t = false, 0
	p.rng = rand.New(rand.NewPCG(0x6c6f_6f6b_6168_6561, 1))
	clear(p.robots[:])
	clear(p.fields[:])
	clear(p.waits[:])
	return nil
}

// Decide implements domain.Controller; ok says that every robot's plan is safe
// for all L steps. A state that is not finite gets the problem's fallback.
func (p *Planner) Decide(s, c []float64, pref domain.Preference, u []float64) (bool, error) {
	w := thirds
	if !pref.Adaptive && pref.W != nil {
		w = pref.W
	}
	for _, v := range s {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			p.system.Fallback(s, c, u)
			return false, nil
		}
	}
	p.h = p.system.decode(s, c)
	p.obstacle = p.h.predicted(lookAhead)
	for i := range p.h.robots {
		p.shift(i)
	}
	if !p.system.scenes.Moving {
		p.guide(w)
	}
	for i := range p.h.robots {
		p.waits[i].update(p, i)
	}
	// At the first decision nobody has a plan yet. In a first round everyone plans
	// around those before it only, the ego first; in a second round around all.
	rounds := 1
	p.planned = p.h.robots
	if !p.started {
		rounds = 2
	}
	var safe [MaxRobots]bool
	for turn := range rounds * p.h.robots {
		i := (turn + p.t) % p.h.robots
		if !p.started {
			p.planned = max(1, min(turn, p.h.robots))
		}
		safe[i] = p.plan(i, w, p.options.Candidates/rounds)
	}
	ok := true
	for i := range p.h.robots {
		ok = ok && safe[i]
	}
	clear(u)
	for i := range p.h.robots {
		a := p.robots[i].plan[0]
		u[2*i], u[2*i+1] = float64(a[0]), float64(a[1])
		p.system.Params.Limits.limit(u[2*i:2*i+2], p.h.previous[i][:])
	}
	p.t++
	p.started = true
	return ok, nil
}

// shift drops the executed step of robot i's plan, brakes in the new last one,
// and rolls the rest out from where the robot is.
func (p *Planner) shift(i int) {
	r := &p.robots[i]
	if p.started {
		copy(r.plan[:], r.plan[1:])
		last := [2]float64{-r.end[3] / p.system.Params.Dt, 0}
		before := [2]float64{float64(r.plan[lookAhead-2][0]), float64(r.plan[lookAhead-2][1])}
		p.system.Params.Limits.limit(last[:], before[:])
		r.plan[lookAhead-1] = [2]float32{float32(last[0]), float32(last[1])}
	}
	p.follow(i)
}

// follow writes the path of robot i's plan.
func (p *Planner) follow(i int) {
	r := &p.robots[i]
	state := p.h.state[i]
	for k, u := range r.plan {
		state = p.system.Params.step(&state, float64(u[0]), float64(u[1]))
		r.path[k] = [2]float32{float32(state[0]), float32(state[1])}
	}
	r.end = state
}

// prepare sets up the evaluation of robot i's plans among the obstacles and the
// others' committed paths.
func (p *Planner) prepare(i int, w []float64) {
	h, s := p.h, &p.single
	params := &p.system.Params
	weights := params.weights(w)
	r := h.robot(i)
	s.Robot = r.Motion(params.Dt, params.Limits.VMin, params.Limits.VMax, weights[effortTerm]/float64(h.robots), weights[smoothnessTerm]/float64(params.H))
	stage := p.stage(i, w)
	for k := range s.Goal {
		s.Goal[k] = float32(stage)
	}
	s.Ending = p.ending(i, stage)
	s.Penalty.Square = rollout.Repeat(float32(p.stiffness(i) * p.waits[i].factor()))
	s.Count = len(h.obstacles)
	for j := range p.planned {
		if j != i {
			s.Count++
		}
	}
	s.Discs = s.Discs[:0]
	for k, row := range p.obstacle {
		for j := range row {
			o := &row[j]
			s.Discs = append(s.Discs, float32(o.C[0]), float32(o.C[1]), float32(o.R+h.radius[i]+params.DSafe))
		}
		for j := range p.planned {
			if j != i {
				at := p.robots[j].path[k]
				s.Discs = append(s.Discs, at[0], at[1], float32(h.radius[j]+h.radius[i]+params.DSafe))
			}
		}
	}
}

// stage is the weight of robot i's squared goal distance in a stage.
func (p *Planner) stage(i int, w []float64) float64 {
	return p.system.Params.weights(w)[goalTerm] * p.h.goalWeight(i)
}

// stiffness is the weight of robot i's soft penalty, its patience apart.
func (p *Planner) stiffness(i int) float64 {
	return p.options.Stiffness * math.Pow(p.h.goalWeight(i), p.options.Weight)
}

// evaluate scores the block of candidates and keeps the best; derivatives, where
// not nil, gets those of the scores.
func (p *Planner) evaluate(derivatives []float32) {
	p.engine.EvaluateSingle(&p.single, p.block, p.work, &p.result, derivatives)
	for l := range rollout.Lanes {
		p.keep(float64(p.result.Cost[l]), int(p.result.Safe[l]), l)
	}
}

// keep inserts lane l of the block into both lists where it belongs.
func (p *Planner) keep(score float64, safe, l int) {
	p.kept = p.insert(p.best, p.kept, score+unsafeStep*float64(lookAhead-safe), safe, l)
	p.daring = p.insert(p.bold, p.daring, score, safe, l)
}

// insert puts lane l into a list of n candidates, smallest key first, where it is
// among the best, and returns the new length.
func (p *Planner) insert(list []candidate, n int, key float64, safe, l int) int {
	if math.IsNaN(key) || (n == len(list) && key >= list[n-1].key) {
		return n
	}
	at := n
	if n < len(list) {
		n++
	} else {
		at--
	}
	for at > 0 && list[at-1].key > key {
		list[at] = list[at-1]
		at--
	}
	c := &list[at]
	c.key, c.safe = key, safe
	for k := range c.plan {
		c.plan[k] = [2]float32{p.block[(2*k)*rollout.Lanes+l], p.block[(2*k+1)*rollout.Lanes+l]}
	}
	return n
}

// put writes a plan into lane l of the block.
func (p *Planner) put(plan *[lookAhead][2]float32, l int) {
	for k, u := range plan {
		p.block[(2*k)*rollout.Lanes+l], p.block[(2*k+1)*rollout.Lanes+l] = u[0], u[1]
	}
}

// settledDistance is how close to its goal a robot whose plan is safe and outside
// every buffer is left alone, m, root mean square over the plan.
const settledDistance = 0.05

// settled reports whether the best plan so far leaves nothing to search for.
func (p *Planner) settled(i int, w []float64) bool {
	return p.best[0].safe == lookAhead && p.best[0].key < p.stage(i, w)*lookAhead*settledDistance*settledDistance
}

// plan searches a plan for robot i and commits to it; it reports whether the
// plan is safe for all L steps.
func (p *Planner) plan(i int, w []float64, budget int) bool {
	p.prepare(i, w)
	p.kept, p.daring = 0, 0
	blocks := max(4, budget/p.h.robots/rollout.Lanes)
	refine := 0
	if p.options.Gradient {
		refine = int(p.options.Descent * float64(blocks))
	}
	noise := int(p.options.Noise * float64(blocks))
	p.seeds(i, 0, 1)
	if !p.settled(i, w) {
		p.seeds(i, 1, blocks-refine-noise)
		p.perturb(i, noise)
		p.descend(i, refine)
	}
	chosen := &p.best[0]
	p.robots[i].plan = chosen.plan
	p.follow(i)
	return chosen.safe == lookAhead
}
