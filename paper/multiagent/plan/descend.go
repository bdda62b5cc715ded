package plan

import (
	"math"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
)

// Constants of the gradient refinement (Adam, per lane and entry).
const (
	descentRate  = 0.20 // largest first step, m/s² and rad/s
	descentRates = 8    // first steps tried side by side from the best plan, each half the one before
	descentBold  = 4    // the other lanes start from as many plans that are best but for their safety
	// descentStiffer multiplies the soft penalty of those, so that the descent
	// leaves the hard margins on the right side. Their scores are then too high,
	// never too low.
	descentStiffer = 8
	descentDecay   = 0.90 // of the step per iteration
	descentMean    = 0.8
	descentSpan    = 0.95
)

// Descend refines sixteen candidates at once by steps along the exact derivatives of their scores: half of them the best plan
// at different rates, half the cheapest plans of different ways. Every iterate is a candidate, and nothing starts from it.
func (s *Search) Descend(steps int) {
	if steps == 0 || s.elites == 0 {
		return
	}
	var rates [rollout.Lanes]float32
	square := s.Problem.Penalty.Square
	for l := range rollout.Lanes {
		parent, rate := &s.best[0], l
		if l >= descentRates {
			parent, rate = &s.bold[(l-descentRates)%descentBold%s.daring], (l-descentRates)/descentBold
			s.Problem.Penalty.Square[l] *= descentStiffer
		}
		s.Put(&parent.plan, l)
		s.origins[l] = origin{domain.SourceDescended, parent.origin.latent}
		rates[l] = float32(descentRate * math.Pow(0.5, float64(rate)))
	}
	s.last = true
	s.Slide(&rates, steps, descentDecay)
	s.last, s.Problem.Penalty.Square = false, square
}

// Slide takes the first block's plans down the derivatives of their scores by
// Adam, each lane from its own first step in rates, which decays by a factor per
// iteration; the plans are limited after every step, and every iterate is a
// candidate. Where the evaluator takes a descent in one call it is one.
func (s *Search) Slide(rates *[rollout.Lanes]float32, steps int, decay float64) {
	factors := s.factors[:0]
	rate, mean, span := 1.0, 1.0, 1.0
	for range steps - 1 {
		mean *= descentMean
		span *= descentSpan
		factors = append(factors, float32(rate*math.Sqrt(1-span)/(1-mean)))
		rate *= decay
	}
	s.factors = factors
	if s.slideAtOnce(rates, factors) {
		return
	}
	clear(s.first)
	clear(s.second)
	s.ScoreSlopes()
	for _, factor := range factors {
		for row := 0; row < len(s.Slopes); row += rollout.Lanes {
			for l := range rollout.Lanes {
				e := row + l
				g := s.Slopes[e]
				m := descentMean*s.first[e] + (1-descentMean)*g
				v := descentSpan*s.second[e] + (1-descentSpan)*g*g
				s.first[e], s.second[e] = m, v
				s.Plans[e] -= factor * rates[l] * m / (float32(math.Sqrt(float64(v))) + 1e-6)
			}
		}
		s.score(rollout.Lanes, s.bounds[:], s.Slopes)
	}
}

// slideAtOnce is Slide in one call of the evaluator, and reports whether that was it. It
// leaves the last iterate in the first block, as Slide does, but no slopes.
func (s *Search) slideAtOnce(rates *[rollout.Lanes]float32, factors []float32) bool {
	d, ok := s.evaluator.(rollout.Descender)
	s.rates = *rates // of which the evaluator may keep the address
	iterates, size := len(factors)+1, len(s.Slopes)
	if !ok || s.err != nil || iterates > len(s.Results) {
		return false
	}
	handled, err := d.Descend(&s.Problem, s.bounds[:], &s.rates, factors, s.Plans, s.Results)
	if s.err = err; !handled {
		return err != nil
	}
	for n := range iterates * rollout.Lanes {
		s.origins[n] = s.origins[n%rollout.Lanes]
		r, l := &s.Results[n/rollout.Lanes], n%rollout.Lanes
		s.keep(float64(r.Cost[l]), int(r.Safe[l]), n)
	}
	copy(s.Plans[:size], s.Plans[(iterates-1)*size:])
	return true
}

// Spread puts the best eight plans and the eight that would be best were they safe
// into the first block.
func (s *Search) Spread() {
	for l := range rollout.Lanes {
		if l < rollout.Lanes/2 {
			s.Put(&s.best[l%s.elites].plan, l)
		} else {
			s.Put(&s.bold[l%s.daring].plan, l)
		}
	}
}
