package batchnav

import "github.com/gpc-engine/gpc/domain"

// Decision is one executed action with its monitor record. Its slices belong to
// the navigator and are overwritten by the next decision.
type Decision struct {
	U       []float64 // executed action, physical units
	Plan    []float32 // decoded plan [Plan·action] before projection
	Latent  []float32 // z_{t+1}; nil unless Options.Latents asks for it
	Sigma   []float64 // priority that steered the flow
	Margins []float64 // every hard margin of U, in the order of Spec.Margins
	// Margin is the smallest of Margins; NaN when the observation was not finite.
	Margin float64
	// Residual is ‖x̂ − D_s(z_t)‖² at the localized latent, normalised units,
	// Threshold the τ_t it is admitted by, NoiseVariance the σ̂²_t in it.
	Residual, Threshold, NoiseVariance float64
	// Displacement is ‖z_{t+1} − z_t‖: what flow and retraction moved.
	Displacement float64
	// Correction is the largest component by which the projection moved the
	// decoded action.
	Correction float64
	// Consistent reports whether M_t was not empty; true without localization.
	Consistent bool
	Fallback   domain.Fallback
	Times      domain.Times
}
