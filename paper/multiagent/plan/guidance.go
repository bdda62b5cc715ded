package plan

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// guidance is what a planner asks of a learned map and what it was told. At the beginning of a decision every robot that
// is on its way asks about its view and about the same in a mirror; all questions are answered in one batch.
type guidance struct {
	proposer       domain.Proposer // nil: no map
	view           *view.View
	questions      []domain.Question
	answers        []domain.Answer
	s, c           [][]float64 // the views, two a robot
	offers         [][]offer
	committed      [][]float32 // the latent of its committed plan
	committedImage []image     // where that latent was seen, nowhere without one
	// calm robots found at the last decision that their plan leaves nothing to
	// search for. They are not asked about; one that turns out to need a new plan
	// after all searches this once without latents.
	calm []bool
}

// offer is one proposal to a robot: a row of an answer.
type offer struct{ question, row int }

// image says how a view is looked at.
type image uint8

const (
	nowhere image = iota
	straight
	mirrored
)

// newGuidance is what a planner asks, nothing without a proposer.
func newGuidance(y *world.System, proposer domain.Proposer) guidance {
	room := y.Params.Room()
	g := guidance{proposer: proposer, offers: make([][]offer, room), committedImage: make([]image, room), calm: make([]bool, room)}
	if proposer == nil {
		return g
	}
	g.view = view.New(y)
	g.questions, g.answers = make([]domain.Question, 0, 2*room), make([]domain.Answer, 2*room)
	for range 2 * room {
		g.s, g.c = append(g.s, make([]float64, g.view.Spec().MeasuredSize())), append(g.c, make([]float64, g.view.Spec().ContextSize()))
	}
	size := proposer.LatentSize()
	for range room {
		g.committed = append(g.committed, make([]float32, size))
	}
	return g
}

func (g *guidance) reset() {
	clear(g.committedImage)
	clear(g.calm)
	g.forget()
}

// forget drops the answers so far.
func (g *guidance) forget() {
	g.questions = g.questions[:0]
	for i := range g.offers {
		g.offers[i] = g.offers[i][:0]
	}
}

// decision is a decision's outcome: the ego's priority, and the largest residual of all
// questions.
func (g *guidance) decision(safe bool) domain.Decision {
	d := domain.Decided(safe)
	for k := range g.questions {
		if r := g.answers[k].Residual; !(r <= d.Residual) {
			d.Residual, d.Limit = r, g.answers[k].Limit
		}
	}
	if ego := g.offers[0]; len(ego) > 0 {
		d.Sigma = g.answers[ego[0].question].Sigma
	}
	return d
}

// ask puts the questions of every robot that is on its way to the map, for its
// candidates of one round.
func (p *Planner) ask(pref domain.Preference, round, rounds int) error {
	if p.proposer == nil {
		return nil
	}
	p.guidance.forget()
	switch {
	case p.options.Uniform:
		pref = domain.Preference{W: world.Thirds}
	case pref.W == nil:
		pref.Adaptive = true
	}
	for i := range p.scene.Robots {
		count := 1
		if !p.options.Raw {
			count = p.split(i, round, rounds).latents
		}
		if count > 0 && !p.calm[i] && p.scene.Radius[i] > 0 {
			p.addQuestions(i, pref, count)
		}
	}
	return p.proposer.Propose(p.options.Propose, p.questions, p.answers[:len(p.questions)])
}

// addQuestions adds the questions for count plans of robot i: half of them in a mirror, the
// first and the odd one straight.
func (p *Planner) addQuestions(i int, pref domain.Preference, count int) {
	p.joint.Outlook(i, &p.look)
	first := len(p.questions)
	for k, share := range [2]int{(count + 1) / 2, count / 2} {
		if share == 0 {
			break
		}
		n := first + k
		s, c := p.s[n], p.c[n]
		if k == 0 {
			p.view.Observe(&p.look, i, s, c)
		} else {
			copy(s, p.s[first])
			copy(c, p.c[first])
			view.Flip(s, c)
		}
		q := domain.Question{S: s, C: c, Preference: pref, Count: share, Seed: uint64((p.t*p.system.Params.Room()+i)*2 + k)}
		if p.committedImage[i] == straight+image(k) {
			q.Previous = p.committed[i]
		}
		p.questions = append(p.questions, q)
	}
	for n := range count {
		p.offers[i] = append(p.offers[i], offer{first + n%2, n / 2})
	}
}

// image is how the view of a question was looked at.
func (p *Planner) image(i int, o offer) image {
	return straight + image(o.question-p.offers[i][0].question)
}

// offered is how many proposals robot i has. Without any the share of the latents
// goes to the primitives.
func (p *Planner) offered(i int, n *shares) int {
	if len(p.offers[i]) == 0 {
		n.primitives += n.latents
		n.latents = 0
	}
	return n.latents
}

// latents makes candidates of robot i's proposals from until to.
func (p *Planner) latents(i, from, to int) {
	s := p.search
	for n := from; n < to; n++ {
		o := p.offers[i][n]
		answer := &p.answers[o.question]
		index := s.next(origin{answer.Sources[o.row], n})
		turn := [world.ActionSize]float32{1, 1}
		if p.image(i, o) == mirrored {
			turn[1] = -1
		}
		s.decoded(answer.Plans.Row(o.row), turn, index)
	}
}

// decoded makes a plan of the map, its entries times turn, candidate n.
func (s *Search) decoded(plan []float32, turn [world.ActionSize]float32, n int) {
	for e, u := range plan[:s.steps*world.ActionSize] {
		s.Plans[s.entry(e, n)] = turn[e%world.ActionSize] * u
	}
}

// keepLatent keeps the latent that robot i's committed plan is decoded or derived from.
func (p *Planner) keepLatent(i, latent int) {
	switch latent {
	case heldLatent:
	case noLatent:
		p.committedImage[i] = nowhere
	default:
		o := p.offers[i][latent]
		copy(p.committed[i], p.answers[o.question].Latents.Row(o.row))
		p.committedImage[i] = p.image(i, o)
	}
}
