// Package plan plans for all robots of Case 2: it looks ahead, commits, and searches
// robot by robot. The central type is Planner; Reference is the paper's finite-budget
// optimiser, without either.
package plan

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Options say how the planner searches. The zero value is not usable; see
// Default.
type Options struct {
	Candidates int     // plans evaluated per decision, over all robots
	LookAhead  int     // steps of a plan that are scored and proven safe, 1 to world.LookAhead
	Forgetful  bool    // nobody commits: every decision is like the first
	view.Soft          // penalty of closeness; static scenes choose their own buffer
	Hard       float64 // least margin of a plan that counts as safe, m
	Weight     float64 // power of a robot's goal weight in its stiffness
	Descent    float64 // share of the candidates that are iterates of the descent
	Ways       int     // different ways that starts of a descent are kept of, at least descentBold
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
	// Exchange is how robots plan all at once; nil: one after the other, each knowing what those before it plan.
	Exchange *Exchange
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
		Weight: 0.5, Descent: 0.5, Ways: descentBold, Noise: 0.1, Price: 0.14, Creep: 0.025,
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

// Blind returns Guided's options for a planner without a map: the latents' share goes to the
// primitives, or to the descents. The other shares stay.
func Blind(moving bool, candidates int, descents bool) Options {
	o := Guided(moving, candidates)
	if descents {
		o.Descent += o.Latent
	}
	o.Latent = 0
	return o
}

func (o *Options) validate() error {
	if o.Candidates < 1 || o.LookAhead < 1 || o.LookAhead > world.LookAhead {
		return fmt.Errorf("multiagent: %d candidates that look %d steps ahead, want at least 1, and 1 to %d", o.Candidates, o.LookAhead, world.LookAhead)
	}
	if o.Ways < descentBold {
		return fmt.Errorf("multiagent: %d ways are kept, want at least %d", o.Ways, descentBold)
	}
	if x := o.Exchange; x != nil && (x.Delay < 0 || x.Delay > MostDelay || !(x.Loss >= 0 && x.Loss < 1)) {
		return fmt.Errorf("multiagent: messages that take %d periods, of which %g are lost, want 0 to %d, and at least 0 and less than 1", x.Delay, x.Loss, MostDelay)
	}
	if sum := o.Descent + o.Noise + o.Latent; !(o.Descent >= 0 && o.Noise >= 0 && o.Latent >= 0 && sum <= 1+1e-9) {
		return fmt.Errorf("multiagent: shares %g of descent, %g of noise and %g of latents, want them ≥ 0 with a sum ≤ 1", o.Descent, o.Noise, o.Latent)
	}
	return nil
}

// Planner looks ahead and commits, as docs/explain/multiagent.md says. A candidate is adopted only if it keeps every
// margin for all L steps against the exact prediction of the obstacles and the others' commitments; among those the
// cheapest is taken. Where none does, the plan that is safe for the most steps is kept, and Decide reports it.
type Planner struct {
	system  *world.System
	options Options
	search  *Search
	guidance

	joint       Commitments
	scene       world.Prediction // of the decision
	look        view.Outlook     // of the robot being planned
	started     bool
	t           int
	w           [3]float64 // preference of the decision
	sceneBuffer float64    // buffer chosen for the scene, m
	least       float64    // smallest margin of the scene so far, m
	fields      []field
	waits       []patience
	adopted     []domain.Source // that everyone's plan comes from
	safe        []bool          // everyone's plan of the decision
	proposals   proposals       // of an Exchange
	sights      []sight         // of Params.Sensing
	secure      bool            // the robot that was searched for last is committed to a plan that is safe
}

var _ domain.Controller = (*Planner)(nil)

// Abilities implements domain.Able.
func (p *Planner) Abilities() *domain.ControllerAbilities {
	return &domain.ControllerAbilities{Chosen: p.chose}
}

// New returns a planner of a system's robots; it is used by one goroutine, and so are
// the means: without a Proposer it asks no map, and it searches on the Accelerator where
// there is one. The number of candidates is that of the options.
func New(y *world.System, options Options, means domain.Means) (*Planner, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	evaluator, err := rollout.NewEvaluator(means.Accelerator)
	if err != nil {
		return nil, err
	}
	room := y.Params.Room()
	if room > world.Few {
		options.Candidates = options.Candidates * room / world.Few
	}
	p := &Planner{
		system: y, options: options, guidance: newGuidance(y, means.Proposer), joint: newCommitments(room),
		fields: make([]field, room), sights: make([]sight, room), waits: make([]patience, room), adopted: make([]domain.Source, room), safe: make([]bool, room),
		search: NewSearch(evaluator, options.LookAhead, options.Candidates+rollout.Lanes, options.Ways),
	}
	return p, p.Reset(nil)
}

// Reset implements domain.Controller; the planner uses only what Decide gets.
func (p *Planner) Reset(domain.Episode) error {
	p.started, p.t = false, 0
	p.least, p.sceneBuffer = world.NoMargin, p.options.Buffer
	p.search.Rand = rand.New(rand.NewPCG(0x6c6f_6f6b_6168_6561, 1))
	clear(p.joint.Robots)
	clear(p.joint.Guides)
	clear(p.fields)
	clear(p.waits)
	clear(p.sights)
	p.guidance.reset()
	p.proposals.reset()
	return nil
}

// Decide implements domain.Controller; it is solved where every robot's plan is safe
// for all the steps it looks ahead.
func (p *Planner) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	p.guidance.forget()
	clear(p.search.statistics[:])
	p.scene.Decode(&p.system.Params, s, c)
	p.sense()
	p.Observe(&p.scene, weightsOf(pref))
	decide := p.inTurn
	if p.options.Exchange != nil {
		decide = p.exchange
	}
	if err := decide(pref); err != nil {
		return domain.Decision{}, err
	}
	p.t++
	p.started = true
	p.joint.Actions(u)
	solved := true
	for i := range p.scene.Present {
		solved = solved && p.safe[i]
	}
	return p.guidance.decision(solved), nil
}

// inTurn plans for one robot after the other.
func (p *Planner) inTurn(pref domain.Preference) error {
	// At the first decision nobody has a plan yet. In a first round everyone plans
	// around those before it only, the ego first; in a second round around all.
	// In a crowd everyone has a plan at the beginning: to stop.
	n, rounds, single := p.scene.Robots, 1, (!p.started || p.options.Forgetful) && !p.scene.Crowd()
	p.joint.Planned = n
	if single {
		rounds, p.joint.Planned = 2, 0
	}
	for turn := range rounds * n {
		i := (turn + p.t) % n
		if single {
			i, p.joint.Planned = turn%n, min(turn, n)
		}
		if turn%n == 0 {
			if err := p.ask(pref, turn/n, rounds); err != nil {
				return err
			}
		}
		if p.scene.Radius[i] == 0 {
			continue
		}
		if err := p.plan(i, turn/n, rounds); err != nil {
			return err
		}
	}
	return nil
}

// weightsOf is what a decision's objectives count with.
func weightsOf(pref domain.Preference) []float64 {
	if !pref.Adaptive && pref.W != nil {
		return pref.W
	}
	return world.Thirds
}

// Observe takes everyone's plans to a state and renews what the search needs to know of
// the scene, under the preference w. Decide begins with it.
func (p *Planner) Observe(h *world.Prediction, w []float64) {
	copy(p.w[:], w)
	p.least = math.Min(p.least, h.Margin()) // now: that of the last executed step
	switch {
	case p.options.Forgetful:
		for i := range p.joint.Robots {
			p.joint.Robots[i].Plan = Plan{}
		}
	case p.started:
		p.joint.Shift()
	case h.Crowd() || p.options.Exchange != nil:
		for i := range h.Robots {
			p.joint.Robots[i].Plan = stopping(h, i, new(Plan), 0)
		}
	}
	for i, absent := range h.Absent {
		if absent {
			p.joint.Robots[i].Plan, p.waits[i] = stopping(h, i, new(Plan), 0), patience{}
		}
	}
	p.joint.See(h)
	if !p.system.Moving() {
		if !p.started && p.options.Price > 0 && !p.options.Forgetful && !h.Crowd() {
			p.choose()
		}
		p.guide()
	}
	for i := range h.Present {
		p.waits[i].update(p, i)
	}
	if p.options.Exchange != nil {
		p.yield()
	}
}

// Commitments are what everyone is committed to.
func (p *Planner) Commitments() Commitments { return p.joint.Clone() }

// home reports whether robot i stands within its goal's radius.
func (p *Planner) home(i int) bool {
	s, g := &p.joint.Scene.State[i], &p.joint.Scene.Goal[i]
	return p.stands(i) && math.Hypot(s[0]-g[0], s[1]-g[1]) < p.system.Params.GoalRadius
}

// stands reports whether robot i is there and stands.
func (p *Planner) stands(i int) bool {
	_, speed := p.system.Params.Velocity(&p.joint.Scene.State[i])
	return math.Abs(speed) < standingSpeed && !p.joint.Scene.Absent[i]
}

// shares are the candidates of one robot in one round by kind; the committed plan
// is one more of the first block. Iterates of the descent come in whole blocks.
type shares struct{ latents, primitives, perturbed, descent int }

// split shares out the candidates of robot i: the decision's blocks of sixteen are
// dealt to robots and rounds in turn, so that their sum is the decision's budget
// where that allows a block to everyone.
func (p *Planner) split(i, round, rounds int) shares {
	all := p.options.Candidates / rollout.Lanes
	parts, part := p.scene.Robots*rounds, round*p.scene.Robots+i
	blocks := all / parts
	if part < all%parts {
		blocks++
	}
	blocks = max(1, blocks)
	var n shares
	if n.descent = int(p.options.Descent * float64(blocks)); n.descent < 2 {
		n.descent = 0 // one iterate would only repeat what it starts from
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

// exchange plans for everyone at once, by an Exchange. The first plans are told before anybody moves.
func (p *Planner) exchange(pref domain.Preference) error {
	delay := p.options.Exchange.Delay
	if p.t%max(1, delay) != 0 {
		return nil
	}
	p.joint.Planned = p.scene.Robots
	p.adopt()
	if !p.started || delay == 0 {
		if err := p.propose(pref, 0); err != nil {
			return err
		}
		p.adopt()
	}
	if delay == 0 {
		return nil
	}
	return p.propose(pref, delay)
}

// plan searches a plan for robot i and commits to it; where nothing has a score, the committed plan stays.
func (p *Planner) plan(i, round, rounds int) error {
	best, err := p.seek(i, round, rounds)
	if best != nil && p.admits(i, &best.plan) && (!p.scene.Absent[i] || p.joint.Planned == p.scene.Robots) {
		p.scene.Absent[i] = false
		p.joint.Commit(i, &best.plan)
	}
	return err
}

// admits reports whether a plan that was just found may be robot i's: one that waits outside enters with a plan that moves and
// is safe, and from a place that is clear.
func (p *Planner) admits(i int, plan *Plan) bool {
	h := p.joint.Scene
	return !h.Absent[i] || p.safe[i] && plan[0] != [world.ActionSize]float32{} && p.separate(i, [2]float32{float32(h.State[i][0]), float32(h.State[i][1])}, -1)
}

// seek is the best plan that a search finds for robot i, nil where nothing has a score. It notes whether the plan
// is safe for all steps.
func (p *Planner) seek(i, round, rounds int) (*candidate, error) {
	defer p.advance(i, p.joint.Scene.Goal[i], p.joint.Guides[i])
	p.retreat(i)
	score := p.options.Score(p.joint.Scene, i, p.w[:])
	if !p.search.pivots { // in a deadlock nobody presses on
		score.Stiffness *= p.waits[i].factor()
	}
	score.Buffer = p.buffer()
	p.outlook(i)
	s := p.search
	s.Begin(&p.look, i, score, &p.joint.Robots[i].Plan)
	n := p.split(i, round, rounds)
	offers := p.offered(i, &n)
	if p.options.Raw {
		p.latents(i, 0, 1)
		s.flush()
	} else {
		p.searchRobot(i, score.Goal, &n, offers)
	}
	if p.safe[i] = false; s.elites == 0 {
		return nil, s.err
	}
	best := &s.best[0]
	p.keepLatent(i, best.origin.latent)
	p.adopted[i] = best.origin.source
	p.safe[i] = best.safe == s.steps
	return best, s.err
}

// searchRobot evaluates robot i's candidates: the committed plan, what the map and the
// library have first, and unless that settles it all the rest.
func (p *Planner) searchRobot(i int, goal float64, n *shares, offers int) {
	s, r := p.search, &p.joint.Robots[i]
	opening := min(n.primitives, openingPrimitives)
	if offers == 0 {
		opening = min(n.primitives, rollout.Lanes-1)
	}
	first := min(offers, rollout.Lanes-1-opening)
	s.commit()
	s.primitives(0, opening)
	p.latents(i, 0, first)
	s.flush()
	p.secure = int(s.Results[0].Safe[0]) == s.steps
	p.calm[i] = s.Settled(goal, r.Exhausted)
	if p.calm[i] {
		return
	}
	_, before, _ := s.Best()
	p.latents(i, first, offers)
	s.primitives(opening, n.primitives)
	s.flush()
	s.Perturb(n.perturbed / rollout.Lanes)
	s.Descend(n.descent)
	r.Exhausted = 0
	if _, after, safe := s.Best(); p.home(i) && !p.options.Forgetful && safe == s.steps && before-after < worthSearching*before {
		r.Exhausted = before
	}
}

// openingPrimitives are in the first block beside the committed plan where the
// map has proposals; these take the other lanes.
const openingPrimitives = 7
