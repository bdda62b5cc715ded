package integrator

import (
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domain"
)

// Scenarios whose optima are Answers, drawn as test scenes are from a stream that nothing
// else uses.
const (
	answerScenarios = 6
	answerStream    = 0x616e_7377_6572 // "answer"
)

// answerSamples are the decisions along the optima of a few scenarios, under the adaptive
// priority and, in every third, under a preference. An optimum is the best of the structured
// cold starts; a scenario without one is left out.
func (y *System) answerSamples() []domain.Sample {
	w := y.interiors.Get().(*interior)
	defer y.interiors.Put(w)
	rng := rand.New(rand.NewPCG(answerStream, 0))
	var samples []domain.Sample
	for k := range answerScenarios {
		var v [scenarioSize]float64
		domain.DrawScenario(rng, testRange(), v[:])
		pref := domain.Preference{Adaptive: true}
		if k%3 == 2 {
			share := rng.Float64()
			pref = domain.Preference{W: []float64{share, 1 - share}}
		}
		scene := y.scene(v[:])
		var h horizonProblem
		y.sceneProblem(&h, &scene, pref)
		h.clearance = DatasetClearance
		sol := solution{cost: math.Inf(1)}
		var start [2 * Horizon]float64
		for _, g := range guides {
			y.coldStart(&h, g, &start)
			w.improve(&h, start[:], &sol)
		}
		if !math.IsInf(sol.cost, 1) {
			samples = y.appendTrajectory(samples, domain.Sample{Scenario: k, Preference: pref}, &h, v[5], &sol)
		}
	}
	return samples
}

// Answers is domain.ProblemAbilities.Answers.
func (y *System) Answers() []domain.Sample { return y.answers() }
