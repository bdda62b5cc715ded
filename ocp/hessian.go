package ocp

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// hessian writes the Hessian of every stage's Lagrangian, scale·ωᵀJ + λ_{t+1}ᵀF − zᵀmargins, at an evaluated and
// differentiated point with barrier parameter mu.
func (q *program) hessian(p *point, mu, objectiveScale float64, z, lambda []float64) {
	defer q.fixPinnedCurvature()
	if q.staged != nil {
		q.hessianStages(p, mu, objectiveScale, z, lambda)
		return
	}
	if q.dual != nil {
		for t := range q.steps {
			q.hessianDual(p, t, mu, objectiveScale, z, lambda)
			if q.adaptive && objectiveScale != 0 {
				q.hessianPriority(p, t, objectiveScale)
			}
		}
		return
	}
	var j []float64 // J at the points of stages t to collected, last stage first
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
		j = q.hessianValues(p, t, mu, objectiveScale, z, lambda, j)
	}
}

// Limits for leaving out a margin's curvature, by its share of the stage's gradient. The scaled objective's gradient
// is of order 1: a share below negligible cannot matter at the solution. Before, farAway times the barrier parameter
// adds to that limit, as ∇g∇gᵀ z/s dominates.
const (
	negligible = 1e-3
	farAway    = 30
)

// curvedMargins are the duals of stage t's margins, or nil where they weigh too little to save an iteration by their
// curvature. Margins with an escape cost several steps of the dynamics, which nil saves.
func (q *program) curvedMargins(t int, mu float64, z []float64) []float64 {
	zt := q.stageDuals(t, z)
	for i, v := range zt {
		for _, slope := range q.margins[(t*q.nm+i)*q.d : (t*q.nm+i+1)*q.d] {
			if !(v*math.Abs(slope) <= negligible+farAway*mu) {
				return zt
			}
		}
	}
	return nil
}

// stageDuals views the entries of stage t in z, [steps][nm] and more.
func (q *program) stageDuals(t int, z []float64) []float64 { return z[t*q.nm : (t+1)*q.nm] }

// stageHessian views the Hessian of stage t.
func (q *program) stageHessian(t int) []float64 { return q.h[t*q.d*q.d : (t+1)*q.d*q.d] }

// hessianDual takes a stage's second derivatives with σ held: differences of exact first derivatives.
func (q *program) hessianDual(p *point, t int, mu, objectiveScale float64, z, lambda []float64) {
	const inverse = 1 / domain.DualStep
	d, n := q.d, q.variableColumns(t)
	h := q.stageHessian(t)
	costate := q.dynamicsDual(t, lambda)
	weights := q.lagrangianWeights(p, t, objectiveScale, lambda)
	zt := q.curvedMargins(t, mu, z)
	q.evaluations += int64(n * (n + 1) / 2)
	q.gradient(t, objectiveScale, zt, lambda, q.slope)
	tensor.Axpy(-objectiveScale, q.varying[t*d:(t+1)*d], q.slope)
	q.lift(p, t)
	for i := range n {
		a := q.columns[i]
		base := real(q.zy[a])
		step := dualDifference * math.Max(q.scale[a], math.Abs(base))
		shifted := base + step
		inverseStep := q.scale[a] / (shifted - base)
		for k := range i + 1 {
			b := q.columns[k]
			q.zy[a] = complex(shifted, 0)
			value := real(q.zy[b])
			q.zy[b] = complex(value, q.scale[b]*domain.DualStep)
			q.evaluateDual(t, zt != nil)
			q.zy[b] = complex(value, 0)
			sum := 0.0
			for i, w := range weights {
				sum += w * imag(q.zj[i])
			}
			if t < q.transitions() {
				for _, c := range q.active {
					sum += costate[c] * imag(q.zx[c])
				}
			}
			for i, v := range zt {
				sum -= v * imag(q.zm[i]) / q.marginSizes[i]
			}
			h[i*d+k] = (sum*inverse - q.slope[k]) * inverseStep
		}
		q.zy[a] = complex(base, 0)
	}
}

// hessianPriority adds the terms of a variable σ in σᵀJ to a stage's Hessian: ∇σ_i∇J_iᵀ, ∇J_i∇σ_iᵀ and J_i∇²σ_i.
// Second differences of the priority give the last term without evaluating the dynamics.
func (q *program) hessianPriority(p *point, t int, objectiveScale float64) {
	j := p.j[t*q.no : (t+1)*q.no]
	q.secondDifferences(p, t, q.hp, func(s, c, u []float64) float64 {
		q.priority(s, c, u, q.sp)
		return tensor.DotInOrder(q.sp, j)
	})
	q.addPriority(t, objectiveScale, q.hp)
}

// addPriority adds the same terms; fixed, [d][d], holds J_i∇²σ_i and is overwritten.
func (q *program) addPriority(t int, objectiveScale float64, fixed []float64) {
	d, h := q.d, q.stageHessian(t)
	sigma, j := q.dsigma[t*q.no*d:], q.dj[t*q.no*d:]
	q.crossProduct.Add(fixed, sigma, j)
	q.crossProduct.Add(fixed, j, sigma)
	for i := range q.variableColumns(t) {
		tensor.Axpy(objectiveScale, fixed[i*d:i*d+i+1], h[i*d:])
	}
}

// dynamicsDual is λ_{t+1} of the dynamics per unit of the unscaled state; zero where no function reads the image.
func (q *program) dynamicsDual(t int, lambda []float64) []float64 {
	clear(q.costate)
	if t >= q.transitions() {
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

// hessianValues takes second differences of the stage's Lagrangian. values begins with J at the points of
// secondDifferences; the rest is returned.
func (q *program) hessianValues(p *point, t int, mu, objectiveScale float64, z, lambda, values []float64) []float64 {
	weights := q.lagrangianWeights(p, t, objectiveScale, lambda)
	costate := q.dynamicsDual(t, lambda)
	zt := q.curvedMargins(t, mu, z)
	n := q.variableColumns(t)
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
		// Differences from the values at the stage avoid cancellation.
		if t < q.transitions() {
			q.problem.Step(s, c, u, q.fp[:q.ns], q.fp[q.ns:])
			for _, a := range q.active {
				sum += costate[a] * (q.fp[a] - p.image[t*q.nx+a])
			}
		}
		if zt != nil {
			q.marginsBeyondRoom(s, c, u, q.mp)
			for i, m := range q.mp {
				sum -= zt[i] * (m - p.g[t*q.nm+i])
			}
		}
		return sum
	})
	return values
}

// secondDifferences writes the second differences of f over the variables of stage t into h, [d][d]. The points and
// their order are the same in each call.
func (q *program) secondDifferences(p *point, t int, h []float64, f func(s, c, u []float64) float64) {
	n, d := q.variableColumns(t), q.d
	y := q.loadStage(p, t)
	s, c, u := q.split(y)
	base := f(s, c, u)
	plus, minus, step := q.plus, q.minus, q.step
	for i := range n {
		a := q.columns[i]
		value := y[a]
		step[i] = secondDifference * math.Max(q.scale[a], math.Abs(value))
		y[a] = value + step[i]
		plus[i] = f(s, c, u)
		y[a] = value - step[i]
		minus[i] = f(s, c, u)
		y[a] = value
		size := step[i] / q.scale[a]
		h[i*d+i] = (plus[i] - 2*base + minus[i]) / (size * size)
	}
	for i := range n {
		a := q.columns[i]
		for k := range i {
			b := q.columns[k]
			ya, yb := y[a], y[b]
			y[a], y[b] = ya+step[i], yb+step[k]
			up := f(s, c, u)
			y[a], y[b] = ya-step[i], yb-step[k]
			down := f(s, c, u)
			y[a], y[b] = ya, yb
			h[i*d+k] = (up + down + 2*base - plus[i] - minus[i] - plus[k] - minus[k]) / (2 * step[i] / q.scale[a] * step[k] / q.scale[b])
		}
	}
}
