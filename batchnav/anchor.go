package batchnav

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/tensor"
)

// anchors are the places of many observations on M*, a row each. Rows grow to the
// most observations so far and are kept.
type anchors struct {
	*loaded
	input, normal, state, ctx tensor.Matrix // E_x's; x̂; s; c
	observed, spot            tensor.Matrix // E_x; localized
	estimate, first           tensor.Matrix // ŝ = D_s and the whole plan at spot
	weight                    tensor.Matrix
	sigma                     [][]float64
	tau                       []float32
	consistent                []bool
	// Scratch of one row.
	slot, delta, shat, u []float64
}

func newAnchors(l *loaded) anchors {
	spec := l.spec
	return anchors{
		loaded: l, slot: make([]float64, spec.PreferenceSize()), delta: make([]float64, spec.ObjectiveSize()),
		shat: make([]float64, spec.MeasuredSize()), u: make([]float64, spec.ActionSize()),
	}
}

// grow makes room for n observations.
func (a *anchors) grow(n int) {
	if n <= a.input.Rows {
		return
	}
	spec, nz := a.spec, a.model.Latent()
	a.input = tensor.New(n, spec.ObservationSize())
	a.normal, a.state, a.ctx = tensor.New(n, spec.MeasuredSize()), tensor.New(n, spec.MeasuredSize()), tensor.New(n, spec.ContextSize())
	a.observed, a.spot = tensor.New(n, nz), tensor.New(n, nz)
	a.estimate, a.first = tensor.New(n, spec.MeasuredSize()), tensor.New(n, spec.PlanSize())
	a.weight = tensor.New(n, spec.ObjectiveSize())
	a.tau, a.consistent = make([]float32, n), make([]bool, n)
	a.sigma = make([][]float64, n)
	for i := range a.sigma {
		a.sigma[i] = make([]float64, spec.ObjectiveSize())
	}
}

// encode writes z_obs of all observations.
func (a *anchors) encode(questions []domain.Question) error {
	n := len(questions)
	a.grow(n)
	for i := range questions {
		q := &questions[i]
		a.observe(q.S, q.C, q.Preference, a.slot, a.input.Row(i), a.state.Row(i), a.ctx.Row(i), a.normal.Row(i))
	}
	return a.encoder.Forward(a.input.Slice(0, n), a.observed.Slice(0, n))
}

// localize encodes all observations and finds their places.
func (a *anchors) localize(questions []domain.Question) error {
	n := len(questions)
	if err := a.encode(questions); err != nil {
		return err
	}
	for i := range questions {
		a.tau[i], a.consistent[i] = float32(a.threshold(0)), true
	}
	observed, spot := a.observed.Slice(0, n), a.spot.Slice(0, n)
	if a.index == nil {
		return spot.CopyFrom(observed)
	}
	return a.index.Localize(a.normal.Slice(0, n), observed, a.tau[:n], a.nav.Neighbours, backend.LocalizeOutput{Z: spot, Consistent: a.consistent[:n]})
}

// steer decodes all places and takes the priority there; even weights where the
// indicators are not finite.
func (a *anchors) steer(questions []domain.Question) error {
	n := len(questions)
	if err := a.stepper.Decode(a.spot.Slice(0, n), a.ctx.Slice(0, n), a.state.Slice(0, n), a.first.Slice(0, n), a.estimate.Slice(0, n)); err != nil {
		return err
	}
	for i := range questions {
		q, sigma := &questions[i], a.sigma[i]
		tensor.Widen(a.shat, a.estimate.Row(i))
		tensor.Widen(a.u, a.first.Row(i)[:len(a.u)])
		q.Preference.Priority(a.problem, a.shat, a.u, q.C, a.delta, sigma)
		if !tensor.Finite(sigma) {
			tensor.Fill(sigma, 1/float64(len(sigma)))
		}
		a.weights(sigma, a.weight.Row(i))
	}
	return nil
}

// residual is ‖x̂ − decoded‖² in normalised units; decoded is normalised in place.
func (l *loaded) residual(normal, decoded []float32) float64 {
	l.model.NormS.Apply(decoded, decoded)
	return tensor.SquaredDistance(normal, decoded)
}
