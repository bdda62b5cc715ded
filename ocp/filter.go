package ocp

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
	defectWorth = 10 // times the largest multiplier of the dynamics; ours
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
	// The barrier function cannot tell two points apart below this difference.
	noise := 1e-14 * math.Abs(phi)
	alpha := primal
	for try := range halvings {
		q.wantsSlopes = try == 0 // most are accepted
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
	// On the dynamics, the step was a descent direction but too long for the functions' curvature. A larger shift
	// shortens it.
	if theta <= 1e-10 || !p.restore() {
		p.minShift = math.Max(p.shift, 1e-6) * 64
		return p.minShift < largestShift
	}
	return true
}

// secondOrderCorrect tries second-order corrections of a first trial with larger defects: the same matrices, with the
// trial's own defects.
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
	// Restore the uncorrected step.
	copy(p.defect, p.cur.defect)
	p.solve()
	return false
}

// filterAccepts reports whether the filter accepts a trial. It enters the iterate into the filter unless the step is
// an Armijo step of the barrier function.
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
	// φ already charges violated margins: a smaller defect does not justify any rise of it.
	if newPhi > phi+p.defectPenalty*math.Max(0, theta-newTheta)+noise {
		return false
	}
	if !descends || !sufficient {
		p.filter = append(p.filter, filterEntry{(1 - filterTheta) * theta, phi - filterPhi*theta})
	}
	return true
}

// takeStep accepts the trial and moves the multipliers.
func (p *ipm) takeStep(primal, dual float64) {
	for i, l := range p.newLambda {
		p.lambda[i] += primal * (l - p.lambda[i])
	}
	tensor.Axpy(dual, p.dz, p.z)
	for i := range p.zl {
		p.zl[i] += dual * p.dzl[i]
		p.zu[i] += dual * p.dzu[i]
	}
	p.minShift = 0
	p.accept()
}

// evaluateStep writes and evaluates the trial at a step length; false where it is not finite.
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

// slope is the derivative of the barrier function along the step.
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

// boundary is the largest step length ≤ alpha whose decrease is at most room.
func boundary(alpha, room, step float64) float64 {
	if alpha*step < -room {
		return -room / step
	}
	return alpha
}
