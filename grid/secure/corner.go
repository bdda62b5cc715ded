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
	// vain is what a unit's change of side promised, as across has it, where the cost did not fall.
	vain map[limitPlace]float64
}

func (c *corner) clone() *corner {
	return &corner{slices.Clone(c.active), slices.Clone(c.reactive), maps.Clone(c.crossed), maps.Clone(c.vain)}
}

// limitPlace says whose corner a limit is about.
type limitPlace struct {
	kind limitKind
	at   int
}

func (l *limit) place() limitPlace { return limitPlace{l.kind, l.at} }

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
	c := &corner{make([]int8, n.Gens()), make([]int8, len(s.hold)), map[limitPlace]int{}, map[limitPlace]float64{}}
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

// flip changes the sides of units that are not on theirs, and says how many.
func (t *state) flip() (count int) {
	c := t.corner.clone()
	for i := len(t.limits) - t.sides; i < len(t.limits); i++ {
		if !t.kept(i) || t.give[i] <= leastGive {
			continue
		}
		if place := t.limits[i].place(); c.crossed[place] < crossings {
			c.crossed[place]++
			t.change(c, i)
			count++
		}
	}
	if count > 0 {
		t.setCorner(c)
	}
	return count
}

// promises says how much less the cost of units' other sides is by across, by place. What has come to nothing
// counts where it promises more, and less than least does not.
func (t *state) promises(least float64) map[limitPlace]float64 {
	promised := map[limitPlace]float64{}
	for i := len(t.limits) - t.sides; i < len(t.limits); i++ {
		if !t.kept(i) {
			continue
		}
		place, promise := t.limits[i].place(), -t.across(i)
		if promise > max(least, vainGrowth*t.corner.vain[place]) {
			promised[place] = promise
		}
	}
	return promised
}

// cross takes the units at these limits to their other sides.
func (t *state) cross(limits map[limitPlace]float64) {
	if len(limits) == 0 {
		return
	}
	c := t.corner.clone()
	for i := len(t.limits) - t.sides; i < len(t.limits); i++ {
		if _, ok := limits[t.limits[i].place()]; ok && t.kept(i) {
			t.change(c, i)
		}
	}
	t.setCorner(c)
}

// sideAt is the side that a limit keeps a unit on.
func (t *state) sideAt(i int) int8 {
	l := &t.limits[i]
	if l.kind == ofShare {
		return t.corner.active[l.at]
	}
	return t.corner.reactive[slices.Index(t.reactive, l.at)]
}

// kept says whether a limit keeps a unit on its side, at a price.
func (t *state) kept(i int) bool { return t.z[i] > t.s[i] && t.z[i] >= leastMultiplier }

// change takes the unit of a limit to the other side of that.
func (t *state) change(c *corner, i int) {
	l := &t.limits[i]
	var side *int8
	if l.kind == ofShare {
		side = &c.active[l.at]
	} else {
		side = &c.reactive[slices.Index(t.reactive, l.at)]
	}
	if *side == 0 {
		*side = int8(l.sign)
	} else {
		*side = 0
	}
}

// across is the multiplier that the limit of a side would have on the other side of its corner, where a unit is
// at the corner. Both sides meet there: with the unit held to the corner, all other multipliers are the same on
// either. Where it is negative, the cost falls on the other side; where neither side's is, the corner is an
// optimum of both.
func (t *state) across(i int) float64 {
	l := &t.limits[i]
	if l.kind == ofShare {
		upper := float64(t.corner.active[l.at])
		if upper == 0 {
			upper = l.sign
		}
		return upper*t.x[t.bus[t.sys.net.GenBus[l.at]]+ofActive] - t.z[i]
	}
	place := slices.Index(t.reactive, l.at)
	if side := t.corner.reactive[place]; side != 0 {
		return float64(side) * t.x[t.bus[t.sys.hold[place]]+ofReactive]
	}
	return l.sign * t.x[t.drop[place]] / dropUnit
}

const (
	// leastMultiplier is what a multiplier has to be above to be a price, scaled.
	leastMultiplier = 1e-5
	leastPromise    = 1e-3
	vainGrowth      = 2
)
