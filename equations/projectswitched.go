package equations

import (
	"cmp"
	"math"
	"slices"
)

// maxProjections bounds the sets of values that a projection tries.
const maxProjections = 64

// choice is one set of values of all switches, by their places, with its distance from what was requested in half
// boxes, squared.
type choice struct {
	places   [maxSwitches]uint8
	distance float64
}

// projectSwitched makes the actions of switches values that they may take, and projects the other actions. It takes the
// set of values that is nearest to the request and satisfies the margins. Where none does it is the set of the least
// violation. It tries at most maxProjections sets.
func (p *Problem) projectSwitched(w *work, s, c, u []float64) bool {
	choices := p.choices(w, c, u)
	w.request = append(w.request[:0], u...)
	best := math.Inf(-1)
	for i := range choices {
		copy(u, w.request)
		p.place(&choices[i], u)
		margin := p.projectReal(w, s, c, u)
		if margin > best || i == 0 {
			best = margin
			w.nearest = append(w.nearest[:0], u...)
		}
		if p.spec.Keeps(best) {
			break
		}
	}
	copy(u, w.nearest)
	return p.spec.Keeps(best)
}

// place writes the values of a choice.
func (p *Problem) place(k *choice, u []float64) {
	for i := range p.spec.Switches {
		w := &p.spec.Switches[i]
		u[w.Action] = w.Values[k.places[i]]
	}
}

// choices are the sets of values that may be taken, the nearest first.
func (p *Problem) choices(w *work, c, u []float64) []choice {
	w.choices = append(w.choices[:0], choice{})
	for i := range p.spec.Switches {
		d := &p.spec.Switches[i]
		from, to := 0, len(d.Values)
		if !d.MayChange(c) {
			from = d.Nearest(c[d.Last])
			to = from + 1
		}
		w.fewer, w.choices = w.choices, w.fewer[:0]
		for v := from; v < to; v++ {
			deviation := (d.Values[v] - u[d.Action]) / p.half[d.Action]
			if math.IsNaN(deviation) {
				deviation = float64(v)
			}
			for _, k := range w.fewer {
				k.places[i], k.distance = uint8(v), k.distance+deviation*deviation
				w.choices = append(w.choices, k)
			}
		}
		slices.SortStableFunc(w.choices, func(a, b choice) int { return cmp.Compare(a.distance, b.distance) })
		w.choices = w.choices[:min(len(w.choices), maxProjections)]
	}
	return w.choices
}
