package plan

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// sight is what one robot's rays have seen of obstacles that stand and have a least radius: where none of them can have its centre, in
// pixels, and where rays have ended.
type sight struct {
	x, y   float64 // of the first pixel
	nx, ny int
	free   []bool
	hits   []world.Obstacle
	state  [world.StateSize]float64 // that it last looked from
}

const (
	pixel    = world.Cell / 2
	diagonal = pixel * math.Sqrt2 / 2 // from its middle to its corner
)

// sense casts the rays of everyone whose place is known, and forgets the obstacles themselves.
func (p *Planner) sense() {
	h, sensing := &p.scene, &p.system.Params.Sensing
	if sensing.Rays == 0 {
		return
	}
	for i := range h.Robots {
		s, v := &h.State[i], &p.sights[i]
		if h.Radius[i] == 0 || v.free != nil && *s == v.state {
			continue
		}
		v.state = *s
		if v.free == nil {
			w := h.Params.Around([2]float64(s[:2]), h.Goal[i])
			v.x, v.y, v.nx, v.ny = w[0], w[2], int((w[1]-w[0])/pixel)+1, int((w[3]-w[2])/pixel)+1
			v.free = make([]bool, v.nx*v.ny)
		}
		for ray := range sensing.Rays {
			sin, cos := math.Sincos(2 * math.Pi * float64(ray) / float64(sensing.Rays))
			length := sensing.Range
			for _, o := range h.Obstacles {
				dx, dy := o.C[0]-s[0], o.C[1]-s[1]
				if ahead, aside := dx*cos+dy*sin, dx*sin-dy*cos; ahead > 0 && aside*aside < o.R*o.R {
					length = min(length, max(ahead-math.Sqrt(o.R*o.R-aside*aside), 0))
				}
			}
			for d := 0.0; d < length; d += world.Cell {
				v.clear(s[0]+d*cos, s[1]+d*sin, sensing.LeastRadius)
			}
			end := [2]float64{s[0] + length*cos, s[1] + length*sin}
			v.clear(end[0], end[1], sensing.LeastRadius)
			if length < sensing.Range {
				v.hit(end)
			}
		}
	}
	h.Obstacles = h.Obstacles[:0]
}

// pixels visits those whose middles are nearer than reach to a place, as long as visit says so; −1 is one that is not on the map.
func (v *sight) pixels(x, y, reach float64, visit func(n int) bool) bool {
	for iy := int(math.Ceil((y - reach - v.y) / pixel)); v.y+float64(iy)*pixel <= y+reach; iy++ {
		for ix := int(math.Ceil((x - reach - v.x) / pixel)); v.x+float64(ix)*pixel <= x+reach; ix++ {
			dx, dy, n := v.x+float64(ix)*pixel-x, v.y+float64(iy)*pixel-y, -1
			if ix >= 0 && iy >= 0 && ix < v.nx && iy < v.ny {
				n = iy*v.nx + ix
			}
			if dx*dx+dy*dy < reach*reach && !visit(n) {
				return false
			}
		}
	}
	return true
}

// clear notes that a point lies in no obstacle.
func (v *sight) clear(x, y, least float64) {
	v.pixels(x, y, least-diagonal, func(n int) bool {
		if n >= 0 {
			v.free[n] = true
		}
		return true
	})
}

// hit notes where a ray ends, unless that is known. Plans keep off as far as open is sure to want.
func (v *sight) hit(end [2]float64) {
	if !slices.ContainsFunc(v.hits, func(o world.Obstacle) bool { return math.Hypot(o.C[0]-end[0], o.C[1]-end[1]) < 2*world.Cell }) {
		v.hits = append(v.hits, world.Obstacle{C: end, R: 2 * diagonal})
	}
}

// open reports whether no obstacle of the least radius, seen or not, can be nearer than distance to any place of a path.
func (v *sight) open(path *view.Path, distance, least float64) bool {
	for k, place := range path {
		if (k == 0 || place != path[k-1]) && !v.pixels(float64(place[0]), float64(place[1]), distance+least+diagonal, func(n int) bool { return n >= 0 && v.free[n] }) {
			return false
		}
	}
	return true
}

// outlook writes what robot i plans among: the others, and of obstacles what its rays have met.
func (p *Planner) outlook(i int) {
	p.joint.Outlook(i, &p.look)
	if p.system.Params.Sensing.Rays == 0 {
		return
	}
	h, l, hits := p.joint.Scene, &p.look, p.sights[i].hits
	reach := world.LookAhead*h.Params.Dt*h.Params.Fastest() + h.Radius[i] + h.Params.DSafe + nearby
	for n, o := range hits {
		if math.Hypot(o.C[0]-h.State[i][0], o.C[1]-h.State[i][1]) < reach+o.R {
			l.Visible = append(l.Visible, n)
		}
	}
	l.Obstacles = slices.Repeat([][]world.Obstacle{hits}, world.LookAhead)
}
