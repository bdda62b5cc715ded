package multiagent

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
)

// guidance is what a planner asks of a learned map and what it was told. At the
// beginning of a decision every robot that is on its way is one question; all of
// them are answered in one batch.
type guidance struct {
	proposer  domain.Proposer // nil: no map
	view      *View
	questions []domain.Question
	answers   []domain.Answer
	asked     [MaxRobots]int       // place of robot i's answer, notAsked without one
	s, c      [MaxRobots][]float64 // its view
	held      [MaxRobots][]float32 // the latent of its committed plan
	holds     [MaxRobots]bool      // whether there is one
	// calm robots found at the last decision that their plan leaves nothing to
	// search for. They are not asked about; one that turns out to need a new plan
	// after all searches this once without latents.
	calm [MaxRobots]bool
}

const notAsked = -1

// NewGuidedPlanner returns a planner that asks a map of the case's view for a
// share of its candidates. It is used by one goroutine, and so is the proposer.
func NewGuidedPlanner(y *System, options PlannerOptions, proposer domain.Proposer) (*Planner, error) {
	p, err := NewPlanner(y, options)
	if err != nil {
		return nil, err
	}
	g := &p.guidance
	g.proposer, g.view = proposer, newView(y)
	g.questions, g.answers = make([]domain.Question, 0, MaxRobots), make([]domain.Answer, MaxRobots)
	for i := range MaxRobots {
		g.s[i], g.c[i] = make([]float64, g.view.spec.MeasuredSize()), make([]float64, g.view.spec.ContextSize())
		g.held[i] = make([]float32, proposer.LatentSize())
	}
	return p, nil
}

func (g *guidance) reset() {
	clear(g.holds[:])
	clear(g.calm[:])
	g.forget()
}

// forget drops the answers of the last decision.
func (g *guidance) forget() {
	g.questions = g.questions[:0]
	for i := range g.asked {
		g.asked[i] = notAsked
	}
}

// Monitor implements domain.Monitored: the ego's priority, and the largest
// residual of all robots that were asked about.
func (p *Planner) Monitor() (priority []float64, residual float64) {
	residual = math.NaN()
	for k := range p.questions {
		if r := p.answers[k].Residual; !(r <= residual) {
			residual = r
		}
	}
	if k := p.asked[0]; k != notAsked {
		priority = p.answers[k].Sigma
	}
	return priority, residual
}

// ask puts the question of every robot that is on its way to the map.
func (p *Planner) ask(pref domain.Preference) error {
	if p.proposer == nil {
		return nil
	}
	switch {
	case p.options.Uniform:
		pref = domain.Preference{W: thirds}
	case pref.W == nil:
		pref.Adaptive = true
	}
	rounds := 1
	if p.planned == 0 {
		rounds = 2
	}
	for i := range p.h.robots {
		count := 1
		if !p.options.Raw {
			count = 0
			for round := range rounds {
				count += p.split(i, round, rounds).latents
			}
		}
		if count == 0 || p.calm[i] {
			continue
		}
		look := p.outlook(i)
		p.view.observe(&look, i, p.s[i], p.c[i])
		q := domain.Question{S: p.s[i], C: p.c[i], Preference: pref, Count: count, Seed: uint64(p.t*MaxRobots + i)}
		if p.holds[i] {
			q.Previous = p.held[i]
		}
		p.asked[i] = len(p.questions)
		p.questions = append(p.questions, q)
	}
	return p.proposer.Propose(p.options.Propose, p.questions, p.answers[:len(p.questions)])
}

// span is a range of the plans of an answer.
type span struct{ from, count int }

// answered is robot i's part of its answer in one round. Without an answer the
// share of the latents goes to the primitives.
func (p *Planner) answered(i, round, rounds int, n *shares) span {
	if p.asked[i] == notAsked {
		n.primitives += n.latents
		n.latents = 0
		return span{}
	}
	from := 0
	for before := range round {
		from += p.split(i, before, rounds).latents
	}
	return span{from, n.latents}
}

// latents makes candidates of decoded plans from until to of robot i's answer.
func (p *Planner) latents(i, from, to int) {
	if from == to {
		return
	}
	plans := p.answers[p.asked[i]].Plans
	for n := from; n < to; n++ {
		l := p.lane()
		p.origins[l] = origin{kindLatent, n}
		for e, u := range plans.Row(n)[:p.steps*actionSize] {
			p.block[e*rollout.Lanes+l] = u
		}
	}
}

// hold keeps the latent that robot i's committed plan is decoded or derived from,
// and reports whether there is one.
func (p *Planner) hold(i, latent int) bool {
	switch latent {
	case heldLatent:
	case noLatent:
		p.holds[i] = false
	default:
		copy(p.held[i], p.answers[p.asked[i]].Latents.Row(latent))
		p.holds[i] = true
	}
	return p.holds[i]
}
