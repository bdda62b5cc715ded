package ref

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// CapDelta is δ_v of eq. rk2-cap, which keeps the cap of a zero slope from
// dividing by zero; a normal float32, far below any slope that matters.
const CapDelta = 1e-12

// Cap is Π of eq. rk2-cap: v min{1, vmax/(‖v‖ + δ_v)}. It is the identity
// while ‖v‖ + δ_v ≤ vmax.
func Cap(v []float64, vmax float64) []float64 {
	return scaled(math.Min(1, vmax/(norm(v)+CapDelta)), v)
}

// RK2 is the midpoint predictor with cap and fallbacks (app:rk2, eq. rk2-cap,
// rk2-step):
//
//	k_1 = Cap(F(z)),  z_mid = z + ½Δt k_1,  k_2 = Cap(F(z_mid)),  Δz_Euc = Δt k_2
//
// The guards, in this order: if k_1 is not finite, Δz_Euc and k_2 are zero and
// the only bit is FallbackNoStep; if z_mid is not finite it is z
// (FallbackMidpoint); if F(z_mid) is not finite, k_2 = k_1
// (FallbackSecondSlope).
func RK2(field func(z []float64) []float64, z []float64, dt, vmax float64) (step, k2 []float64, fallback backend.Fallback) {
	k1 := Cap(field(z), vmax)
	if !tensor.Finite(k1) {
		return make([]float64, len(z)), make([]float64, len(z)), backend.FallbackNoStep
	}
	mid := append([]float64(nil), z...)
	axpy(mid, dt/2, k1)
	if !tensor.Finite(mid) {
		mid = z
		fallback |= backend.FallbackMidpoint
	}
	if slope := field(mid); tensor.Finite(slope) {
		k2 = Cap(slope, vmax)
	} else {
		k2 = k1
		fallback |= backend.FallbackSecondSlope
	}
	return scaled(dt, k2), k2, fallback
}

// Step is one latent step, steps 2 to 5 of the online algorithm without
// retraction:
//
//	Δz_Euc, k_2 from RK2;  G = Metric(D_s, z, λ_m);  B, Λ = EigTopK(G, k)
//	Δz_Lie = LieResidual(Δz_Euc, k_2, B, Λ, s_L Δt)          eq. iclr-lie-residual
//	z' = z ⊕ (Δz_Euc + γ_L Δz_Lie)                            eq. final-update
//
// The residual is not computed when γ_L = 0, k = 0 or the predictor made no
// step; a residual that is not finite is replaced by zero (FallbackLie).
func (e Energy) Step(z, x, ctx, weights []float64, p backend.StepParams) (next []float64, fallback backend.Fallback) {
	field := func(z []float64) []float64 {
		f, _ := e.Field(z, x, ctx, weights)
		return f
	}
	dt := float64(p.Dt)
	step, k2, fallback := RK2(field, z, dt, float64(p.VMax))
	if p.LieGain != 0 && p.TopK > 0 && fallback&backend.FallbackNoStep == 0 {
		values, vectors := EigTopK(e.DecoderS.Metric(z, float64(p.MetricLambda)), len(z), p.TopK)
		residual := LieResidual(step, k2, vectors, values, float64(p.LieScale)*dt)
		if tensor.Finite(residual) {
			axpy(step, float64(p.LieGain), residual)
		} else {
			fallback |= backend.FallbackLie
		}
	}
	return Compose(z, step, p.Group.RotationBlocks), fallback
}

// Clip moves every action of a plan into the action box, in place; NaN stays.
func Clip(spec *domain.Spec, plan []float64) {
	for i, u := range plan {
		if a := spec.Action[i%len(spec.Action)]; a.Bounded() {
			if u < a.Lo {
				plan[i] = a.Lo
			} else if u > a.Hi {
				plan[i] = a.Hi
			}
		}
	}
}

// DecodeAction returns the plan at z, clipped to the action box where there is a
// Problem to name one (step 5 of the online algorithm).
func (e Energy) DecodeAction(z, x, ctx []float64) []float64 {
	plan := e.Plan(z, x, ctx)
	if e.Problem != nil {
		Clip(e.Problem.Spec(), plan)
	}
	return plan
}

type stepper struct {
	energy Energy
	params backend.StepParams
	sizes  backend.StepSizes
}

// NewStepper implements backend.Backend.
func (b *Backend) NewStepper(cfg backend.StepperConfig) (backend.Stepper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &stepper{energy: NewEnergy(cfg), params: cfg.Params, sizes: cfg.Sizes()}, nil
}

func (s *stepper) row(in backend.StepInput, i int) (z, x, ctx, weights []float64) {
	z, x = wide(in.Z.Row(i)), wide(in.X.Row(i))
	if s.energy.Problem != nil {
		ctx, weights = wide(in.Ctx.Row(i)), wide(in.Weights.Row(i))
	}
	return z, x, ctx, weights
}

// Step implements backend.Stepper.
func (s *stepper) Step(in backend.StepInput, out backend.StepOutput) error {
	if err := s.sizes.CheckStep(in, out); err != nil {
		return err
	}
	for i := range in.Z.Rows {
		z, x, ctx, weights := s.row(in, i)
		next, fallback := s.energy.Step(z, x, ctx, weights, s.params)
		if out.Energy != nil {
			_, v := s.energy.Field(z, x, ctx, weights)
			out.Energy[i] = float32(v)
		}
		if out.Z.Rows > 0 {
			tensor.Narrow(out.Z.Row(i), next)
		}
		if out.U.Rows > 0 {
			tensor.Narrow(out.U.Row(i), s.energy.DecodeAction(next, x, ctx))
		}
		if out.Fallbacks != nil {
			out.Fallbacks[i] = fallback
		}
	}
	return nil
}

// Field implements backend.Stepper.
func (s *stepper) Field(in backend.StepInput, f tensor.Matrix, energy []float32) error {
	if err := s.sizes.CheckField(in, f, energy); err != nil {
		return err
	}
	for i := range in.Z.Rows {
		field, v := s.energy.Field(s.row(in, i))
		tensor.Narrow(f.Row(i), field)
		if energy != nil {
			energy[i] = float32(v)
		}
	}
	return nil
}

// Decode implements backend.Stepper.
func (s *stepper) Decode(z, ctx, x tensor.Matrix, u, states tensor.Matrix) error {
	if err := s.sizes.CheckDecode(z, ctx, x, u, states); err != nil {
		return err
	}
	for i := range z.Rows {
		code := wide(z.Row(i))
		var state, c []float64
		if s.energy.Problem != nil {
			state, c = wide(x.Row(i)), wide(ctx.Row(i))
		}
		tensor.Narrow(u.Row(i), s.energy.DecodeAction(code, state, c))
		if states.Rows > 0 {
			tensor.Narrow(states.Row(i), s.energy.NormS.Invert(s.energy.DecoderS.Forward(code)))
		}
	}
	return nil
}
