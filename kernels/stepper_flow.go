package kernels

import (
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

// stepBuffers are the matrices of one batch on the device, [capacity, ·] without
// gaps; those that cross have pinned memory of the same size.
type stepBuffers struct {
	workspace
	capacity                      int
	z, x, ctx, weights, base      piece // inputs; base crosses where the host computes it
	y, s, u                       piece // D_s(z), its physical value, the physical plan
	maskS, maskU                  piece
	maskMid                       piece // of D_s at the midpoint; the frame reads maskS meanwhile
	objectives, gs, gu            piece
	zbarS, zbarU                  piece
	k1, mid, field, energy, flags piece
	jac, metric, values, vectors  piece
	next, planOut                 piece
}

// hasLie reports whether the step has a Lie residual.
func (f *flow) hasLie() bool { return f.params.LieGain != 0 && f.params.TopK > 0 }

// allocate makes buffers for so many rows.
func (f *flow) allocate(t *driver.Thread, m *memory, rows int) (stepBuffers, error) {
	b := stepBuffers{capacity: rows}
	var l layoutOf
	floats := func(p *piece, perRow int, crosses bool) { l.reserve(p, 4*rows*perRow, crosses) }
	host := f.hasProblem && f.code.name == ""
	floats(&b.z, f.latent, true)
	floats(&b.x, f.states, true)
	floats(&b.ctx, f.contexts, true)
	floats(&b.weights, f.objectives, true)
	floats(&b.base, f.plan, host)
	floats(&b.y, f.states, false)
	floats(&b.s, f.states, true)
	floats(&b.u, f.plan, host)
	floats(&b.maskS, f.netS.maskWords, false)
	floats(&b.maskU, f.netU.maskWords, false)
	floats(&b.maskMid, f.netS.maskWords, false)
	floats(&b.objectives, f.objectives, host)
	floats(&b.gs, f.states, host)
	floats(&b.gu, f.actions, host)
	floats(&b.zbarS, f.latent, false)
	floats(&b.zbarU, f.latent, false)
	floats(&b.k1, f.latent, false)
	floats(&b.mid, f.latent, false)
	floats(&b.field, f.latent, true)
	if f.hasLie() {
		if !f.backend.fused(f.netS) {
			floats(&b.jac, f.states*f.latent, false)
		} else {
			l.reserve(&b.jac, 4*f.states*f.backend.oneColumns(f.netS), false)
		}
		floats(&b.metric, f.latent*f.latent, false)
		floats(&b.values, f.params.TopK, false)
		floats(&b.vectors, f.latent*f.params.TopK, false)
	}
	// What a step brings back lies together, as does what it is given.
	floats(&b.next, f.latent, true)
	floats(&b.planOut, f.plan, true)
	floats(&b.energy, 1, true)
	l.reserve(&b.flags, rows, true)
	q := f.backend.queue(t)
	b.workspace.base, b.host = l.place(q, m)
	// Rows of padding are computed too: let them begin as numbers.
	q.enqueue(func() error { return t.ZeroAsync(b.workspace.base, l.device, q.stream) })
	return b, q.err
}

// stage copies rows [from, to) of an input into its pinned memory: all of them, or
// one where they are one and the same.
func (b *stepBuffers) stage(m tensor.Matrix, from, to int, p piece) {
	if m.Cols == 0 {
		return
	}
	if m.Stride == 0 {
		to = from + 1
	}
	gather(driver.HostSlice[float32](b.host, p.host, (to-from)*m.Cols), m, from, to-from)
}

// The parts of the step, each queued on the backend's stream.

// inputs says which rows the kernels read: step 0 repeats one row.
type inputs struct {
	z, x, ctx, weights    driver.Pointer
	masks                 driver.Pointer // where D_s at z leaves its masks
	ldx, ldctx, ldweights int
}

// bases queues Base(x, c) by the device functions.
func (f *flow) bases(q *queue, rows int, input inputs, base driver.Pointer) {
	f.code.base(q, rows, input, base, f.plan)
}

// atMiddle is the same at the midpoint.
func (input inputs) atMiddle(b *stepBuffers) inputs {
	input.z, input.masks = b.mid.device, b.maskMid.device
	return input
}

// forward queues D_s, and with a problem D_u, at z, with masks and physical values.
func (f *flow) forward(q *queue, rows int, input inputs, b *stepBuffers) {
	q.forward(rows, f.passWidth(), f.passes(input, b)...)
}

// passes are the jobs of forward.
func (f *flow) passes(input inputs, b *stepBuffers) []*forwardJob {
	s := forwardJob{net: f.netS.device, z: input.z, y: b.y.device, mask: input.masks, ldz: int32(f.latent), ldy: int32(f.states)}
	if !f.hasProblem {
		return []*forwardJob{&s}
	}
	s.physical, s.mean = b.s.device, f.meanS
	s.scale, s.ldp = f.scaleS, int32(f.states)
	u := forwardJob{
		net: f.netU.device, z: input.z, mask: b.maskU.device, physical: b.u.device, mean: f.meanU, scale: f.scaleU, base: b.base.device,
		ldz: int32(f.latent), ldp: int32(f.plan), ldbase: int32(f.plan),
	}
	return []*forwardJob{&s, &u}
}

// passWidth is the widest activation of forward.
func (f *flow) passWidth() int {
	if !f.hasProblem {
		return f.netS.width
	}
	return max(f.netS.width, f.netU.width)
}

type domainBatch struct {
	s, u, c, sigma, J, gs, gu                     driver.Pointer
	lds, ldu, ldc, ldsigma, ldJ, ldgs, ldgu, rows int32
}

// gradients queues the objective's gradients by the device functions.
func (f *flow) gradients(q *queue, rows int, input inputs, b *stepBuffers) {
	batch := domainBatch{
		s: b.s.device, u: b.u.device, c: input.ctx, sigma: input.weights, J: b.objectives.device, gs: b.gs.device, gu: b.gu.device,
		lds: int32(f.states), ldu: int32(f.plan), ldc: int32(input.ldctx), ldsigma: int32(input.ldweights),
		ldJ: int32(f.objectives), ldgs: int32(f.states), ldgu: int32(f.actions), rows: int32(rows),
	}
	f.code.gradient(q, &batch)
}

// backward queues the gradient of the energy in z by way of both decoders.
func (f *flow) backward(q *queue, rows int, input inputs, b *stepBuffers) {
	s := vjpJob{
		net: f.netS.device, mask: input.masks, zbar: b.zbarS.device, ybar: b.y.device, x: input.x, mean: f.meanS, scale: f.scaleS,
		ldzbar: int32(f.latent), ldybar: int32(f.states), ldx: int32(input.ldx), factor: -2 / f.params.Epsilon,
	}
	width := func(n packedNet) int { return max(n.width, sixteens(n.out)) }
	if !f.hasProblem {
		q.backward(rows, width(f.netS), &s)
		return
	}
	s.g, s.ldg, s.gCount = b.gs.device, int32(f.states), int32(f.states)
	u := vjpJob{
		net: f.netU.device, mask: b.maskU.device, zbar: b.zbarU.device, scale: f.scaleU, g: b.gu.device,
		ldzbar: int32(f.latent), ldg: int32(f.actions), gCount: int32(f.actions),
	}
	q.backward(rows, max(width(f.netS), width(f.netU)), &s, &u)
}

// middleJob is gpc_middle of include/step.cuh.
type middleJob struct {
	z, zbarS, zbarU, f, k1, mid, flags, energy, x, y, mean, scale, objectives, weights driver.Pointer
	dt, vmax, epsilon                                                                  float32
	n, states, ldx, m, ldweights                                                       int32
}

// firstHalf is the field and energy, and with half the first half of RK2.
func (f *flow) firstHalf(input inputs, b *stepBuffers, half bool) middleJob {
	job := middleJob{
		z: input.z, zbarS: b.zbarS.device, f: b.field.device, energy: b.energy.device, x: input.x, y: b.y.device, mean: f.meanS, scale: f.scaleS,
		objectives: b.objectives.device, weights: input.weights, dt: f.params.Dt, vmax: f.params.VMax, epsilon: f.params.Epsilon,
		n: int32(f.latent), states: int32(f.states), ldx: int32(input.ldx), m: int32(f.objectives), ldweights: int32(input.ldweights),
	}
	if f.hasProblem {
		job.zbarU = b.zbarU.device
	}
	if half {
		job.k1, job.mid, job.flags = b.k1.device, b.mid.device, b.flags.device
	}
	return job
}

// middle queues firstHalf.
func (f *flow) middle(q *queue, rows int, input inputs, b *stepBuffers, half bool) {
	job := f.firstHalf(input, b, half)
	q.needs(func(*trace) work {
		return work{cycles: shortChain, bytes: 4 * float64(rows) * float64(6*f.latent+2*f.states)}
	})
	q.launch("gpc_step_middle", driver.Dim{X: ceil(rows, 4)}, 128, 0, driver.Int32(rows), driver.Struct(&job))
}

// toMiddle queues the first half of RK2 and the forward pass at the midpoint.
func (f *flow) toMiddle(q *queue, rows int, input inputs, b *stepBuffers) {
	mid := input.atMiddle(b)
	if !q.one(rows) {
		f.middle(q, rows, input, b, true)
		f.forward(q, rows, mid, b)
		return
	}
	job := f.firstHalf(input, b, true)
	job.f, job.mid = 0, 0 // which nobody else reads
	q.oneForward(&job, f.passWidth(), f.passes(mid, b)...)
}

// frame queues metric and eigenpairs at the latents whose masks are in b.
func (f *flow) frame(q *queue, rows int, b *stepBuffers) {
	if !f.hasLie() {
		return
	}
	if q.one(rows) && q.oneColumns(f.netS) > 0 {
		q.oneMetric(f.netS, b.maskS.device, f.params.MetricLambda, b.jac.device, b.metric.device)
	} else {
		q.metric(f.netS, rows, b.maskS.device, f.params.MetricLambda, b.jac.device, b.metric.device)
	}
	q.eig(rows, f.latent, f.params.TopK, b.metric.device, f.latent*f.latent, b.values.device, b.vectors.device)
}

// endJob is gpc_end of include/step.cuh.
type endJob struct {
	z, zbarS, zbarU, k1, values, vectors, input, flags, next driver.Pointer
	dt, vmax, gain, angle                                    float32
	n, k, blocks, _                                          int32
}

// secondHalf is that of RK2, with the Lie residual and ⊕.
func (f *flow) secondHalf(input inputs, b *stepBuffers, next driver.Pointer) endJob {
	p := &f.params
	job := endJob{
		z: input.z, zbarS: b.zbarS.device, k1: b.k1.device, values: b.values.device, vectors: b.vectors.device, input: b.flags.device, flags: b.flags.device, next: next,
		dt: p.Dt, vmax: p.VMax, gain: p.LieGain, angle: p.LieScale * p.Dt, n: int32(f.latent), blocks: int32(p.Group.RotationBlocks),
	}
	if f.hasProblem {
		job.zbarU = b.zbarU.device
	}
	if f.hasLie() {
		job.k = int32(p.TopK)
	}
	return job
}

// end queues secondHalf.
func (f *flow) end(q *queue, rows int, input inputs, b *stepBuffers, next driver.Pointer) {
	job := f.secondHalf(input, b, next)
	q.needs(func(*trace) work {
		k := int(job.k)
		return work{cycles: shortChain, bytes: 4 * float64(rows) * float64((5+k)*f.latent+k)}
	})
	q.launch("gpc_step_end", driver.Dim{X: ceil(rows, 4)}, 128, 0, driver.Int32(rows), driver.Struct(&job))
}

// step queues the whole step from in.z to next, but not the action; Base is known.
// gradient queues the objective's gradients at the buffers' states and actions. The frame of the Lie residual is a branch
// beside both field evaluations.
func (f *flow) step(q *queue, rows int, input inputs, b *stepBuffers, next driver.Pointer, gradient func()) {
	f.forward(q, rows, input, b)
	q.fork(func() { f.frame(q, rows, b) })
	f.slopes(q, rows, input, b, gradient)
	f.end(q, rows, input, b, next)
}

// slopes queues both field evaluations behind the first forward pass, and joins the frame.
func (f *flow) slopes(q *queue, rows int, input inputs, b *stepBuffers, gradient func()) {
	gradient()
	f.backward(q, rows, input, b)
	f.toMiddle(q, rows, input, b)
	gradient()
	f.backward(q, rows, input.atMiddle(b), b)
	q.join()
}

// action is the clipped plan at z.
func (f *flow) action(z driver.Pointer, b *stepBuffers) forwardJob {
	u := forwardJob{
		net: f.netU.device, z: z, physical: b.planOut.device, mean: f.meanU, scale: f.scaleU, lo: f.lo, hi: f.hi,
		ldz: int32(f.latent), ldp: int32(f.plan),
	}
	if f.hasProblem {
		u.base, u.ldbase = b.base.device, int32(f.plan)
	}
	return u
}

// decode queues the clipped plan at z, and with states the physical states.
func (f *flow) decode(q *queue, rows int, z driver.Pointer, b *stepBuffers, states bool) {
	u := f.action(z, b)
	if !states {
		q.forward(rows, f.netU.width, &u)
		return
	}
	s := forwardJob{net: f.netS.device, z: z, physical: b.s.device, mean: f.meanS, scale: f.scaleS, ldz: int32(f.latent), ldp: int32(f.states)}
	q.forward(rows, max(f.netS.width, f.netU.width), &s, &u)
}
