package multiagent

import "math"

// step is one period of eq. multiagent-unicycle: (x, y, θ, v) of one robot under
// (a, ω). Position moves along the mean heading at the mean speed.
func (p *Params) step(s *[stateSize]float64, a, omega float64) [stateSize]float64 {
	v := min(max(s[3]+p.Dt*a, p.Limits.VMin), p.Limits.VMax)
	mean, heading := 0.5*(s[3]+v), s[2]+0.5*p.Dt*omega
	sin, cos := math.Sincos(heading)
	return [stateSize]float64{s[0] + p.Dt*mean*cos, s[1] + p.Dt*mean*sin, s[2] + p.Dt*omega, v}
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

// limit moves one robot's (a, ω) to the nearest within the box and the slew
// bound around the previous action, exactly.
func (l *Limits) limit(u, previous []float64) {
	lo, hi := [2]float64{l.AMin, -l.OmegaMax}, [2]float64{l.AMax, l.OmegaMax}
	for k := range 2 {
		a, b := math.Max(lo[k], previous[k]-l.DuMax[k]), math.Min(hi[k], previous[k]+l.DuMax[k])
		u[k] = math.Min(math.Max(u[k], a), b)
	}
}

// excess is by how much one robot's action leaves its limits, ≤ 0 inside.
func (l *Limits) excess(u, previous []float64) float64 {
	return max(u[0]-l.AMax, l.AMin-u[0], math.Abs(u[1])-l.OmegaMax,
		math.Abs(u[0]-previous[0])-l.DuMax[0], math.Abs(u[1]-previous[1])-l.DuMax[1])
}
