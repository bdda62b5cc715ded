package certificate

import (
	"context"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// Recovery is Φ_normal = ‖x̂ − D_s(z)‖² against steps after a perturbation, over
// samples, with the contraction that the theory predicts from the median start.
type Recovery struct {
	Radius      float64  `json:"radius"`      // of the perturbation
	Runs        int      `json:"runs"`        // number of them
	Median      []Number `json:"median"`      // Φ by step, the first at the perturbed start
	P95         []Number `json:"p95"`         // likewise
	Max         []Number `json:"max"`         // likewise
	Predicted   []Number `json:"predicted"`   // by the contraction
	Contraction Number   `json:"contraction"` // e^{−μ_PL Δt/ε}
	MuPL        Number   `json:"mu_pl"`       // its constant
	// Floor is the steady bound F_Δ/(1 − contraction) added in the comparison.
	Floor Number `json:"floor"`
	// Conforming is the fraction of (run, step) with Φ_n ≤ contraction^n Φ_0 + Floor,
	// Capped that of steps whose length was V_max Δt: there the cap, and not the
	// potential, sets the speed, and the prediction does not apply.
	Conforming Number `json:"within"` // share of steps within the prediction
	Capped     Number `json:"capped"` // share of steps at the velocity's cap
}

// cappedShare of V_max Δt counts as a step at the cap. The Lie residual turns part of the step, so that its length is
// not exactly V_max Δt.
const cappedShare = 0.95

// Recover perturbs the localized latents of held-out samples off M* by opt.Perturbation. It then follows the flow
// alone, without localization and retraction, for opt.Steps, with a constant observation.
func Recover(ctx context.Context, l *batchnav.Latents, holdout []domain.Sample, k *Constants, opt Options) (*Recovery, error) {
	radius, steps := opt.Perturbation*l.Parts().Model.Calibration.LatentSpread, opt.Steps
	if !(radius > 0) || steps < 1 {
		return nil, fmt.Errorf("recovery: radius %v and %d steps, want both positive", radius, steps)
	}
	a, err := newCertifier(l, holdout, opt)
	if err != nil {
		return nil, err
	}
	n := len(a.samples)
	weights, err := a.weights()
	if err != nil {
		return nil, err
	}
	z, next := tensor.New(n, a.spot.Cols), tensor.New(n, a.spot.Cols)
	displace(a.opt.Seed, certifyDirections, radius, a.spot, z)
	rho := math.Exp(-float64(k.MuPL) * a.Navigation.LatentStep / a.Navigation.Epsilon)
	r := &Recovery{Radius: radius, Runs: n, Contraction: Number(rho), MuPL: k.MuPL, Floor: Number(float64(k.FDelta) / (1 - rho))}
	phi, start, slope := make([]float64, n), make([]float64, n), make([]float64, n)
	bounded, capped := 0, 0
	for step := range steps + 1 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if step > 0 {
			if err := a.Stepper.Step(backend.StepInput{Z: z, X: a.state, Ctx: a.ctx, Weights: weights}, backend.StepOutput{Z: next}); err != nil {
				return nil, fmt.Errorf("recovery: step %d: %w", step, err)
			}
			for i := range n {
				if math.Sqrt(tensor.SquaredDistance(z.Row(i), next.Row(i))) >= cappedShare*a.Navigation.VMax*a.Navigation.LatentStep {
					capped++
				}
			}
			z, next = next, z
		}
		if err := a.gradients(z, phi, slope); err != nil {
			return nil, err
		}
		if step == 0 {
			copy(start, phi)
		}
		decay := math.Pow(rho, float64(step))
		for i, v := range phi {
			if step > 0 && v <= decay*start[i]+float64(r.Floor) {
				bounded++
			}
		}
		ordered := append([]float64(nil), phi...)
		r.Median = append(r.Median, Number(quantile(ordered, 0.5)))
		r.P95 = append(r.P95, Number(quantile(ordered, 0.95)))
		r.Max = append(r.Max, Number(quantile(ordered, 1)))
		r.Predicted = append(r.Predicted, Number(decay*float64(r.Median[0])))
	}
	total := float64(n * steps)
	r.Conforming, r.Capped = Number(float64(bounded)/total), Number(float64(capped)/total)
	return r, nil
}

// weights are those of the objectives at the localized samples.
func (a *certifier) weights() (tensor.Matrix, error) {
	w, sigma := tensor.New(len(a.samples), a.spec.ObjectiveSize()), make([]float64, len(a.samples)*a.spec.ObjectiveSize())
	if err := a.latents.Step(a.spot, a.rows, batchnav.Moved{Sigma: sigma}); err != nil {
		return w, err
	}
	for i, v := range sigma {
		w.Row(i / w.Cols)[i%w.Cols] = float32(v * a.InverseRange[i%w.Cols])
	}
	return w, nil
}
