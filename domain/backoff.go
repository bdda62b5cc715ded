package domain

import (
	"math"
)

// Backoff is how far the margins of one closed loop are kept from their limits, stage by stage of an
// episode, or at all stages alike of a plant that runs on: what the errors of the estimate, and those to come, may take from
// each. It is changed between decisions by the loop's one goroutine, and read by the solves and roll-outs within one.
type Backoff struct {
	steps int
	clock int       // −1: the plant runs on
	rows  []float64 // [steps][margins]
	width int
}

// NewBackoff is one of a spec, nothing kept off yet.
func NewBackoff(spec *Spec) *Backoff {
	steps := spec.Steps
	if spec.Clock == 0 {
		steps = 1
	}
	return &Backoff{steps: steps, clock: spec.Clock - 1, width: len(spec.Margins), rows: make([]float64, steps*len(spec.Margins))}
}

// Clear keeps nothing off.
func (b *Backoff) Clear() { clear(b.rows) }

// Scale keeps off so many times what is kept off now.
func (b *Backoff) Scale(factor float64) {
	for i := range b.rows {
		b.rows[i] *= factor
	}
}

// ScaleFrom is Scale by factor of so many decisions from a context on, and by rest of the others.
func (b *Backoff) ScaleFrom(c []float64, decisions int, factor, rest float64) {
	first := b.stage(c[b.clock])
	last := min(b.steps, first+decisions)
	for i := range b.rows {
		if stage := i / b.width; first <= stage && stage < last {
			b.rows[i] *= factor
		} else {
			b.rows[i] *= rest
		}
	}
}

// Row views what is kept off the margins of the decision at a clock's reading, [margins].
func (b *Backoff) Row(clock float64) []float64 {
	stage := b.stage(clock)
	return b.rows[stage*b.width : (stage+1)*b.width]
}

func (b *Backoff) stage(clock float64) int {
	return min(b.steps-1, max(0, int(math.Round(clock*float64(b.steps)))))
}

// At is Row of a context.
func (b *Backoff) At(c []float64) []float64 {
	if b.clock < 0 {
		return b.Row(0)
	}
	return b.Row(c[b.clock])
}
