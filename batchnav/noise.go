package batchnav

import "github.com/gpc-engine/gpc/tensor"

// NoiseEstimator is the online estimate σ̂²_t of the measurement noise, in the
// units of ‖x̂ − D_s(z)‖²: the noise variance summed over the normalised state.
//
// It uses the innovations e_t = x̂_t − F(x̂_{t−1}, u_{t−1}), the measured state
// less the one the known dynamics predicted from the previous measurement. With
// measurement noise v of covariance R, e_t = v_t − A v_{t−1} + w_t. A is the
// Jacobian of F and w_t the model error. Hence
//
//	E⟨e_t, e_{t−1}⟩ = −tr(A R),
//
// which is −tr R for A near the identity (short control periods). White or
// slowly varying w contributes nothing or a positive amount. The lag-one
// autocovariance thus tells noise from model error (Mehra, "On the identification
// of variances and adaptive Kalman filtering", 1970). The residual ‖x̂ − D_s(z)‖²
// itself cannot: an M* that spans the state space reproduces the noise. Its
// excess over τ_geom is model error, which must not switch smoothing on.
//
// The estimate is the negative autocovariance, averaged exponentially with bias
// correction and floored at 0; below τ_geom, which the map does not resolve, it
// counts as 0.
//
// The zero value is ready; Reset starts over.
type NoiseEstimator struct {
	previous    []float64 // e_{t−1}
	initialized bool
	mean        float64 // exponential average of ⟨e_t, e_{t−1}⟩
	weight      float64 // sum of the weights in mean
}

// noiseGain is the weight of a new product: an average over about 2/gain − 1 =
// 9 decisions, half an episode of Case 1.
const noiseGain = 0.2

// Reset forgets the past of the episode.
func (n *NoiseEstimator) Reset() {
	n.initialized, n.mean, n.weight = false, 0, 0
}

// Interrupt forgets the last innovation only: the next one does not follow it.
func (n *NoiseEstimator) Interrupt() { n.initialized = false }

// Observe takes the innovation e_t, which is copied.
func (n *NoiseEstimator) Observe(e []float64) {
	if cap(n.previous) < len(e) {
		n.previous = make([]float64, len(e))
	}
	n.previous = n.previous[:len(e)]
	if n.initialized {
		n.mean += noiseGain * (tensor.DotInOrder(e, n.previous) - n.mean)
		n.weight += noiseGain * (1 - n.weight)
	}
	copy(n.previous, e)
	n.initialized = true
}

// Variance returns σ̂²_t given the map's tolerance τ_geom.
func (n *NoiseEstimator) Variance(tauGeom float64) float64 {
	if n.weight == 0 {
		return 0
	}
	v := -n.mean / n.weight
	if !(v > tauGeom) {
		return 0
	}
	return v
}
