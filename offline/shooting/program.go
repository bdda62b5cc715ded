package shooting

import (
	"math"

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
	problem                domain.Problem
	spec                   *domain.Spec
	ns, nc, nu, no, nm     int
	nx, steps              int // nx = ns + nc
	adaptive               bool
	weights                []float64 // ω, unused in the adaptive mode
	tau                    bool
	tauCost                float64
	totals                 []total
	initial                []float64 // s_0, c_0
	mid, half              []float64 // of each action component's box
	scale                  []float64 // typical sizes of s, c, u for differences
	x                      [][]float64
	u, objectives, sigma   [][]float64
	margins                [][]float64
	stages                 []stage
	sensitivity            [][]float64 // per stage: ∂(s_t, c_t)/∂v, [nx][n]
	ym, jp, jm, sp, sm, mp []float64
	fp, fm, mm, delta, w   []float64
	gs, gu, unit           []float64
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
	q.scale = make([]float64, q.nx+q.nu)
	for i := range q.scale {
		q.scale[i] = 1
	}
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
	buffers := rows(14, d+q.no+q.nm)
	for i, b := range []*[]float64{&q.ym, &q.jp, &q.jm, &q.sp, &q.sm, &q.mp, &q.fp, &q.fm, &q.mm, &q.delta, &q.w, &q.gs, &q.gu, &q.unit} {
		*b = buffers[i]
	}
	q.ym, q.fp, q.fm = q.ym[:d], q.fp[:q.nx], q.fm[:q.nx]
	q.jp, q.jm, q.sp, q.sm, q.delta, q.w, q.unit = q.jp[:q.no], q.jm[:q.no], q.sp[:q.no], q.sm[:q.no], q.delta[:q.no], q.w[:q.no], q.unit[:q.no]
	q.mp, q.mm, q.gs, q.gu = q.mp[:q.nm], q.mm[:q.nm], q.gs[:q.ns], q.gu[:q.nu]
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
	f := 0.0
	for t := range q.steps {
		for j := range q.nu {
			q.u[t][j] = q.mid[j] + q.half[j]*v[t*q.nu+j]
		}
		s, c, u := q.x[t][:q.ns], q.x[t][q.ns:], q.u[t]
		q.problem.Objectives(s, u, c, q.objectives[t])
		copy(q.ym, q.x[t])
		copy(q.ym[q.nx:], u)
		q.priority(q.ym, q.sigma[t])
		for i, w := range q.sigma[t] {
			f += w * q.objectives[t][i]
		}
		q.problem.Margins(s, c, u, q.margins[t])
		copy(g[t*q.nm:], q.margins[t])
		q.problem.Step(s, c, u, q.x[t+1][:q.ns], q.x[t+1][q.ns:])
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
		x := q.sensitivity[t]
		// row adds Σ_a coefficient[a] ∂y_a/∂v to dst.
		row := func(coefficient, dst []float64) {
			for _, a := range st.active {
				k := coefficient[a]
				if k == 0 {
					continue
				}
				if a >= q.nx {
					dst[t*q.nu+a-q.nx] += k * q.half[a-q.nx]
					continue
				}
				xa := x[a*n : a*n+t*q.nu]
				for i, s := range xa {
					dst[i] += k * s
				}
			}
		}
		clear(st.objective)
		for i := range q.no {
			for _, a := range st.active {
				st.objective[a] += q.sigma[t][i]*st.objectives[i*d+a] + q.objectives[t][i]*st.sigma[i*d+a]
			}
		}
		row(st.objective, df)
		for k := range q.nm {
			r := (t*q.nm + k) * n
			row(st.margins[k*d:(k+1)*d], dg[r:r+n])
		}
		for k, tot := range q.totals {
			clear(q.ym)
			for i, e := range tot.e {
				for _, a := range st.active {
					q.ym[a] -= e * st.objectives[i*d+a]
				}
			}
			r := (q.steps*q.nm + k) * n
			row(q.ym, dg[r:r+n])
		}
		clear(q.sensitivity[t+1])
		for i := range q.nx {
			row(st.next[i*d:(i+1)*d], q.sensitivity[t+1][i*n:(i+1)*n])
		}
	}
	if q.tau {
		df[n-1] = q.tauCost
		for k, tot := range q.totals {
			dg[(q.steps*q.nm+k)*n+n-1] = tot.a
		}
	}
}

// differentiate fills the first derivatives of stage t.
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
	y := q.ym
	copy(y, q.x[t])
	copy(y[q.nx:], q.u[t])
	s, c, u := q.split(y)
	for i := range q.no {
		clear(q.unit)
		q.unit[i] = 1
		q.problem.Gradient(s, u, c, q.unit, q.gs, q.gu)
		copy(st.objectives[i*d:], q.gs)
		copy(st.objectives[i*d+q.nx:], q.gu)
	}
	for _, a := range st.active {
		at := y[a]
		h := firstDifference * math.Max(q.scale[a], math.Abs(at))
		plus, minus := at+h, at-h
		inContext := a >= q.ns && a < q.nx
		y[a] = plus
		q.problem.Step(s, c, u, q.fp[:q.ns], q.fp[q.ns:])
		q.problem.Margins(s, c, u, q.mp)
		q.priority(y, q.sp)
		if inContext {
			q.problem.Objectives(s, u, c, q.jp)
		}
		y[a] = minus
		q.problem.Step(s, c, u, q.fm[:q.ns], q.fm[q.ns:])
		q.problem.Margins(s, c, u, q.mm)
		q.priority(y, q.sm)
		if inContext {
			q.problem.Objectives(s, u, c, q.jm)
		}
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
			if inContext {
				st.objectives[i*d+a] = (q.jp[i] - q.jm[i]) * inverse
			}
		}
	}
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
	for t := q.steps - 1; t >= 0; t-- {
		st := &q.stages[t]
		zt := z[t*q.nm : (t+1)*q.nm]
		if len(st.active) > 0 {
			q.stageHessian(t, objectiveScale, extra, zt, lambda, second)
			q.accumulate(t, n, second, h)
		}
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
// active components, [active][active] in the leading corner of out.
func (q *program) stageHessian(t int, objectiveScale float64, extra, z, lambda, out []float64) {
	active := q.stages[t].active
	k := len(active)
	y := q.ym
	copy(y, q.x[t])
	copy(y[q.nx:], q.u[t])
	s, c, u := q.split(y)
	lagrangian := func() float64 {
		q.problem.Objectives(s, u, c, q.jp)
		q.priority(y, q.sp)
		sum := 0.0
		for i, j := range q.jp {
			sum += (objectiveScale*q.sp[i] + extra[i]) * j
		}
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
	}
	base := lagrangian()
	plus, minus, step := make([]float64, k), make([]float64, k), make([]float64, k)
	for i, a := range active {
		at := y[a]
		step[i] = secondDifference * math.Max(q.scale[a], math.Abs(at))
		y[a] = at + step[i]
		plus[i] = lagrangian()
		y[a] = at - step[i]
		minus[i] = lagrangian()
		y[a] = at
		out[i*k+i] = (plus[i] - 2*base + minus[i]) / (step[i] * step[i])
	}
	for i, a := range active {
		for j, b := range active[:i] {
			ya, yb := y[a], y[b]
			y[a], y[b] = ya+step[i], yb+step[j]
			both := lagrangian()
			y[a], y[b] = ya-step[i], yb-step[j]
			neither := lagrangian()
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
