package multiagent

import "math"

// patience watches one robot's progress. A robot whose way home does not get
// shorter, because the soft penalty of a gap outweighs its share of the cost,
// loses patience: the penalty is halved, again and again, until it moves. Hard
// margins are not touched.
type patience struct {
	started  bool
	shortest float64 // least remaining length so far, m
	waited   int     // decisions since it got shorter
}

const (
	progress    = 0.1 // m that count as getting shorter
	patienceFor = 8   // decisions without progress before the first halving
	halvedEvery = 3   // decisions without progress between halvings
	halvings    = 8   // at most
)

func (w *patience) update(p *Planner, i int) {
	s, g := &p.h.state[i], &p.h.goal[i]
	d := math.Hypot(s[0]-g[0], s[1]-g[1])
	if d < p.system.Params.GoalRadius {
		*w = patience{}
		return
	}
	if g := p.fields[i].grid; g != nil {
		if _, length := g.at(s[0], s[1]); !math.IsInf(length, 1) {
			d = length
		}
	}
	if !w.started || d < w.shortest-progress {
		*w = patience{started: true, shortest: d}
		return
	}
	w.waited++
}

// stalled reports whether patience is lost.
func (w *patience) stalled() bool { return w.waited >= patienceFor }

// factor multiplies the robot's soft penalty.
func (w *patience) factor() float64 {
	if !w.stalled() {
		return 1
	}
	return math.Exp2(-float64(min(halvings, 1+(w.waited-patienceFor)/halvedEvery)))
}
