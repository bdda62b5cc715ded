package batchnav

import (
	"time"

	"github.com/gpc-engine/gpc/internal/backend"
)

// Fallback tells, bit by bit, which guard acted in a decision. The low four
// bits are the NaN guards of the latent step (backend.Fallback).
type Fallback uint16

const (
	// FallbackObservation: an entry of the observation was not finite;
	// Problem.Fallback gave the action.
	FallbackObservation Fallback = 1 << (iota + 4)
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
)

const (
	// FallbackMidpoint and the next three are the guards of the latent step.
	FallbackMidpoint    = Fallback(backend.FallbackMidpoint)
	FallbackSecondSlope = Fallback(backend.FallbackSecondSlope)
	FallbackNoStep      = Fallback(backend.FallbackNoStep)
	FallbackLie         = Fallback(backend.FallbackLie)
)

// Replaced reports whether the executed action is not the map's.
func (f Fallback) Replaced() bool {
	return f&(FallbackSolver|FallbackConservative) != 0
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
}

// String lists the set bits by name, "none" for zero.
func (f Fallback) String() string {
	s := ""
	for _, n := range fallbackNames {
		if f&n.bit != 0 {
			if s != "" {
				s += "+"
			}
			s += n.name
		}
	}
	if s == "" {
		return "none"
	}
	return s
}

// Times are the shares of one decision. In a batch they are those of the whole
// call. A backend that keeps the latents makes localization a part of Step.
type Times struct {
	Localize time.Duration // encode, search, smoothing
	Step     time.Duration // indicators, flow, retraction, decode
	Project  time.Duration // projection, margins, fallback
}

// Total is the whole decision.
func (t Times) Total() time.Duration { return t.Localize + t.Step + t.Project }

// Decision is one executed action with its monitor record. Its slices belong to
// the navigator and are overwritten by the next decision.
type Decision struct {
	U       []float64 // executed action, physical units
	Plan    []float32 // decoded plan [Plan·action] before projection
	Latent  []float32 // z_{t+1}; nil unless Options.Latents asks for it
	Sigma   []float64 // priority that steered the flow
	Margins []float64 // every hard margin of U, in the order of Spec.Margins
	// Margin is the smallest of Margins; NaN when the observation was not finite.
	Margin float64
	// Residual is ‖x̂ − D_s(z_t)‖² at the localized latent, normalised units,
	// Threshold the τ_t it is admitted by, NoiseVariance the σ̂²_t in it.
	Residual, Threshold, NoiseVariance float64
	// Displacement is ‖z_{t+1} − z_t‖: what flow and retraction moved.
	Displacement float64
	// Correction is the largest component by which the projection moved the
	// decoded action.
	Correction float64
	// Consistent reports whether M_t was not empty; true without localization.
	Consistent bool
	Fallback   Fallback
	Times      Times
}
