package secure

import (
	"maps"
	"slices"
)

// setSides lists what keeps units on their side of their corners.
func (t *state) setSides() {
	s, n, c := t.sys, t.sys.net, t.corner
	if c == nil {
		return
	}
	side := func(l limit, side int8, lo, hi float64) {
		add := func(sign, bound float64) {
			if finite(bound) {
				l.sign, l.bound = sign, bound
				t.limits = append(t.limits, l)
				t.sides++
			}
		}
		switch {
		case side < 0:
			add(1, lo)
		case side > 0:
			add(-1, hi)
		default:
			add(-1, lo)
			add(1, hi)
		}
	}
	for i := range s.hold {
		if lo, hi := t.reactiveLimits(i); hi-lo > narrow { // without a range either side is the same
			side(limit{kind: ofVariable, at: t.reactive[i], weight: 1}, c.reactive[i], lo, hi)
		}
		for _, g := range s.units[i] {
			if s.setP[g] >= 0 && s.share[g] > 0 && g != t.outage.Unit {
				side(limit{kind: ofShare, at: g, weight: 1}, c.active[g], n.PMin[g], n.PMax[g])
			}
		}
	}
}

// corner says which side of their corners units are on after an outage: −1 at the lower limit, +1 at
// the upper one, 0 between.
type corner struct {
	active   []int8 // by unit
	reactive []int8 // by place in hold
	// crossed is how often a limit's unit has changed its side because it was not on it.
	crossed map[limitPlace]int
}

type limitPlace struct {
	kind limitKind
	at   int
}

func sideOf(x, lo, hi float64) int8 {
	switch {
	case x >= hi:
		return 1
	case x <= lo:
		return -1
	}
	return 0
}

// corners are the sides that an iterate is on.
func (t *state) corners() *corner {
	s, n := t.sys, t.sys.net
	c := &corner{make([]int8, n.Gens()), make([]int8, len(s.hold)), map[limitPlace]int{}}
	for i := range s.hold {
		if lo, hi := t.reactiveLimits(i); lo <= hi {
			c.reactive[i] = sideOf(t.x[t.reactive[i]], lo, hi)
		}
	}
	for g, k := range s.setP {
		if k >= 0 && s.share[g] > 0 && g != t.outage.Unit {
			c.active[g] = sideOf(t.x[t.set[k]]+s.share[g]*t.x[t.delta], n.PMin[g], n.PMax[g])
		}
	}
	return c
}

// given is clip on a unit's side of the corners, or the smooth one.
func given(c *corner, side func() int8, x, lo, hi, width float64) (value, first, second float64) {
	if c == nil {
		return clip(x, lo, hi, width)
	}
	switch s := side(); {
	case s < 0:
		return lo, 0, 0
	case s > 0:
		return hi, 0, 0
	}
	return x, 1, 0
}

// setCorner brings a state to other sides of its corners, with what is known about its other limits.
func (t *state) setCorner(c *corner) {
	if t.corner == nil && c == nil {
		return
	}
	*t = *t.with(c)
}

// flip changes the sides of units that are kept on theirs at a price, and says how many; with beyond
// only those of units that are not on theirs.
func (t *state) flip(beyond bool) (count int) {
	c := &corner{slices.Clone(t.corner.active), slices.Clone(t.corner.reactive), maps.Clone(t.corner.crossed)}
	place := map[int]int{}
	for i, y := range t.reactive {
		place[y] = i
	}
	for i := len(t.limits) - t.sides; i < len(t.limits); i++ {
		if t.z[i] <= t.s[i] || t.z[i] < leastMultiplier || beyond && t.give[i] <= leastGive {
			continue
		}
		l := &t.limits[i]
		if place := (limitPlace{l.kind, l.at}); beyond {
			if c.crossed[place] == crossings {
				continue
			}
			c.crossed[place]++
		}
		var side *int8
		if l.kind == ofShare {
			side = &c.active[l.at]
		} else {
			side = &c.reactive[place[l.at]]
		}
		if *side == 0 {
			*side = int8(l.sign)
		} else {
			*side = 0
		}
		count++
	}
	if count > 0 {
		t.setCorner(c)
	}
	return count
}

// leastMultiplier is what a multiplier has to be above to be a price, scaled.
const leastMultiplier = 1e-5
