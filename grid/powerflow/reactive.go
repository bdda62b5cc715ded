package powerflow

import (
	"math"

	"github.com/gpc-engine/gpc/grid/network"
)

const (
	// reactiveSlack (pu) beyond a limit counts as an excess: well above the error of a solve to 1e-9, well below the
	// accuracy of any rating.
	reactiveSlack = 1e-7
	// voltageSlack is the same for a voltage, pu of one for a pu of the other: the reactive power of a bus moves many
	// times as much as its voltage.
	voltageSlack = 1e-1
	// A bus returns to PV at most maxReleases times in one solve; then it stays at its limit. Two close buses could
	// switch for ever.
	maxReleases = 3
)

// enforce switches buses between PV and PQ that are beyond a limit by more than the margin, and reports whether any did. A bus
// at a limit returns to PV when its voltage has passed the set-point, so that the limit no longer binds.
func (s *Solver) enforce(out *Solution, margin float64) bool {
	changed := false
	for _, k := range s.generators {
		b := s.unknown[k]
		switch {
		case s.dead != nil && s.dead[b]:
			continue
		case s.kind[b] == network.PV:
			q := s.q[b] - s.qs[b] // qs is minus the load
			switch {
			case q > s.qhi[b]+margin:
				s.toPQ(int(b), +1, s.qhi[b])
			case q < s.qlo[b]-margin:
				s.toPQ(int(b), -1, s.qlo[b])
			default:
				continue
			}
		case s.atLimit[b] != 0 && float64(s.atLimit[b])*(s.vm[b]-s.vset[b]) > voltageSlack*margin && s.released[b] < maxReleases:
			limit := s.qhi[b]
			if s.atLimit[b] < 0 {
				limit = s.qlo[b]
			}
			s.qs[b] -= limit
			s.atLimit[b] = 0
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

func (s *Solver) toPQ(bus int, side int8, limit float64) {
	s.kind[bus] = network.PQ
	s.atLimit[bus] = side
	s.qs[bus] += limit
}

// Share writes every generator's pg and qg for buses that inject p and q, pu. At a reference the first generator
// takes the rest of P. Q is shared in proportion to the generators' reactive ranges, or as equally as their limits
// allow where one has no finite range. Generators exceed their limits only where the bus exceeds the sum of them. It
// reads nothing of a solve.
func (s *Solver) Share(input Input, p, q, pg, qg []float64) {
	n := s.net
	pd, qd := pick(input.Pd, n.Pd), pick(input.Qd, n.Qd)
	copy(pg, pick(input.Pg, n.Pg0))
	for b, gens := range s.gensAt {
		if len(gens) == 0 {
			continue
		}
		if n.Kind[b] == network.Slack {
			remaining := p[b] + pd[b]
			for _, g := range gens[1:] {
				remaining -= pg[g]
			}
			pg[gens[0]] = remaining
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

// shareEqually shares a total: every generator has the same level, or its limit where the level is beyond that. lo
// and hi are the sums of the limits. A total beyond them puts every generator beyond its limit by the same amount.
func (s *Solver) shareEqually(gens []int32, total, lo, hi float64, qg []float64) {
	n := s.net
	if len(gens) == 1 {
		qg[gens[0]] = total
		return
	}
	feasible := max(lo, min(total, hi))
	excess := (total - feasible) / float64(len(gens))
	// A round computes the level of the free generators. It fixes those beyond their limits on one side: the lower
	// one where the limits raise the sum, else the upper one.
	remaining, free := feasible, len(gens)
	for _, g := range gens {
		qg[g] = math.NaN()
	}
	for free > 0 {
		level, surplus := remaining/float64(free), 0.0
		for _, g := range gens {
			if math.IsNaN(qg[g]) {
				surplus += min(max(level, n.QMin[g]), n.QMax[g]) - level
			}
		}
		fixed := false
		for _, g := range gens {
			if !math.IsNaN(qg[g]) {
				continue
			}
			switch {
			case surplus >= 0 && level < n.QMin[g]:
				qg[g] = n.QMin[g]
			case surplus <= 0 && level > n.QMax[g]:
				qg[g] = n.QMax[g]
			default:
				continue
			}
			remaining -= qg[g]
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
	if excess != 0 {
		for _, g := range gens {
			qg[g] += excess
		}
	}
}
