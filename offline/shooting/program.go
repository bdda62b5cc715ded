package shooting

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// program is the transcription of one finite-horizon problem by single
// shooting: the variables are the actions, scaled to [−1, 1] by their box, and,
// where totals need it, one bound τ; states follow from the dynamics.
//
//	min  τCost·τ + Σ_t ω_tᵀJ(s_t, u_t; c_t)
//	s.t. margins(s_t, c_t, u_t) ≥ 0        for every t
//	     a τ + b − eᵀ Σ_t J_t   ≥ 0        for every total
//
// with ω_t fixed, or σ(s_t, u_t; c_t) in the adaptive mode. First derivatives
// of J with respect to s and u are the problem's own; the others are central
// differences. Second derivatives are second differences of each stage's
// Lagrangian, so their error costs iterations, never accuracy.
type program struct {
	problem              domain.Problem
	spec                 *domain.Spec
	ns, nc, nu, no, nm   int
	nx, steps            int // nx = ns + nc
	adaptive             bool
	weights              []float64 // ω, unused in the adaptive mode
	tau                  bool
	tauCost              float64
	totals               []total
	initial              []float64 // s_0, c_0
	mid, half            []float64 // of each action component's box
	scale                []float64 // typical sizes of s, c, u for differences
	x                    [][]float64
	u, objectives, sigma [][]float64
	margins              [][]float64
	stages               []stage
	sensitivity          [][]float64 // per stage: ∂(s_t, c_t)/∂v, [nx][n]
	ym, sp, sm, mp       []float64
	fp, fm, mm, delta    []float64
	unit                 []float64
	points               points
}

// total is the constraint a τ + b − eᵀΣJ ≥ 0.
type total struct {
	a, b float64
	e    []float64
}

// stage holds the first derivatives of one step with respect to y = (s, c, u);
// only the columns in active are filled, the others do not depend on any
// variable.
type stage struct {
	active             []int
	next               []float64 // [nx][nx+nu]
	objectives, sigma  []float64 // [no][nx+nu]
	margins            []float64 // [nm][nx+nu]
	costate, objective []float64 // λ_t and ∂ℓ/∂y
}

// Steps of the differences, relative to the size of the variable: the cube root
// and the fourth root of the unit roundoff balance truncation and rounding.
const (
	firstDifference  = 6e-6
	secondDifference = 1.2e-4
)

func newProgram(p domain.Problem, s0, c0 []float64, steps int, stateScale []float64) *program {
	spec := p.Spec()
	q := &program{
		problem: p, spec: spec, steps: steps,
		ns: len(spec.Measured), nc: len(spec.Context), nu: len(spec.Action), no: len(spec.Objectives), nm: len(spec.Margins),
	}
	q.nx = q.ns + q.nc
	q.initial = append(append([]float64(nil), s0...), c0...)
	q.scale = slices.Repeat([]float64{1}, q.nx+q.nu)
	copy(q.scale, stateScale)
	for j, a := range spec.Action {
		mid, half := 0.0, 1.0
		if a.Bounded() {
			mid, half = (a.Lo+a.Hi)/2, (a.Hi-a.Lo)/2
		}
		q.mid, q.half = append(q.mid, mid), append(q.half, half)
		q.scale[q.nx+j] = half
	}
	d := q.nx + q.nu
	n := steps*q.nu + 1
	rows := func(count, width int) [][]float64 {
		out := make([][]float64, count)
		flat := make([]float64, count*width)
		for i := range out {
			out[i] = flat[i*width : (i+1)*width : (i+1)*width]
		}
		return out
	}
	q.x, q.sensitivity = rows(steps+1, q.nx), rows(steps+1, q.nx*n)
	q.u, q.objectives, q.sigma, q.margins = rows(steps, q.nu), rows(steps, q.no), rows(steps, q.no), rows(steps, q.nm)
	q.stages = make([]stage, steps)
	next, objectives, sigma, margins := rows(steps, q.nx*d), rows(steps, q.no*d), rows(steps, q.no*d), rows(steps, q.nm*d)
	costate, objective := rows(steps, q.nx), rows(steps, d)
	for t := range q.stages {
		q.stages[t] = stage{next: next[t], objectives: objectives[t], sigma: sigma[t], margins: margins[t], costate: costate[t], objective: objective[t]}
	}
	buffers := rows(9, d+q.no+q.nm)
	for i, b := range []*[]float64{&q.ym, &q.sp, &q.sm, &q.mp, &q.fp, &q.fm, &q.mm, &q.delta, &q.unit} {
		*b = buffers[i]
	}
	q.ym, q.fp, q.fm = q.ym[:d], q.fp[:q.nx], q.fm[:q.nx]
	q.sp, q.sm, q.delta, q.unit = q.sp[:q.no], q.sm[:q.no], q.delta[:q.no], q.unit[:q.no]
	q.mp, q.mm = q.mp[:q.nm], q.mm[:q.nm]
	q.points = newPoints(p)
	return q
}

// variables and constraints are the sizes of the program.
func (q *program) variables() int {
	n := q.steps * q.nu
	if q.tau {
		n++
	}
	return n
}

func (q *program) constraints() int { return q.steps*q.nm + len(q.totals) }

// bounds writes the box of the scaled variables; ±Inf where there is none.
func (q *program) bounds(lo, hi []float64) {
	for i := range lo {
		lo[i], hi[i] = math.Inf(-1), math.Inf(1)
		if i < q.steps*q.nu && q.spec.Action[i%q.nu].Bounded() {
			lo[i], hi[i] = -1, 1
		}
	}
}

// split views y as s, c, u.
func (q *program) split(y []float64) (s, c, u []float64) {
	return y[:q.ns], y[q.ns:q.nx], y[q.nx:]
}

// priority writes the weights of the stage objectives at y.
func (q *program) priority(y, w []float64) {
	if !q.adaptive {
		copy(w, q.weights)
		return
	}
	s, c, u := q.split(y)
	q.problem.Indicators(s, u, c, q.delta)
	q.spec.Semantic.Priority(q.delta, w)
}

// values rolls the dynamics out and returns the objective, with the constraints
// in g. It may return values that are not finite.
func (q *program) values(v, g []float64) float64 {
	copy(q.x[0], q.initial)
	q.points.reset()
	for t := range q.steps {
		for j := range q.nu {
			q.u[t][j] = q.mid[j] + q.half[j]*v[t*q.nu+j]
		}
		s, c, u := q.x[t][:q.ns], q.x[t][q.ns:], q.u[t]
		q.points.add(s, c, u)
		q.problem.Margins(s, c, u, q.margins[t])
		copy(g[t*q.nm:], q.margins[t])
		q.problem.Step(s, c, u, q.x[t+1][:q.ns], q.x[t+1][q.ns:])
	}
	f := 0.0
	values := q.points.objectives()
	for t, u := range q.u {
		copy(q.objectives[t], values[t*q.no:])
		copy(q.ym, q.x[t])
		copy(q.ym[q.nx:], u)
		q.priority(q.ym, q.sigma[t])
		for i, w := range q.sigma[t] {
			f += w * q.objectives[t][i]
		}
	}
	tau := 0.0
	if q.tau {
		tau = v[q.steps*q.nu]
		f += q.tauCost * tau
	}
	for k, tot := range q.totals {
		sum := tot.a*tau + tot.b
		for t := range q.steps {
			for i, e := range tot.e {
				sum -= e * q.objectives[t][i]
			}
		}
		g[q.steps*q.nm+k] = sum
	}
	return f
}

// derivatives writes the gradient of the objective and the Jacobian of the
// constraints, row-major [m][n], at the point of the last call of values.
func (q *program) derivatives(df, dg []float64) {
	n, d := q.variables(), q.nx+q.nu
	clear(df)
	clear(dg)
	clear(q.sensitivity[0])
	for t := range q.steps {
		st := &q.stages[t]
		q.differentiate(t)
		clear(q.sensitivity[t+1])
		for i := range q.nx {
			q.chain(t, st.next[i*d:(i+1)*d], q.sensitivity[t+1][i*n:(i+1)*n])
		}
	}
	q.differentiateObjectives()
	for t := range q.steps {
		st := &q.stages[t]
		clear(st.objective)
		for i := range q.no {
			for _, a := range st.active {
				st.objective[a] += q.sigma[t][i]*st.objectives[i*d+a] + q.objectives[t][i]*st.sigma[i*d+a]
			}
		}
		q.chain(t, st.objective, df)
		for k := range q.nm {
			r := (t*q.nm + k) * n
			q.chain(t, st.margins[k*d:(k+1)*d], dg[r:r+n])
		}
		for k, tot := range q.totals {
			clear(q.ym)
			for i, e := range tot.e {
				for _, a := range st.active {
					q.ym[a] -= e * st.objectives[i*d+a]
				}
			}
			r := (q.steps*q.nm + k) * n
			q.chain(t, q.ym, dg[r:r+n])
		}
	}
	if q.tau {
		df[n-1] = q.tauCost
		for k, tot := range q.totals {
			dg[(q.steps*q.nm+k)*n+n-1] = tot.a
		}
	}
}

// chain adds Σ_a coefficient[a] ∂y_a/∂v of stage t to dst.
func (q *program) chain(t int, coefficient, dst []float64) {
	n := q.variables()
	for _, a := range q.stages[t].active {
		k := coefficient[a]
		if k == 0 {
			continue
		}
		if a >= q.nx {
			dst[t*q.nu+a-q.nx] += k * q.half[a-q.nx]
			continue
		}
		for i, s := range q.sensitivity[t][a*n : a*n+t*q.nu] {
			dst[i] += k * s
		}
	}
}

// at copies the point of stage t into the buffer y, and views it as s, c, u.
func (q *program) at(t int) (y, s, c, u []float64) {
	y = q.ym
	copy(y, q.x[t])
	copy(y[q.nx:], q.u[t])
	s, c, u = q.split(y)
	return y, s, c, u
}

// differentiate fills the active components of stage t and the first
// derivatives of its dynamics, margins and priority.
func (q *program) differentiate(t int) {
	st := &q.stages[t]
	n, d := q.variables(), q.nx+q.nu
	st.active = st.active[:0]
	for a := range q.nx {
		for _, s := range q.sensitivity[t][a*n : a*n+t*q.nu] {
			if s != 0 {
				st.active = append(st.active, a)
				break
			}
		}
	}
	for a := q.nx; a < d; a++ {
		st.active = append(st.active, a)
	}
	y, s, c, u := q.at(t)
	for _, a := range st.active {
		at := y[a]
		plus, minus := q.either(a, at)
		y[a] = plus
		q.problem.Step(s, c, u, q.fp[:q.ns], q.fp[q.ns:])
		q.problem.Margins(s, c, u, q.mp)
		q.priority(y, q.sp)
		y[a] = minus
		q.problem.Step(s, c, u, q.fm[:q.ns], q.fm[q.ns:])
		q.problem.Margins(s, c, u, q.mm)
		q.priority(y, q.sm)
		y[a] = at
		inverse := 1 / (plus - minus)
		for i := range q.nx {
			st.next[i*d+a] = (q.fp[i] - q.fm[i]) * inverse
		}
		for i := range q.nm {
			st.margins[i*d+a] = (q.mp[i] - q.mm[i]) * inverse
		}
		for i := range q.no {
			st.sigma[i*d+a] = (q.sp[i] - q.sm[i]) * inverse
		}
	}
}

// either is the two sides of a central difference in component a.
func (q *program) either(a int, at float64) (plus, minus float64) {
	h := firstDifference * math.Max(q.scale[a], math.Abs(at))
	return at + h, at - h
}

// differentiateObjectives fills the first derivatives of every stage's
// objectives: the problem's own gradients, and differences in the context.
func (q *program) differentiateObjectives() {
	d := q.nx + q.nu
	q.points.reset()
	for t := range q.steps {
		_, s, c, u := q.at(t)
		for i := range q.no {
			clear(q.unit)
			q.unit[i] = 1
			q.points.addWeighted(s, c, u, q.unit)
		}
	}
	gs, gu := q.points.gradients()
	for t := range q.steps {
		for i := range q.no {
			row := q.stages[t].objectives[i*d : (i+1)*d]
			r := t*q.no + i
			copy(row[:q.ns], gs[r*q.ns:])
			copy(row[q.nx:], gu[r*q.nu:])
		}
	}
	// The same walk twice: over the points that are wanted, and over their values.
	each := func(visit func(st *stage, a int, plus, minus float64, s, c, u []float64)) {
		for t := range q.steps {
			st := &q.stages[t]
			y, s, c, u := q.at(t)
			for _, a := range st.active {
				if a < q.ns || a >= q.nx {
					continue
				}
				at := y[a]
				plus, minus := q.either(a, at)
				y[a] = plus
				visit(st, a, plus, minus, s, c, u)
				y[a] = minus
				visit(st, a, plus, minus, s, c, u)
				y[a] = at
			}
		}
	}
	q.points.reset()
	each(func(_ *stage, _ int, _, _ float64, s, c, u []float64) { q.points.add(s, c, u) })
	values := q.points.objectives()
	row := 0
	each(func(st *stage, a int, plus, minus float64, _, _, _ []float64) {
		if row%2 == 1 {
			for i := range q.no {
				st.objectives[i*d+a] = (values[(row-1)*q.no+i] - values[row*q.no+i]) * (1 / (plus - minus))
			}
		}
		row++
	})
}

// hessian writes ∇²(objectiveScale·f − zᵀg), [n][n], at the point of the last
// call of derivatives. The costates of the dynamics are accumulated in reverse.
func (q *program) hessian(objectiveScale float64, z, h []float64) {
	n, d := q.variables(), q.nx+q.nu
	clear(h)
	extra := make([]float64, q.no) // weight of J from the totals
	for k, tot := range q.totals {
		for i, e := range tot.e {
			extra[i] += z[q.steps*q.nm+k] * e
		}
	}
	lambda := make([]float64, q.nx)
	second := make([]float64, d*d)
	var values []float64 // J at the points of the stages from collected to t, last stage first
	collected := q.steps
	for t := q.steps - 1; t >= 0; t-- {
		if t < collected {
			q.points.reset()
			for collected > 0 && (t < collected || q.points.b.Rows < maxPoints) {
				collected--
				q.secondDifferences(collected, func(s, c, u []float64) float64 {
					q.points.add(s, c, u)
					return 0
				}, second)
			}
			values = q.points.objectives()
		}
		st := &q.stages[t]
		zt := z[t*q.nm : (t+1)*q.nm]
		values = q.stageHessian(t, objectiveScale, extra, zt, lambda, values, second)
		q.accumulate(t, n, second, h)
		// λ_t = ∂/∂x (ℓ + λ_{t+1}ᵀF − zᵀm)
		previous := st.costate
		clear(previous)
		for _, a := range st.active {
			if a >= q.nx {
				continue
			}
			sum := objectiveScale * st.objective[a]
			for i, e := range extra {
				sum += e * st.objectives[i*d+a]
			}
			for i, l := range lambda {
				sum += l * st.next[i*d+a]
			}
			for k, zk := range zt {
				sum -= zk * st.margins[k*d+a]
			}
			previous[a] = sum
		}
		copy(lambda, previous)
	}
}

// stageHessian writes the second differences of the stage's Lagrangian over its
// active components, [active][active] in the leading corner of out. values
// begins with J at the points of secondDifferences; the rest is returned.
func (q *program) stageHessian(t int, objectiveScale float64, extra, z, lambda, values, out []float64) []float64 {
	q.secondDifferences(t, func(s, c, u []float64) float64 {
		q.priority(q.ym, q.sp)
		sum := 0.0
		for i, j := range values[:q.no] {
			sum += (objectiveScale*q.sp[i] + extra[i]) * j
		}
		values = values[q.no:]
		if t < q.steps-1 {
			q.problem.Step(s, c, u, q.fp[:q.ns], q.fp[q.ns:])
			for i, l := range lambda {
				sum += l * (q.fp[i] - q.x[t+1][i])
			}
		}
		q.problem.Margins(s, c, u, q.mp)
		for i, m := range q.mp {
			sum -= z[i] * (m - q.margins[t][i])
		}
		return sum
	}, out)
	return values
}

// secondDifferences writes the second differences of f about the point of stage
// t over its active components, [active][active]. f is called at the same points
// in the same order each time; it may use every buffer but ym, which holds the
// point.
func (q *program) secondDifferences(t int, f func(s, c, u []float64) float64, out []float64) {
	active := q.stages[t].active
	k := len(active)
	y, s, c, u := q.at(t)
	base := f(s, c, u)
	plus, minus, step := make([]float64, k), make([]float64, k), make([]float64, k)
	for i, a := range active {
		at := y[a]
		step[i] = secondDifference * math.Max(q.scale[a], math.Abs(at))
		y[a] = at + step[i]
		plus[i] = f(s, c, u)
		y[a] = at - step[i]
		minus[i] = f(s, c, u)
		y[a] = at
		out[i*k+i] = (plus[i] - 2*base + minus[i]) / (step[i] * step[i])
	}
	for i, a := range active {
		for j, b := range active[:i] {
			ya, yb := y[a], y[b]
			y[a], y[b] = ya+step[i], yb+step[j]
			both := f(s, c, u)
			y[a], y[b] = ya-step[i], yb-step[j]
			neither := f(s, c, u)
			y[a], y[b] = ya, yb
			v := (both + neither + 2*base - plus[i] - minus[i] - plus[j] - minus[j]) / (2 * step[i] * step[j])
			out[i*k+j], out[j*k+i] = v, v
		}
	}
}

// accumulate adds Yᵀ·second·Y to h, Y being ∂y/∂v over the active components.
func (q *program) accumulate(t, n int, second, h []float64) {
	active := q.stages[t].active
	k := len(active)
	width := (t + 1) * q.nu
	y := make([]float64, k*width)
	for i, a := range active {
		if a >= q.nx {
			y[i*width+t*q.nu+a-q.nx] = q.half[a-q.nx]
		} else {
			copy(y[i*width:], q.sensitivity[t][a*n:a*n+t*q.nu])
		}
	}
	product := make([]float64, width)
	for i := range k {
		clear(product)
		for j := range k {
			if c := second[i*k+j]; c != 0 {
				for l, v := range y[j*width : (j+1)*width] {
					product[l] += c * v
				}
			}
		}
		for r, v := range y[i*width : (i+1)*width] {
			if v == 0 {
				continue
			}
			row := h[r*n : r*n+width]
			for l, p := range product {
				row[l] += v * p
			}
		}
	}
}
