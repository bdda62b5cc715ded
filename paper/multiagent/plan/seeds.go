package plan

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
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

// Seed scores blocks start to end of the committed plan and the primitives.
func (s *Search) Seed(start, end int) {
	if start == 0 {
		s.commit()
	}
	s.primitives(max(0, start*rollout.Lanes-1), end*rollout.Lanes-1)
	s.flush()
}

// commit makes the committed plan a candidate.
func (s *Search) commit() { s.Put(s.committed, s.next(origin{})) }

// primitives makes candidates of the primitives from until to: those of the
// library, then random ones.
func (s *Search) primitives(from, to int) {
	for n := from; n < to; n++ {
		index := s.next(origin{domain.SourcePrimitive, noLatent})
		if n < len(library) {
			s.drive(&library[n], s.committed, index)
			continue
		}
		m := primitive{
			prefix: s.Rand.IntN(12), hold: 2 + s.Rand.IntN(20), heading: float32(1.2 * s.Rand.NormFloat64()),
			speed: 1.2 - 1.7*s.Rand.Float32()*s.Rand.Float32(), cruise: 1.2 - 0.6*s.Rand.Float32()*s.Rand.Float32(),
		}
		s.drive(&m, s.committed, index)
	}
}

// scales of the perturbations, m/s² and rad/s.
var scales = [5]float32{0.05, 0.15, 0.4, 0.8, 1.5}

// Perturb scores noisy copies of the best candidates so far, a block at a time, at five
// scales: over the first H steps and then to the goal by feedback, or in pieces over
// all of the plan.
func (s *Search) Perturb(blocks int) {
	var plan Plan
	for range blocks {
		if s.elites == 0 {
			return
		}
		for l := range rollout.Lanes {
			base := &s.best[min(int(s.Rand.ExpFloat64()*2), s.elites-1)]
			plan = base.plan
			index := s.next(origin{})
			scale := scales[s.Rand.IntN(len(scales))]
			if l%2 == 0 {
				for k := range world.Horizon {
					plan[k][0] += scale * float32(s.Rand.NormFloat64())
					plan[k][1] += scale * float32(s.Rand.NormFloat64())
				}
				s.drive(&primitive{prefix: world.Horizon + s.Rand.IntN(12), cruise: 1.2}, &plan, index)
			} else {
				var a, w float32
				for k := range plan {
					if k%5 == 0 {
						a, w = scale*float32(s.Rand.NormFloat64()), scale*float32(s.Rand.NormFloat64())
					}
					plan[k][0] += a
					plan[k][1] += w
				}
				s.Put(&plan, index)
			}
			s.origins[index] = origin{domain.SourcePerturbed, base.origin.latent}
		}
		s.flush()
	}
}

// sharp is the sine of a turn that a robot in a deadlock makes before it moves.
const sharp = 0.2

// drive simulates a primitive by feedback from where the robot is and writes the plan
// to candidate n. The prefix is taken from plan.
func (s *Search) drive(m *primitive, plan *Plan, n int) {
	h := s.look.Scene
	dt, vLo, vHi := float32(h.Params.Dt), float32(h.Params.Limits.VMin), float32(h.Params.Limits.VMax)
	limits := &s.bounds[0]
	start := &s.start
	r := rollout.Unicycle[float32]{X: float32(start.X), Y: float32(start.Y), Cos: float32(start.Cos), Sin: float32(start.Sin), V: float32(start.V)}
	previous := limits.Previous
	state := h.State[s.robot] // of a double integrator
	gx, gy := float32(h.Goal[s.robot][0]), float32(h.Goal[s.robot][1])
	guide := s.look.Guide
	var holdX, holdY float32
	for k := range s.steps {
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
			forward, lateral := r.Cos*dx+r.Sin*dy, r.Cos*dy-r.Sin*dx
			turn := lateral
			switch {
			case h.Params.Double(): // as fast as both axes allow straight ahead
				speed = min(speed, vHi/max(dx, -dx, dy, -dy))
				lateral, speed = speed*dy, speed*dx
			case forward < 0 && speed > 0 && (distance < 0.8 || s.backs):
				// Closer than the turn is wide, or who is in the way may be: back up to the goal.
				speed, turn = -min(0.5, speed), -lateral
			case forward < 0 && lateral >= 0:
				turn = 2 - lateral
				speed *= 0.3
			case forward < 0:
				turn = -2 - lateral
				speed *= 0.3
			case speed > 0:
				speed *= 0.3 + 0.7*forward
			}
			if s.pivots && n%2 == 1 && (turn > sharp || turn < -sharp) {
				speed = 0
			}
			want = [2]float32{(speed - r.V) / dt, view.TurnGain * turn}
			if h.Params.Double() {
				want = [2]float32{(speed - float32(state[2])) / dt, (lateral - float32(state[3])) / dt}
			}
		}
		for f := range want {
			want[f] = min(max(want[f], max(limits.Lo[f], previous[f]-limits.Slew[f])), min(limits.Hi[f], previous[f]+limits.Slew[f]))
		}
		previous = want
		s.Plans[s.entry(2*k, n)], s.Plans[s.entry(2*k+1, n)] = want[0], want[1]
		if h.Params.Double() {
			state = h.Params.Step(&state, float64(want[0]), float64(want[1]))
			r.X, r.Y = float32(state[0]), float32(state[1])
			continue
		}
		half := want[1] * dt / 2
		h2 := half * half
		// A term less than in the roll-out: this only shapes candidates, and plans that
		// have been recorded come from it.
		r.Step(dt, vLo, vHi, want[0], half*(1-h2/6), 1-h2*(0.5-h2/24))
	}
}
