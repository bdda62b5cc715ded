package kernels

import (
	"runtime"
	"sync"
	"time"

	"github.com/gpc-engine/gpc/domain"
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

// graphKey names a graph: its part, its padded rows and which inputs are one row
// for the whole batch.
type graphKey struct {
	part             part
	rows             int
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
	one := func(m tensor.Matrix) bool { return m.Stride == 0 && m.Cols > 0 }
	key := graphKey{part: whole, rows: padded(to - from), oneX: one(in.X), oneC: one(in.Ctx), oneW: one(in.Weights)}
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
	return s.graphs.run(t, s.backend.stream, key, func() error { return s.queue(t, key) })
}

// queue puts a part on the stream, with the copies of what crosses.
func (s *Stepper) queue(t *driver.Thread, key graphKey) error {
	b, f, rows := &s.buffers, &s.flow, key.rows
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
	up := func(p piece, cols int, one bool) func() error {
		count := rows * cols
		if one {
			count = cols
		}
		return func() error { return t.UploadAsync(p.at, b.host, p.host, 4*count, s.backend.stream) }
	}
	down := func(p piece, cols int) func() error {
		return func() error { return b.get(t, s.backend.stream, p, rows*cols) }
	}
	then := func(steps ...func() error) error {
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	}
	observed := func() error {
		if !f.hasProblem && key.part == stepDecode {
			return up(b.z, f.latent, false)()
		}
		if whole := b.weights.host + b.weights.bytes - b.z.host; whole <= oneCopy {
			if err := t.UploadAsync(b.z.at, b.host, b.z.host, whole, s.backend.stream); err != nil {
				return err
			}
		} else if err := then(up(b.z, f.latent, false), up(b.x, f.states, key.oneX), up(b.ctx, f.contexts, key.oneC), up(b.weights, f.objectives, key.oneW)); err != nil {
			return err
		}
		switch {
		case !f.hasProblem:
			return nil
		case f.code.name == "":
			return up(b.base, f.plan, false)()
		}
		return f.bases(t, rows, in, b.base.at)
	}
	forward := func() error { return f.forward(t, rows, in, b) }
	forwardMid := func() error { return f.forward(t, rows, mid, b) }
	frame := func() error { return s.backend.beside(t, func() error { return f.frame(t, rows, b) }) }
	join := func() error { return s.backend.join(t) }
	gradient := func() error {
		switch {
		case !f.hasProblem:
			return nil
		case f.code.name != "":
			return f.gradients(t, rows, in, b)
		}
		return then(up(b.objectives, f.objectives, false), up(b.gs, f.states, false), up(b.gu, f.actions, false))
	}
	backward := func() error { return f.backward(t, rows, in, b) }
	backwardMid := func() error { return f.backward(t, rows, mid, b) }
	middle := func(half bool) func() error {
		return func() error { return f.middle(t, rows, in, b, half) }
	}
	end := func() error { return f.end(t, rows, in, b, b.next.at) }
	decode := func() error { return f.decode(t, rows, b.next.at, b, false) }
	physical := func() error { return then(down(b.s, f.states), down(b.u, f.plan)) }
	flags := func() error { return t.DownloadAsync(b.host, b.flags.host, b.flags.at, rows, s.backend.stream) }
	results := func() error {
		if whole := b.flags.host + b.flags.bytes - b.next.host; whole <= oneCopy {
			return t.DownloadAsync(b.host, b.next.host, b.next.at, whole, s.backend.stream)
		}
		return then(down(b.next, f.latent), down(b.planOut, f.plan), down(b.energy, 1), flags)
	}
	switch key.part {
	case stepWhole:
		return then(observed, func() error { return f.step(t, rows, in, b, b.next.at, gradient) }, decode, results)
	case stepField:
		return then(observed, forward, gradient, backward, middle(false), down(b.field, f.latent), down(b.energy, 1))
	case splitStart:
		return then(observed, forward, frame, physical, join)
	case splitMiddle:
		return then(gradient, backward, middle(true), forwardMid, physical)
	case splitEnd:
		return then(gradient, backwardMid, end, decode, results)
	case splitField:
		return then(gradient, backward, middle(false), down(b.field, f.latent), down(b.energy, 1))
	}
	return then(observed, func() error { return f.decode(t, rows, in.z, b, true) }, down(b.planOut, f.plan), down(b.s, f.states))
}

// inParts calls f on contiguous parts of [0, n), one a processor.
func inParts(n int, f func(from, to int)) {
	const least = 64 // rows that are worth a goroutine
	parts := min(runtime.GOMAXPROCS(0), ceil(n, least))
	if parts <= 1 {
		f(0, n)
		return
	}
	var wait sync.WaitGroup
	for p := range parts {
		wait.Go(func() { f(p*n/parts, (p+1)*n/parts) })
	}
	wait.Wait()
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
			s.rows.GradientBatch(domain.Batch{
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
