package plan

import (
	"math"

	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
	"github.com/gpc-engine/gpc/domains/multiagent/view"
	"github.com/gpc-engine/gpc/domains/multiagent/world"
)

// primitive is a family of plans by feedback: the committed plan for Prefix
// steps, then a heading and a speed for Hold steps, then the way to the goal at
// a cruising speed.
type primitive struct {
	prefix, hold int
	heading      float32 // relative to the direction of the goal, rad
	speed        float32 // of the hold, m/s
	cruise       float32 // of the way to the goal, m/s
}

// library are the primitives tried at every decision, most useful first: the
// goal at several speeds, standing still, committed prefixes, then headings and
// speeds held for a while before the goal is taken up again.
var library = func() (all []primitive) {
	for _, v := range []float32{1.2, 0.9, 0.6, 0.3} {
		all = append(all, primitive{cruise: v})
	}
	all = append(all, primitive{}) // brake
	for _, n := range []int{4, 8, 12, 16, 20, 25, 30, 35} {
		all = append(all, primitive{prefix: n, cruise: 1.2})
	}
	for _, t := range []int{5, 10, 15} { // wait, then go
		all = append(all, primitive{hold: t, cruise: 1.2}, primitive{hold: t, speed: -0.5, cruise: 1.2})
	}
	for _, t := range []int{6, 12, 20} {
		for _, v := range []float32{1.2, 0.7} {
			for _, angle := range []float32{0.4, 0.8, 1.2, 1.7, 2.3, 3.1} {
				all = append(all, primitive{hold: t, heading: angle, speed: v, cruise: 1.2}, primitive{hold: t, heading: -angle, speed: v, cruise: 1.2})
			}
		}
	}
	for _, n := range []int{5, 10, 15} { // a new turn later on
		for _, angle := range []float32{0.7, 1.4} {
			all = append(all, primitive{prefix: n, hold: 8, heading: angle, speed: 1.2, cruise: 1.2}, primitive{prefix: n, hold: 8, heading: -angle, speed: 1.2, cruise: 1.2})
		}
		all = append(all, primitive{prefix: n, hold: 8, cruise: 1.2})
	}
	return all
}()

// seeds evaluates blocks from to until of the committed plan and the primitives.
func (p *Planner) seeds(i, from, until int) {
	p.filled = 0
	if from == 0 {
		p.put(&p.robots[i].plan, p.lane())
	}
	p.primitives(i, max(0, from*rollout.Lanes-1), until*rollout.Lanes-1)
	p.flush()
}

// primitives makes candidates of the primitives from until to: those of the
// library, then random ones.
func (p *Planner) primitives(i, from, to int) {
	for n := from; n < to; n++ {
		l := p.lane()
		p.origins[l] = origin{kindPrimitive, noLatent}
		if n < len(library) {
			p.drive(i, &library[n], nil, l)
			continue
		}
		m := primitive{
			prefix: p.rng.IntN(12), hold: 2 + p.rng.IntN(20), heading: float32(1.2 * p.rng.NormFloat64()),
			speed: 1.2 - 1.7*p.rng.Float32()*p.rng.Float32(), cruise: 1.2 - 0.6*p.rng.Float32()*p.rng.Float32(),
		}
		p.drive(i, &m, nil, l)
	}
}

// scales of the perturbations, m/s² and rad/s.
var scales = [5]float32{0.05, 0.15, 0.4, 0.8, 1.5}

// perturb evaluates noisy copies of the best candidates so far, at five scales:
// over the first H steps and then to the goal by feedback, or in pieces over all
// of the plan.
func (p *Planner) perturb(i, blocks int) {
	var plan [world.LookAhead][2]float32
	for range blocks {
		for l := range rollout.Lanes {
			base := &p.best[min(int(p.rng.ExpFloat64()*2), p.kept-1)]
			plan = base.plan
			from := origin{kindPerturbed, base.from.latent}
			scale := scales[p.rng.IntN(len(scales))]
			if l%2 == 0 {
				for k := range world.Horizon {
					plan[k][0] += scale * float32(p.rng.NormFloat64())
					plan[k][1] += scale * float32(p.rng.NormFloat64())
				}
				p.drive(i, &primitive{prefix: world.Horizon + p.rng.IntN(12), cruise: 1.2}, &plan, l)
				p.origins[l] = from
				continue
			}
			var a, w float32
			for k := range plan {
				if k%5 == 0 {
					a, w = scale*float32(p.rng.NormFloat64()), scale*float32(p.rng.NormFloat64())
				}
				plan[k][0] += a
				plan[k][1] += w
			}
			p.put(&plan, l)
			p.origins[l] = from
		}
		p.filled = rollout.Lanes
		p.flush()
	}
}

// drive simulates a primitive by feedback from robot i's state and writes the
// plan into lane l. The prefix is taken from plan, nil for the committed one.
func (p *Planner) drive(i int, m *primitive, plan *[world.LookAhead][2]float32, l int) {
	if plan == nil {
		plan = &p.robots[i].plan
	}
	limits := &p.system.Params.Limits
	dt := float32(p.system.Params.Dt)
	lo, hi := [2]float32{float32(limits.AMin), float32(-limits.OmegaMax)}, [2]float32{float32(limits.AMax), float32(limits.OmegaMax)}
	slew := [2]float32{float32(limits.DuMax[0]), float32(limits.DuMax[1])}
	vLo, vHi := float32(limits.VMin), float32(limits.VMax)
	s := &p.h.State[i]
	sin64, cos64 := math.Sincos(s[2])
	r := rollout.Unicycle[float32]{X: float32(s[0]), Y: float32(s[1]), Cos: float32(cos64), Sin: float32(sin64), V: float32(s[3])}
	before := [2]float32{float32(p.h.Previous[i][0]), float32(p.h.Previous[i][1])}
	gx, gy := float32(p.h.Goal[i][0]), float32(p.h.Goal[i][1])
	guide := p.fields[i].grid
	var holdX, holdY float32
	for k := range p.steps {
		var want [2]float32
		if k < m.prefix {
			want = plan[k]
		} else {
			dx, dy := gx-r.X, gy-r.Y
			distance := float32(math.Sqrt(float64(dx*dx + dy*dy)))
			if guide != nil && distance > 1 {
				dx, dy = guide.Direction(r.X, r.Y, dx/distance, dy/distance)
			} else if distance > 1e-3 {
				dx, dy = dx/distance, dy/distance
			} else {
				dx, dy = r.Cos, r.Sin
			}
			var speed float32
			if k < m.prefix+m.hold {
				if k == m.prefix {
					rs, rc := math.Sincos(float64(m.heading))
					holdX, holdY = dx*float32(rc)-dy*float32(rs), dx*float32(rs)+dy*float32(rc)
				}
				dx, dy, speed = holdX, holdY, m.speed
			} else {
				speed = min(m.cruise, view.ApproachGain*distance)
			}
			along, across := r.Cos*dx+r.Sin*dy, r.Cos*dy-r.Sin*dx
			turn := across
			switch {
			case along < 0 && speed > 0 && distance < 0.8:
				// Closer than the turn is wide: back up to the goal.
				speed, turn = -min(0.5, speed), -across
			case along < 0 && across >= 0:
				turn = 2 - across
				speed *= 0.3
			case along < 0:
				turn = -2 - across
				speed *= 0.3
			case speed > 0:
				speed *= 0.3 + 0.7*along
			}
			want = [2]float32{(speed - r.V) / dt, view.TurnGain * turn}
		}
		for f := range want {
			want[f] = min(max(want[f], max(lo[f], before[f]-slew[f])), min(hi[f], before[f]+slew[f]))
		}
		before = want
		p.block[(2*k)*rollout.Lanes+l], p.block[(2*k+1)*rollout.Lanes+l] = want[0], want[1]
		half := want[1] * dt / 2
		h2 := half * half
		// A term less than in the roll-out: this only shapes candidates, and plans that
		// have been recorded come from it.
		r.Step(dt, vLo, vHi, want[0], half*(1-h2/6), 1-h2*(0.5-h2/24))
	}
}
