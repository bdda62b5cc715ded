package secure

import (
	"cmp"
	"maps"
	"slices"
)

// addSwitchLimits adds the limits that keep units in their switching modes.
func (t *state) addSwitchLimits() {
	s, n, c := t.sys, t.sys.net, t.switching
	if c == nil {
		return
	}
	mode := func(l limit, mode int8, lo, hi float64) {
		add := func(sign, bound float64) {
			if finite(bound) {
				l.sign, l.bound = sign, bound
				t.limits = append(t.limits, l)
				t.switchLimits++
			}
		}
		switch {
		case mode < 0:
			add(1, lo)
		case mode > 0:
			add(-1, hi)
		default:
			add(-1, lo)
			add(1, hi)
		}
	}
	for i := range s.genBuses {
		if lo, hi := t.reactiveLimits(i); hi-lo > fixedWidth { // without a range both modes are the same
			mode(limit{kind: variableLimit, element: t.reactive[i], weight: 1}, c.reactive[i], lo, hi)
		}
		for _, g := range s.units[i] {
			if t.shares(g) {
				mode(limit{kind: shareLimit, element: g, weight: 1}, c.active[g], n.PMin[g], n.PMax[g])
			}
		}
	}
}

// switching says at which limit the units are after an outage: −1 at the lower one, +1 at the upper one, 0 between.
// For reactive power this is PV/PQ switching; active power has its counterpart.
type switching struct {
	active   []int8 // by unit
	reactive []int8 // by index in genBuses
	// switches counts how often a unit switched because it violated its mode.
	switches map[limitKey]int
	// fruitless is the reduced cost of switches after which the cost did not fall.
	fruitless map[limitKey]float64
}

func (c *switching) clone() *switching {
	return &switching{slices.Clone(c.active), slices.Clone(c.reactive), maps.Clone(c.switches), maps.Clone(c.fruitless)}
}

// limitKey names the unit or bus that a switching limit belongs to.
type limitKey struct {
	kind    limitKind
	element int
}

func (l *limit) key() limitKey { return limitKey{l.kind, l.element} }

func modeOf(x, lo, hi float64) int8 {
	switch {
	case x >= hi:
		return 1
	case x <= lo:
		return -1
	}
	return 0
}

// modes reads the switching modes off an iterate.
func (t *state) modes() *switching {
	s, n := t.sys, t.sys.net
	c := &switching{make([]int8, n.Gens()), make([]int8, len(s.genBuses)), map[limitKey]int{}, map[limitKey]float64{}}
	for i := range s.genBuses {
		if lo, hi := t.reactiveLimits(i); lo <= hi {
			c.reactive[i] = modeOf(t.x[t.reactive[i]], lo, hi)
		}
	}
	for g, k := range s.setP {
		if t.shares(g) {
			c.active[g] = modeOf(t.x[t.setPoints[k]]+s.share[g]*t.x[t.delta], n.PMin[g], n.PMax[g])
		}
	}
	return c
}

// clipInMode is clip in a fixed switching mode. Without modes it is the smoothed clip.
func clipInMode(c *switching, mode func() int8, x, lo, hi, width float64) (value, first, second float64) {
	if c == nil {
		return clip(x, lo, hi, width)
	}
	switch s := mode(); {
	case s < 0:
		return lo, 0, 0
	case s > 0:
		return hi, 0, 0
	}
	return x, 1, 0
}

// setSwitching changes the switching modes and keeps slacks and multipliers of the other limits.
func (t *state) setSwitching(c *switching) {
	if t.switching == nil && c == nil {
		return
	}
	*t = *t.withSwitching(c)
}

// switchViolated switches the units that violate their modes and counts them.
func (t *state) switchViolated() (count int) {
	c := t.switching.clone()
	for i := len(t.limits) - t.switchLimits; i < len(t.limits); i++ {
		if !t.binding(i) || t.elasticSlack[i] <= minElasticSlack {
			continue
		}
		if place := t.limits[i].key(); c.switches[place] < maxSwitches {
			c.switches[place]++
			t.switchMode(c, i)
			count++
		}
	}
	if count > 0 {
		t.setSwitching(c)
	}
	return count
}

// reducedCosts lists the modes whose switching would reduce the cost, with the rate of that. Rates up to threshold
// are left out. A switch that was fruitless before has to promise more than then.
func (t *state) reducedCosts(threshold float64) map[limitKey]float64 {
	costs := map[limitKey]float64{}
	for i := len(t.limits) - t.switchLimits; i < len(t.limits); i++ {
		if !t.binding(i) {
			continue
		}
		place, gain := t.limits[i].key(), -t.multiplierAcross(i)
		if gain > max(threshold, fruitlessGrowth*t.switching.fruitless[place]) {
			costs[place] = gain
		}
	}
	return costs
}

// switchModes switches the units at these limits to their other modes.
func (t *state) switchModes(limits map[limitKey]float64) {
	if len(limits) == 0 {
		return
	}
	c := t.switching.clone()
	for i := len(t.limits) - t.switchLimits; i < len(t.limits); i++ {
		if _, ok := limits[t.limits[i].key()]; ok && t.binding(i) {
			t.switchMode(c, i)
		}
	}
	t.setSwitching(c)
}

// modeAt is the mode that a limit keeps its unit in.
func (t *state) modeAt(i int) int8 {
	l := &t.limits[i]
	if l.kind == shareLimit {
		return t.switching.active[l.element]
	}
	return t.switching.reactive[slices.Index(t.reactive, l.element)]
}

// binding says whether a switching limit binds with a multiplier that counts.
func (t *state) binding(i int) bool { return t.z[i] > t.s[i] && t.z[i] >= minMultiplier }

// switchMode moves the unit of limit i to the adjacent mode.
func (t *state) switchMode(c *switching, i int) {
	l := &t.limits[i]
	var mode *int8
	if l.kind == shareLimit {
		mode = &c.active[l.element]
	} else {
		mode = &c.reactive[slices.Index(t.reactive, l.element)]
	}
	if *mode == 0 {
		*mode = int8(l.sign)
	} else {
		*mode = 0
	}
}

// multiplierAcross is the multiplier that limit i would have in the adjacent mode, for a unit at the limit. Both
// modes meet there, and all other multipliers agree. A negative value means that the cost falls in the adjacent
// mode. Where neither mode's is negative, the point is optimal for both.
func (t *state) multiplierAcross(i int) float64 {
	l := &t.limits[i]
	if l.kind == shareLimit {
		upper := cmp.Or(float64(t.switching.active[l.element]), l.sign)
		return upper*t.x[t.bus[t.sys.net.GenBus[l.element]]+activeDualOffset] - t.z[i]
	}
	place := slices.Index(t.reactive, l.element)
	if mode := t.switching.reactive[place]; mode != 0 {
		return float64(mode) * t.x[t.bus[t.sys.genBuses[place]]+reactiveDualOffset]
	}
	return l.sign * t.x[t.drop[place]] / dropUnit
}

const (
	// minMultiplier is the smallest scaled multiplier that counts as a price.
	minMultiplier   = 1e-5
	minReducedCost  = 1e-3
	fruitlessGrowth = 2
)
