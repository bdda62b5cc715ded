package opf

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
)

// objectiveScales divide J in the scalarization of a user's preference w: about
// the range of each objective along the Pareto front of case30 at one load, mean
// over loads; docs/explain/opf.md.
var objectiveScales = [objectives]float64{1e-3, 1e-3, 5}

// leastEconomic is the least weight of the cost in a fixed preference: with none
// at all a dispatch is not determined, and this takes the cheapest of the best.
const leastEconomic = 0.01

// urgencyGain multiplies the adaptive σ: in the adaptive mode a dispatch
// minimises Σ_i σ_i gain_i J_i. The gains are as large as leaves J_total, which
// the paper scores, practically untouched; docs/explain/opf.md.
var urgencyGain = [objectives]float64{30, 30, 1}

// priority writes σ at a state, or the fixed preference.
func (y *System) priority(s, c []float64, pref domain.Preference, sigma []float64) {
	if !pref.Adaptive {
		copy(sigma, pref.W)
		return
	}
	var delta [objectives]float64
	y.Indicators(s, nil, c, delta[:])
	semantic.Priority(delta[:], sigma)
}

// weightsAt are the weights of the raw objectives that a decision in state s
// minimises.
func (y *System) weightsAt(s, c []float64, pref domain.Preference) [objectives]float64 {
	if !pref.Adaptive {
		return fixedWeights(pref.W)
	}
	var sigma [objectives]float64
	y.priority(s, c, pref, sigma[:])
	for i := range sigma {
		sigma[i] *= urgencyGain[i]
	}
	return sigma
}

// Weigh is domain.ProblemAbilities.Weigh: the adaptive mode is counted by J_total.
func (y *System) Weigh(pref domain.Preference, weights []float64) bool {
	var w []float64
	if !pref.Adaptive {
		w = pref.W
	}
	counted := countedWeights(w)
	copy(weights, counted[:])
	return true
}

// countedWeights are those that an episode is scored by: J_total's, or those of its
// preference where it has one.
func countedWeights(w []float64) [objectives]float64 {
	if w == nil {
		return totalWeights
	}
	return fixedWeights(w)
}

// fixedWeights are those of a user's preference.
func fixedWeights(w []float64) [objectives]float64 {
	var out [objectives]float64
	for i, v := range w {
		out[i] = v / objectiveScales[i]
	}
	out[economic] = math.Max(out[economic], leastEconomic/objectiveScales[economic])
	return out
}
