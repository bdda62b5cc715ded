package kernels

import (
	"runtime"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/tensor"
)

// inParts calls f on contiguous parts of [0, n), at most one a processor.
func inParts(n int, f func(from, to int)) {
	const least = 64 // rows that are worth a goroutine
	parallel.Split(min(runtime.GOMAXPROCS(0), ceil(n, least)), n, func(_, from, to int) { f(from, to) })
}

// hostBase writes Base(x, c) of rows [from, to) into pinned memory.
func (s *Stepper) hostBase(input backend.StepInput, from, to int) {
	b, f := &s.buffers, &s.flow
	begin := time.Now()
	base := driver.HostSlice[float32](b.host, b.base.host, (to-from)*f.plan)
	shared := input.X.Stride == 0 && input.Ctx.Stride == 0
	rows := to - from
	if shared {
		rows = 1
	}
	inParts(rows, func(low, high int) {
		x, c, plan := make([]float64, f.states), make([]float64, f.contexts), make([]float64, f.plan)
		for i := low; i < high; i++ {
			tensor.Widen(x, input.X.Row(from+i))
			tensor.Widen(c, input.Ctx.Row(from+i))
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
func (s *Stepper) hostGradient(input backend.StepInput, from, to int) {
	b, f, rows := &s.buffers, &s.flow, to-from
	begin := time.Now()
	view := func(p piece, cols int) []float32 { return driver.HostSlice[float32](b.host, p.host, rows*cols) }
	states, plans := view(b.s, f.states), view(b.u, f.plan)
	J, gs, gu := view(b.objectives, f.objectives), view(b.gs, f.states), view(b.gu, f.actions)
	inParts(rows, func(low, high int) {
		if s.rows != nil {
			c, w := input.Ctx.Slice(from+low, from+high), input.Weights.Slice(from+low, from+high)
			s.rows(domain.Batch{
				Rows: high - low, S: states[low*f.states:], SStride: f.states, U: plans[low*f.plan:], UStride: f.plan,
				C: c.Data, CStride: c.Stride, Sigma: w.Data, SigmaStride: w.Stride,
				J: J[low*f.objectives:], JStride: f.objectives, GS: gs[low*f.states:], GSStride: f.states, GU: gu[low*f.actions:], GUStride: f.actions,
			})
			return
		}
		x, u := make([]float64, f.states), make([]float64, f.actions)
		c, w := make([]float64, f.contexts), make([]float64, f.objectives)
		gx, gv, j := make([]float64, f.states), make([]float64, f.actions), make([]float64, f.objectives)
		for i := low; i < high; i++ {
			tensor.Widen(x, states[i*f.states:(i+1)*f.states])
			tensor.Widen(u, plans[i*f.plan:i*f.plan+f.actions])
			tensor.Widen(c, input.Ctx.Row(from+i))
			tensor.Widen(w, input.Weights.Row(from+i))
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
