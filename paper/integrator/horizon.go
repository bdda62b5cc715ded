package integrator

// maxVariables is the size of the largest horizon problem: two action
// components a step and the epigraph variable of the Chebyshev form.
const maxVariables = 2*Horizon + 1

// maxLimits is the number of bounds on horizon objectives one problem has at
// most: one per objective.
const maxLimits = 2

// horizonProblem is the control problem eq. iclr-control over the steps that
// remain: minimise Σ_t σ_tᵀJ(s_t, u_t; p_t) + τ·epigraph subject to
//
//	ψ(q_{t+1}, p_t) ≥ clearance,  ‖u_t‖² ≤ u_max²,  ‖u_t − u_{t−1}‖² ≤ r_max²
//
// the ellipse later than p_t by Params.Lead,
// with σ_t = σ(q_t, p_t) in the adaptive mode (its dependence on the state is
// part of the cost) or σ_t = weights. limits are further bounds on the horizon
// sums of the objectives, for fixed weights only.
type horizonProblem struct {
	steps     int
	s         [4]float64
	previous  [2]float64
	p         [Horizon + 1]float64 // of each remaining step, and behind the last
	clearance float64
	adaptive  bool
	weights   [2]float64 // of ΣJ₁, ΣJ₂ where not adaptive
	epigraph  float64    // cost of τ; 0: τ is not a variable
	limits    [maxLimits]horizonLimit
	limited   int // how many limits are in use
}

// horizonLimit is bound + slope·τ − weightsᵀ(ΣJ₁, ΣJ₂) ≥ 0.
type horizonLimit struct {
	weights [2]float64
	bound   float64
	slope   float64
}

func (h *horizonProblem) variables() int {
	n := 2 * h.steps
	if h.epigraph != 0 {
		n++
	}
	return n
}

func (h *horizonProblem) constraints() int { return 3*h.steps + h.limited }

// tail is the problem that is left after the first k actions of plan.
func (h *horizonProblem) tail(y *System, plan []float64, k int) horizonProblem {
	rest := *h
	rest.steps = h.steps - k
	for t := range k {
		u1, u2 := plan[2*t], plan[2*t+1]
		y.k64.next(motionOf(rest.s[:]), u1, u2).write(rest.s[:])
		rest.previous = [2]float64{u1, u2}
	}
	copy(rest.p[:], h.p[k:h.steps+1])
	return rest
}

// limitAt is the operating parameter of the ellipse that the position behind step t is tested against.
func (h *horizonProblem) limitAt(y *System, t int) float64 {
	return h.p[t] + y.Params.Lead*(h.p[t+1]-h.p[t])
}

// evaluation is the problem at one plan: values, and on request derivatives in
// positions and actions before condensing. Row t−1 of a position array is q_t,
// t = 1 … steps.
type evaluation struct {
	cost  float64    // without the epigraph term
	total [2]float64 // ΣJ₁, ΣJ₂
	g     [3*Horizon + maxLimits]float64
	q     [Horizon][2]float64 // q_1 … q_N

	costQ  [Horizon][2]float64    // ∂cost/∂q_t, direct
	costU  [Horizon][2]float64    // ∂cost/∂u_t, direct
	totalQ [2][Horizon][2]float64 // ∂ΣJ_i/∂q_t
	totalU [Horizon][2]float64    // ∂ΣJ₂/∂u_t
	psiQ   [Horizon][2]float64    // ∂ψ/∂q_{t+1}

	hessQ  [Horizon][3]float64 // second derivative in q_t: xx, xy, yy
	cross  [Horizon][4]float64 // in q_t (row) and q_{t+1} (column), t = 1 … N−1
	crossU [Horizon][4]float64 // in q_t (row) and u_t (column), t = 1 … N−1
	hessU  [Horizon]float64    // in u_t, a multiple of I
}

// value evaluates cost and constraints at x (plan, then τ). Constraint order:
// obstacle, input and slew of step 0, then of step 1, …; then the limits.
func (y *System) value(h *horizonProblem, x []float64, e *evaluation) {
	m := motionOf(h.s[:])
	w1, w2 := h.previous[0], h.previous[1]
	umax2, rmax2 := y.Params.UMax*y.Params.UMax, y.Params.RMax*y.Params.RMax
	cost, total1, total2 := 0.0, 0.0, 0.0
	for t := range h.steps {
		u1, u2, p := x[2*t], x[2*t+1], h.p[t]
		sigma1, sigma2 := h.weights[0], h.weights[1]
		if h.adaptive {
			sigma1 = y.Params.adaptive(m.q1, m.q2, p).sigma
			sigma2 = 1 - sigma1
		}
		m = y.k64.next(m, u1, u2)
		o := y.k64.objectives(m.q1, m.q2, u1, u2, p)
		cost += sigma1*o.j1 + sigma2*o.j2
		total1 += o.j1
		total2 += o.j2
		e.q[t] = [2]float64{m.q1, m.q2}
		d1, d2 := u1-w1, u2-w2
		e.g[3*t] = y.Params.Ellipse.clearance(m.q1, m.q2, h.limitAt(y, t)) - h.clearance
		e.g[3*t+1] = umax2 - u1*u1 - u2*u2
		e.g[3*t+2] = rmax2 - d1*d1 - d2*d2
		w1, w2 = u1, u2
	}
	e.cost, e.total = cost, [2]float64{total1, total2}
	for i := range h.limited {
		l := &h.limits[i]
		e.g[3*h.steps+i] = l.bound - l.weights[0]*total1 - l.weights[1]*total2
		if h.epigraph != 0 {
			e.g[3*h.steps+i] += l.slope * x[2*h.steps]
		}
	}
}

// derivatives adds first and second derivatives to an evaluation of the same
// x. z are the constraint multipliers: the second derivatives are those of the
// Lagrangian cost − zᵀg, except for the actions' part of input and slew, which
// the caller adds.
func (y *System) derivatives(h *horizonProblem, x []float64, z []float64, e *evaluation) {
	ellipse := &y.Params.Ellipse
	psixx, psiyy := 2/(ellipse.A*ellipse.A), 2/(ellipse.B*ellipse.B)
	// A limit's multiplier acts as a weight of the objectives.
	extra1, extra2 := 0.0, 0.0
	for i := range h.limited {
		extra1 += z[3*h.steps+i] * h.limits[i].weights[0]
		extra2 += z[3*h.steps+i] * h.limits[i].weights[1]
	}
	if !h.adaptive {
		clear(e.cross[:])
		clear(e.crossU[:])
	}
	now1, now2 := h.s[0], h.s[1]
	for t := range h.steps {
		u1, u2, p := x[2*t], x[2*t+1], h.p[t]
		q := e.q[t]
		o := y.k64.objectives(q[0], q[1], u1, u2, p)
		sigma1, sigma2 := h.weights[0], h.weights[1]
		if h.adaptive {
			a := y.Params.adaptive(now1, now2, p)
			sigma1, sigma2 = a.sigma, 1-a.sigma
			if t > 0 {
				// cost_t = J₂ + σ₁(q_t)(J₁ − J₂)
				d := o.j1 - o.j2
				dx, dy := o.g1x-o.g2x, o.g1y-o.g2y
				ux, uy := -2*y.Params.BetaU*u1, -2*y.Params.BetaU*u2
				e.costQ[t-1][0] += a.gx * d
				e.costQ[t-1][1] += a.gy * d
				e.hessQ[t-1][0] += a.hxx * d
				e.hessQ[t-1][1] += a.hxy * d
				e.hessQ[t-1][2] += a.hyy * d
				e.cross[t-1] = [4]float64{a.gx * dx, a.gx * dy, a.gy * dx, a.gy * dy}
				e.crossU[t-1] = [4]float64{a.gx * ux, a.gx * uy, a.gy * ux, a.gy * uy}
			}
		}
		e.costQ[t] = [2]float64{sigma1*o.g1x + sigma2*o.g2x, sigma1*o.g1y + sigma2*o.g2y}
		e.costU[t] = [2]float64{2 * y.Params.BetaU * sigma2 * u1, 2 * y.Params.BetaU * sigma2 * u2}
		if h.limited > 0 {
			e.totalQ[0][t] = [2]float64{o.g1x, o.g1y}
			e.totalQ[1][t] = [2]float64{o.g2x, o.g2y}
			e.totalU[t] = [2]float64{2 * y.Params.BetaU * u1, 2 * y.Params.BetaU * u2}
		}
		l1, l2 := sigma1+extra1, sigma2+extra2
		zo := z[3*t]
		e.hessQ[t] = [3]float64{2*l1 + o.h2x*l2 - zo*psixx, 0, 2*l1 + o.h2y*l2 - zo*psiyy}
		e.hessU[t] = 2 * y.Params.BetaU * l2
		limit := h.limitAt(y, t)
		e.psiQ[t] = [2]float64{
			psixx * (q[0] - ellipse.C0[0] - ellipse.Rho[0]*limit),
			psiyy * (q[1] - ellipse.C0[1] - ellipse.Rho[1]*limit),
		}
		now1, now2 = q[0], q[1]
	}
}

// pullBackPositions adds to out[2k+a] the derivative in u_k of a function whose
// derivative in q_{t+1} is inQ[t]: the adjoint of the double integrator.
func (y *System) pullBackPositions(steps int, inQ *[Horizon][2]float64, out []float64) {
	dt, half := y.k64.dt, y.k64.half
	var q1, q2, v1, v2 float64
	for t := steps - 1; t >= 0; t-- {
		q1 += inQ[t][0]
		q2 += inQ[t][1]
		out[2*t] += half*q1 + dt*v1
		out[2*t+1] += half*q2 + dt*v2
		v1 += dt * q1
		v2 += dt * q2
	}
}

// condense writes the lower triangle of the Lagrangian's second derivative in
// the actions, row stride maxVariables: position blocks pulled back through
// q_t = … + Σ_{k<t} Δt²(t − k − ½)u_k, and the cross blocks. Diagonal parts of
// the actions themselves are left to the caller.
func (y *System) condense(steps int, e *evaluation, m *[maxVariables * maxVariables]float64) {
	dt, half := y.k64.dt, y.k64.half
	dt2 := dt * dt
	for k := range steps {
		for b := range 2 {
			column := 2*k + b
			var qx, qy, vx, vy float64
			for t := steps; t > k; t-- {
				// Row block q_t of (second derivative in positions) · ∂q/∂u_{k,b}.
				reach := dt2 * (float64(t-k) - 0.5)
				hq := &e.hessQ[t-1]
				x0, x1 := hq[b]*reach, hq[b+1]*reach
				if t < steps {
					nextReach := reach + dt2
					cr := &e.cross[t-1]
					x0 += cr[b] * nextReach
					x1 += cr[2+b] * nextReach
				}
				if t-1 > k {
					previousReach := reach - dt2
					cr := &e.cross[t-2]
					x0 += cr[2*b] * previousReach
					x1 += cr[2*b+1] * previousReach
				}
				qx += x0
				qy += x1
				r0, r1 := half*qx+dt*vx, half*qy+dt*vy
				if j := t - 1; j > k {
					// u_j meets q_j directly.
					cu := &e.crossU[j-1]
					back := reach - dt2
					r0 += cu[2*b] * back
					r1 += cu[2*b+1] * back
				}
				row := 2 * (t - 1)
				m[row*maxVariables+column] = r0
				m[(row+1)*maxVariables+column] = r1
				vx += dt * qx
				vy += dt * qy
			}
		}
	}
}
