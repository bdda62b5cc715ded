package powerflow

import (
	"cmp"
	"fmt"
	"math"
)

// Slack says how units share the balance of active power: by Shares, and within their limits of active power. Otherwise the
// reference takes it up alone.
type Slack struct {
	// Shares are by unit, nonnegative. Nil shares by headroom: the room that a unit's dispatch leaves in the direction of
	// the balance.
	Shares []float64
	// Unlimited lets units leave their limits.
	Unlimited bool
}

// maxSlackRounds bounds the rounds of distribute. Each leaves the change of losses that the last one made, which is a few
// hundredths of it.
const maxSlackRounds = 50

func (y *Slack) validate(units int) error {
	if y == nil || y.Shares == nil {
		return nil
	}
	if len(y.Shares) != units {
		return fmt.Errorf("powerflow: %d shares for %d units", len(y.Shares), units)
	}
	sum := 0.0
	for g, share := range y.Shares {
		sum += share
		if !(share >= 0) || math.IsInf(share, 1) {
			return fmt.Errorf("powerflow: the share of unit %d is %g: want 0 or more, and finite", g, share)
		}
	}
	if !(sum > 0) || math.IsInf(sum, 1) {
		return fmt.Errorf("powerflow: the shares of units add up to %g: give one above 0 to a unit whose power can change", sum)
	}
	return nil
}

// distribute solves power flows until units share what the references take up. An island none of whose units has a share
// leaves it to its reference, and so does one whose units are all at their limits.
func (s *Solver) distribute(input Input, opt Options, out *Solution) error {
	n, slack := s.net, opt.Slack
	opt.Slack = nil
	dispatch := pick(input.Pg, n.Pg0)
	island, total := n.Islands(), make([]float64, n.Buses()) // what units take up in all, by island
	input.Pg = append([]float64(nil), dispatch...)
	iterations, factorisations := 0, 0
	for round := 0; ; round++ {
		if err := s.Solve(input, opt, out); err != nil {
			return err
		}
		iterations, factorisations = iterations+out.Iterations, factorisations+out.Factorisations
		out.Iterations, out.Factorisations = iterations, factorisations
		if out.Status != Converged {
			return nil
		}
		next, largest := make([]float64, n.Buses()), 0.0
		for g, b := range n.GenBus {
			next[island[b]] += out.Pg[g] - dispatch[g]
		}
		for b := range next {
			largest = max(largest, math.Abs(next[b]-total[b]))
		}
		total = next
		if largest <= cmp.Or(opt.Tolerance, DefaultTolerance)*float64(n.Buses()) { // the mismatches that are left may sum to it
			return nil
		}
		if round == maxSlackRounds {
			out.Status = IterationLimit
			return nil
		}
		for b, amount := range total {
			if amount != 0 {
				s.share(slack, dispatch, input.Pg, island, b, amount)
			}
		}
		opt.Start, opt.KeepLimits = FromSolution, true
	}
}

// share writes the powers with which the units of an island take up an amount: in proportion to their shares, until limits
// are reached.
func (s *Solver) share(slack *Slack, dispatch, pg []float64, island []int, part int, amount float64) {
	n := s.net
	room := func(g int) float64 {
		if amount > 0 {
			return max(n.PMax[g]-dispatch[g], 0)
		}
		return max(dispatch[g]-n.PMin[g], 0)
	}
	weight := make([]float64, len(pg))
	for g, b := range n.GenBus {
		if island[b] != part || s.terminal[g] {
			continue
		}
		pg[g] = dispatch[g]
		if slack.Shares != nil {
			weight[g] = slack.Shares[g]
		} else if r := room(g); !math.IsInf(r, 1) {
			weight[g] = r
		}
	}
	for remaining := amount; ; {
		sum := 0.0
		for _, w := range weight {
			sum += w
		}
		if sum == 0 {
			return
		}
		full := false // whether a unit has reached its limit
		step := remaining / sum
		for g, w := range weight {
			if !slack.Unlimited && w > 0 && math.Abs(step*w) >= room(g) {
				pg[g], weight[g], full = dispatch[g]+math.Copysign(room(g), amount), 0, true
				remaining -= pg[g] - dispatch[g]
			}
		}
		if full {
			continue
		}
		for g, w := range weight {
			if w > 0 {
				pg[g] = dispatch[g] + step*w
			}
		}
		return
	}
}
