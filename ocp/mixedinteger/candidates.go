package mixedinteger

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/tensor"
)

// random draws the numbers of rand.Rand without a call through an interface for each.
type random struct {
	rand.PCG
	normal *rand.Rand
}

func (r *random) Float64() float64 { return float64(r.Uint64()<<11>>11) / (1 << 53) }

func (r *random) IntN(n int) int {
	if n&(n-1) == 0 {
		return int(r.Uint64()) & (n - 1)
	}
	hi, lo := bits.Mul64(r.Uint64(), uint64(n))
	if lo < uint64(n) {
		for least := -uint64(n) % uint64(n); lo < least; {
			hi, lo = bits.Mul64(r.Uint64(), uint64(n))
		}
	}
	return int(hi)
}

// renewals are chances of a candidate that a period draws a random number of its own, of 256.
var renewals = [...]uint64{256, 128, 51, 20, 8, 0}

// draw makes a candidate by chance. Neighbouring periods share a random number, which changes with a chance that each
// candidate draws. Plans of few changes are then as likely as others.
func (s *Search) draw(p *Plan) {
	ns, width := len(s.spec.Switches), s.rules.chances
	renew := renewals[s.rng.IntN(len(renewals))]
	copy(s.state, s.start)
	for i := range ns {
		chances, values := s.chances[s.rules.first[i]:], len(s.spec.Switches[i].Values)
		u, bytes, free := s.rng.Float64(), uint64(0), s.rules.free[i] // each of bytes decides on a period
		for h := range s.steps {
			if h%8 == 0 {
				bytes = s.rng.Uint64()
			}
			if h > 0 && bytes&255 < renew {
				u = s.rng.Float64()
			}
			bytes >>= 8
			place := s.state[i]
			if free || s.rules.mayChange(i, s.state) {
				place = quantile(chances[h*width:][:values], u)
			}
			p.Places[h*ns+i] = uint8(place)
			if !free {
				s.rules.take(i, place, s.state)
			}
		}
	}
	s.drawOthers(p, 1)
}

// quantile is the place of a value at a random number in [0, 1).
func quantile(chances []float64, u float64) int {
	last := len(chances) - 1
	for v, x := range chances[:last] {
		if u -= x; u < 0 {
			return v
		}
	}
	return last
}

// sumUp makes a candidate by sum-up rounding from a random phase. In each period it takes the value that lags its
// summed chances most, as far as the rules allow it.
func (s *Search) sumUp(p *Plan) {
	copy(s.state, s.start)
	for i := range s.spec.Switches {
		sum := s.accumulated[:len(s.spec.Switches[i].Values)]
		for v := range sum {
			sum[v] = s.rng.Float64() - 0.5
		}
		for h := range s.steps {
			tensor.Axpy(1, s.chance(h, i), sum)
			s.roundUp(p, h, i, sum)
		}
	}
	s.drawOthers(p, 0.3)
}

// roundUp gives switch i in period h the value that lags its sum most, of those that the rules allow, and counts it.
func (s *Search) roundUp(p *Plan, h, i int, sum []float64) {
	place := s.state[i]
	if s.rules.mayChange(i, s.state) {
		for v, x := range sum {
			if x > sum[place] {
				place = v
			}
		}
	}
	sum[place]--
	p.Places[h*len(s.spec.Switches)+i] = uint8(place)
	s.rules.take(i, place, s.state)
}

// drawOthers draws the actions without a switch about their mean, with noise that is linear between knots.
func (s *Search) drawOthers(p *Plan, scale float64) {
	nu := s.spec.ActionSize()
	if !s.rollout.independent() {
		return
	}
	for k, a := range s.continuous {
		s.knots()
		for h := range s.steps {
			p.Actions[h*nu+a] = s.mean[h*len(s.continuous)+k] + scale*s.spread[k]*s.noiseAt(h)
		}
	}
}

// knots draws the noise of one action.
func (s *Search) knots() {
	n := min(knots, s.steps)
	s.noise = resize(s.noise, n)
	constant := s.rng.IntN(4) == 0
	for i := range s.noise {
		if i > 0 && constant {
			s.noise[i] = s.noise[0]
		} else {
			s.noise[i] = s.rng.normal.NormFloat64()
		}
	}
}

func (s *Search) noiseAt(h int) float64 {
	n := len(s.noise)
	if n == 1 {
		return s.noise[0]
	}
	position := float64(h) * float64(n-1) / float64(s.steps-1)
	k := min(int(position), n-2)
	return s.noise[k] + (position-float64(k))*(s.noise[k+1]-s.noise[k])
}

// neighbourhood counts through the changes of one plan: every flip of a period, then pairs of flips.
type neighbourhood struct {
	plan  uint64 // its key
	next  int
	ready bool
}

func (n *neighbourhood) clear() { *n = neighbourhood{} }

// neighbour makes a candidate by changing the best: flips of single periods and pairs of them in turn, else random
// moves of a good one.
func (s *Search) neighbour(p *Plan) {
	n, ns, best := &s.neighbours, len(s.spec.Switches), &s.elites[0]
	if !n.ready || n.plan != best.key {
		*n = neighbourhood{plan: best.key, ready: true}
	}
	singles := s.steps * (s.rules.chances - ns)
	switch {
	case n.next < singles:
		s.copyPlan(p, best)
		s.flip(p, n.next)
	case n.next < 3*singles && singles > 1:
		s.copyPlan(p, best)
		a, b := s.rng.IntN(singles), s.rng.IntN(singles)
		if n.next%2 == 0 { // next to each other
			b = (a + s.rules.chances - ns) % singles
		}
		s.flip(p, a)
		s.flip(p, b)
	default:
		e := int(math.Floor(float64(len(s.elites)) * s.rng.Float64() * s.rng.Float64()))
		s.copyPlan(p, &s.elites[e])
		for range 1 + s.rng.IntN(3) {
			if s.rng.IntN(2) == 0 {
				s.moveChange(p)
			} else {
				s.move(p)
			}
		}
	}
	n.next++
	s.rules.repair(s.start, p.Places, s.state)
	s.disturb(p)
}

func (s *Search) copyPlan(p, source *Plan) {
	copy(p.Places, source.Places)
	if len(s.continuous) > 0 { // else the places say all
		copy(p.Actions, source.Actions)
	}
}

// flip makes flip number k of a plan: of a period, of a switch, to another value.
func (s *Search) flip(p *Plan, k int) {
	ns := len(s.spec.Switches)
	width := s.rules.chances - ns
	h, k := k/width, k%width
	for i := range s.spec.Switches {
		alternatives := len(s.spec.Switches[i].Values) - 1
		if k < alternatives {
			place := &p.Places[h*ns+i]
			*place = uint8((int(*place) + 1 + k) % (alternatives + 1))
			return
		}
		k -= alternatives
	}
}

// move changes a plan at random: a stretch gets one value or another switch's, or moves by some periods.
func (s *Search) move(p *Plan) {
	ns := len(s.spec.Switches)
	i := s.rng.IntN(ns)
	values := len(s.spec.Switches[i].Values)
	from := s.rng.IntN(s.steps)
	x := s.rng.Float64()
	length := 1 + int(float64(s.steps)*x*(x*x)/2)
	to := min(s.steps, from+length)
	if ns > 1 && s.rng.IntN(3) == 0 {
		s.exchange(p, i, from, to)
		return
	}
	if s.rng.IntN(2) == 0 {
		v := uint8(s.rng.IntN(values))
		for h := from; h < to; h++ {
			p.Places[h*ns+i] = v
		}
		return
	}
	shift := 1 + s.rng.IntN(3)
	if s.rng.IntN(2) == 0 { // later
		for h := s.steps - 1; h >= from+shift; h-- {
			p.Places[h*ns+i] = p.Places[(h-shift)*ns+i]
		}
		return
	}
	for h := from; h+shift < s.steps; h++ {
		p.Places[h*ns+i] = p.Places[(h+shift)*ns+i]
	}
}

// exchange gives a stretch of a switch to another one, and the other's to it, as far as both have the values.
func (s *Search) exchange(p *Plan, i, from, to int) {
	ns := len(s.spec.Switches)
	k := (i + 1 + s.rng.IntN(ns-1)) % ns
	mostI, mostK := uint8(len(s.spec.Switches[i].Values)-1), uint8(len(s.spec.Switches[k].Values)-1)
	for h := from; h < to; h++ {
		a, b := &p.Places[h*ns+i], &p.Places[h*ns+k]
		*a, *b = min(*b, mostI), min(*a, mostK)
	}
}

// moveChange moves a change of a switch to a period before or after, most often the next.
func (s *Search) moveChange(p *Plan) {
	ns := len(s.spec.Switches)
	i, from := s.rng.IntN(ns), s.rng.IntN(s.steps)
	x := s.rng.Float64()
	distance, later := 1+int(float64(s.steps)*(x*(x*x))/4), s.rng.IntN(2) == 0
	for k, h := 0, from; k < s.steps; k, h = k+1, h+1 {
		if h == s.steps {
			h = 0
		}
		if h == 0 || p.Places[h*ns+i] == p.Places[(h-1)*ns+i] {
			continue
		}
		first, last, v := h, min(s.steps, h+distance), p.Places[(h-1)*ns+i]
		if !later {
			first, last, v = max(0, h-distance), h, p.Places[h*ns+i]
		}
		for ; first < last; first++ {
			p.Places[first*ns+i] = v
		}
		return
	}
}

// disturb adds noise to the actions without a switch of every other neighbour.
func (s *Search) disturb(p *Plan) {
	if !s.rollout.independent() {
		return
	}
	nu := s.spec.ActionSize()
	for k, a := range s.continuous {
		if s.rng.IntN(2) == 0 {
			continue
		}
		s.knots()
		scale := s.spread[k] * math.Ldexp(1, -s.rng.IntN(5))
		if s.rng.IntN(3) == 0 { // of a stretch alone
			from := s.rng.IntN(s.steps)
			to := min(s.steps, from+1+s.rng.IntN(max(1, s.steps/4)))
			for h := from; h < to; h++ {
				p.Actions[h*nu+a] += scale * s.noise[0]
			}
			continue
		}
		for h := range s.steps {
			p.Actions[h*nu+a] += scale * s.noiseAt(h)
		}
	}
}

// Resume mixes the chances of a decision before, one step on, into the present ones: share of them in the result.
func (s *Search) Resume(chances []float64, share float64) {
	for k := range min(len(chances), len(s.chances)) {
		s.chances[k] = (1-share)*s.chances[k] + share*chances[k]
	}
}

// OfferShares offers the plan that rows of shares come to by sum-up rounding, and that of the largest share in each
// period.
func (s *Search) OfferShares(shares []float64) {
	ns, width := len(s.spec.Switches), s.shares()
	steps := len(shares) / width
	if steps == 0 {
		return
	}
	for _, carried := range []float64{1, 0} {
		p := s.blank()
		copy(s.state, s.start)
		sums := make([]float64, s.rules.chances)
		for h := range s.steps {
			row := shares[min(h, steps-1)*width:][:width]
			s.eachShare(func(entry, action, sw, value int) {
				v := row[entry]
				if sw < 0 {
					p.Actions[h*s.spec.ActionSize()+action] = v
					return
				}
				first := s.rules.first[sw]
				if value == 1 {
					sums[first] += 1
				}
				sums[first] -= v
				sums[first+value] += v
			})
			for i := range ns {
				sum := sums[s.rules.first[i]:][:len(s.spec.Switches[i].Values)]
				s.roundUp(&p, h, i, sum)
				for v := range sum {
					sum[v] *= carried
				}
			}
		}
		s.offered = append(s.offered, p)
	}
}
