package closedloop

import (
	"github.com/gpc-engine/gpc/domain"
)

// sensed is an episode whose method decides by what is measured.
type sensed struct {
	read func(y, c []float64)
	by   func(y, c []float64, pref domain.Preference, s, known, u []float64) (domain.Decision, error)
	y, c []float64
}

// newSensed is nil for a case without a Measurement, and for a method that is given the state itself.
func newSensed(of *domain.Case, ep domain.Episode, may *domain.ControllerAbilities) *sensed {
	measure := domain.AbilitiesOfEpisode(ep).Measure
	if of.Measurement == nil || measure == nil || may.DecideMeasured == nil {
		return nil
	}
	return &sensed{measure, may.DecideMeasured, make([]float64, len(of.Measurement.Outputs)), make([]float64, of.Problem.Spec().ContextSize())}
}

// measure measures, with a bias of each output.
func (e *sensed) measure(bias []float64) {
	e.read(e.y, e.c)
	for i := range min(len(bias), len(e.y)) {
		e.y[i] += bias[i]
	}
}

// decide decides by what was measured; s and c become the estimates.
func (e *sensed) decide(pref domain.Preference, s, c, u []float64) (domain.Decision, error) {
	return e.by(e.y, e.c, pref, s, c, u)
}
