package batchnav

import (
	"context"
	"fmt"
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// Measured is what a closed loop did, for comparison with the bounds.
type Measured struct {
	Episodes  int `json:"episodes"`
	Decisions int `json:"decisions"`
	// Compared is how many decisions had an optimal action to compare with;
	// ActionErrors are ‖u − u*‖ over them, physical units.
	Compared        int    `json:"compared"`
	ActionErrorMax  Number `json:"action_error_max"`
	ActionErrorP99  Number `json:"action_error_p99"`
	ActionErrorMean Number `json:"action_error_mean"`
	ResidualMax     Number `json:"residual_max"` // Φ at the localized latent
	DisplacementMax Number `json:"displacement_max"`
	MarginMin       Number `json:"margin_min"`
	Fallbacks       int    `json:"fallbacks"`
}

// Optimal writes the optimal first action in state s under context c, and
// reports whether it is known.
type Optimal func(s, c []float64, pref domain.Preference, u []float64) bool

// MeasureLoop runs a navigator in closed loop on episodes of a plant and, where
// optimal is given, compares each executed action with the optimal one in the
// loop's own state.
func MeasureLoop(ctx context.Context, n *Navigator, plant domain.Plant, seed uint64, episodes int, pref domain.Preference, optimal Optimal) (*Measured, error) {
	spec := n.batch.spec
	m := &Measured{MarginMin: Number(math.Inf(1))}
	s, c, u := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize()), make([]float64, spec.ActionSize())
	var errors []float64
	residual, displacement := 0.0, 0.0
	for e := range episodes {
		ep, err := plant.Episode(seed, e, domain.EpisodeOptions{Preference: pref})
		if err != nil {
			return nil, fmt.Errorf("certify: episode %d: %w", e, err)
		}
		n.Reset()
		for !ep.Done() {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			ep.Observe(s, c)
			d, err := n.Decide(s, c, pref)
			if err != nil {
				return nil, err
			}
			if optimal != nil && optimal(s, c, pref, u) {
				sum := 0.0
				for j, v := range d.U {
					sum += (v - u[j]) * (v - u[j])
				}
				errors = append(errors, math.Sqrt(sum))
			}
			residual, displacement = math.Max(residual, d.Residual), math.Max(displacement, d.Displacement)
			if d.Fallback.Replaced() {
				m.Fallbacks++
			}
			out, err := ep.Apply(d.U)
			if err != nil {
				return nil, fmt.Errorf("certify: episode %d: %w", e, err)
			}
			m.MarginMin = Number(math.Min(float64(m.MarginMin), out.Margin))
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
