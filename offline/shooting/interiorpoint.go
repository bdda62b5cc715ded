package shooting

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/tensor"
)

// The interior point method minimises f subject to g ≥ 0 and a box. Each
// constraint is elastic: g + v = s with s, v > 0 and v charged ρ in the
// objective, an exact penalty, so that a start need not be feasible and an
// infeasible problem still has a solution, at which v says how far it is off.
// For given g both s and v have a closed form that keeps the barrier problem's
// conditions s·z = μ and v·(ρ − z) = μ for one z, so the iteration lives in the
// variables alone: a Newton step on the barrier function, condensed to n × n,
// with the primal–dual curvature of Fiacco and McCormick's method in the form
// of Wächter and Biegler (2006), whose rules for μ, the fraction to the
// boundary and the reset of multipliers it follows.

// ipmOptions of one solve.
type ipmOptions struct {
	tolerance  float64 // of the scaled KKT residual
	iterations int
	mu         float64 // first barrier parameter
}

// ipmResult is the last iterate.
type ipmResult struct {
	x          []float64
	f          float64
	kkt        float64 // scaled KKT residual of the problem itself: stationarity, violation, complementarity
	violation  float64 // largest −g
	iterations int
}

// ipm is the state of one solve.
type ipm struct {
	q                *program
	opt              ipmOptions
	n, m             int
	objectiveScale   float64
	rho, mu          float64
	x, lo, hi        []float64
	f                float64
	g, df, dg        []float64
	s, v, z          []float64 // per constraint
	zl, zu           []float64 // of the box
	h                []float64
	rhs, dx, trial   []float64
	tg, ts, tv, dual []float64
	iterations       int
	shift            float64 // last diagonal shift that made the step matrix definite
}

func newIPM(q *program, start []float64, opt ipmOptions) *ipm {
	n, m := q.variables(), q.constraints()
	p := &ipm{q: q, opt: opt, n: n, m: m}
	for _, b := range []*[]float64{&p.x, &p.lo, &p.hi, &p.df, &p.zl, &p.zu, &p.rhs, &p.dx, &p.trial} {
		*b = make([]float64, n)
	}
	for _, b := range []*[]float64{&p.g, &p.s, &p.v, &p.z, &p.tg, &p.ts, &p.tv, &p.dual} {
		*b = make([]float64, m)
	}
	p.dg, p.h = make([]float64, m*n), make([]float64, n*n)
	q.bounds(p.lo, p.hi)
	for i, x := range start {
		// A start on the box is moved inside by one percent of its width.
		p.x[i] = math.Max(p.lo[i]+0.01*(p.hi[i]-p.lo[i]), math.Min(p.hi[i]-0.01*(p.hi[i]-p.lo[i]), x))
		if math.IsInf(p.lo[i], 0) {
			p.x[i] = x
		}
	}
	return p
}

// Penalties of a violated constraint, in units of the scaled objective per unit
// of g; the second is used when the first was too weak for a feasible problem.
const (
	firstPenalty  = 1e3
	secondPenalty = 1e6
)

// minimise solves the program. feasible is false when minimising the violation
// alone ends at a stationary point that still violates a constraint by more
// than the tolerance.
func (p *ipm) minimise() (r ipmResult, feasible bool) {
	p.f = p.q.values(p.x, p.g)
	if !finite(p.f, p.g) {
		return ipmResult{x: p.x, kkt: math.Inf(1), violation: math.Inf(1)}, true
	}
	p.q.derivatives(p.df, p.dg)
	largest := 0.0
	for _, d := range p.df {
		largest = math.Max(largest, math.Abs(d))
	}
	// The objective is scaled to a largest first derivative of one, a start near
	// the optimum excepted.
	scale := 1 / math.Max(largest, math.Max(1e-3*math.Abs(p.f), 1e-8))
	p.rho = firstPenalty
	r = p.run(scale)
	if r.violation <= p.opt.tolerance {
		return r, true
	}
	p.rho = 1
	feasibility := p.run(0)
	if feasibility.violation > p.opt.tolerance {
		// Only a stationary point of the violation says that there is no feasible
		// point near; an iteration that stalled says nothing.
		return r, feasibility.kkt > math.Sqrt(p.opt.tolerance)
	}
	p.rho = secondPenalty
	return p.run(scale), true
}

func finite(f float64, g []float64) bool { return f-f == 0 && tensor.Finite(g) }

// slacks writes s and v for constraint values g.
func (p *ipm) slacks(g, s, v []float64) {
	for i, gi := range g {
		// v solves ρ = μ/v + μ/(g+v); the larger of s and v is computed without
		// cancellation, the smaller from the barrier conditions' symmetry.
		root := math.Hypot(p.rho*gi, 2*p.mu)
		if gi >= 0 {
			s[i] = (2*p.mu + p.rho*gi + root) / (2 * p.rho)
			v[i] = 1 / (p.rho/p.mu - 1/s[i])
		} else {
			v[i] = (2*p.mu - p.rho*gi + root) / (2 * p.rho)
			s[i] = 1 / (p.rho/p.mu - 1/v[i])
		}
	}
}

// barrier is the function of the line search.
func (p *ipm) barrier(x []float64, f float64, s, v []float64) float64 {
	sum := p.objectiveScale * f
	for i := range s {
		sum += p.rho*v[i] - p.mu*(math.Log(s[i])+math.Log(v[i]))
	}
	for i, xi := range x {
		if !math.IsInf(p.lo[i], 0) {
			sum -= p.mu * (math.Log(xi-p.lo[i]) + math.Log(p.hi[i]-xi))
		}
	}
	return sum
}

// run iterates from the current point with the current penalty.
func (p *ipm) run(objectiveScale float64) ipmResult {
	p.objectiveScale, p.mu = objectiveScale, p.opt.mu
	p.f = p.q.values(p.x, p.g)
	p.q.derivatives(p.df, p.dg)
	p.slacks(p.g, p.s, p.v)
	for i := range p.z {
		p.z[i] = p.mu / p.s[i]
	}
	for i := range p.x {
		p.zl[i], p.zu[i] = 0, 0
		if !math.IsInf(p.lo[i], 0) {
			p.zl[i], p.zu[i] = p.mu/(p.x[i]-p.lo[i]), p.mu/(p.hi[i]-p.x[i])
		}
	}
	smallest := p.opt.tolerance / 20
	for range p.opt.iterations {
		kkt, violation := p.residual(0)
		if kkt <= p.opt.tolerance || objectiveScale == 0 && violation == 0 {
			break
		}
		for p.mu > smallest {
			if e, _ := p.residual(p.mu); e > 10*p.mu {
				break
			}
			p.mu = math.Max(smallest, math.Min(0.2*p.mu, math.Pow(p.mu, 1.5)))
			p.slacks(p.g, p.s, p.v)
		}
		p.iterations++
		if !p.step() {
			break
		}
	}
	kkt, violation := p.residual(0)
	return ipmResult{x: p.x, f: p.f, kkt: kkt, violation: violation, iterations: p.iterations}
}

// residual is the largest entry of the optimality conditions with barrier
// parameter mu, scaled as Wächter and Biegler (2006), eq. 5: by the mean size of
// the multipliers where that exceeds 100. For mu = 0 they are those of the
// problem itself, and the violation −g is part of them.
func (p *ipm) residual(mu float64) (kkt, violation float64) {
	sum := 0.0
	for _, z := range p.z {
		sum += z
	}
	for i := range p.zl {
		sum += p.zl[i] + p.zu[i]
	}
	scale := math.Max(1, sum/float64(p.m+2*p.n)/100)
	worst := 0.0
	for j := range p.n {
		r := p.objectiveScale*p.df[j] - p.zl[j] + p.zu[j]
		for i, z := range p.z {
			r -= z * p.dg[i*p.n+j]
		}
		worst = math.Max(worst, math.Abs(r)/scale)
		if !math.IsInf(p.lo[j], 0) {
			worst = math.Max(worst, math.Abs(p.zl[j]*(p.x[j]-p.lo[j])-mu)/scale)
			worst = math.Max(worst, math.Abs(p.zu[j]*(p.hi[j]-p.x[j])-mu)/scale)
		}
	}
	for i, z := range p.z {
		violation = math.Max(violation, -p.g[i])
		if mu > 0 {
			worst = math.Max(worst, math.Abs(p.s[i]*z-mu)/scale)
			worst = math.Max(worst, math.Abs(p.v[i]*(p.rho-z)-mu)/scale)
		} else {
			worst = math.Max(worst, z*math.Max(p.g[i], 0)/scale)
		}
	}
	if mu == 0 && p.objectiveScale > 0 {
		worst = math.Max(worst, violation)
	}
	if mu == 0 && p.objectiveScale == 0 && violation > 0 {
		// Minimising the violation: the elastic part has its own complementarity.
		for i, z := range p.z {
			worst = math.Max(worst, (p.rho-z)*math.Max(-p.g[i], 0)/scale)
		}
	}
	return worst, violation
}

// step takes one Newton step on the barrier function; false when no progress is
// possible.
func (p *ipm) step() bool {
	n := p.n
	p.q.hessian(p.objectiveScale, p.z, p.h)
	for j := range n {
		p.rhs[j] = -p.objectiveScale * p.df[j]
		if !math.IsInf(p.lo[j], 0) {
			below, above := p.x[j]-p.lo[j], p.hi[j]-p.x[j]
			p.h[j*n+j] += p.zl[j]/below + p.zu[j]/above
			p.rhs[j] += p.mu/below - p.mu/above
		}
	}
	for i := range p.m {
		row := p.dg[i*n : (i+1)*n]
		target := p.mu / p.s[i]
		weight := 1 / (p.s[i]/p.z[i] + p.v[i]/(p.rho-p.z[i]))
		for a, ga := range row {
			if ga == 0 {
				continue
			}
			p.rhs[a] += target * ga
			// The lower triangle only; rows of early stages end early.
			h, w := p.h[a*n:a*n+a+1], weight*ga
			for b, gb := range row[:a+1] {
				h[b] += w * gb
			}
		}
	}
	if !p.solve() {
		return false
	}
	slope := 0.0
	for j, d := range p.dx {
		slope -= p.rhs[j] * d // ∇φᵀ dx
	}
	fraction := math.Max(0.99, 1-p.mu)
	alpha := 1.0
	for j, d := range p.dx {
		if math.IsInf(p.lo[j], 0) || d == 0 {
			continue
		}
		room := p.hi[j] - p.x[j]
		if d < 0 {
			room = p.x[j] - p.lo[j]
		}
		alpha = math.Min(alpha, fraction*room/math.Abs(d))
	}
	now := p.barrier(p.x, p.f, p.s, p.v)
	// Below this the barrier function cannot tell two points apart.
	noise := 10 * 2.2e-16 * math.Abs(now)
	for try := 0; ; try++ {
		if try == 40 {
			return false
		}
		for j, d := range p.dx {
			p.trial[j] = p.x[j] + alpha*d
		}
		f := p.q.values(p.trial, p.tg)
		if finite(f, p.tg) {
			p.slacks(p.tg, p.ts, p.tv)
			if phi := p.barrier(p.trial, f, p.ts, p.tv); phi <= now+1e-4*alpha*slope+noise {
				p.f = f
				break
			}
		}
		alpha /= 2
	}
	p.multipliers(fraction)
	p.x, p.trial = p.trial, p.x
	p.g, p.tg = p.tg, p.g
	p.s, p.ts = p.ts, p.s
	p.v, p.tv = p.tv, p.v
	p.reset()
	p.q.derivatives(p.df, p.dg)
	return true
}

// solve computes dx from the lower triangle of h and rhs, shifting the diagonal until h is positive
// definite.
func (p *ipm) solve() bool {
	n := p.n
	largest := 0.0
	for j := range n {
		largest = math.Max(largest, math.Abs(p.h[j*n+j]))
	}
	if math.IsNaN(largest) || math.IsInf(largest, 0) {
		return false
	}
	var chol mat.Cholesky
	data := make([]float64, n*n)
	shift := 0.0
	for {
		for i := range n {
			for j := range i + 1 {
				data[j*n+i] = p.h[i*n+j] // gonum reads the upper triangle
			}
			data[i*n+i] += shift
		}
		if chol.Factorize(mat.NewSymDense(n, data)) {
			break
		}
		switch {
		case shift == 0:
			shift = math.Max(1e-8*largest, p.shift/3)
			if shift == 0 {
				shift = 1e-8
			}
		default:
			shift *= 8
		}
		if shift > 1e12*math.Max(1, largest) {
			return false
		}
	}
	p.shift = shift
	// A matrix that is nearly singular still gives a direction of descent, which
	// the line search judges; gonum's condition error is no failure here.
	dx := mat.NewVecDense(n, p.dx)
	_ = chol.SolveVecTo(dx, mat.NewVecDense(n, p.rhs))
	return !math.IsNaN(mat.Sum(dx))
}

// multipliers moves z, zl and zu along their Newton directions.
func (p *ipm) multipliers(fraction float64) {
	alpha := 1.0
	shorten := func(value, step float64) {
		if step < 0 {
			alpha = math.Min(alpha, -fraction*value/step)
		}
	}
	for i := range p.dual {
		slope := 0.0
		for j, d := range p.dx {
			slope += p.dg[i*p.n+j] * d
		}
		p.dual[i] = p.mu/p.s[i] - p.z[i] - slope/(p.s[i]/p.z[i]+p.v[i]/(p.rho-p.z[i]))
		shorten(p.z[i], p.dual[i])
		shorten(p.rho-p.z[i], -p.dual[i])
	}
	box := func(j int) (dl, du float64) {
		below, above := p.x[j]-p.lo[j], p.hi[j]-p.x[j]
		return p.mu/below - p.zl[j] - p.zl[j]/below*p.dx[j], p.mu/above - p.zu[j] + p.zu[j]/above*p.dx[j]
	}
	for j := range p.x {
		if !math.IsInf(p.lo[j], 0) {
			dl, du := box(j)
			shorten(p.zl[j], dl)
			shorten(p.zu[j], du)
		}
	}
	for i, d := range p.dual {
		p.z[i] += alpha * d
	}
	for j := range p.x {
		if !math.IsInf(p.lo[j], 0) {
			dl, du := box(j)
			p.zl[j] += alpha * dl
			p.zu[j] += alpha * du
		}
	}
}

// reset keeps multipliers within a wide factor of their barrier values at the
// new point, Wächter and Biegler (2006), eq. 16.
func (p *ipm) reset() {
	const kappa = 1e10
	clamp := func(z, slack float64) float64 {
		return math.Max(p.mu/(kappa*slack), math.Min(kappa*p.mu/slack, z))
	}
	for i := range p.z {
		p.z[i] = clamp(p.z[i], p.s[i])
		p.z[i] = p.rho - clamp(p.rho-p.z[i], p.v[i])
		p.z[i] = math.Max(p.z[i], 1e-300)
	}
	for j := range p.x {
		if !math.IsInf(p.lo[j], 0) {
			p.zl[j] = clamp(p.zl[j], p.x[j]-p.lo[j])
			p.zu[j] = clamp(p.zu[j], p.hi[j]-p.x[j])
		}
	}
}
