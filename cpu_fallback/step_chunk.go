package cpufallback

import (
	"math"

	"github.com/gpc-engine/gpc/cpu_fallback/internal/eig"
	"github.com/gpc-engine/gpc/cpu_fallback/internal/gemm"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

var (
	positiveInfinity = float32(math.Inf(1))
	negativeInfinity = float32(math.Inf(-1))
)

// stepWorker is the workspace in which one worker takes up to capacity latents
// through a step. Matrices have capacity rows and are sliced to the chunk.
type stepWorker struct {
	capacity       int
	chunkS, chunkU *netChunk // activations of the last forward passes

	z, slope, second tensor.Matrix // latent, k_1, and z_mid and then k_2
	fieldU           tensor.Matrix // the part of the field through D_u
	measured         tensor.Matrix // x̂, normalised
	base             tensor.Matrix // Base(x, c) + the mean of NormU: plan = base + Scale ⊙ D_u(z)
	outS, outU       tensor.Matrix // D_s(z), D_u(z), normalised; then the cotangents
	metric           tensor.Matrix
	values, vectors  tensor.Matrix
	energy           []float32
	fallback         []backend.Fallback

	solver *eig.Solver
	turn   []float64 // [2k] scratch of the Lie residual
	move   []float32 // [n_z] Δz
	lie    []float32 // [n_z] Δz_Lie

	objective objectiveBuffer
}

func (s *stepper) newWorker(rows int) *stepWorker {
	latent, measured := s.netS.in, s.netS.out
	plan, k := s.netU.out, s.params.TopK
	buffer := func(cols int) tensor.Matrix { return newBuffer(rows, cols) }
	w := &stepWorker{
		capacity: rows,
		chunkS:   s.netS.newChunk(rows), chunkU: s.netU.newChunk(rows),
		z: buffer(latent), slope: buffer(latent), second: buffer(latent),
		fieldU:   buffer(latent),
		measured: buffer(measured), base: buffer(plan),
		outS: buffer(measured), outU: buffer(plan),
		energy: make([]float32, rows), fallback: make([]backend.Fallback, rows),
		move: make([]float32, latent), lie: make([]float32, latent),
	}
	if s.residual() {
		w.metric, w.values, w.vectors = buffer(latent*latent), buffer(k), buffer(latent*k)
		w.solver, w.turn = eig.New(s.backend.level, latent, k), make([]float64, 2*k)
	}
	if s.problem != nil {
		w.objective = s.newObjectiveBuffer(rows)
	}
	return w
}

// newBuffer is a matrix that begins at a cache line.
func newBuffer(rows, cols int) tensor.Matrix {
	return tensor.Matrix{Rows: rows, Cols: cols, Stride: cols, Data: gemm.Buffer(rows * cols)}
}

// residual reports whether a step has a Lie residual at all.
func (s *stepper) residual() bool { return s.params.LieGain != 0 && s.params.TopK > 0 }

// step is Stepper.Step of one chunk.
func (w *stepWorker) step(s *stepper, r span) {
	n, p := r.len(), &s.params
	z, slope, second := w.z.Slice(0, n), w.slope.Slice(0, n), w.second.Slice(0, n)
	w.load(s, r)
	w.field(s, r, z, slope, s.out.Energy != nil)
	if s.residual() {
		metric, values, vectors := w.metric.Slice(0, n), w.values.Slice(0, n), w.vectors.Slice(0, n)
		s.netS.metricChunk(w.chunkS, p.MetricLambda, metric)
		w.solver.TopK(metric.Data, metric.Stride, n, values.Data, values.Stride, vectors.Data, vectors.Stride)
	}
	if s.out.Energy != nil {
		copy(s.out.Energy[r.from:r.to], w.energy)
	}
	w.midpoints(p, z, slope, second)
	w.field(s, r, second, second, false)
	for i := range n {
		w.advance(s, i)
	}
	if s.out.Z.Rows != 0 {
		for i := range n {
			copy(s.out.Z.Row(r.from+i), z.Row(i))
		}
	}
	if s.out.Fallbacks != nil {
		copy(s.out.Fallbacks[r.from:r.to], w.fallback)
	}
	if s.out.U.Rows != 0 {
		w.decode(s, r)
	}
}

// load copies the chunk's latents and prepares what does not change along the
// step: the normalised measurement and the base plan.
func (w *stepWorker) load(s *stepper, r span) {
	for i := range r.len() {
		copy(w.z.Row(i), s.in.Z.Row(r.from+i))
		if i > 0 && s.in.X.Stride == 0 {
			copy(w.measured.Row(i), w.measured.Row(0))
		} else {
			s.normS.Apply(w.measured.Row(i), s.in.X.Row(r.from+i))
		}
	}
	w.loadBase(s, r)
}

// field writes F = −∇V at the latents z to f, which may be z, and V to w.energy
// if it is wanted. It leaves the activations of D_s at z in w.chunkS.
func (w *stepWorker) field(s *stepper, r span, z, f tensor.Matrix, withEnergy bool) {
	n := r.len()
	outS, outU, fieldU := w.outS.Slice(0, n), w.outU.Slice(0, n), w.fieldU.Slice(0, n)
	s.netS.forwardChunk(w.chunkS, z, outS)
	if s.problem != nil {
		s.netU.forwardChunk(w.chunkU, z, outU)
		w.tangential(s, r, withEnergy)
	}
	// outS and outU turn from decoded values into −∂V/∂D_s and −∂V/∂D_u.
	inverse := 1 / s.params.Epsilon
	for i := range n {
		y := outS.Row(i)
		sum := float32(0)
		for j, x := range w.measured.Row(i) {
			d := x - y[j]
			sum += d * d
			y[j] = 2 * inverse * d
		}
		w.energy[i] = inverse * sum
		if s.problem == nil {
			continue
		}
		w.energy[i] += w.objective.cost[i]
		for j, g := range w.objective.gs.Row(i) {
			y[j] -= s.normS.Scale[j] * g
		}
		u := outU.Row(i)
		clear(u)
		for j, g := range w.objective.gu.Row(i) {
			u[j] = -s.normU.Scale[j] * g
		}
	}
	s.netS.vjpChunk(w.chunkS, outS, f)
	if s.problem == nil {
		return
	}
	s.netU.vjpChunk(w.chunkU, outU, fieldU)
	for i := range n {
		sum := f.Row(i)
		for j, g := range fieldU.Row(i) {
			sum[j] += g
		}
	}
}

// midpoints caps k_1 and writes z_mid = z + ½Δt·k_1, with the guards of the
// predictor. A row without motion keeps z as its midpoint: its second slope is
// not used.
func (w *stepWorker) midpoints(p *backend.StepParams, z, slope, mid tensor.Matrix) {
	half := 0.5 * p.Dt
	for i := range z.Rows {
		from, k1, to := z.Row(i), slope.Row(i), mid.Row(i)
		w.fallback[i] = 0
		capSlope(k1, p.VMax)
		if !tensor.Finite(k1) {
			w.fallback[i] = backend.FallbackNoStep
			copy(to, from)
			continue
		}
		for j, v := range k1 {
			to[j] = from[j] + half*v
		}
		if !tensor.Finite(to) {
			w.fallback[i] = backend.FallbackMidpoint
			copy(to, from)
		}
	}
}

// advance replaces row i of z by z_{t+1} from the second slope in w.second.
func (w *stepWorker) advance(s *stepper, i int) {
	p := &s.params
	z, k2 := w.z.Row(i), w.second.Row(i)
	if w.fallback[i]&backend.FallbackNoStep != 0 {
		clear(w.move)
		compose(z, w.move, p.Group)
		return
	}
	if tensor.Finite(k2) {
		capSlope(k2, p.VMax)
	} else {
		w.fallback[i] |= backend.FallbackSecondSlope
		copy(k2, w.slope.Row(i))
	}
	for j, v := range k2 {
		w.move[j] = p.Dt * v
	}
	if s.residual() && !lieResidual(w.move, k2, w.vectors.Row(i), w.values.Row(i), p.LieScale*p.Dt, p.LieGain, w.lie, w.turn) {
		w.fallback[i] |= backend.FallbackLie
	}
	compose(z, w.move, p.Group)
}

// decode writes the clipped plan at the latents in w.z.
func (w *stepWorker) decode(s *stepper, r span) {
	n := r.len()
	outU := w.outU.Slice(0, n)
	s.netU.forwardChunk(w.chunkU, w.z.Slice(0, n), outU)
	for i := range n {
		u, base, y := s.out.U.Row(r.from+i), w.base.Row(i), outU.Row(i)
		for j, scale := range s.normU.Scale {
			u[j] = base[j] + scale*y[j]
		}
		if !s.boxed {
			continue
		}
		for j, v := range u {
			if v < s.lo[j] {
				u[j] = s.lo[j]
			} else if v > s.hi[j] {
				u[j] = s.hi[j]
			}
		}
	}
}

// fieldOnly is Stepper.Field of one chunk.
func (w *stepWorker) fieldOnly(s *stepper, r span) {
	n := r.len()
	w.load(s, r)
	w.field(s, r, w.z.Slice(0, n), w.slope.Slice(0, n), s.out.Energy != nil)
	for i := range n {
		copy(s.field.Row(r.from+i), w.slope.Row(i))
	}
	if s.out.Energy != nil {
		copy(s.out.Energy[r.from:r.to], w.energy)
	}
}

// decodeOnly is Stepper.Decode of one chunk.
func (w *stepWorker) decodeOnly(s *stepper, r span) {
	n := r.len()
	for i := range n {
		copy(w.z.Row(i), s.in.Z.Row(r.from+i))
	}
	w.loadBase(s, r)
	w.decode(s, r)
	if s.states.Rows == 0 {
		return
	}
	outS := w.outS.Slice(0, n)
	s.netS.forwardChunk(w.chunkS, w.z.Slice(0, n), outS)
	for i := range n {
		s.normS.Invert(s.states.Row(r.from+i), outS.Row(i))
	}
}
