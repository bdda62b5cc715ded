package certificate

import (
	"context"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// Measured is what a closed loop did, for comparison with the bounds.
type Measured struct {
	Episodes        int     `json:"episodes"`          // of the closed loop
	Decisions       int     `json:"decisions"`         // of the closed loop
	Compared        int     `json:"compared"`          // decisions with an optimal action to compare with
	ActionErrorMax  Number  `json:"action_error_max"`  // largest ‖u − u*‖ of these
	ActionErrorP99  Number  `json:"action_error_p99"`  // 99 % quantile
	ActionErrorMean Number  `json:"action_error_mean"` // mean
	ResidualMax     Number  `json:"residual_max"`      // Φ at the localized latent
	DisplacementMax Number  `json:"displacement_max"`  // largest ‖z_{t+1} − z_t‖
	MarginMin       Number  `json:"margin_min"`        // least margin
	MarginTolerance float64 `json:"margin_tolerance"`  // how far below zero a margin may be
	Violations      int     `json:"violations"`        // decisions with a margin below that
	Fallbacks       int     `json:"fallbacks"`         // decisions replaced
}

// MeasureLoop runs a controller in closed loop on episodes of a plant of the problem of spec. Where optimal is not nil
// it compares each executed action with the optimal one in the loop's own state.
func MeasureLoop(ctx context.Context, spec *domain.Spec, ctrl domain.Controller, plant domain.Plant, seed uint64, episodes int, pref domain.Preference, optimal domain.Optimal) (*Measured, error) {
	m := &Measured{MarginMin: Number(math.Inf(1)), MarginTolerance: spec.MarginTolerance}
	s, c := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
	u, best := make([]float64, spec.ActionSize()), make([]float64, spec.ActionSize())
	var errors []float64
	residual, displacement := math.NaN(), math.NaN()
	for e := range episodes {
		ep, err := plant.Episode(seed, e, domain.EpisodeOptions{Preference: pref, Context: ctx})
		if err != nil {
			return nil, fmt.Errorf("certify: episode %d: %w", e, err)
		}
		if err := ctrl.Reset(ep); err != nil {
			return nil, fmt.Errorf("certify: episode %d: %w", e, err)
		}
		for !ep.Done() {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			ep.Observe(s, c)
			d, err := ctrl.Decide(s, c, pref, u)
			if err != nil {
				return nil, fmt.Errorf("certify: episode %d: %w", e, err)
			}
			if optimal != nil && optimal(s, c, pref, best) {
				sum := 0.0
				for j, v := range u {
					sum += (v - best[j]) * (v - best[j])
				}
				errors = append(errors, math.Sqrt(sum))
			}
			// A decision that did not ask the map has neither.
			residual, displacement = larger(residual, d.Residual), larger(displacement, d.Displacement)
			if !d.Solved() || d.Fallback.Replaced() {
				m.Fallbacks++
			}
			out, err := ep.Apply(u)
			if err != nil {
				return nil, fmt.Errorf("certify: episode %d: %w", e, err)
			}
			m.MarginMin = Number(math.Min(float64(m.MarginMin), out.Margin))
			if !spec.Keeps(out.Margin) {
				m.Violations++
			}
			m.Decisions++
		}
		m.Episodes++
	}
	m.ResidualMax, m.DisplacementMax, m.Compared = Number(residual), Number(displacement), len(errors)
	m.ActionErrorMax, m.ActionErrorP99, m.ActionErrorMean = Number(math.NaN()), Number(math.NaN()), Number(math.NaN())
	if len(errors) > 0 {
		mean := 0.0
		for _, v := range errors {
			mean += v / float64(len(errors))
		}
		m.ActionErrorMean, m.ActionErrorP99, m.ActionErrorMax = Number(mean), Number(quantile(errors, 0.99)), Number(quantile(errors, 1))
	}
	return m, nil
}

// larger is the larger of a and b, or the one that is a number.
func larger(a, b float64) float64 {
	if b > a || math.IsNaN(a) {
		return b
	}
	return a
}
