package training

import (
	"math"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
)

// Networks are the four networks of a map in float64; the gradient of a loss
// has the same type.
type Networks struct {
	EncoderX, EncoderO, DecoderU, DecoderS *ref.MLP
}

// All lists the networks in the fixed order E_x, E_o, D_u, D_s.
func (n Networks) All() [4]*ref.MLP {
	return [4]*ref.MLP{n.EncoderX, n.EncoderO, n.DecoderU, n.DecoderS}
}

// ZeroLike returns a gradient accumulator of the same shapes.
func (n Networks) ZeroLike() Networks {
	return Networks{ZeroLike(n.EncoderX), ZeroLike(n.EncoderO), ZeroLike(n.DecoderU), ZeroLike(n.DecoderS)}
}

// ManifoldBatch is one batch of B samples with κ neighbours each, normalised
// units.
type ManifoldBatch struct {
	X, O, S, U [][]float64 // B rows
	// NeighbourX and NeighbourU are the inputs of E_x and the action targets of
	// the neighbours, κ·B rows: neighbour j of sample b at b·κ+j. Empty: no
	// locality term.
	NeighbourX, NeighbourU [][]float64
	// Kernel is exp(−‖p_b−p_j‖²/σ_p²) for each neighbour; ignored by the isometry
	// form.
	Kernel []float64
}

// CosineFloor is the norm of a code below which its direction is not used: the
// cosine counts as 0 and has no gradient. Codes are O(1); the cosine of two
// float32 codes this small would be rounding.
const CosineFloor = 1e-6

// ManifoldLoss returns the losses of "Manifold Learning via Structured Loss
// System" (sec:loss) and the gradient of Total with respect to all parameters.
// With B rows, z^x_b = E_x(x_b), z^o_b = E_o(o_b), z_j = E_x(x_j) of neighbour j:
//
//	ReconX      = (1/B) Σ_b ‖D_s(z^x_b) − s_b‖²
//	Action      = (1/B) Σ_b ‖D_u(z^x_b) − u_b‖²           z^x only
//	ReconO      = (1/B) Σ_b ‖D_s(z^o_b) − s_b‖²
//	Consistency = (1/B) Σ_b [1 − cos(z^x_b, z^o_b) + β‖z^x_b − z^o_b‖²]
//	Locality    = (1/B) Σ_b Σ_j kernel_bj ‖z^x_b − z_j‖²
//	     or (isometry, eq. iclr-training-loss)
//	              (1/B) Σ_b Σ_j | ‖z^x_b − z_j‖ − α‖u_b − u_j‖ |
//	Total       = w_ReconX ReconX + w_Action Action + w_ReconO ReconO
//	              + ω_1 Consistency + ω_2 Locality
//
// A squared norm is a sum over components; the mean is over rows only, and the
// locality sum over j is not divided by κ.
//
// Gradients with respect to the codes, where r = net(z) − target:
//
//	reconstruction  ∂‖r‖² = 2r through the decoder, to its input
//	cosine          ∂(1−c)/∂z^x = −(ẑ^o − c ẑ^x)/‖z^x‖ and the same with x, o
//	                exchanged, where ẑ = z/‖z‖; 0 if a norm is below CosineFloor
//	Euclidean       ±2β(z^x − z^o)
//	locality        2 kernel (z_b − z_j) to z_b and its negative to z_j
//	isometry        sign(‖d‖ − α‖u_b−u_j‖) d/‖d‖, d = z_b − z_j, to z_b and its
//	                negative to z_j; 0 where ‖d‖ = 0 or the difference is 0
//
// Both encoders receive the consistency gradient (neither side is held fixed).
// Neighbours are encoded in the same step and E_x receives gradient through z_j
// as well as through z^x_b.
func ManifoldLoss(nets Networks, batch ManifoldBatch, w backend.ManifoldLoss) (backend.ManifoldLosses, Networks) {
	var loss backend.ManifoldLosses
	grad := nets.ZeroLike()
	rows := float64(len(batch.X))
	kappa := len(batch.NeighbourX) / max(1, len(batch.X))
	weightOf := func(w float32) float64 { return float64(w) / rows }
	for b := range batch.X {
		passX := nets.EncoderX.Run(batch.X[b])
		passO := nets.EncoderO.Run(batch.O[b])
		zx, zo := passX.Output(), passO.Output()
		barX, barO := make([]float64, len(zx)), make([]float64, len(zo))

		loss.ReconX += decoderLoss(nets.DecoderS, grad.DecoderS, zx, batch.S[b], weightOf(w.ReconX), barX) / rows
		loss.Action += decoderLoss(nets.DecoderU, grad.DecoderU, zx, batch.U[b], weightOf(w.Action), barX) / rows
		loss.ReconO += decoderLoss(nets.DecoderS, grad.DecoderS, zo, batch.S[b], weightOf(w.ReconO), barO) / rows
		loss.Consistency += consistency(zx, zo, float64(w.ConsistencyBeta), weightOf(w.Consistency), barX, barO) / rows

		for j := b * kappa; j < (b+1)*kappa; j++ {
			passJ := nets.EncoderX.Run(batch.NeighbourX[j])
			barJ := make([]float64, len(zx))
			if w.Isometry {
				target := float64(w.IsometryAlpha) * norm(sub(batch.U[b], batch.NeighbourU[j]))
				loss.Locality += isometry(zx, passJ.Output(), target, weightOf(w.Locality), barX, barJ) / rows
			} else {
				loss.Locality += locality(zx, passJ.Output(), batch.Kernel[j], weightOf(w.Locality), barX, barJ) / rows
			}
			nets.EncoderX.Backward(passJ, barJ, grad.EncoderX)
		}
		nets.EncoderX.Backward(passX, barX, grad.EncoderX)
		nets.EncoderO.Backward(passO, barO, grad.EncoderO)
	}
	loss.Total = w.Total(loss)
	return loss, grad
}

// decoderLoss returns ‖net(z) − target‖² and adds weight times its gradient to
// the network's gradient and to zbar.
func decoderLoss(net, grad *ref.MLP, z, target []float64, weight float64, zbar []float64) float64 {
	pass := net.Run(z)
	r := sub(pass.Output(), target)
	axpy(zbar, 1, net.Backward(pass, scaled(2*weight, r), grad))
	return squaredNorm(r)
}

// consistency returns 1 − cos(zx, zo) + β‖zx − zo‖² and adds weight times its
// gradient to barX and barO.
func consistency(zx, zo []float64, beta, weight float64, barX, barO []float64) float64 {
	cos := 0.0
	if nx, no := norm(zx), norm(zo); nx >= CosineFloor && no >= CosineFloor {
		cos = dot(zx, zo) / (nx * no)
		for i := range zx {
			ux, uo := zx[i]/nx, zo[i]/no
			barX[i] -= weight * (uo - cos*ux) / nx
			barO[i] -= weight * (ux - cos*uo) / no
		}
	}
	d := sub(zx, zo)
	axpy(barX, 2*beta*weight, d)
	axpy(barO, -2*beta*weight, d)
	return 1 - cos + beta*squaredNorm(d)
}

// locality returns kernel‖zb − zj‖² and adds weight times its gradient.
func locality(zb, zj []float64, kernel, weight float64, barB, barJ []float64) float64 {
	d := sub(zb, zj)
	axpy(barB, 2*kernel*weight, d)
	axpy(barJ, -2*kernel*weight, d)
	return kernel * squaredNorm(d)
}

// isometry returns |‖zb − zj‖ − target| and adds weight times its gradient.
func isometry(zb, zj []float64, target, weight float64, barB, barJ []float64) float64 {
	d := sub(zb, zj)
	length := norm(d)
	gap := length - target
	if length > 0 && gap != 0 {
		slope := math.Copysign(weight, gap) / length
		axpy(barB, slope, d)
		axpy(barJ, -slope, d)
	}
	return math.Abs(gap)
}
