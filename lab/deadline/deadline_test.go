package deadline

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/internal/testing/thread"
)

// simulated makes a loop run by a clock that only it moves, and that wakes it late by late. What the
// clock shows is *at.
func simulated(l *loop, late time.Duration) (at *time.Duration) {
	at = new(time.Duration)
	l.now = func() time.Duration { return *at }
	l.sleepUntil = func(t time.Duration) error {
		*at = max(*at, t+late)
		return nil
	}
	return at
}

func nothing(int) error { return nil }

// A decision of three and a half periods is late, the two releases that pass but for the last are
// skipped, and every release is one or the other or decided in time.
func TestOverrunsAreCounted(t *testing.T) {
	const period, releases = 4 * time.Millisecond, 30
	l := newLoop(releases, period, period)
	at := simulated(l, 0)
	require.OK(t, l.run(t.Context(), nothing, func(n int) error {
		if n == 5 {
			*at += period * 7 / 2
		}
		return nil
	}, func(n int) bool { return n != 7 }))
	d := l.result()
	// The one behind it is begun half a period late, and is in time.
	if d.Decisions != releases-2 || d.Skipped != 2 || d.Late != 1 || d.Missed != 3 || d.LongestMiss != 3 || d.Differing != 1 {
		t.Errorf("%+v", d)
	}
	if want := 14e3; d.Response.Max != want || d.Compute.Max != want || d.Jitter.Max != want/7 {
		t.Errorf("the overrun of %v has a response of %v µs", period*7/2, d.Response.Max)
	}
}

// Releases are at multiples of the period from the first, however long decisions take.
func TestReleasesDoNotDrift(t *testing.T) {
	const period, releases = 4 * time.Millisecond, 40
	l := newLoop(releases, period, period)
	at := simulated(l, period/8)
	require.OK(t, l.run(t.Context(), nothing, func(int) error { *at += period / 4; return nil }, func(int) bool { return true }))
	if want := releases*period + period*3/8; *at != want {
		t.Errorf("%d periods of %v took %v, want %v", releases, period, *at, want)
	}
	// A period that begins behind each decision would be a quarter of one later every time.
	response, jitter := l.result().Times()
	for i := range jitter {
		if jitter[i] != 500 || response[i] != 1500 {
			t.Errorf("decision %d: jitter %v µs, response %v µs", i, jitter[i], response[i])
		}
	}
}

// On the machine's clock no release is early, and the thread gives the CPU up for the next.
func TestALoopSleeps(t *testing.T) {
	l := newLoop(30, time.Millisecond, time.Millisecond)
	require.OK(t, l.run(t.Context(), nothing, func(int) error { return nil }, func(int) bool { return true }))
	d := l.result()
	response, jitter := d.Times()
	for i := range response {
		if jitter[i] < 0 || response[i] < jitter[i] {
			t.Errorf("decision %d: jitter %v µs, response %v µs", i, jitter[i], response[i])
		}
	}
	if d.Decisions+d.Skipped != 30 || d.Switches != nil && !(d.CPU.Max >= 0) {
		t.Errorf("%d decisions, %d skipped, with %+v and %+v of CPU time", d.Decisions, d.Skipped, d.Switches, d.CPU)
	}
}

// What was there of a late decision is counted; one in time ends a run of misses.
func TestCausesOfLateDecisions(t *testing.T) {
	const ms = time.Millisecond
	l := newLoop(9, 10*ms, 10*ms)
	l.judge(10*ms, 9*ms, thread.Usage{CPU: 11 * ms, Involuntary: 1}, true) // in time
	l.judge(11*ms, 1*ms, thread.Usage{CPU: 2 * ms}, false)
	l.judge(12*ms, 6*ms, thread.Usage{CPU: 11 * ms, Involuntary: 2}, true)
	l.miss()
	l.judge(1*ms, 0, thread.Usage{}, false)
	l.judge(11*ms, 0, thread.Usage{Involuntary: 1}, false)
	if l.late != 3 || l.longest != 3 || l.missedNow != 1 || l.causes != (LateCauses{Released: 1, Switched: 2, Collected: 1, Computing: 1}) {
		t.Errorf("%d late, %d in a row, %+v", l.late, l.longest, l.causes)
	}
}

func TestHistogramOfALoop(t *testing.T) {
	bins := binned([]float64{1, 1.05, 9.99, 100}, []float64{0, 1, 1, 1e15})
	responses, jitters := 0, 0
	for i, b := range bins {
		responses, jitters = responses+b.Response, jitters+b.Jitter
		if i > 0 && (b.Lo != bins[i-1].Hi || math.Abs(b.Hi/b.Lo-math.Pow(10, 0.1)) > 1e-9) {
			t.Errorf("bin %d is [%v, %v) behind one that ends at %v", i, b.Lo, b.Hi, bins[i-1].Hi)
		}
	}
	if responses != 4 || jitters != 4 || bins[0].Jitter != 1 || bins[len(bins)-1].Jitter != 1 {
		t.Errorf("%d responses, %d jitters in %+v", responses, jitters, bins)
	}
	if s := spreadOf([]float64{4, 1, 3, 2}); s.P50 != 2 || s.Max != 4 || s.P90 != 4 {
		t.Errorf("%+v", s)
	}
}

// The collector's cycles in a loop are counted.
func TestCollectorsCycles(t *testing.T) {
	var keep [][]byte
	l := newLoop(20, time.Millisecond, time.Millisecond)
	simulated(l, 0)
	require.OK(t, l.run(t.Context(), nothing, func(int) error {
		keep = append(keep[:0], make([]byte, 8<<20))
		return nil
	}, func(int) bool { return true }))
	if c := l.collector; c.Cycles < 1 || c.Pauses < c.Cycles || !(c.LongestPause > 0) || c.Allocated < float64(l.result().Decisions)*(8<<20) {
		t.Errorf("%d decisions that allocate 8 MiB: %+v", l.result().Decisions, c)
	}
	if len(keep) != 1 {
		t.Fatal("nothing was allocated")
	}
}

// still decides for what it counts: the first time it sees a state and ever after, or, moody, by
// how often it was asked.
type still struct {
	moody  bool
	calls  float64
	resets int
	fails  error
}

func (s *still) Reset(domain.Episode) error { s.resets++; return nil }

func (s *still) Decide(state, _ []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	clear(u)
	u[0] = -0.1 * state[0]
	if s.calls++; s.moody {
		u[0] += 1e-9 * s.calls
	}
	return domain.Decided(true), s.fails
}

func cart() *domain.Case {
	p := testdomain.NewCart(8)
	return &domain.Case{Problem: p, Plant: closedloop.Simulated(p, testdomain.Starts, testdomain.Start)}
}

// The loop decides the recorded closed loops again and again; a method that does not decide by
// what it is given is found.
func TestALoopDecidesWhatWasRecorded(t *testing.T) {
	opt := DeadlineOptions{Rate: 2000, For: 20 * time.Millisecond, Episodes: 2, Seed: 991, Preference: domain.Preference{Adaptive: true}}
	k := &still{}
	d := require.Get(KeepDeadlines(t.Context(), cart(), k, opt))(t)
	if d.Releases != 40 || d.Period != 500 || d.Deadline != 500 || d.Decisions < 1 || d.Decisions+d.Skipped != 40 || d.Differing != 0 || d.Case != "cart" {
		t.Errorf("%+v", d)
	}
	// Two episodes of eight decisions are recorded, then each eighth decision begins one.
	if want := 2 + (d.Decisions+7)/8; k.resets != want {
		t.Errorf("%d episodes begun for %d decisions, want %d", k.resets, d.Decisions, want)
	}
	if d := require.Get(KeepDeadlines(t.Context(), cart(), &still{moody: true}, opt))(t); d.Differing != d.Decisions {
		t.Errorf("%d of %d moody decisions differ", d.Differing, d.Decisions)
	}
	text := strings.Join(d.Lines(), "\n")
	for _, says := range []string{"2000 times a second", "deadlines missed", "collector:"} {
		if !strings.Contains(text, says) {
			t.Errorf("%q lacks %q", text, says)
		}
	}
}

// planning decides what it has prepared, and does not know what else.
type planning struct {
	still
	prepared int
	next     float64
	ready    bool
}

func (p *planning) Reset(ep domain.Episode) error {
	p.ready = false
	return p.still.Reset(ep)
}

func (p *planning) Decide(s, c []float64, pref domain.Preference, u []float64) (domain.Decision, error) {
	if clear(u); p.ready {
		u[0] = p.next
	}
	p.next, p.ready = u[0]+0.01, false
	return domain.Decided(true), nil
}

func (p *planning) Abilities() *domain.ControllerAbilities {
	return &domain.ControllerAbilities{Prepare: func() error {
		p.prepared++
		p.ready = true
		return nil
	}}
}

// What works between its decisions does so in the recorded loops and before each release but an
// episode's first.
func TestALoopIsPreparedBetweenItsDecisions(t *testing.T) {
	k := &planning{}
	d := require.Get(KeepDeadlines(t.Context(), cart(), k, DeadlineOptions{Rate: 2000, For: 20 * time.Millisecond, Episodes: 2, Seed: 991, Preference: domain.Preference{Adaptive: true}}))(t)
	if want := 2*7 + d.Decisions - (d.Decisions+7)/8; d.Differing != 0 || k.prepared != want {
		t.Errorf("%d of %d decisions differ, prepared %d times, want %d", d.Differing, d.Decisions, k.prepared, want)
	}
}

func TestLoopsThatCannotBe(t *testing.T) {
	good := DeadlineOptions{Rate: 100, For: 50 * time.Millisecond, Preference: domain.Preference{Adaptive: true}}
	for says, change := range map[string]func(o *DeadlineOptions){
		"a rate of 0":        func(o *DeadlineOptions) { o.Rate = 0 },
		"a rate of NaN":      func(o *DeadlineOptions) { o.Rate = math.NaN() },
		"a rate of 1e+07":    func(o *DeadlineOptions) { o.Rate = 1e7 },
		"a loop for 0s":      func(o *DeadlineOptions) { o.For = 0 },
		"0 decisions":        func(o *DeadlineOptions) { o.For = time.Millisecond },
		"36000000 decisions": func(o *DeadlineOptions) { o.Rate, o.For = 1e4, time.Hour },
		"a deadline of -1ms": func(o *DeadlineOptions) { o.Deadline = -time.Millisecond },
		"-1 episodes":        func(o *DeadlineOptions) { o.Episodes = -1 },
	} {
		o := good
		change(&o)
		if _, err := KeepDeadlines(t.Context(), cart(), &still{}, o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: error %v, want %q", o, err, says)
		}
	}
	if _, err := KeepDeadlines(t.Context(), &domain.Case{Problem: testdomain.NewCart(8)}, &still{}, good); err == nil || !strings.Contains(err.Error(), "no plant") {
		t.Errorf("without a plant: %v", err)
	}
	if _, err := KeepDeadlines(t.Context(), cart(), &still{fails: errors.New("no solution")}, good); err == nil || !strings.Contains(err.Error(), "no solution") {
		t.Errorf("a decision that fails: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := KeepDeadlines(ended, cart(), &still{}, good); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
