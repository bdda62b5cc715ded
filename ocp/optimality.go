package ocp

import (
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// adjoint writes the multipliers of the dynamics that make the Lagrangian stationary in every state. τ of the first
// stage has no equation.
func (p *ipm) adjoint(objectiveScale float64) {
	q := p.q
	p.slopesValid = false
	last := p.lambda[q.steps*q.nX:]
	clear(last)
	for k := range q.totals {
		tensor.Axpy(-p.z[q.steps*q.nm+k], q.totalSlopes[k*q.nX:(k+1)*q.nX], last)
	}
	q.terminal.addGradient(q, p.cur, objectiveScale, last)
	for t := q.steps - 1; t > 0; t-- {
		q.gradient(t, objectiveScale, q.stageDuals(t, p.z), p.lambda, q.slope)
		copy(p.lambda[t*q.nX:(t+1)*q.nX], q.slope[q.nu:])
	}
}

// largest is the largest magnitude included; NaN stays.
type largest float64

func (l *largest) include(v float64) {
	if v = math.Abs(v); !(v <= float64(*l)) && *l == *l {
		*l = largest(v)
	}
}

// differentiateLagrangian writes the gradient of every stage's Lagrangian, unless slopesValid.
func (p *ipm) differentiateLagrangian() {
	if p.slopesValid {
		return
	}
	q := p.q
	for t := range q.steps {
		q.gradient(t, p.objectiveScale, q.stageDuals(t, p.z), p.lambda, p.slopes[t*q.d:(t+1)*q.d])
	}
	p.slopesValid = true
}

// residual is the largest entry of the optimality conditions with barrier parameter mu, scaled as in Wächter and
// Biegler (2006), eq. 5: by the mean size of the multipliers where that exceeds 100. For mu = 0, kkt is that of the
// problem itself and includes the violation −g. elastic is that of the elastic problem, in which a violation costs ρ.
func (p *ipm) residual(mu float64) (kkt, elastic, violation float64) {
	q := p.q
	sum := 0.0
	for _, z := range p.z {
		sum += z
	}
	for i := range p.zl {
		sum += p.zl[i] + p.zu[i]
	}
	scale := math.Max(1, sum/float64(len(p.z)+2*len(p.zl))/100)
	p.differentiateLagrangian()
	var scaled, unscaled largest // before division by scale, and final
	for t := range q.steps {
		slope := p.slopes[t*q.d : (t+1)*q.d]
		if !q.blocked[t] {
			clear(p.blockSlopes)
		}
		for j, r := range slope[:q.nu] {
			i := t*q.nu + j
			if p.blockSlopes[j] += r - p.zl[i] + p.zu[i]; t+1 == q.steps || !q.blocked[t+1] {
				scaled.include(p.blockSlopes[j])
			}
			if q.bounded[j] {
				scaled.include(p.zl[i]*(1+p.cur.v[i]) - mu)
				scaled.include(p.zu[i]*(1-p.cur.v[i]) - mu)
			}
		}
		if t > 0 {
			for i, l := range p.lambda[t*q.nX : (t+1)*q.nX] {
				scaled.include(slope[q.nu+i] - l)
			}
		} else if q.tau {
			scaled.include(slope[q.d-1] + p.objectiveScale*q.tauCost)
		}
	}
	last := p.finalXi
	copy(last, p.lambda[q.steps*q.nX:])
	for k := range q.totals {
		tensor.Axpy(p.z[q.steps*q.nm+k], q.totalSlopes[k*q.nX:(k+1)*q.nX], last)
	}
	q.terminal.addGradient(q, p.cur, -p.objectiveScale, last)
	for _, v := range last {
		scaled.include(v)
	}
	for _, d := range p.cur.defect {
		unscaled.include(d)
	}
	for i, z := range p.z {
		g := p.cur.g[i]
		violation = max(violation, -g)
		if mu > 0 {
			scaled.include(p.slacks.s[i]*z - mu)
			scaled.include(p.slacks.v[i]*(p.rho-z) - mu)
			continue
		}
		scaled.include(z * max(g, 0))
		elastic = max(elastic, (p.rho-z)*max(-g, 0))
	}
	unscaled.include(float64(scaled) / scale)
	elastic /= scale
	worst := float64(unscaled)
	elastic = math.Max(elastic, worst)
	switch {
	case mu > 0:
		return worst, worst, violation
	case p.objectiveScale == 0:
		return elastic, elastic, violation
	}
	return math.Max(worst, violation), elastic, violation
}

// infeasibility is θ of the filter: the sum of the defects.
func infeasibility(pt *point) float64 {
	sum := 0.0
	for _, d := range pt.defect {
		sum += math.Abs(d)
	}
	return sum
}

// barrier is φ of the line search.
func (p *ipm) barrier(pt *point, a slack) float64 {
	violations, slacks, box := 0.0, newLogarithm(), newLogarithm()
	for i, s := range a.s {
		violations += a.v[i]
		slacks.add(s * a.v[i])
	}
	for i, v := range pt.v {
		if p.q.bounded[i%p.q.nu] {
			box.add((1 + v) * (1 - v))
		}
	}
	return p.objectiveScale*pt.f + p.rho*violations - p.mu*(slacks.value()+box.value())
}

// logarithm sums logarithms of positive numbers. It multiplies them and takes one logarithm before the product over-
// or underflows.
type logarithm struct{ product, sum float64 }

func newLogarithm() logarithm { return logarithm{product: 1} }

func (l *logarithm) add(v float64) {
	l.product *= v
	const far = 1e100
	// NaN stays.
	if !(l.product > 1/far && l.product < far) {
		l.sum += math.Log(l.product)
		l.product = 1
	}
}

func (l *logarithm) value() float64 { return l.sum + math.Log(l.product) }
