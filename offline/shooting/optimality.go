package shooting

import (
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// adjoint writes the multipliers of the dynamics that make the Lagrangian stationary
// in every state; that of τ at the first stage has no equation.
func (p *ipm) adjoint(objectiveScale float64) {
	q := p.q
	last := p.lambda[q.steps*q.nX:]
	clear(last)
	for k := range q.totals {
		tensor.Axpy(-p.z[q.steps*q.nm+k], q.ends[k*q.nX:(k+1)*q.nX], last)
	}
	q.lasting.addGradient(q, p.cur, objectiveScale, last)
	for t := q.steps - 1; t > 0; t-- {
		q.gradient(t, objectiveScale, q.ofStage(t, p.z), p.lambda, q.slope)
		copy(p.lambda[t*q.nX:(t+1)*q.nX], q.slope[q.nu:])
	}
}

// residual is the largest entry of the optimality conditions with barrier
// parameter mu, scaled as Wächter and Biegler (2006), eq. 5: by the mean size of
// the multipliers where that exceeds 100. For mu = 0 they are those of the problem
// itself, with the violation −g among them, and elastic those of the problem in
// which g may be violated at ρ.
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
	worst := 0.0
	see := func(v float64) {
		// One that is not a number stays.
		if !(math.Abs(v) <= worst) && worst == worst {
			worst = math.Abs(v)
		}
	}
	for t := range q.steps {
		q.gradient(t, p.objectiveScale, q.ofStage(t, p.z), p.lambda, q.slope)
		for j, r := range q.slope[:q.nu] {
			i := t*q.nu + j
			see((r - p.zl[i] + p.zu[i]) / scale)
			if q.bounded[j] {
				see((p.zl[i]*(1+p.cur.v[i]) - mu) / scale)
				see((p.zu[i]*(1-p.cur.v[i]) - mu) / scale)
			}
		}
		if t > 0 {
			for i, l := range p.lambda[t*q.nX : (t+1)*q.nX] {
				see((q.slope[q.nu+i] - l) / scale)
			}
		} else if q.tau {
			see((q.slope[q.d-1] + p.objectiveScale*q.tauCost) / scale)
		}
	}
	last := p.last
	copy(last, p.lambda[q.steps*q.nX:])
	for k := range q.totals {
		tensor.Axpy(p.z[q.steps*q.nm+k], q.ends[k*q.nX:(k+1)*q.nX], last)
	}
	q.lasting.addGradient(q, p.cur, -p.objectiveScale, last)
	for _, v := range last {
		see(v / scale)
	}
	for _, d := range p.cur.defect {
		see(d)
	}
	for i, z := range p.z {
		g := p.cur.g[i]
		violation = math.Max(violation, -g)
		if mu > 0 {
			see((p.at.s[i]*z - mu) / scale)
			see((p.at.v[i]*(p.rho-z) - mu) / scale)
			continue
		}
		see(z * math.Max(g, 0) / scale)
		elastic = math.Max(elastic, (p.rho-z)*math.Max(-g, 0)/scale)
	}
	elastic = math.Max(elastic, worst)
	switch {
	case mu > 0:
		return worst, worst, violation
	case p.objectiveScale == 0:
		return elastic, elastic, violation
	}
	return math.Max(worst, violation), elastic, violation
}

// infeasibility is what the filter holds against the barrier function.
func infeasibility(at *point) float64 {
	sum := 0.0
	for _, d := range at.defect {
		sum += math.Abs(d)
	}
	return sum
}

// barrier is the function of the line search.
func (p *ipm) barrier(at *point, a slack) float64 {
	sum := p.objectiveScale * at.f
	for i, s := range a.s {
		sum += p.rho*a.v[i] - p.mu*math.Log(s*a.v[i])
	}
	for i, v := range at.v {
		if p.q.bounded[i%p.q.nu] {
			sum -= p.mu * math.Log((1+v)*(1-v))
		}
	}
	return sum
}
