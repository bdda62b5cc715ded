package training

import (
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/tensor"
)

// RolloutLatents are the five codes at which D_u is trained for one transition
// t → t+1, and the Lie residual of the last. They depend on the frozen E_x and
// D_s only, so that they are computed once per row.
type RolloutLatents struct {
	Z        []float64 // z_t = E_x(x_t)
	Next     []float64 // z_{t+1} = E_x(x_{t+1})
	Roll     []float64 // ẑ^α = z_t + α (z_{t+1} − z_t)
	Flow     []float64 // ẑ^{α_f} = z_t + α_f (z_{t+1} − z_t)
	Lie      []float64 // z̃, eq. du_lie_latent
	Residual []float64 // Δz_Lie
}

// Rollout computes the latents of one transition from its two codes (app:
// du_training, "Lie-corrected rollout latent"):
//
//	Δz_Euc = ẑ^α − z_t
//	G = J_Dsᵀ J_Ds + λ_m I at z_t; B, Λ its top-k eigenpairs
//	Δz_Lie = ref.LieResidual(Δz_Euc, slope Δz_Euc, B, Λ, angle s_L Δt)
//	z̃ = z_t + Δz_Euc + γ_L Δz_Lie
//
// that is, the residual of the online step with k_2 replaced by Δz_Euc, and
// plain addition. A residual that is not finite is replaced by zero.
func Rollout(decoderS *ref.MLP, z, next []float64, w backend.RolloutLoss) RolloutLatents {
	move := sub(next, z)
	along := func(fraction float32) []float64 {
		p := append([]float64(nil), z...)
		axpy(p, float64(fraction), move)
		return p
	}
	r := RolloutLatents{Z: z, Next: next, Roll: along(w.RollFraction), Flow: along(w.FlowFraction)}
	step := sub(r.Roll, z)
	values, vectors := ref.EigTopK(decoderS.Metric(z, float64(w.MetricLambda)), len(z), w.TopK)
	r.Residual = ref.LieResidual(step, step, vectors, values, float64(w.LieScale)*float64(w.LieDt))
	if !tensor.Finite(r.Residual) {
		r.Residual = make([]float64, len(z))
	}
	r.Lie = append([]float64(nil), r.Roll...)
	axpy(r.Lie, float64(w.LieGain), r.Residual)
	return r
}

// RolloutBatch is one batch of B transitions.
type RolloutBatch struct {
	Latents  []RolloutLatents
	U, UNext [][]float64 // action targets at t and t+1, normalised units
	Risk     []float64   // numerators of eq. traj_weight
}

// RiskWeights normalises the numerators of eq. traj_weight by their mean over
// the batch. When the mean is not positive (nothing moves), every weight is 1.
func RiskWeights(risk []float64) []float64 {
	mean := 0.0
	for _, r := range risk {
		mean += r / float64(len(risk))
	}
	w := make([]float64, len(risk))
	for i, r := range risk {
		w[i] = 1
		if mean > 0 {
			w[i] = r / mean
		}
	}
	return w
}

// RolloutLoss returns the losses of eq. du_obj and the gradient of Total with
// respect to D_u. With B transitions, Δu = u_{t+1} − u_t and w_b = RiskWeights:
//
//	Act       = (1/B) Σ ‖D_u(z_t) − u_t‖²
//	ActNext   = (1/B) Σ ‖D_u(z_{t+1}) − u_{t+1}‖²
//	Delta     = (1/B) Σ ‖D_u(z_{t+1}) − D_u(z_t) − Δu‖²
//	Roll      = (1/B) Σ w_b ‖D_u(ẑ^α) − u_{t+1}‖²                  eq. du_roll
//	Flow      = (1/B) Σ w_b ‖D_u(ẑ^{α_f}) − (u_t + α_f Δu)‖²       eq. du_flow
//	LieAct    = (1/B) Σ w_b ‖D_u(z̃) − u_{t+1}‖²
//	LieDelta  = (1/B) Σ w_b ‖D_u(z̃) − D_u(z_t) − Δu‖²
//	LieAnchor = (1/B) Σ w_b ‖z̃ − ẑ^α‖²                            no gradient
//	LieReg    = (1/B) Σ w_b ‖Δz_Lie‖²                              no gradient
//	Total     = Act + ActNext + λ_δ Delta + λ_roll Roll + λ_flow Flow
//	            + λ_Lie (LieAct + λ_δ LieDelta + LieAnchor + LieReg)
//
// Total is the value of eq. du_obj, the two terms without gradient included.
// Every residual r at a latent gives 2r through D_u; the two differences give
// +2r at their first and −2r at their second latent.
func RolloutLoss(decoderU *ref.MLP, batch RolloutBatch, w backend.RolloutLoss) (backend.RolloutLosses, *ref.MLP) {
	var loss backend.RolloutLosses
	grad := ZeroLike(decoderU)
	rows := float64(len(batch.Latents))
	lambdaDelta, lambdaRoll, lambdaFlow, lambdaLie := float64(w.Delta), float64(w.Roll), float64(w.Flow), float64(w.Lie)
	for b, weight := range RiskWeights(batch.Risk) {
		at := batch.Latents[b]
		u, next := batch.U[b], batch.UNext[b]
		du := sub(next, u)
		flowTarget := append([]float64(nil), u...)
		axpy(flowTarget, float64(w.FlowFraction), du)

		passZ, passNext := decoderU.Run(at.Z), decoderU.Run(at.Next)
		passRoll, passFlow, passLie := decoderU.Run(at.Roll), decoderU.Run(at.Flow), decoderU.Run(at.Lie)

		rAct := sub(passZ.Output(), u)
		rNext := sub(passNext.Output(), next)
		rDelta := sub(sub(passNext.Output(), passZ.Output()), du)
		rRoll := sub(passRoll.Output(), next)
		rFlow := sub(passFlow.Output(), flowTarget)
		rLie := sub(passLie.Output(), next)
		rLieDelta := sub(sub(passLie.Output(), passZ.Output()), du)

		loss.Act += squaredNorm(rAct) / rows
		loss.ActNext += squaredNorm(rNext) / rows
		loss.Delta += squaredNorm(rDelta) / rows
		loss.Roll += weight * squaredNorm(rRoll) / rows
		loss.Flow += weight * squaredNorm(rFlow) / rows
		loss.LieAct += weight * squaredNorm(rLie) / rows
		loss.LieDelta += weight * squaredNorm(rLieDelta) / rows
		loss.LieAnchor += weight * squaredNorm(sub(at.Lie, at.Roll)) / rows
		loss.LieReg += weight * squaredNorm(at.Residual) / rows

		barZ := scaled(2/rows, rAct)
		axpy(barZ, -2*lambdaDelta/rows, rDelta)
		axpy(barZ, -2*lambdaLie*lambdaDelta*weight/rows, rLieDelta)
		barNext := scaled(2/rows, rNext)
		axpy(barNext, 2*lambdaDelta/rows, rDelta)
		barLie := scaled(2*lambdaLie*weight/rows, rLie)
		axpy(barLie, 2*lambdaLie*lambdaDelta*weight/rows, rLieDelta)

		decoderU.Backward(passZ, barZ, grad)
		decoderU.Backward(passNext, barNext, grad)
		decoderU.Backward(passRoll, scaled(2*lambdaRoll*weight/rows, rRoll), grad)
		decoderU.Backward(passFlow, scaled(2*lambdaFlow*weight/rows, rFlow), grad)
		decoderU.Backward(passLie, barLie, grad)
	}
	loss.Total = w.Total(loss)
	return loss, grad
}

// ChainBatch is one batch of rows for ChainLoss.
type ChainBatch struct {
	Z      [][]float64   // z = E_x(x)
	Chain  [][][]float64 // z̃_h, h = 1 … H, of each row
	Weight [][]float64   // ω_h of each
	U      [][]float64   // targets, normalised units
}

// ChainLoss returns Act and Roll of eq. iclr-rollout-loss (see backend.Trainer.SetChain)
// and the gradient of Act + λ_roll Roll with respect to D_u. The chain is held fixed:
// a latent is where the navigator went, not a parameter.
func ChainLoss(decoderU *ref.MLP, batch ChainBatch, w backend.RolloutLoss) (backend.RolloutLosses, *ref.MLP) {
	var loss backend.RolloutLosses
	grad := ZeroLike(decoderU)
	rows := float64(len(batch.Z))
	for b, z := range batch.Z {
		pass := decoderU.Run(z)
		residual := sub(pass.Output(), batch.U[b])
		loss.Act += squaredNorm(residual) / rows
		decoderU.Backward(pass, scaled(2/rows, residual), grad)
		part := len(residual) / len(batch.Chain[b])
		for h, z := range batch.Chain[b] {
			weight := batch.Weight[b][h]
			pass := decoderU.Run(z)
			bar := make([]float64, len(residual))
			for i := h * part; i < (h+1)*part; i++ {
				r := pass.Output()[i] - batch.U[b][i]
				loss.Roll += weight * r * r / rows
				bar[i] = 2 * float64(w.Roll) * weight * r / rows
			}
			decoderU.Backward(pass, bar, grad)
		}
	}
	loss.Total = w.Total(loss)
	return loss, grad
}
