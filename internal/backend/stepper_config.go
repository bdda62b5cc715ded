package backend

import (
	"fmt"
	"math"
)

// Validate says what is wrong with a stepper's configuration: networks missing
// or not chaining, sizes that differ from the problem's, constants out of range.
func (c StepperConfig) Validate() error {
	if c.DecoderS == nil || c.DecoderU == nil {
		return fmt.Errorf("stepper: DecoderS and DecoderU are needed")
	}
	if err := c.DecoderS.Validate(); err != nil {
		return fmt.Errorf("stepper: D_s: %w", err)
	}
	if err := c.DecoderU.Validate(); err != nil {
		return fmt.Errorf("stepper: D_u: %w", err)
	}
	latent := c.DecoderS.In()
	if c.DecoderU.In() != latent {
		return fmt.Errorf("stepper: D_u reads %d latent coordinates, D_s %d", c.DecoderU.In(), latent)
	}
	if err := c.NormS.Validate("D_s", c.DecoderS.Out()); err != nil {
		return err
	}
	if err := c.NormU.Validate("D_u", c.DecoderU.Out()); err != nil {
		return err
	}
	if c.Problem != nil {
		spec := c.Problem.Spec()
		if spec.MeasuredSize() != c.DecoderS.Out() || spec.PlanSize() != c.DecoderU.Out() {
			return fmt.Errorf("stepper: %s has %d measured and %d plan entries, D_s and D_u give %d and %d",
				spec.Name, spec.MeasuredSize(), spec.PlanSize(), c.DecoderS.Out(), c.DecoderU.Out())
		}
	}
	if c.MaxBatch < 1 {
		return fmt.Errorf("stepper: MaxBatch is %d, want at least 1", c.MaxBatch)
	}
	return c.Params.Validate(latent)
}

// Validate checks the constants of a step on a latent of the given size: Δt, λ
// and γ_L ≥ 0, V_max and ε positive, all finite, TopK in [0, latent], rotation
// blocks that fit.
func (p StepParams) Validate(latent int) error {
	const least, most = math.SmallestNonzeroFloat32, math.MaxFloat32
	for _, v := range []struct {
		name   string
		value  float32
		lo, hi float64
	}{
		{"Dt", p.Dt, 0, most}, {"VMax", p.VMax, least, most}, {"Epsilon", p.Epsilon, least, most},
		{"MetricLambda", p.MetricLambda, 0, most}, {"LieGain", p.LieGain, 0, most}, {"LieScale", p.LieScale, -most, most},
	} {
		if f := float64(v.value); !(f >= v.lo && f <= v.hi) {
			return fmt.Errorf("stepper: %s is %v, want a number in [%g, %g]", v.name, v.value, v.lo, v.hi)
		}
	}
	if p.TopK < 0 || p.TopK > latent {
		return fmt.Errorf("stepper: TopK is %d, want 0 to the latent size %d", p.TopK, latent)
	}
	if r := p.Group.RotationBlocks; r < 0 || 3*r > latent {
		return fmt.Errorf("stepper: %d rotation blocks of 3 do not fit a latent of size %d", r, latent)
	}
	return nil
}
