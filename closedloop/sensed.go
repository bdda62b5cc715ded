package closedloop

import "github.com/gpc-engine/gpc/domain"

// sensed is an episode whose method decides by what is measured.
type sensed struct {
	episode domain.Sensing
	method  domain.Estimating
	y, c    []float64
}

// newSensed is nil for a case without a Measurement, and for a method that is given the state itself.
func newSensed(of *domain.Case, ep domain.Episode, method domain.Controller) *sensed {
	episode, senses := ep.(domain.Sensing)
	m, estimates := method.(domain.Estimating)
	if of.Measurement == nil || !senses || !estimates {
		return nil
	}
	return &sensed{episode, m, make([]float64, len(of.Measurement.Outputs)), make([]float64, of.Problem.Spec().ContextSize())}
}

// measure measures, with a bias of each output.
func (e *sensed) measure(bias []float64) {
	e.episode.Measure(e.y, e.c)
	for i := range min(len(bias), len(e.y)) {
		e.y[i] += bias[i]
	}
}

// decide decides by what was measured; s and c become the estimates.
func (e *sensed) decide(pref domain.Preference, s, c, u []float64) (bool, error) {
	return e.method.DecideMeasured(e.y, e.c, pref, s, c, u)
}
