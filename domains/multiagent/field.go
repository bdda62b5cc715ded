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
	buffer   float64 // that it was solved for, m
}

const (
	standingSpeed = 0.05 // m/s
	// fieldClearance is kept beyond r + d_safe on the path, m; less than in the
	// generator's connectivity check, so that a path exists.
	fieldClearance = 0.03
	// renewals are the fields solved in one decision; what is left waits for the
	// next.
	renewals = 2
	// staleBuffer is by how much the buffer may fall before a field is solved again, m.
	staleBuffer = 0.03
	// detour is added to the straight way where the grid knows none, m.
	detour = 20
)

// guide renews the fields of robots for which the set of standing robots or the
// buffer has changed. A robot counts as standing when it is at rest at its goal; for a robot
// that is stalled, wherever it is at rest.
func (p *Planner) guide(w []float64) {
	h, params := p.h, &p.system.Params
	budget := renewals
	if !p.started {
		budget = h.robots
	}
	var resting, home [MaxRobots]bool
	for i := range h.robots {
		resting[i] = math.Abs(h.state[i][3]) < standingSpeed && p.started
		home[i] = p.started && p.home(i)
	}
	for i := range h.robots {
		f := &p.fields[i]
		want := home
		if p.waits[i].stalled() {
			want = resting
		}
		want[i] = false
		if f.grid != nil && ((f.standing == want && f.buffer <= p.buffer()+staleBuffer) || home[i] || budget == 0) {
			continue
		}
		budget--
		bodies := p.standing(i)
		for j := range h.robots {
			if want[j] {
				bodies = append(bodies, disc{h.state[j][0], h.state[j][1], h.radius[j] + h.radius[i] + params.DSafe})
			}
		}
		f.standing, f.buffer = want, p.buffer()
		f.grid = p.costs(i, w, bodies, p.buffer(), nil)
	}
}

// standing are the obstacles, inflated for robot i.
func (p *Planner) standing(i int) (bodies []disc) {
	for _, o := range p.h.obstacles {
		bodies = append(bodies, disc{o.C[0], o.C[1], o.R + p.h.radius[i] + p.system.Params.DSafe})
	}
	return bodies
}

// costs is the grid of robot i whose cost per metre is the planner's own stage
// cost at full speed: squared goal distance and the soft penalty of a buffer. If
// above is given, it is the grid of the same bodies with a larger buffer, from
// whose values the solution starts.
func (p *Planner) costs(i int, w []float64, bodies []disc, buffer float64, above *grid) *grid {
	params, goal := &p.system.Params, p.h.goal[i]
	blocked := make([]disc, len(bodies))
	for j, b := range bodies {
		blocked[j] = disc{b.x, b.y, b.r + fieldClearance}
	}
	g := newGrid(params.Workspace, goal, blocked)
	stage, stiffness := p.stage(i, w), p.stiffness(i)
	penalty := func(depth float64) float32 {
		m := math.Min(depth, p.options.Knee)
		return float32(stiffness * m * (2*depth - m))
	}
	for at := range g.rate {
		dx, dy := g.x0+float64(at%g.nx)*gridCell-goal[0], g.y0+float64(at/g.nx)*gridCell-goal[1]
		g.rate[at] *= float32(stage * (dx*dx + dy*dy))
	}
	for _, b := range bodies {
		g.near(b, b.r+buffer, func(at int, distance float64) {
			if t := buffer - (distance - b.r); t > 0 {
				g.rate[at] += penalty(t)
			}
		})
	}
	g.passages(bodies, fieldClearance, buffer, func(at int, x, y float64) {
		dx, dy := x-goal[0], y-goal[1]
		rate := float32(stage * (dx*dx + dy*dy))
		for _, b := range bodies {
			d := math.Hypot(x-b.x, y-b.y) - b.r
			if d < fieldClearance {
				return
			}
			if d < buffer {
				rate += penalty(buffer - d)
			}
		}
		g.rate[at] = min(g.rate[at], rate)
	})
	perMetre := float32(1 / (params.Dt * params.Limits.VMax))
	for at := range g.rate {
		g.rate[at] *= perMetre
	}
	g.solve(goal, above)
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
