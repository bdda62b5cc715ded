package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
)

// said are the answers to lines that are at hand together.
func said(t testing.TB, s *serve.Server, opt serve.LineOptions, lines ...string) (answers []map[string]any) {
	t.Helper()
	var out bytes.Buffer
	require.OK(t, s.Lines(t.Context(), strings.NewReader(strings.Join(lines, "\n")+"\n"), &out, opt))
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
	require.Get(io.WriteString(w.to, strings.Join(lines, "\n")+"\n"))(w.t)
	answers := make([]serve.Answer, len(lines))
	for i := range answers {
		if !w.from.Scan() {
			w.t.Fatalf("no answer %d: %v", i, w.from.Err())
		}
		require.OK(w.t, json.Unmarshal(w.from.Bytes(), &answers[i]))
	}
	return answers
}

func (w *wire) end() {
	w.t.Helper()
	require.OK(w.t, w.to.Close())
	require.OK(w.t, <-w.done)
}

func decide(t testing.TB, session string, s, c []float64) string {
	t.Helper()
	return string(require.Get(json.Marshal(map[string]any{"op": "decide", "session": session, "s": s, "c": c}))(t))
}

// The closed loop through lines is that of an evaluation, action for action to the bit,
// whoever decides together.
func TestTheLoopThroughLinesIsThatOfEval(t *testing.T) {
	cases := paper.Cases()
	for _, of := range []struct {
		name, method string
		episodes     int
		long         bool
	}{{"integrator-convex", "navigator", 5, false}, {"opf30", "direct", 2, false}, {"opf30-uncertain", "navigator", 3, true}, {"integrator-convex", "refine-64", 3, true}, {"integrator-convex", "refine-64-ahead", 1, false}, {"integrator-convex", "mpc", 2, true}, {"multiagent-static", "planner", 2, true}} {
		t.Run(of.name+" "+of.method, func(t *testing.T) {
			if of.long && testing.Short() {
				t.Skip("it takes long")
			}
			c := require.Get(cases.Find(of.name))(t)
			setup := require.Get(c.Setup(of.method, ""))(t)
			want := make([][]closedloop.Line, of.episodes)
			require.Get(c.Evaluate(t.Context(), setup, engine.Options{Backend: "cpu"}, closedloop.Options{
				Episodes: of.episodes, Seed: 991, Preference: domain.Preference{Adaptive: true}, Visit: func(e *closedloop.EpisodeRecord) { want[e.Episode] = e.Lines },
			}))(t)
			s := require.Get(serve.New(c, cpu(t), serve.Options{Setup: setup, Sessions: of.episodes}))(t)
			defer s.Close()
			w := wired(t, s)
			spec := c.Spec()
			var open []int
			eps := make([]domain.Episode, of.episodes)
			for i := range eps {
				eps[i] = require.Get(c.Definition().Plant.Episode(991, i, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
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
					require.Get(eps[i].Apply(a.U))(t)
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
		{`{"op":"decide","session":"\ud800","s":[0.1,0.2],"c":[0]}`, "session", "UTF-8"}, // it would be the session of "\ud801"
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
		{`{"op":"refine","s":[0.1,0.2],"c":[0],"observed_ms":1}`, "observed_ms", "unknown field"},
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

// When the context ends no more is read, and what was is answered, by the fallback where
// there is no time left.
func TestTheEndAnswersWhatWasRead(t *testing.T) {
	held := newGate()
	s := server(t, serve.Options{}, held)
	in, to := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- s.Lines(ctx, in, &out, serve.LineOptions{Drain: time.Millisecond}) }()
	require.Get(io.WriteString(to, decide(t, "a", []float64{slow, 0}, []float64{0})+"\n"+decide(t, "a", []float64{0.1, 0}, []float64{0})+"\n"+`{"op":"reset","session":"a"}`+"\n"))(t)
	<-held.arrived // all three were read together
	cancel()
	require.OK(t, <-done)
	if n := strings.Count(out.String(), "\n"); n != 3 || strings.Count(out.String(), `"u":[`) != 2 || !strings.Contains(out.String(), `"late":true`) {
		t.Errorf("%d answers: %s", n, out.String())
	}
}

// Lines may end as on other systems, and the last one by the end of the input.
func TestEndsOfLines(t *testing.T) {
	var out bytes.Buffer
	require.OK(t, server(t, serve.Options{}).Lines(t.Context(), strings.NewReader("{\"op\":\"reset\"}\r\n{\"op\":\"reset\"}"), &out, serve.LineOptions{MaxBytes: 14}))
	if out.String() != "{\"op\":\"reset\"}\n{\"op\":\"reset\"}\n" {
		t.Errorf("%q", out.String())
	}
}

// An output that nobody reads any more ends it with that error.
func TestABrokenOutputIsAnError(t *testing.T) {
	s := server(t, serve.Options{})
	in, to := io.Pipe()
	from, out := io.Pipe()
	require.OK(t, from.CloseWithError(io.ErrClosedPipe))
	done := make(chan error, 1)
	go func() { done <- s.Lines(context.Background(), in, out, serve.LineOptions{}) }()
	require.Get(io.WriteString(to, `{"op":"health"}`+"\n"))(t)
	if err := <-done; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v", err)
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
		require.OK(t, s.Lines(context.Background(), strings.NewReader(line+"\n"+`{"op":"reset","session":"a"}`+"\n"), &out, serve.LineOptions{}))
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
			require.OK(t, json.Unmarshal([]byte(text), &a))
			failed := a.Error != nil
			if failed != (a.Field != nil) || failed && *a.Error == "" || !failed && a.Op == "decide" && (len(a.U) != 1 || math.Abs(a.U[0]) > 1) {
				t.Fatalf("%q is answered %s", line, text)
			}
		}
	})
}
