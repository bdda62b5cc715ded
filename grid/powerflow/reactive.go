package powerflow

import (
	"math"

	"github.com/gpc-engine/gpc/grid/network"
)

const (
	// A limit counts as broken beyond this, pu: well above what a solve to 1e-9
	// leaves, well below what any rating is known to.
	reactiveSlack = 1e-7
	// A bus comes back to PV at most this often in one solve; then it stays at its
	// limit. Without a bound two buses close together can switch for ever.
	maxReleases = 3
)

// enforce switches buses between PV and PQ after a converged power flow and
// says whether any was. A bus held at a limit is released when its voltage has
// passed the set-point, so that the limit no longer binds.
func (s *Solver) enforce(out *Solution) bool {
	changed := false
	for _, b := range s.unknown {
		switch {
		case s.dead != nil && s.dead[b]:
			continue
		case s.kind[b] == network.PV:
			q := s.q[b] - s.qs[b] // qs is minus the load
			switch {
			case q > s.qhi[b]+reactiveSlack:
				s.hold(int(b), +1, s.qhi[b])
			case q < s.qlo[b]-reactiveSlack:
				s.hold(int(b), -1, s.qlo[b])
			default:
				continue
			}
		case s.held[b] != 0 && float64(s.held[b])*(s.vm[b]-s.vset[b]) > reactiveSlack && s.released[b] < maxReleases:
			limit := s.qhi[b]
			if s.held[b] < 0 {
				limit = s.qlo[b]
			}
			s.qs[b] -= limit
			s.held[b] = 0
			s.released[b]++
			s.kind[b] = network.PV
			s.vm[b] = s.vset[b]
		default:
			continue
		}
		changed = true
		out.Switches++
	}
	return changed
}

func (s *Solver) hold(bus int, side int8, limit float64) {
	s.kind[bus] = network.PQ
	s.held[bus] = side
	s.qs[bus] += limit
}

// Share writes what every generator gives, pg and qg, where the buses inject p and q,
// pu: at a reference the first takes what the others leave of P, and Q is shared in
// proportion to the generators' reactive ranges, or as equally as their limits allow where one
// has no finite range. A generator leaves its limits only where the bus's sum leaves the sum of
// them. It reads nothing of a solve.
func (s *Solver) Share(in Input, p, q, pg, qg []float64) {
	n := s.net
	pd, qd := pick(in.Pd, n.Pd), pick(in.Qd, n.Qd)
	copy(pg, pick(in.Pg, n.Pg0))
	for b, gens := range s.gensAt {
		if len(gens) == 0 {
			continue
		}
		if n.Kind[b] == network.Slack {
			rest := p[b] + pd[b]
			for _, g := range gens[1:] {
				rest -= pg[g]
			}
			pg[gens[0]] = rest
		}
		if s.lost >= 0 && b == n.GenBus[s.lost] {
			qg[s.lost] = 0
		}
		if n.Kind[b] == network.PQ {
			for _, g := range gens {
				qg[g] = n.Qg0[g]
			}
			continue
		}
		total := q[b] + qd[b]
		span := s.qhi[b] - s.qlo[b]
		if !(span > 0) || math.IsInf(span, 1) {
			s.shareEqually(gens, total, s.qlo[b], s.qhi[b], qg)
			continue
		}
		share := (total - s.qlo[b]) / span
		for _, g := range gens {
			qg[g] = n.QMin[g] + share*(n.QMax[g]-n.QMin[g])
		}
	}
}

// shareEqually writes shares of a total of which each is the same level, or its generator's
// limit where the level lies beyond that. lo and hi are the sums of the limits; a total beyond
// them leaves every generator beyond its limit by the same.
func (s *Solver) shareEqually(gens []int32, total, lo, hi float64, qg []float64) {
	n := s.net
	if len(gens) == 1 {
		qg[gens[0]] = total
		return
	}
	within := max(lo, min(total, hi))
	beyond := (total - within) / float64(len(gens))
	// A round finds the level of the generators that are free, and fixes at their limits those that
	// lie beyond on one side: the lower one where the limits take the sum up, else the upper one.
	rest, free := within, len(gens)
	for _, g := range gens {
		qg[g] = math.NaN()
	}
	for free > 0 {
		level, over := rest/float64(free), 0.0
		for _, g := range gens {
			if math.IsNaN(qg[g]) {
				over += min(max(level, n.QMin[g]), n.QMax[g]) - level
			}
		}
		fixed := false
		for _, g := range gens {
			if !math.IsNaN(qg[g]) {
				continue
			}
			switch {
			case over >= 0 && level < n.QMin[g]:
				qg[g] = n.QMin[g]
			case over <= 0 && level > n.QMax[g]:
				qg[g] = n.QMax[g]
			default:
				continue
			}
			rest -= qg[g]
			free--
			fixed = true
		}
		if !fixed {
			for _, g := range gens {
				if math.IsNaN(qg[g]) {
					qg[g] = level
				}
			}
			break
		}
	}
	if beyond != 0 {
		for _, g := range gens {
			qg[g] += beyond
		}
	}
}
