package closedloop

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/tensor"
)

// Computing declares how long decisions take, so that what is late depends on the seed and not on the machine. Times
// are lognormal, in µs. A decision has the period of its case: one that comes later is late, and what Hold writes is
// executed. The computer finishes what it has begun. A decision that could not begin in its period is not made.
type Computing struct {
	P50 float64 `json:"p50"` // declared median time of a decision (`--computing`); absent: decisions take no time, as is the next
	P99 float64 `json:"p99"` // its declared 99th percentile
}

// Validate says what in the times cannot be.
func (c *Computing) Validate() error {
	if !(c.P50 > 0) || !(c.P99 >= c.P50) || math.IsInf(c.P99, 0) {
		return fmt.Errorf("a median computing time of %v µs and a 99th percentile of %v µs: want finite times above 0, the second at least the first", c.P50, c.P99)
	}
	return nil
}

// computingStream separates the times of decisions from every other draw of an episode.
const computingStream = 0x636f_6d70_7574_6573 // "computes"

// normalP99 is the 99th percentile of the standard normal distribution.
const normalP99 = 2.3263478740408408

// pace says when the decisions of one episode come, and keeps what is left of the last plan that came. The zero value
// is of decisions that take no time.
type pace struct {
	of     *Computing
	period float64 // µs
	rng    *rand.Rand
	t      int     // periods that have begun
	free   float64 // when the computer has done what it began, in periods
	came   aPlan
	coming aPlan // of a decision that is late; its actions are nil where there is none
}

// aPlan are actions from a period on, and when they are there, in periods.
type aPlan struct {
	actions []float64
	from    int
	ready   float64
}

// newPace is the pace of an episode; of is nil where decisions take no time.
func newPace(of *Computing, spec *domain.Spec, seed uint64, number int) *pace {
	if of == nil {
		return &pace{}
	}
	return &pace{of: of, period: 1e6 * spec.StepSeconds, rng: rand.New(rand.NewPCG(seed^computingStream, uint64(number)))}
}

// next begins a period. made reports whether its decision is made, late whether it comes behind the period or not at
// all.
func (p *pace) next() (made, late bool) {
	if p.of == nil {
		return true, false
	}
	took := p.of.P50 * math.Exp(math.Log(p.of.P99/p.of.P50)/normalP99*p.rng.NormFloat64()) / p.period
	begin := float64(p.t)
	p.t++
	if p.free >= begin+1 {
		return false, true
	}
	p.free = math.Max(begin, p.free) + took
	return true, p.free > begin+1
}

// executed writes into u, which decision d has decided, what the period executes, and returns what is known of that.
// What a late decision decided is not executed in its period; its plan is there for the periods behind. may are the
// method's abilities.
func (p *pace) executed(may *domain.ControllerAbilities, of *domain.Case, made, late bool, d domain.Decision, s, c, u []float64) domain.Decision {
	if p.of == nil {
		return d
	}
	var plan aPlan
	if made {
		plan = aPlan{slices.Clone(u), p.t - 1, p.free}
		if len(d.Ahead) > len(u) {
			plan.actions = append(plan.actions, d.Ahead[len(u):]...)
		}
	}
	if !late {
		p.came, p.coming = plan, aPlan{}
		return d
	}
	if p.coming.actions != nil && p.coming.ready <= float64(p.t) {
		p.came, p.coming = p.coming, aPlan{}
	}
	var next []float64
	if at := (p.t - 1 - p.came.from) * len(u); at > 0 && at+len(u) <= len(p.came.actions) {
		next = p.came.actions[at : at+len(u)]
	}
	did := domain.Decided(true)
	known := of.Measurement == nil && of.Delay.Periods == 0
	_, did.Fallback = Hold(of.Problem, s, c, next, known, u)
	switch {
	case may.Executed == nil:
	case made:
		may.Executed(u)
	case known:
		may.Missed(s, c, u)
	default:
		may.Missed(nil, nil, u)
	}
	if made {
		p.coming = plan
	}
	return did
}

// Hold writes what is executed where a decision is late: next, the action of the plan before, where that keeps the
// limits or breaks them by less than the problem's fallback, which it is elsewhere. next is nil where there is none.
// known: s and c are where it acts; elsewhere next is taken as it is. It returns the smallest margin, NaN where it is
// not known.
func Hold(p domain.Problem, s, c, next []float64, known bool, u []float64) (margin float64, by domain.Fallback) {
	spec := p.Spec()
	of := func(u []float64) float64 {
		margins := make([]float64, len(spec.Margins))
		p.Margins(s, c, u, margins)
		return domain.Smallest(margins)
	}
	has := next != nil && tensor.Finite(next)
	if has && !known {
		copy(u, next)
		return math.NaN(), domain.FallbackIncumbent
	}
	rest := make([]float64, len(u))
	p.Fallback(s, c, rest)
	margin = of(rest)
	if has {
		if m := of(next); spec.Keeps(m) || m >= margin {
			copy(u, next)
			return m, domain.FallbackIncumbent
		}
	}
	copy(u, rest)
	return margin, domain.FallbackConservative
}
