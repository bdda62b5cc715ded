package serve

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/model"
	"github.com/gpc-engine/gpc/ocp"
)

// What refines is made by itself: not of a request that is answered or late, nor aside while another is made. It is counted where it is answered by
// what was made.
func TestRefinementsAreMadeByThemselves(t *testing.T) {
	s, _ := bare(t, Options{})
	wrong := errors.New("wrong")
	late := func(j *job) {
		j.request.Deadline = time.Now().Add(-time.Second)
		j.timer.Store(time.NewTimer(time.Hour))
	}
	for name, c := range map[string]struct {
		before, within func(j *job)
		err            error
		made, late     bool
		decisions      int64
	}{
		"in time":                    {made: true, decisions: 1},
		"aside":                      {before: func(j *job) { j.background = true }, made: true},
		"an error":                   {err: wrong, made: true},
		"a panic":                    {within: func(*job) { panic("no way") }, made: true},
		"answered":                   {before: func(j *job) { s.finish(j, Answer{Op: "before"}, nil) }},
		"late before it is made":     {before: late, late: true},
		"late when it is made":       {within: late, made: true, late: true},
		"answered while it is made":  {within: func(j *job) { s.finish(j, Answer{Op: "before"}, nil) }, made: true},
		"a deadline without a clock": {before: func(j *job) { j.request.Deadline = time.Now().Add(-time.Second) }, made: true, decisions: 1},
	} {
		j := asked("a")
		j.op = opRefine
		if c.before != nil {
			c.before(j)
		}
		made, decisions, expired, refused := false, s.decisions.Load(), s.late.Load(), s.refused.Load()
		s.exclusive(j, func() (Answer, error) {
			if made = true; s.refine.TryLock() {
				t.Errorf("%s: another could be made", name)
			}
			if c.within != nil {
				c.within(j)
			}
			return Answer{Refinement: &Refined{}}, c.err
		})
		if !s.refine.TryLock() {
			t.Fatalf("%s: no other can be made", name)
		}
		s.refine.Unlock()
		failed := c.err != nil || name == "a panic"
		if made != c.made || !j.finished() || s.decisions.Load()-decisions != c.decisions || s.late.Load()-expired != int64(index(c.late)) || s.refused.Load()-refused != int64(index(failed)) || (j.err != nil) != failed || panicked(j.err) != (name == "a panic") {
			t.Errorf("%s: made %v, %+v, %v", name, made, j.answer, j.err)
		}
		if r := j.answer.Refinement; r != nil && (r.Late != c.late || j.answer.Op != "refine" || j.answer.Session != "a") || (r == nil) != (failed || j.answer.Op == "before") {
			t.Errorf("%s: %+v", name, j.answer)
		}
	}
	s.refine.Lock()
	j := asked("a")
	if j.background = true; true {
		s.exclusive(j, func() (Answer, error) { return Answer{}, nil })
	}
	if !errors.Is(j.err, ErrBusy) || s.refused.Load() != 2 {
		t.Errorf("aside while another is made: %v, %d refused", j.err, s.refused.Load())
	}
}

// A front has its threads, or a reason why there is none.
func TestWhichFrontsThereAre(t *testing.T) {
	plain := func(*Server, *job) {}
	mapped := func(s *Server, _ *job) { s.opt.Setup.Model = new(model.Model) }
	for name, c := range map[string]struct {
		change func(s *Server, j *job)
		field  string
	}{
		"of no map":              {plain, "op"},
		"of a map":               {mapped, ""},
		"of a map, aside":        {func(s *Server, j *job) { mapped(s, j); j.background = true }, ""},
		"of a map by a deadline": {func(s *Server, j *job) { mapped(s, j); j.front.TimeLimit = 1 }, "deadline_ms"},
		"of another problem's map": {func(s *Server, j *job) {
			mapped(s, j)
			s.controlCase = cartCase(t, func(d *domain.Case) { d.Learned = testdomain.NewCart(8) })
		}, "op"},
		"with a delay": {func(s *Server, j *job) {
			mapped(s, j)
			s.controlCase = cartCase(t, func(d *domain.Case) { d.Delay.Periods = 1 })
		}, "op"},
		"exact":               {func(_ *Server, j *job) { j.exact = 1 }, ""},
		"exact by a deadline": {func(_ *Server, j *job) { j.exact, j.front.TimeLimit = 1, 1 }, ""},
		"exact, aside":        {func(_ *Server, j *job) { j.exact, j.background = 1, true }, "op"},
		"exact with a delay": {func(s *Server, j *job) {
			j.exact = 1
			s.controlCase = cartCase(t, func(d *domain.Case) { d.Delay.Periods = 1 })
		}, "op"},
		"of switches":                  {func(s *Server, _ *job) { s.spec.Switches = make([]domain.Switch, 1) }, ""},
		"of switches by a deadline":    {func(s *Server, j *job) { s.spec.Switches, j.front.TimeLimit = make([]domain.Switch, 1), 1 }, ""},
		"of switches with a map aside": {func(s *Server, j *job) { mapped(s, j); s.spec.Switches, j.background = make([]domain.Switch, 1), true }, "op"},
	} {
		s, _ := bare(t, Options{Threads: 3})
		j := asked("a")
		j.op = opFront
		c.change(s, j)
		err := s.frontable(j)
		if field := ""; err != nil {
			if field = FailureOf(err).Field; field != c.field {
				t.Errorf("%s: %v", name, err)
			}
		} else if c.field != "" || j.front.Threads != 3 {
			t.Errorf("%s: %+v, want an error of %q", name, j.front, c.field)
		}
	}
}

// cartCase is a case of the cart.
func cartCase(t *testing.T, change func(*domain.Case)) *gpc.Case {
	t.Helper()
	d := domain.Case{Problem: testdomain.NewCart(8), Guard: domain.Guard{Off: true}}
	change(&d)
	return require.Get(gpc.NewCase(d))(t)
}

// The exact solver has what the map's front leaves of the time that is stated, of ten seconds at most; the front of switches has all of it.
func TestASolvedFrontHasItsTime(t *testing.T) {
	p := testdomain.NewCart(8)
	solver := require.Get(ocp.New(p, testdomain.Starts, testdomain.Start, ocp.Options{}))(t)
	const s = time.Second
	for _, c := range []struct {
		exact              int
		stated, gone, want time.Duration
	}{
		{3, 0, 0, 10 * s}, {3, 0, 4 * s, 6 * s}, {3, 3 * s, s, 2 * s}, {3, 11 * s, s, 9 * s}, {3, 10 * s, 10 * s, 1}, {3, s, time.Hour, 1},
		{0, 0, s, 10 * s}, {0, 3 * s, s, 3 * s}, {0, 11 * s, s, 10 * s},
	} {
		synctest.Test(t, func(t *testing.T) {
			server, _ := bare(t, Options{})
			server.controlCase = cartCase(t, func(d *domain.Case) { d.Problem, d.Solver = p, solver })
			j := asked("")
			j.op, j.exact, j.front.TimeLimit, j.start, j.run = opFront, c.exact, c.stated, time.Now().Add(-c.gone), t.Context()
			server.answerSolvedFront(j)
			a := j.answer
			if j.front.TimeLimit != c.want || len(j.front.Weights) != c.exact || (j.err == nil) != (c.exact > 0) || !server.exact.TryLock() || a.Same != nil || a.Front != nil || a.HypervolumeRatio != nil || server.decisions.Load() != int64(index(c.exact > 0)) {
				t.Errorf("%+v: %v of %d weightings, %+v, %v", c, j.front.TimeLimit, len(j.front.Weights), a, j.err)
			}
			if c.exact > 0 && (len(a.Exact.Points) != c.exact || a.Op != "front") {
				t.Errorf("%+v: %+v", c, a)
			}
			busy := asked("")
			if server.answerSolvedFront(busy); !errors.Is(busy.err, ErrBusy) { // it is locked above
				t.Errorf("another at once: %v", busy.err)
			}
		})
	}
	// A front of the map that cannot be made is an error, too.
	server, _ := bare(t, Options{})
	j := asked("")
	j.op, j.run = opFront, context.Background()
	if server.answerFront(j); j.err == nil || server.fronts != nil || server.decisions.Load() != 0 {
		t.Errorf("without a map: %+v", j.answer)
	}
}

// Slices are refused where they cannot be had, and say how long the next one waits.
func TestSlicesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := bare(t, Options{})
		s.asideQueue = make(chan *job)
		ctx, end := contextOf(t)
		ask := func() (time.Duration, error) {
			start := time.Now()
			_, err := s.Aside().Decide(ctx, "a", Request{})
			return time.Since(start), err
		}
		if took, err := ask(); !errors.Is(err, ErrBusy) || took != 2*time.Second {
			t.Errorf("where none is served: %v after %v", err, took)
		}
		time.AfterFunc(time.Second, end)
		if took, err := ask(); !errors.Is(err, context.Canceled) || took != time.Second {
			t.Errorf("whoever has left: %v after %v", err, took)
		}
		ctx = t.Context()
		time.AfterFunc(time.Second, func() { close(s.finished) })
		if took, err := ask(); !errors.Is(err, ErrClosed) || took != time.Second {
			t.Errorf("by a server that ends: %v after %v", err, took)
		}
		if s.Drain(time.Hour); true {
			s.finished = nil
		}
		if took, err := ask(); !errors.Is(err, ErrClosed) || took != 0 {
			t.Errorf("by a server that drains: %v after %v", err, took)
		}
	})
}

// A slice begins at its time: after decisions of others when it has been quiet, or sixteen were made since the last; and after a rest of fifteen times
// the last one while others' sessions are open.
func TestASliceHasItsTurn(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		foreground int
		batches    int64         // since the last slice
		decided    time.Duration // ago
		rests      time.Duration // from now on
		want       time.Duration
	}{
		{0, 0, 0, 0, 0}, {1, 0, 0, 0, 10 * ms}, {1, 15, 0, 0, 10 * ms}, {1, 16, 0, 0, 0}, {1, 0, 4 * ms, 0, 6 * ms}, {1, 0, 10 * ms, 0, 0}, {1, 0, time.Hour, 0, 0},
		{1, 0, 0, 20 * ms, 20 * ms}, {1, 0, 0, 5 * ms, 10 * ms}, {1, 16, 0, 3 * ms, 3 * ms}, {0, 0, 0, 5 * ms, 5 * ms}, {2, 14, 9 * ms, 0, ms},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := bare(t, Options{})
			s.asideQueue = make(chan *job, 1)
			start := time.Now()
			s.foreground, s.asideAt, s.decidedAt, s.asideFrom = c.foreground, 100, start.Add(-c.decided), start.Add(c.rests)
			s.batches.Store(100 + c.batches)
			j := asked("a")
			s.asideQueue <- j
			turn := time.NewTimer(0)
			defer turn.Stop()
			group, ok := s.next(turn)
			if took := time.Since(start); !ok || len(group) != 1 || group[0] != j || took != c.want {
				t.Errorf("%+v: it begins after %v, %v", c, took, ok)
			}
		})
	}
	for _, foreground := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := bare(t, Options{})
			s.foreground = foreground
			s.batches.Store(7)
			j := asked("")
			j.op, j.background, j.task = opInside, true, func() { time.Sleep(2 * time.Second) }
			if s.slice(j); !j.finished() || s.asides.Load() != 1 || s.asideAt != 7 || foreground == 0 && !s.asideFrom.IsZero() || foreground == 1 && time.Until(s.asideFrom) != 30*time.Second {
				t.Errorf("%d in front: %d slices, the next %v from now", foreground, s.asides.Load(), time.Until(s.asideFrom))
			}
			from := s.asideFrom
			bad := asked("a")
			bad.background, bad.request.S = true, nil
			if s.slice(bad); bad.err == nil || FailureOf(bad.err).Field != "s" || s.refused.Load() != 0 || s.asideFrom != from {
				t.Errorf("what is wrong is answered %v, %d refused", bad.err, s.refused.Load())
			}
		})
	}
}

// Where the problem's fallback fails, a request that is late or stale is answered by its error.
func TestAFallbackThatFails(t *testing.T) {
	s, d := bare(t, Options{})
	p := &breaking{Cart: testdomain.NewCart(8)}
	s.problem = p
	p.broken.Store(true)
	for name, answer := range map[string]func(j *job){
		"late":  func(j *job) { s.expire(j) },
		"stale": func(j *job) { j.sess = &session{name: "a", stale: staleAge}; s.answerStale(j) },
	} {
		j := asked("a")
		if answer(j); !panicked(j.err) || j.answer.Decision != nil || j.answer.Session != "a" {
			t.Errorf("%s: %+v, %v", name, j.answer, j.err)
		}
	}
	if s.refused.Load() != 2 || s.late.Load() != 0 || s.replaced.Load() != 0 || s.metrics.refused[refusedPanic].Load() != 2 {
		t.Errorf("%d refused, %d late", s.refused.Load(), s.late.Load())
	}
	// A loop that cannot begin again is logged, and has no plan.
	var noticed []string
	s.opt.Log = logTo(&noticed)
	d.fails = errors.New("no loop")
	s.plans.keep("a", []float64{1, 2})
	if s.restart(&session{name: "a"}); len(noticed) != 1 || noticed[0] != "a control loop cannot be restarted" || s.plans.take("a", []float64{0}) || fmt.Sprint(d.calls) != "[restart a]" {
		t.Errorf("logged %q, told %v", noticed, d.calls)
	}
	// A decision that is there, but after its deadline, is late, and its plan goes on.
	p.broken.Store(false)
	j := asked("a")
	j.request.Deadline = time.Now().Add(-time.Second)
	j.timer.Store(time.NewTimer(time.Hour))
	if s.answerDecision(j, &outcome{&Decision{U: []float64{0.5}}, []float64{0.5, 0.25}, 1, nil}); !j.answer.Decision.Late || s.late.Load() != 1 || s.decisions.Load() != 0 || len(s.plans.plans["a"]) != 1 {
		t.Errorf("%+v, %d late, %d decisions", j.answer.Decision, s.late.Load(), s.decisions.Load())
	}
}
