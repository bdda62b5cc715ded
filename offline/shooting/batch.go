package shooting

import (
	"context"
	"fmt"
	"runtime"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/parallel"
)

// Task is one solve of a batch: the arguments of Minimise.
type Task struct {
	S, C       []float64
	Steps      int
	Preference domain.Preference
	How        domain.Scalarization
	Seed       uint64
	Starts     [][][]float64
}

// MinimiseAll solves every task, on so many threads (0: as many as GOMAXPROCS), each
// with a workspace of its own. What it returns in the place of a task is what Minimise
// returns for it; after ctx is done that is its error, for tasks not solved.
func (s *Solver) MinimiseAll(ctx context.Context, tasks []Task, threads int) ([]*Trajectory, []error) {
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	found, failed := make([]*Trajectory, len(tasks)), make([]error, len(tasks))
	s = s.Until(ctx).(*Solver)
	parallel.Each(threads, len(tasks), func(_, i int) {
		if err := ctx.Err(); err != nil {
			failed[i] = fmt.Errorf("shooting: task %d: %w", i, err)
			return
		}
		t := tasks[i]
		found[i], failed[i] = s.Minimise(t.S, t.C, t.Steps, t.Preference, t.How, t.Seed, t.Starts...)
	})
	return found, failed
}
