package kernels

import (
	"cmp"
	"runtime"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/parallel"
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
func (s *Stepper) runStep(t *driver.Thread, whole part, in backend.StepInput, from, to int) error {
	b, f := &s.buffers, &s.flow
	b.stage(in.Z, from, to, b.z)
	b.stage(in.X, from, to, b.x)
	b.stage(in.Ctx, from, to, b.ctx)
	b.stage(in.Weights, from, to, b.weights)
	one := func(m tensor.Matrix) bool { return m.Stride == 0 && m.Cols > 0 && to-from > 1 }
	key := graphKey{part: whole, rows: padded(to - from), tile: s.backend.tileOf(padded(cmp.Or(s.whole, in.Z.Rows))), oneX: one(in.X), oneC: one(in.Ctx), oneW: one(in.Weights)}
	if !f.hasProblem || f.code.name != "" {
		return s.launchPart(t, key)
	}
	s.hostBase(in, from, to)
	switch whole {
	case stepDecode:
		return s.launchPart(t, key)
	case stepField:
		return s.launchParts(t, key, in, from, to, splitStart, splitField)
	}
	return s.launchParts(t, key, in, from, to, splitStart, splitMiddle, splitEnd)
}

// launchParts launches the parts of a split call, with gradients on the host
// between them.
func (s *Stepper) launchParts(t *driver.Thread, key graphKey, in backend.StepInput, from, to int, parts ...part) error {
	for i, p := range parts {
		if i > 0 {
			s.hostGradient(in, from, to)
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
	b, f, rows := &s.buffers, &s.flow, key.rows
	if q.tile = key.tile; q.one(rows) && (!f.hasProblem || f.code.name != "") {
		s.queueOne(q, key.part)
		return
	}
	in := inputs{z: b.z.at, x: b.x.at, ctx: b.ctx.at, weights: b.weights.at, masks: b.maskS.at, ldx: f.states, ldctx: f.contexts, ldweights: f.objectives}
	if key.oneX {
		in.ldx = 0
	}
	if key.oneC {
		in.ldctx = 0
	}
	if key.oneW {
		in.ldweights = 0
	}
	mid := in.atMiddle(b)
	up := func(p piece, cols int, one bool) {
		count := rows * cols
		if one {
			count = cols
		}
		q.upload(p.at, b.host, p.host, 4*count)
	}
	down := func(p piece, cols int) { b.get(q, p, rows*cols) }
	observed := func() {
		if !f.hasProblem && key.part == stepDecode {
			up(b.z, f.latent, false)
			return
		}
		if whole := b.weights.host + b.weights.bytes - b.z.host; whole <= oneCopy {
			q.upload(b.z.at, b.host, b.z.host, whole)
		} else {
			up(b.z, f.latent, false)
			up(b.x, f.states, key.oneX)
			up(b.ctx, f.contexts, key.oneC)
			up(b.weights, f.objectives, key.oneW)
		}
		switch {
		case !f.hasProblem:
		case f.code.name == "":
			up(b.base, f.plan, false)
		default:
			f.bases(q, rows, in, b.base.at)
		}
	}
	gradient := func() {
		switch {
		case !f.hasProblem:
		case f.code.name != "":
			f.gradients(q, rows, in, b)
		default:
			up(b.objectives, f.objectives, false)
			up(b.gs, f.states, false)
			up(b.gu, f.actions, false)
		}
	}
	physical := func() {
		down(b.s, f.states)
		down(b.u, f.plan)
	}
	field := func() {
		gradient()
		f.backward(q, rows, in, b)
		f.middle(q, rows, in, b, false)
		down(b.field, f.latent)
		down(b.energy, 1)
	}
	action := func() {
		f.decode(q, rows, b.next.at, b, false)
		if whole := b.flags.host + b.flags.bytes - b.next.host; whole <= oneCopy {
			q.download(b.host, b.next.host, b.next.at, whole)
			return
		}
		down(b.next, f.latent)
		down(b.planOut, f.plan)
		down(b.energy, 1)
		q.download(b.host, b.flags.host, b.flags.at, rows)
	}
	switch key.part {
	case stepWhole:
		observed()
		f.step(q, rows, in, b, b.next.at, gradient)
		action()
	case stepField:
		observed()
		f.forward(q, rows, in, b)
		field()
	case splitStart:
		observed()
		f.forward(q, rows, in, b)
		q.beside(func() { f.frame(q, rows, b) })
		physical()
		q.join()
	case splitMiddle:
		gradient()
		f.backward(q, rows, in, b)
		f.middle(q, rows, in, b, true)
		f.forward(q, rows, mid, b)
		physical()
	case splitEnd:
		gradient()
		f.backward(q, rows, mid, b)
		f.end(q, rows, in, b, b.next.at)
		action()
	case splitField:
		field()
	case stepDecode:
		observed()
		f.decode(q, rows, in.z, b, true)
		down(b.planOut, f.plan)
		down(b.s, f.states)
	}
}

// inParts calls f on contiguous parts of [0, n), at most one a processor.
func inParts(n int, f func(from, to int)) {
	const least = 64 // rows that are worth a goroutine
	parallel.Split(min(runtime.GOMAXPROCS(0), ceil(n, least)), n, func(_, from, to int) { f(from, to) })
}

// hostBase writes Base(x, c) of rows [from, to) into pinned memory.
func (s *Stepper) hostBase(in backend.StepInput, from, to int) {
	b, f := &s.buffers, &s.flow
	begin := time.Now()
	base := driver.HostSlice[float32](b.host, b.base.host, (to-from)*f.plan)
	shared := in.X.Stride == 0 && in.Ctx.Stride == 0
	rows := to - from
	if shared {
		rows = 1
	}
	inParts(rows, func(low, high int) {
		x, c, plan := make([]float64, f.states), make([]float64, f.contexts), make([]float64, f.plan)
		for i := low; i < high; i++ {
			tensor.Widen(x, in.X.Row(from+i))
			tensor.Widen(c, in.Ctx.Row(from+i))
			s.problem.Base(x, c, plan)
			tensor.Narrow(base[i*f.plan:(i+1)*f.plan], plan)
		}
	})
	if shared {
		for i := 1; i < to-from; i++ {
			copy(base[i*f.plan:], base[:f.plan])
		}
	}
	s.split.HostSeconds += time.Since(begin).Seconds()
	s.split.Bytes += 4 * (to - from) * f.plan
}

// hostGradient takes the gradients at the physical states and actions in pinned
// memory, and leaves them there.
func (s *Stepper) hostGradient(in backend.StepInput, from, to int) {
	b, f, rows := &s.buffers, &s.flow, to-from
	begin := time.Now()
	view := func(p piece, cols int) []float32 { return driver.HostSlice[float32](b.host, p.host, rows*cols) }
	states, plans := view(b.s, f.states), view(b.u, f.plan)
	J, gs, gu := view(b.objectives, f.objectives), view(b.gs, f.states), view(b.gu, f.actions)
	inParts(rows, func(low, high int) {
		if s.rows != nil {
			c, w := in.Ctx.Slice(from+low, from+high), in.Weights.Slice(from+low, from+high)
			s.rows(domain.Batch{
				Rows: high - low, S: states[low*f.states:], SStride: f.states, U: plans[low*f.plan:], UStride: f.plan,
				C: c.Data, CStride: c.Stride, Sigma: w.Data, SigmaStride: w.Stride,
				J: J[low*f.objectives:], JStride: f.objectives, GS: gs[low*f.states:], GSStride: f.states, GU: gu[low*f.actions:], GUStride: f.actions,
			})
			return
		}
		x, u, c, w := make([]float64, f.states), make([]float64, f.actions), make([]float64, f.contexts), make([]float64, f.objectives)
		gx, gv, j := make([]float64, f.states), make([]float64, f.actions), make([]float64, f.objectives)
		for i := low; i < high; i++ {
			tensor.Widen(x, states[i*f.states:(i+1)*f.states])
			tensor.Widen(u, plans[i*f.plan:i*f.plan+f.actions])
			tensor.Widen(c, in.Ctx.Row(from+i))
			tensor.Widen(w, in.Weights.Row(from+i))
			s.problem.Objectives(x, u, c, j)
			s.problem.Gradient(x, u, c, w, gx, gv)
			tensor.Narrow(J[i*f.objectives:(i+1)*f.objectives], j)
			tensor.Narrow(gs[i*f.states:(i+1)*f.states], gx)
			tensor.Narrow(gu[i*f.actions:(i+1)*f.actions], gv)
		}
	})
	s.split.Evaluations++
	s.split.Rows += rows
	s.split.HostSeconds += time.Since(begin).Seconds()
	s.split.Bytes += 4 * padded(rows) * (2*f.states + f.plan + f.actions + f.objectives)
}
