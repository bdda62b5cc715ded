// Package plan plans for all robots of Case 2: it looks ahead, commits, and searches
// robot by robot. The central type is Planner; Reference is the paper's finite-budget
// optimiser, without either.
package plan

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
	"github.com/gpc-engine/gpc/domains/multiagent/view"
	"github.com/gpc-engine/gpc/domains/multiagent/world"
)

// Options say how the planner searches. The zero value is not usable; see
// Default.
type Options struct {
	Candidates int     // plans evaluated per decision, over all robots
	LookAhead  int     // steps of a plan that are scored and proven safe, 1 to world.LookAhead
	Forgetful  bool    // nobody commits: every decision is like the first
	view.Soft          // penalty of closeness; static scenes choose their own buffer
	Hard       float64 // least margin of a plan that counts as safe, m
	Gradient   bool    // refine the best candidates through the dynamics
	Weight     float64 // power of a robot's goal weight in its stiffness
	Descent    float64 // share of the candidates that are iterates of the descent
	// Price is the share of a static scene's cost that a metre of margin is worth;
	// with 0 every scene is planned for Buffer.
	Price float64
	// Creep is by how much plans settle below their buffer, m; with 0 the buffer
	// does not follow the scene's closest approach.
	Creep float64
	Noise float64 // share that are perturbations
	// Latent is the share that a learned map proposes; what is left of 1 are
	// primitives. Without a map, or for a robot that it was not asked about, its
	// share goes to them too.
	Latent  float64
	Propose domain.ProposeOptions
	// Raw executes the decoded plan of E_x alone, without a search.
	Raw bool
	// Uniform asks the map under the fixed preference (1/3, 1/3, 1/3) in place of
	// the adaptive one.
	Uniform bool
}

// Budget is the paper's for the refinement, candidates per decision.
const Budget = 4096

// Default returns the options of the benchmark without a map.
//
//	buffer            what the margin of a moving episode settles at; smaller is faster
//	price             what brings the mean margin of static episodes to 0.3 m
//	hard 0.02 m       float32 against the plant's float64, with room
func Default(moving bool) Options {
	o := Options{
		Candidates: Budget, LookAhead: world.LookAhead, Soft: view.Closeness(moving), Hard: 0.02,
		Gradient: true, Weight: 0.5, Descent: 0.5, Noise: 0.1, Price: 0.14, Creep: 0.025,
	}
	if moving {
		o.Buffer, o.Creep = 0.34, 0.1
	}
	return o
}

// Guided returns the options of the benchmark with a map. Its latents take
// the place of the perturbations and of most primitives. Nearly half of the candidates
// are latents; of the paper's 4096 a quarter, which costs no less and is done twice as
// fast.
func Guided(moving bool, candidates int) Options {
	o := Default(moving)
	o.Candidates = candidates
	o.Latent, o.Descent, o.Noise = 0.45, 0.5, 0
	if candidates >= Budget {
		o.Latent, o.Descent = 0.25, 0.65
	}
	o.Propose = domain.ProposeOptions{FlowSteps: 1, Mixture: domain.Mixture{Neighbours: 0.15, Preference: 0.15, Previous: 0.35}}
	return o
}

func (o *Options) validate() error {
	if o.Candidates < 1 || o.LookAhead < 1 || o.LookAhead > world.LookAhead {
		return fmt.Errorf("multiagent: %d candidates that look %d steps ahead, want at least 1, and 1 to %d", o.Candidates, o.LookAhead, world.LookAhead)
	}
	if sum := o.Descent + o.Noise + o.Latent; !(o.Descent >= 0 && o.Noise >= 0 && o.Latent >= 0 && sum <= 1+1e-9) {
		return fmt.Errorf("multiagent: shares %g of descent, %g of noise and %g of latents, want them ≥ 0 with a sum ≤ 1", o.Descent, o.Noise, o.Latent)
	}
	return nil
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
	system  *world.System
	options Options
	steps   int // that are scored and proven safe
	engine  *rollout.Engine
	rng     *rand.Rand
	guidance
	current int // robot being planned

	started bool
	t       int
	h       *world.Prediction
	robots  [world.MaxRobots]committed
	planned int     // robots that have plans others must keep clear of
	chosen  float64 // buffer chosen for the scene, m
	least   float64 // smallest margin of the scene so far, m
	fields  [world.MaxRobots]field
	waits   [world.MaxRobots]patience

	single   rollout.Single
	work     *rollout.Workspace
	result   rollout.Result
	block    []float32             // plans being evaluated
	origins  [rollout.Lanes]origin // of the lanes
	filled   int                   // lanes that hold a plan
	slope    []float32             // their derivatives
	first    []float32             // moments of the gradient refinement
	second   []float32
	best     []candidate // best candidates of the robot being planned, best first
	kept     int
	bold     []candidate // best by score alone, safe or not, one of each way
	daring   int
	obstacle [][]world.Obstacle
	// Statistics of the episode so far.
	adopted    [kinds]int // plans by the kind of the candidate adopted
	descendant int        // plans adopted that are a latent's or were derived from one
	evaluated  int        // candidates
}

// committed is one robot's plan and where it leads.
type committed struct {
	plan [world.LookAhead][2]float32
	path [world.LookAhead][2]float32
	end  [world.StateSize]float64
	// exhausted is the key that the last search, at rest at the goal, did not
	// improve by more than worthSearching; zero where it did.
	exhausted float64
}

// NewPlanner returns a planner that asks no learned map; it is used by one
// goroutine.
func NewPlanner(y *world.System, options Options) (*Planner, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	engine, err := rollout.New()
	if err != nil {
		return nil, err
	}
	size := rollout.PlanSize(options.LookAhead)
	p := &Planner{
		system: y, options: options, steps: options.LookAhead, engine: engine, work: rollout.NewWorkspace(1, options.LookAhead),
		block: make([]float32, size), slope: make([]float32, size), first: make([]float32, size), second: make([]float32, size),
		best: make([]candidate, rollout.Lanes), bold: make([]candidate, descentBold),
	}
	repeat := func(x float64) rollout.Vector[float32] { return rollout.Repeat(float32(x)) }
	p.single.Steps = p.steps
	p.single.Goal = make([]float32, p.steps)
	p.single.Penalty = rollout.Penalty[float32]{Square: repeat(options.Stiffness), Buffer: repeat(options.Buffer), Knee: repeat(options.Knee), Hard: repeat(options.Hard)}
	return p, p.Reset(nil)
}

// Reset implements domain.Controller; the planner uses only what Decide gets.
func (p *Planner) Reset(domain.Episode) error {
	p.started, p.t, p.least, p.chosen = false, 0, world.NoMargin, p.options.Buffer
	p.rng = rand.New(rand.NewPCG(0x6c6f_6f6b_6168_6561, 1))
	clear(p.robots[:])
	clear(p.fields[:])
	clear(p.waits[:])
	clear(p.adopted[:])
	p.descendant, p.evaluated = 0, 0
	p.guidance.reset()
	return nil
}

// Decide implements domain.Controller; ok says that every robot's plan is safe
// for all the steps it looks ahead. A state that is not finite gets the problem's
// fallback.
func (p *Planner) Decide(s, c []float64, pref domain.Preference, u []float64) (bool, error) {
	w := world.Thirds
	if !pref.Adaptive && pref.W != nil {
		w = pref.W
	}
	p.guidance.forget()
	for _, v := range s {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			p.system.Fallback(s, c, u)
			return false, nil
		}
	}
	p.h = p.system.Decode(s, c)
	p.obstacle = p.h.Predicted(world.LookAhead)
	p.least = math.Min(p.least, p.h.Margin()) // now: that of the last executed step
	for i := range p.h.Robots {
		p.shift(i)
	}
	if !p.system.Moving() {
		if !p.started && p.options.Price > 0 && !p.options.Forgetful {
			p.choose(w)
		}
		p.guide(w)
	}
	for i := range p.h.Robots {
		p.waits[i].update(p, i)
	}
	// At the first decision nobody has a plan yet. In a first round everyone plans
	// around those before it only, the ego first; in a second round around all.
	rounds, alone := 1, !p.started || p.options.Forgetful
	p.planned = p.h.Robots
	if alone {
		rounds, p.planned = 2, 0
	}
	var safe [world.MaxRobots]bool
	for turn := range rounds * p.h.Robots {
		i := (turn + p.t) % p.h.Robots
		if alone {
			i, p.planned = turn%p.h.Robots, min(turn, p.h.Robots)
		}
		if turn%p.h.Robots == 0 {
			if err := p.ask(pref, turn/p.h.Robots, rounds); err != nil {
				return false, err
			}
		}
		safe[i] = p.plan(i, w, turn/p.h.Robots, rounds)
	}
	ok := true
	for i := range p.h.Robots {
		ok = ok && safe[i]
	}
	clear(u)
	for i := range p.h.Robots {
		a := p.robots[i].plan[0]
		u[2*i], u[2*i+1] = float64(a[0]), float64(a[1])
		p.system.Params.Limits.Nearest(u[2*i:2*i+2], p.h.Previous[i][:])
	}
	p.t++
	p.started = true
	return ok, nil
}

// shift drops the executed step of robot i's plan, brakes in the new last one,
// and rolls the rest out from where the robot is.
func (p *Planner) shift(i int) {
	r := &p.robots[i]
	switch {
	case p.options.Forgetful:
		clear(r.plan[:])
	case p.started:
		copy(r.plan[:], r.plan[1:])
		last := [2]float64{-r.end[3] / p.system.Params.Dt, 0}
		before := [2]float64{float64(r.plan[world.LookAhead-2][0]), float64(r.plan[world.LookAhead-2][1])}
		p.system.Params.Limits.Nearest(last[:], before[:])
		r.plan[world.LookAhead-1] = [2]float32{float32(last[0]), float32(last[1])}
	}
	p.follow(i)
}

// follow writes the path of robot i's plan.
func (p *Planner) follow(i int) {
	r := &p.robots[i]
	state := p.h.State[i]
	for k, u := range r.plan {
		state = p.system.Params.Step(&state, float64(u[0]), float64(u[1]))
		r.path[k] = [2]float32{float32(state[0]), float32(state[1])}
	}
	r.end = state
}

// prepare sets up the evaluation of robot i's plans among the obstacles and the
// others' committed paths.
func (p *Planner) prepare(i int, w []float64) {
	h, s := p.h, &p.single
	p.current = i
	params := &p.system.Params
	weights := params.Weights(w)
	r := h.Robot(i)
	s.Robot = r.Motion(params.Dt, params.Limits.VMin, params.Limits.VMax, weights[world.EffortTerm]/float64(h.Robots), weights[world.SmoothnessTerm]/float64(params.H))
	stage := p.stage(i, w)
	for k := range s.Goal {
		s.Goal[k] = float32(stage)
	}
	s.Ending = p.ending(i, stage)
	s.Penalty.Square = rollout.Repeat(float32(p.stiffness(i) * p.waits[i].factor()))
	s.Penalty.Buffer = rollout.Repeat(float32(p.buffer()))
	s.Count = len(h.Obstacles)
	for j := range p.planned {
		if j != i {
			s.Count++
		}
	}
	s.Discs = s.Discs[:0]
	for k, row := range p.obstacle[:p.steps] {
		for j := range row {
			o := &row[j]
			s.Discs = append(s.Discs, float32(o.C[0]), float32(o.C[1]), float32(o.R+h.Radius[i]+params.DSafe))
		}
		for j := range p.planned {
			if j != i {
				at := p.robots[j].path[k]
				s.Discs = append(s.Discs, at[0], at[1], float32(h.Radius[j]+h.Radius[i]+params.DSafe))
			}
		}
	}
}

// stage is the weight of robot i's squared goal distance in a stage.
func (p *Planner) stage(i int, w []float64) float64 {
	return p.system.Params.Weights(w)[world.GoalTerm] * p.h.GoalWeight(i)
}

// stiffness is the weight of robot i's soft penalty, its patience apart.
func (p *Planner) stiffness(i int) float64 {
	return p.options.Stiffness * math.Pow(p.h.GoalWeight(i), p.options.Weight)
}

// evaluate scores the block of candidates and keeps the best; derivatives, where
// not nil, gets those of the scores.
func (p *Planner) evaluate(derivatives []float32) { p.examine(rollout.Lanes, derivatives) }

// examine is evaluate of a block of which only the first lanes hold candidates.
func (p *Planner) examine(lanes int, derivatives []float32) {
	p.engine.EvaluateSingle(&p.single, p.block, p.work, &p.result, derivatives)
	for l := range lanes {
		p.keep(float64(p.result.Cost[l]), int(p.result.Safe[l]), l)
	}
	p.evaluated += lanes
}

// settledDistance is how close to its goal a robot whose plan is safe and outside
// every buffer is left alone, m, root mean square over the plan.
const settledDistance = 0.05

// worthSearching is the share of a plan's score that a search must gain, or a
// robot that stands at its goal stops searching until its score rises by as much.
const worthSearching = 0.01

// settled reports whether the best plan so far leaves nothing to search for.
func (p *Planner) settled(i int, w []float64) bool {
	b := &p.best[0]
	return b.safe == p.steps && (b.key < p.stage(i, w)*float64(p.steps)*settledDistance*settledDistance ||
		b.key < p.robots[i].exhausted*(1+worthSearching))
}

// home reports whether robot i stands within its goal's radius.
func (p *Planner) home(i int) bool {
	s, g := &p.h.State[i], &p.h.Goal[i]
	return math.Abs(s[3]) < standingSpeed && math.Hypot(s[0]-g[0], s[1]-g[1]) < p.system.Params.GoalRadius
}

// shares are the candidates of one robot in one round by kind; the committed plan
// is one more of the first block. Iterates of the descent come in whole blocks.
type shares struct{ latents, primitives, perturbed, descent int }

// split shares out the candidates of robot i: the decision's blocks of sixteen are
// dealt to robots and rounds in turn, so that their sum is the decision's budget
// where that allows a block to everyone.
func (p *Planner) split(i, round, rounds int) shares {
	all := p.options.Candidates / rollout.Lanes
	parts, part := p.h.Robots*rounds, round*p.h.Robots+i
	blocks := all / parts
	if part < all%parts {
		blocks++
	}
	blocks = max(1, blocks)
	var n shares
	if p.options.Gradient {
		// One iterate would only repeat what it starts from.
		if n.descent = int(p.options.Descent * float64(blocks)); n.descent < 2 {
			n.descent = 0
		}
	}
	n.perturbed = int(p.options.Noise*float64(blocks)) * rollout.Lanes
	rest := blocks*rollout.Lanes - n.descent*rollout.Lanes - n.perturbed
	// What whole blocks of descent and noise leave over is shared as the rest is.
	n.latents = int(math.Round(float64(rest) * min(1, p.options.Latent/max(1-p.options.Descent-p.options.Noise, 1e-9))))
	if p.options.Latent < 1 {
		n.latents = min(n.latents, rest-1) // the committed plan has a place
	}
	n.primitives = max(0, rest-n.latents-1)
	return n
}

// plan searches a plan for robot i and commits to it; it reports whether the
// plan is safe for all steps.
func (p *Planner) plan(i int, w []float64, round, rounds int) bool {
	p.prepare(i, w)
	p.kept, p.daring, p.filled = 0, 0, 0
	n := p.split(i, round, rounds)
	offers := p.offered(i, &n)
	if p.options.Raw {
		p.latents(i, 0, 1)
		p.flush()
	} else {
		p.search(i, w, &n, offers)
	}
	if p.kept == 0 {
		return false // nothing has a score: the committed plan stays
	}
	chosen := &p.best[0]
	p.robots[i].plan = chosen.plan
	p.follow(i)
	held := p.hold(i, chosen.from.latent)
	if round == rounds-1 {
		p.adopted[chosen.from.kind]++
		if held {
			p.descendant++
		}
	}
	return chosen.safe == p.steps
}

// search evaluates robot i's candidates: the committed plan, what the map and the
// library have first, and unless that settles it all the rest.
func (p *Planner) search(i int, w []float64, n *shares, offers int) {
	opening := min(n.primitives, openingPrimitives)
	if offers == 0 {
		opening = min(n.primitives, rollout.Lanes-1)
	}
	first := min(offers, rollout.Lanes-1-opening)
	p.put(&p.robots[i].plan, p.lane())
	p.primitives(i, 0, opening)
	p.latents(i, 0, first)
	p.flush()
	p.calm[i] = p.settled(i, w)
	if p.calm[i] {
		return
	}
	before := math.Inf(1)
	if p.kept > 0 {
		before = p.best[0].key
	}
	p.latents(i, first, offers)
	p.primitives(i, opening, n.primitives)
	p.flush()
	p.perturb(i, n.perturbed/rollout.Lanes)
	p.descend(i, n.descent)
	p.robots[i].exhausted = 0
	if p.home(i) && !p.options.Forgetful && p.best[0].safe == p.steps && before-p.best[0].key < worthSearching*before {
		p.robots[i].exhausted = before
	}
}

// openingPrimitives are in the first block beside the committed plan where the
// map has proposals; these take the other lanes.
const openingPrimitives = 7

// lane is the next free lane of the block; a full block is evaluated first.
func (p *Planner) lane() int {
	if p.filled == rollout.Lanes {
		p.flush()
	}
	p.filled++
	return p.filled - 1
}

// flush limits and evaluates the candidates collected.
func (p *Planner) flush() {
	if p.filled == 0 {
		return
	}
	bounds := p.h.Bounds(p.current)
	p.engine.Limit(p.block, p.steps, &bounds)
	p.examine(p.filled, nil)
	p.filled = 0
}
