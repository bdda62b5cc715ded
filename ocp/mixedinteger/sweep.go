package mixedinteger

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

const (
	// SweptPlans are offered by a sweep.
	SweptPlans = 16
	// Cells in the range of a state: at first, and what they are multiplied by where there are too many or too few.
	firstCells, coarser, finer = 16, 0.7, 1.3
	mostCells                  = 4096
	leastSwept                 = 512
	counterTrials              = 16 // states and contexts at which Counters tries
	// Sweeps of a decision, the first over all states. The others are about the best plan, in the part Tube of the range before.
	SweepsOfADecision = 2
	Tube              = 0.3
)

// Swept is the number of decisions of each period that a Controller's sweep evaluates, in place of as many of its candidates. It is half of
// them, or 0 where they are few: few cells miss what candidates find.
func Swept(candidates int) int {
	if candidates < leastSwept {
		return 0
	}
	return candidates / 2
}

// sweep is dynamic programming forward in time. A cell holds neighbouring states with the same state of the rules. Of the states of each
// cell that a period ends in, the cheapest is kept.
type sweep struct {
	nodes     [][]node    // kept after each period
	actions   [][]float64 // without a switch that led to each of them, [states·continuous]
	children  []node
	survivors []branch
	table     []int32 // of cells, by hash: the row of the cheapest state, from 1
	keys      []uint64
	rules     []int     // state of the rules of each kept state
	after     []int     // the same of each row, after the period
	ruleKeys  []uint64  // of each row of after
	entries   []int32   // of the table that are full
	low, size []float64 // where the states of a period begin and how far they reach, 0: the state does not count
	reach     []float64 // size of each period, [steps][states]
	path      []float64 // states along the best plan, [steps+1][states]; empty: the sweep is over all states
	cells     float64   // in the range of a state
}

// node is a state that was kept: the one before, and the places of the switches that led to it, as a number.
type node struct{ parent, places int32 }

// choices of the actions without a switch in a sweep: those of all candidates. Where these follow a plan, also each action at both ends of
// its box.
func (s *Search) choices() int {
	if s.rollout.feedback == nil {
		return 1
	}
	return 1 + 2*len(s.continuous)
}

// choose writes choice k of them, unless it is one that another is.
func (s *Search) choose(k, h int, x, u []float64) bool {
	f := s.rollout.feedback
	if f == nil {
		for j, a := range s.continuous {
			u[a] = s.mean[h*len(s.continuous)+j]
		}
		return true
	}
	if f.follow(s.spec, s.continuous, h, x, u); k == 0 {
		return true
	}
	a := s.continuous[(k-1)/2]
	b := &s.spec.Action[a]
	if !b.Bounded() {
		return false
	}
	v := b.Lo
	if k%2 == 0 {
		v = b.Hi
	}
	if u[a] == v {
		return false
	}
	u[a] = v
	return true
}

// Sweep offers the best plans of sweeps that evaluate at most n decisions in a period, all together. Where no plan is followed, actions
// without a switch are at their mean, in sweeps about the best plan at those of it. What is known is rolled out before each: where costs only grow, a state that
// was dearer to reach than a whole plan of these leads to nothing better.
func (s *Search) Sweep(n int) {
	width := n / SweepsOfADecision / (s.rules.combinations * s.choices())
	if width < 2 {
		return
	}
	r, w := s.rollout, &s.sweep
	w.reach = resize(w.reach, s.steps*r.ns)
	clear(w.reach) // also of the periods that no sweep comes to
	real := r.real
	for i := range SweepsOfADecision {
		s.FollowBest()
		s.round(min(roundSize(n), max(leastRound, len(s.offered))))
		best := s.Best()
		if r.bound = worst; best != nil {
			r.bound = *best
		}
		if w.path = w.path[:0]; i > 0 && best != nil {
			s.centre(best)
		}
		r.real = real && r.feedback != nil
		s.sweepOnce(width)
		r.real, r.extreme = real, r.extreme[:0]
	}
}

// centre makes the states along a plan the middle of the next sweep.
func (s *Search) centre(p *Plan) {
	r, w := s.rollout, &s.sweep
	c, nextC, u := slices.Clone(s.c), slices.Clone(s.c), make([]float64, r.nu)
	w.path = resize(w.path, (s.steps+1)*r.ns)
	copy(w.path, s.s)
	for h := range s.steps {
		p.act(s.spec, h, true, u)
		for j, a := range s.continuous {
			s.mean[h*len(s.continuous)+j] = u[a]
		}
		s.problem.Step(w.path[h*r.ns:(h+1)*r.ns], c, u, w.path[(h+1)*r.ns:], nextC)
		c, nextC = nextC, c
	}
}

// sweepOnce offers the best plans of one sweep that keeps at most width states.
func (s *Search) sweepOnce(width int) {
	r, w := s.rollout, &s.sweep
	r.begin(s.pref)
	w.nodes, w.actions, w.cells = slices.Grow(w.nodes[:0], s.steps)[:s.steps], slices.Grow(w.actions[:0], s.steps)[:s.steps], firstCells
	r.branches = append(r.branches[:0], branch{})
	r.grow(width * s.rules.combinations * s.choices())
	w.rules = append(w.rules[:0], s.start...)
	copy(r.x, s.s)
	copy(r.x[r.ns:], s.c)
	for h := range s.steps {
		s.branchOut(h)
		for first := 0; first < len(r.children); first += groupSize {
			r.evaluate(first, min(len(r.children), first+groupSize), h)
		}
		if s.cancelled() || !s.keepCheapest(h, width) {
			return
		}
	}
	s.offerSwept()
}

// branchOut makes the rows of the decisions that may follow the kept states in period h.
func (s *Search) branchOut(h int) {
	r, w := s.rollout, &s.sweep
	size, choices := s.rules.size, s.choices()
	r.children, r.extreme = r.children[:0], r.extreme[:0]
	w.children, w.after = w.children[:0], w.after[:0]
	for b := range r.branches {
		x := r.x[b*r.nx : (b+1)*r.nx]
		for k := range s.rules.combinations {
			for choice := range choices {
				row := len(r.children)
				w.after = append(w.after[:row*size], w.rules[b*size:(b+1)*size]...)
				u := r.u[row*r.nu : (row+1)*r.nu]
				if !s.combine(k, w.after[row*size:], u) {
					break
				}
				if !s.choose(choice, h, x[:r.ns], u) {
					continue
				}
				copy(r.next[row*r.nx:(row+1)*r.nx], x)
				r.children = append(r.children, branch{cost: r.branches[b].cost, violation: r.branches[b].violation})
				if r.feedback != nil {
					r.extreme = append(r.extreme, choice > 0)
				}
				w.children = append(w.children, node{int32(b), int32(k)})
			}
		}
	}
	r.x, r.next = r.next, r.x
}

// combine writes the values of combination k of the places, moves the state of the rules one period on, and reports whether they allow it.
func (s *Search) combine(k int, state []int, u []float64) bool {
	for i := range s.spec.Switches {
		w := &s.spec.Switches[i]
		place := k % len(w.Values)
		k /= len(w.Values)
		if place != state[i] && !s.rules.mayChange(i, state) {
			return false
		}
		s.rules.take(i, place, state)
		u[w.Action] = w.Values[place]
	}
	return true
}

// keepCheapest keeps the cheapest state of each cell after period h, at most width of them, the cheapest. After the last period they are in the order of costs. It reports whether there is any.
func (s *Search) keepCheapest(h, width int) bool {
	r, w := s.rollout, &s.sweep
	s.measureStates(h)
	size := s.rules.size
	w.ruleKeys = w.ruleKeys[:0]
	for row := range r.children {
		key := uint64(0)
		for i, v := range w.after[row*size : (row+1)*size] {
			if i >= len(s.spec.Switches) || !s.rules.free[i] { // what a change of a free one costs is little
				key = mix(key, uint64(v)+1)
			}
		}
		w.ruleKeys = append(w.ruleKeys, key)
	}
	for s.fillCells(); len(w.entries) > width && w.cells > 1; s.fillCells() {
		w.cells *= coarser
	}
	if len(w.entries) < width*3/4 {
		w.cells = math.Min(mostCells, w.cells*finer)
	}
	w.survivors = w.survivors[:0]
	for _, entry := range w.entries {
		row := w.table[entry] - 1
		b := r.children[row]
		b.from = row
		w.survivors = append(w.survivors, b)
	}
	if len(w.survivors) > width || h == s.steps-1 {
		slices.SortFunc(w.survivors, func(a, b branch) int {
			switch {
			case r.cheaper(&a, &b):
				return -1
			case r.cheaper(&b, &a):
				return 1
			}
			return int(a.from - b.from)
		})
		w.survivors = w.survivors[:min(width, len(w.survivors))]
	}
	r.branches = append(r.branches[:0], w.survivors...)
	w.nodes[h], w.actions[h], w.rules = w.nodes[h][:0], w.actions[h][:0], w.rules[:0]
	for i, b := range w.survivors {
		w.rules = append(w.rules, w.after[int(b.from)*size:][:size]...)
		copy(r.x[i*r.nx:(i+1)*r.nx], r.next[int(b.from)*r.nx:][:r.nx])
		w.nodes[h] = append(w.nodes[h], w.children[b.from])
		for _, a := range s.continuous {
			w.actions[h] = append(w.actions[h], r.u[int(b.from)*r.nu+a])
		}
	}
	return len(w.survivors) > 0
}

// measureStates finds where the states after period h begin, and how far they reach. About the best plan this is a part of what it was in the
// sweep before, if that came so far.
func (s *Search) measureStates(h int) {
	r, w := s.rollout, &s.sweep
	w.low, w.size = resize(w.low, r.ns), resize(w.size, r.ns)
	for i := range r.ns {
		reach := &w.reach[h*r.ns+i]
		if len(w.path) > 0 && *reach > 0 {
			*reach *= Tube
			w.low[i], w.size[i] = w.path[(h+1)*r.ns+i]-*reach/2, *reach
			continue
		}
		w.low[i], w.size[i] = math.Inf(1), 0
		high := math.Inf(-1)
		for row := 0; row < len(r.children) && !(i < len(s.opt.Counters) && s.opt.Counters[i]); row++ {
			v := r.next[row*r.nx+i]
			w.low[i], high = min(w.low[i], v), max(high, v)
		}
		if size := high - w.low[i]; size > 0 && !math.IsInf(size, 1) {
			w.size[i] = size
		}
		*reach = w.size[i]
	}
}

// fillCells puts the rows into cells, but for those outside of a sweep about the best plan.
func (s *Search) fillCells() {
	r, w := s.rollout, &s.sweep
	size := 1
	for size < 4*len(r.children) {
		size *= 2
	}
	if len(w.table) < size {
		w.table, w.keys, w.entries = make([]int32, size), make([]uint64, size), w.entries[:0]
	}
	for _, entry := range w.entries {
		w.table[entry] = 0
	}
	w.entries = w.entries[:0]
	for row, b := range r.children {
		if math.IsInf(b.violation, 1) || math.IsNaN(b.cost+b.violation) || r.exceeds(&b) {
			continue
		}
		key, inside := w.cell(r.next[row*r.nx:(row+1)*r.nx], w.ruleKeys[row])
		if !inside {
			continue
		}
		entry := int(key>>32) & (len(w.table) - 1)
		for w.table[entry] != 0 && w.keys[entry] != key {
			entry = (entry + 1) & (len(w.table) - 1)
		}
		if w.table[entry] == 0 {
			w.entries = append(w.entries, int32(entry))
		} else if !r.cheaper(&b, &r.children[w.table[entry]-1]) {
			continue
		}
		w.table[entry], w.keys[entry] = int32(row+1), key
	}
}

// cell is the key of the cell of a state and context, of which key is that of the rules, and whether it is one of the sweep.
func (w *sweep) cell(x []float64, key uint64) (uint64, bool) {
	for i, size := range w.size {
		if size > 0 {
			place := (x[i] - w.low[i]) / size
			if !(place >= 0 && place <= 1) {
				return 0, false
			}
			key = mix(key, uint64(place*w.cells)+1)
		}
	}
	return key, true
}

// offerSwept offers the plans that lead to the cheapest states at the end.
func (s *Search) offerSwept() {
	w, ns, nu := &s.sweep, len(s.spec.Switches), s.spec.ActionSize()
	for last := range min(SweptPlans, len(w.survivors)) {
		p, row := s.blank(), int32(last)
		for h := s.steps - 1; h >= 0; h-- {
			n := w.nodes[h][row]
			k := int(n.places)
			for i := range s.spec.Switches {
				values := len(s.spec.Switches[i].Values)
				p.Places[h*ns+i] = uint8(k % values)
				k /= values
			}
			for j, a := range s.continuous {
				p.Actions[h*nu+a] = w.actions[h][int(row)*len(s.continuous)+j]
			}
			row = n.parent
		}
		s.offered = append(s.offered, p)
	}
}

// Counters are the states that only count: nothing but they themselves depends on them, and no more than by what they begin with. They are
// found at states and contexts of scenarios, at random actions.
func Counters(p domain.Problem, axes []domain.Variable, initial func(p, s, c []float64)) []bool {
	spec := p.Spec()
	rng := rand.New(rand.NewPCG(1, 0x636f756e74)) // "count"
	counters := slices.Repeat([]bool{true}, spec.MeasuredSize())
	scenario, u := make([]float64, len(axes)), make([]float64, spec.ActionSize())
	for range counterTrials {
		domain.DrawScenario(rng, axes, scenario)
		s, c := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
		initial(scenario, s, c)
		for i, v := range spec.Measured {
			if v.Bounded() {
				s[i] = v.Draw(rng)
			}
		}
		for i, v := range spec.Action {
			if u[i] = 0; v.Bounded() {
				u[i] = v.Draw(rng)
			}
		}
		for i := range spec.Switches {
			w := &spec.Switches[i]
			u[w.Action] = w.Values[rng.IntN(len(w.Values))]
		}
		before := outcome(p, s, c, u)
		for i := range counters {
			shift := 0.01 * (math.Abs(s[i]) + 1)
			s[i] += shift
			after := outcome(p, s, c, u)
			s[i] -= shift
			after[i] -= shift
			for k, v := range after {
				counters[i] = counters[i] && math.Abs(v-before[k]) <= 1e-9*(1+math.Abs(v))
			}
		}
	}
	return counters
}

// outcome is what follows from a decision: the next state and context, objectives and margins.
func outcome(p domain.Problem, s, c, u []float64) []float64 {
	spec := p.Spec()
	ns, nc, nj := len(s), len(c), spec.ObjectiveSize()
	all := make([]float64, ns+nc+nj+len(spec.Margins))
	p.Step(s, c, u, all[:ns], all[ns:ns+nc])
	p.Objectives(s, u, c, all[ns+nc:ns+nc+nj])
	p.Margins(s, c, u, all[ns+nc+nj:])
	return all
}
