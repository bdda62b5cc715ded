package acopf

import "slices"

// LimitMultipliers are the multipliers of an optimum's limits: the decrease of the objective for each unit by which
// the limit widens, per pu and rad. All are nonnegative; 0 where there is no such limit. Where a lower and an upper
// limit of the network are equal, one of the two has the difference and the other is 0.
type LimitMultipliers struct {
	VMin, VMax             []float64 // buses
	PMin, PMax, QMin, QMax []float64 // generators
	// SFrom and STo are those of |S| or, with Options.CurrentLimits, of |I|.
	SFrom, STo     []float64 // branches
	AngMin, AngMax []float64 // branches, of θ_from − θ_to
}

// LimitMultipliers are those of an optimal result of this solver, whose slices are not
// kept. Multipliers of |S| follow from those of |S|² at the limit of the problem's
// tightening.
func (s *Solver) LimitMultipliers(pr *Problem, r *Result) LimitMultipliers {
	p := s.plan
	rows := p.rows()
	z := func(part [2]int) []float64 { return r.Multipliers[part[0]:part[1]] }
	spread := func(n int, index []int, values []float64) []float64 {
		out := make([]float64, n)
		for k, i := range index {
			out[i] = values[k]
		}
		return out
	}
	lo, hi := spread(2*p.ng, p.bounded[0], z(rows.uLo)), spread(2*p.ng, p.bounded[1], z(rows.uHi))
	m := LimitMultipliers{
		VMin: slices.Clone(z(rows.vLo)[:p.inner]), VMax: slices.Clone(z(rows.vHi)[:p.inner]),
		PMin: lo[:p.ng], PMax: hi[:p.ng], QMin: lo[p.ng:], QMax: hi[p.ng:],
		SFrom: spread(p.nl, p.rated, z(rows.sf)), STo: spread(p.nl, p.rated, z(rows.st)),
		AngMin: spread(len(p.net.From), p.angleLo, z(rows.aLo))[:p.nl], AngMax: spread(len(p.net.From), p.angleHi, z(rows.aHi))[:p.nl],
	}
	for _, l := range p.rated {
		twice := 2 * (s.net.Rate[l] - pr.Tightening.S)
		for _, end := range []struct {
			mu  []float64
			bus int
		}{{m.SFrom, s.net.From[l]}, {m.STo, s.net.To[l]}} {
			end.mu[l] *= twice
			if s.opt.CurrentLimits {
				end.mu[l] *= r.Vm[end.bus] * r.Vm[end.bus]
			}
		}
	}
	fold(m.VMin, m.VMax, s.net.VMin, s.net.VMax)
	fold(m.PMin, m.PMax, s.net.PMin, s.net.PMax)
	fold(m.QMin, m.QMax, s.net.QMin, s.net.QMax)
	return m
}

// oneValue is the distance (pu) below which a lower and an upper limit are equal to a solver.
const oneValue = 1e-8

// fold replaces the multipliers of equal lower and upper limits by their difference.
func fold(lower, upper, lo, hi []float64) {
	for i := range lower {
		if hi[i]-lo[i] <= oneValue {
			d := upper[i] - lower[i]
			lower[i], upper[i] = max(-d, 0), max(d, 0)
		}
	}
}
