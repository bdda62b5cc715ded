package plan

import (
	"math"

	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// buffers are the margins that a static scene may be planned for, m, largest
// first.
var buffers = [...]float64{0.7, 0.55, 0.42, 0.3, 0.2, 0.12}

// buffer is the margin below which closeness costs, m: in a scene whose bodies have passed closer that of the closest. What
// plans give way below their buffer is added, or it would creep down from pass to pass.
func (p *Planner) buffer() float64 {
	if p.options.Creep == 0 || p.options.Forgetful {
		return p.sceneBuffer
	}
	return math.Min(p.sceneBuffer, math.Max(p.least, p.options.Hard)+p.options.Creep)
}

// choose picks the buffer of a static scene before anybody moves: the one with the least expected cost of all robots
// together, less what its margin is worth.
func (p *Planner) choose() {
	var grids [len(buffers)][]*world.Grid
	var total [len(buffers)]float64
	for i := range p.joint.Scene.Robots {
		bodies := p.stationaryDiscs(i)
		var upper *world.Grid
		for level, buffer := range buffers {
			upper = p.costs(i, bodies, buffer, upper)
			grids[level] = append(grids[level], upper)
			total[level] += upper.At(p.joint.Scene.State[i][0], p.joint.Scene.State[i][1])
		}
	}
	scale := total[len(buffers)-1]
	best, least := 0, math.Inf(1)
	for level, buffer := range buffers {
		if score := total[level] - p.options.Price*scale*buffer; score < least {
			best, least = level, score
		}
	}
	if math.IsInf(least, 1) {
		return // a robot without a way: the default
	}
	p.sceneBuffer = buffers[best]
	for i := range p.joint.Scene.Robots {
		if p.joint.Scene.Radius[i] > 0 {
			p.joint.Guides[i], p.fields[i] = grids[best][i], field{make([]bool, p.joint.Scene.Robots), p.sceneBuffer, len(p.sights[i].hits)}
		}
	}
}
