package plan

import (
	"math"

	"github.com/gpc-engine/gpc/paper/multiagent/view"
)

// patience watches one robot's progress. A robot whose way home does not get
// cheaper, because the soft penalty of a gap outweighs its share of the cost,
// loses patience: the penalty is halved, again and again, until it moves. Hard
// margins are not touched.
type patience struct {
	started bool
	least   float64 // least expected cost of the way home so far
	waited  int     // decisions since it fell
	limit   int     // decisions without progress that are borne
}

const (
	progress    = 0.03 // relative: the cost falls with the cube of the distance
	patienceFor = 8    // decisions without progress before the first halving
	// Moving obstacles go away by themselves: patience is longer among them.
	patienceMoving = 60
	halvedEvery    = 3 // decisions without progress between halvings
	halvings       = 8 // at most
)

func (w *patience) update(p *Planner, i int) {
	s, g := &p.joint.Scene.State[i], &p.joint.Scene.Goal[i]
	d := math.Hypot(s[0]-g[0], s[1]-g[1])
	if d < p.system.Params.GoalRadius {
		*w = patience{}
		return
	}
	limit := patienceFor
	if p.system.Moving() {
		limit = patienceMoving
	}
	l := view.Outlook{Scene: p.joint.Scene, Guide: p.joint.Guides[i]}
	e := ending(&l, i, 1, 1)
	rest, _, _ := e.At(s[0], s[1])
	if !w.started || rest < w.least*(1-progress) {
		*w = patience{started: true, least: rest, limit: limit}
		return
	}
	w.waited++
}

// stalled reports whether patience is lost.
func (w *patience) stalled() bool { return w.started && w.waited >= w.limit }

// factor multiplies the robot's soft penalty.
func (w *patience) factor() float64 {
	if !w.stalled() {
		return 1
	}
	return math.Exp2(-float64(min(halvings, 1+(w.waited-w.limit)/halvedEvery)))
}
