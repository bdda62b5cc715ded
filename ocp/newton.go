package ocp

import (
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// Constants of a factorisation.
const (
	// reflections is the most reflected stages: more of them amplify one another along the recursion and make steps
	// far too long.
	reflections = 2
	// A diagonal shift that is too small grows by shiftGrowth, up to largestShift times the largest entry.
	shiftGrowth  = 8
	largestShift = 1e12
	// unboundedShift is the extra curvature of an action without a box. It shortens steps and moves no solution.
	unboundedShift = 1e-6
)

// assemble writes the matrices of the quadratic program and its linear terms.
func (p *ipm) assemble() {
	q := p.q
	d := q.d
	for i, s := range p.slacks.s {
		z, upperDual := p.z[i], p.rho-p.z[i]
		p.weights[i] = z * upperDual / (s*upperDual + p.slacks.v[i]*z) // 1/(s/z + v/(ρ − z))
		p.barrierSlopes[i] = -p.mu / s
	}
	for t := range q.steps {
		h := p.h[t*d*d : (t+1)*d*d]
		p.condense(t, h)
		for j := range q.nu {
			if i := t*q.nu + j; q.bounded[j] {
				h[j*d+j] += p.zl[i]/(1+p.cur.v[i]) + p.zu[i]/(1-p.cur.v[i])
			} else {
				// Without it, rounding moves an action that has no effect.
				h[j*d+j] += unboundedShift
			}
		}
	}
	end := p.r.P[q.steps*q.nX*q.nX:]
	clear(end)
	for k := range q.totals {
		row := q.totalSlopes[k*q.nX : (k+1)*q.nX]
		w := p.weights[q.steps*q.nm+k]
		for i, a := range row {
			tensor.Axpy(w*a, row, end[i*q.nX:(i+1)*q.nX])
		}
	}
	q.terminal.addHessian(q, p.objectiveScale, end)
	p.linear()
}

// condense writes the Hessian of stage t, with the weighted squares of its margins, into the lower triangle of h.
func (p *ipm) condense(t int, h []float64) {
	nm, d := p.q.nm, p.q.d
	margins := p.q.margins[t*nm*d : (t+1)*nm*d]
	for k, w := range p.weights[t*nm : (t+1)*nm] {
		to := p.weighted[k*d : (k+1)*d]
		for i, v := range margins[k*d : (k+1)*d] {
			to[i] = w * v
		}
	}
	p.squares.Sum(h, p.q.h[t*d*d:], p.weighted, margins)
}

// linear writes the quadratic program's linear terms: the gradient of the barrier
// function, in which g has the multiplier μ/s.
func (p *ipm) linear() {
	q := p.q
	d := q.d
	for t := range q.steps {
		lin := p.lin[t*d : (t+1)*d]
		for i, v := range q.objective[t*d : (t+1)*d] {
			lin[i] = p.objectiveScale * v
		}
		q.dualProduct.Add(lin, q.stageDuals(t, p.barrierSlopes), q.margins[t*q.nm*d:])
		for j := range q.nu {
			if i := t*q.nu + j; q.bounded[j] {
				lin[j] += p.mu/(1-p.cur.v[i]) - p.mu/(1+p.cur.v[i])
			}
		}
	}
	if q.tau {
		p.lin[d-1] += p.objectiveScale * q.tauCost
	}
	end := p.r.p[q.steps*q.nX:]
	clear(end)
	for k := range q.totals {
		tensor.Axpy(p.barrierSlopes[q.steps*q.nm+k], q.totalSlopes[k*q.nX:(k+1)*q.nX], end)
	}
	q.terminal.addGradient(q, p.cur, p.objectiveScale, end)
}

// solve computes the step for the defects in p.defect: all directions, and the largest step lengths within the
// fraction to the boundary.
func (p *ipm) solve() (primal, dual float64) {
	q := p.q
	d := q.d
	p.r.solve(p.lin, q.next, p.defect, p.w, p.finalXi, p.newLambda)
	fraction := math.Max(0.99, 1-p.mu)
	primal, dual = 1, 1
	for t := range q.steps {
		w := p.w[t*d : (t+1)*d]
		for i := t * q.nm; i < (t+1)*q.nm; i++ {
			p.dg[i] = tensor.DotInOrder(w, q.margins[i*d:])
		}
	}
	for k := range q.totals {
		p.dg[q.steps*q.nm+k] = tensor.DotInOrder(p.finalXi, q.totalSlopes[k*q.nX:])
	}
	for i, z := range p.z {
		p.dz[i] = -p.barrierSlopes[i] - z - p.weights[i]*p.dg[i]
		dual = boundary(dual, fraction*z, p.dz[i])
		dual = boundary(dual, fraction*(p.rho-z), -p.dz[i])
	}
	for i, v := range p.cur.v {
		t, j := i/q.nu, i%q.nu
		if !q.bounded[j] {
			continue
		}
		toLower, toUpper, step := 1+v, 1-v, p.w[t*d+j]
		p.dzl[i] = p.mu/toLower - p.zl[i] - p.zl[i]/toLower*step
		p.dzu[i] = p.mu/toUpper - p.zu[i] + p.zu[i]/toUpper*step
		primal = boundary(primal, fraction*toLower, step)
		primal = boundary(primal, fraction*toUpper, -step)
		dual = boundary(dual, fraction*p.zl[i], p.dzl[i])
		dual = boundary(dual, fraction*p.zu[i], p.dzu[i])
	}
	return primal, dual
}

// factor factors the quadratic program's matrices. Where they are not positive definite on the null space of the
// dynamics, it reflects the negative curvature of a few stages. If more need it, it shifts every diagonal entry.
func (p *ipm) factor() bool {
	largest := 0.0
	for i := range p.q.steps * p.q.d {
		// A row of the lower triangle.
		for _, v := range p.h[i*p.q.d:][:i%p.q.d+1] {
			if v = math.Abs(v); !(v <= largest) {
				largest = v
			}
		}
	}
	if math.IsNaN(largest) || math.IsInf(largest, 0) {
		return false
	}
	shift := p.minShift
	p.hasFeedback = false
	reflected := reflections
	if shift > 0 {
		reflected = 0
	}
	for ; !p.r.factor(p.h, p.q.next, shift, reflected); reflected = 0 {
		switch {
		case shift == 0:
			shift = math.Max(1e-8*math.Max(1, largest), p.shift/3)
		default:
			shift *= shiftGrowth
		}
		if shift > math.Min(math.MaxFloat64, largestShift*math.Max(1, largest)) {
			return false
		}
	}
	p.shift, p.hasFeedback = shift, true
	return true
}
