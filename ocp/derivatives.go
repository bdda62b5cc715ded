package ocp

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// Steps of the differences, relative to the size of the variable. The cube root and the fourth root of the unit
// roundoff balance truncation and rounding; the square root does for differences of exact derivatives.
const (
	firstDifference  = 6e-6
	secondDifference = 1.2e-4
	dualDifference   = 1e-7
)

// loadStage copies (s, c, u) of stage t into a buffer and returns that.
func (q *program) loadStage(p *point, t int) []float64 {
	copy(q.y, p.x[t*q.nx:(t+1)*q.nx])
	copy(q.y[q.nx:], p.u[t*q.nu:(t+1)*q.nu])
	return q.y
}

// variableColumns is the number of columns of stage t that are variables: the first stage's state is fixed, unless
// initialFree.
func (q *program) variableColumns(t int) int {
	if t == 0 && !q.initialFree {
		return q.nu
	}
	return q.nf
}

// fixInitialState fixes the initial state: it clears all derivatives with respect to it.
func (q *program) fixInitialState() {
	q.initialFree = false
	q.clearColumns(0, q.nu, q.nf)
	// h is a lower triangle, whose rows are variables too.
	clear(q.h[q.nu*q.d : q.nf*q.d])
}

// clearColumns clears columns from and before to of the first derivatives of stage t.
func (q *program) clearColumns(t, from, to int) {
	for _, block := range []struct {
		values []float64
		rows   int
	}{{q.next, q.nX}, {q.margins, q.nm}, {q.objective, 1}, {q.varying, 1}, {q.dj, q.no}, {q.dsigma, q.no}} {
		for i := t * block.rows; i < (t+1)*block.rows && i*q.d < len(block.values); i++ {
			clear(block.values[i*q.d+from : i*q.d+to])
		}
	}
}

// differencePoints are the two points of a central difference in component a.
func (q *program) differencePoints(a int, value float64) (plus, minus float64) {
	h := firstDifference * math.Max(q.scale[a], math.Abs(value))
	return value + h, value - h
}

// differentiate fills the first derivatives at an evaluated point. It returns false where an inactive component
// moves.
func (q *program) differentiate(p *point) bool {
	defer q.fixPinned()
	if q.staged != nil {
		q.differentiateStages(p)
		if q.adaptive {
			q.differentiatePriorities(p)
		}
		return true
	}
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

// lift copies stage t into dual numbers with zero derivatives.
func (q *program) lift(p *point, t int) {
	for i, v := range p.x[t*q.nx : (t+1)*q.nx] {
		q.zy[i] = complex(v, 0)
	}
	for j, v := range p.u[t*q.nu : (t+1)*q.nu] {
		q.zy[q.nx+j] = complex(v, 0)
	}
}

// evaluateDual evaluates the functions of a stage at q.zy, with margins only where asked.
func (q *program) evaluateDual(t int, margins bool) {
	s, c, u := q.zy[:q.ns], q.zy[q.ns:q.nx], q.zy[q.nx:]
	if t < q.transitions() {
		q.dual.Step(s, c, u, q.zx[:q.ns], q.zx[q.ns:])
	}
	q.dual.Objectives(s, u, c, q.zj)
	if margins {
		q.dual.Margins(s, c, u, q.zm)
	}
}

func (q *program) differentiateDual(p *point, t int) bool {
	const inverse = 1 / domain.DualStep
	complete := true
	d := q.d
	q.lift(p, t)
	n := q.variableColumns(t)
	q.evaluations += int64(n)
	next, margins := q.next[t*q.nX*d:(t+1)*q.nX*d], q.margins[t*q.nm*d:(t+1)*q.nm*d]
	for col := range n {
		a := q.columns[col]
		value := q.zy[a]
		q.zy[a] = complex(real(value), q.scale[a]*domain.DualStep)
		q.evaluateDual(t, true)
		q.zy[a] = value
		if t < q.transitions() {
			for i, b := range q.active {
				next[i*d+col] = imag(q.zx[b]) * inverse / q.scale[b]
			}
			for b, moves := range q.isActive {
				if !moves && imag(q.zx[b]) != 0 {
					complete = false
				}
			}
		}
		for i, v := range q.zm {
			margins[i*d+col] = imag(v) * inverse / q.marginSizes[i]
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
	y := q.loadStage(p, t)
	s, c, u := q.split(y)
	n := q.variableColumns(t)
	q.evaluations += int64(2 * n)
	next, margins := q.next[t*q.nX*d:(t+1)*q.nX*d], q.margins[t*q.nm*d:(t+1)*q.nm*d]
	for col := range n {
		a := q.columns[col]
		value := y[a]
		plus, minus := q.differencePoints(a, value)
		y[a] = plus
		if t < q.transitions() {
			q.problem.Step(s, c, u, q.fp[:q.ns], q.fp[q.ns:])
		}
		q.problem.Margins(s, c, u, q.mp)
		y[a] = minus
		if t < q.transitions() {
			q.problem.Step(s, c, u, q.fm[:q.ns], q.fm[q.ns:])
		}
		q.problem.Margins(s, c, u, q.mm)
		y[a] = value
		inverse := q.scale[a] / (plus - minus)
		if t < q.transitions() {
			for i, b := range q.active {
				next[i*d+col] = (q.fp[b] - q.fm[b]) * inverse / q.scale[b]
			}
			for b, moves := range q.isActive {
				if !moves && q.fp[b] != q.fm[b] {
					complete = false
				}
			}
		}
		for i := range q.nm {
			margins[i*d+col] = (q.mp[i] - q.mm[i]) * inverse / q.marginSizes[i]
		}
	}
	return complete
}

// differentiatePriority adds J's part through the adaptive priority to the
// derivatives of σᵀJ, by central differences.
func (q *program) differentiatePriority(p *point) {
	for t := range q.steps {
		y := q.loadStage(p, t)
		s, c, u := q.split(y)
		j := p.j[t*q.no : (t+1)*q.no]
		for col := range q.variableColumns(t) {
			a := q.columns[col]
			value := y[a]
			plus, minus := q.differencePoints(a, value)
			y[a] = plus
			q.priority(s, c, u, q.sp)
			y[a] = minus
			q.priority(s, c, u, q.sm)
			y[a] = value
			inverse := q.scale[a] / (plus - minus)
			for i := range q.no {
				q.dsigma[(t*q.no+i)*q.d+col] = (q.sp[i] - q.sm[i]) * inverse
			}
			q.varying[t*q.d+col] = (tensor.DotInOrder(q.sp, j) - tensor.DotInOrder(q.sm, j)) * inverse
			q.objective[t*q.d+col] += q.varying[t*q.d+col]
		}
	}
}

// differentiateObjectives fills the derivatives of ωᵀJ and of the totals: the problem's gradients, and differences in
// the context.
func (q *program) differentiateObjectives(p *point) {
	d := q.d
	rows := 1 + len(q.totals)
	q.points.reset()
	for t := range q.steps {
		s, c, u := q.split(q.loadStage(p, t))
		q.points.addWeighted(s, c, u, p.sigma[t*q.no:(t+1)*q.no])
		for _, tot := range q.totals {
			q.points.addWeighted(s, c, u, tot.e)
		}
	}
	gs, gu := q.points.gradients()
	for t := range q.steps {
		for k := range rows {
			row, r := q.objectiveRow(t, k), t*rows+k
			for col := range q.variableColumns(t) {
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
		y := q.loadStage(p, t)
		s, c, u := q.split(y)
		for col := q.nu; col < q.variableColumns(t); col++ {
			a := q.columns[col]
			if a < q.ns {
				continue
			}
			value := y[a]
			plus, minus := q.differencePoints(a, value)
			y[a] = plus
			q.points.add(s, c, u)
			y[a] = minus
			q.points.add(s, c, u)
			y[a] = value
		}
	}
	values := q.points.objectives()
	for t := range q.steps {
		for col := q.nu; col < q.variableColumns(t); col++ {
			a := q.columns[col]
			if a < q.ns {
				continue
			}
			plus, minus := q.differencePoints(a, p.x[t*q.nx+a])
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

// objectiveRow views the derivatives of ωᵀJ (k = 0) or of a total of stage t.
func (q *program) objectiveRow(t, k int) []float64 {
	if k == 0 {
		return q.objective[t*q.d : (t+1)*q.d]
	}
	r := t*q.nX + q.na + k - 1
	return q.next[r*q.d : (r+1)*q.d]
}

// gradient writes the gradient of scale·ωᵀJ + λ_{t+1}ᵀF − zᵀmargins of stage t over all its variables, [d], from the
// first derivatives. z is the stage's; nil leaves the margins out.
func (q *program) gradient(t int, objectiveScale float64, z, lambda, out []float64) {
	d := q.d
	for i, v := range q.objective[t*d : (t+1)*d] {
		out[i] = objectiveScale * v
	}
	q.costateProduct.Add(out, lambda[(t+1)*q.nX:], q.next[t*q.nX*d:])
	if z == nil {
		return
	}
	for k, zk := range z {
		q.negatedDuals[k] = -zk
	}
	q.dualProduct.Add(out, q.negatedDuals, q.margins[t*q.nm*d:])
}
