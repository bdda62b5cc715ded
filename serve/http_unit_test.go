package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

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

// Without a token a request over TCP has to name a loopback host; one over a socket may name any.
func TestWhichHostsMayBeNamed(t *testing.T) {
	s, _ := bare(t, Options{})
	for _, c := range []struct {
		address net.Addr
		host    string
		token   string
		ok      bool
	}{
		{&net.TCPAddr{}, "localhost:1", "", true}, {&net.TCPAddr{}, "plant", "", false}, {&net.UnixAddr{Net: "unix"}, "plant", "", true}, {&net.UnixAddr{Net: "unix"}, "localhost", "", true},
		{nil, "plant", "", true}, {&net.TCPAddr{}, "plant", "token", true},
	} {
		r := httptest.NewRequest("GET", "/ready", nil)
		if r.Host = c.host; c.address != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.address))
		}
		w := httptest.NewRecorder()
		if Handler(s, HTTPOptions{Token: c.token}).ServeHTTP(w, r); (w.Code == 200) != c.ok || !c.ok && w.Code != 403 {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
	}
}

// A client asks for what its request says, and for nothing that it does not say.
func TestAClientAsksForItsRequest(t *testing.T) {
	var got map[string]any
	var head http.Header
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, head = nil, r.Header
		json.NewDecoder(r.Body).Decode(&got)
		io.WriteString(w, `{"u":[1,2]}`)
	}))
	defer h.Close()
	c := require.Get(Dial(h.URL+"/", ClientOptions{Token: "secret"}))(t)
	defer c.Close()
	now := time.Now()
	for want, r := range map[string]Request{
		"map[c:[2] s:[1 <nil>] session:a]":                 {S: []float64{1, math.NaN()}, C: []float64{2}},
		"map[c:[2] session:a y:[3]]":                       {S: []float64{1}, Y: []float64{3}, C: []float64{2}},
		"map[c:[] observed_ms:1.5 preference:<nil> s:[]":   {S: []float64{}, C: []float64{}, Observed: time.Unix(0, 1500000), Preference: &domain.Preference{Adaptive: true}},
		"map[c:[] deadline_ms:0.001 preference:[1 0] s:[]": {S: []float64{}, C: []float64{}, Deadline: now.Add(-time.Hour), Preference: &domain.Preference{W: []float64{1, 0}}},
		"map[c:[] deadline_ms:3.":                          {S: []float64{}, C: []float64{}, Deadline: now.Add(1000 * time.Hour)},
	} {
		d, err := c.Decide(t.Context(), "a", r)
		if err != nil || !strings.HasPrefix(fmt.Sprint(got), want) || head.Get("Authorization") != "Bearer secret" || head.Get("Content-Type") != "application/json" {
			t.Errorf("asked for %v, want %s, %v", got, want, err)
		}
		if d == nil || !math.IsNaN(d.Margin) || !math.IsNaN(d.Residual) || !math.IsNaN(d.Displacement) || d.U[1] != 2 {
			t.Errorf("%+v", d)
		}
	}
	if ms := got["deadline_ms"]; ms != nil && ms != 0.001 && !(ms.(float64) <= 3.6e9 && ms.(float64) > 3.5e9) {
		t.Errorf("a deadline in a thousand hours is asked as %v ms", ms)
	}
	for limit, stated := range map[time.Duration]bool{0: false, -1: false, time.Hour: true} {
		u := []float64{0, 0}
		require.Get(c.Controller(t.Context(), "b", limit).Decide(nil, nil, domain.Preference{Adaptive: true}, u))(t)
		if _, ok := got["deadline_ms"]; ok != stated || got["observed_ms"] == nil || got["session"] != "b" || u[1] != 2 {
			t.Errorf("with a deadline of %v it asks for %v", limit, got)
		}
	}
}
