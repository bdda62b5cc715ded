package batchnav

import (
	"fmt"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// mostAnswers bounds how many known answers a map is asked for, answerTolerance its error at them: half of their
// variance. The bundled maps miss 2e-4 to 0.06 of it. A map of Case 1 after 36 epochs on 120 scenarios misses 0.40,
// while its decisions cost 0.3 %: the error counts before the projection (docs/explain/guard.md).
const (
	mostAnswers     = 32
	answerTolerance = 0.5
)

// answerError is the error of the map at known answers (domain.ProblemAbilities.Answers), 0 where there are none.
// With r_i = D_u(E_x(x_i)) in physical units and t_i the solver's target, it is
//
//	Σ_i ‖r_i − t_i‖² / Σ_i ‖t_i − t̄‖²,
//
// each component in units of its box, where it has one. The plan that fits all answers best
// has 1. Neither side depends on the map's own residual.
func (l *loaded) answerError() (float64, error) {
	if l.abilities.Answers == nil {
		return 0, nil
	}
	answers := l.abilities.Answers()
	n := min(len(answers), mostAnswers)
	samples := make([]*domain.Sample, n)
	input, z := tensor.New(n, l.spec.ObservationSize()), tensor.New(n, l.model.Latent())
	plans, slot := tensor.New(n, l.spec.PlanSize()), make([]float64, l.spec.PreferenceSize())
	state, ctx := make([]float32, l.spec.MeasuredSize()), make([]float32, l.spec.ContextSize())
	for i := range samples {
		a := &answers[i*len(answers)/n]
		samples[i] = a
		l.observe(a.S, a.C, a.Preference, slot, input.Row(i), state, ctx, nil)
	}
	decoder, err := l.backend.NewNet(l.model.DecoderU)
	if err != nil {
		return 0, fmt.Errorf("decoder D_u: %w", err)
	}
	if err := l.encoder.Forward(input, z); err != nil {
		return 0, err
	}
	if err := decoder.Forward(z, plans); err != nil {
		return 0, err
	}
	return l.variationMissed(samples, plans), nil
}

// variationMissed is the quotient of answerError for what D_u gives, which is normalised.
func (l *loaded) variationMissed(samples []*domain.Sample, plans tensor.Matrix) float64 {
	mean := make([]float64, plans.Cols)
	for _, a := range samples {
		for j, target := range a.Target {
			mean[j] += target / float64(len(samples))
		}
	}
	missed, variation := 0.0, 0.0
	for i, a := range samples {
		plan := plans.Row(i)
		l.model.NormU.Invert(plan, plan)
		for j, target := range a.Target {
			unit := 1.0
			if u := l.spec.Action[j%len(l.spec.Action)]; u.Bounded() && u.Hi > u.Lo {
				unit = u.Hi - u.Lo
			}
			e, v := (float64(plan[j])-target)/unit, (target-mean[j])/unit
			missed += e * e
			variation += v * v
		}
	}
	if variation == 0 {
		return 0
	}
	return missed / variation
}
