package plan

import (
	"math"

	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// patience watches one robot's progress. A robot whose way home does not get cheaper loses patience: its soft penalty is
// halved, again and again, until it moves. Hard margins are not touched.
type patience struct {
	started bool
	least   float64 // least expected cost of the way home so far
	waited  int     // decisions since it fell
	limit   int     // decisions without progress that are borne
	// yielding are decisions for which it still makes way for the robot leader.
	yielding, leader int
	// led are decisions for which others have made way for it and it made no progress, vain how often it gave up.
	led, vain int
}

const (
	progress    = 0.03 // relative: the cost falls with the cube of the distance
	patienceFor = 8    // decisions without progress before the first halving
	// Moving obstacles go away by themselves: patience is longer among them.
	patienceMoving = 60
	halvedEvery    = 3 // decisions without progress between halvings
	halvings       = 8 // at most
	// A deadlock are robots within reach of a plan without progress for deadlockFor decisions after patience is lost. All
	// before one of them make way until it has passed, yieldDistance at a time, m, for at most a turn, decisions. One that makes no
	// progress for vainFor then has its turn again after all others.
	deadlockFor   = 32
	vainFor       = 24
	turn          = 120
	yieldDistance = 3
)

func (w *patience) update(p *Planner, i int) {
	s, g := &p.joint.Scene.State[i], &p.joint.Scene.Goal[i]
	if w.yielding > 0 {
		if w.yielding--; p.waits[w.leader].yielding > 0 {
			w.yielding = 0 // for whom the leader makes way, too
		} else if w.yielding == 0 || !p.precedes(i, w.leader) {
			*w = patience{vain: w.vain}
		}
		return
	}
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
		vain := w.vain
		if w.started {
			vain = 0
		}
		*w = patience{started: true, least: rest, limit: limit, vain: vain}
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

// deadlocked reports whether there has been no progress for so long that others should make way.
func (w *patience) deadlocked() bool {
	return w.started && w.yielding == 0 && w.waited >= w.limit+deadlockFor
}

// precedes reports whether robot i is nearer than robot j to the goal of j.
func (p *Planner) precedes(i, j int) bool {
	s, g := p.joint.Scene.State, &p.joint.Scene.Goal[j]
	return math.Hypot(s[i][0]-g[0], s[i][1]-g[1]) < math.Hypot(s[j][0]-g[0], s[j][1]-g[1])
}

// yield notices deadlocks. Of the robots near each other that make no progress the one of the highest rank goes on. Those
// before it make way, as do those that are home. Ranks change from turn to turn.
func (p *Planner) yield() {
	h := p.joint.Scene
	rank := func(i int) int { return (i+p.t/turn)%h.Robots - h.Robots*p.waits[i].vain }
	reach := world.LookAhead * h.Params.Dt * h.Params.Fastest()
	for j := range h.Robots {
		leader := &p.waits[j]
		if !leader.deadlocked() {
			continue
		}
		leads := false
		for i := range h.Robots {
			w, distance := &p.waits[i], math.Hypot(h.State[i][0]-h.State[j][0], h.State[i][1]-h.State[j][1])
			if (w.deadlocked() && rank(i) < rank(j) && distance < reach || p.home(i) && distance < yieldDistance) && p.precedes(i, j) {
				w.yielding, w.leader, leads = turn, j, true
			}
			leads = leads || w.yielding > 0 && w.leader == j
		}
		if leads {
			leader.led++
		}
		if leader.led > vainFor {
			*leader = patience{vain: leader.vain + 1}
			for i := range p.waits {
				if p.waits[i].leader == j {
					p.waits[i].yielding = 0
				}
			}
		}
	}
}

// retreat has robot i plan ahead of the robot that it makes way for; advance takes that back. Limits and margins stay as
// they are.
func (p *Planner) retreat(i int) {
	p.search.pivots = p.options.Exchange != nil && (p.waits[i].deadlocked() || p.waits[i].yielding > 0)
	if w, j := &p.waits[i], &p.joint; w.yielding > 0 {
		s, o := &j.Scene.State[i], &j.Scene.State[w.leader]
		distance := max(math.Hypot(s[0]-o[0], s[1]-o[1]), 1e-9)
		dx, dy := float32((s[0]-o[0])/distance), float32((s[1]-o[1])/distance)
		if g := j.Guides[w.leader]; g != nil {
			dx, dy = g.Direction(float32(s[0]), float32(s[1]), dx, dy)
		}
		length := min(max(2*yieldDistance-distance, 0), yieldDistance)
		j.Scene.Goal[i] = [2]float64{s[0] + length*float64(dx), s[1] + length*float64(dy)}
		j.Guides[i], p.search.backs = nil, true
	}
}

func (p *Planner) advance(i int, goal [2]float64, guide *world.Grid) {
	p.joint.Scene.Goal[i], p.joint.Guides[i], p.search.backs = goal, guide, false
}
