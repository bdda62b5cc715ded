package acopf

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Chain is a sequence of problems solved one after another, each started from
// the result before it, such as a sweep of weights under one load.
type Chain struct {
	Problems []Problem
	Results  []Result // len(Problems)
	// Sweep says that the problems differ in their objective only. If one is infeasible, so are the rest, without
	// an attempt (Iterations 0).
	Sweep bool
}

// SolveChains solves the problems of each chain in order, and several chains at once. A problem without a start begins
// at the latest optimum of its chain, the first one flat. Results depend on their chain alone. Errors are those of Solve.
func (s *Solver) SolveChains(ctx context.Context, chains []Chain) error {
	for i := range chains {
		c := &chains[i]
		if len(c.Results) != len(c.Problems) {
			return fmt.Errorf("acopf: chain %d: %d results for %d problems", i, len(c.Results), len(c.Problems))
		}
		for k := range c.Problems {
			if err := s.check(&c.Problems[k]); err != nil {
				return fmt.Errorf("acopf: chain %d, problem %d: %w", i, k, err)
			}
			c.Results[k].Status, c.Results[k].Iterations = NotSolved, 0
		}
	}
	s.work(ctx, nil, nil, chains, len(chains))
	return ctx.Err()
}

// queue hands out problems or chains.
type queue struct {
	ctx       context.Context
	problems  []Problem
	results   []Result
	chains    []Chain
	nextIndex atomic.Int64
}

// job is the work of a lane: one problem, perhaps of a chain.
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
		i := int(q.nextIndex.Add(1)) - 1
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
