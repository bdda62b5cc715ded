package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// told notes what a decider is told, and decides at 0.5 by a plan of two.
type told struct {
	calls []string
	fails error // of open and restart
}

func (d *told) note(call string, name string) { d.calls = append(d.calls, call+" "+name) }

func (d *told) open(sess *session) error    { d.note("open", sess.name); return d.fails }
func (d *told) close(sess *session)         { d.note("close", sess.name) }
func (d *told) restart(sess *session) error { d.note("restart", sess.name); return d.fails }
func (d *told) resume(sess *session, obs batchnav.Observation, u []float64) {
	d.note("resume", fmt.Sprint(sess.name, obs.S, u))
}
func (d *told) prepare(s *Server, jobs []*job) { d.note("prepare", fmt.Sprint(len(jobs))) }
func (d *told) decide(s *Server, jobs []*job, answer func(j *job, m *outcome)) {
	for _, j := range jobs {
		d.note("decide", j.session)
		answer(j, &outcome{&Decision{U: []float64{0.5}, Margin: 0.25}, []float64{0.5, -0.25, 0.125}, len(jobs), nil})
	}
}
func (d *told) executed(j *job, u []float64) { d.note("executed", fmt.Sprint(j.session, u)) }
func (d *told) missed(j *job)                { d.note("missed", j.session) }

// bare is a server of the cart without a dispatcher.
func bare(t *testing.T, opt Options) (*Server, *told) {
	t.Helper()
	c := require.Get(gpc.NewCase(domain.Case{Problem: testdomain.NewCart(8), Guard: domain.Guard{Off: true}}))(t)
	opt.Log, opt.Sessions = slog.New(slog.DiscardHandler), max(1, opt.Sessions)
	d := &told{}
	return &Server{
		controlCase: c, spec: c.Spec(), problem: c.Definition().Problem, opt: opt, preference: domain.Preference{Adaptive: true}, sessions: map[string]*session{}, decider: d,
		plans: planTails{plans: map[string][]float64{}, width: 1}, metrics: newMetrics(), queue: make(chan []*job, 1), finished: make(chan struct{}), draining: make(chan struct{}), hurry: make(chan struct{}), start: time.Now(),
	}, d
}

// asked is a decision of a session that waits.
func asked(name string) *job {
	return &job{op: opDecide, session: name, request: Request{S: []float64{0.1, 0.2}, C: []float64{0}}, start: time.Now(), ready: make(chan struct{})}
}

// The bucket of a value is the first whose bound it does not exceed; buckets count what is below them too.
func TestHistogramsAreCumulative(t *testing.T) {
	h := newHistogram([]float64{1, 2, 5})
	for _, v := range []float64{0.5, 1, 1.5, 2, 5, 5.5, 7} {
		h.observe(v)
	}
	var e exposition
	e.histogram("x", "text", h)
	want := "# HELP x text\n# TYPE x histogram\nx_bucket{le=\"1\"} 2\nx_bucket{le=\"2\"} 4\nx_bucket{le=\"5\"} 5\nx_bucket{le=\"+Inf\"} 7\nx_sum 22.5\nx_count 7\n"
	if e.String() != want {
		t.Errorf("%s\nwant %s", e.String(), want)
	}
	e.Reset()
	e.sample("y", -0.5, "a", "1\"\\\n", "b", "2")
	e.one("z", "gauge", "g", 3)
	if want := "y{a=\"1\\\"\\\\\\n\",b=\"2\"} -0.5\n# HELP z g\n# TYPE z gauge\nz 3\n"; e.String() != want {
		t.Errorf("%q, want %q", e.String(), want)
	}
}

// Buckets of batches are the powers of two, those of times 25, 50 and 100 µs and so on in every decade up to 10 s.
func TestBucketsAreThoseOfTheirUnits(t *testing.T) {
	m := newMetrics()
	for i, bound := range m.batch.bounds {
		if bound != float64(int(1)<<i) {
			t.Errorf("batch %d: %v", i, bound)
		}
	}
	for _, h := range []*histogram{m.latency, m.refinement} {
		for i, bound := range h.bounds {
			if want := []float64{25e-6, 50e-6, 100e-6}[i%3] * math.Pow(10, float64(i/3)); math.Abs(bound/want-1) > 1e-12 {
				t.Errorf("time %d: %v, want %v", i, bound, want)
			}
		}
	}
}

// Two states of a session are one where every part is, numbers that are none among them.
func TestStatesAreOneByTheirParts(t *testing.T) {
	of := func(change func(*SessionState)) SessionState {
		a := SessionState{
			Session: "a", Preference: &domain.Preference{W: []float64{0.5, 0.5}}, S: []float64{1, math.NaN()}, C: []float64{2}, U: []float64{3}, ObservedNs: 4, Stale: "late",
		}
		change(&a)
		return a
	}
	for name, change := range map[string]func(*SessionState){
		"session": func(a *SessionState) { a.Session = "b" }, "preference": func(a *SessionState) { a.Preference.W[0] = 0.25 }, "no preference": func(a *SessionState) { a.Preference = nil },
		"state": func(a *SessionState) { a.S[0] = 2 }, "a state for none": func(a *SessionState) { a.S[1] = 1 }, "none for a state": func(a *SessionState) { a.S[0] = math.NaN() },
		"size": func(a *SessionState) { a.S = a.S[:1] }, "context": func(a *SessionState) { a.C[0] = 0 }, "action": func(a *SessionState) { a.U = nil },
		"time": func(a *SessionState) { a.ObservedNs++ }, "stale": func(a *SessionState) { a.Stale = "" },
	} {
		same := of(func(*SessionState) {})
		if other := of(change); same.equal(other) || other.equal(same) || !other.equal(of(change)) {
			t.Errorf("%s: equal is wrong", name)
		}
	}
}

// A decision is counted once by whose action it is, and by each bit of its fallback; the smallest margin is that of all.
func TestAnswersAreCountedByTheirKind(t *testing.T) {
	m := newMetrics()
	smallest := func() float64 { return math.Float64frombits(m.margin.Load()) }
	for i, c := range []struct {
		d        Decision
		kind     int
		smallest float64
	}{
		{Decision{Margin: 2}, kindOwn, 2}, {Decision{Margin: 3, Fallback: uint32(domain.FallbackMethod)}, kindOwn, 2}, {Decision{Margin: math.NaN(), Fallback: uint32(domain.FallbackConservative)}, kindReplaced, 2},
		{Decision{Margin: 0, Fallback: uint32(domain.FallbackConservative), Stale: staleAge}, kindStale, 0}, {Decision{Margin: 1, Stale: staleAge, Late: true}, kindLate, 0}, {Decision{Margin: -1}, kindOwn, -1}, {Decision{Margin: 0}, kindOwn, -1},
	} {
		before := m.decisions[c.kind].Load()
		m.countAnswer(&job{start: time.Now(), answer: Answer{Decision: &c.d}})
		if m.decisions[c.kind].Load() != before+1 || smallest() != c.smallest {
			t.Errorf("decision %d: %d of its kind, the smallest margin is %g, want %g", i, m.decisions[c.kind].Load(), smallest(), c.smallest)
		}
	}
	total, bits := int64(0), int64(0)
	for i := range m.decisions {
		total += m.decisions[i].Load()
	}
	for i := range m.fallbacks {
		bits += m.fallbacks[i].Load()
	}
	var latencies int64
	for i := range m.latency.counts {
		latencies += m.latency.counts[i].Load()
	}
	if total != 7 || bits != 3 || latencies != 7 {
		t.Errorf("%d decisions, %d bits, %d latencies", total, bits, latencies)
	}
	zero := newMetrics()
	zero.countAnswer(&job{start: time.Now(), answer: Answer{Decision: &Decision{Margin: 0, Residual: 3, ResidualLimit: 2}}})
	zero.countAnswer(&job{start: time.Now(), answer: Answer{Decision: &Decision{Margin: 5, Residual: 3}}})
	zero.countAnswer(&job{start: time.Now(), answer: Answer{Decision: &Decision{Margin: 5, Residual: math.NaN(), ResidualLimit: 2}}})
	if zero.margin.Load() == 0 || math.Float64frombits(zero.margin.Load()) != 0 || math.Float64frombits(zero.residual.sum.Load()) != 1.5 {
		t.Errorf("a margin of 0 is stored as %x, ratios sum to %g", zero.margin.Load(), math.Float64frombits(zero.residual.sum.Load()))
	}
	for i, a := range []Answer{{Refinement: &Refined{}}, {Refinement: &Refined{Late: true}}, {Front: &batchnav.Front{}}, {Exact: &batchnav.Front{}}, {}} {
		r := newMetrics()
		r.countAnswer(&job{start: time.Now(), answer: a})
		want := [][3]int64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 0, 1}, {}}[i]
		if got := [3]int64{r.refined[0].Load(), r.refined[1].Load(), r.refined[2].Load()}; got != want {
			t.Errorf("answer %d counts %v, want %v", i, got, want)
		}
	}
}

// Each kind of error has its reason and its status.
func TestErrorsHaveTheirStatus(t *testing.T) {
	for _, c := range []struct {
		err            error
		reason, status int
	}{
		{ErrBusy, refusedBusy, 429}, {fmt.Errorf("x: %w", ErrFull), refusedFull, 429}, {ErrClosed, refusedClosing, 503}, {&FieldError{Field: "session", Err: &panicError{1}}, refusedPanic, 500},
		{jsonin.Errorf("s", "wrong"), refusedInput, 400}, {gpc.BadInput(errors.New("wrong")), refusedInput, 400}, {errors.New("wrong"), refusedError, 500}, {problemf(http.StatusTeapot, "tea"), refusedError, 418},
	} {
		if got := refusalOf(c.err); got != c.reason || statusOf(c.err) != c.status {
			t.Errorf("%v: reason %d, status %d", c.err, got, statusOf(c.err))
		}
	}
	if f := FailureOf(jsonin.Errorf("s", "wrong")); f.Field != "s" || f.Error != "wrong" {
		t.Errorf("%+v", f)
	}
}

// What is left of a plan is taken action by action, until there is none or one is no number.
func TestPlansAreTakenActionByAction(t *testing.T) {
	h, u := planTails{plans: map[string][]float64{}, width: 2}, make([]float64, 2)
	h.keep("a", []float64{1, 2, 3, 4, 5, 6})
	h.keep("b", []float64{1, 2, math.NaN(), 4})
	h.keep("c", []float64{1, 2})
	for i, want := range []string{"true [3 4]", "true [5 6]", "false [5 6]"} {
		if ok := h.take("a", u); fmt.Sprint(ok, u) != want {
			t.Errorf("action %d: %v %v, want %s", i, ok, u, want)
		}
	}
	if h.take("b", u) || h.take("c", u) || h.take("d", u) {
		t.Error("a plan of no number, or of one action, goes on")
	}
	h.keep("a", []float64{1, 2, 3, 4})
	h.keep("a", nil)
	if h.take("a", u) {
		t.Error("a plan that was forgotten goes on")
	}
}

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

// A decision is counted once, as replaced where its action is; the session keeps the rest of its plan. What its deadline answered is told.
func TestADecisionIsAnsweredOnce(t *testing.T) {
	s, d := bare(t, Options{})
	for i, fallback := range []domain.Fallback{0, domain.FallbackConservative} {
		j := asked("a")
		s.answerDecision(j, &outcome{&Decision{U: []float64{0.5}, Fallback: uint32(fallback)}, []float64{0.5, -0.25}, 3, nil})
		if got := j.answer.Decision; got.Batch != 3 || s.decisions.Load() != int64(i+1) || s.replaced.Load() != int64(i) || got.Ahead != nil || !j.finished() || j.answer.Op != "decide" || j.answer.Session != "a" {
			t.Errorf("%+v, %d decisions, %d replaced", got, s.decisions.Load(), s.replaced.Load())
		}
	}
	u := []float64{0}
	if !s.plans.take("a", u) || u[0] != -0.25 {
		t.Errorf("the plan goes on with %v", u)
	}
	aside := asked("b")
	aside.background = true
	s.answerDecision(aside, &outcome{&Decision{U: []float64{1}}, nil, 1, nil})
	late := asked("a")
	late.answer.Decision = &Decision{U: []float64{0.75}}
	late.hasAnswer.Store(true)
	close(late.ready)
	s.answerDecision(late, &outcome{&Decision{U: []float64{0.5}}, nil, 1, nil})
	if strings.Join(d.calls, ";") != "executed a[0.75]" || s.decisions.Load() != 2 {
		t.Errorf("told of %v, %d decisions", d.calls, s.decisions.Load())
	}
	broken := asked("a")
	require.OK(t, s.begin(broken))
	s.answerDecision(broken, &outcome{err: &panicError{"no way"}})
	if broken.err == nil || !strings.Contains(broken.err.Error(), "the session has ended: panic: no way") || s.sessions["a"] != nil || s.panics.Load() != 1 || s.refused.Load() != 1 {
		t.Errorf("a panic: %v, %d sessions, %d panics", broken.err, len(s.sessions), s.panics.Load())
	}
	failed := asked("c")
	require.OK(t, s.begin(failed))
	s.answerDecision(failed, &outcome{err: errors.New("no solution")})
	if failed.err == nil || s.sessions["c"] == nil || s.panics.Load() != 1 || s.metrics.refused[refusedError].Load() != 1 {
		t.Errorf("an error: %v, %d sessions", failed.err, len(s.sessions))
	}
}

// Requests are decided together up to the first that has to wait for one of them; the others answer in their order.
func TestRequestsAreServedInTheirOrder(t *testing.T) {
	s, d := bare(t, Options{Sessions: 9})
	of := func(o op, name string) *job {
		j := asked(name)
		j.op = o
		return j
	}
	preference := of(opPreference, "a")
	preference.request.Preference = &domain.Preference{W: []float64{1, 0}}
	inside := of(opInside, "")
	inside.task = func() { d.note("inside", "") }
	jobs := []*job{asked("a"), asked("b"), asked("a"), preference, asked("c"), of(opHealth, ""), inside, asked("b"), of(opReset, "b"), of(opClear, "c")}
	s.serve(jobs)
	want := "open a;open b;decide a;decide b;prepare 2;decide a;prepare 1;open c;decide c;prepare 1;inside ;decide b;prepare 1;close b"
	if got := strings.Join(d.calls, ";"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for i, j := range jobs {
		if !j.finished() || j.err != nil || (j.answer.Decision != nil) != (j.op == opDecide) || (j.answer.Health != nil) != (j.op == opHealth) {
			t.Errorf("request %d: %+v, %v", i, j.answer, j.err)
		}
	}
	if h := jobs[5].answer.Health; h.Decisions != 4 || h.Batches != 3 || h.LargestBatch != 2 || h.Sessions != 3 || jobs[0].answer.Decision.Batch != 2 || jobs[2].answer.Decision.Batch != 1 {
		t.Errorf("%+v", h)
	}
	if s.sessions["a"].preference.W[0] != 1 || s.sessions["b"] != nil || s.sessions["a"].waits {
		t.Errorf("%+v", s.sessions)
	}
	s.sessions["c"].stale, s.sessions["c"].observed = staleAge, time.Now()
	if s.serve([]*job{of(opClear, "c"), of(opClear, "none"), of(opReset, "none")}); s.sessions["c"].stale != "" || !s.sessions["c"].observed.IsZero() {
		t.Errorf("cleared: %+v", s.sessions["c"])
	}
	// The preference of a decision is its own, its session's or the server's.
	own := asked("a")
	own.request.Preference = &domain.Preference{W: []float64{0, 1}}
	for i, c := range []struct {
		j    *job
		want float64
	}{{own, 1}, {asked("a"), 0}} {
		if p := s.preferenceOf(c.j); p.Adaptive || p.W[1] != c.want {
			t.Errorf("preference %d: %+v", i, p)
		}
	}
	if p := s.preferenceOf(asked("c")); !p.Adaptive {
		t.Errorf("the server's: %+v", p)
	}
}

// The deadline of a request that states none is the server's; that of the period is of decisions alone, and bounded.
func TestDeadlinesOfAServer(t *testing.T) {
	for _, c := range []struct {
		deadline time.Duration
		seconds  float64
		o        op
		want     time.Duration
	}{{0, 1, opDecide, 0}, {time.Minute, 1, opRefine, time.Minute}, {Period, 0.25, opDecide, 250 * time.Millisecond}, {Period, 0.25, opRefine, 0}, {Period, 1e9, opDecide, 24 * time.Hour}} {
		s := &Server{opt: Options{Deadline: c.deadline}, spec: &domain.Spec{StepSeconds: c.seconds}}
		if got := s.deadlineOf(c.o); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// What is wrong with a request is said by its field.
func TestRequestsAreChecked(t *testing.T) {
	s, _ := bare(t, Options{MaxAge: time.Second, Seed: 7, Threads: 3})
	now := time.Now()
	for name, c := range map[string]struct {
		o           op
		change      func(j *job)
		field, says string
	}{
		"good":              {opDecide, func(*job) {}, "", ""},
		"a name of 128":     {opDecide, func(j *job) { j.session = strings.Repeat("x", 128) }, "", ""},
		"a name of 129":     {opDecide, func(j *job) { j.session = strings.Repeat("x", 129) }, "session", "129 bytes, at most 128"},
		"no UTF-8":          {opReset, func(j *job) { j.session = "a\xff" }, "session", "not UTF-8"},
		"a short state":     {opDecide, func(j *job) { j.request.S = j.request.S[:1] }, "s", "the observation"},
		"a long context":    {opRefine, func(j *job) { j.request.C = []float64{0, 0} }, "c", "the observation"},
		"no time":           {opDecide, func(j *job) { j.request.Observed = time.Time{} }, "observed_ms", "at most 1s of age"},
		"no time of others": {opPreference, func(j *job) { j.request.Observed = time.Time{} }, "", ""},
		"weights":           {opPreference, func(j *job) { j.request.Preference = &domain.Preference{W: []float64{2, 0}} }, "preference", ""},
		"no map":            {opRefine, func(*job) {}, "op", "has no map"},
		"a reset":           {opReset, func(j *job) { j.request.S = nil }, "", ""},
	} {
		j := asked("a")
		j.op, j.request.Observed, j.ready = c.o, now, nil
		c.change(j)
		err := s.prepare(j, now)
		if (err == nil) != (c.field == "") || err != nil && (FailureOf(err).Field != c.field || !strings.Contains(err.Error(), c.says)) || j.ready == nil || !j.start.Equal(now) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.refiner = new(gpc.Refiner)
	for _, given := range []int{0, 9} {
		j := asked("a")
		j.op, j.refine.Candidates, j.refine.Seed = opRefine, given, uint64(given)
		if require.OK(t, s.prepare(j, now)); given == 0 && (j.refine.Candidates != 4096 || j.refine.Seed != 7) || given == 9 && (j.refine.Candidates != 9 || j.refine.Seed != 9) || j.refine.Threads != 3 {
			t.Errorf("%+v", j.refine)
		}
	}
}

// A group is queued while there is room, or waits for it; a closed server takes none.
func TestTheQueueHasARoom(t *testing.T) {
	s, _ := bare(t, Options{})
	group := []*job{asked("a")}
	s.asides.Store(5)
	require.OK(t, s.enqueue(group, false))
	if err := s.enqueue(group, false); !errors.Is(err, ErrBusy) || s.pending.Load() != 1 || group[0].asides != 5 {
		t.Errorf("%v, %d pending", err, s.pending.Load())
	}
	if s.dequeue(<-s.queue); s.pending.Load() != 0 {
		t.Errorf("%d pending", s.pending.Load())
	}
	if s.dequeue(nil); s.pending.Load() != 0 {
		t.Errorf("nothing was dequeued, %d are pending", s.pending.Load())
	}
	require.OK(t, s.enqueue(group, true))
	s.closed = true
	if err := s.enqueue(group, true); !errors.Is(err, ErrClosed) || s.pending.Load() != 1 {
		t.Errorf("closed: %v", err)
	}
}

// Lines end with a newline or the end, are of at most so many bytes without it, and come in groups of what is at hand.
func TestLinesAreRead(t *testing.T) {
	read := func(source io.Reader, size, most int) (groups []string, end error) {
		l := &lines{source: bufio.NewReaderSize(source, size), max: most}
		for end == nil {
			var group [][]byte
			group, end = l.group()
			text := ""
			for _, line := range group {
				if text += "|"; line == nil {
					text += "?"
				}
				text += string(line)
			}
			groups = append(groups, text)
		}
		return groups, end
	}
	for text, want := range map[string]string{
		"": "", "\n": "|,", "a\nb\n": "|a|b,", "a\r\nb": "|a,|b,", "1234\n12345\n1\n": "|1234|?|1,", "1234\r\n": "|1234,", "12345": "|?,", strings.Repeat("x", 100) + "\nab\n": "|?|ab,", "a\n\nb": "|a|,|b,",
	} {
		groups, end := read(strings.NewReader(text), 64, 4)
		if got := strings.Join(groups, ","); got != want || !errors.Is(end, io.EOF) {
			t.Errorf("%q: %q, want %q, %v", text, got, want, end)
		}
	}
	stop := errors.New("stop")
	if groups, end := read(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(stop)), 64, 4); !errors.Is(end, stop) || groups[0] != "|a" {
		t.Errorf("%q, %v", groups, end)
	}
	if groups, _ := read(strings.NewReader(strings.Repeat("\n", 1025)), 1<<12, 4); len(groups) != 3 || len(groups[0]) != 1024 || groups[1] != "|" {
		t.Errorf("%d groups", len(groups))
	}
}

// Numbers of a request are within their bounds, each of which they reach.
func TestFieldsAreWithinTheirBounds(t *testing.T) {
	for text, ok := range map[string]bool{"0": false, "1e-3": true, "5": true, "5.001": false, "-1": false, `"5"`: false} {
		ms, present, err := milliseconds(jsonin.Fields{"d": []byte(text)}, "d", 5)
		if (err == nil) != ok || ok && (!present || fmt.Sprint(ms) == "0") {
			t.Errorf("%s ms: %v, %v", text, ms, err)
		}
	}
	if ms, present, err := milliseconds(jsonin.Fields{}, "d", 5); ms != 0 || present || err != nil {
		t.Errorf("no time: %v, %v, %v", ms, present, err)
	}
	for text, ok := range map[string]bool{"1": false, "2": true, "4": true, "5": false, "2.5": false} {
		n := 9
		if err := counts(jsonin.Fields{"n": []byte(text)}, count{"n", &n, 2, 4}); (err == nil) != ok || ok && fmt.Sprint(n) != text {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	n := 9
	if err := counts(jsonin.Fields{}, count{"n", &n, 2, 4}); err != nil || n != 9 {
		t.Errorf("no number: %d, %v", n, err)
	}
	spec := testdomain.NewCart(8).Spec()
	for text, want := range map[string]string{"": "<nil>", "null": "adaptive", "[0.25,0.75]": "[0.25 0.75]", "5": "error", `{"x":1}`: "error"} {
		fields := jsonin.Fields{}
		if text != "" {
			fields["preference"] = []byte(text)
		}
		p, err := preference(fields, spec)
		got := "<nil>"
		switch {
		case err != nil:
			got = "error"
		case p != nil && p.Adaptive:
			got = "adaptive"
		case p != nil:
			got = fmt.Sprint(p.W)
		}
		if got != want || err != nil && FailureOf(err).Field != "preference" {
			t.Errorf("%q: %s, want %s, %v", text, got, want, err)
		}
	}
	for query, want := range map[string]string{"": "", "session=a%20b": "a b", "session=" + strings.Repeat("x", 128): strings.Repeat("x", 128), "session=" + strings.Repeat("x", 129): "!session", "session=%ff": "!session", "session=a&session=b": "!session", "wind=1": "!wind"} {
		values := require.Get(url.ParseQuery(query))(t)
		name, err := sessionOf(values)
		if err != nil {
			name = "!" + FailureOf(err).Field
		}
		if name != want {
			t.Errorf("%.40q: %.40q, want %.40q, %v", query, name, want, err)
		}
	}
}

// A token is a line of 16 to 4096 printable characters; a server's address is a host by http, https or a socket.
func TestTokensAndAddresses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for token, want := range map[string]string{
		strings.Repeat("x", 15): "", strings.Repeat("x", 16): strings.Repeat("x", 16), strings.Repeat("~", 16) + "\r\n": strings.Repeat("~", 16), strings.Repeat("x", 4096) + "\n\n": strings.Repeat("x", 4096), strings.Repeat("x", 4097): "",
		"sixteen characters": "", "!sixteen-or-more!": "!sixteen-or-more!", "sixteen-or-more\x7f": "", "sixteen\nor-more-x": "", "sixteen-or-more-é": "",
	} {
		require.OK(t, os.WriteFile(path, []byte(token), 0o600))
		got, err := ReadToken(path)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%.40q: %.40q, %v", token, got, err)
		}
	}
	if _, err := ReadToken(path + "none"); err == nil || !errors.As(err, new(gpc.InputError)) {
		t.Errorf("no file: %v", err)
	}
	for address, want := range map[string]string{
		"http://host:1": "http://host:1", "https://host/": "https://host", "unix:/a/b": "http://localhost", "unix:": "", "ftp://host": "", "host:1": "", "http://": "", "http://host/path": "", "http://host?x=1": "", "http://me@host": "", "http://host:x": "", ":": "",
	} {
		c, err := Dial(address, ClientOptions{})
		if (err == nil) != (want != "") || err == nil && c.endpoint != want {
			t.Errorf("%s: %+v, %v", address, c, err)
		}
	}
	require.OK(t, os.WriteFile(path, []byte("no certificate"), 0o600))
	for file, says := range map[string]string{path: "holds no certificate", path + "none": "the certificates: "} {
		if _, err := Dial("https://host", ClientOptions{CA: file}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// A session's watchers are told of its decisions alone, of estimates where there are, until they are full or closed.
func TestWatchersAreToldOfTheirSession(t *testing.T) {
	s, _ := bare(t, Options{})
	first, second, other := require.Get(s.Watch("a"))(t), require.Get(s.Watch("a"))(t), require.Get(s.Watch("b"))(t)
	tell := func(name string, d *Decision) {
		j := asked(name)
		j.answer.Decision = d
		s.watchers.tell(j)
	}
	tell("a", &Decision{U: []float64{1}})
	tell("c", &Decision{})
	tell("a", nil)
	tell("a", &Decision{U: []float64{2}, Estimate: &Estimate{S: []float64{5}, C: []float64{6}}})
	for _, w := range []*Watch{first, second} {
		one, two := <-w.Events, <-w.Events
		if one.Number != 1 || two.Number != 2 || one.Session != "a" || fmt.Sprint(one.S, one.C, one.U) != "[0.1 0.2] [0] [1]" || fmt.Sprint(two.S, two.C, two.U) != "[5] [6] [2]" || !(one.AtMs > 1e12) || len(w.Events) != 0 {
			t.Errorf("%+v, %+v", one, two)
		}
	}
	second.Close()
	for i := range events + 1 {
		if s.watchers.count.Load() != 2 {
			t.Fatalf("after %d decisions %d watch", i, s.watchers.count.Load())
		}
		tell("a", &Decision{})
	}
	got := 0
	for range first.Events {
		got++
	}
	if got != events || s.watchers.count.Load() != 1 || s.metrics.dropped.Load() != 1 || len(other.Events) != 0 || len(s.watchers.bySession) != 1 {
		t.Errorf("%d events, %d watch, %d dropped", got, s.watchers.count.Load(), s.metrics.dropped.Load())
	}
	first.Close()
	if other.Close(); s.watchers.count.Load() != 0 || len(s.watchers.bySession) != 0 {
		t.Errorf("%d watch", s.watchers.count.Load())
	}
}

// A decision whose deadline has come has the next action of the plan before where it keeps the limits, of what is refined a plan of the fallback.
func TestWhatIsLateHasTheFallback(t *testing.T) {
	s, _ := bare(t, Options{})
	fallback := make([]float64, 1)
	s.problem.Fallback([]float64{0.1, 0.2}, []float64{0}, fallback)
	for name, c := range map[string]struct {
		o    op
		plan []float64
		want float64
		bits domain.Fallback
	}{
		"no plan": {opDecide, nil, fallback[0], domain.FallbackConservative}, "a plan": {opDecide, []float64{0, 0.25}, 0.25, domain.FallbackIncumbent}, "a plan beyond its limits": {opDecide, []float64{0, 5}, fallback[0], domain.FallbackConservative},
	} {
		s.plans.keep("a", c.plan)
		j := asked("a")
		j.op = c.o
		if d := j.answer.Decision; !s.expire(j) || d != nil {
			t.Errorf("%s: %+v", name, d)
		}
		if d := j.answer.Decision; !d.Late || d.U[0] != c.want || domain.Fallback(d.Fallback) != c.bits || d.Feasible != (d.Margin >= -s.spec.MarginTolerance) || !math.IsNaN(d.Residual) {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if s.late.Load() != 3 {
		t.Errorf("%d late", s.late.Load())
	}
	j := asked("a")
	j.op = opRefine
	s.expire(j)
	if r := j.answer.Refinement; !r.Late || len(r.U) != s.spec.PlanSize() || r.U[0] != fallback[0] || !math.IsNaN(r.Cost) || s.late.Load() != 4 {
		t.Errorf("%+v", r)
	}
	// A session that is stale is answered the fallback, and goes on from it.
	stale := asked("a")
	stale.sess = &session{name: "a", stale: staleOrder}
	s.answerStale(stale)
	if d := stale.answer.Decision; d.Stale != staleOrder || d.U[0] != fallback[0] || stale.sess.u[0] != fallback[0] || s.decisions.Load() != 1 || s.replaced.Load() != 1 || d.Late {
		t.Errorf("%+v", d)
	}
	// What there is no more time for is expired, or refused.
	for _, o := range []op{opDecide, opRefine, opReset, opFront} {
		j := asked("a")
		j.op = o
		if s.giveUp(j); !j.finished() || errors.Is(j.err, ErrClosed) != (o == opReset || o == opFront) {
			t.Errorf("%v: %v", o, j.err)
		}
	}
}

// Requests that wait are counted until they are answered, and refused at the end.
func TestWhatWaitsIsCounted(t *testing.T) {
	s, _ := bare(t, Options{Waiting: 2})
	j := asked("a")
	require.OK(t, s.admit(j))
	if s.queued.Load() != 1 || !j.admitted {
		t.Errorf("%d wait", s.queued.Load())
	}
	if s.finish(j, Answer{}, nil); s.queued.Load() != 0 || s.finish(j, Answer{Op: "again"}, nil) || j.answer.Op != "" {
		t.Errorf("%d wait, answered %+v", s.queued.Load(), j.answer)
	}
	var text strings.Builder
	s.queued.Store(2)
	s.metrics.refining.Store(3)
	if err := s.WriteMetrics(&text); err != nil || !strings.Contains(text.String(), "\ngpc_waiting 5\n") {
		t.Errorf("two that wait and three that refine: %v", err)
	}
	s.queued.Store(0)
	for most, want := range map[int64]int{0: 1, 1: 1, 5: 5} {
		s.opt.Waiting = Measured
		if s.pace.most.Store(most); s.waitingMax() != want {
			t.Errorf("measured %d: %d may wait", most, s.waitingMax())
		}
	}
	s.Drain(time.Hour)
	if err := s.admit(asked("a")); !errors.Is(err, ErrClosed) || !s.Draining() {
		t.Errorf("while it drains: %v", err)
	}
	if _, err := s.ask(context.Background(), asked("a"), time.Now()); !errors.Is(err, ErrClosed) || s.metrics.refused[refusedClosing].Load() != 1 {
		t.Errorf("%v", err)
	}
	if h := s.Health(); h.Status != "closing" {
		t.Errorf("%+v", h)
	}
}

// failing fails to write what is beyond its room.
type failing struct{ room int }

func (w *failing) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room < 0 {
		return 0, errors.New("no room")
	}
	return len(p), nil
}

// Answers that cannot be written end the writing: at a flush before one that is waited for, behind the last at hand, and at the end.
func TestAnswersThatCannotBeWritten(t *testing.T) {
	s, _ := bare(t, Options{})
	answered := func(n int) *job {
		j := asked("a")
		s.finish(j, Answer{Session: strings.Repeat("x", n)}, nil)
		return j
	}
	for name, jobs := range map[string][]*job{"one": {answered(1)}, "large": {answered(1 << 17), answered(1)}, "waiting": {answered(1), asked("b")}} {
		pending := make(chan *job, 9)
		for _, j := range jobs {
			pending <- j
		}
		close(pending)
		hurry := make(chan struct{})
		close(hurry)
		if err := s.answer(pending, &failing{}, hurry); err == nil || err.Error() != "no room" {
			t.Errorf("%s: %v", name, err)
		}
	}
	pending := make(chan *job, 9)
	refused := asked("a")
	s.fail(refused, jsonin.Errorf("s", "wrong"))
	reset := asked("b")
	reset.op = opReset
	pending <- refused
	pending <- reset
	close(pending)
	hurry := make(chan struct{})
	close(hurry)
	var text strings.Builder
	require.OK(t, s.answer(pending, &text, hurry))
	if want := `{"op":"decide","session":"a","error":"wrong","field":"s"}` + "\n" + `{"op":"reset","session":"b","error":"serve: the server is closing","field":""}` + "\n"; text.String() != want {
		t.Errorf("%s, want %s", text.String(), want)
	}
}

// What a client cannot read of an answer is an error that says what was answered.
func TestAnswersThatAClientCannotRead(t *testing.T) {
	reply := ""
	status := 200
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, reply)
	}))
	defer server.Close()
	c := require.Get(Dial(server.URL, ClientOptions{}))(t)
	defer c.Close()
	for _, x := range []struct {
		status      int
		reply, want string
	}{{200, "x", "cannot be read"}, {500, "x", `answers "x"`}, {500, `{"error":""}`, "serve: 500 Internal Server Error"}, {429, `{"error":"busy","field":"a"}`, "serve: 429 Too Many Requests: busy"}} {
		status, reply = x.status, x.reply
		_, err := c.Decide(t.Context(), "a", Request{})
		var e *StatusError
		if err == nil || !strings.Contains(err.Error(), x.want) || errors.As(err, &e) != (x.status != 200) || e != nil && (e.Status != x.status || x.status == 429 && e.Failure.Field != "a") {
			t.Errorf("%d %s: %v", x.status, x.reply, err)
		}
	}
	status, reply = 200, `{"u":[1],"margin":2,"sigma":[0.5],"residual":3,"residual_limit":4,"displacement":5,"fallback":6}`
	k, u := c.Controller(t.Context(), "a", 0), []float64{0}
	if d, err := k.Decide(nil, nil, domain.Preference{W: []float64{1}}, u); err != nil || u[0] != 1 || fmt.Sprint(d.Sigma, d.Residual, d.Limit, d.Displacement, uint32(d.Fallback)) != "[0.5] 3 4 5 6" {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := k.Decide(nil, nil, domain.Preference{}, []float64{0, 0}); err == nil || !strings.Contains(err.Error(), "actions of 1 entries, want 2") {
		t.Errorf("another action: %v", err)
	}
	if _, err := c.Health(t.Context()); err == nil || !strings.Contains(err.Error(), "as gpc serve does") {
		t.Errorf("another server: %v", err)
	}
	if err := c.Clear(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	server.Close()
	if err := c.Reset(t.Context(), "a"); err == nil {
		t.Error("a server that is gone answers")
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

// contextOf is a context of a test, and what ends it.
func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	return ctx, end
}

// heard is a log of messages.
type heard struct{ all *[]string }

func (h heard) Enabled(context.Context, slog.Level) bool { return true }
func (h heard) Handle(_ context.Context, r slog.Record) error {
	*h.all = append(*h.all, r.Message)
	return nil
}
func (h heard) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h heard) WithGroup(string) slog.Handler      { return h }

// logTo keeps the messages of a log.
func logTo(all *[]string) *slog.Logger { return slog.New(heard{all}) }
