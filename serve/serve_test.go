package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/internal/testdomain"
	"github.com/gpc-engine/gpc/offline/shooting"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
)

// Positions at which a fragile cart does not decide as it should.
const (
	panics = 0.4375
	slow   = 0.3125
	late   = 400 * time.Millisecond
)

// fragile is a cart whose projection panics or takes its time in two states.
type fragile struct{ *testdomain.Cart }

func (f fragile) Project(s, c, u []float64) bool {
	switch s[0] {
	case panics:
		panic("no way out")
	case slow:
		time.Sleep(late)
	}
	return f.Cart.Project(s, c, u)
}

// cart is a case of fragile carts with its map.
func cart(t testing.TB) (*gpc.Case, gpc.Setup) {
	t.Helper()
	p := fragile{testdomain.NewCart(8)}
	axes := []domain.Variable{{Name: "q", Lo: -1, Hi: 1}, {Name: "v", Lo: -0.5, Hi: 0.5}}
	initial := func(p, s, c []float64) {
		copy(s, p)
		clear(c)
	}
	solver := must.Get(shooting.New(p, axes, initial, shooting.Options{}))(t)
	c := must.Get(gpc.NewCase(domain.Case{Problem: p, Solver: solver, Plant: closedloop.Simulated(p, axes, initial), Guard: domain.Guard{Off: true}}))(t)
	return c, gpc.Setup{Method: "gpc", Model: testdomain.Map(p.Cart, 9, true)}
}

func engine(t testing.TB) *gpc.Engine {
	t.Helper()
	e := must.Get(gpc.OpenEngine(gpc.EngineOptions{Backend: "cpu", Threads: 2}))(t)
	t.Cleanup(func() { e.Close() })
	return e
}

// server is one of fragile carts.
func server(t testing.TB, opt serve.Options) *serve.Server {
	t.Helper()
	c, setup := cart(t)
	if opt.Setup.Method == "" {
		opt.Setup = setup
	}
	s := must.Get(serve.New(c, engine(t), opt))(t)
	t.Cleanup(s.Close)
	return s
}

// logged is what a server logs.
type logged struct {
	sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.text.Write(p)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) lines() []string {
	l.Lock()
	defer l.Unlock()
	return strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n")
}

// said are the answers to lines that are at hand together.
func said(t testing.TB, s *serve.Server, opt serve.LineOptions, lines ...string) (answers []map[string]any) {
	t.Helper()
	var out bytes.Buffer
	must.OK(t, s.Lines(t.Context(), strings.NewReader(strings.Join(lines, "\n")+"\n"), &out, opt))
	for line := range strings.Lines(out.String()) {
		var a map[string]any
		if err := json.Unmarshal([]byte(line), &a); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%v in the answer %q", err, line)
		}
		answers = append(answers, a)
	}
	if len(answers) != len(lines) {
		t.Fatalf("%d answers to %d lines: %s", len(answers), len(lines), out.String())
	}
	return answers
}

// wire is a server behind pipes, asked line by line.
type wire struct {
	t    testing.TB
	to   *io.PipeWriter
	from *bufio.Scanner
	done chan error
}

func wired(t testing.TB, s *serve.Server) *wire {
	in, to := io.Pipe()
	from, out := io.Pipe()
	w := &wire{t: t, to: to, from: bufio.NewScanner(from), done: make(chan error, 1)}
	w.from.Buffer(nil, 1<<24)
	go func() { w.done <- s.Lines(context.Background(), in, out, serve.LineOptions{}) }()
	return w
}

// ask sends lines in one write and reads their answers.
func (w *wire) ask(lines ...string) []serve.Answer {
	w.t.Helper()
	must.Get(io.WriteString(w.to, strings.Join(lines, "\n")+"\n"))(w.t)
	answers := make([]serve.Answer, len(lines))
	for i := range answers {
		if !w.from.Scan() {
			w.t.Fatalf("no answer %d: %v", i, w.from.Err())
		}
		must.OK(w.t, json.Unmarshal(w.from.Bytes(), &answers[i]))
	}
	return answers
}

func (w *wire) end() {
	w.t.Helper()
	must.OK(w.t, w.to.Close())
	must.OK(w.t, <-w.done)
}

func decide(t testing.TB, session string, s, c []float64) string {
	t.Helper()
	return string(must.Get(json.Marshal(map[string]any{"op": "decide", "session": session, "s": s, "c": c}))(t))
}

// The closed loop through lines is that of an evaluation, action for action to the bit,
// whoever decides together.
func TestTheLoopThroughLinesIsThatOfEval(t *testing.T) {
	cases := paper.Cases()
	for _, of := range []struct {
		name, method string
		episodes     int
		long         bool
	}{{"integrator-convex", "gpc", 5, false}, {"opf30", "direct", 2, false}, {"opf30-uncertain", "gpc", 3, true}, {"integrator-convex", "gpc-refine-64", 3, true}, {"integrator-convex", "mpc", 2, true}, {"multiagent-static", "gpc", 2, true}} {
		t.Run(of.name+" "+of.method, func(t *testing.T) {
			if of.long && testing.Short() {
				t.Skip("it takes long")
			}
			c := must.Get(cases.Find(of.name))(t)
			setup := must.Get(c.Setup(of.method, ""))(t)
			want := make([][]closedloop.Line, of.episodes)
			must.Get(c.Evaluate(t.Context(), setup, gpc.EngineOptions{Backend: "cpu"}, closedloop.Options{
				Episodes: of.episodes, Seed: 991, Preference: domain.Preference{Adaptive: true}, Visit: func(e *closedloop.EpisodeRecord) { want[e.Episode] = e.Lines },
			}))(t)
			s := must.Get(serve.New(c, engine(t), serve.Options{Setup: setup, Sessions: of.episodes}))(t)
			defer s.Close()
			w := wired(t, s)
			spec := c.Spec()
			var open []int
			eps := make([]domain.Episode, of.episodes)
			for i := range eps {
				eps[i] = must.Get(c.Definition().Plant.Episode(991, i, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
				open = append(open, i)
			}
			for step := 0; len(open) > 0; step++ {
				var lines []string
				for _, i := range open {
					x, cx := make([]float64, spec.MeasuredSize()), make([]float64, spec.ContextSize())
					eps[i].Observe(x, cx)
					lines = append(lines, decide(t, fmt.Sprint("episode ", i), x, cx))
				}
				for k, a := range w.ask(lines...) {
					i := open[k]
					if a.Failure != nil || a.Session != fmt.Sprint("episode ", i) || a.Late {
						t.Fatalf("episode %d, decision %d: %+v", i, step, a)
					}
					if l := want[i][step]; !slices.Equal(a.U[:len(l.U)], l.U) || a.Decision.Fallback != l.Fallback {
						t.Fatalf("episode %d, decision %d: %v, evaluation decides %v", i, step, a.U, l.U)
					}
					must.Get(eps[i].Apply(a.U))(t)
				}
				open = slices.DeleteFunc(open, func(i int) bool { return eps[i].Done() })
			}
			w.end()
			if h := s.Health(); of.method != "mpc" && h.LargestBatch < 1 || h.Panics+h.Late+h.Refused != 0 {
				t.Errorf("health %+v", h)
			}
		})
	}
}

// What is wrong with a line is its answer, with the field; the next is served.
func TestBadLinesAreAnswered(t *testing.T) {
	s := server(t, serve.Options{Sessions: 2})
	long := `{"op":"decide","s":[0.1,0.2],"c":[0` + strings.Repeat(" ", 300) + `]}`
	good := `{"op":"decide","session":"a","s":[0.1,0.2],"c":[0]}`
	bad := []struct{ line, field, says string }{
		{``, "", "JSON object"},
		{`null`, "", "JSON object"},
		{`[1]`, "", "JSON object"},
		{`{"op":"decide"`, "", "JSON"},
		{`{"op":"decide"} {}`, "", "more than one"},
		{"{\"op\":\"reset\",\"session\":\"\xff\"}", "", "UTF-8"},
		{`{"session":"a"}`, "op", "missing"},
		{`{"op":"fly"}`, "op", "fly"},
		{`{"op":7}`, "op", "7"},
		{`{"op":"health","s":[1]}`, "s", "no field"},
		{`{"op":"reset","session":null}`, "session", "null"},
		{`{"op":"reset","session":"` + strings.Repeat("x", 129) + `"}`, "session", "129"},
		{`{"op":"reset","session":"a","session":"b"}`, "session", "twice"},
		{`{"op":"preference","session":"a"}`, "preference", "missing"},
		{`{"op":"preference","preference":"both"}`, "preference", "both"},
		{`{"op":"preference","preference":[0.5]}`, "preference", "1 weights"},
		{`{"op":"preference","preference":[0.5,0.6]}`, "preference", "sum"},
		{`{"op":"decide","s":[0.1],"c":[0]}`, "s", "entries"},
		{`{"op":"decide","s":[0.1,1e39],"c":[0]}`, "s", "finite"},
		{`{"op":"decide","s":[0.1,0.2],"c":[0],"deadline":5}`, "deadline", "deadline"},
		{`{"op":"decide","s":[0.1,0.2]}`, "c", "entries"},
		{`{"op":"decide","q":0.1,"progress":0}`, "v", "missing"},
		{`{"op":"decide","s":[0.1,0.2],"c":[0],"deadline_ms":0}`, "deadline_ms", "above 0"},
		{`{"op":"decide","s":[0.1,0.2],"c":[0],"deadline_ms":1e300}`, "deadline_ms", "at most"},
		{`{"op":"decide","s":[0.1,0.2],"c":[0],"observed_ms":1e300}`, "observed_ms", "at most"},
		{`{"op":"refine","s":[0.1,0.2],"c":[0],"observed_ms":1}`, "observed_ms", "none"},
		{`{"op":"clear","s":[0.1,0.2]}`, "s", "no field"},
		{`{"op":"decide","s":[0.1,0.2],"c":[0],"preference":[2,-1]}`, "preference", "weight"},
		{`{"op":"refine","s":[0.1,null],"c":[0]}`, "s", "finite"},
		{`{"op":"refine","s":[0.1,0.2],"c":[0],"candidates":0}`, "candidates", "from 1"},
		{`{"op":"refine","s":[0.1,0.2],"c":[0],"candidates":1.5}`, "candidates", "1.5"},
		{`{"op":"refine","s":[0.1,0.2],"c":[0],"seed":-1}`, "seed", "-1"},
		{long, "", "more than 256 bytes"},
	}
	var lines []string
	for _, b := range bad {
		lines = append(lines, b.line, good)
	}
	lines = append(lines, `{"op":"health"}`)
	answers := said(t, s, serve.LineOptions{MaxBytes: 256}, lines...)
	for i, b := range bad {
		a, next := answers[2*i], answers[2*i+1]
		text, _ := a["error"].(string)
		if field, ok := a["field"]; !ok || field != b.field || !strings.Contains(text, b.says) || a["u"] != nil {
			t.Errorf("%.80s: %v, want field %q and an error that mentions %s", b.line, a, b.field, b.says)
		}
		if next["error"] != nil || len(next["u"].([]any)) != 1 {
			t.Errorf("behind %.80s: %v", b.line, next)
		}
	}
	h := answers[len(answers)-1]["health"].(map[string]any)
	if h["refused"] != float64(len(bad)) || h["decisions"] != float64(len(bad)) || h["sessions"] != 1.0 {
		t.Errorf("health %v", h)
	}
}

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
	for _, method := range []string{"gpc", "gpc-refine-64"} {
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
	s := server(t, serve.Options{})
	slowly := `{"op":"decide","session":"a","s":[0.3125,0.1],"c":[0],"deadline_ms":10}`
	behind := `{"op":"decide","session":"a","s":[0.25,0.1],"c":[0],"deadline_ms":10}`
	free := `{"op":"decide","session":"a","s":[0.25,0.1],"c":[0]}`
	start := time.Now()
	answers := said(t, s, serve.LineOptions{}, slowly, behind)
	took := time.Since(start)
	for i, a := range answers {
		if a["late"] != true || fmt.Sprint(a["u"]) != "[-1]" || a["fallback"] != float64(domain.FallbackConservative) || a["batch"] != 0.0 {
			t.Errorf("late answer %d: %v", i, a)
		}
		if us := a["latency_us"].(float64); us > 10e3 {
			t.Logf("answer %d took %v µs on this machine", i, us)
		}
	}
	if took > late {
		t.Errorf("two answers with a deadline of 10 ms took %v", took)
	}
	if a := said(t, s, serve.LineOptions{}, free)[0]; a["late"] != false || a["error"] != nil {
		t.Errorf("after them: %v", a)
	}
	if h := s.Health(); h.Late != 2 || h.Decisions != 1 {
		t.Errorf("health %+v", h)
	}
	of := server(t, serve.Options{Deadline: 10 * time.Millisecond})
	if a := said(t, of, serve.LineOptions{}, strings.Replace(slowly, `,"deadline_ms":10`, "", 1))[0]; a["late"] != true {
		t.Errorf("with the server's own deadline: %v", a)
	}
}

// A refinement ends its rounds for its deadline, and changes no session.
func TestRefinementsAreServed(t *testing.T) {
	s := server(t, serve.Options{})
	line := `{"op":"refine","session":"a","s":[0.2,0.1],"c":[0],"candidates":256,"seed":3`
	answers := said(t, s, serve.LineOptions{}, line+`}`, line+`,"preference":[1,0]}`, `{"op":"preference","session":"a","preference":[1,0]}`, line+`}`, `{"op":"health"}`)
	c, setup := cart(t)
	r := must.Get(must.Get(c.Refiner(engine(t), setup, 256))(t).Refine(t.Context(), batchnav.Observation{S: []float64{0.2, 0.1}, C: []float64{0}, Preference: domain.Preference{Adaptive: true}}, batchnav.RefineOptions{Candidates: 256, Seed: 3}))(t)
	cost := func(i int) float64 { return answers[i]["refinement"].(map[string]any)["cost"].(float64) }
	if cost(0) != r.Cost || cost(1) == r.Cost || cost(3) != cost(1) {
		t.Errorf("costs %v, %v, %v; a refinement by itself %v", cost(0), cost(1), cost(3), r.Cost)
	}
	short := said(t, s, serve.LineOptions{}, strings.Replace(line, `256`, `1000000`, 1)+`,"deadline_ms":40}`)[0]["refinement"].(map[string]any)
	if n := short["candidates"].(float64); n >= 1e6 || n == 0 && short["late"] != true {
		t.Errorf("within 40 ms: %v", short)
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
	s, plain := server(t, serve.Options{MaxAge: 10 * time.Second, Log: told.logger()}), server(t, serve.Options{})
	now := float64(time.Now().UnixMilli())
	at := func(session string, ms float64) string {
		return fmt.Sprintf(`{"op":"decide","session":%q,"s":[0.3,0.2],"c":[0],"observed_ms":%.3f}`, session, ms)
	}
	for _, ended := range []string{"clear", "reset"} {
		for why, wrong := range map[string]float64{"age": now - 20e3, "order": now, "ahead": now + 60e3} {
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

// When the context ends no more is read, and what was is answered, by the fallback where
// there is no time left.
func TestTheEndAnswersWhatWasRead(t *testing.T) {
	s := server(t, serve.Options{})
	in, to := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- s.Lines(ctx, in, &out, serve.LineOptions{Drain: time.Millisecond}) }()
	must.Get(io.WriteString(to, decide(t, "a", []float64{slow, 0}, []float64{0})+"\n"+decide(t, "a", []float64{0.1, 0}, []float64{0})+"\n"+`{"op":"reset","session":"a"}`+"\n"))(t)
	time.Sleep(late / 8)
	cancel()
	select {
	case err := <-done:
		must.OK(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
	if n := strings.Count(out.String(), "\n"); n != 3 || strings.Count(out.String(), `"u":[`) != 2 || !strings.Contains(out.String(), `"late":true`) {
		t.Errorf("%d answers: %s", n, out.String())
	}
}

// Lines may end as on other systems, and the last one by the end of the input.
func TestEndsOfLines(t *testing.T) {
	var out bytes.Buffer
	must.OK(t, server(t, serve.Options{}).Lines(t.Context(), strings.NewReader("{\"op\":\"reset\"}\r\n{\"op\":\"reset\"}"), &out, serve.LineOptions{MaxBytes: 14}))
	if out.String() != "{\"op\":\"reset\"}\n{\"op\":\"reset\"}\n" {
		t.Errorf("%q", out.String())
	}
}

// An output that nobody reads any more ends it with that error.
func TestABrokenOutputIsAnError(t *testing.T) {
	s := server(t, serve.Options{})
	in, to := io.Pipe()
	from, out := io.Pipe()
	must.OK(t, from.CloseWithError(io.ErrClosedPipe))
	done := make(chan error, 1)
	go func() { done <- s.Lines(context.Background(), in, out, serve.LineOptions{}) }()
	must.Get(io.WriteString(to, `{"op":"health"}`+"\n"))(t)
	select {
	case err := <-done:
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("error %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
}

// The core answers many goroutines at once, refuses what is wrong, and ends clean.
func TestTheCoreServesGoroutines(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c, setup := cart(t)
	e := must.Get(gpc.OpenEngine(gpc.EngineOptions{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	s := must.Get(serve.New(c, e, serve.Options{Setup: setup}))(t)
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
	must.OK(t, s.SetPreference(t.Context(), "a", domain.Preference{W: []float64{1, 0}}))
	if r, err := s.Refine(t.Context(), "a", serve.Request{S: []float64{0.1, 0}, C: []float64{0}}, batchnav.RefineOptions{Candidates: 32}); err != nil || r.Sigma[0] != 1 {
		t.Errorf("%v, %+v", err, r)
	}
	must.OK(t, s.Reset(t.Context(), "a"))
	if h := s.Health(); h.Decisions != 401 || h.Sessions != 20 || h.Status != "ok" {
		t.Errorf("health %+v", h)
	}
	s.Close()
	s.Close()
	if _, err := s.Decide(t.Context(), "a", serve.Request{S: []float64{0, 0}, C: []float64{0}}); !errors.Is(err, serve.ErrClosed) || s.Health().Status != "closing" {
		t.Errorf("closed: %v", err)
	}
}

// FuzzLine: whatever a line is, it has one answer of its own line, an error or a decision
// that is finite, and the server serves the next.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		`{"op":"decide","session":"a","s":[0.1,-0.2],"c":[0],"preference":[0.5,0.5]}`, `{"op":"decide","q":1,"v":null,"progress":0}`, `{"op":"health"}`,
		`{"op":"refine","s":[0.1,0.2],"c":[0],"candidates":2}`, `{"op":"preference","preference":null}`, `{"op":"decide","s":[0,0],"c":[0],"observed_ms":1e3}`, `{"op":"clear"}`, `{"op":"reset","session":"\u0000"}`, `{"op":"decide","s":[],"c":{}}`, "\xff", "{", "\r",
	} {
		f.Add(seed)
	}
	s := server(f, serve.Options{Sessions: 4})
	f.Fuzz(func(t *testing.T, line string) {
		if strings.Contains(line, "refine") && len(line) > 90 {
			return // as many candidates as it likes take as long
		}
		lines := strings.Count(line, "\n") + 1
		var out bytes.Buffer
		must.OK(t, s.Lines(context.Background(), strings.NewReader(line+"\n"+`{"op":"reset","session":"a"}`+"\n"), &out, serve.LineOptions{}))
		answers := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(answers) != lines+1 || answers[lines] != `{"op":"reset","session":"a"}` {
			t.Fatalf("%q is answered %q", line, answers)
		}
		for _, text := range answers[:lines] {
			var a struct {
				Op    string
				U     []float64
				Error *string
				Field *string
			}
			must.OK(t, json.Unmarshal([]byte(text), &a))
			failed := a.Error != nil
			if failed != (a.Field != nil) || failed && *a.Error == "" || !failed && a.Op == "decide" && (len(a.U) != 1 || math.Abs(a.U[0]) > 1) {
				t.Fatalf("%q is answered %s", line, text)
			}
		}
	})
}
