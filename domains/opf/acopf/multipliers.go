package acopf

// LimitMultipliers are the multipliers of an optimum's limits by what is limited: how
// much the objective would fall for each unit that the limit gave way, per pu and rad.
// All are nonnegative; 0 where there is no such limit.
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
	at := p.rows()
	z := func(part [2]int) []float64 { return r.Multipliers[part[0]:part[1]] }
	spread := func(n int, index []int, values []float64) []float64 {
		out := make([]float64, n)
		for k, i := range index {
			out[i] = values[k]
		}
		return out
	}
	lo, hi := spread(2*p.ng, p.bounded[0], z(at.uLo)), spread(2*p.ng, p.bounded[1], z(at.uHi))
	m := LimitMultipliers{
		VMin: spread(p.nb, all(p.nb), z(at.vLo)), VMax: spread(p.nb, all(p.nb), z(at.vHi)),
		PMin: lo[:p.ng], PMax: hi[:p.ng], QMin: lo[p.ng:], QMax: hi[p.ng:],
		SFrom: spread(p.nl, p.rated, z(at.sf)), STo: spread(p.nl, p.rated, z(at.st)),
		AngMin: spread(p.nl, p.angleLo, z(at.aLo)), AngMax: spread(p.nl, p.angleHi, z(at.aHi)),
	}
	for _, l := range p.rated {
		twice := 2 * (s.net.Rate[l] - pr.Tighten.S)
		for _, by := range []struct {
			mu  []float64
			bus int
		}{{m.SFrom, s.net.From[l]}, {m.STo, s.net.To[l]}} {
			by.mu[l] *= twice
			if s.opt.CurrentLimits {
				by.mu[l] *= r.Vm[by.bus] * r.Vm[by.bus]
			}
		}
	}
	return m
}
