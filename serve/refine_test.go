package serve

import (
	"context"
	"errors"
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
