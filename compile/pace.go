package compile

import (
	"cmp"
	"context"
	"runtime"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/simd/parallel"
	"github.com/gpc-engine/gpc/model"
)

// pace holds the timings that plan the end of a run.
type pace struct {
	// Reference is the time of a reference optimum where every thread solves one, s.
	Reference float64 `json:"reference"`
	// Episodes are the times of an episode on one thread with a cached reference, s, by method.
	Episodes map[string]float64 `json:"episodes,omitempty"`
	// Tests is the number of starts of the last report's test, Reported that of its rounds.
	Tests    int `json:"tests,omitempty"`
	Reported int `json:"reported,omitempty"`
	// Starts is the number of held-out starts where the options leave it open.
	Starts int `json:"starts,omitempty"`
}

const (
	// maxReservedShare of a budget is the most reserved for choice and test, untimedShare what is reserved at least
	// before the methods are timed. What follows a test may use maxOverrun of a budget beyond it.
	maxReservedShare, untimedShare, maxOverrun = 0.5, 0.25, 0.1
	// graceSeconds are the least time beyond the budget in which the least data may be solved.
	graceSeconds = 10
	// timedReferences are solved before the first round, from held-out starts, so that their optima are cached.
	// There are fewer where they would take more than timedReferencesShare of the budget.
	timedReferences, timedReferencesShare = 8, 0.1
	// The share of a choice's episodes that time the method: one in timedShare.
	timedShare = 20
	// The number of held-out starts is such that a round's references take referenceShare of the budget, within
	// minStarts and maxStarts.
	minStarts, maxStarts = 50, 200
	referenceShare       = 0.15
	// A test has as many starts as the time allows; minTests are planned for.
	minTests, maxTests = 100, 1000
	// fewestStarts are held out, compared or tested where the usual least would take longer than the budget. A test that
	// its deadline ends with fewer meets no target.
	fewestStarts = 20
)

// timedStarts is the number of a test's starts that are driven again, one after another, for their times: a tenth, 20
// to 100.
func timedStarts(tests int) int { return min(tests, max(20, min(tests/10, 100))) }
func (r *run) threads() int     { return cmp.Or(r.opt.Threads, runtime.GOMAXPROCS(0)) }

// parallelEpisodes is the number of episodes that run in the time of one; 1 where CPU time counts all threads.
func (r *run) parallelEpisodes() float64 {
	if r.opt.BudgetCPU {
		return 1
	}
	return float64(r.threads())
}

// timeReferences solves and times the first held-out starts.
func (r *run) timeReferences(ctx context.Context) error {
	if r.optima.solve == nil || r.journal.Pace.Reference > 0 {
		return nil
	}
	// Data and references share this, such as a library; it counts for neither.
	if err := r.c.Definition().Solver.Prepare(ctx, r.seed(solved, 0), func(done, total int) {
		r.opt.Progress(Progress{Stage: "prepare", Done: done, Total: total})
	}); err != nil {
		return err
	}
	n := min(timedReferences, cmp.Or(r.opt.Starts, minStarts))
	start, done := r.clock(), 0
	for done < n && (done == 0 || r.since(start) < timedReferencesShare*r.opt.Budget.Seconds()) {
		r.opt.Progress(Progress{Stage: "time references", Done: done, Total: n})
		next := min(n, done+r.threads())
		if err := r.solveReferences(ctx, done, next); err != nil {
			return err
		}
		done = next
	}
	r.journal.Pace.Reference = r.since(start) / float64(done)
	return r.save()
}

// solveReferences solves the held-out starts from and before to that are not cached.
func (r *run) solveReferences(ctx context.Context, from, to int) error {
	if r.optima.solve == nil {
		return nil
	}
	plant, errs := r.c.Definition().Plant, make([]error, to-from)
	parallel.Each(r.threads(), to-from, func(_, i int) {
		ep, err := plant.Episode(r.seed(heldOut, 0), from+i, domain.EpisodeOptions{Preference: adaptive, Context: ctx})
		if errs[i] = err; err == nil {
			_, _, _ = ep.Oracle() // a start without an optimum takes time as well
		}
	})
	return cmp.Or(ctx.Err(), cmp.Or(errs...))
}

// holdOut sets the number of held-out starts, once for all runs.
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

// affordableStarts is the number of held-out starts such that a round's references, and its closed loops once timed,
// take referenceShare of the budget.
func (r *run) affordableStarts() int {
	p := &r.journal.Pace
	affordable := r.opt.Budget.Seconds() / (r.sets() * (p.Reference + p.Episodes["direct"]/r.parallelEpisodes()))
	return int(min(maxStarts, max(min(minStarts, affordable), fewestStarts, referenceShare*affordable)))
}

// sets is the number of sets of starts of a round's map: held out, its own data, probed.
func (r *run) sets() float64 {
	if r.plant == nil {
		return 1
	}
	return 3
}

// reserve is the estimated time of choice, test and solver, s, with the slowest method: at most maxReservedShare of
// the budget.
func (r *run) reserve() float64 {
	var choice, slowest float64
	for _, c := range r.candidates() {
		seconds := r.journal.Pace.Episodes[c.method]
		choice, slowest = choice+float64(c.starts)*seconds, max(slowest, seconds)
	}
	reserved := choice + r.testSeconds(cmp.Or(r.opt.TestStarts, maxTests), slowest)
	if r.journal.Pace.Episodes == nil && len(r.journal.Rounds) == 0 {
		reserved = max(reserved, untimedShare*r.opt.Budget.Seconds())
	}
	return min(reserved, maxReservedShare*r.opt.Budget.Seconds())
}

// choiceStarts is the number of a candidate's starts for which there is time before its test. 0: the candidate is left
// out. It was not timed, or these and fewestStarts of a test would take longer than the budget.
func (r *run) choiceStarts(c candidate) int {
	perEpisode, timed := r.journal.Pace.Episodes[c.method]
	remaining := r.opt.Budget.Seconds() - r.spent()
	room := (remaining - r.testSeconds(cmp.Or(r.opt.TestStarts, minTests), perEpisode)) / max(perEpisode, 1e-9)
	n := int(min(float64(c.starts), max(fewestStarts, room)))
	if c.method != "direct" && (!timed || float64(n+fewestStarts)*perEpisode > remaining) {
		return 0
	}
	return n
}

// testSeconds is the time of a test from the given number of starts, s, and of the exact solver. perEpisode is the
// method's time per episode.
func (r *run) testSeconds(tests int, perEpisode float64) float64 {
	test := float64(tests)*(r.journal.Pace.Reference+perEpisode/r.parallelEpisodes()) + float64(timedStarts(tests))*perEpisode
	return test + float64(r.solverStarts())*r.journal.Pace.Episodes[exactSolver]
}

// testStarts is the number of starts of a method's test: the requested number, or as many as the budget allows, and
// no fewer than those of the previous report.
func (r *run) testStarts(method string) int {
	if r.opt.TestStarts > 0 {
		return r.opt.TestStarts
	}
	perEpisode, remaining := r.journal.Pace.Episodes[method], r.opt.Budget.Seconds()-r.spent()
	n := maxTests
	for n > fewestStarts && r.testSeconds(n, perEpisode) > remaining {
		n -= 10
	}
	return max(n, r.journal.Pace.Tests)
}

// deadline of a part of choice and test is a share of the budget, s of the run. It is 0, none, where there is a report of
// the same rounds.
func (r *run) deadline(share float64) float64 {
	if r.journal.Pace.Reported == len(r.journal.Rounds) {
		return 0
	}
	return share * r.opt.Budget.Seconds()
}

// roundsEnd is when rounds end, s of the run, secondsLeft the time until then.
func (r *run) roundsEnd() float64   { return r.opt.Budget.Seconds() - r.reserve() }
func (r *run) secondsLeft() float64 { return r.roundsEnd() - r.spent() }

// choiceEnd is the deadline of what the choice of a method needs: it has referenceShare of the budget at least, or what is left.
func (r *run) choiceEnd() float64 {
	end, budget := r.spent()+referenceShare*r.opt.Budget.Seconds(), r.opt.Budget.Seconds()
	if r.spent() < budget {
		end = min(end, budget)
	}
	return max(r.roundsEnd(), end)
}

const (
	// A target is confirmed from confirmations times the held-out starts. It is maxConfirmations where that takes no
	// more than confirmationShare of the remaining time: a thousand starts miss a tail of one in a thousand.
	confirmations     = 5
	maxConfirmations  = 25
	confirmationShare = 0.25
)

// confirmationStarts is the number of starts that confirm the target of a round.
func (r *run) confirmationStarts(number int) int {
	fewest, limit := confirmations*r.opt.Starts, maxConfirmations*r.opt.Starts
	perStart := r.journal.Pace.Reference + r.journal.Pace.Episodes["direct"]/r.parallelEpisodes()
	if number+1 == r.opt.Rounds { // the last round
		return fewest
	}
	if room := confirmationShare * r.secondsLeft(); float64(limit)*perStart > room {
		return max(fewest, int(room/perStart))
	}
	return limit
}

// timeMethods times each candidate from a few held-out starts with cached references, and the solver from one, where
// there is time for them.
func (r *run) timeMethods(ctx context.Context, m *model.Model) error {
	share := func(starts int) int { return min(timedReferences, (starts+timedShare-1)/timedShare) }
	if err := r.solveReferences(ctx, 0, share(r.opt.Starts)); err != nil {
		return err
	}
	p, methods, deadline := &r.journal.Pace, r.candidates(), r.choiceEnd()
	if p.Episodes == nil {
		p.Episodes = map[string]float64{}
	}
	if r.has(exactSolver) {
		methods = append(methods, candidate{exactSolver, 1})
	}
	for _, c := range methods {
		if _, timed := p.Episodes[c.method]; timed || c.method != "direct" && r.spent() > deadline {
			continue
		}
		timed, err := r.drive(ctx, loops{name: "timed", gpcCase: r.c, model: m, method: c.method, purpose: heldOut, episodes: share(c.starts), threads: 1, deadline: deadline})
		if err != nil {
			return err
		}
		if n := len(timed.Starts); n > 0 || c.method == "direct" { // no other is used without its time
			p.Episodes[c.method] = timed.Seconds / float64(max(1, n))
		}
	}
	return r.save()
}

// reduceHeldOut reduces the held-out starts where closed loops of the first map take much of the budget, as where a
// guard often asks a solver.
func (r *run) reduceHeldOut() error {
	p := &r.journal.Pace
	if p.Starts == 0 || len(r.journal.Rounds) > 0 {
		return nil
	}
	p.Starts = min(p.Starts, r.affordableStarts())
	r.opt.Starts = p.Starts
	return r.save()
}
