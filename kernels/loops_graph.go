package kernels

import "github.com/gpc-engine/gpc/kernels/driver"

type settleJob struct {
	z, moved, plan, normal, decoded, mean, scale, consistent, hold, latents, residual, displacement, flags driver.Pointer
	rows, n, states, actions, ldplan, _                                                                    int32
}

// queue puts a decision of one chunk on the stream.
func (l *loops) queue(q *queue, key loopsKey) {
	f, s, rows := &l.flow, &l.space, key.rows
	q.tile = l.tile
	in, out, last := &s.c, &s.sigmaOut, &s.flags
	if key.projects {
		in, out = &s.state, &s.action
	}
	if key.latents {
		last = &s.z
	}
	l.cross(q, rows, true, in, &s.how)
	l.observe(q, rows)
	l.localize(q, rows, s.observed.at, s.zt.at, s.consistent.at)
	l.blend(q, rows, l.latent.Offset(4*key.from*f.latent), s.zt.at, s.alpha.at, s.hold.at, 0)
	l.steer(q, rows)
	l.move(q, key)
	if key.projects {
		l.project(q, rows)
	}
	l.cross(q, rows, false, out, last)
}

// cross copies the pieces from first to last, which lie one behind the other: in one
// copy where they are few, so many rows of each otherwise.
func (l *loops) cross(q *queue, rows int, in bool, first, last *piece) {
	s := &l.space
	one := func(at driver.Pointer, host, bytes int) {
		if in {
			q.upload(at, l.host, host, bytes)
		} else {
			q.download(l.host, host, at, bytes)
		}
	}
	if whole := last.host + last.bytes - first.host; whole <= oneCopy {
		one(first.at, first.host, whole)
		return
	}
	for _, p := range []*piece{
		&s.state, &s.c, &s.sigma, &s.s, &s.slot, &s.tau, &s.alpha, &s.hold, &s.how,
		&s.action, &s.margins, &s.margin, &s.sigmaOut, &s.residual, &s.displacement, &s.plan, &s.fallbacks, &s.flags, &s.z,
	} {
		if p.bytes > 0 && p.host >= first.host && p.host <= last.host {
			one(p.at, p.host, p.bytes/l.chunk*rows)
		}
	}
}

// observe queues the observation in the networks' units, and E_x.
func (l *loops) observe(q *queue, rows int) {
	f, s := &l.flow, &l.space
	q.launch("gpc_loop_observe", driver.Dim{X: ceil(rows*l.width, 256)}, 256, 0,
		driver.Int32(rows), driver.Int32(f.states), driver.Int32(f.contexts), driver.Int32(1+f.objectives), driver.Address(s.s.at), driver.Address(s.c.at), driver.Address(s.slot.at),
		driver.Address(f.meanS), driver.Address(f.scaleS), driver.Address(l.meanX), driver.Address(l.scaleX),
		driver.Address(s.normal.at), driver.Address(s.context.at), driver.Address(s.input.at))
	to := s.zt.at
	if l.codes.count > 0 {
		to = s.observed.at
	}
	job := forwardJob{net: l.encoder.at, z: s.input.at, y: to, ldz: int32(l.width), ldy: int32(f.latent)}
	q.forward(rows, l.encoder.width, &job)
}

// localize queues the search and refinement of queries; nothing without codes.
func (l *loops) localize(q *queue, rows int, from, z, consistent driver.Pointer) {
	if l.codes.count == 0 {
		return
	}
	f, s := &l.flow, &l.space
	of := query{rows: rows, z: from, x: s.normal.at, tau: s.tau.at, ldz: f.latent, ldx: f.states}
	out := located{z: z, nearest: s.nearest.at, residual: s.distance.at, consistent: consistent}
	q.localize(l.codes, of, l.neighbours(), &l.search, out)
}

// blend queues z ← (1 − α) from + α z.
func (l *loops) blend(q *queue, rows int, from, z, alphas, hold driver.Pointer, alpha float32) {
	n := l.flow.latent
	q.launch("gpc_loop_blend", driver.Dim{X: ceil(rows*n, 256)}, 256, 0, driver.Int32(rows), driver.Int32(n),
		driver.Address(from), driver.Address(alphas), driver.Address(hold), driver.Float32(alpha), driver.Address(z))
}

// inputs of the step: z_t and what it is steered by.
func (l *loops) inputs() inputs {
	f, s := &l.flow, &l.space
	return inputs{z: s.zt.at, x: s.s.at, ctx: s.context.at, weights: s.weight.at, masks: l.buffers.maskS.at, ldx: f.states, ldctx: f.contexts, ldweights: f.objectives}
}

// steer queues Base, the decoded state and plan at z_t, and σ there.
func (l *loops) steer(q *queue, rows int) {
	f, s, b := &l.flow, &l.space, &l.buffers
	f.bases(q, rows, l.inputs(), b.base.at)
	plan := s.first.at
	if l.cfg.Direct { // then it is the decision
		plan = s.plan.at
	}
	u := l.planAt(s.zt.at, plan)
	d := forwardJob{net: f.netS.at, z: s.zt.at, physical: s.decoded.at, mean: f.meanS, scale: f.scaleS, ldz: int32(f.latent), ldp: int32(f.states)}
	q.forward(rows, max(f.netS.width, f.netU.width), &d, &u)
	q.copy(s.sigmaOut.at, s.sigma.at, 8*rows*f.objectives)
	job := steeringJob{
		state: s.decoded.at, plan: plan, c: s.c.at, how: s.how.at, sigma: s.sigmaOut.at, weights: s.weight.at, flags: s.flags.at,
		gain: l.cfg.PriorityFilter, rows: int32(rows), ldplan: int32(f.plan),
	}
	preference := preferenceJob{semantic: l.semantic}
	f.code.priority(q, &job, &preference, l.inverseRange)
}

// planAt decodes and clips the plan at z.
func (l *loops) planAt(z, to driver.Pointer) forwardJob {
	f := &l.flow
	return forwardJob{
		net: f.netU.at, z: z, physical: to, mean: f.meanU, scale: f.scaleU, base: l.buffers.base.at, lo: f.lo, hi: f.hi,
		ldz: int32(f.latent), ldp: int32(f.plan), ldbase: int32(f.plan),
	}
}

// move queues the latent step, the retraction, the plan, and what is reported.
func (l *loops) move(q *queue, key loopsKey) {
	f, s, b, rows := &l.flow, &l.space, &l.buffers, key.rows
	moved := s.zt.at
	if l.cfg.Direct {
		q.then(func() error { return q.t.ZeroAsync(s.fallbacks.at, rows, q.on) })
	} else {
		in := l.inputs()
		f.step(q, rows, in, b, b.next.at, func() { f.gradients(q, rows, in, b) })
		q.copy(s.fallbacks.at, b.flags.at, rows)
		moved = b.next.at
		if l.cfg.Retracts() {
			l.localize(q, rows, moved, s.observed.at, s.stray.at)
			l.blend(q, rows, moved, s.observed.at, 0, 0, float32(l.cfg.RetractionMix))
			moved = s.observed.at
		}
		u := l.planAt(moved, s.plan.at)
		q.forward(rows, f.netU.width, &u)
	}
	job := settleJob{
		z: s.zt.at, moved: moved, plan: s.plan.at, normal: s.normal.at, decoded: s.decoded.at, mean: f.meanS, scale: f.scaleS, hold: s.hold.at,
		latents: l.latent.Offset(4 * key.from * f.latent), residual: s.residual.at, displacement: s.displacement.at, flags: s.flags.at,
		rows: int32(rows), n: int32(f.latent), states: int32(f.states), actions: int32(f.actions), ldplan: int32(f.plan),
	}
	if l.codes.count > 0 {
		job.consistent = s.consistent.at
	}
	q.launch("gpc_loop_settle", driver.Dim{X: ceil(rows, 4)}, 128, 0, driver.Struct(&job))
	if key.latents {
		q.copy(s.z.at, moved, 4*rows*f.latent)
	}
}

// project queues the projection of the first actions and the margins of these: a step of
// roll-outs, of which state and context are this decision's alone. Nobody asks what it
// costs, by whichever weights.
func (l *loops) project(q *queue, rows int) {
	s := &l.space
	job := rolloutJob{
		s: s.state.at, c: s.c.at, cost: s.cost.at, margin: s.margin.at, plan: s.plan.at, best: s.action.at, workspace: s.workspace.at, margins: s.margins.at,
		rows: int32(rows), project: 1, last: 2,
	}
	l.flow.code.rollout(q, &job, &preferenceJob{weights: l.inverseRange})
}
