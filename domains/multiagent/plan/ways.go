package plan

import (
	"math"

	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
)

// way is where a plan leads after a quarter, a half and three quarters of its
// steps: on which side of the bodies it passes, and when.
type way [3][2]float64

// distinctWays is how far apart, at one of their points, two ways are that count
// as different, m.
const distinctWays = 0.5

// from is the largest distance between two ways.
func (a *way) from(b *way) (far float64) {
	for k := range a {
		far = math.Max(far, math.Hypot(a[k][0]-b[k][0], a[k][1]-b[k][1]))
	}
	return far
}

// leads follows lane l of the block.
func (p *Planner) leads(l int) (w way) {
	state := p.h.State[p.current]
	quarter := p.steps / 4
	for k := range len(w) * quarter {
		state = p.system.Params.Step(&state, float64(p.block[(2*k)*rollout.Lanes+l]), float64(p.block[(2*k+1)*rollout.Lanes+l]))
		if (k+1)%quarter == 0 {
			w[k/quarter] = [2]float64{state[0], state[1]}
		}
	}
	return w
}

// dare inserts lane l into the bold candidates. Of those that lead nearly the same
// way only the cheapest stays, so that the descent starts from different ways.
func (p *Planner) dare(score float64, safe, l int) {
	if math.IsNaN(score) || (p.daring == len(p.bold) && score >= p.bold[p.daring-1].key) {
		return
	}
	w := p.leads(l)
	others := 0
	for n := range p.daring {
		c := &p.bold[n]
		if c.way.from(&w) <= distinctWays {
			if c.key <= score {
				return // the list is in order: nothing has been taken out before
			}
			continue
		}
		p.bold[others] = *c
		others++
	}
	n, c := p.insert(p.bold, others, score, safe, l)
	p.daring = n
	c.way = w
}
