package acopf

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Chain is a sequence of problems solved one after another, each started from
// the result before it: a sweep of weights under one load, or a trajectory of
// loads.
type Chain struct {
	Problems []Problem
	Results  []Result // len(Problems)
	// Ramp couples the steps: from the second problem on, Previous is the dispatch of
	// the result before and these are the limits, pu, one a generator. Nil for none.
	Ramp []float64
	// AllOrNothing ends the chain at the first problem without an optimum; the rest
	// stay NotSolved. A chain with a Ramp always ends there, as there is no dispatch
	// to go on from.
	AllOrNothing bool
	// Sweep says that the problems differ in their objective only, so that where one
	// is infeasible the rest are, without being attempted (Iterations 0).
	Sweep bool
}

// Complete reports whether every problem of the chain has an optimum.
func (c *Chain) Complete() bool {
	for i := range c.Results {
		if c.Results[i].Status != Optimal {
			return false
		}
	}
	return true
}

// SolveChains solves each chain in order of its problems, different chains side
// by side. Starts that problems name are kept; the others start from the latest
// optimum of their chain, the first from a flat start. Results depend on their
// chain alone. Errors are those of Solve.
func (s *Solver) SolveChains(ctx context.Context, chains []Chain) error {
	for i := range chains {
		c := &chains[i]
		if len(c.Results) != len(c.Problems) {
			return fmt.Errorf("acopf: chain %d: %d results for %d problems", i, len(c.Results), len(c.Problems))
		}
		if c.Ramp != nil && c.Sweep {
			return fmt.Errorf("acopf: chain %d is a sweep with a ramp: a sweep's problems differ in their objective only", i)
		}
		for k := range c.Problems {
			if err := s.check(&c.Problems[k]); err != nil {
				return fmt.Errorf("acopf: chain %d, problem %d: %w", i, k, err)
			}
			c.Results[k].Status, c.Results[k].Iterations = NotSolved, 0
		}
		if err := s.checkRamp(c.Ramp); err != nil {
			return fmt.Errorf("acopf: chain %d: %w", i, err)
		}
	}
	s.work(ctx, nil, nil, chains, len(chains))
	return ctx.Err()
}

// queue hands out problems or chains.
type queue struct {
	ctx      context.Context
	problems []Problem
	results  []Result
	chains   []Chain
	taken    atomic.Int64
}

// job is what a lane works on: one problem, of a chain when there is one.
type job struct {
	problem Problem
	result  *Result
	chain   *Chain
	step    int
	attempt attempt
	latest  *Result // the latest optimum of the chain
}

// next moves on to the chain's next problem or to the queue's. It returns false
// when nothing is left or the context has ended.
func (j *job) next(q *queue) bool {
	if q.ctx.Err() != nil {
		*j = job{}
		return false
	}
	for {
		if j.chain != nil && j.advance() {
			return true
		}
		i := int(q.taken.Add(1)) - 1
		*j = job{}
		switch {
		case i < len(q.problems):
			j.problem, j.result = q.problems[i], &q.results[i]
			j.begin()
			return true
		case i < len(q.chains):
			j.chain, j.step = &q.chains[i], -1
		default:
			return false
		}
	}
}

// advance takes the chain's next problem; false at its end.
func (j *job) advance() bool {
	c := j.chain
	if j.step >= 0 {
		switch {
		case j.result.Status == Optimal:
			j.latest = j.result
		case c.Sweep && j.result.Status == Infeasible:
			for k := j.step + 1; k < len(c.Results); k++ {
				c.Results[k].Status = Infeasible
			}
			return false
		case c.AllOrNothing || c.Ramp != nil:
			return false
		}
	}
	j.step++
	if j.step >= len(c.Problems) {
		return false
	}
	j.problem, j.result = c.Problems[j.step], &c.Results[j.step]
	if j.problem.Start == nil {
		j.problem.Start = j.latest
	}
	if c.Ramp != nil && j.step > 0 {
		j.problem.Previous, j.problem.Ramp = j.latest.Pg, c.Ramp
	}
	j.begin()
	return true
}

// begin chooses the first attempt.
func (j *job) begin() {
	j.attempt = flat
	if j.problem.Start != nil {
		j.attempt = warm
	}
}
