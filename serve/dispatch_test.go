package serve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

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
	s.closed.Store(true)
	if err := s.enqueue(group, true); !errors.Is(err, ErrClosed) || s.pending.Load() != 1 {
		t.Errorf("closed: %v", err)
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

// A goal is refused that is none of the case's, or that the method does not reach; a refinement says so itself.
func TestGoalsAreChecked(t *testing.T) {
	s, d := bare(t, Options{})
	s.refiner, s.reaches = new(gpc.Refiner), errors.New("it reaches none")
	for _, c := range []struct {
		first   int
		o       op
		reaches error
		says    string
	}{{1, opDecide, nil, ""}, {2, opDecide, nil, "objective"}, {1, opDecide, s.reaches, "it reaches none"}, {2, opPreference, s.reaches, "objective"}, {1, opPreference, s.reaches, "it reaches none"}, {1, opRefine, s.reaches, "only loops that decide by a map"}} {
		j := asked("a")
		j.op, j.request.Preference, s.reaches = c.o, &domain.Preference{Goal: &domain.Goals{First: []int{c.first}}}, c.reaches
		if err := s.prepare(j, time.Now()); (err == nil) != (c.says == "") || err != nil && (FailureOf(err).Field != "preference" || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	// Of switched actions the answer has the plan.
	s.spec.Switches = make([]domain.Switch, 1)
	j := asked("a")
	require.OK(t, s.begin(j))
	if s.decide([]*job{j}); fmt.Sprint(j.answer.Decision.Ahead) != "[0.5 -0.25 0.125]" || len(d.calls) != 3 {
		t.Errorf("%+v, %v", j.answer.Decision, d.calls)
	}
}

// In the place of a late decision the plan goes on unseen where nothing is known of the state that it acts in; else where it keeps the limits, or
// breaks them by less than the fallback. A refinement takes none of it.
func TestAPlanGoesOnInThePlaceOfALateDecision(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		delay, position, next float64
		o                     op
		want                  float64
		bits                  domain.Fallback
		exact                 bool
	}{
		{0, 0.1, 0.25, opDecide, 0.25, domain.FallbackIncumbent, true}, {0, 0.1, 5, opDecide, -1, domain.FallbackConservative, true}, {0, 0.1, nan, opDecide, -1, domain.FallbackConservative, true},
		{1, 0.1, 5, opDecide, 5, domain.FallbackIncumbent, false}, {0, nan, 5, opDecide, 5, domain.FallbackIncumbent, false}, {1, nan, 5, opDecide, 5, domain.FallbackIncumbent, false},
		{0, 3, 0.5, opDecide, -1, domain.FallbackConservative, true}, {0, 3, -1, opDecide, -1, domain.FallbackIncumbent, true}, {0, 0.1, 0.25, opRefine, -1, domain.FallbackConservative, true},
	} {
		s, _ := bare(t, Options{})
		s.controlCase = cartCase(t, func(d *domain.Case) { d.Delay.Periods = c.delay })
		s.plans.keep("a", []float64{0, c.next})
		j := asked("a")
		j.op, j.request.S[0] = c.o, c.position
		d, err := s.replacement(j)
		if err != nil || d.U[0] != c.want || domain.Fallback(d.Fallback) != c.bits || math.IsNaN(d.Margin) == c.exact || d.Feasible != (d.Margin >= -s.spec.MarginTolerance) || len(s.plans.plans["a"]) != index(c.o == opRefine) {
			t.Errorf("%+v: %+v, %v", c, d, err)
		}
	}
}

// A request is overdue from its deadline on, where its clock runs; it is finished with its answer, which stops clock and front.
func TestARequestIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := bare(t, Options{})
		for _, c := range []struct {
			deadline time.Duration
			clock    bool
			want     bool
		}{{1, true, false}, {0, true, true}, {-1, true, true}, {-1, false, false}} {
			j := asked("a")
			rang, ended := false, false
			if j.request.Deadline, j.end = time.Now().Add(c.deadline), func() { ended = true }; c.clock {
				j.timer.Store(time.AfterFunc(time.Minute, func() { rang = true }))
			}
			if j.overdue() != c.want || j.finished() {
				t.Errorf("%+v: overdue %v, finished %v", c, j.overdue(), j.finished())
			}
			if s.finish(j, Answer{}, nil); !j.finished() || !ended {
				t.Errorf("%+v: finished %v, its front has ended: %v", c, j.finished(), ended)
			}
			if time.Sleep(time.Hour); rang {
				t.Errorf("%+v: the clock of an answered request rings", c)
			}
		}
	})
}

// A server says how it is while a group waits for room in the queue and another closes the server.
func TestHealthWaitsForNoLock(t *testing.T) {
	s, _ := bare(t, Options{})
	s.closing.Lock()
	defer s.closing.Unlock()
	told := make(chan Health)
	go func() { told <- s.Health() }()
	select {
	case h := <-told:
		if h.Status == "closing" {
			t.Errorf("%+v", h)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for who closes the server")
	}
}
