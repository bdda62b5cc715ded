package plan

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Exchange is how robots that all plan at once tell each other of their plans, by messages that take Delay
// periods. A robot proposes a plan that is safe among what the others are committed to. It adopts it where it keeps
// clear of the proposals of all robots of higher rank too, and every robot that it can meet has acknowledged it.
// Otherwise it keeps what it is committed to. Whatever the others do, two robots' plans are then
// safe with each other.
type Exchange struct {
	Delay int     // periods from a proposal to its adoption, 0 to MostDelay; proposals are made as often
	Loss  float64 // share of messages that are lost
}

// MostDelay leaves three quarters of a plan to be planned.
const MostDelay = world.LookAhead / 4

// repeats are how often a message is sent.
const repeats = 3

// proposals are everyone's of one exchange.
type proposals struct {
	rng   *rand.Rand
	all   []proposal
	order []int
}

// proposal is a plan that a robot would commit to.
type proposal struct {
	plan   Plan
	path   view.Path
	urgent bool // what it is committed to is not safe
	stands bool // it is adopted
	silent bool // there is none: the robot is outside
}

func (x *proposals) reset() {
	x.rng, x.all = rand.New(rand.NewPCG(0x6578_6368_616e_6765, 1)), x.all[:0]
}

// propose plans for everyone at once, from where all will be when the proposals are adopted, and settles which
// are.
func (p *Planner) propose(pref domain.Preference, delay int) error {
	x, now := &p.proposals, p.joint
	defer func() { p.joint = now }()
	if delay > 0 {
		p.joint = now.executed(delay)
	}
	if err := p.ask(pref, 0, 1); err != nil {
		return err
	}
	h := p.joint.Scene
	x.all = slices.Grow(x.all[:0], h.Robots)[:h.Robots]
	for i := range h.Robots {
		q, r := &x.all[i], &p.joint.Robots[i]
		q.silent, q.stands = h.Absent[i], false
		if h.Radius[i] == 0 {
			continue
		}
		best, err := p.seek(i, 0, 1)
		if err != nil {
			return err
		}
		q.plan, q.path, q.urgent = r.Plan, r.Path, !p.secure && !q.silent && h.Params.Sensing.Rays == 0
		now.Robots[i].Exhausted = r.Exhausted
		for n, settled := world.LookAhead, best == nil; n > 0 && !settled; n = earlier(n, h.Params) {
			plan := stopping(h, i, &best.plan, n)
			path, _ := follow(h, i, &plan)
			if settled = p.clear(i, &path, n) && p.admits(i, &plan); settled || q.urgent && n == world.LookAhead {
				q.plan, q.path, q.silent = plan, path, false
			}
		}
	}
	x.settle(p, h)
	return nil
}

// earlier is when a robot brakes next earlier than at step n, 0: not at all.
func earlier(n int, p *world.Params) int {
	if p.Sensing.Rays > 0 && n <= world.Horizon {
		return n / 2 // a step shows more
	}
	return n - world.Horizon
}

// clear reports whether robot i, which was searched for last, meets none that it looks at from the step first of its path on.
// When plans are over all brake, and obstacles that move are left out. With Params.Sensing it keeps clear of all that its rays have
// not excluded, too. So commitments stay safe among obstacles that stand.
func (p *Planner) clear(i int, path *view.Path, first int) bool {
	params := &p.system.Params
	if params.Sensing.Rays > 0 && !p.sights[i].open(path, p.joint.Scene.Radius[i]+params.DSafe+p.options.Hard, params.Sensing.LeastRadius) {
		return false
	}
	for k := first; k < len(path); k++ {
		if !p.separate(i, path[k], k) {
			return false
		}
	}
	return true
}

// separate is clear of one place, after step k or, with −1, now.
func (p *Planner) separate(i int, place [2]float32, k int) bool {
	h := p.joint.Scene
	separate := func(x, y, radius float64) bool {
		return math.Hypot(float64(place[0])-x, float64(place[1])-y) >= radius+h.Radius[i]+h.Params.DSafe+p.options.Hard
	}
	for _, o := range p.look.Robots {
		place := [2]float32{float32(h.State[o.Robot][0]), float32(h.State[o.Robot][1])}
		if k >= 0 {
			place = o.Path[k]
		}
		if !separate(float64(place[0]), float64(place[1]), h.Radius[o.Robot]) {
			return false
		}
	}
	for _, n := range p.look.Visible {
		o := &p.look.Obstacles[min(max(k, 0), world.LookAhead-1)][n]
		if k < 0 && (o.V != [2]float64{}) {
			o = &h.Obstacles[n]
		}
		if (k < world.LookAhead || o.V == [2]float64{}) && !separate(o.C[0], o.C[1], o.R) {
			return false
		}
	}
	return true
}

// settle decides which proposals stand. Whose present plan is not safe is of the highest rank; the others' rank
// changes from time to time.
func (x *proposals) settle(p *Planner, h *world.Prediction) {
	x.order = x.order[:0]
	for _, urgent := range []bool{true, false} {
		for k := range h.Robots {
			if i := (k + p.t) % h.Robots; x.all[i].urgent == urgent && !x.all[i].silent {
				x.order = append(x.order, i)
			}
		}
	}
	unheard := math.Pow(p.options.Exchange.Loss, repeats)
	unheard = 1 - (1-unheard)*(1-unheard) // the message or its acknowledgement
	reach := world.LookAhead * 2 * h.Params.Dt * h.Params.Fastest()
	for rank, i := range x.order {
		q := &x.all[i]
		q.stands = true
		for other, j := range x.order {
			distance := h.Radius[i] + h.Radius[j] + h.Params.DSafe + p.options.Hard
			if most := distance + reach; j == i || math.Abs(h.State[i][0]-h.State[j][0]) > most || math.Abs(h.State[i][1]-h.State[j][1]) > most {
				continue
			}
			met := h.Absent[i] && h.Absent[j] && math.Hypot(h.State[i][0]-h.State[j][0], h.State[i][1]-h.State[j][1]) < distance
			if unheard > 0 && x.rng.Float64() < unheard || other < rank && (met || !q.path.Clear(&x.all[j].path, 0, distance)) ||
				!q.urgent && !h.Absent[j] && !q.path.Clear(&p.joint.Robots[j].Path, world.LookAhead, distance) {
				q.stands = false
			}
		}
	}
}

// adopt commits to the proposals that stand.
func (p *Planner) adopt() {
	for i := range p.proposals.all {
		if q := &p.proposals.all[i]; q.stands && i < p.scene.Robots && p.scene.Radius[i] > 0 {
			p.scene.Absent[i] = false
			p.joint.Commit(i, &q.plan)
		}
	}
	p.proposals.all = p.proposals.all[:0]
}

// executed are the commitments when more steps of them have been executed.
func (j *Commitments) executed(steps int) Commitments {
	width := j.Scene.Params.Room() * world.ActionSize
	u := make([]float64, steps*width)
	j.Actions(u)
	c := j.Clone()
	c.Obstacles = nil
	for k := range steps {
		h := c.Scene.Clone()
		h.Apply(u[k*width:][:width])
		c.Shift()
		c.See(h)
	}
	return c
}
