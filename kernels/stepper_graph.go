package kernels

import (
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

// part is what one graph of a stepper does. A problem with device functions has
// one graph a call; of a split step each call is several parts with the host
// between them.
type part uint8

const (
	stepWhole part = iota
	stepField
	stepDecode
	splitStart  // forward pass, metric and frame
	splitMiddle // backward pass to the midpoint, forward pass there
	splitEnd    // backward pass at the midpoint, new latent, action
	splitField  // backward pass to the field
)

// graphKey names a graph: its part, its padded rows, the tile of its passes and which
// inputs are one row for the whole batch.
type graphKey struct {
	part             part
	rows, tile       int
	oneX, oneC, oneW bool
}

// oneCopy is up to how many bytes neighbouring matrices cross in one copy, gaps and
// padding included: less than what another copy's latency costs.
const oneCopy = 32 << 10

// runStep takes rows [from, to) of a call through the device; results lie in pinned
// memory afterwards.
func (s *Stepper) runStep(t *driver.Thread, whole part, input backend.StepInput, from, to int) error {
	b, f := &s.buffers, &s.flow
	b.stage(input.Z, from, to, b.z)
	b.stage(input.X, from, to, b.x)
	b.stage(input.Ctx, from, to, b.ctx)
	b.stage(input.Weights, from, to, b.weights)
	one := func(m tensor.Matrix) bool { return m.Stride == 0 && m.Cols > 0 && to-from > 1 }
	key := graphKey{part: whole, rows: padded(to - from), tile: s.backend.tileOf(padded(input.Z.Rows)), oneX: one(input.X), oneC: one(input.Ctx), oneW: one(input.Weights)}
	if !f.hasProblem || f.code.name != "" {
		return s.launchPart(t, key)
	}
	s.hostBase(input, from, to)
	switch whole {
	case stepDecode:
		return s.launchPart(t, key)
	case stepField:
		return s.launchParts(t, key, input, from, to, splitStart, splitField)
	}
	return s.launchParts(t, key, input, from, to, splitStart, splitMiddle, splitEnd)
}

// launchParts launches the parts of a split call, with gradients on the host
// between them.
func (s *Stepper) launchParts(t *driver.Thread, key graphKey, input backend.StepInput, from, to int, parts ...part) error {
	for i, p := range parts {
		if i > 0 {
			s.hostGradient(input, from, to)
		}
		key.part = p
		if err := s.launchPart(t, key); err != nil {
			return err
		}
	}
	return nil
}

// launchPart launches a graph, capturing it the first time, and waits for it.
func (s *Stepper) launchPart(t *driver.Thread, key graphKey) error {
	return s.graphs.run(t, s.backend, key, func(q *queue) { s.queue(q, key) })
}

// queue puts a part on the stream, with the copies of what crosses.
func (s *Stepper) queue(q *queue, key graphKey) {
	f := &s.flow
	if q.tile = key.tile; q.one(key.rows) && (!f.hasProblem || f.code.name != "") {
		s.queueOne(q, key.part)
		return
	}
	p := queuedPart{q, key, f, &s.buffers, key.inputs(&s.buffers, f)}
	p.enqueue()
}

// inputs are where the kernels find what the host observed.
func (k *graphKey) inputs(b *stepBuffers, f *flow) inputs {
	input := inputs{z: b.z.device, x: b.x.device, ctx: b.ctx.device, weights: b.weights.device, masks: b.maskS.device, ldx: f.states, ldctx: f.contexts, ldweights: f.objectives}
	if k.oneX {
		input.ldx = 0
	}
	if k.oneC {
		input.ldctx = 0
	}
	if k.oneW {
		input.ldweights = 0
	}
	return input
}

// queuedPart puts the part of a key on a queue.
type queuedPart struct {
	*queue
	key   graphKey
	f     *flow
	b     *stepBuffers
	input inputs
}

func (p *queuedPart) enqueue() {
	q, f, b := p.queue, p.f, p.b
	input, rows := p.input, p.key.rows
	switch p.key.part {
	case stepWhole:
		p.observed()
		f.step(q, rows, input, b, b.next.device, p.gradient)
		p.action()
	case stepField:
		p.observed()
		f.forward(q, rows, input, b)
		p.field()
	case splitStart:
		p.observed()
		f.forward(q, rows, input, b)
		q.fork(func() { f.frame(q, rows, b) })
		p.physical()
		q.join()
	case splitMiddle:
		p.gradient()
		f.backward(q, rows, input, b)
		f.middle(q, rows, input, b, true)
		f.forward(q, rows, input.atMiddle(b), b)
		p.physical()
	case splitEnd:
		p.gradient()
		f.backward(q, rows, input.atMiddle(b), b)
		f.end(q, rows, input, b, b.next.device)
		p.action()
	case splitField:
		p.field()
	case stepDecode:
		p.observed()
		f.decode(q, rows, input.z, b, true)
		p.down(b.planOut, f.plan)
		p.down(b.s, f.states)
	}
}

// up copies a piece to the device: its rows, or the first one.
func (p *queuedPart) up(dst piece, cols int, one bool) {
	rows := p.key.rows
	if one {
		rows = 1
	}
	p.upload(dst.device, p.b.host, dst.host, 4*rows*cols)
}

// down copies the rows of a piece to the host.
func (p *queuedPart) down(source piece, cols int) { p.b.get(p.queue, source, p.key.rows*cols) }

// observed brings what the host observed, and Base: from the host, or by the device functions.
func (p *queuedPart) observed() {
	f, b := p.f, p.b
	if !f.hasProblem && p.key.part == stepDecode {
		p.up(b.z, f.latent, false)
		return
	}
	if whole := b.weights.host + b.weights.bytes - b.z.host; whole <= oneCopy {
		p.upload(b.z.device, b.host, b.z.host, whole)
	} else {
		p.up(b.z, f.latent, false)
		p.up(b.x, f.states, p.key.oneX)
		p.up(b.ctx, f.contexts, p.key.oneC)
		p.up(b.weights, f.objectives, p.key.oneW)
	}
	switch {
	case !f.hasProblem:
	case f.code.name == "":
		p.up(b.base, f.plan, false)
	default:
		f.bases(p.queue, p.key.rows, p.input, b.base.device)
	}
}

// gradient brings the objective's gradients: from the host, or by the device functions.
func (p *queuedPart) gradient() {
	f, b := p.f, p.b
	switch {
	case !f.hasProblem:
	case f.code.name != "":
		f.gradients(p.queue, p.key.rows, p.input, b)
	default:
		p.up(b.objectives, f.objectives, false)
		p.up(b.gs, f.states, false)
		p.up(b.gu, f.actions, false)
	}
}

// physical hands the decoded states and plans to the host, which takes gradients there.
func (p *queuedPart) physical() {
	p.down(p.b.s, p.f.states)
	p.down(p.b.u, p.f.plan)
}

// field is the field and the energy behind the first forward pass.
func (p *queuedPart) field() {
	p.gradient()
	p.f.backward(p.queue, p.key.rows, p.input, p.b)
	p.f.middle(p.queue, p.key.rows, p.input, p.b, false)
	p.down(p.b.field, p.f.latent)
	p.down(p.b.energy, 1)
}

// action decodes the new latents and hands over what a step gives.
func (p *queuedPart) action() {
	f, b := p.f, p.b
	f.decode(p.queue, p.key.rows, b.next.device, b, false)
	if whole := b.flags.host + b.flags.bytes - b.next.host; whole <= oneCopy {
		p.download(b.host, b.next.host, b.next.device, whole)
		return
	}
	p.down(b.next, f.latent)
	p.down(b.planOut, f.plan)
	p.down(b.energy, 1)
	p.download(b.host, b.flags.host, b.flags.device, p.key.rows)
}
