package serve

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// An observation is stale that is older than the most, as much ahead, or not after the one before; the session is until it is cleared.
func TestObservationsAreStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := bare(t, Options{MaxAge: time.Second})
		now := time.Now()
		for i, c := range []struct {
			observed []time.Duration // before now; 1 h is none
			want     string
		}{
			{[]time.Duration{time.Second}, ""}, {[]time.Duration{time.Second + 1}, staleAge}, {[]time.Duration{-time.Second}, ""}, {[]time.Duration{-time.Second - 1}, staleAge}, {[]time.Duration{0, 0}, staleOrder},
			{[]time.Duration{0, 1}, staleOrder}, {[]time.Duration{1, 0}, ""}, {[]time.Duration{time.Hour}, ""}, {[]time.Duration{0, time.Hour}, ""}, {[]time.Duration{time.Minute, time.Hour}, staleAge}, {[]time.Duration{time.Minute, 0}, staleAge},
		} {
			sess := &session{name: fmt.Sprint(i)}
			d.calls = nil
			s.plans.keep(sess.name, []float64{1, 2})
			outdated := false
			for _, before := range c.observed {
				j := asked(sess.name)
				if j.sess = sess; before != time.Hour {
					j.request.Observed = now.Add(-before)
				}
				outdated = s.outdated(j)
			}
			if sess.stale != c.want || outdated != (c.want != "") || len(d.calls) != len(c.want)/max(1, len(c.want)) || s.plans.take(sess.name, []float64{0}) == (c.want != "") {
				t.Errorf("observed %v before: stale by %q, %v, %v", c.observed, sess.stale, outdated, d.calls)
			}
		}
		s.opt.MaxAge = 0
		j := asked("any")
		j.sess, j.request.Observed = &session{}, now.Add(-time.Hour)
		if s.outdated(j) || !j.sess.observed.Equal(j.request.Observed) {
			t.Errorf("without a largest age: %+v", j.sess)
		}
	})
}

// A session that is idle for as long as it may be gives its place: the one that was asked for longest ago, neither stale nor in the batch.
func TestTheLongestIdleSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			idle time.Duration
			want string // who has ended
		}{"long enough": {3 * time.Second, "close b"}, "not yet": {3*time.Second + 1, ""}, "never": {-1, ""}} {
			s, d := bare(t, Options{SessionIdle: c.idle})
			ago := map[string]time.Duration{"a": 2, "b": 3, "stale": 9, "waits": 8}
			for who, seconds := range ago {
				s.sessions[who] = &session{name: who, lastRequest: time.Now().Add(-seconds * time.Second)}
			}
			s.sessions["stale"].stale, s.sessions["waits"].waits, s.foreground = staleAge, true, 4
			if ended := s.expireIdle(); ended != (c.want != "") || strings.Join(d.calls, ";") != c.want || (s.sessions["b"] == nil) != ended || s.metrics.expired.Load() != int64(index(ended)) || s.foreground != 4-index(ended) {
				t.Errorf("%s: %v, %v", name, ended, d.calls)
			}
		}
		s, _ := bare(t, Options{})
		if s.expireIdle() {
			t.Error("without sessions one ends")
		}
	})
}

// A session begins with its first request, and is refused where there is no place or its loop cannot be opened.
func TestASessionBeginsOnce(t *testing.T) {
	s, d := bare(t, Options{SessionIdle: time.Hour})
	first, again, aside := asked("a"), asked("a"), asked("b")
	require.OK(t, s.begin(first))
	first.sess.lastRequest = time.Time{}
	require.OK(t, s.begin(again))
	if first.sess != again.sess || again.sess.lastRequest.IsZero() || s.foreground != 1 || s.open.Load() != 1 || len(d.calls) != 1 {
		t.Errorf("%+v, %d in front, %d open, %v", again.sess, s.foreground, s.open.Load(), d.calls)
	}
	if err := s.begin(aside); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "holds 1") {
		t.Errorf("a session too many: %v", err)
	}
	s.opt.Sessions, d.fails = 2, errors.New("no loop")
	if err := s.begin(aside); !errors.Is(err, d.fails) || s.open.Load() != 1 || s.sessions["b"] != nil {
		t.Errorf("a loop that cannot be opened: %v", err)
	}
	d.fails, aside.background = nil, true
	require.OK(t, s.begin(aside))
	if s.foreground != 1 || s.open.Load() != 2 {
		t.Errorf("aside: %d in front, %d open", s.foreground, s.open.Load())
	}
	s.plans.keep("b", []float64{1, 2})
	s.end(aside.sess)
	if s.end(first.sess); s.foreground != 0 || s.open.Load() != 0 || s.plans.take("b", []float64{0}) || d.calls[len(d.calls)-1] != "close a" {
		t.Errorf("at the end: %d in front, %d open, %v", s.foreground, s.open.Load(), d.calls)
	}
}

// A controller that outlasted its deadline learns of each decision that was answered meanwhile, up to 64; after more its loop begins anew.
func TestWhatWasMissedIsTold(t *testing.T) {
	for missed, want := range map[int]string{0: "", 1: "missed a", 64: "missed a", 65: "restart a"} {
		s, d := bare(t, Options{})
		sess := &session{name: "a"}
		s.sessions["a"] = sess
		settled := 0
		o := &outlasting{end: make(chan struct{}), settle: func() { settled++ }}
		for range missed {
			o.missed = append(o.missed, asked("a"))
		}
		sess.outlasting = o
		s.plans.keep("a", make([]float64, 100))
		if s.settled(sess) || settled != 0 || len(o.missed) != min(missed, 64) {
			t.Errorf("before its end: settled %d times, %d missed", settled, len(o.missed))
		}
		for len(o.missed) < missed {
			o.missed = append(o.missed, asked("a"))
		}
		close(o.end)
		if !s.settled(sess) || settled != 1 || sess.outlasting != nil || !s.settled(sess) || settled != 1 {
			t.Errorf("at its end: settled %d times", settled)
		}
		slices.Sort(d.calls)
		if n, kinds := len(d.calls), slices.Compact(d.calls); strings.Join(kinds, ";") != want || want == "missed a" && n != missed || want == "restart a" && n != 1 {
			t.Errorf("%d missed: told %d times of %v", missed, n, kinds)
		}
		if left := len(s.plans.plans["a"]); missed <= 64 && left != 99-missed || missed > 64 && left != 0 {
			t.Errorf("%d missed: %d actions of the plan are left", missed, left)
		}
	}
	s, d := bare(t, Options{})
	gone := &session{name: "a", outlasting: &outlasting{end: make(chan struct{}), settle: func() {}, missed: []*job{asked("a")}}}
	if close(gone.outlasting.end); !s.settled(gone) || len(d.calls) != 0 {
		t.Errorf("a session that has ended is told of %v", d.calls)
	}
}

// What a session was told and executed is what it goes on from: of what is measured the estimate, or nothing.
func TestASessionReportsWhatItKnows(t *testing.T) {
	for name, c := range map[string]struct {
		d    *Decision
		y    []float64
		want string
	}{
		"a state":          {&Decision{U: []float64{7}}, nil, "[0.1 0.2] [0] [7]"},
		"an estimate":      {&Decision{U: []float64{7}, Estimate: &Estimate{S: []float64{3, 4}, C: []float64{5}}}, []float64{1}, "[3 4] [5] [7]"},
		"measurements":     {&Decision{U: []float64{7}}, []float64{1}, "[9] [9] [9]"},
		"nothing answered": {nil, nil, "[9] [9] [9]"},
	} {
		sess := &session{s: []float64{9}, c: []float64{9}, u: []float64{9}}
		j := asked("a")
		j.request.Y, j.answer.Decision = c.y, c.d
		sess.report(j)
		if got := fmt.Sprint(sess.s, sess.c, sess.u); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A session that cannot be begun again after a panic, or opened, fails its request alone.
func TestARequestFailsWithItsSession(t *testing.T) {
	s, d := bare(t, Options{Sessions: 3})
	good, gone := asked("a"), asked("b")
	require.OK(t, s.begin(good))
	require.OK(t, s.begin(gone))
	ended := gone.sess
	s.end(ended)
	d.fails = errors.New("no loop")
	s.decide([]*job{good, gone})
	if good.err != nil || good.answer.Decision == nil || gone.err == nil || s.metrics.refused[refusedError].Load() != 1 {
		t.Errorf("%+v, %v", good.answer, gone.err)
	}
	other := asked("c")
	preference := asked("c")
	preference.op = opPreference
	if s.serve([]*job{other, preference}); other.err == nil || preference.err == nil || len(s.sessions) != 1 {
		t.Errorf("%v, %v", other.err, preference.err)
	}
	d.fails = nil
	again := asked("b")
	again.sess = ended
	if s.decide([]*job{again}); again.err != nil || again.sess == ended || s.sessions["b"] != again.sess {
		t.Errorf("begun again: %v", again.err)
	}
	// One whose deadline has come while it waited is told as missed.
	late := asked("a")
	late.sess = s.sessions["a"]
	late.request.Deadline = time.Now().Add(-time.Second)
	late.timer.Store(time.NewTimer(time.Hour))
	d.calls = nil
	if s.decide([]*job{late}); strings.Join(d.calls, ";") != "missed a" || !late.answer.Decision.Late || s.batches.Load() != 2 {
		t.Errorf("%v, %+v", d.calls, late.answer)
	}
	// One whose controller is at work is answered by the fallback, and told later.
	busy := asked("a")
	busy.sess = s.sessions["a"]
	busy.sess.outlasting = &outlasting{end: make(chan struct{})}
	if s.decide([]*job{busy}); !busy.answer.Decision.Late || len(busy.sess.outlasting.missed) != 1 {
		t.Errorf("%+v", busy.answer)
	}
}

// A goal that a session has goes on next to the weights of one of its requests.
func TestASessionsGoalStays(t *testing.T) {
	s, _ := bare(t, Options{})
	j := asked("a")
	require.OK(t, s.begin(j))
	goal := &domain.Goals{First: []int{1}}
	j.sess.preference, j.request.Preference = &domain.Preference{Goal: goal}, &domain.Preference{W: []float64{1, 0}}
	if s.decide([]*job{j}); j.preference.Goal != goal || j.preference.W[0] != 1 {
		t.Errorf("%+v", j.preference)
	}
}
