package backend

import (
	"errors"
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/tensor"
)

// LoopsBackend is implemented by a backend that keeps the latents of many closed
// loops where it computes: observations go in, actions come out, and a latent
// crosses only when it is asked for. Package batchnav uses it where it can; package
// HostLoops does the same in single operations of any backend.
type LoopsBackend interface {
	// NewLoops prepares the loops, which have no latent yet. ErrNoLoops says that
	// this problem, or a model of these sizes, is navigated in single operations.
	NewLoops(cfg LoopsConfig) (Loops, error)
}

// ErrNoLoops is returned by NewLoops where the caller has to navigate in single
// operations.
var ErrNoLoops = errors.New("this backend does not keep the loops of this problem")

// MapConfig describes a whole map with its problem. All is copied.
type MapConfig struct {
	EncoderX *model.MLP
	NormX    model.Normalizer
	Step     StepperConfig // with a Problem; MaxBatch is the rows to make room for
	// Codes and Decoded are M* and D_s of it, [N, n_z] and [N, n_s]; no rows: a
	// model without codes, whose observations are neither localized nor retracted.
	Codes, Decoded tensor.Matrix
	Neighbours     int       // of the affine refinement of localization
	InverseRange   []float64 // of each objective: weights are σ times it
	// PreferenceFloor is that of the slot which E_x reads: see domain.Preference.Slot.
	PreferenceFloor float64
}

// LoopsConfig describes the map that the loops navigate, Step.MaxBatch of them, and
// how.
type LoopsConfig struct {
	MapConfig
	RetractionMix  float64 // μ_R
	PriorityFilter float64 // gain of the low-pass filter of σ
	Direct         bool    // encode and decode alone: no localization, no flow
	// Smooths allows LoopsInput.Smoothing below 1. Without it a decision does not
	// depend on the latents before, and nobody has to save them.
	Smooths bool
	// Projects allows LoopsOutput.Action, for which a backend may need memory.
	Projects bool
}

// validate says what is wrong with a map.
func (c *MapConfig) validate(op string) error {
	if c.EncoderX == nil || c.Step.Problem == nil {
		return fmt.Errorf("%s: EncoderX and a Problem are needed", op)
	}
	if err := c.EncoderX.Validate(); err != nil {
		return fmt.Errorf("%s: E_x: %w", op, err)
	}
	if err := c.Step.Validate(); err != nil {
		return err
	}
	spec, n := c.Step.Problem.Spec(), c.Step.DecoderS.In()
	if c.EncoderX.In() != spec.ObservationSize() || c.EncoderX.Out() != n {
		return fmt.Errorf("%s: E_x is %d → %d, %s and its decoders want %d → %d", op, c.EncoderX.In(), c.EncoderX.Out(), spec.Name, spec.ObservationSize(), n)
	}
	if err := c.NormX.Validate("E_x", c.EncoderX.In()); err != nil {
		return err
	}
	if r := c.Codes.Rows; r > 0 {
		if err := tensor.Check(op, "codes", c.Codes, r, n); err != nil {
			return err
		}
		if err := tensor.Check(op, "decoded codes", c.Decoded, r, spec.MeasuredSize()); err != nil {
			return err
		}
	}
	if len(c.InverseRange) != spec.ObjectiveSize() {
		return fmt.Errorf("%s: %d ranges for %d objectives", op, len(c.InverseRange), spec.ObjectiveSize())
	}
	return nil
}

// Validate says what is wrong with a configuration.
func (c *LoopsConfig) Validate() error {
	if err := c.validate("loops"); err != nil {
		return err
	}
	for _, v := range []struct {
		name  string
		value float64
	}{{"RetractionMix μ_R", c.RetractionMix}, {"PriorityFilter", c.PriorityFilter}} {
		if !(v.value >= 0 && v.value <= 1) {
			return fmt.Errorf("loops: %s is %v, want it in [0, 1]", v.name, v.value)
		}
	}
	return nil
}

// Retracts tells whether a decision ends with the retraction of its latent.
func (c *LoopsConfig) Retracts() bool { return c.RetractionMix > 0 && c.Codes.Rows > 0 && !c.Direct }

// Steering says what a decision does with a loop's priority σ.
type Steering uint8

const (
	SteerKeep   Steering = iota // as given: a fixed preference
	SteerSet                    // eq. iclr-semantic at ŝ
	SteerFilter                 // a step of the low-pass filter towards it
)

// LoopsInput is one observation for every loop. A row that Hold marks has no
// observation: its numbers are anything finite, and its latent stays as it was.
type LoopsInput struct {
	S tensor.Matrix // [B, n_s] measured state, physical units
	C []float64     // [B·n_c] context, physical units
	// State is S as actions are projected in it, [B·n_s]. It has entries where the
	// output's Action has.
	State []float64
	Slot  tensor.Matrix // [B, 1+M] the preference as E_x reads it
	Tau   []float32     // [B] τ_t of the residual filter
	// Smoothing is α of each row, z_t = (1−α) z_{t−1} + α z; 1: z as it is,
	// 0: z_{t−1}.
	Smoothing []float32
	Hold      []bool
	Steering  []Steering
	Sigma     []float64 // [B·M] σ of the decision before, or the preference to keep
}

// NewLoopsInput is room for what a decision of so many loops of a problem takes that
// projects no actions.
func NewLoopsInput(spec *domain.Spec, rows int) LoopsInput {
	return LoopsInput{
		S: tensor.New(rows, spec.MeasuredSize()), C: make([]float64, rows*spec.ContextSize()), Slot: tensor.New(rows, spec.PreferenceSize()),
		Tau: make([]float32, rows), Smoothing: make([]float32, rows), Hold: make([]bool, rows), Steering: make([]Steering, rows),
		Sigma: make([]float64, rows*spec.ObjectiveSize()),
	}
}

// First is the room of the first n rows.
func (input LoopsInput) First(n int) LoopsInput {
	context, objectives := len(input.C)/len(input.Tau), len(input.Sigma)/len(input.Tau)
	input.S, input.C, input.Slot = input.S.Slice(0, n), input.C[:n*context], input.Slot.Slice(0, n)
	input.Tau, input.Smoothing = input.Tau[:n], input.Smoothing[:n]
	input.State = input.State[:len(input.State)/len(input.Hold)*n]
	input.Hold, input.Steering, input.Sigma = input.Hold[:n], input.Steering[:n], input.Sigma[:n*objectives]
	return input
}

// LoopFlag tells about one row of a decision.
type LoopFlag = uint8

const (
	// LoopFinite: z_{t+1} and the decoded first action are finite, and the latent is
	// the loop's from now on (unless Hold says otherwise).
	LoopFinite LoopFlag = 1 << iota
	// LoopSteered: the indicators at ŝ were finite, and σ is new.
	LoopSteered
	// LoopConsistent: the residual filter of localization was met.
	LoopConsistent
	// LoopProjected: Action is the first action of U as Problem.Project leaves it, Margins
	// are those of Problem.Margins, and none is below the problem's tolerance. A row
	// without it is the caller's to project.
	LoopProjected
)

// LoopsOutput receives a decision. All is written but Z, which has rows only where
// the latents are wanted, and Action with Margins, which have entries where projected
// actions are, and are written in the rows that LoopProjected marks: none, if the backend
// leaves projections to the caller.
type LoopsOutput struct {
	U            tensor.Matrix // [B, plan] decoded at z_{t+1}, clipped
	Sigma        []float64     // [B·M] σ that the flow was steered by; may be the input's
	Residual     []float64     // [B] ‖x̂ − D_s(z_t)‖², normalised
	Displacement []float64     // [B] ‖z_{t+1} − z_t‖
	Fallbacks    []Fallback    // [B] guards of the latent step
	Flags        []LoopFlag    // [B]
	Z            tensor.Matrix // [B, n_z] z_{t+1}
	Action       []float64     // [B·n_u]
	Margins      []float64     // [B·n_m]
}

// NewLoopsOutput is room for a decision of so many loops of a problem, but for latents
// and projected actions.
func NewLoopsOutput(spec *domain.Spec, rows int) LoopsOutput {
	return LoopsOutput{
		U: tensor.New(rows, spec.PlanSize()), Sigma: make([]float64, rows*spec.ObjectiveSize()), Residual: make([]float64, rows), Displacement: make([]float64, rows),
		Fallbacks: make([]Fallback, rows), Flags: make([]LoopFlag, rows),
	}
}

// First is the room of the first n rows.
func (o LoopsOutput) First(n int) LoopsOutput {
	objectives := len(o.Sigma) / len(o.Flags)
	o.U, o.Sigma = o.U.Slice(0, n), o.Sigma[:n*objectives]
	o.Residual, o.Displacement = o.Residual[:n], o.Displacement[:n]
	o.Action, o.Margins = o.Action[:len(o.Action)/len(o.Flags)*n], o.Margins[:len(o.Margins)/len(o.Flags)*n]
	o.Fallbacks, o.Flags = o.Fallbacks[:n], o.Flags[:n]
	if o.Z.Rows > 0 {
		o.Z = o.Z.Slice(0, n)
	}
	return o
}

// Check says what is wrong with the shapes of a decision of B = rows loops.
func (c *LoopsConfig) Check(rows int, in *LoopsInput, out *LoopsOutput) error {
	const op = "loops"
	spec := c.Step.Problem.Spec()
	m := spec.ObjectiveSize()
	for _, v := range []struct {
		name string
		m    tensor.Matrix
		cols int
	}{{"S", in.S, spec.MeasuredSize()}, {"Slot", in.Slot, 1 + m}, {"U", out.U, spec.PlanSize()}} {
		if err := tensor.Check(op, v.name, v.m, rows, v.cols); err != nil {
			return err
		}
	}
	if out.Z.Rows > 0 {
		if err := tensor.Check(op, "Z", out.Z, rows, c.Step.DecoderS.In()); err != nil {
			return err
		}
	}
	projected := 0
	if len(out.Action) > 0 {
		if projected = rows; !c.Projects {
			return fmt.Errorf("%s: projected actions are wanted without Projects", op)
		}
	}
	for _, v := range []struct {
		name         string
		length, want int
	}{
		{"State", len(in.State), projected * spec.MeasuredSize()}, {"Action", len(out.Action), projected * spec.ActionSize()},
		{"Margins", len(out.Margins), projected * len(spec.Margins)}, {"C", len(in.C), rows * spec.ContextSize()}, {"Tau", len(in.Tau), rows}, {"Smoothing", len(in.Smoothing), rows},
		{"Hold", len(in.Hold), rows}, {"Steering", len(in.Steering), rows}, {"Sigma", len(in.Sigma), rows * m},
		{"output Sigma", len(out.Sigma), rows * m}, {"Residual", len(out.Residual), rows}, {"Displacement", len(out.Displacement), rows},
		{"Fallbacks", len(out.Fallbacks), rows}, {"Flags", len(out.Flags), rows},
	} {
		if v.length != v.want {
			return fmt.Errorf("%s: %s has %d entries, want %d for %d loops", op, v.name, v.length, v.want, rows)
		}
	}
	for i, a := range in.Smoothing {
		if !(a >= 0 && a <= 1) || a < 1 && !c.Smooths {
			return fmt.Errorf("%s: the smoothing of loop %d is %v, want it in [0, 1], and 1 without Smooths", op, i, a)
		}
	}
	return nil
}

// Loops are many closed loops of one map (Algorithm 2, steps 1 to 5: encode,
// localize, smooth, priority at ŝ, latent step, retraction, decode and clip). The
// latents are its state. It is used by one goroutine.
type Loops interface {
	// Decide takes every loop one decision further. After an error the latents are
	// not known.
	Decide(in LoopsInput, out LoopsOutput) error
	// Latents reads the latents back, [B, n_z]; NaN for a loop that has none yet.
	Latents(z tensor.Matrix) error
	// SetLatents replaces them.
	SetLatents(z tensor.Matrix) error
}

// Steer writes σ of one loop by the problem's indicators at ŝ and the decoded first
// action u, and tells whether they were finite. delta and fresh are scratch of M.
func (c *LoopsConfig) Steer(steering Steering, shat, u, ctx, delta, fresh, sigma []float64) bool {
	c.Step.Problem.Indicators(shat, u, ctx, delta)
	if !tensor.Finite(delta) {
		return false
	}
	semantic := &c.Step.Problem.Spec().Semantic
	if steering == SteerSet {
		semantic.Priority(delta, sigma)
		return true
	}
	semantic.Priority(delta, fresh)
	for j := range sigma {
		sigma[j] += c.PriorityFilter * (fresh[j] - sigma[j])
	}
	return true
}
