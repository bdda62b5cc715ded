package batchnav

import (
	"slices"

	"github.com/gpc-engine/gpc/tensor"
)

// envelopeRoom is how far a measured component may lie outside the states that the map's codes decode to, as a share of
// their width. D_s may follow an observation far outside, so that its residual stays small.
const envelopeRoom = 0.5

// envelope is the range that the map was made for, of each measured component and then of each entry of the context, in
// physical units. A component has the range of its codes, widened by envelopeRoom on either side. An entry has that of
// the map's calibration, or farScales about its mean.
type envelope struct{ lo, hi []float64 }

// enclose finds the envelope of a map, where the domain asks for one and the map has codes.
func (l *loaded) enclose() {
	if !l.spec.Enveloped || l.decoded.Rows < 2 {
		return
	}
	e := envelope{make([]float64, l.decoded.Cols), make([]float64, l.decoded.Cols)}
	low, high := make([]float32, l.decoded.Cols), make([]float32, l.decoded.Cols)
	copy(low, l.decoded.Row(0))
	copy(high, low)
	for i := range l.decoded.Rows {
		for j, v := range l.decoded.Row(i) {
			low[j], high[j] = min(low[j], v), max(high[j], v)
		}
	}
	l.model.NormS.Invert(low, low)
	l.model.NormS.Invert(high, high)
	tensor.Widen(e.lo, low)
	tensor.Widen(e.hi, high)
	for j := range e.lo {
		room := envelopeRoom * (e.hi[j] - e.lo[j])
		e.lo[j], e.hi[j] = e.lo[j]-room, e.hi[j]+room
	}
	for j := range l.spec.Context {
		mean, width := float64(l.model.NormX.Mean[len(low)+j]), farScales*float64(l.model.NormX.Scale[len(low)+j])
		span := [2]float64{mean - width, mean + width}
		if ranges := l.model.Calibration.ContextRange; ranges != nil {
			span = ranges[j]
		}
		e.lo, e.hi = append(e.lo, span[0]), append(e.hi, span[1])
	}
	l.envelope = e
}

// Envelope is the range of each measured component and each entry of the context that the map was made for, in physical
// units. It is nil where the problem asks for none.
func (n *Navigator) Envelope() (lo, hi []float64) {
	return slices.Clone(n.batch.envelope.lo), slices.Clone(n.batch.envelope.hi)
}
