package mixedinteger

import (
	"math"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

// rules are what all switches of a problem allow, in whole numbers.
type rules struct {
	switches []domain.Switch
	first    []int  // of each switch: its first chance among those of a step
	chances  int    // of a step
	ages     []int  // of each switch: its first age in a state of rules, after the places
	free     []bool // of each switch: it may change in any period
	allFree  bool
	most     []int // of each switch: the largest age that is counted
	size     int   // of such a state
	// combinations of the places of all switches
	combinations int
}

func newRules(switches []domain.Switch) *rules {
	r := &rules{switches: switches, size: len(switches), combinations: 1}
	for i := range switches {
		r.first = append(r.first, r.chances)
		r.chances += len(switches[i].Values)
		r.combinations = min(r.combinations*len(switches[i].Values), MaxCandidates)
		r.ages = append(r.ages, r.size)
		r.size += switches[i].Changes()
		r.free = append(r.free, slices.Max(switches[i].Least) == 1 && switches[i].Most == 0)
		r.allFree = !slices.Contains(r.free, false)
		r.most = append(r.most, switches[i].Saturation())
	}
	return r
}

// read writes the state of the rules in a context: the place of each value, then ages.
func (r *rules) read(c []float64, state []int) {
	for i := range r.switches {
		w := &r.switches[i]
		state[i] = w.Nearest(c[w.Last])
		for k := range w.Changes() {
			state[r.ages[i]+k] = int(math.Round(math.Max(0, math.Min(c[w.Ages+k], float64(w.Saturation())))))
		}
	}
}

// mayChange reports whether switch i may change.
func (r *rules) mayChange(i int, state []int) bool {
	if r.free[i] {
		return true
	}
	w := &r.switches[i]
	ages := state[r.ages[i]:]
	return ages[0] >= w.Least[state[i]] && (w.Most == 0 || ages[w.Most-1] >= w.Window)
}

// take moves the state of switch i one period on.
func (r *rules) take(i int, place int, state []int) {
	if r.free[i] {
		state[i] = place
		return
	}
	ages := state[r.ages[i]:][:r.switches[i].Changes()]
	if place != state[i] {
		for k := len(ages) - 1; k > 0; k-- {
			ages[k] = ages[k-1]
		}
		ages[0], state[i] = 0, place
	}
	for k := range ages {
		ages[k] = min(r.most[i], ages[k]+1)
	}
}

// repair makes the places of a plan, [steps·switches], ones that the rules allow: a change that may not be yet waits.
func (r *rules) repair(start []int, plan []uint8, state []int) {
	if r.allFree {
		return
	}
	n := len(r.switches)
	copy(state, start)
	for first := 0; first < len(plan); first += n {
		for i := range n {
			if int(plan[first+i]) != state[i] && !r.mayChange(i, state) {
				plan[first+i] = uint8(state[i])
			}
			r.take(i, int(plan[first+i]), state)
		}
	}
}
