package batchnav

import (
	"slices"

	"github.com/gpc-engine/gpc/tensor"
)

// envelopeRoom is how far a measured component may lie outside the states that the map's codes decode to, as a share of
// their width. D_s may follow an observation far outside, so that its residual stays small.
const envelopeRoom = 0.5

// envelope is the range of each measured component that the map was made for, in physical units. It is the range of its
// codes, widened by envelopeRoom on either side.
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
	l.envelope = e
}

// Envelope is the range of each measured component that the map was made for, in physical units. It is nil where the
// problem asks for none.
func (n *Navigator) Envelope() (lo, hi []float64) {
	return slices.Clone(n.batch.envelope.lo), slices.Clone(n.batch.envelope.hi)
}
