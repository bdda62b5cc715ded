package compile

import (
	"context"
	"math"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/equations"
	"github.com/gpc-engine/gpc/equations/dual"
	"github.com/gpc-engine/gpc/internal/durable"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// TestASlowerMethodHasToBeatTheFaster: by starts that it does not lose, or by more than chance in what
// it costs from the starts of both.
func TestASlowerMethodHasToBeatTheFaster(t *testing.T) {
	of := func(regrets ...float64) (all []outcome) {
		for _, v := range regrets {
			all = append(all, outcome{regret: v})
		}
		return all
	}
	nan := math.NaN()
	for _, v := range []struct {
		what          string
		slower, other []outcome
		want          bool
	}{
		{"a little less, from some starts more", of(1, 2, 3, 4), of(1.1, 1.8, 3.2, 4), false},
		{"less from every start", of(1, 2, 3, 4), of(2, 3.1, 4, 4.9), true},
		{"more from every start", of(2, 3.1, 4, 4.9), of(1, 2, 3, 4), false},
		{"the first starts alone are compared", of(2, 3), of(2.1, 3.1, 0, 0, 0), true},
		{"an unknown regret is not compared", of(1, nan, 3, 4), of(2, 0, 4.1, nan), true},
		{"one start says nothing", of(1), of(9), false},
		{"a start that is not lost", []outcome{{regret: 9}, {regret: 9}}, []outcome{{failed: true, regret: nan}, {regret: 1}}, true},
		{"a start that is lost", []outcome{{failed: true, regret: nan}, {regret: 1}, {regret: 1}}, of(9, 9, 9.1), false},
	} {
		if got := beats(v.slower, v.other, false); got != v.want {
			t.Errorf("%s: %v", v.what, got)
		}
	}
	// Two starts of fifty cost most: the interval is wider than the mean, and the target decides.
	few, free := make([]outcome, 50), make([]outcome, 50)
	few[3].regret, few[40].regret, free[7].regret = 10, 4, 3
	if beats(free, few, false) || !beats(free, few, true) || beats(few, free, true) {
		t.Error("the mean over the common starts does not decide where the target is missed by the faster method alone")
	}
}

// TestAMethodThatMeetsTheTargetIsChosen: where one dear start leaves open whether it is the better one.
func TestAMethodThatMeetsTheTargetIsChosen(t *testing.T) {
	r := &run{c: sled(t), dir: t.TempDir(), opt: Options{Starts: 20, Target: 1, Tail: 1000, Budget: time.Hour}, clock: time.Now, start: time.Now()}
	r.journal.Cap, r.journal.Pace.Episodes = 1000, map[string]float64{}
	r.journal.Rounds = []Round{{HeldOut: Score{Episodes: 20}}}
	for _, c := range r.candidates() {
		r.journal.Pace.Episodes[c.method] = 0
		d := drive{Score: Score{Method: c.method, Episodes: c.starts}, Starts: make([]start, c.starts)}
		if c.method == "direct" || c.method == "navigator" {
			d.Starts[0].Regret, d.Score.Mean, d.Score.Max = 100, 5, 100
		}
		l := loops{name: "map choice", method: c.method, purpose: heldOut, episodes: c.starts}
		require.OK(t, durable.WriteSealed(r.file(&l), &d))
	}
	if got := require.Get(r.choose(t.Context(), "map", nil))(t); got[0].Method != "polish-ahead" {
		t.Errorf("%s is chosen of %+v", got[0].Method, got)
	}
	delete(r.journal.Pace.Episodes, "polish-ahead")
	for _, s := range require.Get(r.choose(t.Context(), "map", nil))(t) {
		if s.Method == "polish-ahead" {
			t.Error("a method that there was no time to time is tried")
		}
	}
}

// coast moves by the speed alone: an action acts on the position a step later.
func coast[T dual.Scalar](s, _, u, sNext, _ []T) {
	sNext[0], sNext[1] = s[0]+0.2*s[1], s[1]+0.2*u[0]
}

// TestALateDecisionLosesAnEpisode: one that takes longer than the 20 s between two.
func TestALateDecisionLosesAnEpisode(t *testing.T) {
	r := &run{c: sled(t)}
	r.journal.Cap = 10
	e := &closedloop.EpisodeRecord{Lines: []closedloop.Line{{Latency: 10}, {Latency: 2e7}}, End: closedloop.End{Safe: true, Cost: 3, OracleCost: 2}}
	if got := r.outcome(startOf(e, 20)); got.failed || got.regret != 10 {
		t.Errorf("in time: %+v", got)
	}
	e.Lines[1].Latency++
	if got := r.outcome(startOf(e, 20)); !got.failed {
		t.Errorf("a decision in 20.000001 s of 20: %+v", got)
	}
}

// TestALargerSearchIsTriedWhereItHasRoom: between decisions, of which there are 20 s, and in what is left of the budget.
func TestALargerSearchIsTriedWhereItHasRoom(t *testing.T) {
	now := time.Unix(0, 0)
	r := &run{c: sled(t), opt: Options{Starts: 200, Threads: 1, Budget: 1000 * time.Second}, clock: func() time.Time { return now }, start: now}
	r.journal.Pace.Episodes = map[string]float64{"refine-64-ahead": 1}
	const name, search = "map", "refine-64-ahead"
	for _, v := range []struct {
		prepare, cpu closedloop.Number // µs, in 99 of 100, by wall time and by CPU time
		spent        float64           // s
		want         bool
	}{
		{5e6, 0, 0, true},
		{5e6 + 1, 5e6 + 1, 0, false},
		{5e6 + 1, 5e6, 0, true}, // on a busy machine
		{1, 0, 320, true},       // at four seconds an episode 50 starts of the choice, 100 of the test and 20 for the times take 680 s
		{1, 0, 321, false},
	} {
		r.earlierSeconds, r.dir = v.spent, t.TempDir()
		byCPU := loops{name: name + " choice", method: search, purpose: heldOut, episodes: 50, clock: "cpu"}
		require.OK(t, durable.WriteSealed(r.file(&byCPU), &drive{Score: Score{Prepare: &closedloop.Quantiles{P99: v.cpu}}}))
		s := &Score{Method: search, Episodes: 50, Prepare: &closedloop.Quantiles{P99: v.prepare}}
		if got := r.affords(s, 4) && require.Get(r.hasRoom(t.Context(), name, nil, s, 4))(t); got != v.want {
			t.Errorf("%v µs of wall time and %v of CPU time between decisions after %v s: %v", v.prepare, v.cpu, v.spent, got)
		}
	}
	if require.Get(r.hasRoom(t.Context(), name, nil, &Score{Method: search}, 4))(t) {
		t.Error("a method that does nothing between decisions is no search there")
	}
	if late := (Score{Prepare: &closedloop.Quantiles{P99: 2e7 + 1}}); r.fits(&late) || !r.fits(&Score{}) {
		t.Error("what takes longer than a period does not fit, and nothing does")
	}
}

// unpolished is a problem whose solver makes no plan better.
type unpolished struct{ domain.Problem }

func (p unpolished) Abilities() *domain.ProblemAbilities {
	may := *domain.AbilitiesOfProblem(p.Problem)
	may.Polish = nil
	return &may
}

// TestAPolishIsChosenWhereItMeetsTheTarget: no search is tried then, which would take more time between decisions.
func TestAPolishIsChosenWhereItMeetsTheTarget(t *testing.T) {
	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	opt.Rounds, opt.Starts, opt.Target = 1, 40, 0.1
	got := require.Get(Run(context.Background(), sled(t), opt))(t)
	if len(got.Choice) != 3 || got.Choice[0].Method != "polish-ahead" || got.Test.Method != "polish-ahead" || !got.Choice[0].meets(&opt) {
		t.Errorf("choice %+v, tested %s", got.Choice, got.Test.Method)
	}
}

// TestSearchesGrowWhereTheTargetIsMissed: each is tried that follows a chosen one, and chosen where it costs less.
func TestSearchesGrowWhereTheTargetIsMissed(t *testing.T) {
	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	opt.Rounds, opt.Starts = 1, 40
	of := require.Get(system().Case())(t)
	of.Problem = unpolished{of.Problem}
	c := require.Get(gpc.NewCase(of))(t)
	search := (&run{c: c}).searchMethod
	got := require.Get(Run(context.Background(), c, opt))(t)
	cost, last := map[string]closedloop.Number{}, 0
	for _, s := range got.Choice {
		cost[s.Method] = s.Capped
	}
	for i, n := range searches {
		if _, tried := cost[search(n)]; tried && (i == 0 || last == i-1) {
			last = i
		}
	}
	chosen := got.Choice[0].Method
	if last < 1 || len(cost) != len(got.Choice) || chosen != search(searches[last-1]) && (chosen != search(searches[last]) || last != len(searches)-1) {
		t.Fatalf("chosen is %s of %v", chosen, cost)
	}
	for i, n := range searches[1 : last+1] {
		if less := cost[search(n)] < cost[search(searches[i])]; less != (i+1 < last || chosen == search(n)) {
			t.Errorf("of %d roll-outs, %v, the chosen is %s", n, cost, chosen)
		}
	}
}

func before[T dual.Scalar](_, _, _, n, m []T) { m[0] = -n[0] }

// TestTheMapAloneAsksNoSolver: a sled at speed before a stop that its margin leaves no room for is lost
// often, and a round's closed loops without a guard solve for nothing.
func TestTheMapAloneAsksNoSolver(t *testing.T) {
	y := system()
	y.Margins[0].Name = "stop"
	y.Scenario = []domain.Variable{{Name: "q", Unit: "m", Lo: -1, Hi: -0.7}, {Name: "v", Unit: "m/s", Lo: 0.6, Hi: 1.2}}
	y.Real, y.Dual = equations.Functions[float64]{Step: coast[float64], Objectives: objectives[float64], Margins: before[float64]}, equations.Functions[complex128]{Step: coast[complex128], Objectives: objectives[complex128], Margins: before[complex128]}
	def := require.Get(y.Case())(t)
	var calls atomic.Int64
	solve := def.Rescue
	def.Rescue = func(s, c []float64, pref domain.Preference, u []float64) bool {
		calls.Add(1)
		return solve(s, c, pref, u)
	}
	opt := small(filepath.Join(t.TempDir(), "sled.safetensors"))
	opt.Rounds, opt.Starts = 1, 40
	got := require.Get(Run(context.Background(), require.Get(gpc.NewCase(def))(t), opt))(t)
	first := &got.Rounds[0]
	if first.Probed.Unsafe == 0 || first.HeldOut.Unsafe > first.Probed.Unsafe {
		t.Errorf("the map alone loses %d of %d, guarded %d: it was to lose some", first.Probed.Unsafe, first.Probed.Episodes, first.HeldOut.Unsafe)
	}
	if first.Probed.Rescued != 0 {
		t.Errorf("of the map alone %v %% were rescued", first.Probed.Rescued)
	}
	if first.HeldOut.Replaced == 0 || first.HeldOut.Rescued == 0 {
		t.Errorf("%v %% of the guarded decisions were replaced, %v %% rescued: some of both were expected", first.HeldOut.Replaced, first.HeldOut.Rescued)
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("a solver was asked %d times beside the guard's", n)
	}
}

// TestASearchOfSwitchesIsComparedOnAllStarts: a few references say little by a quarter of them.
func TestASearchOfSwitchesIsComparedOnAllStarts(t *testing.T) {
	y := system()
	y.Action[0].Lo, y.Action[0].Hi, y.Switches = 0, 0, []equations.Switch{equations.OneOf("u", -2, 0, 2)}
	switched := require.Get(gpc.NewCase(require.Get(y.Case())(t)))(t)
	for _, v := range []struct {
		c    *gpc.Case
		want int
	}{{sled(t), 3}, {switched, 10}} {
		if got := (&run{c: v.c, opt: Options{Starts: 10}}).searchStarts(); got != v.want {
			t.Errorf("%s: %d starts, want %d", v.c.Name(), got, v.want)
		}
	}
}
