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
	l.cross(q, rows, true, in, &s.steering)
	l.observe(q, rows)
	l.localize(q, rows, s.observed.device, s.zt.device, s.consistent.device)
	l.blend(q, rows, l.latent.Offset(4*key.first*f.latent), s.zt.device, s.alpha.device, s.hold.device, 0)
	l.steer(q, rows)
	l.move(q, key)
	if key.projects {
		l.project(q, rows)
	}
	l.cross(q, rows, false, out, last)
}

// cross copies the pieces from first to last, which lie one behind the other: in one
// copy where they are few, so many rows of each otherwise.
func (l *loops) cross(q *queue, rows int, upload bool, first, last *piece) {
	s := &l.space
	one := func(device driver.Pointer, host, bytes int) {
		if upload {
			q.upload(device, l.host, host, bytes)
		} else {
			q.download(l.host, host, device, bytes)
		}
	}
	if whole := last.host + last.bytes - first.host; whole <= oneCopy {
		one(first.device, first.host, whole)
		return
	}
	for _, p := range []*piece{
		&s.state, &s.c, &s.sigma, &s.s, &s.slot, &s.tau, &s.alpha, &s.hold, &s.steering,
		&s.action, &s.margins, &s.margin, &s.sigmaOut, &s.residual, &s.displacement, &s.plan, &s.fallbacks, &s.flags, &s.z,
	} {
		if p.bytes > 0 && p.host >= first.host && p.host <= last.host {
			one(p.device, p.host, p.bytes/l.chunk*rows)
		}
	}
}

// observe queues the observation in the networks' units, and E_x.
func (l *loops) observe(q *queue, rows int) {
	f, s := &l.flow, &l.space
	q.launch("gpc_loop_observe", driver.Dim{X: ceil(rows*l.width, 256)}, 256, 0,
		driver.Int32(rows), driver.Int32(f.states), driver.Int32(f.contexts), driver.Int32(1+f.objectives), driver.Address(s.s.device), driver.Address(s.c.device), driver.Address(s.slot.device),
		driver.Address(f.meanS), driver.Address(f.scaleS), driver.Address(l.meanX), driver.Address(l.scaleX),
		driver.Address(s.normal.device), driver.Address(s.context.device), driver.Address(s.input.device))
	dst := s.zt.device
	if l.codes.count > 0 {
		dst = s.observed.device
	}
	job := forwardJob{net: l.encoder.device, z: s.input.device, y: dst, ldz: int32(l.width), ldy: int32(f.latent)}
	q.forward(rows, l.encoder.width, &job)
}

// localize queues the search and refinement of queries; nothing without codes.
func (l *loops) localize(q *queue, rows int, source, z, consistent driver.Pointer) {
	if l.codes.count == 0 {
		return
	}
	f, s := &l.flow, &l.space
	queries := query{rows: rows, z: source, x: s.normal.device, tau: s.tau.device, ldz: f.latent, ldx: f.states}
	out := located{z: z, nearest: s.nearest.device, residual: s.distance.device, consistent: consistent}
	q.localize(l.codes, queries, l.neighbours(), &l.search, out)
}

// blend queues z ← (1 − α) from + α z.
func (l *loops) blend(q *queue, rows int, source, z, alphas, hold driver.Pointer, alpha float32) {
	n := l.flow.latent
	q.launch("gpc_loop_blend", driver.Dim{X: ceil(rows*n, 256)}, 256, 0, driver.Int32(rows), driver.Int32(n),
		driver.Address(source), driver.Address(alphas), driver.Address(hold), driver.Float32(alpha), driver.Address(z))
}

// inputs of the step: z_t and what it is steered by.
func (l *loops) inputs() inputs {
	f, s := &l.flow, &l.space
	return inputs{z: s.zt.device, x: s.s.device, ctx: s.context.device, weights: s.weight.device, masks: l.buffers.maskS.device, ldx: f.states, ldctx: f.contexts, ldweights: f.objectives}
}

// steer queues Base, the decoded state and plan at z_t, and σ there.
func (l *loops) steer(q *queue, rows int) {
	f, s, b := &l.flow, &l.space, &l.buffers
	f.bases(q, rows, l.inputs(), b.base.device)
	plan := s.first.device
	if l.cfg.Direct { // then it is the decision
		plan = s.plan.device
	}
	u := l.planAt(s.zt.device, plan)
	d := forwardJob{net: f.netS.device, z: s.zt.device, physical: s.decoded.device, mean: f.meanS, scale: f.scaleS, ldz: int32(f.latent), ldp: int32(f.states)}
	q.forward(rows, max(f.netS.width, f.netU.width), &d, &u)
	q.copy(s.sigmaOut.device, s.sigma.device, 8*rows*f.objectives)
	job := steeringJob{
		state: s.decoded.device, plan: plan, c: s.c.device, how: s.steering.device, sigma: s.sigmaOut.device, weights: s.weight.device, flags: s.flags.device,
		gain: l.cfg.PriorityFilter, rows: int32(rows), ldplan: int32(f.plan),
	}
	preference := preferenceJob{semantic: l.semantic}
	f.code.priority(q, &job, &preference, l.inverseRange)
}

// planAt decodes and clips the plan at z.
func (l *loops) planAt(z, dst driver.Pointer) forwardJob {
	f := &l.flow
	return forwardJob{
		net: f.netU.device, z: z, physical: dst, mean: f.meanU, scale: f.scaleU, base: l.buffers.base.device, lo: f.lo, hi: f.hi,
		ldz: int32(f.latent), ldp: int32(f.plan), ldbase: int32(f.plan),
	}
}

// move queues the latent step, the retraction, the plan, and what is reported.
func (l *loops) move(q *queue, key loopsKey) {
	f, s := &l.flow, &l.space
	b, rows := &l.buffers, key.rows
	next := s.zt.device
	if l.cfg.Direct {
		q.enqueue(func() error { return q.t.ZeroAsync(s.fallbacks.device, rows, q.stream) })
	} else {
		input := l.inputs()
		f.step(q, rows, input, b, b.next.device, func() { f.gradients(q, rows, input, b) })
		q.copy(s.fallbacks.device, b.flags.device, rows)
		next = b.next.device
		if l.cfg.Retracts() {
			l.localize(q, rows, next, s.observed.device, s.stray.device)
			l.blend(q, rows, next, s.observed.device, 0, 0, float32(l.cfg.RetractionMix))
			next = s.observed.device
		}
		u := l.planAt(next, s.plan.device)
		q.forward(rows, f.netU.width, &u)
	}
	job := settleJob{
		z: s.zt.device, moved: next, plan: s.plan.device, normal: s.normal.device, decoded: s.decoded.device, mean: f.meanS, scale: f.scaleS, hold: s.hold.device,
		latents: l.latent.Offset(4 * key.first * f.latent), residual: s.residual.device, displacement: s.displacement.device, flags: s.flags.device,
		rows: int32(rows), n: int32(f.latent), states: int32(f.states), actions: int32(f.actions), ldplan: int32(f.plan),
	}
	if l.codes.count > 0 {
		job.consistent = s.consistent.device
	}
	q.launch("gpc_loop_settle", driver.Dim{X: ceil(rows, 4)}, 128, 0, driver.Struct(&job))
	if key.latents {
		q.copy(s.z.device, next, 4*rows*f.latent)
	}
}

// project queues the projection of the first actions and the margins of these: a step of
// roll-outs, of which state and context are this decision's alone. Nobody asks what it
// costs, by whichever weights.
func (l *loops) project(q *queue, rows int) {
	s := &l.space
	job := rolloutJob{
		s: s.state.device, c: s.c.device, cost: s.cost.device, margin: s.margin.device, plan: s.plan.device, best: s.action.device, workspace: s.workspace.device, margins: s.margins.device,
		rows: int32(rows), project: 1, last: 2,
	}
	l.flow.code.rollout(q, &job, &preferenceJob{weights: l.inverseRange})
}
