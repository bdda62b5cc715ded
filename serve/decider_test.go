package serve

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/ocp"
)

// breaking is a cart that counts its steps, and panics once it is broken. Its fallback is of its state.
type breaking struct {
	*testdomain.Cart
	steps  atomic.Int64
	broken atomic.Bool
}

func (b *breaking) check() {
	if b.broken.Load() {
		panic("broken")
	}
}

func (b *breaking) Step(s, c, u, sNext, cNext []float64) {
	b.check()
	b.steps.Add(1)
	b.Cart.Step(s, c, u, sNext, cNext)
}

func (b *breaking) Fallback(s, c, u []float64) {
	b.check()
	u[0] = -s[0] / 2
}

// loopsOf are the loops of a method of the cart's map, and their server.
func loopsOf(t *testing.T, method string, n int) (*Server, *loops, *breaking) {
	t.Helper()
	p := &breaking{Cart: testdomain.NewCart(8)}
	s, _ := bare(t, Options{Sessions: n})
	solver := require.Get(ocp.New(p, testdomain.Starts, testdomain.Start, ocp.Options{}))(t)
	s.controlCase = cartCase(t, func(d *domain.Case) { d.Problem, d.Solver = p, solver })
	s.engine = require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	t.Cleanup(func() { s.engine.Close() })
	s.opt.Setup = gpc.Setup{Method: method, Model: testdomain.Map(p.Cart, 9, true)}
	d, reaches, err := newDecider(s.controlCase, s.engine, s.opt)
	if err != nil || (reaches != nil) != strings.HasPrefix(method, "refine") {
		t.Fatalf("goals: %v, error: %v", reaches, err)
	}
	s.decider = d
	return s, d.(*loops), p
}

// by is a decision of a session's loop, without what says how it was batched.
func by(t *testing.T, s *Server, l *loops, sess *session, q float64) string {
	t.Helper()
	j := asked(sess.name)
	j.sess, j.request.S, j.preference = sess, []float64{q, 0.2}, domain.Preference{Adaptive: true}
	all := l.decideTogether(s, []*job{j})
	require.OK(t, all[0].err)
	d := all[0].decision
	return fmt.Sprint(d.U, d.Sigma, d.Residual, d.Displacement, d.Fallback, d.Margin, d.Feasible, d.OffMap, all[0].batched)
}

// A loop that is restarted, or whose place another session gets, decides as one that has begun; what it is told it goes on from.
func TestALoopGoesOnFromWhatItIsTold(t *testing.T) {
	s, l, _ := loopsOf(t, "navigator", 4)
	var all [4]*session
	for i := range all {
		all[i] = &session{name: fmt.Sprint(i)}
		if require.OK(t, l.open(all[i])); all[i].place != i {
			t.Errorf("session %d has place %d", i, all[i].place)
		}
	}
	fresh := by(t, s, l, all[3], 0.3)
	for _, sess := range all[:3] {
		by(t, s, l, sess, 0.1)
	}
	if by(t, s, l, all[0], 0.3) == fresh {
		t.Error("a loop that goes on decides as one that begins")
	}
	require.OK(t, l.restart(all[1]))
	l.close(all[2])
	again := &session{name: "again"}
	if require.OK(t, l.open(again)); again.place != 2 {
		t.Errorf("the free place is 2, the session has %d", again.place)
	}
	for _, sess := range []*session{all[1], again} {
		if got := by(t, s, l, sess, 0.3); got != fresh {
			t.Errorf("session %s decides %s, one that begins %s", sess.name, got, fresh)
		}
	}
	// A gap is predicted from the state and the action that were told last.
	told := map[string]string{}
	for name, tell := range map[string]func(sess *session){
		"nothing": func(*session) {},
		"resumed": func(sess *session) {
			l.resume(sess, batchnav.Observation{S: []float64{0.5, 0}, C: []float64{0}}, []float64{0.25})
		},
		"missed": func(sess *session) {
			j := asked(sess.name)
			j.sess, j.request.S, j.answer.Decision = sess, []float64{0.5, 0}, &Decision{U: []float64{0.25}}
			l.missed(j)
		},
		"missed without an answer": func(sess *session) {
			j := asked(sess.name)
			j.sess = sess
			l.missed(j)
		},
		"executed": func(sess *session) {
			l.resume(sess, batchnav.Observation{S: []float64{0.5, 0}, C: []float64{0}}, []float64{-1})
			l.executed(&job{sess: sess}, []float64{0.25})
		},
		"another action": func(sess *session) {
			l.resume(sess, batchnav.Observation{S: []float64{0.5, 0}, C: []float64{0}}, []float64{-1})
		},
	} {
		require.OK(t, l.restart(all[1]))
		tell(all[1])
		told[name] = by(t, s, l, all[1], math.NaN())
	}
	if told["missed"] != told["resumed"] || told["executed"] != told["resumed"] || told["nothing"] == told["resumed"] || told["another action"] == told["resumed"] || told["missed without an answer"] != told["nothing"] {
		t.Errorf("decided in a gap: %v", told)
	}
}

// A loop is prepared while its session is open, of a method that does so; one that fails restarts, and it is logged.
func TestLoopsArePrepared(t *testing.T) {
	s, l, p := loopsOf(t, "refine-64-ahead", 2)
	var text bytes.Buffer
	s.opt.Log = slog.New(slog.NewTextHandler(&text, nil))
	a, b := asked("a"), asked("b")
	for _, j := range []*job{a, b} {
		require.OK(t, s.begin(j))
	}
	fresh := by(t, s, l, b.sess, 0.3)
	require.OK(t, l.restart(b.sess))
	by(t, s, l, a.sess, 0.3)
	steps := func(jobs ...*job) int64 {
		before := p.steps.Load()
		l.prepare(s, jobs)
		return p.steps.Load() - before
	}
	gone := asked("a")
	gone.sess = &session{name: "a", place: a.sess.place}
	if n := steps(gone); n != 0 {
		t.Errorf("a session that has ended is prepared by %d steps", n)
	}
	if n := steps(gone, a); n == 0 || text.Len() != 0 {
		t.Errorf("prepared by %d steps, logged %s", n, &text)
	}
	by(t, s, l, a.sess, 0.1)
	p.broken.Store(true)
	steps(a)
	p.broken.Store(false)
	if got := by(t, s, l, a.sess, 0.3); got != fresh || strings.Count(text.String(), "prepared in advance") != 1 || !strings.Contains(text.String(), "session=a") {
		t.Errorf("after a preparation that failed it decides %s, one that begins %s; logged %s", got, fresh, &text)
	}
	s, l, p = loopsOf(t, "refine-64", 1)
	require.OK(t, s.begin(a))
	by(t, s, l, a.sess, 0.3)
	if n := steps(a); n != 0 {
		t.Errorf("a method that prepares nothing is prepared by %d steps", n)
	}
}

// A decider cannot be made of a method that is none, or of no loops.
func TestDecidersThatCannotBeMade(t *testing.T) {
	s, _, _ := loopsOf(t, "direct", 1)
	for name, change := range map[string]func(o *Options){
		"a method": func(o *Options) { o.Setup.Method = "none" }, "loops": func(o *Options) { o.Sessions = -1 },
	} {
		o := s.opt
		if change(&o); func() (err error) { _, _, err = newDecider(s.controlCase, s.engine, o); return err }() == nil {
			t.Errorf("without %s there is a decider", name)
		}
	}
}

// script is a controller that does what it is told.
type script struct {
	abilities domain.ControllerAbilities
	reset     error
	resets    int
	decide    func(s, c, u []float64) (domain.Decision, error)
}

func (k *script) Abilities() *domain.ControllerAbilities { return &k.abilities }

func (k *script) Reset(ep domain.Episode) error {
	if k.resets++; ep != nil {
		return errors.New("there is no plant")
	}
	return k.reset
}

func (k *script) Decide(s, c []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	return k.decide(s, c, u)
}

// A controller of a session is made and reset with it, and told what was executed and what it was not asked about: of a plant with a delay
// or a measurement the action alone.
func TestControllersAreTold(t *testing.T) {
	k := &script{}
	var fails error
	def := domain.Case{Problem: testdomain.NewCart(8), Guard: domain.Guard{Off: true}, Methods: []domain.Method{{Name: "script", New: func(domain.Means) (domain.Controller, error) { return k, fails }}}}
	s, _ := bare(t, Options{Setup: gpc.Setup{Method: "script"}})
	made := func(change func(*domain.Case)) (*controllers, error) {
		d := def
		change(&d)
		made, _, err := newDecider(require.Get(gpc.NewCase(d))(t), nil, s.opt)
		c, _ := made.(*controllers)
		return c, err
	}
	plain := func(*domain.Case) {}
	c := require.Get(made(plain))(t)
	sess := &session{name: "a"}
	require.OK(t, c.open(sess))
	c.close(sess)
	c.resume(sess, batchnav.Observation{}, nil)
	if err := c.restart(sess); err != nil || sess.controller == nil || k.resets != 3 {
		t.Errorf("made, opened and restarted: %d resets, %v", k.resets, err)
	}
	k.reset = errors.New("no start")
	if err := c.restart(sess); !errors.Is(err, k.reset) {
		t.Errorf("restarted: %v", err)
	}
	if _, err := made(plain); !errors.Is(err, k.reset) || !errors.As(err, new(gpc.InputError)) || !strings.Contains(err.Error(), "method script of case cart") {
		t.Errorf("a controller that cannot begin: %v", err)
	}
	if fails, k.reset = errors.New("no device"), nil; !errors.Is(c.open(&session{}), fails) {
		t.Error("a controller that cannot be made is opened")
	}
	said := ""
	sess.abilities = &domain.ControllerAbilities{Executed: func(u []float64) { said += fmt.Sprint("executed", u) }, Missed: func(s, c, u []float64) { said += fmt.Sprint("missed", s, c, u) }}
	measurement := &domain.Measurement{Outputs: []domain.Variable{{Name: "y"}}, Deviation: []float64{1}, Real: func(s, _, _, y []float64) { y[0] = s[0] }, Dual: func(s, _, _, y []complex128) { y[0] = s[0] }}
	for _, x := range []struct {
		want   string
		change func(*domain.Case)
	}{{"missed[0.1 0.2] [0] [7]", plain}, {"missed[] [] [7]", func(d *domain.Case) { d.Delay.Periods = 1 }}, {"missed[] [] [7]", func(d *domain.Case) { d.Measurement = measurement }}} {
		d := def
		x.change(&d)
		j := asked("a")
		j.sess, said = sess, ""
		c := &controllers{controlCase: require.Get(gpc.NewCase(d))(t)}
		c.missed(j)
		j.answer.Decision = &Decision{U: []float64{7}}
		if c.missed(j); said != x.want {
			t.Errorf("told %q, want %q", said, x.want)
		}
		said = ""
		if c.executed(j, []float64{8}); said != "executed[8]" {
			t.Errorf("told %q", said)
		}
		j.sess = &session{abilities: &domain.ControllerAbilities{}}
		c.missed(j)
		c.executed(j, nil)
	}
}

// Controllers work side by side, one a thread. What is not done by its deadline holds up no other, gives its place, and is
// settled with its session; the rest is settled as it is done.
func TestControllersWorkSideBySide(t *testing.T) {
	const s = time.Second
	cores := runtime.GOMAXPROCS(0)
	for name, c := range map[string]struct {
		threads        int
		work, deadline []time.Duration
		took           time.Duration
		left           []int
		most           int
	}{
		"none":                          {1, nil, nil, 0, nil, 0},
		"one without a deadline":        {1, []time.Duration{5 * s}, []time.Duration{0}, 5 * s, nil, 1},
		"one in time":                   {1, []time.Duration{2 * s}, []time.Duration{3 * s}, 2 * s, nil, 1},
		"one that is late":              {1, []time.Duration{5 * s}, []time.Duration{3 * s}, 3 * s, []int{0}, 1},
		"one whose deadline has passed": {1, []time.Duration{5 * s}, []time.Duration{-s}, 0, []int{0}, 1},
		"two in two threads":            {2, []time.Duration{s, s}, []time.Duration{0, 0}, s, nil, 2},
		"four in two threads":           {2, []time.Duration{s, s, s, s}, []time.Duration{0, 0, 0, 0}, 2 * s, nil, 2},
		"every core":                    {0, slices.Repeat([]time.Duration{s}, cores+1), make([]time.Duration, cores+1), 2 * s, nil, cores},
		"two that are late, one thread": {1, []time.Duration{9 * s, 9 * s}, []time.Duration{2 * s, 4 * s}, 4 * s, []int{0, 1}, 2},
		"the second is late":            {2, []time.Duration{s, 9 * s}, []time.Duration{0, 3 * s}, 3 * s, []int{1}, 2},
		"the first is late":             {2, []time.Duration{9 * s, 5 * s}, []time.Duration{3 * s, 0}, 5 * s, []int{0}, 2},
		"deadlines in another order":    {3, []time.Duration{9 * s, 9 * s, s}, []time.Duration{5 * s, 3 * s, 2 * s}, 5 * s, []int{0, 1}, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			server, _ := bare(t, Options{})
			start := time.Now()
			var jobs []*job
			for i := range c.work {
				j := asked(fmt.Sprint(i))
				j.sess = &session{name: j.session}
				server.sessions[j.session] = j.sess
				jobs = append(jobs, j)
			}
			var now, most atomic.Int64
			settled := make([]int, len(jobs))
			(&controllers{threads: c.threads}).sideBySide(server, jobs, func(j *job) time.Time {
				if d := c.deadline[slices.Index(jobs, j)]; d != 0 {
					return start.Add(d)
				}
				return time.Time{}
			}, func(i int) {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(c.work[i])
				now.Add(-1)
			}, func(i int) { settled[i]++ })
			took := time.Since(start)
			var left []int
			for i, j := range jobs {
				if j.sess.outlasting == nil {
					continue
				}
				if left = append(left, i); settled[i] != 0 || server.settled(j.sess) || !j.answer.Decision.Late {
					t.Errorf("%s: %d is settled before it is done, or not late: %+v", name, i, j.answer.Decision)
				}
			}
			time.Sleep(time.Minute)
			for i, j := range jobs {
				if !server.settled(j.sess) || settled[i] != 1 {
					t.Errorf("%s: %d is settled %d times", name, i, settled[i])
				}
			}
			if took != c.took || !slices.Equal(left, c.left) || most.Load() != int64(c.most) || server.metrics.outlasted.Load() != int64(len(c.left)) {
				t.Errorf("%s: took %v, want %v; %v are left, want %v; %d at once, want %d", name, took, c.took, left, c.left, most.Load(), c.most)
			}
		})
	}
}

// Decisions side by side are each controller's own, with its error or panic; only a request whose clock runs has a deadline.
func TestControllersDecideForThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := bare(t, Options{})
		wrong := errors.New("wrong")
		jobs := []*job{asked("a"), asked("b"), asked("c"), asked("d")}
		for i, j := range jobs {
			k := &script{decide: func(_, _, u []float64) (domain.Decision, error) {
				time.Sleep(time.Minute)
				switch u[0] = float64(i) / 8; i {
				case 1:
					return domain.Decision{}, wrong
				case 2:
					panic("no way")
				}
				return domain.Decision{Ahead: []float64{u[0], 0.5}}, nil
			}}
			j.sess = &session{name: j.session, controller: k, abilities: &k.abilities}
			s.sessions[j.session] = j.sess
		}
		start := time.Now()
		jobs[0].request.Deadline, jobs[3].request.Deadline = start.Add(time.Second), start.Add(time.Second)
		jobs[3].timer.Store(time.NewTimer(time.Hour))
		outcomes := map[string]*outcome{}
		(&controllers{threads: 4}).decide(s, jobs, func(j *job, m *outcome) { outcomes[j.session] = m })
		if a := outcomes["a"]; a.err != nil || a.decision.U[0] != 0 || fmt.Sprint(a.plan) != "[0 0.5]" || a.batched != 4 || time.Since(start) != time.Minute {
			t.Errorf("%+v after %v", a, time.Since(start))
		}
		if !errors.Is(outcomes["b"].err, wrong) || !panicked(outcomes["c"].err) || panicked(outcomes["b"].err) || outcomes["d"] != nil || jobs[3].sess.outlasting == nil {
			t.Errorf("%+v", outcomes)
		}
		if time.Sleep(time.Hour); !s.settled(jobs[3].sess) || outcomes["d"].decision.U[0] != 0.375 {
			t.Errorf("%+v", outcomes["d"])
		}
	})
}

// Controllers look for their next decision for the time of a decision at most: those that do so, of sessions that are open and free.
func TestControllersArePreparedInTheTimeOfADecision(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 2 * time.Second: 2 * time.Second, time.Minute: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := bare(t, Options{Deadline: limit})
			var text bytes.Buffer
			s.opt.Log = slog.New(slog.NewTextHandler(&text, nil))
			var prepared atomic.Int64
			var jobs []*job
			for _, name := range []string{"slow", "fails", "gone", "at work", "never"} {
				j := asked(name)
				j.sess = &session{name: name, abilities: &domain.ControllerAbilities{Prepare: func() error {
					prepared.Add(1)
					if name == "fails" {
						return errors.New("no way")
					}
					time.Sleep(5 * time.Second)
					return nil
				}}}
				s.sessions[name] = j.sess
				s.finish(j, Answer{}, nil)
				jobs = append(jobs, j)
			}
			s.sessions["gone"] = &session{}
			jobs[3].sess.outlasting = &outlasting{end: make(chan struct{})}
			jobs[4].sess.abilities.Prepare = nil
			start := time.Now()
			(&controllers{threads: 4}).prepare(s, jobs)
			took := time.Since(start)
			time.Sleep(time.Minute)
			if took != want || prepared.Load() != 2 || (jobs[0].sess.outlasting != nil) != (want < 5*time.Second) || jobs[1].sess.outlasting != nil || len(jobs) != 5 || jobs[4] == nil {
				t.Errorf("limit %v: took %v, want %v, %d prepared, the slow one at work: %v", limit, took, want, prepared.Load(), jobs[0].sess.outlasting != nil)
			}
			if said := text.String(); strings.Count(said, "prepared in advance") != 1 || !strings.Contains(said, "session=fails error=\"no way\"") {
				t.Errorf("limit %v: logged %s", limit, said)
			}
		})
	}
}

// What a controller decides is answered with the margins of the state that it decided for, and whether that is off the map.
func TestADecisionByAController(t *testing.T) {
	p := testdomain.NewCart(8)
	nan := math.NaN()
	for i, c := range []struct {
		decision domain.Decision
		off      bool
	}{
		{domain.Decision{Residual: 1, Limit: 1}, false}, {domain.Decision{Residual: 1.5, Limit: 1}, true}, {domain.Decision{Residual: nan, Limit: 1}, true}, {domain.Decision{Residual: 1}, false},
		{domain.Decision{Residual: nan}, false}, {domain.Decision{Fallback: domain.FallbackResidual}, true}, {domain.Decision{Fallback: domain.FallbackMargin}, false}, {domain.Decision{Residual: 0.5, Limit: 1, Fallback: domain.FallbackResidual}, true},
	} {
		c.decision.Ahead, c.decision.Sigma, c.decision.Displacement = []float64{0.25, 0.5}, []float64{0.75, 0.25}, 3
		for _, measured := range []string{"", "y", "s"} {
			k := &script{decide: func(s, cx, u []float64) (domain.Decision, error) {
				u[0] = 0.25
				return c.decision, nil
			}}
			r := Request{S: []float64{1.5, 0}, C: []float64{0.5}}
			want, state := "[]", []float64{1.5, 0}
			if measured != "" {
				state = []float64{1.9, 1}
				k.abilities.DecideMeasured = func(y, cx []float64, pref domain.Preference, s, estimated, u []float64) (domain.Decision, error) {
					copy(s, state)
					estimated[0], u[0] = cx[0]+1, 0.25
					if want := map[string]string{"y": "[7]", "s": "[1.5 0]"}[measured]; fmt.Sprint(y) != want || !pref.Adaptive {
						t.Errorf("decided by %v, want %s", y, want)
					}
					return c.decision, nil
				}
				if want = "[1.9 1] [1.5] []"; measured == "y" {
					r.Y, want = []float64{7}, "[1.9 1] [1.5] [fine]"
					k.abilities.Faults = func() []string { return []string{"fine"} }
				}
			}
			d, plan, err := decideBy(k, &k.abilities, p, &r, domain.Preference{Adaptive: true})
			require.OK(t, err)
			margins := make([]float64, 2)
			p.Margins(state, []float64{0}, d.U, margins)
			got := "[]"
			if e := d.Estimate; e != nil {
				got = fmt.Sprint(e.S, e.C, e.Faults)
			}
			if d.OffMap != c.off || d.U[0] != 0.25 || fmt.Sprint(plan) != "[0.25 0.5]" || d.Margin != min(margins[0], margins[1]) || d.Feasible != (d.Margin >= 0) || got != want || d.Displacement != 3 || d.Sigma[0] != 0.75 || d.ResidualLimit != c.decision.Limit || d.Fallback != uint32(c.decision.Fallback) {
				t.Errorf("decision %d, %q measured: %+v, plan %v, estimate %s", i, measured, d, plan, got)
			}
		}
	}
	k := &script{decide: func(_, _, _ []float64) (domain.Decision, error) { return domain.Decision{}, errors.New("no way") }}
	if d, plan, err := decideBy(k, &k.abilities, p, &Request{S: []float64{0, 0}, C: []float64{0}}, domain.Preference{}); d != nil || plan != nil || err == nil {
		t.Errorf("%+v, %v, %v", d, plan, err)
	}
}
