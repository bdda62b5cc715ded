package kernels

import "github.com/gpc-engine/gpc/kernels/driver"

// One row. A graph of a batch copies what the host observed to the device and results
// back; that of one row has no copies: its first kernel takes the observation from
// pinned memory, and what the host asks for its kernels write there.

// takeJob is gpc_take of step_one.cu.
type takeJob struct {
	from, to [4]driver.Pointer
	count    [4]int32
}

// queueOne puts a part on the stream for one row, of a problem with device functions or
// of none.
func (s *Stepper) queueOne(q *queue, whole part) {
	f := &s.flow
	b := s.buffers // with what comes out in pinned memory
	for _, p := range []*piece{&b.next, &b.planOut, &b.energy, &b.field} {
		p.device = b.pinned(*p)
	}
	input := inputs{z: b.z.device, x: b.x.device, ctx: b.ctx.device, weights: b.weights.device, masks: b.maskS.device, ldx: f.states, ldctx: f.contexts, ldweights: f.objectives}
	q.take(&b, f)
	base := func() {
		if f.hasProblem {
			f.bases(q, 1, input, b.base.device)
		}
	}
	gradient := func() {
		if f.hasProblem {
			f.gradients(q, 1, input, &b)
		}
	}
	switch whole {
	case stepWhole:
		// D_s does not wait for Base, and the frame, the longest branch, for nothing else.
		passes := f.passes(input, &b)
		q.fork(func() {
			q.forward(1, f.passWidth(), passes[0])
			q.mark()
			f.frame(q, 1, &b)
		})
		base()
		if f.hasProblem {
			q.forward(1, f.passWidth(), passes[1])
		}
		q.await()
		f.slopes(q, 1, input, &b, gradient)
		end, decode := f.secondHalf(input, &b, b.next.device), f.action(b.next.device, &b)
		end.flags = b.pinned(b.flags)
		q.oneDecode(&end, f.netU.width, &decode)
	case stepField:
		base()
		f.forward(q, 1, input, &b)
		gradient()
		f.backward(q, 1, input, &b)
		f.middle(q, 1, input, &b, false)
	case stepDecode:
		base()
		b.s.device = b.pinned(b.s)
		f.decode(q, 1, input.z, &b, true)
	}
}

// pinned is where a kernel finds a piece in pinned memory.
func (b *stepBuffers) pinned(p piece) driver.Pointer { return b.host.Device().Offset(p.host) }

// take queues what the host observed of one row.
func (q *queue) take(b *stepBuffers, f *flow) {
	var job takeJob
	pieces := []struct {
		piece
		count int
	}{{b.z, f.latent}, {b.x, f.states}, {b.ctx, f.contexts}, {b.weights, f.objectives}}
	if !f.hasProblem {
		pieces = pieces[:2]
	}
	for i, p := range pieces {
		job.from[i], job.to[i], job.count[i] = b.pinned(p.piece), p.device, int32(p.count)
	}
	q.launch("gpc_one_take", driver.Dim{X: len(job.count)}, 128, 0, driver.Struct(&job))
}

// oneForward launches gpc_one_forward on one or two jobs.
func (q *queue) oneForward(middle *middleJob, width int, jobs ...*forwardJob) {
	_, shared := q.forwardShape(1, width)
	first, last := jobs[0], jobs[len(jobs)-1]
	q.needs(func(tr *trace) work {
		return tr.pass(1, 1, single, []driver.Pointer{first.net, last.net}[:len(jobs)]...).and(shortChain)
	})
	q.launch("gpc_one_forward", driver.Dim{X: 1, Y: len(jobs)}, 256, shared, driver.Struct(middle), driver.Struct(first), driver.Struct(last))
}

// oneDecode launches gpc_one_decode.
func (q *queue) oneDecode(end *endJob, width int, job *forwardJob) {
	_, shared := q.forwardShape(1, width)
	q.needs(func(tr *trace) work { return tr.pass(1, 1, single, job.net).and(shortChain) })
	q.launch("gpc_one_decode", driver.Dim{X: 1}, 256, shared, driver.Struct(end), driver.Struct(job))
}
