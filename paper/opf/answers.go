package opf

import (
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domain"
)

// Dispatches that are Answers, drawn as scenarios are from a stream that nothing else uses.
const (
	answerChains  = 24
	secureAnswers = 8                // of a secure dispatch, whose solves take longer
	answerStream  = 0x616e_7377_6572 // "answer"
	answerLevel   = 1                // largest; above it most loads of case30 have no dispatch
)

// answerSamples are exact dispatches at loads over the scenarios' range, under the adaptive
// priority and, in every fourth, under a preference. What is not solved is left out.
func (y *System) answerSamples() []domain.Sample {
	rng := rand.New(rand.NewPCG(answerStream, 0))
	axes := newSolver(y).Parameters()
	count := answerChains
	if y.security != nil {
		count = secureAnswers
	} else {
		axes[0].Hi = answerLevel
	}
	chains := make([]*trainingChain, count)
	for k := range chains {
		p := make([]float64, len(axes))
		domain.DrawScenario(rng, axes, p)
		pref := domain.Preference{Adaptive: true}
		if k%4 == 3 {
			pref = domain.Preference{W: make([]float64, objectives)}
			domain.DrawWeights(rng, pref.W)
		}
		chains[k] = y.newTrainingChain(rng, p, pref, 0, k, 1)
		if y.walks() {
			chains[k].survives, chains[k].walk = y.first(), true
		}
	}
	if err := y.solveChains(chains); err != nil {
		return nil
	}
	var samples []domain.Sample
	for _, h := range chains {
		if h.err == nil {
			samples = append(samples, h.samples...)
		}
	}
	return samples
}

// Answers is domain.ProblemAbilities.Answers.
func (y *System) Answers() []domain.Sample { return y.answers() }
