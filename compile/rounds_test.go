package compile

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// scored are 200 episodes of mean and largest regret, %, of which one alone may be beyond cap.
func scored(mean, most, cap float64, unsafe, noWay int) Score {
	return Score{
		Episodes: 200, Mean: closedloop.Number(mean), Max: closedloop.Number(most), Capped: closedloop.Number(mean - max(0, most-cap)/200),
		Unsafe: unsafe, NoWay: noWay,
	}
}

// planned is a run with these rounds behind it and an hour before it.
func planned(c *gpc.Case, target float64, rounds ...Round) *run {
	for i := range rounds {
		x := &rounds[i]
		x.Seconds = Seconds{Solve: 1, Train: 1, Evaluate: 1}
		x.Samples, x.Epochs = 1000*(i+1), max(x.Epochs, 10)
		if x.Kind != Epochs {
			x.Scenarios = 100
		}
		if x.Kind == Data {
			x.Focused = 30
		}
	}
	now := time.Unix(0, 0)
	return &run{c: c, opt: Options{Target: target, Tail: 20 * target, Budget: time.Hour}, clock: func() time.Time { return now }, start: now, journal: journal{Cap: 20 * target, Rounds: rounds}}
}

// TestNearlyFreeOptimaDecideNothing: a start at rest, whose optimum costs next to nothing, has the
// regret of hundreds; the rest of the starts decide.
func TestNearlyFreeOptimaDecideNothing(t *testing.T) {
	c := sled(t)
	for name, x := range map[string]struct {
		round Round
		kind  Kind
	}{
		"one other start is at rest": {Round{Training: scored(2, 8, 30, 0, 0), Probed: scored(206.7, 40950, 30, 0, 0), HeldOut: scored(2, 8, 30, 0, 0)}, Epochs},
		"one of its own is":          {Round{Training: scored(206.7, 40950, 30, 0, 0), Probed: scored(7, 28, 30, 0, 0), HeldOut: scored(7, 28, 30, 0, 0)}, Data},
	} {
		x.round.Kind = First
		w, ended := planned(c, 1.5, x.round).nextRound()
		if w.Kind != x.kind || ended != "" {
			t.Errorf("%s: %+v, ended %q", name, w, ended)
		}
		if x.kind == Epochs && strings.Contains(w.Why, "none counted") {
			t.Errorf("%s, and it is said of its own: %q", name, w.Why)
		}
	}
}

// TestRoundsGoOnFromTheBestMap: a round that made things worse is not gone on from, and what it
// tried is not tried again from the same map.
func TestRoundsGoOnFromTheBestMap(t *testing.T) {
	c := sled(t)
	first := Round{Kind: First, Training: scored(2, 8, 30, 0, 0), Probed: scored(2.1, 8, 30, 0, 0), HeldOut: scored(2.2, 8, 30, 0, 0)}
	worse := Round{Kind: Epochs, Epochs: 20, Training: scored(2, 8, 30, 0, 0), Probed: scored(2.1, 8, 30, 0, 0), HeldOut: scored(4.4, 20, 30, 0, 0)}
	r := planned(c, 1.5, first, worse)
	w, _ := r.nextRound()
	if r.best() != 0 || w.Kind != Data || w.From != 0 || w.Epochs != 10 || !strings.Contains(w.Why, "on from the map of round 1, which is better than that of round 2") {
		t.Errorf("after longer training that made it worse: best %d, %+v", r.best(), w)
	}
	better := worse
	better.HeldOut = scored(1.6, 8, 30, 0, 0)
	r = planned(c, 1.5, first, worse, Round{Kind: Data, Training: scored(2, 8, 30, 0, 0), Probed: scored(2, 8, 30, 0, 0), HeldOut: scored(1.9, 8, 30, 0, 0)})
	if w, _ = r.nextRound(); r.best() != 2 || w.Kind != Epochs || w.From != 2 || strings.Contains(w.Why, "on from") {
		t.Errorf("after data that helped: best %d, %+v", r.best(), w)
	}
	r = planned(c, 1.5, first, better)
	if w, _ = r.nextRound(); r.best() != 1 || w.Kind != Epochs || w.Epochs != 40 {
		t.Errorf("after longer training that helped: best %d, %+v", r.best(), w)
	}
	unsafe, confirmed := better, worse
	unsafe.HeldOut.Unsafe = 1
	if r = planned(c, 1.5, first, unsafe); r.best() != 0 {
		t.Error("a cheaper map that is not safe is the best")
	}
	confirmed.HeldOut = scored(1.4, 8, 30, 0, 0)
	confirmed.Confirmed = &Score{Episodes: 1000, Mean: 1.4, Max: 20}
	better.HeldOut = scored(1.3, 8, 30, 0, 0)
	if r = planned(c, 1.5, better, confirmed); r.best() != 1 {
		t.Error("a map that more starts confirmed is not the best")
	}
	// What there is no time for is not replaced by what was tried in vain.
	r = planned(c, 1.5, first, worse)
	r.opt.Budget = 6 * time.Second
	r.earlierSeconds = 4
	if _, ended := r.nextRound(); ended != noTimeLeft {
		t.Errorf("without time for data after epochs in vain: ended %q", ended)
	}
}

// TestNoScoreIsWorseThanAny: a method without a single regret is never the better one.
func TestNoScoreIsWorseThanAny(t *testing.T) {
	none, some := Score{Episodes: 5, Capped: closedloop.Number(math.NaN())}, Score{Episodes: 5, Capped: 9}
	if none.better(&some) || !some.better(&none) {
		t.Error("a mean of nothing is better than one of something")
	}
}

// TestActionsInTheContext: where a map's actions are in what it observes next, data at the states
// that it visits come before longer training.
func TestActionsInTheContext(t *testing.T) {
	c := sled(t)
	plant := c.Definition().Plant.(*closedloop.Simulation)
	if remembersActions(plant) {
		t.Error("the sled's context is a clock, and is said to remember actions")
	}
	remembering := *plant
	remembering.Problem = remembers{plant.Problem}
	if !remembersActions(&remembering) {
		t.Error("a context that holds the last action is said not to")
	}
	first := Round{Kind: First, Training: scored(2, 8, 30, 0, 0), Probed: scored(2.1, 8, 30, 0, 0), HeldOut: scored(2.2, 8, 30, 0, 0)}
	r := planned(c, 1.5, first)
	r.contextHasActions = true
	if w, _ := r.nextRound(); w.Kind != Data || !strings.Contains(w.Why, "remembers actions") {
		t.Errorf("before any visited state: %+v", w)
	}
	second := first
	second.Kind, second.HeldOut = Data, scored(2, 8, 30, 0, 0)
	r = planned(c, 1.5, first, second)
	r.contextHasActions = true
	if w, _ := r.nextRound(); w.Kind != Epochs {
		t.Errorf("after visited states: %+v", w)
	}
}

// remembers is a problem whose context holds the last action in place of its clock.
type remembers struct{ domain.Problem }

func (p remembers) Step(s, c, u, sNext, cNext []float64) {
	p.Problem.Step(s, c, u, sNext, cNext)
	copy(cNext, u)
}

// TestRecordedRounds: of the rounds of compilations of the gallery that were once recorded, this
// rule makes the same, but for cstr, whose epochs it does not begin with nor go on from. Of a
// mean with a largest regret beyond the cap one episode is taken to be.
func TestRecordedRounds(t *testing.T) {
	c := sled(t)
	type scores struct{ training, probed, heldOut Score }
	at := func(cap float64) func(mean, most float64, noWay ...int) Score {
		return func(mean, most float64, noWay ...int) Score {
			s := scored(mean, most, cap, 0, 0)
			if len(noWay) > 0 {
				s.Unsafe, s.NoWay = noWay[0], noWay[1]
			}
			return s
		}
	}
	half, more := at(10), at(30)
	for name, x := range map[string]struct {
		target    float64
		remembers bool
		rounds    []scores
		confirmed map[int]Score
		kinds     []Kind // of the rounds, then of that which follows
		from      []int
	}{
		"cartpole": {0.5, false, []scores{
			{half(1.61, 35.3), half(3.27, 50.9, 5, 0), half(4.33, 103.7)},
			{half(0.786, 15.8), half(0.861, 17), half(0.601, 12.3)},
			{half(0.185, 1.6), half(0.264, 6.3), half(0.245, 3.3)},
			{half(0.117, 2.5), half(0.117, 2.5), half(0.169, 8.74)},
		}, map[int]Score{2: {Episodes: 1000, Mean: 0.361, Max: 52.7}, 3: {Episodes: 1000, Mean: 0.151, Max: 10.06}}, []Kind{First, Data, Epochs, Data, Data}, []int{0, 0, 1, 2, 3}},
		"cartpole-track": {0.5, false, []scores{
			{half(0.385, 30.3, 5, 4), half(0.454, 27.4, 5, 5), half(0.335, 20.8, 6, 6)},
			{half(0.411, 53.1, 4, 4), half(0.335, 14.2, 5, 5), half(0.151, 6.39, 6, 6)},
			{half(0.152, 11.5, 10, 10), half(0.666, 72.4, 7, 7), half(0.233, 26.7, 6, 6)},
		}, map[int]Score{1: {Episodes: 1000, Mean: 0.375, Max: 40.4, Unsafe: 38, NoWay: 38}}, []Kind{First, Epochs, Data, Data}, []int{0, 0, 1, 2}},
		"hvac":                  {1.5, false, []scores{{more(2.02, 10.2), more(2.34, 15.7), more(2.15, 10.4)}}, nil, []Kind{First, Epochs}, []int{0, 0}},
		"cstr, which remembers": {1.5, true, []scores{{more(6.1, 540), more(1.86, 28.2), more(8.29, 1098)}}, nil, []Kind{First, Data}, []int{0, 0}},
		"cstr after epochs": {1.5, true, []scores{
			{more(6.1, 540), more(1.86, 28.2), more(8.29, 1098)},
			{more(271.9, 42385), more(206.7, 21218), more(108.6, 11441)},
		}, nil, []Kind{First, Epochs, Data}, []int{0, 0, 0}},
	} {
		var rounds []Round
		for i, s := range x.rounds {
			round := Round{Kind: x.kinds[i], From: x.from[i], Training: s.training, Probed: s.probed, HeldOut: s.heldOut}
			if more, ok := x.confirmed[i]; ok {
				round.Confirmed = &more
			}
			rounds = append(rounds, round)
		}
		for n := range rounds {
			r := planned(c, x.target, rounds[:n+1]...)
			r.contextHasActions = x.remembers && n == len(rounds)-1
			if w, ended := r.nextRound(); w.Kind != x.kinds[n+1] || w.From != x.from[n+1] || ended != "" {
				t.Errorf("%s after round %d: %s from the map of round %d, ended %q, want %s from that of round %d", name, n+1, w.Kind, w.From+1, ended, x.kinds[n+1], x.from[n+1]+1)
			}
		}
	}
}

// TestTrainingGoesOnFromTheRound that it is told, not from the last.
func TestTrainingGoesOnFromTheRound(t *testing.T) {
	c, out := sled(t), filepath.Join(t.TempDir(), "sled.safetensors")
	opt := small(out)
	opt.Rounds, opt.Target = 1, 1e6
	require.Get(Run(context.Background(), c, opt))(t)
	opt.Progress = func(Progress) {}
	r := &run{opt: opt, c: c, dir: out + ".compile", clock: time.Now}
	r.journal.Rounds = make([]Round, 3)
	var sums []string
	for number := range 3 {
		if number > 0 {
			require.Get(r.train(context.Background(), number, &Round{Kind: Epochs, From: 0, Epochs: 1}, r.mapFile(number)+".checkpoint"))(t)
			if m := require.Get(c.Model(r.mapFile(number)))(t); m.Provenance.InitialSHA256 != sums[0] {
				t.Errorf("round %d began with %s, the first map is %s", number+1, m.Provenance.InitialSHA256, sums[0])
			}
		}
		sums = append(sums, require.Get(require.Get(c.Model(r.mapFile(number)))(t).SHA256())(t))
	}
	if sums[1] == sums[0] || sums[2] == sums[1] {
		t.Errorf("the maps are %q", sums)
	}
}
