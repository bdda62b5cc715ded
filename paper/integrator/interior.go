package integrator

import (
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// CertifiedKKT is the largest scaled KKT residual of a solve that counts.
const CertifiedKKT = 1e-7

// Constants of the interior-point method.
const (
	convergedKKT   = 1e-9 // where the iteration stops; two decades inside CertifiedKKT
	maxIterations  = 120  // 15–30 is usual; beyond this the start was useless
	toBoundary     = 0.995
	firstBarrier   = 0.1 // small beside horizon costs of 300–500: a start keeps its basin (1 loses 1–2 % of the optima)
	smallestSlack  = 1e-2
	barrierFactor  = 0.2
	barrierPower   = 1.5
	barrierReady   = 10.0 // barrier problem solved to this multiple of μ
	armijo         = 1e-4
	maxHalvings    = 25
	firstShift     = 1e-3 // relative to the largest diagonal entry
	shiftGrowth    = 8.0
	maxShifts      = 14
	maxConstraints = 3*Horizon + maxLimits
)

// solution is a local optimum of a horizonProblem.
type solution struct {
	plan       [2 * Horizon]float64
	multiplier [maxConstraints]float64 // in the constraint order of System.value
	cost       float64                 // with the epigraph term
	total      [2]float64              // ΣJ₁, ΣJ₂
	kkt        float64                 // see interior.residual
	iterations int
}

// certified reports whether the solve counts as solved.
func (s *solution) certified() bool { return s.kkt <= CertifiedKKT }

// interior is the workspace of the condensed primal-dual interior-point method:
// at most 41 variables and 62 constraints, exact second derivatives, slacks
// g(x) = s, an ℓ₁ merit function and a diagonal shift where the reduced matrix
// is not positive definite. It allocates nothing after its creation and is used
// by one goroutine.
type interior struct {
	system  *System
	current evaluation
	trial   evaluation

	x, dx, xTry     [maxVariables]float64
	gradient        [maxVariables]float64
	s, ds, sTry     [maxConstraints]float64
	z, dz           [maxConstraints]float64
	limitGradient   [maxLimits][maxVariables]float64
	objectiveSum    [2][maxVariables]float64 // ∂ΣJ_i/∂u
	matrix, factors [maxVariables * maxVariables]float64
}

func newInterior(y *System) *interior { return &interior{system: y} }

// improve solves h from start and keeps the result in best where it is certified
// and costs less.
func (w *interior) improve(h *horizonProblem, start []float64, best *solution) {
	var sol solution
	w.solve(h, start, &sol)
	if sol.certified() && sol.cost < best.cost {
		*best = sol
	}
}

// solve runs the method from the plan start (2·steps entries; bounds need not
// hold) and writes the result to out. It always writes the last iterate; only
// out.certified() says whether it is an optimum.
func (w *interior) solve(h *horizonProblem, start []float64, out *solution) {
	w.iterate(h, start, maxIterations, out)
}

// iterate is solve with at most so many iterations.
func (w *interior) iterate(h *horizonProblem, start []float64, most int, out *solution) {
	y := w.system
	n, m := h.variables(), h.constraints()
	copy(w.x[:2*h.steps], start)
	x := w.x[:n]
	if h.epigraph != 0 {
		// τ a little above the limits it carries.
		x[n-1] = 0
		y.value(h, x, &w.current)
		low := 0.0
		for i := range h.limited {
			if l := &h.limits[i]; l.slope > 0 {
				low = max(low, -w.current.g[3*h.steps+i]/l.slope)
			}
		}
		x[n-1] = low + 1
	}
	y.value(h, x, &w.current)
	mu := firstBarrier
	for i := range m {
		w.s[i] = max(w.current.g[i], smallestSlack)
		w.z[i] = mu / w.s[i]
	}
	penalty := 1.0
	iteration := 0
	var kkt float64
	for ; ; iteration++ {
		y.derivatives(h, x, w.z[:m], &w.current)
		w.gradients(h, n)
		kkt = w.residual(h, n, m, 0)
		if kkt <= convergedKKT || iteration == most || math.IsNaN(kkt) {
			break
		}
		for mu > convergedKKT/10 && w.residual(h, n, m, mu) <= barrierReady*mu {
			mu = max(convergedKKT/10, min(barrierFactor*mu, math.Pow(mu, barrierPower)))
		}
		if !w.direction(h, n, m, mu) {
			break
		}
		if !w.advance(h, n, m, mu, &penalty) {
			break
		}
	}
	out.iterations = iteration
	out.kkt = kkt
	if math.IsNaN(kkt) {
		out.kkt = math.Inf(1)
	}
	out.cost = w.current.cost
	if h.epigraph != 0 {
		out.cost += h.epigraph * x[n-1]
	}
	out.total = w.current.total
	copy(out.plan[:], x[:2*h.steps])
	clear(out.plan[2*h.steps:])
	copy(out.multiplier[:], w.z[:m])
	clear(out.multiplier[m:])
}

// gradients condenses the cost's gradient and, where limits are in use, theirs.
func (w *interior) gradients(h *horizonProblem, n int) {
	e := &w.current
	clear(w.gradient[:n])
	w.system.pullBackPositions(h.steps, &e.costQ, w.gradient[:n])
	for t := range h.steps {
		w.gradient[2*t] += e.costU[t][0]
		w.gradient[2*t+1] += e.costU[t][1]
	}
	if h.epigraph != 0 {
		w.gradient[n-1] = h.epigraph
	}
	if h.limited == 0 {
		return
	}
	for i := range w.objectiveSum {
		clear(w.objectiveSum[i][:n])
		w.system.pullBackPositions(h.steps, &e.totalQ[i], w.objectiveSum[i][:n])
	}
	for t := range h.steps {
		w.objectiveSum[1][2*t] += e.totalU[t][0]
		w.objectiveSum[1][2*t+1] += e.totalU[t][1]
	}
	for i := range h.limited {
		l := &h.limits[i]
		g := w.limitGradient[i][:n]
		for j := range 2 * h.steps {
			g[j] = -l.weights[0]*w.objectiveSum[0][j] - l.weights[1]*w.objectiveSum[1][j]
		}
		if h.epigraph != 0 {
			g[n-1] = l.slope
		}
	}
}

// transposed adds Gᵀy to out, G the Jacobian of the constraints.
func (w *interior) transposed(h *horizonProblem, x, y, out []float64) {
	var inQ [Horizon][2]float64
	for t := range h.steps {
		inQ[t] = [2]float64{y[3*t] * w.current.psiQ[t][0], y[3*t] * w.current.psiQ[t][1]}
	}
	w.system.pullBackPositions(h.steps, &inQ, out)
	p1, p2 := h.previous[0], h.previous[1]
	for t := range h.steps {
		u1, u2 := x[2*t], x[2*t+1]
		a, b := 2*y[3*t+1], 2*y[3*t+2]
		out[2*t] -= a*u1 + b*(u1-p1)
		out[2*t+1] -= a*u2 + b*(u2-p2)
		if t > 0 {
			out[2*t-2] += b * (u1 - p1)
			out[2*t-1] += b * (u2 - p2)
		}
		p1, p2 = u1, u2
	}
	for i := range h.limited {
		for j, g := range w.limitGradient[i][:len(out)] {
			out[j] += y[3*h.steps+i] * g
		}
	}
}

// jacobianProduct writes G·d for the direction d in the variables.
func (w *interior) jacobianProduct(h *horizonProblem, x, d, out []float64) {
	k := &w.system.k64
	var m motion[float64]
	p1, p2 := h.previous[0], h.previous[1]
	var dp1, dp2 float64
	for t := range h.steps {
		u1, u2 := x[2*t], x[2*t+1]
		du1, du2 := d[2*t], d[2*t+1]
		m = k.next(m, du1, du2)
		out[3*t] = w.current.psiQ[t][0]*m.q1 + w.current.psiQ[t][1]*m.q2
		out[3*t+1] = -2 * (u1*du1 + u2*du2)
		out[3*t+2] = -2 * ((u1-p1)*(du1-dp1) + (u2-p2)*(du2-dp2))
		p1, p2 = u1, u2
		dp1, dp2 = du1, du2
	}
	for i := range h.limited {
		out[3*h.steps+i] = tensor.Dot(w.limitGradient[i][:len(d)], d)
	}
}

// residual is the largest of stationarity ‖∇f − Gᵀz‖∞/(1 + ‖∇f‖∞), violation
// ‖g − s‖∞ and complementarity ‖zs − μ‖∞/(1 + |f|).
func (w *interior) residual(h *horizonProblem, n, m int, mu float64) float64 {
	var r [maxVariables]float64
	var negative [maxConstraints]float64
	for i := range m {
		negative[i] = -w.z[i]
	}
	copy(r[:n], w.gradient[:n])
	w.transposed(h, w.x[:n], negative[:m], r[:n])
	stationarity, scale := 0.0, 1.0
	for j := range n {
		stationarity = max(stationarity, math.Abs(r[j]))
		scale = max(scale, 1+math.Abs(w.gradient[j]))
	}
	violation, gap := 0.0, 0.0
	for i := range m {
		violation = max(violation, math.Abs(w.current.g[i]-w.s[i]))
		gap = max(gap, math.Abs(w.z[i]*w.s[i]-mu))
	}
	if mu > 0 {
		// The barrier problem is judged on the scale of μ itself.
		return max(stationarity, violation, gap)
	}
	return max(stationarity/scale, violation, gap/(1+math.Abs(w.current.cost)))
}

// direction solves the reduced Newton system
//
//	(∇²L + Gᵀ diag(z/s) G) dx = −∇f + Gᵀ(μ/s − (z/s)(g − s))
//
// and recovers ds and dz. It reports false if no shift made the matrix positive
// definite.
func (w *interior) direction(h *horizonProblem, n, m int, mu float64) bool {
	e := &w.current
	x := w.x[:n]
	var weight, rhs [maxConstraints]float64
	for i := range m {
		weight[i] = w.z[i] / w.s[i]
		rhs[i] = mu/w.s[i] - weight[i]*(e.g[i]-w.s[i])
	}
	// The obstacle acts on positions: its barrier joins their blocks.
	for t := range h.steps {
		a, b, c := e.psiQ[t][0], e.psiQ[t][1], weight[3*t]
		e.hessQ[t][0] += c * a * a
		e.hessQ[t][1] += c * a * b
		e.hessQ[t][2] += c * b * b
	}
	w.system.condense(h.steps, e, &w.matrix)
	w.addActionBlocks(h, x, weight[:m])
	for i := range h.limited {
		g, c := w.limitGradient[i][:n], weight[3*h.steps+i]
		for r := range n {
			row := w.matrix[r*maxVariables:]
			if r == 2*h.steps && i == 0 {
				clear(row[:n])
			}
			tensor.Axpy(c*g[r], g[:r+1], row)
		}
	}

	for j := range n {
		w.dx[j] = -w.gradient[j]
	}
	w.transposed(h, x, rhs[:m], w.dx[:n])

	largest := 0.0
	for j := range n {
		largest = max(largest, math.Abs(w.matrix[j*maxVariables+j]))
	}
	shift := 0.0
	for attempt := 0; ; attempt++ {
		copy(w.factors[:n*maxVariables], w.matrix[:n*maxVariables])
		for j := range n {
			w.factors[j*maxVariables+j] += shift
		}
		if factor(&w.factors, n) {
			break
		}
		if attempt == maxShifts {
			return false
		}
		if shift == 0 {
			shift = firstShift * max(largest, 1) / 64
		} else {
			shift *= shiftGrowth
		}
	}
	solve(&w.factors, n, w.dx[:n])
	w.jacobianProduct(h, x, w.dx[:n], w.ds[:m])
	for i := range m {
		w.ds[i] += e.g[i] - w.s[i]
		w.dz[i] = mu/w.s[i] - w.z[i] - weight[i]*w.ds[i]
	}
	return true
}

// addActionBlocks adds the parts of the matrix that live on the actions: effort,
// and the second derivatives and barriers of input and slew.
func (w *interior) addActionBlocks(h *horizonProblem, x []float64, weight []float64) {
	m := &w.matrix
	p1, p2 := h.previous[0], h.previous[1]
	for t := range h.steps {
		u1, u2 := x[2*t], x[2*t+1]
		r0, r1 := 2*t*maxVariables, (2*t+1)*maxVariables
		c := 4 * weight[3*t+1]
		flat := w.current.hessU[t] + 2*w.z[3*t+1]
		m[r0+2*t] += flat + c*u1*u1
		m[r1+2*t] += c * u1 * u2
		m[r1+2*t+1] += flat + c*u2*u2

		d1, d2 := u1-p1, u2-p2
		c = 4 * weight[3*t+2]
		flat = 2 * w.z[3*t+2]
		xx, xy, yy := flat+c*d1*d1, c*d1*d2, flat+c*d2*d2
		m[r0+2*t] += xx
		m[r1+2*t] += xy
		m[r1+2*t+1] += yy
		if t > 0 {
			m[r0+2*t-2] -= xx
			m[r0+2*t-1] -= xy
			m[r1+2*t-2] -= xy
			m[r1+2*t-1] -= yy
			b0, b1 := (2*t-2)*maxVariables, (2*t-1)*maxVariables
			m[b0+2*t-2] += xx
			m[b1+2*t-2] += xy
			m[b1+2*t-1] += yy
		}
		p1, p2 = u1, u2
	}
}

// advance takes the step: the largest that keeps s and z positive, halved until
// the merit function falls. It reports false if none does.
func (w *interior) advance(h *horizonProblem, n, m int, mu float64, penalty *float64) bool {
	e := &w.current
	alpha, alphaDual := 1.0, 1.0
	violation, slope, logs := 0.0, 0.0, 0.0
	for i := range m {
		if limit := -toBoundary * w.s[i]; w.ds[i] < limit {
			alpha = min(alpha, limit/w.ds[i])
		}
		if limit := -toBoundary * w.z[i]; w.dz[i] < limit {
			alphaDual = min(alphaDual, limit/w.dz[i])
		}
		violation += math.Abs(e.g[i] - w.s[i])
		slope -= mu * w.ds[i] / w.s[i]
		logs += math.Log(w.s[i])
	}
	slope += tensor.Dot(w.gradient[:n], w.dx[:n])
	if violation > 0 {
		*penalty = max(*penalty, slope/(0.7*violation))
	}
	merit := w.cost(h, n, w.x[:n], e) - mu*logs + *penalty*violation
	slope -= *penalty * violation
	rounding := 1e-13 * (1 + math.Abs(merit))
	for range maxHalvings {
		for j := range n {
			w.xTry[j] = w.x[j] + alpha*w.dx[j]
		}
		w.system.value(h, w.xTry[:n], &w.trial)
		violation, logs = 0, 0
		for i := range m {
			// A slack below its constraint's value is raised to it: that lowers
			// both terms of the merit function.
			w.sTry[i] = max(w.s[i]+alpha*w.ds[i], w.trial.g[i])
			violation += math.Abs(w.trial.g[i] - w.sTry[i])
			logs += math.Log(w.sTry[i])
		}
		value := w.cost(h, n, w.xTry[:n], &w.trial) - mu*logs + *penalty*violation
		if value <= merit+armijo*alpha*slope+rounding {
			copy(w.x[:n], w.xTry[:n])
			for i := range m {
				w.s[i] = w.sTry[i]
				w.z[i] += alphaDual * w.dz[i]
				// Keep z near μ/s, as the convergence theory of the line search
				// asks; the bounds are wide.
				w.z[i] = min(max(w.z[i], mu/(1e10*w.s[i])), 1e10*mu/w.s[i])
			}
			w.current = w.trial
			return true
		}
		alpha /= 2
	}
	return false
}

func (w *interior) cost(h *horizonProblem, n int, x []float64, e *evaluation) float64 {
	if h.epigraph != 0 {
		return e.cost + h.epigraph*x[n-1]
	}
	return e.cost
}
