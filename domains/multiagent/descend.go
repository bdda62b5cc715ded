package multiagent

import (
	"math"

	"github.com/gpc-engine/gpc/domains/multiagent/rollout"
)

// Constants of the gradient refinement (Adam, per lane and entry).
const (
	descentRate  = 0.20 // first step, m/s² and rad/s
	descentDecay = 0.90 // of the step per iteration
	descentMean  = 0.8
	descentSpan  = 0.95
)

// descend refines the sixteen best candidates at once by steps along the exact
// derivatives of their scores, limited to box and slew bound after each. Every
// iterate is a candidate.
func (p *Planner) descend(i, steps int) {
	if steps == 0 {
		return
	}
	for l := range rollout.Lanes {
		p.put(&p.best[l%p.kept].plan, l)
	}
	clear(p.first)
	clear(p.second)
	bounds := p.h.bounds(i)
	rate, mean, span := descentRate, 1.0, 1.0
	p.evaluate(i, p.slope)
	for range steps - 1 {
		mean *= descentMean
		span *= descentSpan
		factor := float32(rate * math.Sqrt(1-span) / (1 - mean))
		for e, g := range p.slope {
			m := descentMean*p.first[e] + (1-descentMean)*g
			v := descentSpan*p.second[e] + (1-descentSpan)*g*g
			p.first[e], p.second[e] = m, v
			p.block[e] -= factor * m / (float32(math.Sqrt(float64(v))) + 1e-6)
		}
		rate *= descentDecay
		p.engine.Limit(p.block, lookAhead, &bounds)
		p.evaluate(i, p.slope)
	}
}
