package closedloop

import "github.com/gpc-engine/gpc/domain"

// sensed is an episode whose method decides by what is measured.
type sensed struct {
	read   func(y, c []float64)
	method domain.Estimating
	y, c   []float64
}

// newSensed is nil for a case without a Measurement, and for a method that is given the state itself.
func newSensed(of *domain.Case, ep domain.Episode, method domain.Controller) *sensed {
	measure := domain.AbilitiesOfEpisode(ep).Measure
	m, estimates := method.(domain.Estimating)
	if of.Measurement == nil || measure == nil || !estimates {
		return nil
	}
	return &sensed{measure, m, make([]float64, len(of.Measurement.Outputs)), make([]float64, of.Problem.Spec().ContextSize())}
}

// measure measures, with a bias of each output.
func (e *sensed) measure(bias []float64) {
	e.read(e.y, e.c)
	for i := range min(len(bias), len(e.y)) {
		e.y[i] += bias[i]
	}
}

// decide decides by what was measured; s and c become the estimates.
func (e *sensed) decide(pref domain.Preference, s, c, u []float64) (bool, error) {
	return e.method.DecideMeasured(e.y, e.c, pref, s, c, u)
}
