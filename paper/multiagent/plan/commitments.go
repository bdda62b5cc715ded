package plan

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Plan is one robot's actions over L steps.
type Plan [world.LookAhead][world.ActionSize]float32

// Commitment is one robot's plan and where it leads.
type Commitment struct {
	Plan Plan
	Path view.Path
	end  [world.StateSize]float64
	// Exhausted is the score that the last search, at rest at the goal, did not
	// improve by more than worthSearching; zero where it did.
	Exhausted float64
}

// Commitments are everyone's in one scene: the joint plan.
type Commitments struct {
	Scene     *world.Prediction
	Obstacles [][]world.Obstacle // after 1 to L steps
	Planned   int                // robots that have plans others must keep clear of, the first
	Robots    []Commitment       // room for all
	Guides    []*world.Grid      // cost-to-go; nil: straight home
}

// newCommitments are empty, with room for a number of robots.
func newCommitments(robots int) Commitments {
	return Commitments{Robots: make([]Commitment, robots), Guides: make([]*world.Grid, robots)}
}

// Clone is a copy that is independent as long as Scene and Obstacles, which it shares, are replaced and not
// written to.
func (j *Commitments) Clone() Commitments {
	c := *j
	c.Robots, c.Guides = slices.Clone(j.Robots), slices.Clone(j.Guides)
	return c
}

// Shift drops the executed step of everyone's plan and brakes in the new last one.
// See follows.
func (j *Commitments) Shift() {
	p := j.Scene.Params
	for i := range j.Scene.Robots {
		r := &j.Robots[i]
		copy(r.Plan[:], r.Plan[1:])
		last := p.Brake(&r.end)
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
	r := &j.Robots[i]
	r.Plan = *plan
	r.Path, r.end = follow(j.Scene, i, plan)
}

// follow is where a plan leads robot i, as Shift goes on with it.
func follow(h *world.Prediction, i int, plan *Plan) (path view.Path, end [world.StateSize]float64) {
	state := h.State[i]
	var u [world.ActionSize]float64
	for k := range path {
		if k < len(plan) {
			u = [world.ActionSize]float64{float64(plan[k][0]), float64(plan[k][1])}
		} else {
			previous := u
			u = h.Params.Brake(&state)
			h.Params.Limits.Nearest(u[:], previous[:])
		}
		state = h.Params.Step(&state, u[0], u[1])
		path[k] = [2]float32{float32(state[0]), float32(state[1])}
		if k == len(plan)-1 {
			end = state
		}
	}
	return path, end
}

// Outlook writes what robot i plans among, in l's memory as far as that goes: the others as far as they have
// plans. In a crowd bodies are left out that no plan of L steps can come near.
func (j *Commitments) Outlook(i int, l *view.Outlook) {
	h := j.Scene
	*l = view.Outlook{Scene: h, Obstacles: j.Obstacles, Guide: j.Guides[i], Visible: l.Visible[:0], Robots: l.Robots[:0]}
	for n := range h.Obstacles {
		if o := &h.Obstacles[n]; !h.Crowd() || j.meets(i, o.C[0], o.C[1], math.Hypot(o.V[0], o.V[1]), o.R, func(k int) (x, y float64) {
			return j.Obstacles[k][n].C[0], j.Obstacles[k][n].C[1]
		}) {
			l.Visible = append(l.Visible, n)
		}
	}
	fastest := h.Params.Fastest()
	for n := range j.Planned {
		path, s := &j.Robots[n].Path, &h.State[n]
		if n != i && !h.Absent[n] && (!h.Crowd() || j.meets(i, s[0], s[1], fastest, h.Radius[n], func(k int) (x, y float64) {
			return float64(path[k][0]), float64(path[k][1])
		})) {
			l.Robots = append(l.Robots, view.Other{Robot: n, Path: path})
		}
	}
}

// nearby is the margin, m, beyond which a body has no part in a robot's plan: more than every buffer.
const nearby = 1.0

// meets reports whether robot i can come nearby to a body within L steps. The body is at (x, y) now, has at most
// the speed, and is at later(k) after k+1 steps.
func (j *Commitments) meets(i int, x, y, speed, radius float64, later func(k int) (x, y float64)) bool {
	h := j.Scene
	p, s := h.Params, &h.State[i]
	reach := radius + h.Radius[i] + p.DSafe + nearby
	closer := func(x, y, distance float64) bool {
		dx, dy := x-s[0], y-s[1]
		return dx*dx+dy*dy < distance*distance
	}
	stride := p.Dt * p.Fastest()
	if !closer(x, y, reach+world.LookAhead*(stride+p.Dt*speed)) {
		return false
	}
	for k := range world.LookAhead {
		x, y := later(k)
		if closer(x, y, reach+float64(k+1)*stride) {
			return true
		}
	}
	return false
}

// Actions writes as many first steps of everyone's plans as there is room for, as they
// are executed, [step][robot][a, ω]: in float64, where they keep box and slew bound
// exactly.
func (j *Commitments) Actions(dst []float64) {
	clear(dst)
	for i := range j.Scene.Present {
		previous := j.Scene.Previous[i][:]
		for k, u := range j.Robots[i].Plan[:len(dst)/(j.Scene.Params.Room()*world.ActionSize)] {
			a := j.Scene.Action(dst, k, i)
			a[0], a[1] = float64(u[0]), float64(u[1])
			j.Scene.Params.Limits.Nearest(a, previous)
			previous = a
		}
	}
}

// stopping is a plan of which robot i executes the first n steps and then stops as soon as its limits allow.
func stopping(h *world.Prediction, i int, plan *Plan, n int) Plan {
	stop, state, previous := *plan, h.State[i], h.Previous[i]
	for k := range stop {
		u := [world.ActionSize]float64{float64(stop[k][0]), float64(stop[k][1])}
		if k >= n {
			u = h.Params.Brake(&state)
			h.Params.Limits.Nearest(u[:], previous[:])
			stop[k] = [world.ActionSize]float32{float32(u[0]), float32(u[1])}
		}
		state, previous = h.Params.Step(&state, u[0], u[1]), u
	}
	return stop
}
