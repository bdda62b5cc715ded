package view

import (
	"math"

	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/world"
)

// pose is a robot's position, heading and speed, in the frame it had at first.
type pose = rollout.Unicycle[float64]

// Gains of the pursuit. They only shape a plan; what it is worth the dynamics say.
const (
	TurnGain     = 2.5 // rad/s per radian of heading error
	ApproachGain = 1.0 // m/s per metre to the goal

	wayReached  = 0.6 // m: nearer than this, the next way point is taken up
	closeToGoal = 0.8 // m: a goal behind the robot that is nearer than this is backed up to
)

// manoeuvre is a departure from the way home: for hold steps the heading off it and
// a share of the speed. The zero value is none.
type manoeuvre struct {
	hold     int
	cos, sin float64 // of the angle to the way
	speed    float64
}

// fan are the manoeuvres that a view says the outcome of; left and right stand
// beside each other, so that a mirror swaps them.
var fan = [12]manoeuvre{
	swerve(10, 0.5, 1), swerve(10, -0.5, 1), swerve(10, 1, 1), swerve(10, -1, 1), swerve(10, 1.6, 1), swerve(10, -1.6, 1),
	swerve(20, 0.5, 1), swerve(20, -0.5, 1),
	swerve(15, 0, 0.7), swerve(15, 0, 0.35), swerve(10, 0, 0), swerve(20, 0, 0),
}

// fanPairs of the fan are left and right, the rest their own mirror images.
const fanPairs = 4

func swerve(hold int, angle, speed float64) manoeuvre {
	sin, cos := math.Sincos(angle)
	return manoeuvre{hold, cos, sin, speed}
}

// pursue is the plan that drives home along the way points at full speed whatever
// stands there, after a manoeuvre, by feedback within box and slew bound. It writes plan ([step][a,
// ω], nil: not wanted) and the path, the present pose first.
func (v *View) pursue(e *sight, m *manoeuvre, plan []float64, path *[world.LookAhead + 1]pose) {
	params := &v.system.Params
	limits, dt := &params.Limits, params.Dt
	lo, hi := [world.ActionSize]float64{limits.AMin, -limits.OmegaMax}, [world.ActionSize]float64{limits.AMax, limits.OmegaMax}
	p := pose{Cos: 1, V: e.speed}
	previous := e.previous
	path[0] = p
	next := 0
	for k := range world.LookAhead {
		gx, gy := e.goal[0]-p.X, e.goal[1]-p.Y
		home := math.Sqrt(gx*gx + gy*gy)
		dx, dy, square := gx, gy, home*home
		for ; next < viewWays; next++ {
			wx, wy := e.ways[next][0]-p.X, e.ways[next][1]-p.Y
			if s := wx*wx + wy*wy; s > wayReached*wayReached && s < square {
				dx, dy, square = wx, wy, s
				break
			}
		}
		if square > 1e-6 {
			f := 1 / math.Sqrt(square)
			dx, dy = f*dx, f*dy
		} else {
			dx, dy = p.Cos, p.Sin
		}
		top := limits.VMax
		if k < m.hold {
			dx, dy = m.cos*dx-m.sin*dy, m.sin*dx+m.cos*dy
			top *= m.speed
		}
		forward, lateral := p.Cos*dx+p.Sin*dy, p.Cos*dy-p.Sin*dx
		want, turn := min(top, ApproachGain*home), lateral
		switch {
		case forward < 0 && home < closeToGoal:
			want, turn = -min(-limits.VMin, want), -lateral
		case forward < 0:
			want *= 0.3
			if turn = 2 - lateral; lateral < 0 {
				turn = -2 - lateral
			}
		default:
			want *= 0.3 + 0.7*forward
		}
		u := [world.ActionSize]float64{(want - p.V) / dt, TurnGain * turn}
		for f := range u {
			u[f] = clip(u[f], clip(previous[f]-limits.DuMax[f], lo[f], hi[f]), clip(previous[f]+limits.DuMax[f], lo[f], hi[f]))
		}
		previous = u
		if plan != nil {
			plan[2*k], plan[2*k+1] = u[0], u[1]
		}
		sin, cos := rollout.HalfTurn(u[1] * dt / 2)
		p.Step(dt, limits.VMin, limits.VMax, u[0], sin, cos)
		path[k+1] = p
	}
}

// clip is x, or the end of [lo, hi] it lies beyond; not for NaN.
func clip(x, lo, hi float64) float64 {
	if x < lo {
		return lo
	}
	if x > hi {
		return hi
	}
	return x
}
