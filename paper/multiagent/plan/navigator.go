package plan

import (
	"errors"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// Navigator is Algorithm 2 for everyone: each robot has a closed loop of the map on its own view. Robot after robot decides,
// in an order that rotates, and what it decodes is its plan, by which the others' views know it; nothing is searched, and a
// plan need not be safe. At the first decision each sees the plans of those before it only.
type Navigator struct {
	planner *Planner // commitments, ways home and fields
	view    *view.View
	loops   []domain.Controller
	s, c, u []float64 // of one view
}

var _ domain.Controller = (*Navigator)(nil)

// NewNavigator returns a navigator of a system's robots on the map of the means; it is
// used by one goroutine.
func NewNavigator(y *world.System, means domain.Means) (*Navigator, error) {
	if means.Loop == nil {
		return nil, errors.New("multiagent: a navigator without a map to make loops on")
	}
	o := Default(y.Moving())
	o.Candidates = 1
	p, err := New(y, o, domain.Means{})
	if err != nil {
		return nil, err
	}
	n := &Navigator{planner: p, view: view.New(y)}
	spec := n.view.Spec()
	n.s, n.c, n.u = make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	for range y.Params.Room() {
		loop, err := means.Loop()
		if err != nil {
			return nil, err
		}
		n.loops = append(n.loops, loop)
	}
	return n, nil
}

// Reset implements domain.Controller.
func (n *Navigator) Reset(e domain.Episode) error {
	for _, l := range n.loops {
		if err := l.Reset(e); err != nil {
			return err
		}
	}
	return n.planner.Reset(e)
}

// Decide implements domain.Controller. The Decision has the ego's priority and displacement, the largest residual, the
// fallbacks and times of all.
func (n *Navigator) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	p, all := n.planner, domain.Decided(true)
	p.scene.Decode(&p.system.Params, s, c)
	if err := complete(&p.scene); err != nil {
		return domain.Decision{}, err
	}
	p.Observe(&p.scene, weightsOf(pref))
	if pref.W == nil {
		pref.Adaptive = true
	}
	robots := p.scene.Robots
	for turn := range robots {
		i := (turn + p.t) % robots
		p.joint.Planned = robots
		if !p.started {
			p.joint.Planned = turn
		}
		if err := n.decide(i, pref, &all); err != nil {
			return domain.Decision{}, err
		}
	}
	p.t++
	p.started = true
	p.joint.Actions(u)
	return all, nil
}

// decide makes one decision of robot i's loop its commitment.
func (n *Navigator) decide(i int, pref domain.Preference, all *domain.Decision) error {
	joint, loop := &n.planner.joint, n.loops[i]
	joint.Outlook(i, &n.planner.look)
	n.view.Observe(&n.planner.look, i, n.s, n.c)
	d, err := loop.Decide(n.s, n.c, pref, n.u)
	if err != nil {
		return err
	}
	plan := joint.Robots[i].Plan
	if d.Decoded != nil { // else what it had, one step on
		for k := range plan {
			plan[k] = [2]float32(d.Decoded[2*k:])
		}
	}
	plan[0] = [2]float32{float32(n.u[0]), float32(n.u[1])}
	joint.Commit(i, &plan)
	if i == 0 {
		all.Sigma, all.Displacement = d.Sigma, d.Displacement
	}
	if !(d.Residual <= all.Residual) {
		all.Residual, all.Limit = d.Residual, d.Limit
	}
	all.Fallback |= d.Fallback
	all.Times.Localize += d.Times.Localize
	all.Times.Step += d.Times.Step
	all.Times.Project += d.Times.Project
	return nil
}
