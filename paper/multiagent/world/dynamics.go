package world

import "math"

// DoubleIntegrator is Params.Dynamics of robots that accelerate along both axes: the state is (x, y, vx, vy), the
// action (ax, ay), and limits are those of each axis.
const DoubleIntegrator = "double integrator"

// Double reports whether robots are double integrators, and not unicycles.
func (p *Params) Double() bool { return p.Dynamics == DoubleIntegrator }

// motion is one robot's mean heading and speed over a period.
type motion struct {
	cos, sin, speed float64
	free            [2]bool // the speed is inside its limits, so that the acceleration acts; of a double integrator along each axis
}

// Step is one period of eq. multiagent-unicycle: (x, y, θ, v) of one robot under
// (a, ω). Position moves along the mean heading at the mean speed. It is the plant's
// own, with the heading as an angle; what predicts turns it as a unit vector
// (rollout.Unicycle). A double integrator moves at the mean velocity.
func (p *Params) Step(s *[StateSize]float64, a, omega float64) [StateSize]float64 {
	next, _ := p.step(s, a, omega)
	return next
}

func (p *Params) step(s *[StateSize]float64, a, omega float64) (next [StateSize]float64, m motion) {
	if p.Double() {
		for c, u := range [2]float64{a, omega} {
			raw := s[2+c] + p.Dt*u
			v := min(max(raw, p.Limits.VMin), p.Limits.VMax)
			next[c], next[2+c] = s[c]+0.5*p.Dt*(s[2+c]+v), v
			m.free[c] = raw > p.Limits.VMin && raw < p.Limits.VMax
		}
		return next, m
	}
	raw := s[3] + p.Dt*a
	v := min(max(raw, p.Limits.VMin), p.Limits.VMax)
	mean, heading := 0.5*(s[3]+v), s[2]+0.5*p.Dt*omega
	sin, cos := math.Sincos(heading)
	return [StateSize]float64{s[0] + p.Dt*mean*cos, s[1] + p.Dt*mean*sin, s[2] + p.Dt*omega, v},
		motion{cos, sin, mean, [2]bool{raw > p.Limits.VMin && raw < p.Limits.VMax}}
}

// back takes the derivatives in the state after a step, in (x, y) and in the rest, to those of its start, and to those in
// the action.
func (m *motion) back(p *Params, place, rest [2]float64) (previous, action [2]float64) {
	if p.Double() {
		for c, g := range place {
			if m.free[c] {
				previous[c] = rest[c] + 0.5*p.Dt*g
			}
			action[c] = p.Dt * previous[c]
			previous[c] += 0.5 * p.Dt * g
		}
		return previous, action
	}
	heading := p.Dt * m.speed * (m.cos*place[1] - m.sin*place[0])
	mean := 0.5 * p.Dt * (m.cos*place[0] + m.sin*place[1])
	adjoint := 0.0
	if m.free[0] {
		adjoint = rest[1] + mean
	}
	return [2]float64{rest[0] + heading, adjoint + mean}, [2]float64{p.Dt * adjoint, p.Dt * (rest[0] + 0.5*heading)}
}

// Velocity is where a robot heads, rad, and its speed along that, m/s.
func (p *Params) Velocity(s *[StateSize]float64) (heading, speed float64) {
	if p.Double() {
		return math.Atan2(s[3], s[2]), math.Hypot(s[2], s[3])
	}
	return s[2], s[3]
}

// Brake is the action that stops a robot within a period, which its limits may not allow.
func (p *Params) Brake(s *[StateSize]float64) [ActionSize]float64 {
	if p.Double() {
		return [ActionSize]float64{-s[2] / p.Dt, -s[3] / p.Dt}
	}
	return [ActionSize]float64{-s[3] / p.Dt, 0}
}

// advance is one period of an obstacle: straight, then position and velocity are
// mirrored at the workspace's edge inset by the radius.
func (p *Params) advance(o *Obstacle) {
	for k := range 2 {
		lo, hi := p.Workspace[2*k]+o.R, p.Workspace[2*k+1]-o.R
		o.C[k] += p.Dt * o.V[k]
		if o.C[k] > hi {
			o.C[k], o.V[k] = 2*hi-o.C[k], -o.V[k]
		} else if o.C[k] < lo {
			o.C[k], o.V[k] = 2*lo-o.C[k], -o.V[k]
		}
	}
}

// Nearest moves one robot's action to the nearest within the box and the slew
// bound around the previous one, exactly, or within the box alone where no action is within both; an entry that is NaN is as zero, and a previous one that is not finite too.
func (l *Limits) Nearest(u, previous []float64) {
	lo, hi := [2]float64{l.AMin, -l.OmegaMax}, [2]float64{l.AMax, l.OmegaMax}
	for k := range 2 {
		last := previous[k]
		if !finite(last) {
			last = 0
		}
		if math.IsNaN(u[k]) {
			u[k] = 0
		}
		u[k] = max(lo[k], min(hi[k], max(last-l.DuMax[k], min(last+l.DuMax[k], u[k]))))
	}
}

// Excess is by how much one robot's action leaves its limits, ≤ 0 inside.
func (l *Limits) Excess(u, previous []float64) float64 {
	return max(u[0]-l.AMax, l.AMin-u[0], math.Abs(u[1])-l.OmegaMax,
		math.Abs(u[0]-previous[0])-l.DuMax[0], math.Abs(u[1]-previous[1])-l.DuMax[1])
}
