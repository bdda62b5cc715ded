package equations

import (
	"math"
	"slices"
)

// findStateMargins finds the margins that depend on neither the action nor the next state. It gives Margins NaNs for
// both: a finite result did not read them. A function that panics on NaN has no such margin.
func (p *Problem) findStateMargins(starts [][]float64) {
	y := &p.system
	n := len(y.Margins)
	if n == 0 {
		return
	}
	p.stateOnly = slices.Repeat([]bool{true}, n)
	unknown := slices.Repeat([]float64{math.NaN()}, max(len(y.State), len(y.Action)))
	for _, x := range starts {
		s, c, u := split(p, x)
		m := unwritten(n)
		if recovered(func() { y.Real.Margins(s, c, unknown[:len(u)], unknown[:len(s)], m) }) != nil {
			clear(p.stateOnly)
			return
		}
		for i, v := range m {
			p.stateOnly[i] = p.stateOnly[i] && isFinite(v)
		}
	}
}

// MarginsOfState is domain.ProblemAbilities.MarginsOfState, without the margins along the escape.
func (p *Problem) MarginsOfState(s, c, m []float64) {
	if slices.Contains(p.stateOnly, true) {
		p.marginsInPlace(p.system.Rest, s, c, m)
	}
	for i := range m {
		if i >= len(p.stateOnly) || !p.stateOnly[i] {
			m[i] = math.Inf(1)
		}
	}
}

// MarginsInPlace writes the limits that a state violates before any action: margins with the present state as the next one. It
// writes +Inf for those along the escape, and for those that another action changes.
func (p *Problem) MarginsInPlace(s, c, m []float64) {
	p.marginsInPlace(p.system.Rest, s, c, m)
	other, u := make([]float64, len(m)), slices.Clone(p.system.Rest)
	for i, a := range p.spec.Action {
		u[i] += a.Scale() / float64(8+i)
	}
	p.marginsInPlace(u, s, c, other)
	for i := range m {
		if other[i] != m[i] {
			m[i] = math.Inf(1)
		}
	}
}

func (p *Problem) marginsInPlace(u, s, c, m []float64) {
	if n := len(p.system.Margins); n > 0 {
		p.system.Real.Margins(s, c, u, s, m[:n])
	}
	for i := len(p.system.Margins); i < len(m); i++ {
		m[i] = math.Inf(1)
	}
}
