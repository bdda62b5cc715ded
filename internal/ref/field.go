package ref

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/model"
)

// Normalizer is model.Normalizer in float64.
type Normalizer struct{ Mean, Scale []float64 }

// WidenNormalizer copies a float32 normaliser.
func WidenNormalizer(n model.Normalizer) Normalizer { return Normalizer{wide(n.Mean), wide(n.Scale)} }

// Apply returns (v − Mean)/Scale.
func (n Normalizer) Apply(v []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = (v[i] - n.Mean[i]) / n.Scale[i]
	}
	return out
}

// Invert returns Mean + Scale·v.
func (n Normalizer) Invert(v []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = n.Mean[i] + n.Scale[i]*v[i]
	}
	return out
}

// Energy is the energy of one model (eq. iclr-energy).
type Energy struct {
	DecoderS, DecoderU *MLP
	NormS, NormU       Normalizer
	Problem            domain.Problem // nil: no tangential potential, Base zero
	Epsilon            float64
}

// NewEnergy is the energy of a stepper's model.
func NewEnergy(cfg backend.StepperConfig) Energy {
	return Energy{
		DecoderS: Widen(cfg.DecoderS), DecoderU: Widen(cfg.DecoderU),
		NormS: WidenNormalizer(cfg.NormS), NormU: WidenNormalizer(cfg.NormU),
		Problem: cfg.Problem, Epsilon: float64(cfg.Params.Epsilon),
	}
}

// Plan returns Base(x, c) + NormU.Invert(D_u(z)), physical units, not clipped.
// Base is taken at the measured state x, so that it does not depend on z.
func (e Energy) Plan(z, x, ctx []float64) []float64 {
	plan := e.NormU.Invert(e.DecoderU.Forward(z))
	if e.Problem != nil {
		base := make([]float64, len(plan))
		e.Problem.Base(x, ctx, base)
		axpy(plan, 1, base)
	}
	return plan
}

// Field returns F = −∇_z V and V (eq. iclr-energy):
//
//	V = (1/ε)‖x̂ − D_s(z)‖² + Σ_i w_i J_i(ŝ, u; c)
//
// with x̂ = NormS.Apply(x) (the distance is in normalised units), ŝ =
// NormS.Invert(D_s(z)) and u the first action of Plan(z, x, c), physical units, not
// clipped. Its gradient, with ∂J = Σ_i w_i ∂J_i from Problem.Gradient:
//
//	∇V = J_Dsᵀ [ −(2/ε)(x̂ − D_s(z)) + Scale_s ⊙ ∂J/∂s ]
//	     + J_Duᵀ [ Scale_u ⊙ ∂J/∂u on u, 0 on other actions ]
//
// Without a Problem only the first potential is left.
func (e Energy) Field(z, x, ctx, weights []float64) (f []float64, v float64) {
	passS := e.DecoderS.Run(z)
	residual := sub(e.NormS.Apply(x), passS.Output())
	v = squaredNorm(residual) / e.Epsilon
	barS := scaled(-2/e.Epsilon, residual)
	f = make([]float64, len(z))
	if e.Problem != nil {
		spec := e.Problem.Spec()
		s, u := e.NormS.Invert(passS.Output()), e.Plan(z, x, ctx)[:spec.ActionSize()]
		J, gs, gu := make([]float64, spec.ObjectiveSize()), make([]float64, len(s)), make([]float64, len(u))
		e.Problem.Objectives(s, u, ctx, J)
		e.Problem.Gradient(s, u, ctx, weights, gs, gu)
		v += dot(weights, J)
		for i, g := range gs {
			barS[i] += e.NormS.Scale[i] * g
		}
		barU := make([]float64, e.DecoderU.Out())
		for i, g := range gu {
			barU[i] = e.NormU.Scale[i] * g
		}
		axpy(f, -1, e.DecoderU.VJP(z, barU))
	}
	axpy(f, -1, e.DecoderS.Backward(passS, barS, nil))
	return f, v
}
