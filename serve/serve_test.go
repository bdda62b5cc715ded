package serve_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/serve"
)

// Sessions at hand together decide as one batch, each as it would alone; a session's own
// requests follow each other; the answers keep the order.
func TestSessionsDecideTogether(t *testing.T) {
	const sessions, rounds = 40, 3
	s, alone := server(t, serve.Options{Sessions: sessions}), server(t, serve.Options{Sessions: sessions})
	var lines []string
	for round := range rounds {
		for i := range sessions {
			lines = append(lines, decide(t, fmt.Sprint(i), []float64{0.02*float64(i) - 0.4, 0.01 * float64(round)}, []float64{0.1 * float64(round)}))
		}
	}
	answers := said(t, s, serve.LineOptions{}, append(slices.Clone(lines), `{"op":"health"}`)...)
	for i, line := range lines {
		a := answers[i]
		if a["session"] != fmt.Sprint(i%sessions) || a["batch"] != float64(sessions) {
			t.Fatalf("answer %d: %v", i, a)
		}
		b := said(t, alone, serve.LineOptions{}, line)[0]
		for _, key := range []string{"u", "sigma", "residual", "margin"} {
			if fmt.Sprint(a[key]) != fmt.Sprint(b[key]) {
				t.Fatalf("answer %d: %s is %v, alone %v", i, key, a[key], b[key])
			}
		}
	}
	if h := answers[len(lines)]["health"].(map[string]any); h["batches"] != float64(rounds) || h["largest_batch"] != float64(sessions) || h["decisions"] != float64(len(lines)) {
		t.Errorf("health %v", h)
	}
}

// A panic ends the session whose decision it is, and no other: those that decided with it
// decide as if it had not been there.
func TestAPanicEndsItsSessionAlone(t *testing.T) {
	for _, method := range []string{"navigator", "refine-64"} {
		_, setup := cart(t)
		setup.Method = method
		var noticed logged
		s := server(t, serve.Options{Setup: setup, Log: noticed.logger()})
		healthy := server(t, serve.Options{Setup: setup})
		both := func(q ...float64) (with, without []map[string]any) {
			var lines, others []string
			for i, x := range q {
				line := decide(t, fmt.Sprint("session ", i), []float64{x, 0.1}, []float64{0})
				if lines = append(lines, line); i != 1 {
					others = append(others, line)
				}
			}
			return said(t, s, serve.LineOptions{}, lines...), said(t, healthy, serve.LineOptions{}, others...)
		}
		both(0.1, 0.2, 0.3)
		with, without := both(0.15, panics, 0.25)
		if text, _ := with[1]["error"].(string); !strings.Contains(text, "no way out") || with[1]["field"] != "session" {
			t.Errorf("%s: the session that panics is answered %v", method, with[1])
		}
		for round := range 2 {
			for i, k := range []int{0, 2} {
				for _, key := range []string{"u", "sigma", "residual", "displacement"} {
					if a, b := fmt.Sprint(with[k][key]), fmt.Sprint(without[i][key]); a != b {
						t.Errorf("%s, round %d, session %d: %s is %s, without the one that panics %s", method, round, k, key, a, b)
					}
				}
			}
			with, without = both(0.1, 0.2, 0.2)
		}
		if with[1]["error"] != nil {
			t.Errorf("%s: begun anew it is answered %v", method, with[1])
		}
		if h := s.Health(); h.Panics != 1 || h.Sessions != 3 || len(noticed.lines()) != 2 || !strings.Contains(noticed.lines()[1], "no way out") {
			t.Errorf("%s: health %+v, noticed %q", method, h, noticed.lines())
		}
	}
}

// By its deadline a decision is answered, with the fallback where there is nothing else,
// also one that has not begun.
func TestADeadlineIsKept(t *testing.T) {
	held := newGate()
	s := server(t, serve.Options{}, held)
	slowly := `{"op":"decide","session":"a","s":[0.3125,0.1],"c":[0],"deadline_ms":10}`
	behind := `{"op":"decide","session":"a","s":[0.25,0.1],"c":[0],"deadline_ms":10}`
	free := `{"op":"decide","session":"a","s":[0.25,0.1],"c":[0]}`
	late := int64(0)
	tooLate := func(line string) {
		t.Helper()
		late++
		if a := said(t, s, serve.LineOptions{}, line)[0]; a["late"] != true || fmt.Sprint(a["u"]) != "[-1]" || a["fallback"] != float64(domain.FallbackConservative) || a["batch"] != 0.0 {
			t.Errorf("late answer %d: %v", late, a)
		}
	}
	for len(held.arrived) == 0 { // one that is late before it begins never does
		tooLate(slowly)
	}
	tooLate(behind)
	held.open()
	if a := said(t, s, serve.LineOptions{}, free)[0]; a["late"] != false || a["error"] != nil {
		t.Errorf("after them: %v", a)
	}
	if h := s.Health(); h.Late != late || h.Decisions != 1 {
		t.Errorf("health %+v", h)
	}
	of := server(t, serve.Options{Deadline: 10 * time.Millisecond}, newGate())
	if a := said(t, of, serve.LineOptions{}, strings.Replace(slowly, `,"deadline_ms":10`, "", 1))[0]; a["late"] != true {
		t.Errorf("with the server's own deadline: %v", a)
	}
}

// A decision that comes late is answered by the plan before, one action after the other, where that keeps the limits; what the
// session then has executed is what was answered.
func TestALateDecisionHasThePlanBefore(t *testing.T) {
	c, setup := cart(t)
	setup.Method = "nmpc"
	plain := require.Get(c.Controller(nil, setup))(t)
	require.OK(t, plain.Reset(nil))
	adaptive, u := domain.Preference{Adaptive: true}, make([]float64, 1)
	plan := slices.Clone(require.Get(plain.Decide([]float64{0.25, 0.1}, []float64{0}, adaptive, u))(t).Ahead)
	held := newGate()
	s := server(t, serve.Options{Setup: setup}, held)
	first := `{"op":"decide","session":"a","s":[0.25,0.1],"c":[0]}`
	late := strings.Replace(strings.Replace(first, "0.25", "0.3125", 1), `}`, `,"deadline_ms":10}`, 1)
	said(t, s, serve.LineOptions{}, first)                                   // whatever it takes: the deadlines of the others begin when they are read
	want := []string{fmt.Sprint([]any{plan[1]}), fmt.Sprint([]any{plan[2]})} // late answers come in either order
	for i, a := range said(t, s, serve.LineOptions{}, late, late) {
		at := slices.Index(want, fmt.Sprint(a["u"]))
		if at < 0 || a["late"] != true || a["fallback"] != float64(domain.FallbackIncumbent) {
			t.Errorf("late answer %d: %v, want one of the actions %v of the plan before", i, a, want)
			continue
		}
		want = slices.Delete(want, at, at+1)
	}
	held.open()
	if h := s.Health(); h.Late != 2 {
		t.Errorf("health %+v", h)
	}
	if a := said(t, s, serve.LineOptions{}, first)[0]; a["late"] != false || a["error"] != nil {
		t.Errorf("after them: %v", a)
	}
}

// The period of a case is the deadline of its decisions alone, where the server is told so.
func TestThePeriodIsADeadline(t *testing.T) {
	s := server(t, serve.Options{Deadline: serve.Period}, newGate())
	c, _ := cart(t)
	if want := time.Duration(c.Spec().StepSeconds * float64(time.Second)); s.Deadline() != want {
		t.Errorf("a deadline of %v, want %v", s.Deadline(), want)
	}
	if a := said(t, s, serve.LineOptions{}, `{"op":"decide","session":"a","s":[0.3125,0.1],"c":[0]}`)[0]; a["late"] != true {
		t.Errorf("%v", a)
	}
}

// A refinement ends its rounds for its deadline, and changes no session.
func TestRefinementsAreServed(t *testing.T) {
	s := server(t, serve.Options{})
	line := `{"op":"refine","session":"a","s":[0.2,0.1],"c":[0],"candidates":256,"seed":3`
	answers := said(t, s, serve.LineOptions{}, line+`}`, line+`,"preference":[1,0]}`, `{"op":"preference","session":"a","preference":[1,0]}`, line+`}`, `{"op":"health"}`)
	c, setup := cart(t)
	r := require.Get(require.Get(c.Refiner(cpu(t), setup, 256))(t).Refine(t.Context(), batchnav.Observation{S: []float64{0.2, 0.1}, C: []float64{0}, Preference: domain.Preference{Adaptive: true}}, batchnav.RefineOptions{Candidates: 256, Seed: 3}))(t)
	cost := func(i int) float64 { return answers[i]["refinement"].(map[string]any)["cost"].(float64) }
	if cost(0) != r.Cost || cost(1) == r.Cost || cost(3) != cost(1) {
		t.Errorf("costs %v, %v, %v; a refinement by itself %v", cost(0), cost(1), cost(3), r.Cost)
	}
	short := said(t, s, serve.LineOptions{}, strings.Replace(line, `256`, `65536`, 1)+`,"deadline_ms":4}`)[0]["refinement"].(map[string]any)
	if n := short["candidates"].(float64); n >= 65536 || n == 0 && short["late"] != true {
		t.Errorf("within 4 ms: %v", short)
	}
}

// A preference is the session's until another, or of one line; reset forgets it.
func TestPreferences(t *testing.T) {
	s := server(t, serve.Options{})
	line := `{"op":"decide","session":"a","s":[0.5,0.4],"c":[0]`
	answers := said(t, s, serve.LineOptions{}, line+`}`, line+`,"preference":[1,0]}`, line+`}`,
		`{"op":"preference","session":"a","preference":[1,0]}`, line+`}`, line+`,"preference":null}`, `{"op":"reset","session":"a"}`, line+`}`)
	sigma := func(i int) string { return fmt.Sprint(answers[i]["sigma"]) }
	if sigma(1) != "[1 0]" || sigma(4) != "[1 0]" || sigma(0) == "[1 0]" || sigma(2) == "[1 0]" || sigma(5) == "[1 0]" || sigma(7) != sigma(0) {
		t.Errorf("σ: %s, %s, %s, set: %s, %s, reset: %s", sigma(0), sigma(1), sigma(2), sigma(4), sigma(5), sigma(7))
	}
}

// As many sessions are open as may be; a reset makes room, and a session that begins anew
// decides as a new one.
func TestSessionsHaveARoom(t *testing.T) {
	s := server(t, serve.Options{Sessions: 2})
	line := func(session string) string { return decide(t, session, []float64{0.3, 0.2}, []float64{0}) }
	answers := said(t, s, serve.LineOptions{}, line("a"), line("b"), line("c"), `{"op":"reset","session":"a"}`, line("c"), `{"op":"reset","session":"unknown"}`)
	if answers[2]["field"] != "session" || answers[4]["error"] != nil || answers[5]["error"] != nil {
		t.Errorf("%v", answers)
	}
	if fmt.Sprint(answers[4]["u"]) != fmt.Sprint(answers[0]["u"]) || fmt.Sprint(answers[4]["sigma"]) != fmt.Sprint(answers[0]["sigma"]) {
		t.Errorf("in the place of a: %v, a: %v", answers[4], answers[0])
	}
}

// An observation that is too old, or not after the one before, gives the fallback, and so does
// every one after it until the session is cleared or reset; then its loop begins anew. Other
// sessions have nothing of it.
func TestAStaleObservationHasTheFallback(t *testing.T) {
	var told logged
	s, plain := server(t, serve.Options{MaxAge: time.Hour, Log: told.logger()}), server(t, serve.Options{})
	now := float64(time.Now().UnixMilli())
	at := func(session string, ms float64) string {
		return fmt.Sprintf(`{"op":"decide","session":%q,"s":[0.3,0.2],"c":[0],"observed_ms":%.3f}`, session, ms)
	}
	for _, ended := range []string{"clear", "reset"} {
		for why, wrong := range map[string]float64{"age": now - 2*3600e3, "order": now, "ahead": now + 24*3600e3} {
			session := ended + why
			answers := said(t, s, serve.LineOptions{}, at(session, now), at(session, wrong), at(session, now+1), at("other"+session, now), fmt.Sprintf(`{"op":%q,"session":%q}`, ended, session), at(session, now+2), at(session, now+2))
			if why == "ahead" {
				why = "age"
			}
			for i, want := range []string{"", why, why, "", "-", "", "order"} {
				a := answers[i]
				if a["error"] != nil || want != "-" && (a["stale"] != want || want != "" && (fmt.Sprint(a["u"]) != "[-1]" || a["fallback"] != float64(domain.FallbackConservative) || a["batch"] != 0.0)) {
					t.Errorf("%s, %s: answer %d is %v, want it stale by %q", why, ended, i, a, want)
				}
			}
			if fmt.Sprint(answers[5]["u"], answers[5]["sigma"]) != fmt.Sprint(answers[0]["u"], answers[0]["sigma"]) {
				t.Errorf("%s: behind it the loop does not begin anew: %v, at first %v", ended, answers[5], answers[0])
			}
		}
	}
	if a := said(t, s, serve.LineOptions{}, `{"op":"decide","s":[0.3,0.2],"c":[0]}`)[0]; a["field"] != "observed_ms" {
		t.Errorf("without a time: %v", a)
	}
	// Without an age the order is kept all the same.
	answers := said(t, plain, serve.LineOptions{}, at("a", 5000), `{"op":"decide","session":"a","s":[0.3,0.2],"c":[0]}`, at("a", 4000), `{"op":"decide","session":"a","s":[0.3,0.2],"c":[0]}`)
	for i, want := range []string{"", "", "order", "order"} {
		if answers[i]["stale"] != want {
			t.Errorf("without an age: answer %d is %v, want it stale by %q", i, answers[i], want)
		}
	}
	if n := len(told.lines()); n < 6 || !strings.Contains(told.lines()[0], "stale observation") {
		t.Errorf("logged %d: %q", n, told.lines())
	}
}

// A sensor that gives no number is answered by the fallback, flagged.
func TestAGapIsNoError(t *testing.T) {
	a := said(t, server(t, serve.Options{}), serve.LineOptions{}, `{"op":"decide","s":[null,0.1],"c":[0]}`)[0]
	if a["fallback"] != float64(domain.FallbackObservation|domain.FallbackConservative) || a["margin"] != nil || fmt.Sprint(a["u"]) != "[-1]" {
		t.Errorf("%v", a)
	}
}

// The core answers many goroutines at once, refuses what is wrong, and ends clean.
func TestTheCoreServesGoroutines(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c, setup := cart(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	s := require.Get(serve.New(c, e, serve.Options{Setup: setup}))(t)
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			for step := range 20 {
				d, err := s.Decide(t.Context(), fmt.Sprint(i), serve.Request{S: []float64{0.01 * float64(step), 0}, C: []float64{0}})
				if err != nil || len(d.U) != 1 {
					t.Errorf("%v, %+v", err, d)
				}
			}
		})
	}
	wait.Wait()
	var field *serve.FieldError
	if _, err := s.Decide(t.Context(), "a", serve.Request{S: []float64{1}}); !errors.As(err, &field) || field.Field != "s" {
		t.Errorf("a short state: %v", err)
	}
	require.OK(t, s.SetPreference(t.Context(), "a", domain.Preference{W: []float64{1, 0}}))
	if r, err := s.Refine(t.Context(), "a", serve.Request{S: []float64{0.1, 0}, C: []float64{0}}, batchnav.RefineOptions{Candidates: 32}); err != nil || r.Sigma[0] != 1 {
		t.Errorf("%v, %+v", err, r)
	}
	require.OK(t, s.Reset(t.Context(), "a"))
	if h := s.Health(); h.Decisions != 401 || h.Sessions != 20 || h.Status != "ok" {
		t.Errorf("health %+v", h)
	}
	s.Close()
	s.Close()
	if _, err := s.Decide(t.Context(), "a", serve.Request{S: []float64{0, 0}, C: []float64{0}}); !errors.Is(err, serve.ErrClosed) || s.Health().Status != "closing" {
		t.Errorf("closed: %v", err)
	}
}
