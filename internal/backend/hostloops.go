package backend

import (
	"fmt"
	"math"
	"time"

	"github.com/gpc-engine/gpc/tensor"
)

// HostLoops are many closed loops of one map in single operations of any backend: the latent part of Algorithm 2 of the paper
// ("Online Pareto Map Navigation", steps 1 to 5) for all loops together. They are the specification of Loops: a LoopsBackend gives
// the same results, and package engine goes on here when it is lost. Projections are left to the caller, who has the problem's own.
// After its first decision on the CPU backend it does not allocate, if the Problem does not.
type HostLoops struct {
	cfg     LoopsConfig
	parts   LoopParts
	latents tensor.Matrix // z of the decision before, the state, a row for each loop
	every   []int         // all loops
	whole   room          // for them
	// Of the decision that is made: row i is of loop which[i].
	which []int
	room
	localized                  time.Time
	shat, action, delta, fresh []float64
}

// room is the workspace of a decision of so many rows.
type room struct {
	input, normal, ctx      tensor.Matrix // of E_x; x̂; c
	observed, latent, moved tensor.Matrix // z_obs; z_t; z_{t+1}
	decoded, normDecoded    tensor.Matrix // ŝ; the same normalised
	weight                  tensor.Matrix
	consistent              []bool
}

// first is the room for n rows.
func (r *room) first(n int) room {
	return room{
		input: r.input.Slice(0, n), normal: r.normal.Slice(0, n), ctx: r.ctx.Slice(0, n),
		observed: r.observed.Slice(0, n), latent: r.latent.Slice(0, n), moved: r.moved.Slice(0, n),
		decoded: r.decoded.Slice(0, n), normDecoded: r.normDecoded.Slice(0, n),
		weight: r.weight.Slice(0, n), consistent: r.consistent[:n],
	}
}

// LoopParts are the operations that the loops are made of. Index is nil for a model
// without codes.
type LoopParts struct {
	Encoder Net
	Index   Index
	Stepper Stepper
}

// NewHostLoops makes the operations on a backend and loops of them. Networks and codes are
// copied.
func NewHostLoops(b Backend, cfg LoopsConfig) (*HostLoops, error) {
	var p LoopParts
	var err error
	if p.Encoder, err = b.NewNet(cfg.EncoderX); err != nil {
		return nil, fmt.Errorf("loops: E_x: %w", err)
	}
	if cfg.Codes.Rows > 0 {
		if p.Index, err = b.NewIndex(cfg.Codes, cfg.Decoded); err != nil {
			return nil, fmt.Errorf("loops: index over the codes: %w", err)
		}
	}
	if p.Stepper, err = b.NewStepper(cfg.Step); err != nil {
		return nil, fmt.Errorf("loops: %w", err)
	}
	return HostLoopsOf(p, cfg)
}

// HostLoopsOf makes loops of operations that are there already, which it uses from then on.
func HostLoopsOf(parts LoopParts, cfg LoopsConfig) (*HostLoops, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	spec, rows, nz := cfg.Step.Problem.Spec(), cfg.Step.MaxBatch, cfg.Step.DecoderS.In()
	ns, m := spec.MeasuredSize(), spec.ObjectiveSize()
	l := &HostLoops{
		cfg: cfg, parts: parts, latents: tensor.New(rows, nz), every: make([]int, rows),
		whole: room{
			input: tensor.New(rows, spec.ObservationSize()), normal: tensor.New(rows, ns), ctx: tensor.New(rows, spec.ContextSize()),
			observed: tensor.New(rows, nz), latent: tensor.New(rows, nz), moved: tensor.New(rows, nz),
			decoded: tensor.New(rows, ns), normDecoded: tensor.New(rows, ns), weight: tensor.New(rows, m),
			consistent: make([]bool, rows),
		},
		shat: make([]float64, ns), action: make([]float64, spec.ActionSize()), delta: make([]float64, m), fresh: make([]float64, m),
	}
	for i := range l.every {
		l.every[i] = i
	}
	for i := range l.latents.Data {
		l.latents.Data[i] = float32(math.NaN())
	}
	return l, nil
}

// Localized is when the last decision had localized and smoothed its latents.
func (l *HostLoops) Localized() time.Time { return l.localized }

// Latents implements Loops.
func (l *HostLoops) Latents(z tensor.Matrix) error { return z.CopyFrom(l.latents) }

// SetLatents implements Loops.
func (l *HostLoops) SetLatents(z tensor.Matrix) error { return l.latents.CopyFrom(z) }

// Decide implements Loops.
func (l *HostLoops) Decide(in LoopsInput, out LoopsOutput) error {
	return l.DecideSome(l.every, in, out)
}

// DecideSome takes the loops of these numbers, none of them twice, one decision further, at
// the cost of as many rows: row i of in and out is of loop which[i]. It keeps nothing of which.
func (l *HostLoops) DecideSome(which []int, in LoopsInput, out LoopsOutput) error {
	if err := l.cfg.Check(len(which), &in, &out); err != nil {
		return err
	}
	l.which, l.room = which, l.whole.first(len(which))
	defer func() { l.which = nil }()
	l.observe(&in)
	if err := l.localize(&in); err != nil {
		return err
	}
	l.localized = time.Now()
	if err := l.parts.Stepper.Decode(l.latent, l.ctx, in.S, out.U, l.decoded); err != nil {
		return err
	}
	l.steer(&in, &out)
	if err := l.move(&in, &out); err != nil {
		return err
	}
	l.settle(&in, &out)
	return nil
}

// observe writes observations in the networks' units.
func (l *HostLoops) observe(in *LoopsInput) {
	ns, nc := l.normal.Cols, l.ctx.Cols
	for i := range l.which {
		s, ctx, input := in.S.Row(i), l.ctx.Row(i), l.input.Row(i)
		tensor.Narrow(ctx, in.C[i*nc:(i+1)*nc])
		l.cfg.Step.NormS.Apply(l.normal.Row(i), s)
		copy(input, s)
		copy(input[ns:], ctx)
		copy(input[ns+nc:], in.Slot.Row(i))
		l.cfg.NormX.Apply(input, input)
	}
}

// localize is step 1: encode, the nearest measurement-consistent code with its
// affine refinement, and smoothing.
func (l *HostLoops) localize(in *LoopsInput) error {
	if err := l.parts.Encoder.Forward(l.input, l.observed); err != nil {
		return err
	}
	if l.cfg.Direct || l.parts.Index == nil {
		for i := range l.which {
			copy(l.latent.Row(i), l.observed.Row(i))
			l.consistent[i] = true
		}
	} else if err := l.parts.Index.Localize(l.normal, l.observed, in.Tau, l.cfg.Neighbours, LocalizeOutput{Z: l.latent, Consistent: l.consistent}); err != nil {
		return err
	}
	for i := range l.which {
		if alpha := in.Smoothing[i]; alpha < 1 && !in.Hold[i] {
			mix(l.latent.Row(i), l.latents.Row(l.which[i]), alpha)
		}
	}
	return nil
}

// mix is z = (1−α) from + α z.
func mix(z, from []float32, alpha float32) {
	for j, p := range from {
		z[j] = float32((1-alpha)*p) + float32(alpha*z[j])
	}
}

// steer is step 2: the residual and the priority at ŝ = D_s(z_t).
func (l *HostLoops) steer(in *LoopsInput, out *LoopsOutput) {
	m, nc := l.weight.Cols, l.ctx.Cols
	copy(out.Sigma, in.Sigma)
	for i := range l.which {
		l.cfg.Step.NormS.Apply(l.normDecoded.Row(i), l.decoded.Row(i))
		out.Residual[i] = tensor.SquaredDistance(l.normal.Row(i), l.normDecoded.Row(i))
		out.Flags[i], out.Fallbacks[i] = 0, 0
		if l.consistent[i] {
			out.Flags[i] = LoopConsistent
		}
		sigma := out.Sigma[i*m : (i+1)*m]
		if how := in.Steering[i]; how != SteerKeep {
			tensor.Widen(l.shat, l.decoded.Row(i))
			tensor.Widen(l.action, out.U.Row(i)[:len(l.action)])
			if l.cfg.Steer(how, l.shat, l.action, in.C[i*nc:(i+1)*nc], l.delta, l.fresh, sigma) {
				out.Flags[i] |= LoopSteered
			}
		}
		weight := l.weight.Row(i)
		for j, v := range sigma {
			weight[j] = float32(v * l.cfg.InverseRange[j])
		}
	}
}

// move is steps 3 to 5: latent step, retraction, decode and clip.
func (l *HostLoops) move(in *LoopsInput, out *LoopsOutput) error {
	if l.cfg.Direct {
		return l.moved.CopyFrom(l.latent) // the plan at z_t is decoded already
	}
	retract := l.cfg.Retracts()
	step := StepInput{Z: l.latent, X: in.S, Ctx: l.ctx, Weights: l.weight}
	stepped := StepOutput{Z: l.moved, Fallbacks: out.Fallbacks}
	if !retract {
		stepped.U = out.U
	}
	if err := l.parts.Stepper.Step(step, stepped); err != nil || !retract {
		return err
	}
	// Π_{M*} is the same search and refinement, with the moved latent as query.
	retracted := l.observed
	if err := l.parts.Index.Localize(l.normal, l.moved, in.Tau, l.cfg.Neighbours, LocalizeOutput{Z: retracted}); err != nil {
		return err
	}
	for i := range l.which {
		mix(retracted.Row(i), l.moved.Row(i), float32(l.cfg.RetractionMix))
	}
	l.moved, l.observed = retracted, l.moved
	return l.parts.Stepper.Decode(l.moved, l.ctx, in.S, out.U, tensor.Matrix{})
}

// settle makes the new latents the loops'.
func (l *HostLoops) settle(in *LoopsInput, out *LoopsOutput) {
	nu := len(l.action)
	for i := range l.which {
		z := l.moved.Row(i)
		out.Displacement[i] = math.Sqrt(tensor.SquaredDistance(z, l.latent.Row(i)))
		if out.Z.Rows > 0 {
			copy(out.Z.Row(i), z)
		}
		if !tensor.Finite(z) || !tensor.Finite(out.U.Row(i)[:nu]) {
			continue
		}
		out.Flags[i] |= LoopFinite
		if !in.Hold[i] {
			copy(l.latents.Row(l.which[i]), z)
		}
	}
}
