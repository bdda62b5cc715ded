package multiagent

import (
	"math"

	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
)

// field is the cost-to-go of one robot among standing bodies, the obstacles and
// the robots that stand: what the planner expects to pay after its L steps.
type field struct {
	grid     *grid
	standing [MaxRobots]bool
}

const (
	standingSpeed = 0.05 // m/s
	// fieldClearance is kept beyond r + d_safe on the path, m; less than in the
	// generator's connectivity check, so that a path exists.
	fieldClearance = 0.05
	// renewals are the fields solved in one decision; what is left waits for the
	// next.
	renewals = 2
	// detour is added to the straight way where the grid knows none, m.
	detour = 20
)

// guide renews the fields of robots for which the set of standing robots has
// changed. A robot counts as standing when it is at rest at its goal; for a robot
// that is stalled, wherever it is at rest.
func (p *Planner) guide(w []float64) {
	h, params := p.h, &p.system.Params
	budget := renewals
	if !p.started {
		budget = h.robots
	}
	var resting, home [MaxRobots]bool
	for i := range h.robots {
		s, g := &h.state[i], &h.goal[i]
		resting[i] = math.Abs(s[3]) < standingSpeed && p.started
		home[i] = resting[i] && math.Hypot(s[0]-g[0], s[1]-g[1]) < params.GoalRadius
	}
	for i := range h.robots {
		f := &p.fields[i]
		want := home
		if p.waits[i].stalled() {
			want = resting
		}
		want[i] = false
		if f.grid != nil && (f.standing == want || home[i] || budget == 0) {
			continue
		}
		budget--
		var bodies []disc
		for _, o := range h.obstacles {
			bodies = append(bodies, disc{o.C[0], o.C[1], o.R + h.radius[i] + params.DSafe})
		}
		for j := range h.robots {
			if want[j] {
				bodies = append(bodies, disc{h.state[j][0], h.state[j][1], h.radius[j] + h.radius[i] + params.DSafe})
			}
		}
		f.standing = want
		f.grid = p.costs(i, w, bodies)
	}
}

// costs is the grid of robot i whose cost per metre is the planner's own stage
// cost at full speed: squared goal distance and the soft penalty.
func (p *Planner) costs(i int, w []float64, bodies []disc) *grid {
	params, goal := &p.system.Params, p.h.goal[i]
	blocked := make([]disc, len(bodies))
	for j, b := range bodies {
		blocked[j] = disc{b.x, b.y, b.r + fieldClearance}
	}
	g := newGrid(params.Workspace, goal, blocked)
	stage, stiffness := p.stage(i, w), p.stiffness(i)
	for at := range g.rate {
		dx, dy := g.x0+float64(at%g.nx)*gridCell-goal[0], g.y0+float64(at/g.nx)*gridCell-goal[1]
		g.rate[at] *= float32(stage * (dx*dx + dy*dy))
	}
	for _, b := range bodies {
		g.near(b, b.r+p.options.Buffer, func(at int, distance float64) {
			if t := p.options.Buffer - (distance - b.r); t > 0 {
				m := math.Min(t, p.options.Knee)
				g.rate[at] += float32(stiffness * m * (2*t - m))
			}
		})
	}
	perMetre := float32(1 / (params.Dt * params.Limits.VMax))
	for at := range g.rate {
		g.rate[at] *= perMetre
	}
	g.solve(goal)
	return g
}

// ending is what robot i is expected to pay after a plan: the cost-to-go of the
// field, or, where none is known, of the straight way at full speed.
func (p *Planner) ending(i int, stage float64) *rollout.Ending {
	params := &p.system.Params
	e := &rollout.Ending{Goal: p.h.goal[i], Stage: stage, Stride: params.Dt * params.Limits.VMax, Detour: detour, Scale: 1}
	if g := p.fields[i].grid; g != nil {
		e.Grid = &g.known
	}
	return e
}

// remaining is the ending from one point on, and its slope.
func (p *Planner) remaining(i int, stage, x, y float64) (cost, gx, gy float64) {
	return p.ending(i, stage).At(x, y)
}
