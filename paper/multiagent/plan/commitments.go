package plan

import (
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Plan is one robot's actions (a, ω) over L steps.
type Plan [world.LookAhead][world.ActionSize]float32

// Commitment is one robot's plan and where it leads.
type Commitment struct {
	Plan Plan
	Path [world.LookAhead][2]float32
	end  [world.StateSize]float64
	// Exhausted is the score that the last search, at rest at the goal, did not
	// improve by more than worthSearching; zero where it did.
	Exhausted float64
}

// Commitments are everyone's in one scene: the joint plan. A copy is independent as long
// as Scene and Obstacles, which it shares, are replaced and not written to.
type Commitments struct {
	Scene     *world.Prediction
	Obstacles [][]world.Obstacle // after 1 to L steps
	Planned   int                // robots that have plans others must keep clear of, the first
	Robots    [world.MostRobots]Commitment
	Guides    [world.MostRobots]*world.Grid // cost-to-go; nil: straight home
}

// Shift drops the executed step of everyone's plan and brakes in the new last one.
// See follows.
func (j *Commitments) Shift() {
	p := j.Scene.Params
	for i := range j.Scene.Robots {
		r := &j.Robots[i]
		copy(r.Plan[:], r.Plan[1:])
		last := [2]float64{-r.end[3] / p.Dt, 0}
		previous := [2]float64{float64(r.Plan[world.LookAhead-2][0]), float64(r.Plan[world.LookAhead-2][1])}
		p.Limits.Nearest(last[:], previous[:])
		r.Plan[world.LookAhead-1] = [2]float32{float32(last[0]), float32(last[1])}
	}
}

// See takes everyone's plans to where the robots are now.
func (j *Commitments) See(h *world.Prediction) {
	j.Scene = h
	j.Obstacles = h.Predicted(j.Obstacles, world.LookAhead)
	for i := range h.Robots {
		j.Commit(i, &j.Robots[i].Plan)
	}
}

// Commit makes a plan robot i's.
func (j *Commitments) Commit(i int, plan *Plan) {
	r, state := &j.Robots[i], j.Scene.State[i]
	r.Plan = *plan
	for k, u := range r.Plan {
		state = j.Scene.Params.Step(&state, float64(u[0]), float64(u[1]))
		r.Path[k] = [2]float32{float32(state[0]), float32(state[1])}
	}
	r.end = state
}

// Outlook is what robot i plans among: the others as far as they have plans.
func (j *Commitments) Outlook(i int) view.Outlook {
	l := view.Outlook{Scene: j.Scene, Obstacles: j.Obstacles, Guide: j.Guides[i]}
	for k := range j.Planned {
		l.Paths[k] = &j.Robots[k].Path
	}
	return l
}

// Actions writes as many first steps of everyone's plans as there is room for, as they
// are executed, [step][robot][a, ω]: in float64, where they keep box and slew bound
// exactly.
func (j *Commitments) Actions(dst []float64) {
	clear(dst)
	for i := range j.Scene.Robots {
		previous := j.Scene.Previous[i][:]
		for k, u := range j.Robots[i].Plan[:len(dst)/(j.Scene.Params.Room()*world.ActionSize)] {
			a := j.Scene.Action(dst, k, i)
			a[0], a[1] = float64(u[0]), float64(u[1])
			j.Scene.Params.Limits.Nearest(a, previous)
			previous = a
		}
	}
}
