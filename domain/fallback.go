package domain

import (
	"cmp"
	"strings"
)

// Fallback tells, bit by bit, which guard acted in a decision. The low four
// bits are the NaN guards of the latent step.
type Fallback uint32

const (
	FallbackMidpoint    Fallback = 1 << iota // z_mid was not finite, z was used
	FallbackSecondSlope                      // k_2 was not finite, k_1 was used
	FallbackNoStep                           // k_1 was not finite, no motion
	FallbackLie                              // Lie residual was not finite, zero was used
	// FallbackObservation: an entry of the observation was not finite;
	// Problem.Fallback gave the action.
	FallbackObservation
	// FallbackAction: the decoded action was not finite; Problem.Fallback gave it.
	FallbackAction
	// FallbackMargin: a hard margin was negative after projection.
	FallbackMargin
	// FallbackResidual: the residual was above the stated multiple of τ_t.
	FallbackResidual
	// FallbackSolver: the executed action is the fallback solver's.
	FallbackSolver
	// FallbackConservative: the executed action is Problem.Fallback's.
	FallbackConservative
	// FallbackGuard: the roll-out of the decided action fails.
	FallbackGuard
	// FallbackIncumbent: the executed action is that of the plan accepted before, one step on.
	FallbackIncumbent
	// FallbackRescue: the guard has asked for a rescue; FallbackSolver says that the executed
	// action is the rescue's.
	FallbackRescue
	// FallbackMap: the map is wrong about answers that are known; see ProblemAbilities.Answers.
	FallbackMap
	// FallbackEscape: the executed action is ProblemAbilities.Escape's.
	FallbackEscape
)

const (
	// FallbackMethod is the bit of a Controller whose own solve did not succeed.
	FallbackMethod Fallback = 1 << 15
	// FallbackGap: an action may cost less by more than LargestGap; see ProblemAbilities.Gap.
	FallbackGap Fallback = 1 << 16
	// FallbackWeights: a weight is below a hundredth, as few random weights of samples are. Other designs have the edges of the simplex.
	FallbackWeights Fallback = 1 << 17
)

// Fallbacks is the number of bits, those without a meaning among them.
const Fallbacks = 18

// LargestGap is the share of its cost that a decision of a map may be above the bound of ProblemAbilities.Gap.
const LargestGap = 0.01

// Replaced reports whether the executed action is not the map's.
func (f Fallback) Replaced() bool {
	return f&(FallbackSolver|FallbackConservative|FallbackIncumbent|FallbackEscape) != 0
}

// Known reports whether every bit has a meaning.
func (f Fallback) Known() bool {
	for _, n := range fallbackNames {
		f &^= n.bit
	}
	return f == 0
}

// fallbackNames are the bits in order, as String and reports spell them.
var fallbackNames = []struct {
	bit  Fallback
	name string
}{
	{FallbackMidpoint, "midpoint"},
	{FallbackSecondSlope, "second-slope"},
	{FallbackNoStep, "no-step"},
	{FallbackLie, "lie"},
	{FallbackObservation, "observation"},
	{FallbackAction, "action"},
	{FallbackMargin, "margin"},
	{FallbackResidual, "residual"},
	{FallbackSolver, "solver"},
	{FallbackConservative, "conservative"},
	{FallbackGuard, "guard"},
	{FallbackIncumbent, "incumbent"},
	{FallbackRescue, "rescue"},
	{FallbackMap, "map"},
	{FallbackEscape, "escape"},
	{FallbackMethod, "method"},
	{FallbackGap, "gap"},
	{FallbackWeights, "weights"},
}

// String lists the set bits by name, "none" for zero.
func (f Fallback) String() string {
	var set []string
	for _, n := range fallbackNames {
		if f&n.bit != 0 {
			set = append(set, n.name)
		}
	}
	return cmp.Or(strings.Join(set, "+"), "none")
}
