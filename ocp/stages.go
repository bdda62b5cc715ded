package ocp

import "github.com/gpc-engine/gpc/tensor"

// evaluateStages is evaluateEach by a domain.Derivatives.Stages. A roll-out keeps the images of Step.
func (q *program) evaluateStages(p *point, rolled bool) {
	if !rolled {
		for t := range q.steps {
			q.action(p, t)
		}
	}
	image := p.image
	if rolled {
		size(&q.images, len(p.image))
		image = q.images
	}
	if q.linearised == p {
		q.linearised = nil
	}
	if rolled || q.wantsSlopes {
		q.linearise(p, image, p.j, p.g)
	} else {
		q.staged.Evaluate(q.steps, p.x, p.u, image, p.j, p.g)
	}
	for t := range q.steps {
		s, c := q.state(p, t)
		q.priority(s, c, p.u[t*q.nu:(t+1)*q.nu], p.sigma[t*q.no:(t+1)*q.no])
		q.sizeMargins(p.g[t*q.nm : (t+1)*q.nm])
	}
}

// linearise evaluates all stages with their derivatives, for differentiateStages and hessianStages. Nil values are
// skipped.
func (q *program) linearise(p *point, image, j, g []float64) {
	q.evaluations += int64(q.steps)
	size(&q.dx, q.steps*q.nx*q.nf)
	size(&q.dJ, q.steps*q.no*q.nf)
	size(&q.dm, q.steps*q.nm*q.nf)
	q.staged.Linearise(q.steps, p.x, p.u, image, j, g, q.dx, q.dJ, q.dm)
	q.linearised = p
}

// differentiateStages fills the first derivatives of all stages by a domain.Derivatives.Stages.
func (q *program) differentiateStages(p *point) {
	d, nf := q.d, q.nf
	if q.linearised != p {
		q.linearise(p, nil, nil, nil)
	}
	units := q.units[:nf]
	for col, a := range q.columns {
		units[col] = q.scale[a]
	}
	for t := range q.steps {
		n := q.variableColumns(t)
		scaled := func(to, from []float64, factor float64) {
			for col, unit := range units[:n] {
				to[col] = from[col] * unit * factor
			}
		}
		if t < q.transitions() {
			for i, b := range q.active {
				scaled(q.next[(t*q.nX+i)*d:], q.dx[(t*q.nx+b)*nf:], 1/q.scale[b])
			}
		}
		for r := t * q.nm; r < (t+1)*q.nm; r++ {
			scaled(q.margins[r*d:], q.dm[r*nf:], 1/q.marginSizes[r-t*q.nm])
		}
		for r := t * q.no; r < (t+1)*q.no; r++ {
			scaled(q.dj[r*d:], q.dJ[r*nf:], 1)
		}
		q.weighObjectives(p, t, n)
	}
}

// weighObjectives fills the derivatives of ωᵀJ and of the totals of stage t from those of J.
func (q *program) weighObjectives(p *point, t, n int) {
	d := q.d
	to := q.objective[t*d : t*d+n]
	clear(to)
	for i, w := range p.sigma[t*q.no : (t+1)*q.no] {
		tensor.Axpy(w, q.dj[(t*q.no+i)*d:(t*q.no+i)*d+n], to)
	}
	for k, tot := range q.totals {
		to := q.objectiveRow(t, 1+k)[:n]
		clear(to)
		for i, e := range tot.e {
			tensor.Axpy(e, q.dj[(t*q.no+i)*d:(t*q.no+i)*d+n], to)
		}
	}
}

// hessianStages writes the Hessians of all stages by a domain.Derivatives.Stages.
func (q *program) hessianStages(p *point, mu, objectiveScale float64, z, lambda []float64) {
	nf := q.nf
	if q.linearised != p { // a rejected trial
		q.linearise(p, nil, nil, nil)
	}
	q.evaluations += int64(q.steps)
	size(&q.weightings, q.steps*q.no)
	size(&q.costates, q.steps*q.nx)
	size(&q.skipMargins, q.steps)
	size(&q.hs, q.steps*nf*nf)
	for t := range q.steps {
		copy(q.weightings[t*q.no:(t+1)*q.no], q.lagrangianWeights(p, t, objectiveScale, lambda))
		copy(q.costates[t*q.nx:(t+1)*q.nx], q.dynamicsDual(t, lambda))
		q.skipMargins[t] = q.curvedMargins(t, mu, z) == nil
	}
	size(&q.sizedDuals, q.steps*q.nm)
	for i := range q.sizedDuals {
		q.sizedDuals[i] = z[i] / q.marginSizes[i%q.nm]
	}
	q.staged.Curvature(q.weightings, q.costates, q.sizedDuals, q.skipMargins, q.hs)
	for t := range q.steps {
		q.scaleHessian(t, q.stageHessian(t))
	}
	if q.adaptive && objectiveScale != 0 {
		q.staged.PriorityCurvature(p.j, q.hs)
		for t := range q.steps {
			q.scaleHessian(t, q.hp)
			q.addPriority(t, objectiveScale, q.hp)
		}
	}
}

// scaleHessian writes the lower triangle of stage t, from hs, in the variables' units, [d][d].
func (q *program) scaleHessian(t int, h []float64) {
	for i := range q.variableColumns(t) {
		from := q.hs[(t*q.nf+i)*q.nf:]
		for k, unit := range q.units[:i+1] {
			h[i*q.d+k] = from[k] * q.units[i] * unit
		}
	}
}

// differentiatePriorities is differentiatePriority by a domain.Derivatives.Stages.
func (q *program) differentiatePriorities(p *point) {
	d, nf := q.d, q.nf
	size(&q.prioritySlopes, q.steps*q.no*nf)
	q.staged.Priority(q.steps, p.x, q.prioritySlopes)
	for t := range q.steps {
		n := q.variableColumns(t)
		varying := q.varying[t*d : t*d+n]
		clear(varying)
		for r := t * q.no; r < (t+1)*q.no; r++ {
			to := q.dsigma[r*d : r*d+n]
			for col, unit := range q.units[:n] {
				to[col] = q.prioritySlopes[r*nf+col] * unit
			}
			tensor.Axpy(p.j[r], to, varying)
		}
		tensor.Axpy(1, varying, q.objective[t*d:])
	}
}
