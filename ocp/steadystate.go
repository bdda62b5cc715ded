package ocp

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// steadyStateSolver finds the optimal steady state: the least σᵀJ(s, u; c) of all states with F(s, u; c) = (s, c),
// within the limits. It is a primal–dual interior point method from several starts, with a dense Newton step.
type steadyStateSolver struct {
	q       *program // one stage with a free initial state
	pt      *point
	n, m    int       // variables of (υ, ξ), equations
	w, step []float64 // the iterate, [n]; the step of w and of the equations' multipliers, [n+m]
	base    []float64 // [nx]: inactive components, and the origin of the active ones
	middle  []float64 // [ns]: of the states' ranges, and of the scenario where a state has none
	half    []float64 // [ns]: half widths of the ranges, and the states' scales without one
	slack   []float64 // of the margins
	z       []float64
	zl, zu  []float64
	lambda  []float64 // [2][m] as in a program; the transition's are in the second row
	kkt     []float64
	r       riccati
}

// newSteadyStateSolver finds the active components, by the stages' list or along a roll-out from the middle. start is a
// state of the scenario.
func newSteadyStateSolver(p domain.Problem, scale, start, c []float64) *steadyStateSolver {
	q := newProgram(p, scale)
	r := &steadyStateSolver{q: q, pt: new(point), base: make([]float64, q.nx), middle: slices.Clone(start), half: slices.Clone(q.scale[:q.ns])}
	if q.stagesErr != nil {
		return r // setPreference fails
	}
	for i, v := range q.spec.Measured {
		if v.Bounded() {
			r.middle[i], r.half[i] = v.Middle(), v.Half()
		}
	}
	copy(r.base[copy(r.base, r.middle):], c)
	q.terminal = newTerminalCost(q)
	q.setWeights(false, make([]float64, q.no))
	q.layout(min(8, q.spec.LookAhead()))
	q.resize(r.pt)
	copy(r.pt.x, r.base)
	if q.staged != nil {
		q.discoverStages(r.pt)
	} else {
		q.roll(r.pt)
		q.discover(r.pt)
	}
	q.initialFree = true
	q.layout(1)
	q.resize(r.pt)
	r.n, r.m = q.d, q.nX
	k := r.n + r.m
	for _, b := range []struct {
		buffer *[]float64
		size   int
	}{{&r.w, r.n}, {&r.step, k}, {&r.slack, q.nm}, {&r.z, q.nm}, {&r.zl, q.nu}, {&r.zu, q.nu}, {&r.lambda, 2 * r.m}, {&r.kkt, k * k}} {
		*b.buffer = make([]float64, b.size)
	}
	r.r.resize(make([]bool, 1), q.nu, q.nX, false)
	return r
}

const (
	// Starts of a search: the middle, then random points; up to mostStarts until a steady state is inside the ranges.
	steadyStarts, mostStarts = 9, 36
	// Cells per range of a context's entry.
	contextCells = 8
)

// Constants of a solve.
const (
	steadyTolerance  = 1e-9 // on the optimality conditions, in the program's units
	steadyBarrier    = 1e-10
	steadyIterations = 150
	// First barrier parameter and least slack: of a cold start, and of a warm one.
	coldBarrier, coldSlack = 0.1, 0.1
	warmBarrier, warmSlack = 1e-6, 1e-4
)

// cellCentre moves every inactive, bounded entry of a context to the middle of its cell.
func (r *steadyStateSolver) cellCentre(c []float64) []float64 {
	centre := slices.Clone(c)
	for i, v := range r.q.spec.Context {
		if width := (v.Hi - v.Lo) / contextCells; v.Bounded() && width > 0 && !r.q.isActive[r.q.ns+i] {
			centre[i] = v.Lo + width*(math.Floor((c[i]-v.Lo)/width)+0.5)
		}
	}
	return centre
}

// warmSolve is the terminal cost of a context, solved from the steady state of a neighbouring one; nil where that
// fails.
func (r *steadyStateSolver) warmSolve(c []float64, pref domain.Preference, neighbour *terminalCost) *terminalCost {
	q := r.q
	if !r.setPreference(pref) {
		return nil
	}
	copy(r.base, neighbour.At)
	for i, v := range c {
		if !q.isActive[q.ns+i] {
			r.base[q.ns+i] = v
		}
	}
	clear(r.w)
	clear(r.lambda)
	r.setAction(neighbour.action, warmSlack)
	for i, a := range q.active {
		r.lambda[r.m+i] = neighbour.Slope[a]
	}
	if !r.converges(warmBarrier, warmSlack) {
		return nil
	}
	return r.terminalCost()
}

// setPreference sets the objective; false where the problem's stages failed.
func (r *steadyStateSolver) setPreference(pref domain.Preference) bool {
	if r.q.stagesErr != nil {
		return false
	}
	r.q.setWeights(pref.Adaptive, pref.W)
	r.q.layout(1)
	return true
}

// setAction starts from an action, at least slack inside its box.
func (r *steadyStateSolver) setAction(action []float64, slack float64) {
	q := r.q
	for j, u := range action {
		if r.w[j] = q.scaled(j, u); q.bounded[j] {
			r.w[j] = math.Max(slack-1, math.Min(1-slack, r.w[j]))
		}
	}
}

// converges solves from the iterate. The result must be steady in every component and not a lost state.
func (r *steadyStateSolver) converges(mu, slack float64) bool {
	q := r.q
	return r.minimise(mu, slack) && !q.abilities.Lost(r.pt.x[:q.ns], r.pt.x[q.ns:q.nx]) && r.isSteady()
}

// solve is the terminal cost of a context and a preference from all starts; nil where no steady state is found.
func (r *steadyStateSolver) solve(c []float64, pref domain.Preference) *terminalCost {
	q := r.q
	if !r.setPreference(pref) {
		return nil
	}
	var best *terminalCost
	draw := splitmix(0x7265_7374) // "rest"
	for k := 0; k < steadyStarts || k < mostStarts && best != nil && best.excess > sameExcess; k++ {
		copy(r.base[q.ns:], c)
		for i, middle := range r.middle {
			if r.base[i] = middle; k > 0 {
				r.base[i] += 0.8 * r.half[i] * draw()
			}
		}
		q.problem.Fallback(r.base[:q.ns], r.base[q.ns:], q.step[:q.nu])
		r.setAction(q.step[:q.nu], coldSlack)
		for i := range q.active {
			r.w[q.nu+i] = 0
		}
		// Active context entries start at their first image: they may remember the action.
		r.evaluate()
		for _, a := range q.active {
			if a >= q.ns {
				r.base[a] = r.pt.image[a]
			}
		}
		clear(r.lambda)
		if !r.converges(coldBarrier, coldSlack) {
			continue
		}
		if best == nil || r.rank().better(&best.rank) {
			best = r.terminalCost()
		}
	}
	return best
}

// rank orders steady states.
type rank struct {
	excess   float64 // largest distance of a state from its declared range beyond its rim, in ranges
	cost     float64 // of a stage
	distance float64 // from the middle, squared, in half ranges
}

// Differences that do not count, and how far outside of a range, in ranges, a steady state may be as if it were inside:
// ranges are usual ones, and a far cheaper state may lie at their rim.
const (
	rim        = 0.05
	sameExcess = 1e-6
	sameCost   = 1e-7
)

// better prefers a steady state inside the declared ranges, then a cheaper one, then that nearer to the middle. Where
// equations are even in a state, each steady state has a mirror image. Rounding or a penalty decides which is cheaper.
func (a *rank) better(b *rank) bool {
	if math.Abs(a.excess-b.excess) > sameExcess {
		return a.excess < b.excess
	}
	if math.Abs(a.cost-b.cost) > sameCost*(1+math.Abs(b.cost)) {
		return a.cost < b.cost
	}
	return a.distance < b.distance-sameExcess
}

// rank is that of the iterate.
func (r *steadyStateSolver) rank() *rank {
	k := &rank{cost: r.pt.f}
	excess, _ := domain.Excess(r.pt.x, r.q.spec.Measured)
	k.excess = math.Max(0, excess-rim)
	for i, middle := range r.middle {
		d := (r.pt.x[i] - middle) / r.half[i]
		k.distance += d * d
	}
	return k
}

// splitmix draws numbers in [−1, 1), the same for the same seed.
func splitmix(seed uint64) func() float64 {
	return func() float64 {
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return float64((z^z>>31)>>11)/(1<<52) - 1
	}
}

// evaluate evaluates the functions at the iterate.
func (r *steadyStateSolver) evaluate() {
	q := r.q
	copy(r.pt.x, r.base)
	for i, a := range q.active {
		r.pt.x[a] += q.scale[a] * r.w[q.nu+i]
	}
	copy(r.pt.x[q.nx:], r.pt.x[:q.nx])
	copy(r.pt.v, r.w[:q.nu])
	q.evaluate(r.pt, false)
}

// isSteady reports whether the inactive components keep their values too.
func (r *steadyStateSolver) isSteady() bool {
	q := r.q
	for a, moves := range q.isActive {
		if x := r.pt.x[a]; !moves && !(math.Abs(r.pt.image[a]-x) <= 1e-9*(1+math.Abs(x))) {
			return false
		}
	}
	return true
}

// transitionSlope is the derivative of F − ξ, row i, by variable col.
func (r *steadyStateSolver) transitionSlope(i, col int) float64 {
	v := r.q.next[i*r.n+col]
	if col == r.q.nu+i {
		v--
	}
	return v
}

// minimise solves from the iterate and its multipliers with a first barrier parameter and slacks of at least slack.
// It returns false where it does not converge.
func (r *steadyStateSolver) minimise(mu, slack float64) bool {
	q := r.q
	if r.evaluate(); !q.finite(r.pt) || !r.isSteady() {
		return false
	}
	for i, g := range r.pt.g {
		r.slack[i] = math.Max(slack, g)
		r.z[i] = mu / r.slack[i]
	}
	for j, v := range r.w[:q.nu] {
		r.zl[j], r.zu[j] = 0, 0
		if q.bounded[j] {
			r.zl[j], r.zu[j] = mu/(1+v), mu/(1-v)
		}
	}
	penalty := 1.0
	for range steadyIterations {
		q.differentiate(r.pt)
		if r.residual(0) <= steadyTolerance {
			return true
		}
		for mu > steadyBarrier && r.residual(mu) <= 10*mu {
			mu = math.Max(steadyBarrier, math.Min(0.2*mu, math.Pow(mu, 1.5)))
		}
		if !r.newtonStep(mu) {
			return false
		}
		for i := range r.m {
			penalty = math.Max(penalty, 2*math.Abs(r.lambda[r.m+i]+r.step[r.n+i]))
		}
		for _, z := range r.z {
			penalty = math.Max(penalty, 2*z)
		}
		if !r.lineSearch(mu, penalty) {
			return false
		}
	}
	return false
}

// residual is the largest residual of the optimality conditions with barrier parameter mu.
func (r *steadyStateSolver) residual(mu float64) float64 {
	q, worst := r.q, 0.0
	include := func(v float64) {
		if !(math.Abs(v) <= worst) && worst == worst {
			worst = math.Abs(v)
		}
	}
	for col := range r.n {
		v := r.lagrangianSlope(col)
		if col < q.nu {
			v += r.zu[col] - r.zl[col]
			if q.bounded[col] {
				include(r.zl[col]*(1+r.w[col]) - mu)
				include(r.zu[col]*(1-r.w[col]) - mu)
			}
		}
		include(v)
	}
	for _, v := range r.pt.defect[:r.m] {
		include(v)
	}
	for i, g := range r.pt.g {
		include(g - r.slack[i])
		include(r.slack[i]*r.z[i] - mu)
	}
	return worst
}

// lagrangianSlope is the derivative of the Lagrangian by variable col, without the box.
func (r *steadyStateSolver) lagrangianSlope(col int) float64 {
	v := r.q.objective[col]
	for i := range r.m {
		v += r.lambda[r.m+i] * r.transitionSlope(i, col)
	}
	for i, z := range r.z {
		v -= z * r.q.margins[i*r.n+col]
	}
	return v
}

// newtonStep writes the step of the variables and of the equations' multipliers.
func (r *steadyStateSolver) newtonStep(mu float64) bool {
	q, n, k := r.q, r.n, r.n+r.m
	q.hessian(r.pt, mu, 1, r.z, r.lambda)
	for shift := 0.0; shift < 1e8; shift = math.Max(1e-8, 10*shift) {
		clear(r.kkt)
		for a := range n {
			for b := range a + 1 {
				v := q.h[a*n+b]
				for i, z := range r.z {
					v += z / r.slack[i] * q.margins[i*n+a] * q.margins[i*n+b]
				}
				r.kkt[a*k+b], r.kkt[b*k+a] = v, v
			}
			if r.kkt[a*k+a] += shift; a < q.nu && q.bounded[a] {
				r.kkt[a*k+a] += r.zl[a]/(1+r.w[a]) + r.zu[a]/(1-r.w[a])
			}
			v := q.objective[a]
			for i := range r.m {
				v += r.lambda[r.m+i] * r.transitionSlope(i, a)
			}
			for i, g := range r.pt.g {
				// The slack's step is the margin's step plus g − s.
				v -= (mu/r.slack[i] + r.z[i]/r.slack[i]*(r.slack[i]-g)) * q.margins[i*n+a]
			}
			if a < q.nu && q.bounded[a] {
				v += mu/(1-r.w[a]) - mu/(1+r.w[a])
			}
			r.step[a] = -v
		}
		if !r.isConvex(n, k) {
			continue
		}
		for i := range r.m {
			for a := range n {
				v := r.transitionSlope(i, a)
				r.kkt[(n+i)*k+a], r.kkt[a*k+n+i] = v, v
			}
			r.kkt[(n+i)*k+n+i] = -1e-12
			r.step[n+i] = -r.pt.defect[i]
		}
		return solveLinear(r.kkt, r.step, k)
	}
	return false
}

// isConvex reports whether the Hessian in kkt is positive definite on the null space of the equations: adding their
// weighted squares makes it positive definite everywhere.
func (r *steadyStateSolver) isConvex(n, k int) bool {
	largest := 1.0
	for a := range n {
		largest = math.Max(largest, math.Abs(r.kkt[a*k+a]))
	}
	m := make([]float64, n*n)
	for a := range n {
		for b := range a + 1 {
			v := r.kkt[a*k+b]
			for i := range r.m {
				v += 1e4 * largest * r.transitionSlope(i, a) * r.transitionSlope(i, b)
			}
			m[a*n+b] = v
		}
	}
	return cholesky(m, n, make([]float64, n*n), n)
}

// solveLinear solves a x = b in place, a [k][k]; false where a is singular.
func solveLinear(a, b []float64, k int) bool {
	var lu mat.LU
	lu.Factorize(mat.NewDense(k, k, a))
	x := mat.NewVecDense(k, b)
	err := lu.SolveVecTo(x, false, x)
	var condition mat.Condition
	return (err == nil || errors.As(err, &condition) && !math.IsInf(float64(condition), 1)) && tensor.Finite(b)
}

// merit is the barrier function plus penalty times the residuals of the equations.
func (r *steadyStateSolver) merit(mu, penalty float64) float64 {
	q := r.q
	sum := r.pt.f
	for _, v := range r.pt.defect[:r.m] {
		sum += penalty * math.Abs(v)
	}
	for i, g := range r.pt.g {
		sum += penalty*math.Abs(g-r.slack[i]) - mu*math.Log(r.slack[i])
	}
	for j, v := range r.w[:q.nu] {
		if q.bounded[j] {
			sum -= mu * math.Log((1+v)*(1-v))
		}
	}
	return sum
}

// lineSearch halves the step until the merit falls; false where it never does. The slacks are those of least merit: those
// of a linear prediction are off where margins curve, which would cut the step.
func (r *steadyStateSolver) lineSearch(mu, penalty float64) bool {
	q, n := r.q, r.n
	const fraction = 0.99
	primal, dual := 1.0, 1.0
	ds, dz := make([]float64, q.nm), make([]float64, q.nm)
	dzl, dzu := make([]float64, q.nu), make([]float64, q.nu)
	for i, g := range r.pt.g {
		ds[i] = tensor.DotInOrder(q.margins[i*n:(i+1)*n], r.step[:n]) + g - r.slack[i]
		dz[i] = mu/r.slack[i] - r.z[i] - r.z[i]/r.slack[i]*ds[i]
		primal, dual = boundary(primal, fraction*r.slack[i], ds[i]), boundary(dual, fraction*r.z[i], dz[i])
	}
	for j, v := range r.w[:q.nu] {
		if !q.bounded[j] {
			continue
		}
		toLower, toUpper, step := 1+v, 1-v, r.step[j]
		dzl[j], dzu[j] = mu/toLower-r.zl[j]-r.zl[j]/toLower*step, mu/toUpper-r.zu[j]+r.zu[j]/toUpper*step
		primal = boundary(boundary(primal, fraction*toLower, step), fraction*toUpper, -step)
		dual = boundary(boundary(dual, fraction*r.zl[j], dzl[j]), fraction*r.zu[j], dzu[j])
	}
	start := r.merit(mu, penalty)
	w := append([]float64(nil), r.w...)
	noise := 1e-13 * (1 + math.Abs(start))
	for range halvings {
		for i := range r.w {
			r.w[i] = w[i] + primal*r.step[i]
		}
		r.evaluate()
		for i, g := range r.pt.g {
			r.slack[i] = math.Max(g, mu/penalty)
		}
		if q.finite(r.pt) && r.merit(mu, penalty) <= start+noise {
			for i := range r.m {
				r.lambda[r.m+i] += primal * r.step[n+i]
			}
			tensor.Axpy(dual, dz, r.z)
			tensor.Axpy(dual, dzl, r.zl)
			tensor.Axpy(dual, dzu, r.zu)
			return true
		}
		primal /= 2
	}
	return false
}

// Constants of the Riccati recursion. It ends where the cost-to-go changes by at most the share regulatorChange. Where
// regulatorSteps steps do not suffice, doublings follow, and then steps again. Newton's method (Kleinman, 1968) fails
// where steady states form a continuum. The feedback does not lead from one to another, so errors in the stationary cost
// accumulate without bound.
const (
	regulatorChange    = 1e-11
	regulatorSteps     = 30
	regulatorDoublings = 24
)

// terminalCost is that of the steady state that minimise found. P is the limit of the cost-to-go of n steps without a
// terminal cost. An action at its bound stays there. Active limits count through their multipliers in g. They add
// nothing to P, as moving inside of them is free.
func (r *steadyStateSolver) terminalCost() *terminalCost {
	q := r.q
	terminal := newTerminalCost(q)
	copy(terminal.At, r.pt.x)
	terminal.action, terminal.rank = append([]float64(nil), r.pt.u[:q.nu]...), *r.rank()
	for i, a := range q.active {
		terminal.Slope[a] = r.lambda[r.m+i]
	}
	q.hessian(r.pt, steadyBarrier, 1, r.z, r.lambda)
	for j := range q.nu {
		if q.bounded[j] {
			q.h[j*q.d+j] += r.zl[j]/(1+r.w[j]) + r.zu[j]/(1-r.w[j])
		}
	}
	size := r.m * r.m
	costToGo, nextCost := r.r.P[:size], r.r.P[size:]
	clear(nextCost)
	for k := range 2 * regulatorSteps {
		if !r.r.factor(q.h, q.next, 0, 0) || !tensor.Finite(costToGo) {
			return terminal // P did not converge: first order only
		}
		if floats.Distance(costToGo, nextCost, math.Inf(1)) <= regulatorChange*floats.Norm(costToGo, math.Inf(1)) {
			for i, a := range q.active {
				for k, b := range q.active {
					terminal.Curvature[a*q.nx+b] = costToGo[i*r.m+k]
				}
			}
			terminal.gains = r.feedbackGains()
			return terminal
		}
		if k != regulatorSteps {
			copy(nextCost, costToGo)
		} else if !r.double(costToGo, nextCost) {
			return terminal
		}
	}
	return terminal
}

// double writes the limit of the recursion into nextCost, the cost-to-go before its last step, which led to costToGo. It
// adds that of the system under the feedback of this step, by structure-preserving doubling (Chu, Fan, Lin and Wang, 2004).
// Each doubling stands for twice the steps. It returns false where they do not converge.
func (r *steadyStateSolver) double(costToGo, nextCost []float64) bool {
	m, nu, gains := r.m, r.q.nu, r.feedbackGains()
	// ξ⁺ = a ξ + z υ under the feedback, at a cost of ½ υᵀυ + ½ ξᵀh ξ.
	a, z, h := mat.NewDense(m, m, nil), mat.NewDense(m, nu, nil), mat.NewDense(m, m, slices.Clone(costToGo))
	for i := range m {
		row, zi := r.q.next[i*r.n:(i+1)*r.n], z.RawRowView(i)
		copy(a.RawRowView(i), row[nu:])
		for j, v := range row[:nu] {
			for k, active := range r.q.active {
				a.RawRowView(i)[k] += v * gains[j*r.q.nx+active]
			}
			zi[j] = (v - tensor.DotInOrder(r.r.l[j*nu:j*nu+j], zi[:j])) / r.r.l[j*nu+j]
		}
	}
	h.Sub(h, mat.NewDense(m, m, nextCost))
	var g, w, next, added mat.Dense
	g.Mul(z, z.T())
	for range regulatorDoublings {
		w.Mul(&g, h)
		for i := range m {
			w.Set(i, i, w.At(i, i)+1)
		}
		if w.Inverse(&w) != nil {
			return false
		}
		next.Mul(&w, a)
		added.Product(a.T(), h, &next)
		if h.Add(h, &added); mat.Norm(&added, 2) <= regulatorChange*mat.Norm(h, 2) {
			tensor.Axpy(1, h.RawMatrix().Data, nextCost)
			return true
		}
		added.Product(a, &w, &g, a.T())
		g.Add(&g, &added)
		a.Mul(a, &next)
	}
	return false
}

// feedbackGains are the gains of the last factorisation.
func (r *steadyStateSolver) feedbackGains() []float64 {
	q := r.q
	k, xi, u := make([]float64, q.nu*q.nx), make([]float64, r.m), make([]float64, q.nu)
	for i, a := range q.active {
		clear(u)
		xi[i] = 1
		r.r.feedback(0, xi, u)
		xi[i] = 0
		for j, v := range u {
			k[j*q.nx+a] = v
		}
	}
	return k
}
