package domain

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Preference says what a decision optimises: the adaptive priority σ(ŝ) along
// the horizon (the paper's mode), or a user's fixed W ∈ Δ.
type Preference struct {
	Adaptive bool      `json:"adaptive"`
	W        []float64 `json:"w,omitempty"`
	// Goal stands in place of both where loops of a map decide (batchnav.Batch). Next to one of them it does not decide, and
	// goes on.
	Goal *Goals `json:"-"`
}

// Weighs reports whether the weights are said, or adaptive.
func (p Preference) Weighs() bool { return p.Adaptive || p.W != nil }

// Equal reports whether two preferences are the same.
func (p Preference) Equal(o Preference) bool {
	return p.Adaptive == o.Adaptive && slices.Equal(p.W, o.W) && p.Goal.Equal(o.Goal)
}

// AdaptiveText is the Text of the adaptive priority.
const AdaptiveText = "adaptive"

// Text is the preference as files of policies and messages have it: AdaptiveText, or the weights with
// commas between them.
func (p Preference) Text() string {
	if p.Adaptive {
		return AdaptiveText
	}
	weights := make([]string, len(p.W))
	for i, w := range p.W {
		weights[i] = strconv.FormatFloat(w, 'g', -1, 64)
	}
	return strings.Join(weights, ",")
}

// PreferenceError says that a controller that was made for one preference was asked for a decision under another.
type PreferenceError struct{ Trained, Requested Preference }

func (e PreferenceError) Error() string {
	return fmt.Sprintf("made for the preference %s, and asked for a decision under %s", e.Trained.Text(), e.Requested.Text())
}

// Slot writes the preference as the encoder reads it: a flag that is 1 for a
// fixed W, then W, or zeros in the adaptive mode. With a floor ε > 0 the encoder reads
// 1 + log10(W_i + ε) instead of W_i, so that decades near an edge of Δ are as far apart
// for it as the middle: see Training.PreferenceFloor.
func (p Preference) Slot(slot []float64, floor float64) {
	clear(slot)
	if p.Adaptive {
		return
	}
	slot[0] = 1
	copy(slot[1:], p.W)
	if floor > 0 {
		for i, w := range p.W {
			slot[1+i] = 1 + math.Log10(w+floor)
		}
	}
}

// Priority writes the weights σ of the objectives: W, or eq. iclr-semantic of the indicators at (s, u, c). delta is scratch
// of M.
func (p Preference) Priority(problem Problem, s, u, c, delta, sigma []float64) {
	if copy(sigma, p.W); p.Adaptive {
		problem.Indicators(s, u, c, delta)
		problem.Spec().Semantic.Priority(delta, sigma)
	}
}

// DrawWeights draws weights of objectives evenly from the simplex.
func DrawWeights(rng *rand.Rand, w []float64) {
	sum := 0.0
	for i := range w {
		w[i] = rng.ExpFloat64()
		sum += w[i]
	}
	for i := range w {
		w[i] /= sum
	}
}

// Validate checks that a fixed W has m entries on the simplex.
func (p Preference) Validate(m int) error {
	if p.Goal != nil {
		return fmt.Errorf("the preference is a goal, which only loops that decide by a map of the case's own problem reach")
	}
	if p.Adaptive {
		return nil
	}
	if len(p.W) != m {
		return fmt.Errorf("preference has %d weights, the case has %d objectives", len(p.W), m)
	}
	sum := 0.0
	for i, w := range p.W {
		if !(w >= 0) || math.IsInf(w, 0) {
			return fmt.Errorf("preference weight %d is %v, want a finite number ≥ 0", i+1, w)
		}
		sum += w
	}
	if math.Abs(sum-1) > 1e-6 {
		return fmt.Errorf("preference weights sum to %g, want 1", sum)
	}
	return nil
}
