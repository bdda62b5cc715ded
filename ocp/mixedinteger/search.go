// Package mixedinteger finds plans whose actions are partly switched: on or off, one of a few gears, with least times
// and numbers of changes. The exact solver of such systems, their maps and their controllers use it.
//
// The central type is Search. A decision is Begin, then Offer and Guess of what is known, then Run. Run makes rounds of
// candidates, which keep the rules of the switches by construction, and rolls them out under the problem's equations. The
// cross-entropy method draws them about the chances of every value in every period. Others are changes of the best plans.
package mixedinteger

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
)

const (
	leastRound  = 32
	mostRound   = 512
	rounds      = 8    // of a run
	fewNew      = 4    // a run ends with a round that finds less than this part of the candidates that it wants
	eliteShare  = 16   // candidates of a round for one elite, at least leastElites
	leastElites = 16   //
	learn       = 0.6  // how far a round moves the chances towards those of the elites
	leastChance = 0.01 // of every value
	firstSpread = 0.25 // of other actions, in half boxes
	leastSpread = 0.003
	knots       = 8 // of their noise
	// distinct are the parts of half a box: other actions in the same part are one.
	distinct = 1 << 24
	// Shares of a round's candidates.
	drawnShare, roundedShare = 0.45, 0.1
	// MaxCandidates of one run, and those that a method's name may ask for.
	MaxCandidates = 1 << 20
)

// Options of a Search.
type Options struct {
	Seed uint64 // with the number of the decision, all that is random
	// Counters are the states that a sweep does not tell apart; nil: none.
	Counters []bool
}

// Plan is a candidate as it was rolled out.
type Plan struct {
	Places    []uint8   // of the switches' values, [steps·switches]
	Actions   []float64 // executed, [steps·action]
	Cost      float64   // Σ σᵀJ
	Violation float64   // Σ of the largest violation of each step; 0: every limit is kept
	key       uint64
	first     uint64 // its first places in a word, which orders plans as they do
}

// Safe reports whether the plan keeps every limit.
func (p *Plan) Safe() bool { return p.Violation == 0 && !math.IsNaN(p.Cost) }

// Search is used by one goroutine. After its largest decision it allocates little.
type Search struct {
	opt        Options
	problem    domain.Problem
	spec       *domain.Spec
	rollout    *rollout
	rules      *rules
	continuous []int // entries of the action without a switch
	half, mid  []float64
	ctx        context.Context // ends a search of the reference; nil: none

	// Of the decision.
	decisions   uint64
	rng         random
	s, c        []float64
	pref        domain.Preference
	steps       int
	start       []int     // state of the rules
	chances     []float64 // [steps·chances]
	mean        []float64 // of the other actions, [steps·continuous]
	spread      []float64 // [continuous]
	offered     []Plan
	followed    bool   // a plan that is followed waits to be rolled out
	elites      []Plan // best first
	spare       []Plan // of the decision's size
	keys        keySet
	neighbours  neighbourhood
	sweep       sweep
	batch       []Plan
	state       []int
	bits        uint // of a place in a word
	inWord      int  // places
	size        int  // of the places of the plans
	noise       []float64
	accumulated []float64
	Candidates  int // rolled out in the decision
	// Solve solves the actions without a switch for the switches of a plan of the decision, which the candidates then follow; nil: none.
	Solve func(*Plan) *Feedback
}

// NewSearch prepares searches of a problem with switches.
func NewSearch(p domain.Problem, opt Options) (*Search, error) {
	spec := p.Spec()
	if len(spec.Switches) == 0 {
		return nil, fmt.Errorf("case %q has no switched action", spec.Name)
	}
	r, err := newRollout(p)
	if err != nil {
		return nil, err
	}
	s := &Search{opt: opt, problem: p, spec: spec, rollout: r, rules: newRules(spec.Switches)}
	s.rng.normal = rand.New(&s.rng.PCG)
	s.bits, s.inWord = Packing(spec.Switches)
	s.start, s.state = make([]int, s.rules.size), make([]int, s.rules.size)
	for i, a := range spec.Action {
		if spec.SwitchOf(i) < 0 {
			s.continuous, s.half, s.mid = append(s.continuous, i), append(s.half, a.Half()), append(s.mid, a.Middle())
		}
	}
	s.accumulated = make([]float64, s.rules.chances)
	r.continuous = s.continuous
	return s, nil
}

// Restart makes the next decision number n + 1 of its seed.
func (s *Search) Restart(n uint64) { s.decisions = n }

// Begin starts a decision in a state and context, along a number of steps. Chances begin equal, the other actions at the
// problem's fallback.
func (s *Search) Begin(state, c []float64, pref domain.Preference, steps int) {
	s.decisions++
	s.rng.Seed(s.opt.Seed, s.decisions)
	s.s, s.c = append(s.s[:0], state...), append(s.c[:0], c...)
	s.pref, s.steps = pref, steps
	s.rules.read(c, s.start)
	s.chances = resize(s.chances, steps*s.rules.chances)
	for h := range steps {
		for i, w := range s.spec.Switches {
			row := s.chance(h, i)
			for v := range row {
				row[v] = 1 / float64(len(w.Values))
			}
		}
	}
	fallback := make([]float64, s.spec.ActionSize())
	s.problem.Fallback(state, c, fallback)
	s.mean = resize(s.mean, steps*len(s.continuous))
	for k := range s.mean {
		s.mean[k] = fallback[s.continuous[k%len(s.continuous)]]
	}
	s.spread = s.spread[:0]
	for _, half := range s.half {
		s.spread = append(s.spread, firstSpread*half)
	}
	if steps*len(s.spec.Switches) != s.size {
		s.size, s.spare = steps*len(s.spec.Switches), s.spare[:0]
	} else {
		s.spare = append(s.spare, s.elites...)
	}
	s.offered, s.elites, s.Candidates = s.offered[:0], s.elites[:0], 0
	s.rollout.least, s.rollout.feedback, s.followed = 0, nil, false
	s.Solve = nil
	s.keys.clear()
	s.neighbours.clear()
}

func resize(v []float64, n int) []float64 { return slices.Grow(v[:0], n)[:n] }

// chance views the chances of switch i in step h.
func (s *Search) chance(h, i int) []float64 {
	first := h*s.rules.chances + s.rules.first[i]
	return s.chances[first:][:len(s.spec.Switches[i].Values)]
}

// Guess replaces the chances by a row of shares for each step, such as those of a relaxed plan or of a map (see Shares).
// Each value has at least leastChance. Steps beyond the guess keep their chances.
func (s *Search) Guess(shares []float64) {
	width := s.shares()
	for h := range min(s.steps, len(shares)/width) {
		row := shares[h*width : (h+1)*width]
		s.eachShare(func(entry, action, sw, value int) {
			if sw < 0 {
				if v := row[entry]; !math.IsNaN(v) {
					s.mean[h*len(s.continuous)+slices.Index(s.continuous, action)] = v
				}
				return
			}
			s.chance(h, sw)[value] = row[entry]
		})
		for i := range s.spec.Switches {
			p := s.chance(h, i)
			rest := 1.0
			for v, x := range p[1:] {
				p[v+1] = math.Max(0, math.Min(1, x)) // a NaN stays, and is made even below
				rest -= p[v+1]
			}
			p[0] = rest
			normalise(p)
		}
	}
}

// normalise makes chances of at least leastChance whose sum is 1.
func normalise(p []float64) {
	sum := 0.0
	for v, x := range p {
		if !(x >= leastChance) {
			x = leastChance
		}
		p[v] = math.Min(x, 1)
		sum += p[v]
	}
	for v := range p {
		p[v] /= sum
	}
}

// shares is the width of a row of shares. An action without a switch has one entry, a switch of n values n − 1.
func (s *Search) shares() int { return len(s.continuous) + s.rules.chances - len(s.spec.Switches) }

// eachShare calls f with every entry of a row of shares: its action, its switch or −1, and the place of its value.
func (s *Search) eachShare(f func(entry, action, sw, value int)) {
	entry := 0
	for a := range s.spec.Action {
		sw := s.spec.SwitchOf(a)
		if sw < 0 {
			f(entry, a, -1, 0)
			entry++
			continue
		}
		for v := range s.spec.Switches[sw].Values[1:] {
			f(entry, a, sw, v+1)
			entry++
		}
	}
}

// Offer adds a plan, [steps·action], that the next Run rolls out before it draws. A shorter one repeats its last action.
func (s *Search) Offer(plan []float64) {
	if len(plan) < s.spec.ActionSize() {
		return
	}
	s.offered = append(s.offered, s.planOf(plan))
}

// planOf is the plan of actions, [steps·action]. A shorter one repeats its last action.
func (s *Search) planOf(plan []float64) Plan {
	nu, ns := s.spec.ActionSize(), len(s.spec.Switches)
	p := s.blank()
	for h := range s.steps {
		u := plan[min(h*nu, len(plan)-nu):][:nu]
		for i := range s.spec.Switches {
			w := &s.spec.Switches[i]
			p.Places[h*ns+i] = uint8(w.Nearest(u[w.Action]))
		}
		copy(p.Actions[h*nu:], u)
	}
	return p
}

// blank is a plan with room, of those that are needed no more where there are any.
func (s *Search) blank() Plan {
	if n := len(s.spare); n > 0 {
		p := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return p
	}
	return Plan{Places: make([]uint8, s.steps*len(s.spec.Switches)), Actions: make([]float64, s.steps*s.spec.ActionSize())}
}

// Run rolls at most n candidates out and returns the best of the decision, nil where none was finite. It ends early
// where few of a round's candidates are new. It can be called again.
func (s *Search) Run(n int) *Plan {
	size := roundSize(n + s.Candidates)
	for total := 0; total < n; total += len(s.batch) {
		wanted := min(size, n-total)
		if !s.round(wanted) || len(s.batch) < wanted/fewNew {
			break
		}
	}
	return s.Best()
}

// runPatiently makes rounds until they find nothing better for a while, nor pairs of changes do.
func (s *Search) runPatiently(e effort) *Plan {
	vain, best := 0, Plan{Cost: math.Inf(1)}
	for k := 0; k < mostRounds && vain < patience && !s.cancelled() && s.round(e.round); k++ {
		vain++
		if p := s.Best(); p != nil && p.Safe() && s.rollout.gains(p, &best, gain) {
			vain, best.Cost = 0, p.Cost
		}
	}
	if e.pairs {
		s.tryPairs(e.round)
	}
	return s.Best()
}

func (s *Search) cancelled() bool { return s.ctx != nil && s.ctx.Err() != nil }
func roundSize(n int) int         { return min(mostRound, max(leastRound, (n+rounds-1)/rounds)) }

// Sizes are the most candidates of a round in a run of n, the most elites that are kept of them, and the most of these that a
// Controller offers to its next decision.
func Sizes(n int) (candidates, elites, offered int) {
	candidates = min(n, roundSize(n))
	elites = max(leastElites, candidates/eliteShare)
	return candidates, elites, min(offers, elites)
}

// Packing is of the words that make the key of a plan: the bits of a place, and the places in a word.
func Packing(switches []domain.Switch) (width uint, inWord int) {
	for i := range switches {
		width = max(width, uint(bits.Len(uint(len(switches[i].Values)-1))))
	}
	return width, int(64 / width)
}

// Best is the best plan of the decision; nil where none is finite.
func (s *Search) Best() *Plan {
	if len(s.elites) == 0 || math.IsNaN(s.elites[0].Cost+s.elites[0].Violation) {
		return nil
	}
	return &s.elites[0]
}

// Elites are the best plans of the decision, best first, until the next Begin.
func (s *Search) Elites() []Plan { return s.elites }

// round makes one round, and reports whether there was anything new.
func (s *Search) round(n int) bool {
	if s.rollout.feedback != nil {
		n -= s.runOffered()
	}
	s.batch = s.batch[:0]
	s.takeOffered(n)
	draws, roundings := int(drawnShare*float64(n)), int(roundedShare*float64(n))
	for try := 0; len(s.batch) < n && try < 2*n; try++ {
		p := s.blank()
		switch {
		case len(s.elites) == 0 && try%4 == 3 || len(s.elites) > 0 && try%20 < 2 && roundings > 0:
			roundings--
			s.sumUp(&p)
		case len(s.elites) == 0 || try%20 < 10 && draws > 0:
			draws--
			s.draw(&p)
		default:
			s.neighbour(&p)
		}
		s.add(p)
	}
	if len(s.batch) == 0 {
		return false
	}
	s.rollOut()
	return true
}

// takeOffered makes candidates of what was offered, in a batch of at most n.
func (s *Search) takeOffered(n int) {
	for len(s.offered) > 0 && len(s.batch) < n {
		p := s.offered[0]
		s.offered = s.offered[1:]
		s.rules.repair(s.start, p.Places, s.state)
		s.add(p)
	}
}

// runOffered rolls out what was offered with its own actions, whatever is followed, then what is followed. It returns how many of these are
// new.
func (s *Search) runOffered() (count int) {
	f := s.rollout.feedback
	for _, s.rollout.feedback = range []*Feedback{nil, f} {
		s.batch = s.batch[:0]
		if s.takeOffered(MaxCandidates); len(s.batch) > 0 {
			s.rollOut()
		}
		if count += len(s.batch); s.followed {
			p := s.blank()
			copy(p.Places, f.places)
			s.offered, s.followed = append(s.offered, p), false
		}
	}
	return count
}

// rollOut rolls the candidates of a round out.
func (s *Search) rollOut() {
	s.rollout.run(s.s, s.c, s.pref, s.steps, s.batch, s.bound())
	s.Candidates += len(s.batch)
	s.adapt()
}

// worst is worse than any plan.
var worst = Plan{Cost: math.Inf(1), Violation: math.Inf(1)}

// bound is the worst plan that would still be an elite.
func (s *Search) bound() Plan {
	if len(s.elites) < leastElites {
		return worst
	}
	return s.elites[len(s.elites)-1]
}

// add makes p a candidate of the round, unless one of its places was rolled out before with no other actions.
func (s *Search) add(p Plan) {
	s.pack(&p)
	if s.rollout.independent() {
		s.complete(&p)
		for h := range s.steps {
			for k, a := range s.continuous {
				v := p.Actions[h*s.spec.ActionSize()+a]
				p.key = mix(p.key, math.Float64bits(math.Round(v*(distinct/s.half[k]))+0))
			}
		}
	}
	if !s.keys.add(p.key) {
		s.spare = append(s.spare, p)
		return
	}
	s.batch = append(s.batch, p)
}

// pack makes the key of a plan's places, which are some bits each in words.
func (s *Search) pack(p *Plan) {
	p.key = 0
	for first := 0; first < len(p.Places); first += s.inWord {
		places, word := p.Places[first:min(len(p.Places), first+s.inWord)], uint64(0)
		for ; len(places) >= 8; places = places[8:] {
			word = word<<(8*s.bits) | s.pack8(binary.BigEndian.Uint64(places))
		}
		for _, v := range places {
			word = word<<s.bits | uint64(v)
		}
		if first == 0 {
			p.first = word
		}
		p.key = mix(p.key, word)
	}
}

// pack8 moves eight places together: two, four, then all.
func (s *Search) pack8(x uint64) uint64 {
	const pairs, fours = 0x00ff00ff00ff00ff, 0x0000ffff0000ffff
	x = x>>8&pairs<<s.bits | x&pairs
	x = x>>16&fours<<(2*s.bits) | x&fours
	return x>>32<<(4*s.bits) | x&math.MaxUint32
}

// mix adds a word to a key. Keys of one word are as many as the words.
func mix(key, word uint64) uint64 {
	key = (key ^ word) * 0x9e3779b97f4a7c15
	return key ^ key>>32
}

// complete writes the values of the places into the actions, and the others into their boxes.
func (s *Search) complete(p *Plan) {
	nu := s.spec.ActionSize()
	for h := range s.steps {
		u := p.Actions[h*nu : (h+1)*nu]
		p.act(s.spec, h, false, u)
		for _, a := range s.continuous {
			if v := &s.spec.Action[a]; v.Bounded() {
				u[a] = math.Min(v.Hi, math.Max(v.Lo, u[a]))
			}
		}
	}
}

// adapt merges the round into the elites and moves the chances towards them.
func (s *Search) adapt() {
	keep := max(leastElites, len(s.batch)/eliteShare)
	full, last := len(s.elites) >= keep, len(s.elites)-1
	for i := range s.batch {
		if p := s.batch[i]; full && !s.rollout.better(&p, &s.elites[last]) {
			s.spare = append(s.spare, p)
		} else {
			s.elites = append(s.elites, p)
		}
	}
	slices.SortFunc(s.elites, s.compare)
	count := min(len(s.elites), keep)
	s.spare = append(s.spare, s.elites[count:]...)
	s.elites = s.elites[:count]
	for i := range s.elites {
		s.complete(&s.elites[i])
	}
	ns, nu := len(s.spec.Switches), s.spec.ActionSize()
	share := learn / float64(len(s.elites))
	for h := range s.steps {
		for i := range s.spec.Switches {
			p := s.chance(h, i)
			for v := range p {
				p[v] *= 1 - learn
			}
			for e := range s.elites {
				p[s.elites[e].Places[h*ns+i]] += share
			}
			normalise(p)
		}
		for k, a := range s.continuous {
			m := &s.mean[h*len(s.continuous)+k]
			*m *= 1 - learn
			for e := range s.elites {
				*m += share * s.elites[e].Actions[h*nu+a]
			}
		}
	}
	s.narrow()
}

// compare orders plans, best first.
func (s *Search) compare(a, b Plan) int {
	switch {
	case s.rollout.better(&a, &b):
		return -1
	case s.rollout.better(&b, &a):
		return 1
	}
	return cmp.Compare(a.key, b.key)
}

// narrow moves the spread of the other actions towards that of the elites.
func (s *Search) narrow() {
	nu := s.spec.ActionSize()
	for k, a := range s.continuous {
		sum := 0.0
		for e := range s.elites {
			for h := range s.steps {
				d := s.elites[e].Actions[h*nu+a] - s.mean[h*len(s.continuous)+k]
				sum += d * d
			}
		}
		deviation := math.Sqrt(sum / float64(s.steps*len(s.elites)))
		s.spread[k] = math.Max(leastSpread*s.half[k], (1-learn)*s.spread[k]+learn*deviation)
	}
}
