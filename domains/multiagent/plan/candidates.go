package plan

import (
	"math"

	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
	"github.com/gpc-engine/gpc/domains/multiagent/world"
)

// candidate is one evaluated plan; a smaller key is better.
type candidate struct {
	key  float64
	safe int // leading steps that keep every margin
	from origin
	plan [world.LookAhead][2]float32
	way  way // of a bold candidate
}

// origin says where a candidate comes from.
type origin struct {
	kind   kind
	latent int // that it is decoded or derived from: its place in the answer, or one of those below
}

const (
	noLatent   = -1
	heldLatent = -2 // that of the committed plan
)

// kind is how a candidate was made.
type kind uint8

const (
	kindCommitted kind = iota
	kindPrimitive
	kindLatent
	kindPerturbed
	kindDescended
	kinds
)

// unsafeStep is what each step without safety adds to a key: more than any score.
const unsafeStep = 1e9

// keep inserts lane l of the block into both lists where it belongs.
func (p *Planner) keep(score float64, safe, l int) {
	p.kept, _ = p.insert(p.best, p.kept, score+unsafeStep*float64(p.steps-safe), safe, l)
	p.dare(score, safe, l)
}

// insert puts lane l into a list of n candidates, smallest key first, where it is
// among the best, and returns the new length and the entry, nil where it is not.
func (p *Planner) insert(list []candidate, n int, key float64, safe, l int) (int, *candidate) {
	if math.IsNaN(key) || (n == len(list) && key >= list[n-1].key) {
		return n, nil
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
	c.key, c.safe, c.from = key, safe, p.origins[l]
	for k := range p.steps {
		c.plan[k] = [2]float32{p.block[(2*k)*rollout.Lanes+l], p.block[(2*k+1)*rollout.Lanes+l]}
	}
	return n, c
}

// put writes a plan, the committed one unless origins says more, into lane l of the
// block.
func (p *Planner) put(plan *[world.LookAhead][2]float32, l int) {
	p.origins[l] = origin{kindCommitted, heldLatent}
	for k, u := range plan[:p.steps] {
		p.block[(2*k)*rollout.Lanes+l], p.block[(2*k+1)*rollout.Lanes+l] = u[0], u[1]
	}
}
