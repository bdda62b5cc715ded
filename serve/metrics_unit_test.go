package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Each metric is its own counter: of what is counted differently, every line has its number.
func TestEveryMetricHasItsNumber(t *testing.T) {
	s, _ := bare(t, Options{Waiting: 11})
	s.health = Health{Case: "cart", Method: "direct", ModelSHA256: "5", Commit: "c", Backend: "cpu", ISA: "avx2", SessionsMax: 12}
	m := &s.metrics
	want := map[string]float64{}
	number := 100.0
	next := func(name string) int64 {
		number++
		want[name] = number
		return int64(number)
	}
	s.open.Store(next("gpc_sessions"))
	m.expired.Store(next("gpc_sessions_expired_total"))
	s.late.Store(next("gpc_late_total"))
	m.outlasted.Store(next("gpc_outlasted_total"))
	s.panics.Store(next("gpc_panics_total"))
	s.asides.Store(next("gpc_aside_total"))
	m.asidesAhead.Store(next("gpc_aside_ahead_max"))
	s.watchers.count.Store(next("gpc_watchers"))
	m.dropped.Store(next("gpc_watchers_dropped_total"))
	m.connections.Store(next("gpc_connections"))
	m.turnedAway.Store(next("gpc_connections_refused_total"))
	for i, kind := range []string{"own", "replaced", "stale", "late"} {
		m.decisions[i].Store(next(`gpc_decisions_total{kind="` + kind + `"}`))
	}
	for i, kind := range []string{"own", "late", "front"} {
		m.refined[i].Store(next(`gpc_refinements_total{kind="` + kind + `"}`))
	}
	for i, reason := range []string{"input", "busy", "full", "closing", "panic", "error"} {
		m.refused[i].Store(next(`gpc_refused_total{reason="` + reason + `"}`))
	}
	reasons := 0
	for bit := range m.fallbacks {
		if f := domain.Fallback(1 << bit); f.Known() {
			reasons++
			m.fallbacks[bit].Store(next(`gpc_fallbacks_total{reason="` + f.String() + `"}`))
		} else {
			m.fallbacks[bit].Store(1)
		}
	}
	for i, h := range []*histogram{m.latency, m.refinement, m.batch, m.residual} {
		for range i + 1 {
			h.observe(0.375)
		}
	}
	want["gpc_decision_latency_seconds_count"], want["gpc_refinement_latency_seconds_count"], want["gpc_batch_sessions_count"], want["gpc_residual_ratio_count"] = 1, 2, 3, 4
	want["gpc_decision_latency_seconds_sum"], want[`gpc_decision_latency_seconds_bucket{le="0.25"}`], want[`gpc_decision_latency_seconds_bucket{le="0.5"}`] = 0.375, 0, 1
	want["gpc_sessions_max"], want["gpc_waiting_max"], want["gpc_margin_smallest"] = 12, 11, math.Inf(1)
	want[`gpc_build_info{case="cart",method="direct",model_sha256="5",commit="c",backend="cpu",isa="avx2"}`] = 1
	read := func() map[string]float64 {
		var text strings.Builder
		require.OK(t, s.WriteMetrics(&text))
		got := map[string]float64{}
		for line := range strings.Lines(text.String()) {
			var v float64
			if i := strings.LastIndexByte(line, ' '); line[0] != '#' {
				require.Get(fmt.Sscan(line[i+1:], &v))(t)
				got[line[:i]] = v
			}
		}
		return got
	}
	got := read()
	for name, v := range want {
		if now, ok := got[name]; !ok || now != v {
			t.Errorf("%s is %v, want %v", name, now, v)
		}
	}
	shown := 0
	for name := range got {
		shown += index(strings.HasPrefix(name, "gpc_fallbacks_total"))
	}
	if reasons < 10 || shown != reasons {
		t.Errorf("%d reasons are shown of %d", shown, reasons)
	}
	for _, margin := range []float64{3, -2, 5} {
		m.countAnswer(&job{start: time.Now(), answer: Answer{Decision: &Decision{Margin: margin, Residual: math.NaN()}}})
	}
	if now := read()["gpc_margin_smallest"]; now != -2 {
		t.Errorf("the smallest margin is %v", now)
	}
	if err := s.WriteMetrics(&failing{}); err == nil || err.Error() != "no room" {
		t.Errorf("metrics that cannot be written: %v", err)
	}
	// Bounds and values are written in full.
	h := newHistogram([]float64{0.0125, 1024})
	h.observe(0.0123456789)
	var e exposition
	e.histogram("x", "text", h)
	for _, line := range []string{"x_bucket{le=\"0.0125\"} 1\n", "x_bucket{le=\"1024\"} 1\n", "x_sum 0.0123456789\n"} {
		if !strings.Contains(e.String(), line) {
			t.Errorf("%s lacks %s", e.String(), line)
		}
	}
}

// A server that drains refuses what is asked over HTTP, before its body is read, and ends the connection.
func TestWhatDrainsIsRefusedOverHTTP(t *testing.T) {
	s, _ := bare(t, Options{Waiting: 1})
	h := Handler(s, HTTPOptions{MaxBytes: 8})
	ask := func(method, path string, body io.Reader) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, body))
		return w
	}
	unread := iotest.ErrReader(errors.New("no body"))
	for want, w := range map[string]*httptest.ResponseRecorder{
		"the body was not read: no body":  ask("POST", "/v1/reset", unread),
		"the body has more than 8 bytes":  ask("POST", "/v1/reset", io.MultiReader(strings.NewReader("123456789"))),
		"the body has more than 8 bytes,": ask("POST", "/v1/reset", strings.NewReader("123456789")),
	} {
		if status := w.Code; status != map[bool]int{true: 400, false: 413}[strings.Contains(want, "read")] || !strings.Contains(w.Body.String(), want) || w.Header().Get("Connection") != "" {
			t.Errorf("%d %s, want %s", status, w.Body, want)
		}
	}
	if w := ask("POST", "/v1/reset", strings.NewReader("12345678")); w.Code != 400 || !strings.Contains(w.Body.String(), "JSON") {
		t.Errorf("eight bytes: %d %s", w.Code, w.Body)
	}
	if w := ask("GET", "/ready", nil); w.Code != 200 || w.Body.String() != "{\"ready\":true}\n" || w.Flushed {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	refused := s.refused.Load()
	s.Drain(time.Hour)
	for path, want := range map[string]string{
		"POST /v1/decide": `503 {"op":"decide","error":"serve: the server is closing","field":""}`, "GET /ready": `503 {"ready":false}`,
		"GET /v1/stream": `503 {"error":"serve: the server is closing","field":""}`,
	} {
		method, path, _ := strings.Cut(path, " ")
		w := ask(method, path, unread)
		if got := fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String())); got != want || w.Header().Get("Connection") != "close" || w.Header().Get("Retry-After") != "1" || !w.Flushed || w.Header().Get("Content-Length") != fmt.Sprint(w.Body.Len()) {
			t.Errorf("%s: %s, want %s; %v", path, got, want, w.Header())
		}
	}
	if s.refused.Load() != refused+2 || s.metrics.refused[refusedClosing].Load() != 2 {
		t.Errorf("%d refused", s.refused.Load()-refused)
	}
}

// A stream has a beat in a pause, and ends with its reader, its watch or the server.
func TestAStreamEnds(t *testing.T) {
	const beat = ":\n\n"
	for name, c := range map[string]struct {
		during func(s *Server, w *reply, leave func())
		want   string
		took   time.Duration
	}{
		"its reader leaves":        {func(_ *Server, _ *reply, leave func()) { time.Sleep(time.Minute - 1); leave() }, beat + beat + beat + beat, time.Minute - 1},
		"its reader takes no beat": {func(_ *Server, w *reply, _ func()) { w.fails = errors.New("gone") }, beat, 15 * time.Second},
		"its reader takes no decision": {func(s *Server, w *reply, _ func()) {
			w.fails = errors.New("gone")
			tell(s, "a")
		}, beat, 0},
		"the server drains": {func(s *Server, _ *reply, _ func()) {
			tell(s, "a")
			synctest.Wait()
			s.Drain(time.Hour)
		}, beat + "event: decision\nid: 1\ndata: DECISION\n\nevent: closing\nid: 1\ndata: {}\n\n", 0},
		"its watch ends": {func(s *Server, _ *reply, _ func()) { s.watchers.bySession["a"][0].Close() }, beat + "event: dropped\ndata: {}\n\n", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := bare(t, Options{})
			ctx, leave := contextOf(t)
			w := &reply{head: http.Header{}}
			start, ended := time.Now(), make(chan struct{})
			go func() {
				(&handler{s: s}).stream(w, (&http.Request{URL: &url.URL{RawQuery: "session=a"}}).WithContext(ctx))
				close(ended)
			}()
			synctest.Wait()
			c.during(s, w, leave)
			<-ended
			text := w.text.String()
			if before, rest, ok := strings.Cut(text, "data: {\"number\""); ok {
				_, after, _ := strings.Cut(rest, "\n")
				text = before + "data: DECISION\n" + after
			}
			if took := time.Since(start); text != c.want || took != c.took || s.watchers.count.Load() != 0 || w.status != 200 {
				t.Errorf("%s: %q after %v, want %q after %v; %d watch", name, text, took, c.want, c.took, s.watchers.count.Load())
			}
		})
	}
	s, _ := bare(t, Options{})
	for range 64 {
		require.Get(s.Watch("a"))(t)
	}
	w := &reply{head: http.Header{}}
	if (&handler{s: s}).stream(w, &http.Request{URL: &url.URL{}}); w.status != 429 || s.metrics.refused[refusedBusy].Load() != 1 {
		t.Errorf("one too many: %d", w.status)
	}
	broken := &reply{head: http.Header{}, fails: errors.New("gone")}
	s.watchers.bySession["a"][0].Close()
	if (&handler{s: s}).stream(broken, &http.Request{URL: &url.URL{}}); s.watchers.count.Load() != 63 {
		t.Errorf("%d watch, want the others", s.watchers.count.Load())
	}
	// A reader may lag by 256 events.
	slow := require.Get(s.Watch("slow"))(t)
	for range 256 {
		tell(s, "slow")
	}
	if s.metrics.dropped.Load() != 0 || len(slow.Events) != 256 {
		t.Errorf("%d are dropped, %d events wait", s.metrics.dropped.Load(), len(slow.Events))
	}
	if tell(s, "slow"); s.metrics.dropped.Load() != 1 {
		t.Errorf("%d are dropped", s.metrics.dropped.Load())
	}
}

// tell tells the watchers of a session of a decision.
func tell(s *Server, session string) {
	j := asked(session)
	j.answer.Decision = &Decision{U: []float64{1}}
	s.watchers.tell(j)
}

// What comes before a failure of its input is answered, by a server that has closed with ErrClosed each.
func TestLinesOfAServerThatHasClosed(t *testing.T) {
	s, _ := bare(t, Options{})
	s.closed = true
	var text strings.Builder
	stop := errors.New("stop")
	in := io.MultiReader(strings.NewReader(`{"op":"reset","session":"a"}`+"\nx\n"+`{"op":"clear"}`+"\n"), iotest.ErrReader(stop))
	if err := s.Lines(t.Context(), in, &text, LineOptions{}); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	lines := strings.Split(text.String(), "\n")
	closed := `"error":"serve: the server is closing","field":""}`
	if len(lines) != 4 || lines[0] != `{"op":"reset","session":"a",`+closed || lines[2] != `{"op":"clear",`+closed || !strings.Contains(lines[1], "JSON") || s.pending.Load() != 0 || s.refused.Load() != 3 {
		t.Errorf("answered %q, %d refused", lines, s.refused.Load())
	}
}

// A client says what it cannot ask, and what breaks off.
func TestWhatAClientCannotAsk(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "{")
	}))
	defer h.Close()
	c := require.Get(Dial(h.URL, ClientOptions{Connections: 20}))(t)
	defer c.Close()
	if n := c.http.Transport.(*http.Transport).MaxIdleConnsPerHost; n != 20 {
		t.Errorf("%d connections are kept", n)
	}
	if err := c.Reset(t.Context(), "a"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half an answer: %v", err)
	}
	if err := c.ask(t.Context(), "NO METHOD", "/", nil, nil); err == nil {
		t.Error("a request without a method")
	}
	if err := c.ask(context.Background(), "POST", "/", map[string]any{"x": make(chan int)}, nil); err == nil {
		t.Error("a request that is no JSON")
	}
	goal := &domain.Goals{First: []int{1}}
	for want, p := range map[any]domain.Preference{goal: {Goal: goal, W: []float64{1}}, nil: {Adaptive: true, W: []float64{1}}} {
		if got := weightsOf(&p); got != want {
			t.Errorf("%+v is asked as %v", p, got)
		}
	}
	if got := weightsOf(&domain.Preference{W: []float64{1, 0}}); fmt.Sprint(got) != "[1 0]" {
		t.Errorf("weights are asked as %v", got)
	}
}
