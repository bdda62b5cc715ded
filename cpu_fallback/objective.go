package cpufallback

import (
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// objectiveBuffer holds what the problem is called with and what it answers.
type objectiveBuffer struct {
	// A chunk in float32: physical state and actions, the gradients, the objectives
	// and their weighted sum. Without gradients of batches s, u and objectives are empty.
	s, u, gs, gu, objectives tensor.Matrix
	cost                     []float32
	// One row in float64.
	rowS, rowU, rowC, rowW, rowPlan []float64
	rowGS, rowGU, rowJ              []float64
}

func (s *stepper) newObjectiveBuffer(rows int) objectiveBuffer {
	measured := s.netS.out
	o := objectiveBuffer{
		gs: newBuffer(rows, measured), gu: newBuffer(rows, s.action), cost: make([]float32, rows),
		rowS: make([]float64, measured), rowGS: make([]float64, measured),
		rowU: make([]float64, s.action), rowGU: make([]float64, s.action),
		rowC: make([]float64, s.sizes.Contexts), rowPlan: make([]float64, s.netU.out),
		rowW: make([]float64, s.sizes.Objectives), rowJ: make([]float64, s.sizes.Objectives),
	}
	if s.gradient != nil {
		o.s, o.u, o.objectives = newBuffer(rows, measured), newBuffer(rows, s.action), newBuffer(rows, s.sizes.Objectives)
	}
	return o
}

// loadBase evaluates the base plan at the measured state. One observation shared
// by the batch is evaluated once per chunk, and equal ones in a row once.
func (w *stepWorker) loadBase(s *stepper, r span) {
	shared := s.problem == nil || s.in.X.Stride == 0 && s.in.Ctx.Stride == 0
	o := &w.objective
	for i := range r.len() {
		base := w.base.Row(i)
		switch {
		case i > 0 && shared:
			copy(base, w.base.Row(0))
		case s.problem == nil:
			copy(base, s.normU.Mean)
		case i > 0 && slices.Equal(s.in.X.Row(r.from+i), s.in.X.Row(r.from+i-1)) && slices.Equal(s.in.Ctx.Row(r.from+i), s.in.Ctx.Row(r.from+i-1)):
			copy(base, w.base.Row(i-1))
		default:
			tensor.Widen(o.rowS, s.in.X.Row(r.from+i))
			tensor.Widen(o.rowC, s.in.Ctx.Row(r.from+i))
			s.problem.Base(o.rowS, o.rowC, o.rowPlan)
			for j, v := range o.rowPlan {
				base[j] = float32(v) + s.normU.Mean[j]
			}
		}
	}
}

// tangential evaluates the tangential potential Σ_i w_i J_i at the physical
// state and the first action, or the plan, that w.outS and w.outU decode to: its
// gradient to the buffer's gs and gu, and its value to cost, or zero if it is not wanted.
func (w *stepWorker) tangential(s *stepper, r span, withCost bool) {
	if s.gradient != nil {
		w.tangentialBatch(s, r, withCost)
		return
	}
	o := &w.objective
	for i := range r.len() {
		for j, y := range w.outS.Row(i) {
			o.rowS[j] = float64(s.normS.Mean[j]) + float64(s.normS.Scale[j])*float64(y)
		}
		base, y := w.base.Row(i), w.outU.Row(i)
		for j := range o.rowU {
			o.rowU[j] = float64(base[j]) + float64(s.normU.Scale[j])*float64(y[j])
		}
		tensor.Widen(o.rowC, s.in.Ctx.Row(r.from+i))
		tensor.Widen(o.rowW, s.in.Weights.Row(r.from+i))
		s.problem.Gradient(o.rowS, o.rowU, o.rowC, o.rowW, o.rowGS, o.rowGU)
		tensor.Narrow(o.gs.Row(i), o.rowGS)
		tensor.Narrow(o.gu.Row(i), o.rowGU)
		o.cost[i] = 0
		if withCost {
			s.problem.Objectives(o.rowS, o.rowU, o.rowC, o.rowJ)
			o.cost[i] = float32(tensor.DotInOrder(o.rowJ, o.rowW))
		}
	}
}

// tangentialBatch is tangential by a gradient of batches.
func (w *stepWorker) tangentialBatch(s *stepper, r span, withCost bool) {
	o, n := &w.objective, r.len()
	for i := range n {
		s.normS.Invert(o.s.Row(i), w.outS.Row(i))
		base, y := w.base.Row(i), w.outU.Row(i)
		for j := range o.u.Row(i) {
			o.u.Row(i)[j] = base[j] + s.normU.Scale[j]*y[j]
		}
	}
	ctx, weights := s.in.Ctx.Slice(r.from, r.to), s.in.Weights.Slice(r.from, r.to)
	b := domain.Batch{
		Rows: n,
		S:    o.s.Data, SStride: o.s.Stride, U: o.u.Data, UStride: o.u.Stride,
		C: ctx.Data, CStride: ctx.Stride, Sigma: weights.Data, SigmaStride: weights.Stride,
		GS: o.gs.Data, GSStride: o.gs.Stride, GU: o.gu.Data, GUStride: o.gu.Stride,
	}
	if withCost {
		b.J, b.JStride = o.objectives.Data, o.objectives.Stride
	}
	s.gradient(b)
	for i := range n {
		o.cost[i] = 0
		if withCost {
			for j, J := range o.objectives.Row(i) {
				o.cost[i] += weights.Row(i)[j] * J
			}
		}
	}
}
