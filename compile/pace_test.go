package compile

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// TestBudgetHoldsChoiceAndTest: rounds stop in time for the end where references, solves and
// training steps take what they do on a clock of their own.
func TestBudgetHoldsChoiceAndTest(t *testing.T) {
	var elapsed atomic.Int64
	wait := func(d time.Duration) { elapsed.Add(int64(d)) }
	began := time.Unix(0, 0)
	now := func() time.Time { return began.Add(time.Duration(elapsed.Load())) }

	c := sled(t)
	def := *c.Definition()
	plant := *def.Plant.(*closedloop.Simulation)
	solve := plant.Oracle
	plant.Oracle = func(ctx context.Context, s, c []float64, steps int, pref domain.Preference) (float64, [][]float64, error) {
		wait(100 * time.Millisecond)
		return solve(ctx, s, c, steps, pref)
	}
	def.Plant = &plant
	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	opt.Rounds, opt.Budget, opt.TestStarts, opt.Scenarios = 0, 100*time.Second, 300, 8
	var solved, trained int
	opt.Progress = func(p Progress) {
		switch p.Stage {
		case "solve":
			wait(time.Duration(max(0, p.Done-solved)) * 500 * time.Millisecond)
			solved = p.Done
		case "train":
			wait(time.Duration(max(0, p.Done-trained)) * 50 * time.Millisecond)
			trained = p.Done
		}
	}
	got := require.Get(compile(context.Background(), require.Get(gpc.NewCase(def))(t), opt, now))(t)
	if got.Ended != noTimeLeft || len(got.Rounds) < 2 {
		t.Errorf("ended by %q after %d rounds", got.Ended, len(got.Rounds))
	}
	// The test solves for 300 references.
	if end := got.EndSeconds; end < 29.9 || got.Seconds > opt.Budget.Seconds() || got.Seconds < 0.5*opt.Budget.Seconds() {
		t.Errorf("%.1f s of %v, of these %.1f at the end", got.Seconds, opt.Budget, end)
	}
}

// TestFewReferencesAreTimedWhereTheyTakeLong: as many at once as there are threads, until they are enough or a tenth of
// the budget has passed.
func TestFewReferencesAreTimedWhereTheyTakeLong(t *testing.T) {
	for _, v := range []struct {
		reference time.Duration
		want      int64
	}{{100 * time.Millisecond, timedReferences}, {3 * time.Second, 4}, {time.Minute, 2}} {
		var elapsed, solved atomic.Int64
		c, said := sled(t), -1
		plant := *c.Definition().Plant.(*closedloop.Simulation)
		solve := plant.Oracle
		plant.Oracle = func(ctx context.Context, s, c []float64, steps int, pref domain.Preference) (float64, [][]float64, error) {
			solved.Add(1)
			elapsed.Add(int64(v.reference))
			return solve(ctx, s, c, steps, pref)
		}
		now := func() time.Time { return time.Unix(0, elapsed.Load()) }
		r := &run{c: c, dir: t.TempDir(), clock: now, start: now(), opt: Options{Threads: 2, Budget: 100 * time.Second, Progress: func(p Progress) {
			if p.Done <= said {
				t.Errorf("%d of %d after %d", p.Done, p.Total, said)
			}
			said = p.Done
		}}}
		require.OK(t, r.reuseOptima(&plant))
		require.OK(t, r.timeReferences(context.Background()))
		if got := r.journal.Pace.Reference; solved.Load() != v.want || said != int(v.want)-2 || math.Abs(got-v.reference.Seconds()) > 1e-9 {
			t.Errorf("of references of %v %d were solved, and take %v s", v.reference, solved.Load(), got)
		}
	}
}

// updates is a clock on which an update of a training takes as long as each says by the stage.
type updates struct {
	elapsed atomic.Int64 // ns
	done    map[string]int
}

func (u *updates) now() time.Time { return time.Unix(0, u.elapsed.Load()) }

func (u *updates) see(p Progress, each map[string]time.Duration) {
	u.elapsed.Add(int64(max(0, p.Done-u.done[p.Stage])) * int64(each[p.Stage]))
	u.done[p.Stage] = max(p.Done, u.done[p.Stage])
}

// longTraining is a case that wants 200 epochs of its one round, in 100 s of a clock of updates.
func longTraining(t *testing.T) (*gpc.Case, Options, *updates) {
	c := sled(t)
	c.MapSpec().Training.ManifoldEpochs = 200
	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	opt.Rounds, opt.Budget, opt.Threads = 1, 100*time.Second, 1
	return c, opt, &updates{done: map[string]int{}}
}

// TestTheFirstRoundFitsTheBudget: on a clock on which an update takes 50 ms a case that wants 200
// epochs has as many as there is time for, and a run that goes on as many as before.
func TestTheFirstRoundFitsTheBudget(t *testing.T) {
	c, opt, clock := longTraining(t)
	opt.Progress = func(p Progress) {
		clock.see(p, map[string]time.Duration{"train": 50 * time.Millisecond, "time training": 50 * time.Millisecond})
	}
	got := require.Get(compile(context.Background(), c, opt, clock.now))(t)
	if got.Seconds > opt.Budget.Seconds() || got.Seconds < 0.6*opt.Budget.Seconds() || got.Rounds[0].Epochs < 10 || got.Rounds[0].Epochs >= 200 {
		t.Errorf("%d epochs in %v s of %v", got.Rounds[0].Epochs, got.Seconds, opt.Budget)
	}
}

// TestAnEpochIsTimedByAPartOfIt: where it takes long.
func TestAnEpochIsTimedByAPartOfIt(t *testing.T) {
	c, opt, clock := longTraining(t)
	opt.Progress = func(p Progress) {
		clock.see(p, map[string]time.Duration{"train": time.Second, "time training": time.Second})
	}
	got := require.Get(compile(context.Background(), c, opt, clock.now))(t)
	if n := clock.done["time training"]; n < 3 || n > 5 || got.Seconds > 1.1*opt.Budget.Seconds() || got.Rounds[0].Epochs < 1 {
		t.Errorf("an epoch is timed by %d updates, %d epochs took %v s of %v", n, got.Rounds[0].Epochs, got.Seconds, opt.Budget)
	}
}

// TestATrainingIsShortened: updates that take three times as long as when they were timed, as other work began, end in
// time, and where the training goes on after an interruption too.
func TestATrainingIsShortened(t *testing.T) {
	c, opt, clock := longTraining(t)
	ctx, cancel := context.WithCancel(context.Background())
	opt.Progress = func(p Progress) {
		if clock.see(p, map[string]time.Duration{"train": 150 * time.Millisecond, "time training": 50 * time.Millisecond}); time.Duration(clock.elapsed.Load()) > 50*time.Second {
			cancel()
		}
	}
	if _, err := compile(ctx, c, opt, clock.now); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	got := require.Get(compile(context.Background(), c, opt, clock.now))(t)
	if got.Seconds > opt.Budget.Seconds() || got.Seconds < 0.7*opt.Budget.Seconds() || got.Rounds[0].Epochs < 10 {
		t.Errorf("%d epochs in %v s of %v", got.Rounds[0].Epochs, got.Seconds, opt.Budget)
	}
}

// TestCandidatesHaveTheTimeLeft: a slow method is compared from fewer starts, and left out where its test would end
// more than a tenth beyond the budget.
func TestCandidatesHaveTheTimeLeft(t *testing.T) {
	now := time.Unix(0, 0)
	r := &run{c: sled(t), opt: Options{Starts: 200, Threads: 2, Budget: 300 * time.Second}, clock: func() time.Time { return now }, start: now}
	r.journal.Pace = pace{Reference: 0.01, Episodes: map[string]float64{"direct": 0.01, "polish-ahead": 0.5}}
	for _, v := range []struct {
		method string
		spent  float64
		want   int
	}{
		{"polish-ahead", 0, 200},   // 100 s, and 36 s of a test
		{"polish-ahead", 214, 100}, // 50 s
		{"polish-ahead", 260, 20},  // 10 s, and a test of 20
		{"polish-ahead", 320, 0},
		{"direct", 320, 20},
	} {
		r.earlierSeconds = v.spent
		if got := r.choiceStarts(candidate{v.method, 200}); got != v.want {
			t.Errorf("%s after %v s: %d starts, want %d", v.method, v.spent, got, v.want)
		}
	}
	// References of a test that take longer than what is left are no reason to test the faster method.
	r.journal.Pace.Reference, r.earlierSeconds = 20, 260
	if got := r.choiceStarts(candidate{"polish-ahead", 200}); got != 20 {
		t.Errorf("with slow references: %d starts, want 20", got)
	}
}

// TestConfirming: as many starts as a quarter of what is left has room for, five times the held-out ones
// at least and 25 times at most; where no round can follow, no more than have to be.
func TestConfirming(t *testing.T) {
	now := time.Unix(0, 0)
	r := &run{c: sled(t), opt: Options{Starts: 200, TestStarts: 1, Threads: 2, Budget: 1000 * time.Second}, clock: func() time.Time { return now }, start: now}
	for _, v := range []struct {
		reference float64
		rounds    int
		want      int
	}{{0.001, 0, 5000}, {0.1, 0, 2500}, {10, 0, 1000}, {0.001, 1, 1000}} {
		r.journal.Pace.Episodes = map[string]float64{}
		r.journal.Pace.Reference, r.opt.Rounds = v.reference, v.rounds
		if got := r.confirmationStarts(0); got < v.want-5 || got > v.want {
			t.Errorf("%v s a reference, %d rounds: %d starts, want %d", v.reference, v.rounds, got, v.want)
		}
	}
}

// TestAChoiceHasTime: 0.15 of the budget at least, where the rounds have used theirs.
func TestAChoiceHasTime(t *testing.T) {
	r := &run{c: sled(t), opt: Options{Starts: 200, Budget: 100 * time.Second}, clock: func() time.Time { return time.Time{} }}
	for spent, want := range map[float64]float64{0: 75, 60: 75, 70: 85} {
		if r.earlierSeconds = spent; r.choiceEnd() != want {
			t.Errorf("after %v s: until %v s, want %v", spent, r.choiceEnd(), want)
		}
	}
}

// TestReserve is what the slowest method would take, and at most half of a budget.
func TestReserve(t *testing.T) {
	c := sled(t)
	r := &run{c: c, opt: Options{Starts: 200, TestStarts: 1000, Threads: 2, Budget: time.Hour}}
	if got := r.reserve(); got != 900 {
		t.Errorf("%v s of an hour before anything was timed, want a quarter", got)
	}
	r.journal.Pace = pace{Reference: 0.25, Episodes: map[string]float64{"direct": 0.001, "navigator": 0.01, "refine-64-polish-ahead": 0.5}}
	want := 200*0.001 + 200*0.01 + 50*0.5 + 1000*(0.25+0.5/2) + 100*0.5
	if got := r.reserve(); math.Abs(got-want) > 1e-9 {
		t.Errorf("%v s, want %v", got, want)
	}
	r.opt.Budget = 10 * time.Minute
	if got := r.reserve(); got != 300 {
		t.Errorf("%v s of ten minutes, want half", got)
	}
}

// TestAsManyTestsAsThereIsTimeFor: a thousand or down to a hundred, unless a number was asked for.
func TestAsManyTestsAsThereIsTimeFor(t *testing.T) {
	now := time.Unix(0, 0)
	r := &run{c: sled(t), opt: Options{Starts: 200, Threads: 2, Budget: 600 * time.Second}, clock: func() time.Time { return now }, start: now}
	r.journal.Pace = pace{Reference: 0.25, Episodes: map[string]float64{"direct": 0.001, "refine-64-polish-ahead": 0.5}}
	for _, v := range []struct {
		method           string
		spent, requested float64
		want             int
	}{
		{"direct", 0, 0, 1000},                  // a quarter of a second each
		{"direct", 450, 0, 590},                 // 147.5 s, and 0.06 s for the times
		{"refine-64-polish-ahead", 450, 0, 270}, // half a second each, and 13.5 s for the times
		{"refine-64-polish-ahead", 570, 0, 40},  // 20 s, and 10 s for the times
		{"refine-64-polish-ahead", 590, 0, 20},
		{"refine-64-polish-ahead", 700, 30, 30},
		{"refine-64-polish-ahead", 700, 5000, 5000},
	} {
		r.earlierSeconds, r.opt.TestStarts = v.spent, int(v.requested)
		if got := r.testStarts(v.method); got != v.want {
			t.Errorf("%s after %v of 600 s, %v asked for: %d starts, want %d", v.method, v.spent, v.requested, got, v.want)
		}
	}
	r.earlierSeconds, r.opt.TestStarts, r.opt.BudgetCPU = 450, 0, true // three quarters of a second each, and 9 s: CPU time knows no beside
	if got := r.testStarts("refine-64-polish-ahead"); got != 180 {
		t.Errorf("of CPU time there is enough for %d starts, want 180", got)
	}
	for tests, want := range map[int]int{10: 10, 100: 20, 500: 50, 1000: 100, 5000: 100} {
		if got := timedStarts(tests); got != want {
			t.Errorf("%d of %d are timed, want %d", got, tests, want)
		}
	}
}

// TestAsManyHeldOutAsTheBudgetBears: three sets of references in 0.15 of the budget, once for all runs.
func TestAsManyHeldOutAsTheBudgetBears(t *testing.T) {
	now := time.Unix(0, 0)
	for _, v := range []struct {
		reference       float64
		requested, want int
	}{{0, 0, 200}, {0.01, 0, 200}, {0.0625, 0, 160}, {1, 0, 50}, {1, 300, 300}} {
		r := &run{c: sled(t), plant: &closedloop.Simulation{}, dir: t.TempDir(), opt: Options{Starts: v.requested, Budget: 200 * time.Second}, clock: func() time.Time { return now }, start: now}
		r.journal.Pace.Reference = v.reference
		require.OK(t, r.holdOut())
		if r.opt.Starts != v.want {
			t.Errorf("%v s a reference, %d asked for: %d starts, want %d", v.reference, v.requested, r.opt.Starts, v.want)
		}
		r.opt.Starts, r.opt.Budget = v.requested, time.Hour // another run of the same
		if require.OK(t, r.holdOut()); r.opt.Starts != v.want {
			t.Errorf("%v s a reference, %d asked for: %d starts where it goes on, want %d", v.reference, v.requested, r.opt.Starts, v.want)
		}
	}
}

// TestALaterRoundFitsTheBudget: a round whose scenarios gave more samples than those before trains
// for as many epochs as there is time for, and for one at least.
func TestALaterRoundFitsTheBudget(t *testing.T) {
	for _, v := range []struct{ added, want int }{{1000, 60}, {9000, 40}, {1000000, 1}} {
		now := time.Unix(0, 0)
		r := &run{c: sled(t), dir: t.TempDir(), opt: Options{Starts: 200, TestStarts: 1, Threads: 1, Budget: 500 * time.Second}, clock: func() time.Time { return now }, start: now}
		// 0.1 ms a sample and epoch: 10000 samples for 40 epochs take 40 s, of 50 that are left.
		r.journal.Rounds = []Round{{Kind: First, Samples: 1000, Epochs: 60, Seconds: Seconds{Train: 6, Evaluate: 5}}}
		r.earlierSeconds = 450
		if got, err := r.affordableEpochs(context.Background(), 1, 60, v.added); got != v.want || err != nil {
			t.Errorf("%d samples more: %d epochs (%v), want %d", v.added, got, err, v.want)
		}
	}
}

// TestFewerAreHeldOutWhereLoopsAreSlow: references that take a moment leave 200 starts, and episodes in which a
// guard asks a solver again and again fewer, 50 at least, or 20 where 50 would take longer than the budget; only before the first round is finished, and
// not where a number was asked for.
func TestFewerAreHeldOutWhereLoopsAreSlow(t *testing.T) {
	for _, v := range []struct {
		episode       float64
		starts, ended int
		want          int
	}{{0.001, 200, 0, 200}, {0.4, 200, 0, 136}, {5, 200, 0, 50}, {30, 200, 0, 20}, {30, 0, 0, 70}, {30, 200, 1, 200}} {
		r := &run{c: sled(t), opt: Options{Starts: 70, Threads: 2, Budget: 600 * time.Second}, clock: func() time.Time { return time.Time{} }, dir: t.TempDir()}
		r.plant = r.c.Definition().Plant.(*closedloop.Simulation)
		if v.starts > 0 {
			r.opt.Starts = v.starts
		}
		r.journal.Pace = pace{Reference: 0.02, Starts: v.starts, Episodes: map[string]float64{"direct": v.episode}}
		r.journal.Rounds = make([]Round, v.ended)
		require.OK(t, r.reduceHeldOut())
		if r.opt.Starts != v.want {
			t.Errorf("%v s an episode, %d rounds: %d of %d starts, want %d", v.episode, v.ended, r.opt.Starts, v.starts, v.want)
		}
	}
}

// TestABudgetHoldsWhereReferencesAreSlow: a test has fewer starts where the usual least would take longer than the budget.
func TestABudgetHoldsWhereReferencesAreSlow(t *testing.T) {
	for _, v := range []struct {
		reference float64
		want      int
	}{{0.005, 1000}, {0.1, 50}, {0.5, 20}, {30, 20}} {
		r := &run{c: sled(t), opt: Options{Starts: 50, Threads: 2, Budget: 120 * time.Second}, clock: func() time.Time { return time.Time{} }, earlierSeconds: 115}
		r.journal.Pace = pace{Reference: v.reference, Episodes: map[string]float64{"direct": 0}}
		if got := r.testStarts("direct"); got != v.want {
			t.Errorf("%v s a reference: %d starts, want %d", v.reference, got, v.want)
		}
	}
}

// slowRun is a run on a clock on which references, scenarios and decisions take long, and take longer as other work begins.
func slowRun(t *testing.T, reference time.Duration, load float64) (*gpc.Case, Options, func() time.Time) {
	var elapsed atomic.Int64
	wait := func(d time.Duration) { elapsed.Add(int64(d)) }
	c := sled(t)
	def := *c.Definition()
	plant := *def.Plant.(*closedloop.Simulation)
	solve := plant.Oracle
	busy := 1.0
	plant.Oracle = func(ctx context.Context, s, c []float64, steps int, pref domain.Preference) (float64, [][]float64, error) {
		wait(time.Duration(busy * float64(reference)))
		return solve(ctx, s, c, steps, pref)
	}
	def.Plant = &plant
	opt := Options{Out: filepath.Join(t.TempDir(), "sled.safetensors"), Target: 1e-9, Budget: 120 * time.Second, Scenarios: 600, Threads: 1, Seed: 3}
	done := map[string]int{}
	opt.Progress = func(p Progress) {
		took := map[string]time.Duration{"solve": 3 * reference, "train": 5 * time.Millisecond, "time training": 5 * time.Millisecond}[p.Stage]
		if strings.HasPrefix(p.Stage, "drive") {
			took = reference / 10
		}
		if p.Done < done[p.Stage] {
			done[p.Stage] = 0
		}
		wait(time.Duration(busy * float64(took) * float64(max(0, p.Done-done[p.Stage]))))
		if done[p.Stage] = p.Done; strings.HasPrefix(p.Stage, "drive direct") {
			busy = load
		}
	}
	return require.Get(gpc.NewCase(def))(t), opt, func() time.Time { return time.Unix(0, elapsed.Load()) }
}

// endless never ends a scenario by itself.
type endless struct {
	domain.Solver
	ctx  context.Context
	wait func()
}

func (e endless) Abilities() *domain.SolverAbilities {
	return &domain.SolverAbilities{Until: func(ctx context.Context) domain.Solver { return endless{e.Solver, ctx, e.wait} }}
}

func (e endless) Solve(int, []float64, domain.Preference, domain.Scalarization, uint64) ([]domain.Sample, error) {
	for e.ctx.Err() == nil {
		e.wait()
	}
	return nil, e.ctx.Err()
}

// TestABudgetHoldsWhereNothingEnds: a reference has a tenth of it, after which what was driven is solved from; data end with it, and the error says so.
func TestABudgetHoldsWhereNothingEnds(t *testing.T) {
	var elapsed atomic.Int64
	wait := func() {
		time.Sleep(time.Millisecond)
		elapsed.Add(int64(time.Second))
	}
	now := func() time.Time { return time.Unix(0, elapsed.Load()) }
	def := *sled(t).Definition()
	plant := *def.Plant.(*closedloop.Simulation)
	def.Plant = &plant
	plant.Oracle = func(ctx context.Context, _, _ []float64, _ int, _ domain.Preference) (float64, [][]float64, error) {
		for ctx.Err() == nil {
			wait()
		}
		return math.NaN(), nil, ctx.Err()
	}
	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	opt.Budget, opt.Threads, opt.Rounds, opt.Starts, opt.TestStarts = 120*time.Second, 1, 1, 2, 2
	got := require.Get(compile(t.Context(), require.Get(gpc.NewCase(def))(t), opt, now))(t)
	if missing := got.Test.NoReference; got.Seconds > 132 || got.Test.Episodes != 2 || got.Test.Referenced != 2 || len(missing) != 0 {
		t.Errorf("%.0f s, met %v from %d starts: %+v", got.Seconds, got.Met, got.Test.Episodes, missing)
	}
	elapsed.Store(0)
	def.Solver = endless{Solver: def.Solver, wait: wait}
	opt.Out = filepath.Join(t.TempDir(), "sled.safetensors")
	if _, err := compile(t.Context(), require.Get(gpc.NewCase(def))(t), opt, now); err == nil || !strings.Contains(err.Error(), "ended with 0 of 2 scenarios") {
		t.Error(err)
	}
}

// TestABudgetHoldsForASlowSystem: at most a tenth beyond it, whatever takes long. A test of few starts meets no target, and the advice
// says why.
func TestABudgetHoldsForASlowSystem(t *testing.T) {
	for _, v := range []struct {
		reference time.Duration
		load      float64
	}{{20 * time.Millisecond, 3}, {time.Second, 3}, {5 * time.Second, 1}} {
		c, opt, now := slowRun(t, v.reference, v.load)
		got := require.Get(compile(context.Background(), c, opt, now))(t)
		if got.Seconds > 1.1*opt.Budget.Seconds() || got.Seconds < 0.5*opt.Budget.Seconds() {
			t.Errorf("references of %v, later %v times that: %.1f s of %v", v.reference, v.load, got.Seconds, opt.Budget)
		}
		if short := got.Test.Episodes < fewestStarts; short != strings.Contains(got.Advice, "no time to test") || short && got.Met {
			t.Errorf("references of %v: met %v from %d starts, advice %q", v.reference, got.Met, got.Test.Episodes, got.Advice)
		}
	}
}

// TestDataThatTimeEndedIsNotContinued: a run that is interrupted in the training goes on with the same scenarios.
func TestDataThatTimeEndedIsNotContinued(t *testing.T) {
	c, opt, now := slowRun(t, 100*time.Millisecond, 1)
	ctx, cancel := context.WithCancel(context.Background())
	see, solves := opt.Progress, 0
	opt.Progress = func(p Progress) {
		if see(p); p.Stage == "solve" {
			solves = p.Done
		} else if p.Stage == "train" {
			cancel()
		}
	}
	if _, err := compile(ctx, c, opt, now); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	opt.Progress = func(p Progress) {
		if see(p); p.Stage == "solve" && p.Round == nil {
			t.Errorf("%d of %d are solved for", p.Done, p.Total)
		}
	}
	opt.Rounds = 1
	if got := require.Get(compile(context.Background(), c, opt, now))(t); got.Rounds[0].Scenarios != solves || solves >= 600 {
		t.Errorf("%d scenarios, %d before the interruption", got.Rounds[0].Scenarios, solves)
	}
}

// TestAnErrorIsNotADeadline: where the time of a part is up, its end is an error of its context alone.
func TestAnErrorIsNotADeadline(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	wrapped, broken := fmt.Errorf("stopped at 3 of 4: %w", context.Canceled), errors.New("the solver is broken")
	for i, v := range []struct {
		ctx, part context.Context
		err       error
		want      bool
	}{
		{t.Context(), ended, wrapped, true}, {t.Context(), ended, broken, false}, {t.Context(), ended, nil, false},
		{t.Context(), t.Context(), wrapped, false}, {ended, ended, wrapped, false},
	} {
		if got := cutShort(v.ctx, v.part, v.err); got != v.want {
			t.Errorf("%d: %v is cut short: %v", i, v.err, got)
		}
	}
}

// slowPlant has steps that wait.
type slowPlant struct {
	domain.Plant
	wait func()
}

func (p slowPlant) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	ep, err := p.Plant.Episode(seed, index, opt)
	return slowEpisode{ep, p.wait}, err
}

type slowEpisode struct {
	domain.Episode
	wait func()
}

func (e slowEpisode) Abilities() *domain.EpisodeAbilities {
	return domain.AbilitiesOfEpisode(e.Episode)
}

func (e slowEpisode) Apply(u []float64) (domain.Outcome, error) {
	e.wait()
	return e.Episode.Apply(u)
}

// TestABudgetEndsAnEpisode: one that takes longer than the budget, as where its guard asks a solver at every decision. No loop ends
// then, and the report says so. A run that goes on does not drive beyond the budget either.
func TestABudgetEndsAnEpisode(t *testing.T) {
	y := system()
	y.Steps = 60
	def := require.Get(y.Case())(t)
	var elapsed atomic.Int64
	opt := Options{Out: filepath.Join(t.TempDir(), "sled.safetensors"), Budget: 100 * time.Second, Plain: true, Threads: 1, Seed: 3}
	def.Plant = slowPlant{def.Plant, func() { elapsed.Add(int64(opt.Budget / 40)) }}
	c, now := require.Get(gpc.NewCase(def))(t), func() time.Time { return time.Unix(0, elapsed.Load()) }
	for range 2 {
		got := require.Get(compile(context.Background(), c, opt, now))(t)
		if got.Seconds > 1.1*opt.Budget.Seconds() {
			t.Errorf("%.1f s of %v", got.Seconds, opt.Budget)
		}
		if got.Met || got.Test.Episodes != 0 || got.Choice[0].Method != "direct" || !strings.Contains(got.Advice, "no time to test more than 0 starts") {
			t.Errorf("met %v from %d starts by %v, advice %q", got.Met, got.Test.Episodes, got.Choice, got.Advice)
		}
	}
}

// Data are late by the time that counts: work outside the budget cuts none, however long it takes.
func TestExcludedWorkCutsNothing(t *testing.T) {
	for _, excluded := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(context.Background())
			r := &run{opt: Options{Budget: time.Second}, clock: time.Now, start: time.Now(), dir: t.TempDir()}
			r.inTime, r.cut = context.WithCancel(ctx)
			defer r.cut()
			r.excluded.Store(excluded)
			var ticking sync.WaitGroup
			ticking.Go(func() { r.keepTime(ctx) })
			time.Sleep(4 * graceSeconds * time.Second)
			r.excludedTime.Add(int64(time.Second))
			if cut := r.inTime.Err() != nil; cut == excluded {
				t.Errorf("excluded %v, of a budget of a second: cut %v", excluded, cut)
			}
			stop()
			ticking.Wait()
		})
	}
}
