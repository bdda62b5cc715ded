package plan

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// field says what the guide of one robot was solved for: among the obstacles and the
// robots that stand it is what the planner expects to pay after its L steps.
type field struct {
	stationary []bool
	buffer     float64 // m
	hits       int     // that were known of obstacles
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
)

// guide renews the guides of robots for which the set of standing robots or the buffer has changed. A robot counts as
// standing when it is at rest at its goal; for a robot that is stalled, wherever it is at rest.
func (p *Planner) guide() {
	h, params := p.joint.Scene, &p.system.Params
	budget := renewals
	if !p.started {
		budget = h.Robots
	}
	stationary, home := make([]bool, h.Robots), make([]bool, h.Robots)
	for i := range h.Robots {
		stationary[i] = p.stands(i) && p.started
		home[i] = p.started && p.home(i)
	}
	for i := range h.Robots {
		f, guide := &p.fields[i], &p.joint.Guides[i]
		want := slices.Clone(home)
		if p.waits[i].stalled() {
			copy(want, stationary)
		}
		want[i] = false
		if h.Radius[i] == 0 || *guide != nil && ((slices.Equal(f.stationary, want) && f.buffer <= p.buffer()+staleBuffer && f.hits == len(p.sights[i].hits)) || home[i] || budget == 0) {
			continue
		}
		budget--
		bodies := p.stationaryDiscs(i)
		for j := range h.Robots {
			if want[j] {
				bodies = append(bodies, world.Disc{X: h.State[j][0], Y: h.State[j][1], R: h.Radius[j] + h.Radius[i] + params.DSafe})
			}
		}
		f.stationary, f.buffer, f.hits = want, p.buffer(), len(p.sights[i].hits)
		*guide = p.costs(i, bodies, p.buffer(), nil)
	}
}

// stationaryDiscs are the obstacles, inflated for robot i.
func (p *Planner) stationaryDiscs(i int) (bodies []world.Disc) {
	for _, o := range slices.Concat(p.sights[i].hits, p.joint.Scene.Obstacles) {
		bodies = append(bodies, world.Disc{X: o.C[0], Y: o.C[1], R: o.R + p.joint.Scene.Radius[i] + p.system.Params.DSafe})
	}
	return bodies
}

// costs is the grid of robot i whose cost per metre is the planner's own stage cost at full speed. If upper is given, it is
// the grid of the same bodies with a larger buffer, from whose values the solution starts.
func (p *Planner) costs(i int, bodies []world.Disc, buffer float64, upper *world.Grid) *world.Grid {
	params, goal := &p.system.Params, p.joint.Scene.Goal[i]
	window := params.Around([2]float64(p.joint.Scene.State[i][:2]), goal)
	if p.joint.Scene.Crowd() {
		bodies = slices.DeleteFunc(bodies, func(b world.Disc) bool {
			reach := b.R + buffer + world.Cell
			return b.X < window[0]-reach || b.X > window[1]+reach || b.Y < window[2]-reach || b.Y > window[3]+reach
		})
	}
	blocked := make([]world.Disc, len(bodies))
	for j, b := range bodies {
		blocked[j] = world.Disc{X: b.X, Y: b.Y, R: b.R + fieldClearance}
	}
	g := world.NewGrid(window, goal, blocked)
	score := p.options.Score(p.joint.Scene, i, p.w[:])
	penalty := func(depth float64) float32 {
		cost, _ := rollout.Huber(score.Stiffness, depth, score.Knee)
		return float32(cost)
	}
	for point := range g.Rate {
		dx, dy := g.X0+float64(point%g.NX)*world.Cell-goal[0], g.Y0+float64(point/g.NX)*world.Cell-goal[1]
		g.Rate[point] *= float32(score.Goal * (dx*dx + dy*dy))
	}
	for _, b := range bodies {
		g.Near(b, b.R+buffer, func(point int, distance float64) {
			if t := buffer - (distance - b.R); t > 0 {
				g.Rate[point] += penalty(t)
			}
		})
	}
	g.Passages(bodies, fieldClearance, buffer, func(point int, x, y float64) {
		dx, dy := x-goal[0], y-goal[1]
		rate := float32(score.Goal * (dx*dx + dy*dy))
		for _, b := range bodies {
			d := math.Hypot(x-b.X, y-b.Y) - b.R
			if d < fieldClearance {
				return
			}
			if d < buffer {
				rate += penalty(buffer - d)
			}
		}
		g.Rate[point] = min(g.Rate[point], rate)
	})
	perMetre := float32(1 / (params.Dt * params.Limits.VMax))
	for point := range g.Rate {
		g.Rate[point] *= perMetre
	}
	g.Solve(goal, upper)
	return g
}
