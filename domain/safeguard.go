package domain

import (
	"errors"
	"math"

	"github.com/gpc-engine/gpc/tensor"
)

// Safeguard is what a case puts between a decision and its plant, for a decision that is not
// a map's: the problem's projection, then, where a hard margin of the projected action is
// negative still, Case.Rescue or else Problem.Fallback, if that one's
// smallest margin is larger. It is what batchnav does with a decoded action where nothing is
// rolled out. It looks one step ahead, as margins do. It is used by one goroutine.
type Safeguard struct {
	problem              Problem
	spec                 *Spec
	rescue               Optimal
	alternative, margins []float64
	hasDecision          bool // there is a last decision
	s, c, u              []float64
	nextS, nextC         []float64
}

// NewSafeguard is that of a case.
func NewSafeguard(c *Case) *Safeguard {
	spec := c.Problem.Spec()
	state, context := func() []float64 { return make([]float64, spec.MeasuredSize()) }, func() []float64 { return make([]float64, spec.ContextSize()) }
	return &Safeguard{
		problem: c.Problem, spec: spec, rescue: c.Rescue,
		alternative: make([]float64, spec.ActionSize()), margins: make([]float64, len(spec.Margins)),
		s: state(), c: context(), u: make([]float64, spec.ActionSize()), nextS: state(), nextC: context(),
	}
}

// Reset starts an episode.
func (g *Safeguard) Reset() { g.hasDecision = false }

// Keep makes u, decided in a finite state and context, the action to execute, and says what was
// done besides projecting it.
func (g *Safeguard) Keep(s, c []float64, pref Preference, u []float64) Fallback {
	fallback := Fallback(0)
	if tensor.Finite(u) {
		g.problem.Project(s, c, u)
		if margin := g.smallest(s, c, u); !g.spec.Keeps(margin) {
			fallback = FallbackMargin | g.replace(s, c, pref, u, margin)
		}
	} else {
		g.problem.Fallback(s, c, u)
		fallback = FallbackAction | FallbackConservative
	}
	g.remember(s, c, u)
	return fallback
}

// smallest is the smallest hard margin of u, NaN where one is.
func (g *Safeguard) smallest(s, c, u []float64) float64 {
	g.problem.Margins(s, c, u, g.margins)
	return Smallest(g.margins)
}

// replace looks for an action whose smallest margin is larger than that of u.
func (g *Safeguard) replace(s, c []float64, pref Preference, u []float64, margin float64) Fallback {
	source := g.rescue.Instead(g.problem, s, c, pref, g.alternative)
	if other := g.smallest(s, c, g.alternative); other > margin || math.IsNaN(margin) {
		copy(u, g.alternative)
		return source
	}
	return 0
}

func (g *Safeguard) remember(s, c, u []float64) {
	copy(g.s, s)
	copy(g.c, c)
	copy(g.u, u)
	g.hasDecision = true
}

// Refuse answers an observation that is not finite by Problem.Fallback in the state that the
// last decision was predicted to lead to, or by the case's solver where that action would break
// a limit there.
func (g *Safeguard) Refuse(s, c []float64, pref Preference, u []float64) (Fallback, error) {
	if g.hasDecision {
		g.problem.Step(g.s, g.c, g.u, g.nextS, g.nextC)
	} else if !tensor.Finite(c) {
		return 0, errors.New("the first context of an episode is not finite, want finite numbers: before the first decision nothing can replace them")
	}
	assumed := func(dst, measured, predicted []float64) {
		for j, v := range measured {
			switch {
			case v-v == 0:
				dst[j] = v
			case g.hasDecision:
				dst[j] = predicted[j]
			default:
				dst[j] = math.NaN()
			}
		}
	}
	assumed(g.s, s, g.nextS)
	assumed(g.c, c, g.nextC)
	fallback := FallbackObservation | FallbackConservative
	g.problem.Fallback(g.s, g.c, u)
	g.hasDecision = tensor.Finite(g.s) && tensor.Finite(g.c)
	if g.hasDecision {
		if margin := g.smallest(g.s, g.c, u); !g.spec.Keeps(margin) && g.replace(g.s, g.c, pref, u, margin) == FallbackSolver {
			fallback = FallbackObservation | FallbackSolver
		}
	}
	copy(g.u, u)
	return fallback, nil
}
