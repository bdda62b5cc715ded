package shooting

import (
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// Constants of the filter, Wächter and Biegler (2006), section 2.3.
const (
	filterTheta = 1e-5
	filterPhi   = 1e-5
	armijo      = 1e-4
	switchTheta = 1.1
	switchPhi   = 2.3
	defectWorth = 10 // of the largest multiplier of the dynamics; ours
	corrections = 2
	halvings    = 25
)

type filterEntry struct{ theta, phi float64 }

// newtonStep takes one Newton step; false when no progress is possible.
func (p *ipm) newtonStep() bool {
	q := p.q
	q.hessian(p.cur, p.mu, p.objectiveScale, p.z, p.lambda)
	p.assemble()
	if !p.factor() {
		return false
	}
	copy(p.defect, p.cur.defect)
	primal, dual := p.solve()
	theta, phi := infeasibility(p.cur), p.barrier(p.cur, p.slacks)
	slope := p.slope()
	p.defectPenalty = 1
	for _, l := range p.newLambda {
		p.defectPenalty = math.Max(p.defectPenalty, math.Abs(l))
	}
	p.defectPenalty *= defectWorth
	// Below this the barrier function cannot tell two points apart.
	noise := 1e-14 * math.Abs(phi)
	alpha := primal
	for try := range halvings {
		q.wantsSlopes = try == 0 // most of them are taken
		finite := p.evaluateStep(alpha)
		q.wantsSlopes = false
		newTheta := infeasibility(p.trial)
		if finite && p.filterAccepts(theta, phi, newTheta, p.barrier(p.trial, p.trialSlacks), alpha, slope, noise) {
			p.takeStep(alpha, dual)
			return true
		}
		if try == 0 && finite && newTheta >= theta && p.secondOrderCorrect(alpha, theta, phi, slope, noise, newTheta) {
			return true
		}
		alpha /= 2
	}
	// From a point on the dynamics the step was a direction of descent: it was too
	// long for what the functions do, and a larger shift shortens it.
	if theta <= 1e-10 || !p.restore() {
		p.minShift = math.Max(p.shift, 1e-6) * 64
		return p.minShift < largestShift
	}
	return true
}

// secondOrderCorrect tries second-order corrections of a first trial that is further from the
// equations: the same matrices, with the trial's own errors.
func (p *ipm) secondOrderCorrect(alpha, theta, phi, slope, noise, previousTheta float64) bool {
	for range corrections {
		for i, d := range p.trial.defect {
			p.defect[i] = alpha*p.defect[i] + d
		}
		var dual float64
		alpha, dual = p.solve()
		if !p.evaluateStep(alpha) {
			break
		}
		newTheta := infeasibility(p.trial)
		if p.filterAccepts(theta, phi, newTheta, p.barrier(p.trial, p.trialSlacks), alpha, slope, noise) {
			p.takeStep(alpha, dual)
			return true
		}
		if newTheta > 0.99*previousTheta {
			break
		}
		previousTheta = newTheta
	}
	// The step itself again.
	copy(p.defect, p.cur.defect)
	p.solve()
	return false
}

// filterAccepts says whether the filter takes a trial, and enters the iterate where its step
// was not one of descent of the barrier function.
func (p *ipm) filterAccepts(theta, phi, newTheta, newPhi, alpha, slope, noise float64) bool {
	if !(newTheta <= p.thetaMax) || math.IsNaN(newPhi) {
		return false
	}
	for _, e := range p.filter {
		if newTheta >= e.theta && newPhi >= e.phi {
			return false
		}
	}
	descends := slope < 0 && alpha*math.Pow(-slope, switchPhi) > math.Pow(theta, switchTheta)
	sufficient := newPhi <= phi+armijo*alpha*slope+noise
	if descends && theta <= p.thetaMin {
		return sufficient
	}
	if newTheta > (1-filterTheta)*theta && newPhi > phi-filterPhi*theta+noise {
		return false
	}
	// The price of violated margins is in φ: a smaller defect is not worth any rise of it.
	if newPhi > phi+p.defectPenalty*math.Max(0, theta-newTheta)+noise {
		return false
	}
	if !descends || !sufficient {
		p.filter = append(p.filter, filterEntry{(1 - filterTheta) * theta, phi - filterPhi*theta})
	}
	return true
}

// takeStep takes the trial and moves the multipliers.
func (p *ipm) takeStep(primal, dual float64) {
	for i, l := range p.newLambda {
		p.lambda[i] += primal * (l - p.lambda[i])
	}
	for i, d := range p.dz {
		p.z[i] += dual * d
	}
	for i := range p.zl {
		p.zl[i] += dual * p.dzl[i]
		p.zu[i] += dual * p.dzu[i]
	}
	p.minShift = 0
	p.accept()
}

// evaluateStep writes the trial at the given step and evaluates it; false where it is not
// finite.
func (p *ipm) evaluateStep(alpha float64) bool {
	q := p.q
	d := q.d
	copy(p.trial.x, p.cur.x)
	copy(p.trial.y, p.cur.y)
	for t := range q.steps {
		w := p.w[t*d : (t+1)*d]
		for j, v := range w[:q.nu] {
			p.trial.v[t*q.nu+j] = p.cur.v[t*q.nu+j] + alpha*v
		}
		xi := p.finalXi
		if t+1 < q.steps {
			xi = p.w[(t+1)*d+q.nu : (t+2)*d]
		}
		if t < q.transitions() {
			for i, a := range q.active {
				p.trial.x[(t+1)*q.nx+a] += alpha * q.scale[a] * xi[i]
			}
		}
		for k := range q.naug {
			p.trial.y[(t+1)*q.naug+k] += alpha * xi[q.na+k]
		}
	}
	if q.tau {
		p.trial.y[q.naug-1] += alpha * p.w[d-1]
	}
	q.evaluate(p.trial, false)
	p.computeSlacks(p.trial.g, p.trialSlacks.s, p.trialSlacks.v)
	return q.finite(p.trial)
}

// slope is the barrier function's along the step.
func (p *ipm) slope() float64 {
	q := p.q
	sum := 0.0
	for t := range q.steps {
		w := p.w[t*q.d : (t+1)*q.d]
		sum += p.objectiveScale * tensor.DotInOrder(q.objective[t*q.d:(t+1)*q.d], w)
		for j := range q.nu {
			if i := t*q.nu + j; q.bounded[j] {
				sum += (p.mu/(1-p.cur.v[i]) - p.mu/(1+p.cur.v[i])) * w[j]
			}
		}
	}
	if q.tau {
		sum += p.objectiveScale * q.tauCost * p.w[q.d-1]
	}
	if q.terminal != nil {
		clear(q.slope[:q.nX])
		q.terminal.addGradient(q, p.cur, p.objectiveScale, q.slope[:q.nX])
		sum += tensor.DotInOrder(q.slope[:q.nX], p.finalXi)
	}
	return sum + tensor.DotInOrder(p.barrierSlopes, p.dg)
}

// boundary is the largest step ≤ alpha that takes no more than room.
func boundary(alpha, room, step float64) float64 {
	if alpha*step < -room {
		return -room / step
	}
	return alpha
}
