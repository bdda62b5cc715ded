package batchnav

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/model"
)

// Decision is one executed action with all that is known of it. Its slices belong to
// the navigator and are overwritten by the next decision.
type Decision struct {
	domain.Decision
	U       []float64 // executed action, physical units
	Latent  []float32 // z_{t+1}; nil unless Options.Latents asks for it
	Margins []float64 // every hard margin of U, in the order of Spec.Margins
	// Margin is the smallest of Margins; NaN when the observation was not finite.
	Margin float64
	// Threshold is the τ_t that codes are admitted by, NoiseVariance the σ̂²_t in it.
	Threshold, NoiseVariance float64
	// OffMap: the residual is above Limit, or no number, or a measured component is far beyond what the
	// codes of the map decode to, or an entry of the context beyond those that it was trained on
	// (domain.Spec.Enveloped). What the map says of such an observation means nothing.
	OffMap bool
	// Correction is the largest component by which the projection moved the
	// decoded action.
	Correction float64
	// Consistent reports whether M_t was not empty; true without localization.
	Consistent bool
}

// farScales: ten of the map's scales in a component are no observation that it was made for.
const farScales = 10

// ResidualBound is the largest residual ‖x̂ − D_s(z)‖² that an observation of a case may have, whatever the calibration
// of the map. It is Σ_j (tolerance_j/scale_j)² over the measured components, with the domain's tolerances
// (domain.Variable) and the map's scales. A tolerance is ten scales where the domain states none, and at most that. One
// scale near zero then does not lift the bound of all components.
func ResidualBound(spec *domain.Spec, norm model.Normalizer) float64 {
	bound := 0.0
	for j, v := range spec.Measured {
		scales := float64(farScales)
		if v.Tolerance > 0 {
			scales = math.Min(v.Tolerance/float64(norm.Scale[j]), scales)
		}
		bound += scales * scales
	}
	return bound
}
