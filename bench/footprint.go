package bench

// StepFootprint is the memory that one fused step needs at a shape.
type StepFootprint struct {
	Case        string `json:"case"`         // whose step it is
	WeightBytes int    `json:"weight_bytes"` // of its networks
	// BytesPerLatent crosses the contract for each latent of the batch: latents,
	// observation, weights of the objectives, next latent and plan. The workspace
	// of a worker does not grow with the batch.
	BytesPerLatent int `json:"bytes_per_latent"` // for each latent of the batch
}

// Footprints returns the memory of a step for every Shape: both decoders, plus
// what grows with the batch.
func Footprints() []StepFootprint {
	out := make([]StepFootprint, len(Shapes))
	for i, s := range Shapes {
		weights := 0
		for _, m := range []int{s.State, s.Action} {
			weights += s.Latent*s.Hidden + s.Hidden + s.Hidden*s.Hidden + s.Hidden + s.Hidden*m + m
		}
		out[i] = StepFootprint{Case: s.Case, WeightBytes: 4 * weights, BytesPerLatent: s.latentBytes()}
	}
	return out
}

// latentBytes are what crosses the contract for one latent of a step.
func (s Shape) latentBytes() int { return 4 * (2*s.Latent + s.State + s.Objectives + s.Action) }
