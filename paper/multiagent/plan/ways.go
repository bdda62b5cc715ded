package plan

import (
	"math"

	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
)

// way is where a plan leads after a quarter, a half and three quarters of its
// steps: on which side of the bodies it passes, and when.
type way [3][2]float64

// distinctWays is how far apart, at one of their points, two ways are that count
// as different, m.
const distinctWays = 0.5

// distance is the largest distance between two ways.
func (a *way) distance(b *way) (largest float64) {
	for k := range a {
		largest = math.Max(largest, math.Hypot(a[k][0]-b[k][0], a[k][1]-b[k][1]))
	}
	return largest
}

// follow rolls candidate n out and returns its way.
func (s *Search) follow(n int) (w way) {
	p, r, state := s.look.Scene.Params, s.start, s.look.Scene.State[s.robot]
	quarter := s.steps / 4
	for k := range len(w) * quarter {
		first, second := float64(s.Plans[s.entry(2*k, n)]), float64(s.Plans[s.entry(2*k+1, n)])
		if p.Double() {
			state = p.Step(&state, first, second)
			r.X, r.Y = state[0], state[1]
		} else {
			sin, cos := rollout.HalfTurn(second * p.Dt / 2)
			r.Step(p.Dt, p.Limits.VMin, p.Limits.VMax, first, sin, cos)
		}
		if (k+1)%quarter == 0 {
			w[k/quarter] = [2]float64{r.X, r.Y}
		}
	}
	return w
}

// insertBold inserts candidate n into the bold ones. Of those that lead nearly the same
// way only the cheapest stays, so that the descent starts from different ways.
func (s *Search) insertBold(score float64, safe, n int) {
	if math.IsNaN(score) || (s.daring == len(s.bold) && score >= s.bold[s.daring-1].key) {
		return
	}
	w := s.follow(n)
	distinct := 0
	for b := range s.daring {
		c := &s.bold[b]
		if c.way.distance(&w) <= distinctWays {
			if c.key <= score {
				return // the list is in order: nothing has been taken out before
			}
			continue
		}
		s.bold[distinct] = *c
		distinct++
	}
	length, c := s.insert(s.bold, distinct, score, safe, n)
	s.daring = length
	c.way = w
}
