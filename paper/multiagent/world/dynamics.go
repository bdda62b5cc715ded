package world

import "math"

// motion is one robot's mean heading and speed over a period.
type motion struct {
	cos, sin, speed float64
	free            bool // the speed is inside its limits, so that the acceleration acts
}

// Step is one period of eq. multiagent-unicycle: (x, y, θ, v) of one robot under
// (a, ω). Position moves along the mean heading at the mean speed. It is the plant's
// own, with the heading as an angle; what predicts turns it as a unit vector
// (rollout.Unicycle).
func (p *Params) Step(s *[StateSize]float64, a, omega float64) [StateSize]float64 {
	next, _ := p.step(s, a, omega)
	return next
}

func (p *Params) step(s *[StateSize]float64, a, omega float64) ([StateSize]float64, motion) {
	raw := s[3] + p.Dt*a
	v := min(max(raw, p.Limits.VMin), p.Limits.VMax)
	mean, heading := 0.5*(s[3]+v), s[2]+0.5*p.Dt*omega
	sin, cos := math.Sincos(heading)
	return [StateSize]float64{s[0] + p.Dt*mean*cos, s[1] + p.Dt*mean*sin, s[2] + p.Dt*omega, v},
		motion{cos, sin, mean, raw > p.Limits.VMin && raw < p.Limits.VMax}
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

// Nearest moves one robot's (a, ω) to the nearest within the box and the slew
// bound around the previous action, exactly.
func (l *Limits) Nearest(u, previous []float64) {
	lo, hi := [2]float64{l.AMin, -l.OmegaMax}, [2]float64{l.AMax, l.OmegaMax}
	for k := range 2 {
		a, b := math.Max(lo[k], previous[k]-l.DuMax[k]), math.Min(hi[k], previous[k]+l.DuMax[k])
		u[k] = math.Min(math.Max(u[k], a), b)
	}
}

// Project is Nearest of an action whose entries may be NaN, which is as zero.
func (l *Limits) Project(u, previous []float64) {
	for k := range u {
		if math.IsNaN(u[k]) {
			u[k] = 0
		}
	}
	l.Nearest(u, previous)
}

// Excess is by how much one robot's action leaves its limits, ≤ 0 inside.
func (l *Limits) Excess(u, previous []float64) float64 {
	return max(u[0]-l.AMax, l.AMin-u[0], math.Abs(u[1])-l.OmegaMax,
		math.Abs(u[0]-previous[0])-l.DuMax[0], math.Abs(u[1]-previous[1])-l.DuMax[1])
}
