package integrator

import "math"

// real is what the formulas of the system are written over: float64 for plant,
// oracle and problem, float32 for the batches of the online step.
type real interface{ ~float32 | ~float64 }

// constants are Params in the precision of the caller.
type constants[T real] struct {
	dt, half     T // Δt and ½Δt²
	goal, safe   [2]T
	rho          [2]T
	beta         T
	lambda       T
	omega        T
	lambdaOmega  T
	lambdaOmega2 T
}

func newConstants[T real](p *Params) constants[T] {
	return constants[T]{
		dt:           T(p.Dt),
		half:         T(0.5 * p.Dt * p.Dt),
		goal:         [2]T{T(p.QGoal[0]), T(p.QGoal[1])},
		safe:         [2]T{T(p.QSafe0[0]), T(p.QSafe0[1])},
		rho:          [2]T{T(p.Ellipse.Rho[0]), T(p.Ellipse.Rho[1])},
		beta:         T(p.BetaU),
		lambda:       T(p.LambdaNC),
		omega:        T(p.Omega),
		lambdaOmega:  T(p.LambdaNC * p.Omega),
		lambdaOmega2: T(p.LambdaNC * p.Omega * p.Omega),
	}
}

// motion is the plant's state: position and velocity.
type motion[T real] struct{ q1, q2, v1, v2 T }

func motionOf[T real](s []T) motion[T] { return motion[T]{s[0], s[1], s[2], s[3]} }

// write writes the state to s.
func (m motion[T]) write(s []T) {
	s[0], s[1] = m.q1, m.q2
	s[2], s[3] = m.v1, m.v2
}

// next is eq. analytical-dynamics.
func (k *constants[T]) next(m motion[T], u1, u2 T) motion[T] {
	return motion[T]{m.q1 + k.dt*m.v1 + k.half*u1, m.q2 + k.dt*m.v2 + k.half*u2, m.v1 + k.dt*u1, m.v2 + k.dt*u2}
}

// stage holds both objectives of one step with their derivatives in the next
// position q′. The derivatives of J₂ in u are 2βu and 2β and are left to the
// caller; the second derivatives of J₁ in q′ are 2.
type stage[T real] struct {
	j1, j2   T
	g1x, g1y T // ∂J₁/∂q′
	g2x, g2y T // ∂J₂/∂q′
	h2x, h2y T // ∂²J₂/∂q′², diagonal
}

// objectives evaluates eq. analytical-objectives and
// eq. analytical-nonconvex-objective at the next position (x, y).
func (k *constants[T]) objectives(x, y, u1, u2, p T) (o stage[T]) {
	dx, dy := x-(k.safe[0]+k.rho[0]*p), y-(k.safe[1]+k.rho[1]*p)
	ex, ey := x-k.goal[0], y-k.goal[1]
	o.j1 = dx*dx + dy*dy
	o.g1x, o.g1y = 2*dx, 2*dy
	o.j2 = ex*ex + ey*ey + k.beta*(u1*u1+u2*u2)
	o.g2x, o.g2y = 2*ex, 2*ey
	o.h2x, o.h2y = 2, 2
	if k.lambda != 0 {
		sx, cx := math.Sincos(float64(k.omega * ex))
		sy, cy := math.Sincos(float64(k.omega * ey))
		o.j2 += k.lambda * (2 - T(cx) - T(cy))
		o.g2x += k.lambdaOmega * T(sx)
		o.g2y += k.lambdaOmega * T(sy)
		o.h2x += k.lambdaOmega2 * T(cx)
		o.h2y += k.lambdaOmega2 * T(cy)
	}
	return o
}

// clearance is ψ, the squared elliptic distance of a position to the centre of
// the ellipse at p; the position is outside iff ψ ≥ 1 (eq. analytical-obstacle
// with g_obs = 1 − ψ).
func (e *Ellipse) clearance(x, y, p float64) float64 {
	dx := (x - e.C0[0] - e.Rho[0]*p) / e.A
	dy := (y - e.C0[1] - e.Rho[1]*p) / e.B
	return dx*dx + dy*dy
}

// limitAt is the operating parameter of the ellipse that the next position is tested against, from that of the decision and
// its rate.
func (p *Params) limitAt(operating, rate float64) float64 { return operating + p.Lead*p.Dt*rate }

// indicators are δ₁ and δ₂ at a position (see psiScale).
func (p *Params) indicators(x, y, operating float64) (safety, goal float64) {
	psi := p.Ellipse.clearance(x, y, operating)
	dx, dy := x-p.QGoal[0], y-p.QGoal[1]
	d2 := dx*dx + dy*dy
	return 2 / (1 + math.Exp((psi-1)/psiScale)), d2 / (d2 + goalScale)
}

// priority holds σ₁ at a position with its gradient and Hessian; σ₂ = 1 − σ₁.
type priority struct {
	sigma         float64
	gx, gy        float64
	hxx, hxy, hyy float64
}

// urgency is what the priority at a position follows from.
type urgency struct {
	dx, dy, ia, ib float64 // from the ellipse's centre, and 1/a², 1/b²
	half           float64 // δ₁/2
	ex, ey, inv    float64 // from the goal, and 1/(d² + goalScale)
	sigma          float64 // σ₁ = 1/(1 + exp(2δ₂ − 4δ₁))
}

func (p *Params) urgency(x, y, operating float64) (u urgency) {
	e := &p.Ellipse
	u.dx, u.dy = x-e.C0[0]-e.Rho[0]*operating, y-e.C0[1]-e.Rho[1]*operating
	u.ia, u.ib = 1/(e.A*e.A), 1/(e.B*e.B)
	psi := u.dx*u.dx*u.ia + u.dy*u.dy*u.ib
	u.half = 1 / (1 + math.Exp((psi-1)/psiScale))
	u.ex, u.ey = x-p.QGoal[0], y-p.QGoal[1]
	r := u.ex*u.ex + u.ey*u.ey
	u.inv = 1 / (r + goalScale)
	eta := safetyGain*(2*u.half) - goalGain*(r*u.inv)
	u.sigma = 1 / (1 + math.Exp(-eta))
	return u
}

// adaptive evaluates the priority of eq. iclr-semantic (ρ = 1 makes φ + ρ = exp(kδ/ε)) at
// a position.
func (p *Params) adaptive(x, y, operating float64) (o priority) {
	u := p.urgency(x, y, operating)
	ia, ib, half := u.ia, u.ib, u.half
	ex, ey, inv := u.ex, u.ey, u.inv
	psix, psiy := 2*u.dx*ia, 2*u.dy*ib

	slope := half * (1 - half) / psiScale
	d1 := -2 * slope
	d11 := 2 * slope * (1 - 2*half) / psiScale

	d2 := goalScale * inv * inv
	d22 := -2 * d2 * inv

	etax := safetyGain*d1*psix - goalGain*d2*2*ex
	etay := safetyGain*d1*psiy - goalGain*d2*2*ey
	hxx := safetyGain*(d11*psix*psix+d1*2*ia) - goalGain*(d22*4*ex*ex+2*d2)
	hxy := safetyGain*d11*psix*psiy - goalGain*d22*4*ex*ey
	hyy := safetyGain*(d11*psiy*psiy+d1*2*ib) - goalGain*(d22*4*ey*ey+2*d2)

	s := u.sigma
	w := s * (1 - s)
	bend := 1 - 2*s
	o.sigma = s
	o.gx, o.gy = w*etax, w*etay
	o.hxx = w * (hxx + bend*etax*etax)
	o.hxy = w * (hxy + bend*etax*etay)
	o.hyy = w * (hyy + bend*etay*etay)
	return o
}
