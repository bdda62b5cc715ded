package multiagent

import "math"

// field is the cost-to-go of one robot among standing bodies: the obstacles, and
// the robots that stand.
type field struct {
	grid     *grid
	standing [MaxRobots]bool
}

const (
	standingSpeed = 0.05 // m/s
	// fieldClearance is kept beyond r + d_safe on the path, m; less than in the
	// generator's connectivity check, so that a path exists.
	fieldClearance = 0.05
)

// length is the path length from a point, or, where no path is known, the
// straight distance with a detour that no path of a scene exceeds.
func (f *field) length(x, y, straight float64) float64 {
	if l := f.grid.at(x, y); !math.IsInf(l, 1) {
		return math.Max(l, straight)
	}
	return straight + 20
}

// guide renews the fields of robots for which the set of standing robots has
// changed. A robot counts as standing when it is at rest at its goal.
func (p *Planner) guide() {
	h, params := p.h, &p.system.Params
	var standing [MaxRobots]bool
	for i := range h.robots {
		s, g := &h.state[i], &h.goal[i]
		standing[i] = math.Abs(s[3]) < standingSpeed && math.Hypot(s[0]-g[0], s[1]-g[1]) < params.GoalRadius
	}
	for i := range h.robots {
		f := &p.fields[i]
		want := standing
		want[i] = false
		if f.grid != nil && f.standing == want {
			continue
		}
		var discs []disc
		for _, o := range h.obstacles {
			discs = append(discs, disc{o.C[0], o.C[1], o.R + h.radius[i] + params.DSafe + fieldClearance})
		}
		for j := range h.robots {
			if want[j] {
				discs = append(discs, disc{h.state[j][0], h.state[j][1], h.radius[j] + h.radius[i] + params.DSafe + fieldClearance})
			}
		}
		f.grid, f.standing = newGrid(params.Workspace, h.goal[i], discs), want
		f.grid.head()
	}
}
