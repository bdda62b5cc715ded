package compile

import (
	"cmp"
	"context"
	"fmt"
	"runtime"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/model"
)

// pace is what the end of a run was timed by.
type pace struct {
	// Reference is the time of a reference optimum where every thread solves one, s.
	Reference float64 `json:"reference"`
	// Episodes are the times of an episode on one thread whose reference is known, s, by method.
	Episodes map[string]float64 `json:"episodes,omitempty"`
	// Epochs are those that a round's training has time for, 0: not known yet.
	Epochs []int `json:"epochs,omitempty"`
	// Tests is how many starts the last report's test was of.
	Tests int `json:"tests,omitempty"`
	// Starts are held out, where no number of them was asked for.
	Starts int `json:"starts,omitempty"`
}

const (
	// mostReserved of a budget is kept for choice and test, whatever they take.
	mostReserved = 0.5
	// timedReferences are solved for before the first round: of held-out starts, so remembered.
	timedReferences = 8
	// One in so many of the episodes of a choice is driven before, to time the method.
	timedShare = 20
	// A round of data has one in leastEpochs of the epochs that it wants, whatever the budget.
	leastEpochs = 10
	// As many starts are held out as leave the references of a round evaluable of the budget.
	leastStarts, mostStarts = 50, 200
	evaluable               = 0.15
	// A test is of as many starts as there is time for.
	leastTests, mostTests = 100, 1000
)

// timed are those of a test's starts that are driven once more, one after another: a tenth, 20 to 100.
func timed(tests int) int { return min(tests, max(20, min(tests/10, 100))) }

func (r *run) threads() int { return cmp.Or(r.opt.Threads, runtime.GOMAXPROCS(0)) }

// beside is how many episodes of one thread take the time of one: CPU time counts every one of them.
func (r *run) beside() float64 {
	if r.opt.BudgetCPU {
		return 1
	}
	return float64(r.threads())
}

// timeReferences solves for the first held-out starts, where references are remembered.
func (r *run) timeReferences(ctx context.Context) error {
	if r.optima.solve == nil || r.journal.Pace.Reference > 0 {
		return nil
	}
	// What data and references share, such as a library, is neither's time.
	if err := r.c.Definition().Solver.Prepare(ctx, r.seed(solved, 0), func(done, total int) {
		r.opt.Progress(Progress{Stage: "prepare", Done: done, Total: total})
	}); err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	n := min(timedReferences, cmp.Or(r.opt.Starts, leastStarts))
	r.opt.Progress(Progress{Stage: "time references", Total: n})
	began := r.now()
	err := r.solveReferences(ctx, n)
	r.journal.Pace.Reference = r.since(began) / float64(n)
	return err
}

// solveReferences solves for those of the first held-out starts that are not known.
func (r *run) solveReferences(ctx context.Context, n int) error {
	if r.optima.solve == nil {
		return nil
	}
	plant, errs := r.c.Definition().Plant, make([]error, n)
	parallel.Each(r.threads(), n, func(_, i int) {
		ep, err := plant.Episode(r.seed(heldOut, 0), i, domain.EpisodeOptions{Preference: adaptive, Context: ctx})
		if errs[i] = err; err == nil {
			_, _, _ = ep.Oracle() // a start without one takes its time too
		}
	})
	return cmp.Or(ctx.Err(), cmp.Or(errs...))
}

// holdOut sets how many starts are held out, once for all runs.
func (r *run) holdOut() error {
	if r.opt.Starts > 0 {
		return nil
	}
	p := &r.journal.Pace
	if p.Starts == 0 {
		p.Starts = r.affordableStarts()
	}
	r.opt.Starts = p.Starts
	return r.save()
}

// affordableStarts is how many held-out starts leave the references of a round, and its closed loops once they
// are timed, evaluable of the budget.
func (r *run) affordableStarts() int {
	p := &r.journal.Pace
	each := r.sets() * (p.Reference + p.Episodes["direct"]/r.beside())
	return int(min(mostStarts, max(leastStarts, evaluable*r.opt.Budget.Seconds()/each)))
}

// sets of starts that a round's map is driven from: held out, the data's own, probed.
func (r *run) sets() float64 {
	if r.plant == nil {
		return 1
	}
	return 3
}

// references is the time of those that a round's closed loops are held to, s, for so many starts of
// each set.
func (r *run) references(starts int) float64 {
	return r.sets() * float64(starts) * r.journal.Pace.Reference
}

// reserve is what choice, test and solver are estimated to take, s, were the slowest method chosen: at
// most mostReserved of the budget.
func (r *run) reserve() float64 {
	var choice, slowest float64
	for _, c := range r.candidates() {
		took := r.journal.Pace.Episodes[c.method]
		choice, slowest = choice+float64(c.starts)*took, max(slowest, took)
	}
	return min(choice+r.testing(cmp.Or(r.opt.TestStarts, mostTests), slowest), mostReserved*r.opt.Budget.Seconds())
}

// testing is what a test from so many starts takes, s, and the solver beside it, with a method of
// which an episode takes so long.
func (r *run) testing(tests int, took float64) float64 {
	test := float64(tests)*(r.journal.Pace.Reference+took/r.beside()) + float64(timed(tests))*took
	return test + float64(r.solverStarts())*r.journal.Pace.Episodes[solver]
}

// tests is how many starts the test of a method has: those that were asked for, or as many as the
// budget has time for, and no fewer than the report that it replaces.
func (r *run) tests(method string) int {
	if r.opt.TestStarts > 0 {
		return r.opt.TestStarts
	}
	took, left := r.journal.Pace.Episodes[method], r.opt.Budget.Seconds()-r.spent()
	n := mostTests
	for n > leastTests && r.testing(n, took) > left {
		n -= 50
	}
	return max(n, r.journal.Pace.Tests)
}

// left is what the rounds have of the budget from now on, s.
func (r *run) left() float64 { return r.opt.Budget.Seconds() - r.reserve() - r.spent() }

const (
	// confirmations are how many times the held-out starts others confirm a target,
	// mostConfirmations where that takes no more than confirmable of the time that is left: a tail
	// that one start in a thousand is in is not seen by a thousand.
	confirmations     = 5
	mostConfirmations = 25
	confirmable       = 0.25
)

// confirming is how many starts confirm the target of a round.
func (r *run) confirming(number int) int {
	least, most := confirmations*r.opt.Starts, mostConfirmations*r.opt.Starts
	each := r.journal.Pace.Reference + r.journal.Pace.Episodes["direct"]/r.beside()
	if number+1 == r.opt.Rounds { // nothing follows from it
		return least
	}
	if room := confirmable * r.left(); float64(most)*each > room {
		return max(least, int(room/each))
	}
	return most
}

// timeMethods drives each method that may be chosen from a few held-out starts, whose references
// are known, and the solver from one.
func (r *run) timeMethods(ctx context.Context, m *model.Model) error {
	if r.journal.Pace.Episodes != nil {
		return nil
	}
	share := func(starts int) int { return min(timedReferences, (starts+timedShare-1)/timedShare) }
	if err := r.solveReferences(ctx, share(r.opt.Starts)); err != nil {
		return err
	}
	took := map[string]float64{}
	for _, c := range r.candidates() {
		n := share(c.starts)
		began := r.now()
		if _, err := r.drive(ctx, loops{of: r.c, model: m, method: c.method, purpose: heldOut, episodes: n, threads: 1}); err != nil {
			return err
		}
		took[c.method] = r.since(began) / float64(n)
	}
	if r.has(solver) {
		began := r.now()
		if _, err := r.drive(ctx, loops{of: r.c, model: m, method: solver, purpose: heldOut, episodes: 1, threads: 1}); err != nil {
			return err
		}
		took[solver] = r.since(began)
	}
	r.journal.Pace.Episodes = took
	return nil
}

// reduceHeldOut holds out fewer starts where closed loops of the first map take much of the budget too, as
// they do where a guard asks a solver often.
func (r *run) reduceHeldOut() error {
	p := &r.journal.Pace
	if p.Starts == 0 || len(r.journal.Rounds) > 0 {
		return nil
	}
	p.Starts = min(p.Starts, r.affordableStarts())
	r.opt.Starts = p.Starts
	return r.save()
}
