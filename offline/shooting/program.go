package shooting

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// program is the transcription of one finite-horizon problem by multiple
// shooting. The variables of stage t are υ_t, the actions scaled to [−1, 1] by
// their box, and ξ_t: the components of (s_t, c_t) that some action moves, by their
// typical sizes, then running totals of objectives and one bound τ where a
// scalarization couples the stages.
//
//	min  τCost·τ + Σ_t ω_tᵀJ(s_t, u_t; c_t)
//	s.t. (s_{t+1}, c_{t+1}) = F(s_t, c_t, u_t)
//	     margins(s_t, c_t, u_t) ≥ 0             for every t
//	     a τ + b − y_N ≥ 0                      for every total, y_{t+1} = y_t + eᵀJ_t
//
// with ω_t fixed, or σ(s_t, u_t; c_t) in the adaptive mode. First derivatives are
// those of a domain.Dual; else those of J with respect to s and u are the problem's
// own and the others central differences. Second derivatives are a domain.Curved's; else
// differences, of exact first derivatives where there are such and of values otherwise:
// their error costs iterations, never accuracy.
type program struct {
	problem             domain.Problem
	dual                domain.Dual   // nil: differences
	curved              domain.Curved // nil: dual numbers one by one, and differences of them
	spec                *domain.Spec
	ns, nc, nu, no, nm  int
	nx                  int // ns + nc
	mid, half           []float64
	bounded             []bool
	scale               []float64 // typical sizes of s, c, u
	points              points
	adaptive            bool
	weights             []float64 // ω, unused in the adaptive mode
	tau                 bool
	tauCost             float64
	totals              []total
	steps               int
	active              []int     // components of (s, c) that some action moves
	moves               []bool    // [nx], the same as a mask
	na, naug, nX, nf, d int       // active, totals and τ, both; nu + na, nu + nX
	columns             []int     // of the nf functions' variables, their places in (s, c, u)
	next, margins       []float64 // ∂ξ_{t+1}, [steps][nX][d], and ∂margins, [steps][nm][d]
	objective           []float64 // ∂ωᵀJ, [steps][d]
	varying             []float64 // of it, in the adaptive mode, J's part through σ
	dj, dsigma          []float64 // ∂J and ∂σ, [steps][no][d], in the adaptive mode with a domain.Dual
	ends                []float64 // [totals][nX]: ∂ of the constraints on the totals
	h                   []float64 // Hessians of the stages' Lagrangians, [steps][d][d], lower triangles
	hp                  []float64 // a part of one: that of σᵀJ with J held, or without what is linear, [d][d]
	dx, dJ, dm          []float64 // what a domain.Curved writes, [nx], [no] and [nm] by the columns
	y, other            []float64 // (s, c, u)
	fp, fm, mp, mm      []float64
	sp, sm, delta, unit []float64
	slope               []float64 // [d]
	plus, minus, step   []float64 // [d]
	costate             []float64 // [nx]
	zy, zx, zj, zm      []complex128
	evaluations         int64 // stages whose functions were evaluated, at float64 and at dual numbers
}

// total is the constraint a τ + b − eᵀΣJ ≥ 0.
type total struct {
	a, b float64
	e    []float64
}

// point is one iterate: the variables and every function's value there.
type point struct {
	x, v, y  []float64 // [steps+1][nx] in the problem's units, [steps][nu] scaled, [steps+1][naug]
	u        []float64 // [steps][nu]
	image    []float64 // [steps][nx]: F at each stage
	j, sigma []float64 // [steps][no]
	g        []float64 // margins of every step, then the totals' constraints
	defect   []float64 // [steps][nX]: F − the next stage's, scaled
	f        float64
	rolled   bool // whether the states follow from the actions
}

// Steps of the differences, relative to the size of the variable: the cube root
// and the fourth root of the unit roundoff balance truncation and rounding, its
// square root does where exact derivatives are differenced once.
const (
	firstDifference  = 6e-6
	secondDifference = 1.2e-4
	dualDifference   = 1e-7
)

func newProgram(p domain.Problem, stateScale []float64) *program {
	spec := p.Spec()
	q := &program{
		problem: p, spec: spec, points: newPoints(p),
		ns: len(spec.Measured), nc: len(spec.Context), nu: len(spec.Action), no: len(spec.Objectives), nm: len(spec.Margins),
	}
	q.dual, _ = p.(domain.Dual)
	q.curved, _ = p.(domain.Curved)
	q.nx = q.ns + q.nc
	y := q.nx + q.nu
	q.scale = make([]float64, y)
	for i := range q.scale {
		q.scale[i] = 1
	}
	copy(q.scale, stateScale)
	for j, a := range spec.Action {
		mid, half := 0.0, 1.0
		if a.Bounded() {
			mid, half = (a.Lo+a.Hi)/2, (a.Hi-a.Lo)/2
		}
		q.mid, q.half, q.bounded = append(q.mid, mid), append(q.half, half), append(q.bounded, a.Bounded())
		q.scale[q.nx+j] = half
	}
	q.moves, q.costate = make([]bool, q.nx), make([]float64, q.nx)
	for _, b := range []*[]float64{&q.y, &q.other, &q.plus, &q.minus, &q.step} {
		*b = make([]float64, y)
	}
	q.fp, q.fm = make([]float64, q.nx), make([]float64, q.nx)
	q.mp, q.mm = make([]float64, q.nm), make([]float64, q.nm)
	for _, b := range []*[]float64{&q.sp, &q.sm, &q.delta, &q.unit} {
		*b = make([]float64, q.no)
	}
	if q.dual != nil {
		q.zy, q.zx, q.zj, q.zm = make([]complex128, y), make([]complex128, q.nx), make([]complex128, q.no), make([]complex128, q.nm)
	}
	return q
}

// weigh makes the program that of a weighted sum.
func (q *program) weigh(adaptive bool, weights []float64) {
	q.adaptive, q.weights, q.tau, q.tauCost, q.totals = adaptive, weights, false, 0, q.totals[:0]
}

// layout sizes everything for the active components; q.moves says which.
func (q *program) layout(steps int) {
	q.steps = steps
	q.active, q.columns = q.active[:0], q.columns[:0]
	for j := range q.nu {
		q.columns = append(q.columns, q.nx+j)
	}
	for a, moves := range q.moves {
		if moves {
			q.active, q.columns = append(q.active, a), append(q.columns, a)
		}
	}
	q.na, q.naug = len(q.active), len(q.totals)
	if q.tau {
		q.naug++
	}
	q.nX, q.nf = q.na+q.naug, q.nu+q.na
	q.d = q.nu + q.nX
	size(&q.next, steps*q.nX*q.d)
	size(&q.margins, steps*q.nm*q.d)
	size(&q.objective, steps*q.d)
	size(&q.h, steps*q.d*q.d)
	size(&q.slope, q.d)
	size(&q.varying, steps*q.d)
	size(&q.dj, steps*q.no*q.d)
	size(&q.dsigma, steps*q.no*q.d)
	size(&q.hp, q.d*q.d)
	for _, b := range [][]float64{q.next, q.margins, q.objective, q.varying, q.dj, q.dsigma, q.h} {
		clear(b)
	}
	size(&q.ends, len(q.totals)*q.nX)
	clear(q.ends)
	for k, tot := range q.totals {
		q.ends[k*q.nX+q.na+k] = -1
		if q.tau {
			q.ends[k*q.nX+q.nX-1] = tot.a
		}
	}
	// The totals and τ go on as they are, whatever else is added to them.
	for t := range steps {
		for k := q.na; k < q.nX; k++ {
			q.next[(t*q.nX+k)*q.d+q.nu+k] = 1
		}
	}
}

// constraints is their number.
func (q *program) constraints() int { return q.steps*q.nm + len(q.totals) }

func (q *program) resize(p *point) {
	size(&p.x, (q.steps+1)*q.nx)
	size(&p.v, q.steps*q.nu)
	size(&p.y, (q.steps+1)*q.naug)
	size(&p.u, q.steps*q.nu)
	size(&p.image, q.steps*q.nx)
	size(&p.j, q.steps*q.no)
	size(&p.sigma, q.steps*q.no)
	size(&p.g, q.constraints())
	size(&p.defect, q.steps*q.nX)
}

// split views y as s, c, u.
func (q *program) split(y []float64) (s, c, u []float64) { return y[:q.ns], y[q.ns:q.nx], y[q.nx:] }

// state views stage t's state and context.
func (q *program) state(p *point, t int) (s, c []float64) {
	return p.x[t*q.nx : t*q.nx+q.ns], p.x[t*q.nx+q.ns : (t+1)*q.nx]
}

// action writes and views stage t's action in the problem's units.
func (q *program) action(p *point, t int) []float64 {
	u := p.u[t*q.nu : (t+1)*q.nu]
	for j := range u {
		u[j] = q.mid[j] + q.half[j]*p.v[t*q.nu+j]
	}
	return u
}

// forward writes the image of stage t.
func (q *program) forward(p *point, t int) {
	s, c := q.state(p, t)
	image := p.image[t*q.nx : (t+1)*q.nx]
	q.problem.Step(s, c, p.u[t*q.nu:(t+1)*q.nu], image[:q.ns], image[q.ns:])
}

// priority writes the weights of the stage objectives.
func (q *program) priority(s, c, u, w []float64) {
	if !q.adaptive {
		copy(w, q.weights)
		return
	}
	q.problem.Indicators(s, u, c, q.delta)
	q.spec.Semantic.Priority(q.delta, w)
}

// roll makes p a trajectory of the dynamics: from its first state by its scaled
// actions, and evaluates it.
func (q *program) roll(p *point) {
	for t := range q.steps {
		q.action(p, t)
		q.forward(p, t)
		copy(p.x[(t+1)*q.nx:(t+2)*q.nx], p.image[t*q.nx:])
	}
	q.evaluate(p, true)
}

// evaluate fills everything but the variables; with rolled the images are there
// already, and totals follow the objectives. Values may be not finite.
func (q *program) evaluate(p *point, rolled bool) {
	q.evaluations += int64(q.steps)
	p.rolled = rolled
	q.points.reset()
	for t := range q.steps {
		s, c := q.state(p, t)
		u := p.u[t*q.nu : (t+1)*q.nu]
		if !rolled {
			u = q.action(p, t)
			// Nothing looks at the state after the last action.
			if t < q.steps-1 {
				q.forward(p, t)
			}
		}
		q.problem.Margins(s, c, u, p.g[t*q.nm:(t+1)*q.nm])
		q.priority(s, c, u, p.sigma[t*q.no:(t+1)*q.no])
		if q.points.block != nil {
			q.points.add(s, c, u)
		} else {
			q.problem.Objectives(s, u, c, p.j[t*q.no:(t+1)*q.no])
		}
	}
	if q.points.block != nil {
		copy(p.j, q.points.objectives())
	}
	p.f = tensor.DotInOrder(p.sigma, p.j)
	if q.tau {
		p.f += q.tauCost * p.y[q.naug-1]
	}
	for t := range q.steps {
		defect := p.defect[t*q.nX : (t+1)*q.nX]
		y, after := p.y[t*q.naug:(t+1)*q.naug], p.y[(t+1)*q.naug:(t+2)*q.naug]
		for k, tot := range q.totals {
			defect[q.na+k] = y[k] + tensor.DotInOrder(tot.e, p.j[t*q.no:(t+1)*q.no])
		}
		if q.tau {
			defect[q.nX-1] = y[q.naug-1]
		}
		if rolled {
			copy(after, defect[q.na:])
			clear(defect)
			continue
		}
		for k := range after {
			defect[q.na+k] -= after[k]
		}
		for i, a := range q.active {
			defect[i] = 0
			if t < q.steps-1 {
				defect[i] = (p.image[t*q.nx+a] - p.x[(t+1)*q.nx+a]) / q.scale[a]
			}
		}
	}
	end := p.y[q.steps*q.naug:]
	for k, tot := range q.totals {
		g := tot.b - end[k]
		if q.tau {
			g += tot.a * end[q.naug-1]
		}
		p.g[q.steps*q.nm+k] = g
	}
}

// hold makes a point of the first measured state at every stage. The context follows: what it
// remembers of the actions is of no size that would make a defect of it comparable.
func (q *program) hold(p *point) {
	for t := range q.steps - 1 {
		copy(p.x[(t+1)*q.nx:(t+2)*q.nx], p.x[:q.nx])
	}
	for t := range q.steps {
		copy(p.y[(t+1)*q.naug:(t+2)*q.naug], p.y[:q.naug])
	}
	q.carry(p, q.ns)
}

// carry takes what no action moves, and every component from the given one on, from the first
// state along the horizon, and everything to the last stage, which a shift has left without a
// state of its own; it evaluates the point.
func (q *program) carry(p *point, from int) {
	for t := range q.steps - 1 {
		q.action(p, t)
		q.forward(p, t)
		for a, moves := range q.moves {
			if !moves || a >= from || t == q.steps-2 {
				p.x[(t+1)*q.nx+a] = p.image[t*q.nx+a]
			}
		}
	}
	q.evaluate(p, false)
}

// finite reports whether every value of an evaluated point is.
func (q *program) finite(p *point) bool {
	sum := p.f - p.f
	for _, b := range [][]float64{p.g, p.defect} {
		for _, v := range b {
			sum += v - v
		}
	}
	return sum == 0
}

// discover marks the components that some action moves, along a roll-out.
func (q *program) discover(p *point) {
	for i := range q.moves {
		q.moves[i] = true
	}
	q.layout(q.steps)
	q.resize(p)
	q.differentiate(p)
	clear(q.moves)
	for grown := true; grown; {
		grown = false
		for t := range q.steps - 1 {
			for i := range q.nx {
				if q.moves[i] {
					continue
				}
				row := q.next[(t*q.nX+i)*q.d : (t*q.nX+i+1)*q.d]
				for col := range q.nf {
					if row[col] != 0 && (col < q.nu || q.moves[q.columns[col]]) {
						q.moves[i], grown = true, true
						break
					}
				}
			}
		}
	}
	q.layout(q.steps)
	q.resize(p)
}

// at copies the point of stage t into the buffer y, and views it as s, c, u.
func (q *program) at(p *point, t int) (y, s, c, u []float64) {
	y = q.y
	copy(y, p.x[t*q.nx:(t+1)*q.nx])
	copy(y[q.nx:], p.u[t*q.nu:(t+1)*q.nu])
	s, c, u = q.split(y)
	return y, s, c, u
}

// first is the number of columns of stage t that are variables: its state is given
// at the first.
func (q *program) first(t int) int {
	if t == 0 {
		return q.nu
	}
	return q.nf
}

// either is the two sides of a central difference in component a.
func (q *program) either(a int, at float64) (plus, minus float64) {
	h := firstDifference * math.Max(q.scale[a], math.Abs(at))
	return at + h, at - h
}

// differentiate fills the first derivatives at an evaluated point. It reports false
// where a component that is not among the active ones turns out to move.
func (q *program) differentiate(p *point) bool {
	complete := true
	for t := range q.steps {
		if q.dual != nil {
			complete = q.differentiateDual(p, t) && complete
		} else {
			complete = q.differentiateStage(p, t) && complete
		}
	}
	if q.dual == nil {
		q.differentiateObjectives(p)
	}
	if q.adaptive {
		q.differentiatePriority(p)
	}
	return complete
}

// lift copies stage t into dual numbers without a derivative.
func (q *program) lift(p *point, t int) {
	for i, v := range p.x[t*q.nx : (t+1)*q.nx] {
		q.zy[i] = complex(v, 0)
	}
	for j, v := range p.u[t*q.nu : (t+1)*q.nu] {
		q.zy[q.nx+j] = complex(v, 0)
	}
}

// evaluateDual evaluates the functions of a stage at q.zy.
func (q *program) evaluateDual(t int) {
	s, c, u := q.zy[:q.ns], q.zy[q.ns:q.nx], q.zy[q.nx:]
	if t < q.steps-1 {
		q.dual.StepDual(s, c, u, q.zx[:q.ns], q.zx[q.ns:])
	}
	q.dual.ObjectivesDual(s, u, c, q.zj)
	q.dual.MarginsDual(s, c, u, q.zm)
}

// differentiateCurved is differentiateDual by a domain.Curved; known is false where it has
// no derivatives.
func (q *program) differentiateCurved(p *point, t int) (complete, known bool) {
	_, s, c, u := q.at(p, t)
	d, n := q.d, q.first(t)
	size(&q.dx, q.nx*n)
	size(&q.dJ, q.no*n)
	size(&q.dm, q.nm*n)
	if !q.curved.Linearise(s, c, u, q.columns[:n], q.scale, q.dx, q.dJ, q.dm) {
		return false, false
	}
	q.evaluations++
	complete = true
	if t < q.steps-1 {
		next := q.next[t*q.nX*d:]
		for i, b := range q.active {
			for col, v := range q.dx[b*n : (b+1)*n] {
				next[i*d+col] = v / q.scale[b]
			}
		}
		for b, moves := range q.moves {
			if !moves && slices.IndexFunc(q.dx[b*n:(b+1)*n], func(v float64) bool { return v != 0 }) >= 0 {
				complete = false
			}
		}
	}
	for i := range q.nm {
		copy(q.margins[(t*q.nm+i)*d:], q.dm[i*n:(i+1)*n])
	}
	clear(q.objective[t*d : t*d+n])
	for i, w := range p.sigma[t*q.no : (t+1)*q.no] {
		row := q.dJ[i*n : (i+1)*n]
		copy(q.dj[(t*q.no+i)*d:], row)
		tensor.Axpy(w, row, q.objective[t*d:])
	}
	for k, tot := range q.totals {
		to := q.objectiveRow(t, 1+k)[:n]
		clear(to)
		for i, e := range tot.e {
			tensor.Axpy(e, q.dJ[i*n:(i+1)*n], to)
		}
	}
	return complete, true
}

func (q *program) differentiateDual(p *point, t int) bool {
	const inverse = 1 / domain.DualStep
	if q.curved != nil {
		if complete, known := q.differentiateCurved(p, t); known {
			return complete
		}
	}
	complete := true
	d := q.d
	q.lift(p, t)
	n := q.first(t)
	q.evaluations += int64(n)
	next, margins := q.next[t*q.nX*d:(t+1)*q.nX*d], q.margins[t*q.nm*d:(t+1)*q.nm*d]
	for col := range n {
		a := q.columns[col]
		at := q.zy[a]
		q.zy[a] = complex(real(at), q.scale[a]*domain.DualStep)
		q.evaluateDual(t)
		q.zy[a] = at
		if t < q.steps-1 {
			for i, b := range q.active {
				next[i*d+col] = imag(q.zx[b]) * inverse / q.scale[b]
			}
			for b, moves := range q.moves {
				if !moves && imag(q.zx[b]) != 0 {
					complete = false
				}
			}
		}
		for i, v := range q.zm {
			margins[i*d+col] = imag(v) * inverse
		}
		sum := 0.0
		for i, w := range p.sigma[t*q.no : (t+1)*q.no] {
			sum += w * imag(q.zj[i])
			q.dj[(t*q.no+i)*d+col] = imag(q.zj[i]) * inverse
		}
		q.objective[t*d+col] = sum * inverse
		for k, tot := range q.totals {
			sum := 0.0
			for i, e := range tot.e {
				sum += e * imag(q.zj[i])
			}
			next[(q.na+k)*d+col] = sum * inverse
		}
	}
	return complete
}

// differentiateStage takes central differences of the dynamics and the margins.
func (q *program) differentiateStage(p *point, t int) bool {
	complete := true
	d := q.d
	y, s, c, u := q.at(p, t)
	n := q.first(t)
	q.evaluations += int64(2 * n)
	next, margins := q.next[t*q.nX*d:(t+1)*q.nX*d], q.margins[t*q.nm*d:(t+1)*q.nm*d]
	for col := range n {
		a := q.columns[col]
		at := y[a]
		plus, minus := q.either(a, at)
		y[a] = plus
		if t < q.steps-1 {
			q.problem.Step(s, c, u, q.fp[:q.ns], q.fp[q.ns:])
		}
		q.problem.Margins(s, c, u, q.mp)
		y[a] = minus
		if t < q.steps-1 {
			q.problem.Step(s, c, u, q.fm[:q.ns], q.fm[q.ns:])
		}
		q.problem.Margins(s, c, u, q.mm)
		y[a] = at
		inverse := q.scale[a] / (plus - minus)
		if t < q.steps-1 {
			for i, b := range q.active {
				next[i*d+col] = (q.fp[b] - q.fm[b]) * inverse / q.scale[b]
			}
			for b, moves := range q.moves {
				if !moves && q.fp[b] != q.fm[b] {
					complete = false
				}
			}
		}
		for i := range q.nm {
			margins[i*d+col] = (q.mp[i] - q.mm[i]) * inverse
		}
	}
	return complete
}

// differentiatePriority adds J's part through the adaptive priority to the
// derivatives of σᵀJ, by central differences.
func (q *program) differentiatePriority(p *point) {
	for t := range q.steps {
		y, s, c, u := q.at(p, t)
		j := p.j[t*q.no : (t+1)*q.no]
		for col := range q.first(t) {
			a := q.columns[col]
			at := y[a]
			plus, minus := q.either(a, at)
			y[a] = plus
			q.priority(s, c, u, q.sp)
			y[a] = minus
			q.priority(s, c, u, q.sm)
			y[a] = at
			inverse := q.scale[a] / (plus - minus)
			for i := range q.no {
				q.dsigma[(t*q.no+i)*q.d+col] = (q.sp[i] - q.sm[i]) * inverse
			}
			q.varying[t*q.d+col] = (tensor.DotInOrder(q.sp, j) - tensor.DotInOrder(q.sm, j)) * inverse
			q.objective[t*q.d+col] += q.varying[t*q.d+col]
		}
	}
}

// differentiateObjectives fills the derivatives of ωᵀJ and of the totals: the
// problem's own gradients, and differences in the context.
func (q *program) differentiateObjectives(p *point) {
	d := q.d
	rows := 1 + len(q.totals)
	q.points.reset()
	for t := range q.steps {
		_, s, c, u := q.at(p, t)
		q.points.addWeighted(s, c, u, p.sigma[t*q.no:(t+1)*q.no])
		for _, tot := range q.totals {
			q.points.addWeighted(s, c, u, tot.e)
		}
	}
	gs, gu := q.points.gradients()
	for t := range q.steps {
		for k := range rows {
			row, r := q.objectiveRow(t, k), t*rows+k
			for col := range q.first(t) {
				switch a := q.columns[col]; {
				case a >= q.nx:
					row[col] = gu[r*q.nu+a-q.nx] * q.scale[a]
				case a < q.ns:
					row[col] = gs[r*q.ns+a] * q.scale[a]
				}
			}
		}
	}
	q.points.reset()
	for t := range q.steps {
		y, s, c, u := q.at(p, t)
		for col := q.nu; col < q.first(t); col++ {
			a := q.columns[col]
			if a < q.ns {
				continue
			}
			at := y[a]
			plus, minus := q.either(a, at)
			y[a] = plus
			q.points.add(s, c, u)
			y[a] = minus
			q.points.add(s, c, u)
			y[a] = at
		}
	}
	values := q.points.objectives()
	for t := range q.steps {
		for col := q.nu; col < q.first(t); col++ {
			a := q.columns[col]
			if a < q.ns {
				continue
			}
			plus, minus := q.either(a, p.x[t*q.nx+a])
			inverse := q.scale[a] / (plus - minus)
			up, down := values[:q.no], values[q.no:2*q.no]
			values = values[2*q.no:]
			q.objective[t*d+col] = (tensor.DotInOrder(p.sigma[t*q.no:(t+1)*q.no], up) - tensor.DotInOrder(p.sigma[t*q.no:(t+1)*q.no], down)) * inverse
			for k, tot := range q.totals {
				q.next[(t*q.nX+q.na+k)*d+col] = (tensor.DotInOrder(tot.e, up) - tensor.DotInOrder(tot.e, down)) * inverse
			}
		}
	}
}

// objectiveRow is where the derivatives of ωᵀJ (k = 0) or of a total of stage t are.
func (q *program) objectiveRow(t, k int) []float64 {
	if k == 0 {
		return q.objective[t*q.d : (t+1)*q.d]
	}
	r := t*q.nX + q.na + k - 1
	return q.next[r*q.d : (r+1)*q.d]
}

// gradient writes the gradient of scale·ωᵀJ + λ_{t+1}ᵀF − zᵀmargins of stage t over
// all its variables, [d], from the first derivatives.
func (q *program) gradient(t int, objectiveScale float64, z, lambda, out []float64) {
	d := q.d
	for i, v := range q.objective[t*d : (t+1)*d] {
		out[i] = objectiveScale * v
	}
	for i, l := range lambda[(t+1)*q.nX : (t+2)*q.nX] {
		if l != 0 {
			tensor.Axpy(l, q.next[(t*q.nX+i)*d:(t*q.nX+i+1)*d], out)
		}
	}
	for k, zk := range z[t*q.nm : (t+1)*q.nm] {
		tensor.Axpy(-zk, q.margins[(t*q.nm+k)*d:(t*q.nm+k+1)*d], out)
	}
}

// hessian writes the Hessian of every stage's Lagrangian, scale·ωᵀJ + λ_{t+1}ᵀF −
// zᵀmargins, at an evaluated and differentiated point.
func (q *program) hessian(p *point, objectiveScale float64, z, lambda []float64) {
	if q.dual != nil {
		for t := range q.steps {
			q.hessianDual(p, t, objectiveScale, z, lambda)
			if q.adaptive && objectiveScale != 0 {
				q.hessianPriority(p, t, objectiveScale)
			}
		}
		return
	}
	var j []float64 // J at the points of the stages from collected to t, last stage first
	collected := q.steps
	for t := q.steps - 1; t >= 0; t-- {
		if t < collected {
			q.points.reset()
			for collected > 0 && (t < collected || q.points.b.Rows < maxPoints) {
				collected--
				q.secondDifferences(p, collected, q.stageHessian(collected), func(s, c, u []float64) float64 {
					q.points.add(s, c, u)
					return 0
				})
			}
			j = q.points.objectives()
		}
		j = q.hessianValues(p, t, objectiveScale, z, lambda, j)
	}
}

// stageHessian views that of stage t.
func (q *program) stageHessian(t int) []float64 { return q.h[t*q.d*q.d : (t+1)*q.d*q.d] }

// hessianDual takes a stage's second derivatives with σ held: those of a domain.Curved, or
// differences of the exact first ones.
func (q *program) hessianDual(p *point, t int, objectiveScale float64, z, lambda []float64) {
	const inverse = 1 / domain.DualStep
	d, n := q.d, q.first(t)
	h := q.stageHessian(t)
	costate := q.reals(t, lambda)
	zt := z[t*q.nm : (t+1)*q.nm]
	weights := q.lagrangianWeights(p, t, objectiveScale, lambda)
	if q.curved != nil {
		_, s, c, u := q.at(p, t)
		if q.curved.Curvature(s, c, u, q.columns[:n], q.scale, weights, costate, zt, q.hp) {
			q.evaluations++
			for i := range n {
				copy(h[i*d:i*d+i+1], q.hp[i*n:])
			}
			return
		}
	}
	q.evaluations += int64(n * (n + 1) / 2)
	q.gradient(t, objectiveScale, z, lambda, q.slope)
	tensor.Axpy(-objectiveScale, q.varying[t*d:(t+1)*d], q.slope)
	q.lift(p, t)
	for i := range n {
		a := q.columns[i]
		from := real(q.zy[a])
		step := dualDifference * math.Max(q.scale[a], math.Abs(from))
		at := from + step
		inverseStep := q.scale[a] / (at - from)
		for k := range i + 1 {
			b := q.columns[k]
			q.zy[a] = complex(at, 0)
			was := real(q.zy[b])
			q.zy[b] = complex(was, q.scale[b]*domain.DualStep)
			q.evaluateDual(t)
			q.zy[b] = complex(was, 0)
			sum := 0.0
			for i, w := range weights {
				sum += w * imag(q.zj[i])
			}
			if t < q.steps-1 {
				for _, c := range q.active {
					sum += costate[c] * imag(q.zx[c])
				}
			}
			for i, v := range q.zm {
				sum -= zt[i] * imag(v)
			}
			h[i*d+k] = (sum*inverse - q.slope[k]) * inverseStep
		}
		q.zy[a] = complex(from, 0)
	}
}

// hessianPriority adds to a stage's Hessian what σᵀJ has of it beyond that with σ held:
// ∇σ_i∇J_iᵀ, ∇J_i∇σ_iᵀ and J_i∇²σ_i, the last by second differences of the priority, which
// evaluate no dynamics.
func (q *program) hessianPriority(p *point, t int, objectiveScale float64) {
	d, n, h := q.d, q.first(t), q.stageHessian(t)
	j := p.j[t*q.no : (t+1)*q.no]
	q.secondDifferences(p, t, q.hp, func(s, c, u []float64) float64 {
		q.priority(s, c, u, q.sp)
		return tensor.DotInOrder(q.sp, j)
	})
	for i := range n {
		for k := range i + 1 {
			sum := q.hp[i*d+k]
			for r := t * q.no; r < (t+1)*q.no; r++ {
				sum += q.dsigma[r*d+i]*q.dj[r*d+k] + q.dj[r*d+i]*q.dsigma[r*d+k]
			}
			h[i*d+k] += objectiveScale * sum
		}
	}
}

// reals is λ_{t+1} of the dynamics per unit of the state itself; nothing looks at the state
// after the last action.
func (q *program) reals(t int, lambda []float64) []float64 {
	clear(q.costate)
	if t == q.steps-1 {
		return q.costate
	}
	for i, a := range q.active {
		q.costate[a] = lambda[(t+1)*q.nX+i] / q.scale[a]
	}
	return q.costate
}

// lagrangianWeights is the weight of each J_i in a stage's Lagrangian with σ held.
func (q *program) lagrangianWeights(p *point, t int, objectiveScale float64, lambda []float64) []float64 {
	for i, w := range p.sigma[t*q.no : (t+1)*q.no] {
		q.unit[i] = objectiveScale * w
	}
	for k, tot := range q.totals {
		tensor.Axpy(lambda[(t+1)*q.nX+q.na+k], tot.e, q.unit)
	}
	return q.unit
}

// hessianValues takes second differences of the stage's Lagrangian. values begins with J at
// the points of secondDifferences; the rest is returned.
func (q *program) hessianValues(p *point, t int, objectiveScale float64, z, lambda, values []float64) []float64 {
	weights := q.lagrangianWeights(p, t, objectiveScale, lambda)
	costate := q.reals(t, lambda)
	zt := z[t*q.nm : (t+1)*q.nm]
	n := q.first(t)
	q.evaluations += int64(1 + n + n*n)
	q.secondDifferences(p, t, q.stageHessian(t), func(s, c, u []float64) float64 {
		sum := 0.0
		if q.adaptive {
			q.priority(s, c, u, q.sp)
			sum = objectiveScale * tensor.DotInOrder(q.sp, values[:q.no])
		} else {
			sum = tensor.DotInOrder(weights, values[:q.no])
		}
		values = values[q.no:]
		// Differences from the values at the stage keep the digits.
		if t < q.steps-1 {
			q.problem.Step(s, c, u, q.fp[:q.ns], q.fp[q.ns:])
			for _, a := range q.active {
				sum += costate[a] * (q.fp[a] - p.image[t*q.nx+a])
			}
		}
		q.problem.Margins(s, c, u, q.mp)
		for i, m := range q.mp {
			sum -= zt[i] * (m - p.g[t*q.nm+i])
		}
		return sum
	})
	return values
}

// secondDifferences writes into h, [d][d], the second differences of f about the point of
// stage t over its variables. f is called at the same points in the same order each time.
func (q *program) secondDifferences(p *point, t int, h []float64, f func(s, c, u []float64) float64) {
	n, d := q.first(t), q.d
	y, s, c, u := q.at(p, t)
	base := f(s, c, u)
	plus, minus, step := q.plus, q.minus, q.step
	for i := range n {
		a := q.columns[i]
		at := y[a]
		step[i] = secondDifference * math.Max(q.scale[a], math.Abs(at))
		y[a] = at + step[i]
		plus[i] = f(s, c, u)
		y[a] = at - step[i]
		minus[i] = f(s, c, u)
		y[a] = at
		size := step[i] / q.scale[a]
		h[i*d+i] = (plus[i] - 2*base + minus[i]) / (size * size)
	}
	for i := range n {
		a := q.columns[i]
		for k := range i {
			b := q.columns[k]
			ya, yb := y[a], y[b]
			y[a], y[b] = ya+step[i], yb+step[k]
			both := f(s, c, u)
			y[a], y[b] = ya-step[i], yb-step[k]
			neither := f(s, c, u)
			y[a], y[b] = ya, yb
			h[i*d+k] = (both + neither + 2*base - plus[i] - minus[i] - plus[k] - minus[k]) / (2 * step[i] / q.scale[a] * step[k] / q.scale[b])
		}
	}
}
