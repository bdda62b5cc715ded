package plan

import (
	"math"

	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
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

// descend refines sixteen candidates at once by steps along the exact derivatives
// of their scores, limited to box and slew bound after each: half of them the
// best plan at different rates, half the cheapest plans of different ways, whose
// only fault is a violated margin. Every iterate is a candidate.
func (p *Planner) descend(i, steps int) {
	if steps == 0 {
		return
	}
	var rates [rollout.Lanes]float32
	square := p.single.Penalty.Square
	for l := range rollout.Lanes {
		if l < descentRates {
			p.put(&p.best[0].plan, l)
			p.origins[l] = origin{kindDescended, p.best[0].from.latent}
			rates[l] = float32(descentRate * math.Pow(0.5, float64(l)))
			continue
		}
		bold := &p.bold[(l-descentRates)%descentBold%p.daring]
		p.put(&bold.plan, l)
		p.origins[l] = origin{kindDescended, bold.from.latent}
		rates[l] = float32(descentRate * math.Pow(0.5, float64((l-descentRates)/descentBold)))
		p.single.Penalty.Square[l] *= descentStiffer
	}
	p.slide(i, &rates, steps, descentDecay)
	p.single.Penalty.Square = square
}

// slide takes the block's sixteen plans down the derivatives of their scores by
// Adam, each lane from its own first step in rates, which decays by a factor per
// iteration; the plans are limited after every step, and every iterate is a
// candidate.
func (p *Planner) slide(i int, rates *[rollout.Lanes]float32, steps int, decay float64) {
	clear(p.first)
	clear(p.second)
	bounds := p.h.Bounds(i)
	rate, mean, span := 1.0, 1.0, 1.0
	p.evaluate(p.slope)
	for range steps - 1 {
		mean *= descentMean
		span *= descentSpan
		factor := float32(rate * math.Sqrt(1-span) / (1 - mean))
		for row := 0; row < len(p.slope); row += rollout.Lanes {
			for l := range rollout.Lanes {
				e := row + l
				g := p.slope[e]
				m := descentMean*p.first[e] + (1-descentMean)*g
				v := descentSpan*p.second[e] + (1-descentSpan)*g*g
				p.first[e], p.second[e] = m, v
				p.block[e] -= factor * rates[l] * m / (float32(math.Sqrt(float64(v))) + 1e-6)
			}
		}
		rate *= decay
		p.engine.Limit(p.block, p.steps, &bounds)
		p.evaluate(p.slope)
	}
}
