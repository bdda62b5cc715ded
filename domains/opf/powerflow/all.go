package powerflow

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// SolveAll runs the power flows of many inputs, each with the solver's
// admittances, on that many threads, and writes out[k] for in[k]; NewSolution
// made every out. What it writes does not depend on the number of threads, which
// is why the start cannot be Warm. The error is the first input's that cannot be
// used, or the context's.
func (s *Solver) SolveAll(ctx context.Context, in []Input, opt Options, out []*Solution, threads int) error {
	switch {
	case len(in) != len(out):
		return fmt.Errorf("powerflow: %d solutions for %d inputs", len(out), len(in))
	case opt.Start == Warm:
		return fmt.Errorf("powerflow: many inputs at once have no last solution to start from: want FromFile or Flat")
	case threads < 1:
		return fmt.Errorf("powerflow: %d threads: want 1 or more", threads)
	}
	var taken atomic.Int64
	errs := make([]error, len(in))
	work := func(s *Solver) {
		for k := int(taken.Add(1)) - 1; k < len(in) && ctx.Err() == nil; k = int(taken.Add(1)) - 1 {
			errs[k] = s.Solve(in[k], opt, out[k])
		}
	}
	var group sync.WaitGroup
	for range min(threads, len(in)) - 1 {
		other := s.Clone()
		group.Go(func() { work(other) })
	}
	work(s)
	group.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for k, err := range errs {
		if err != nil {
			return fmt.Errorf("input %d: %w", k, err)
		}
	}
	return nil
}
