package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/paper"
	"github.com/gpc-engine/gpc/serve"
)

// web is a server of carts over HTTP.
func web(t testing.TB, opt serve.Options, how serve.HTTPOptions) (*serve.Server, *httptest.Server) {
	t.Helper()
	s := server(t, opt)
	h := httptest.NewServer(serve.Handler(s, how))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return s, h
}

// asked is the status, the JSON and the head of an answer.
func asked(t testing.TB, method, url, body string, head ...string) (int, map[string]any, http.Header) {
	t.Helper()
	r := must.Get(http.NewRequest(method, url, strings.NewReader(body)))(t)
	for i := 0; i < len(head); i += 2 {
		if r.Header.Set(head[i], head[i+1]); head[i] == "Host" {
			r.Host = head[i+1]
		}
	}
	a := must.Get(http.DefaultClient.Do(r))(t)
	defer a.Body.Close()
	text := must.Get(io.ReadAll(a.Body))(t)
	var v map[string]any
	if method != http.MethodHead && a.Header.Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatalf("%s %s: %v in %q", method, url, err, text)
		}
	} else {
		v = map[string]any{"text": string(text)}
	}
	return a.StatusCode, v, a.Header
}

// What is answered over HTTP is what a line is answered.
func TestHTTPAnswersAsLines(t *testing.T) {
	lines := server(t, serve.Options{})
	_, h := web(t, serve.Options{}, serve.HTTPOptions{})
	for i, ask := range []string{
		`{"op":"decide","session":"a","s":[0.3,0.2],"c":[0]}`, `{"op":"decide","session":"a","s":[0.31,0.21],"c":[0.125],"preference":[0.25,0.75]}`,
		`{"op":"preference","session":"a","preference":[1,0]}`, `{"op":"decide","session":"a","q":0.3,"v":null,"progress":0.25}`,
		`{"op":"refine","session":"a","s":[0.3,0.2],"c":[0],"candidates":64,"seed":3}`, `{"op":"clear","session":"a"}`, `{"op":"reset","session":"a"}`,
		`{"op":"decide","session":"a","s":[0.3,0.2],"c":[0]}`, `{"op":"decide","session":"a","s":[0.3],"c":[0]}`,
	} {
		want := said(t, lines, serve.LineOptions{}, ask)[0]
		var fields map[string]any
		must.OK(t, json.Unmarshal([]byte(ask), &fields))
		op := fields["op"].(string)
		delete(fields, "op")
		status, got, _ := asked(t, "POST", h.URL+"/v1/"+op, string(must.Get(json.Marshal(fields))(t)))
		for _, answer := range []map[string]any{want, got} {
			delete(answer, "latency_us")
			if r, ok := answer["refinement"].(map[string]any); ok {
				delete(r, "latency_us")
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || (status == 200) != (want["error"] == nil) {
			t.Errorf("request %d: %d %v, the line is answered %v", i, status, got, want)
		}
	}
	status, health, _ := asked(t, "GET", h.URL+"/health", "")
	if now, ok := health["health"].(map[string]any); status != 200 || !ok || now["status"] != "ok" || now["decisions"] != 5.0 || health["op"] != "health" {
		t.Errorf("%d %v", status, health)
	}
}

// What is wrong has its status, with the field.
func TestBadRequestsHaveTheirStatus(t *testing.T) {
	s, h := web(t, serve.Options{Sessions: 1}, serve.HTTPOptions{MaxBytes: 256})
	good := `{"session":"a","s":[0.1,0.2],"c":[0]}`
	must.Get(s.Decide(t.Context(), "a", serve.Request{S: []float64{0, 0}, C: []float64{0}}))(t)
	for _, b := range []struct {
		method, path, body string
		status             int
		field, says        string
	}{
		{"POST", "/v1/decide", good, 200, "", ""},
		{"POST", "/v1/decide", ``, 400, "", "JSON object"},
		{"POST", "/v1/decide", `{"session":"a","s":[0.1`, 400, "", "not JSON"},
		{"POST", "/v1/decide", good + good, 400, "", "more than one"},
		{"POST", "/v1/decide", "{\"session\":\"\xff\"}", 400, "", "UTF-8"},
		{"POST", "/v1/decide", `{"session":"a","s":[0.1],"c":[0]}`, 400, "s", "entries"},
		{"POST", "/v1/decide", `{"session":"a","s":[0.1,"x"],"c":[0]}`, 400, "s", "entry 1 (v)"},
		{"POST", "/v1/decide", `{"op":"decide","s":[0.1,0.2],"c":[0]}`, 400, "op", "op"},
		{"POST", "/v1/decide", `{"s":[0.1,0.2],"c":[0],"deadline_ms":-1}`, 400, "deadline_ms", "above 0"},
		{"POST", "/v1/decide", `{"s":[0.1,0.2],"c":[0],"preference":[0.5,0.6]}`, 400, "preference", "sum"},
		{"POST", "/v1/refine", `{"s":[0.1,null],"c":[0]}`, 400, "s", "finite"},
		{"POST", "/v1/preference", `{}`, 400, "preference", "missing"},
		{"POST", "/v1/reset", `{"session":7}`, 400, "session", "7"},
		{"POST", "/v1/decide", `{"session":"b","s":[0.1,0.2],"c":[0]}`, 429, "session", "reset one"},
		{"POST", "/v1/decide", good[:len(good)-1] + strings.Repeat(" ", 300) + "}", 413, "", "256 bytes"},
		{"POST", "/v1/fly", good, 404, "", "/v1/fly"},
		{"GET", "/", "", 404, "", "/openapi.json"},
		{"GET", "/v1/../etc/passwd", "", 404, "", ""},
		{"GET", "/v1/decide", "", 405, "", "POST"},
		{"PUT", "/v1/reset", "{}", 405, "", "POST"},
		{"POST", "/health", "", 405, "", "GET"},
		{"GET", "/v1/stream?name=a", "", 400, "name", "session"},
		{"GET", "/v1/stream?session=" + strings.Repeat("x", 129), "", 400, "session", "129"},
	} {
		status, a, head := asked(t, b.method, h.URL+b.path, b.body)
		text, _ := a["error"].(string)
		if field, _ := a["field"].(string); status != b.status || field != b.field || !strings.Contains(text, b.says) || (status == 200) != (a["u"] != nil) {
			t.Errorf("%s %s %.60s: %d %v, want %d, field %q and an error that mentions %s", b.method, b.path, b.body, status, a, b.status, b.field, b.says)
		}
		if status == 429 && head.Get("Retry-After") == "" || status == 405 && head.Get("Allow") == "" || head.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: %d with the head %v", b.method, b.path, status, head)
		}
	}
	if status, _, _ := asked(t, "HEAD", h.URL+"/health", ""); status != 200 {
		t.Errorf("HEAD: %d", status)
	}
	if status, a, _ := asked(t, "POST", h.URL+"/v1/decide", fmt.Sprintf(`{"session":"a","s":[%v,0],"c":[0]}`, panics)); status != 500 || a["field"] != "session" {
		t.Errorf("a panic: %d %v", status, a)
	}
}

// Who may not ask is not answered: without the token, from another site's page, under another name.
func TestWhoMayAsk(t *testing.T) {
	token := "a-token-of-some-length"
	_, open := web(t, serve.Options{}, serve.HTTPOptions{})
	_, closed := web(t, serve.Options{}, serve.HTTPOptions{Token: token})
	body := `{"session":"a"}`
	for _, of := range []struct {
		url    string
		head   []string
		status int
	}{
		{open.URL + "/v1/reset", nil, 200},
		{open.URL + "/v1/reset", []string{"Host", "localhost:8080"}, 200},
		{open.URL + "/v1/reset", []string{"Host", "[::1]"}, 200},
		{open.URL + "/v1/reset", []string{"Host", "evil.example"}, 403},
		{open.URL + "/v1/reset", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{open.URL + "/v1/reset", []string{"Origin", "http://evil.example"}, 403},
		{open.URL + "/v1/reset", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{closed.URL + "/v1/reset", nil, 401},
		{closed.URL + "/v1/reset", []string{"Authorization", "Bearer " + token + "x"}, 401},
		{closed.URL + "/v1/reset", []string{"Authorization", "Basic " + token}, 401},
		{closed.URL + "/v1/reset", []string{"Authorization", "Bearer"}, 401},
		{closed.URL + "/v1/nowhere", nil, 401},
		{closed.URL + "/v1/reset", []string{"Authorization", "Bearer " + token}, 200},
		{closed.URL + "/v1/reset", []string{"Authorization", "bearer " + token, "Host", "plant.example"}, 200},
	} {
		if status, a, head := asked(t, "POST", of.url, body, of.head...); status != of.status || status == 401 && head.Get("WWW-Authenticate") == "" {
			t.Errorf("%s with %q: %d %v, want %d", of.url, of.head, status, a, of.status)
		}
	}
	for path, want := range map[string]int{"/ready": 200, "/health": 401, "/metrics": 401, "/openapi.json": 401, "/v1/stream": 401} {
		if status, _, _ := asked(t, "GET", closed.URL+path, ""); status != want {
			t.Errorf("%s without the token: %d, want %d", path, status, want)
		}
	}
}

// By its deadline a request is answered, with the fallback; what would wait behind too many is
// refused at once.
func TestDeadlinesAndRefusals(t *testing.T) {
	s, h := web(t, serve.Options{Waiting: 1}, serve.HTTPOptions{})
	slowly := fmt.Sprintf(`{"session":"a","s":[%v,0.1],"c":[0]`, slow)
	start := time.Now()
	if status, a, _ := asked(t, "POST", h.URL+"/v1/decide", slowly+`,"deadline_ms":20}`); status != 200 || a["late"] != true || time.Since(start) > late {
		t.Errorf("%d %v after %v", status, a, time.Since(start))
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		if status, a, _ := asked(t, "POST", h.URL+"/v1/decide", slowly+`}`); status != 200 || a["late"] != false {
			t.Errorf("the one that was first: %d %v", status, a)
		}
	})
	time.Sleep(late / 4)
	start = time.Now()
	status, a, head := asked(t, "POST", h.URL+"/v1/decide", `{"session":"b","s":[0.1,0],"c":[0]}`)
	if took := time.Since(start); status != 429 || head.Get("Retry-After") != "1" || took > late/2 {
		t.Errorf("%d %v after %v, want a refusal at once", status, a, took)
	}
	if _, err := s.Decide(t.Context(), "b", serve.Request{S: []float64{0.1, 0}, C: []float64{0}}); !errors.Is(err, serve.ErrBusy) {
		t.Errorf("the core: %v", err)
	}
	wait.Wait()
	if status, a, _ := asked(t, "POST", h.URL+"/v1/decide", `{"session":"b","s":[0.1,0],"c":[0]}`); status != 200 {
		t.Errorf("afterwards: %d %v", status, a)
	}
}

// A client that is gone has no effect on its session, which goes on as if it had been there.
func TestAClientThatIsGone(t *testing.T) {
	s, h := web(t, serve.Options{}, serve.HTTPOptions{})
	same := server(t, serve.Options{})
	ctx, leave := context.WithTimeout(t.Context(), late/8)
	defer leave()
	r := must.Get(http.NewRequestWithContext(ctx, "POST", h.URL+"/v1/decide", strings.NewReader(fmt.Sprintf(`{"session":"a","s":[%v,0.1],"c":[0]}`, slow))))(t)
	if a, err := http.DefaultClient.Do(r); err == nil {
		t.Fatalf("answered %v", a)
	}
	must.Get(same.Decide(t.Context(), "a", serve.Request{S: []float64{slow, 0.1}, C: []float64{0}}))(t)
	next := serve.Request{S: []float64{0.3, 0.1}, C: []float64{0.125}}
	a, b := must.Get(s.Decide(t.Context(), "a", next))(t), must.Get(same.Decide(t.Context(), "a", next))(t)
	if !slices.Equal(a.U, b.U) || !slices.Equal(a.Sigma, b.Sigma) || a.Displacement != b.Displacement {
		t.Errorf("%+v, with a client that stayed %+v", a, b)
	}
}

// A body that does not come ends the request, not the server.
func TestASlowBody(t *testing.T) {
	_, h := web(t, serve.Options{}, serve.HTTPOptions{Patience: 100 * time.Millisecond})
	c := must.Get(net.Dial("tcp", h.Listener.Addr().String()))(t)
	defer c.Close()
	must.Get(io.WriteString(c, "POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"))(t)
	must.OK(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	answer := string(must.Get(io.ReadAll(c))(t))
	if !strings.HasPrefix(answer, "HTTP/1.1 408 ") || !strings.Contains(answer, "did not come within 100ms") {
		t.Errorf("answered %q", answer)
	}
}

// reader reads the events of a stream.
type reader struct {
	t    testing.TB
	body io.ReadCloser
	*bufio.Scanner
}

func stream(t testing.TB, url string) *reader {
	t.Helper()
	a := must.Get(http.Get(url))(t)
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	t.Cleanup(func() { a.Body.Close() })
	r := &reader{t, a.Body, bufio.NewScanner(a.Body)}
	r.Buffer(nil, 1<<20)
	r.Scan() // the comment that it begins with
	return r
}

// next is the kind and the data of the next event, "" at the end.
func (r *reader) next() (kind string, data map[string]any) {
	for r.Scan() {
		name, value, _ := strings.Cut(r.Text(), ": ")
		switch name {
		case "event":
			kind = value
		case "data":
			must.OK(r.t, json.Unmarshal([]byte(value), &data))
			return kind, data
		}
	}
	return "", nil
}

// A stream has the decisions of its session, late and stale ones among them, and none of another's.
func TestAStreamHasItsSessionsDecisions(t *testing.T) {
	s, h := web(t, serve.Options{}, serve.HTTPOptions{})
	events := stream(t, h.URL+"/v1/stream?session=a%20b")
	var want []*serve.Decision
	for i := range 5 {
		r := serve.Request{S: []float64{0.1 * float64(i), 0.1}, C: []float64{0}, Observed: time.UnixMilli(1000)}
		if i == 2 {
			r.S[0], r.Deadline = slow, time.Now().Add(10*time.Millisecond)
		}
		must.Get(s.Decide(t.Context(), "b", r))(t)
		if i == 2 {
			r.Deadline = time.Now().Add(10 * time.Millisecond)
		}
		want = append(want, must.Get(s.Decide(t.Context(), "a b", r))(t))
	}
	for i, d := range want {
		kind, e := events.next()
		if kind != "decision" || e["number"] != float64(i+1) || e["session"] != "a b" || fmt.Sprint(e["u"]) != fmt.Sprint(d.U) || e["stale"] != d.Stale || e["late"] != d.Late || len(e["s"].([]any)) != 2 || e["at_ms"].(float64) < 1e12 {
			t.Errorf("event %d: %s %v, decided %+v", i, kind, e, d)
		}
	}
	if want[1].Stale != "order" || want[0].Stale != "" {
		t.Errorf("%+v", want)
	}
	s.Drain(time.Second)
	if kind, _ := events.next(); kind != "closing" {
		t.Errorf("at the end: %q", kind)
	}
	if kind, _ := events.next(); kind != "" {
		t.Errorf("behind the end: %q", kind)
	}
}

// Who reads too slowly is dropped; nobody waits for it.
func TestASlowReaderIsDropped(t *testing.T) {
	s := server(t, serve.Options{})
	w := must.Get(s.Watch("a"))(t)
	other := must.Get(s.Watch("a"))(t)
	seen, n := make(chan int), 0
	go func() {
		for range other.Events {
			n++
		}
		seen <- n
	}()
	const decisions = 400
	for range decisions {
		must.Get(s.Decide(t.Context(), "a", serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}))(t)
		time.Sleep(10 * time.Microsecond)
	}
	got := 0
	for range w.Events {
		got++
	}
	if got == 0 || got >= decisions {
		t.Errorf("the slow reader has %d of %d, want some and an end", got, decisions)
	}
	w.Close()
	other.Close()
	other.Close()
	if all := <-seen; all != decisions {
		t.Errorf("the other has %d of %d", all, decisions)
	}
	var all []*serve.Watch
	for range serve.MaxWatchers {
		all = append(all, must.Get(s.Watch(fmt.Sprint(len(all))))(t))
	}
	if _, err := s.Watch("a"); !errors.Is(err, serve.ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	for _, w := range all {
		w.Close()
	}
	must.Get(s.Watch("a"))(t).Close()
}

// running serves HTTP at doors until stop, which gives the error that it ended with.
func running(t testing.TB, s *serve.Server, o serve.ListenOptions, how serve.HTTPOptions, drain time.Duration) (on []net.Listener, stop func() error) {
	t.Helper()
	on = must.Get(s.Listen(o))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.HTTP(ctx, serve.Handler(s, how), on, drain) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	return on, stop
}

// A server that drains answers what it was asked, by the fallback where it takes too long, and
// refuses the rest; then nothing of it is left.
func TestDraining(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c, setup := cart(t)
	e := must.Get(gpc.OpenEngine(gpc.EngineOptions{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	s := must.Get(serve.New(c, e, serve.Options{Setup: setup}))(t)
	on, stop := running(t, s, serve.ListenOptions{Address: "127.0.0.1:0"}, serve.HTTPOptions{}, late/4)
	url := "http://" + on[0].Addr().String()
	client := must.Get(serve.Dial(url, serve.ClientOptions{}))(t)
	defer client.Close()
	defer http.DefaultClient.CloseIdleConnections()
	must.Get(client.Health(t.Context()))(t)
	events := stream(t, url+"/v1/stream?session=a")
	answers := make(chan *serve.Decision, 1)
	go func() {
		d, err := client.Decide(t.Context(), "a", serve.Request{S: []float64{slow, 0.1}, C: []float64{0}})
		if err != nil {
			t.Error(err)
		}
		answers <- d
	}()
	idle := must.Get(net.Dial("tcp", on[0].Addr().String()))(t) // half open
	defer idle.Close()
	time.Sleep(late / 8)
	start := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	for !s.Draining() {
		time.Sleep(time.Millisecond)
	}
	if _, err := s.Decide(t.Context(), "b", serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}); !errors.Is(err, serve.ErrClosed) {
		t.Errorf("asked while it drains: %v", err)
	}
	var status *serve.StatusError
	if _, err := client.Decide(t.Context(), "b", serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}); err == nil || errors.As(err, &status) && status.Status != 503 {
		t.Errorf("asked over HTTP while it drains: %v", err)
	}
	if d := <-answers; !d.Late || d.U[0] != -1 {
		t.Errorf("what it was asked is answered %+v", d)
	}
	must.OK(t, <-ended)
	if took := time.Since(start); took > late/4+time.Second {
		t.Errorf("it drained for %v", took)
	}
	for kind, _ := events.next(); kind != ""; kind, _ = events.next() {
	}
	s.Close()
}

// A server that nobody waits for ends at once, whatever connections are open.
func TestAnIdleServerDrainsAtOnce(t *testing.T) {
	s := server(t, serve.Options{})
	on, stop := running(t, s, serve.ListenOptions{Address: "127.0.0.1:0"}, serve.HTTPOptions{}, 20*time.Second)
	for _, says := range []string{"", "POST /v1/decide HTTP/1.1\r\nHost: loc", "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		c := must.Get(net.Dial("tcp", on[0].Addr().String()))(t)
		defer c.Close()
		must.Get(io.WriteString(c, says))(t)
		if strings.HasSuffix(says, "\r\n\r\n") {
			must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
		}
	}
	start := time.Now()
	must.OK(t, stop())
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if c, err := net.Dial("tcp", on[0].Addr().String()); err == nil {
		c.Close()
		t.Error("it still listens")
	}
}

// A client that does not take its stream is closed.
func TestAClientThatDoesNotReadIsClosed(t *testing.T) {
	s := server(t, serve.Options{})
	on, _ := running(t, s, serve.ListenOptions{Address: "127.0.0.1:0"}, serve.HTTPOptions{Patience: 50 * time.Millisecond}, 0)
	c := must.Get(net.Dial("tcp", on[0].Addr().String()))(t)
	defer c.Close()
	must.OK(t, c.(*net.TCPConn).SetReadBuffer(1<<12))
	must.Get(io.WriteString(c, "GET /v1/stream?session=a HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
	for end := time.Now().Add(30 * time.Second); !strings.Contains(metrics(t, s), "\ngpc_connections 0\n"); {
		for range 100 {
			must.Get(s.Decide(t.Context(), "a", serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}))(t)
		}
		if time.Now().After(end) {
			t.Fatal("the connection is still open")
		}
	}
}

// Doors are opened where they may be, and nowhere else.
func TestListen(t *testing.T) {
	s := server(t, serve.Options{})
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.OK(t, os.WriteFile(file, []byte("x"), 0o600))
	for name, o := range map[string]serve.ListenOptions{
		"a token":        {Address: "0.0.0.0:0"},
		"a token ":       {Address: ":0"},
		"no socket":      {Unix: file},
		"certificate":    {Address: "127.0.0.1:0", TLSCert: file, TLSKey: file},
		"TLS needs":      {Unix: filepath.Join(dir, "s"), TLSCert: file, TLSKey: file},
		"TLS needs a":    {Address: "127.0.0.1:0", TLSCert: file},
		"nowhere":        {Unix: filepath.Join(dir, "nowhere", "s")},
		"the address":    {Address: "127.0.0.1:http:8"},
		"the address \"": {Address: "127.0.0.1"},
	} {
		if on, err := s.Listen(o); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) || len(on) != 0 {
			t.Errorf("%+v: %v, %v; want an error that mentions %s", o, on, err, name)
		}
	}
	path := filepath.Join(dir, "socket")
	on := must.Get(s.Listen(serve.ListenOptions{Unix: path}))(t)
	if mode := must.Get(os.Stat(path))(t).Mode(); mode.Perm() != 0o600 {
		t.Errorf("the socket has mode %v", mode)
	}
	if _, err := s.Listen(serve.ListenOptions{Unix: path}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a socket that is in use: %v", err)
	}
	must.OK(t, on[0].Close())
	// A process that was killed leaves it.
	left := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	left.SetUnlinkOnClose(false)
	must.OK(t, left.Close())
	must.Get(os.Stat(path))(t)
	_, stop := running(t, s, serve.ListenOptions{Unix: path}, serve.HTTPOptions{}, 0)
	client := must.Get(serve.Dial("unix:"+path, serve.ClientOptions{}))(t)
	if h := must.Get(client.Health(t.Context()))(t); h.Case != "cart" {
		t.Errorf("health %+v", h)
	}
	client.Close()
	must.OK(t, stop())
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left behind")
	}
}

// Connections beyond what may be open are closed at once; those that are served go on.
func TestConnectionsHaveARoom(t *testing.T) {
	s := server(t, serve.Options{})
	on, _ := running(t, s, serve.ListenOptions{Address: "127.0.0.1:0", Connections: 2}, serve.HTTPOptions{}, 0)
	dial := func() net.Conn {
		c := must.Get(net.Dial("tcp", on[0].Addr().String()))(t)
		t.Cleanup(func() { c.Close() })
		must.OK(t, c.SetDeadline(time.Now().Add(10*time.Second)))
		return c
	}
	ready := func(c net.Conn) error {
		if _, err := io.WriteString(c, "GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return err
		}
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			_, err = io.Copy(io.Discard, a.Body)
		}
		return err
	}
	first, second := dial(), dial()
	must.OK(t, ready(first))
	must.OK(t, ready(second))
	if err := ready(dial()); err == nil {
		t.Error("a third connection is served")
	}
	must.OK(t, ready(first))
	must.OK(t, second.Close())
	for deadline := time.Now().Add(10 * time.Second); ready(dial()) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the room of a closed connection is not given back")
		}
	}
	if text := metrics(t, s); !strings.Contains(text, "\ngpc_connections 2\n") || strings.Contains(text, "\ngpc_connections_refused_total 0\n") {
		t.Errorf("metrics %s", text)
	}
}

// Over TLS with a token, as on an address that other machines reach.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "plant"}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	cert := write("cert.pem", "CERTIFICATE", must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t))
	private := write("key.pem", "EC PRIVATE KEY", must.Get(x509.MarshalECPrivateKey(key))(t))
	token := filepath.Join(dir, "token")
	must.OK(t, os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600))
	secret := must.Get(serve.ReadToken(token))(t)
	s := server(t, serve.Options{})
	on, _ := running(t, s, serve.ListenOptions{Address: "0.0.0.0:0", Token: secret, TLSCert: cert, TLSKey: private}, serve.HTTPOptions{Token: secret}, 0)
	_, port, _ := net.SplitHostPort(on[0].Addr().String())
	url := "https://127.0.0.1:" + port
	client := must.Get(serve.Dial(url, serve.ClientOptions{Token: secret, CA: cert}))(t)
	defer client.Close()
	d := must.Get(client.Decide(t.Context(), "a", serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}))(t)
	same := must.Get(server(t, serve.Options{}).Decide(t.Context(), "a", serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}))(t)
	if !slices.Equal(d.U, same.U) {
		t.Errorf("%+v, without TLS %+v", d, same)
	}
	strange := must.Get(serve.Dial(url, serve.ClientOptions{Token: secret}))(t)
	defer strange.Close()
	if _, err := strange.Health(t.Context()); err == nil {
		t.Error("a certificate of nobody is trusted")
	}
	wrong := must.Get(serve.Dial(url, serve.ClientOptions{Token: secret + "x", CA: cert}))(t)
	defer wrong.Close()
	var status *serve.StatusError
	if _, err := wrong.Health(t.Context()); !errors.As(err, &status) || status.Status != 401 {
		t.Errorf("a wrong token: %v", err)
	}
	for name, text := range map[string]string{"short": "0123456789abcde", "two lines": "0123456789abcdef\n0123456789abcdef", "blank": "0123456789 abcdef", "empty": ""} {
		must.OK(t, os.WriteFile(token, []byte(text), 0o600))
		if _, err := serve.ReadToken(token); err == nil || !strings.Contains(err.Error(), token) {
			t.Errorf("a token that is %s: %v", name, err)
		}
	}
}

// A client says what it was answered, and refuses addresses that are none.
func TestClients(t *testing.T) {
	_, h := web(t, serve.Options{}, serve.HTTPOptions{})
	client := must.Get(serve.Dial(h.URL+"/", serve.ClientOptions{}))(t)
	defer client.Close()
	ctx := t.Context()
	gap := serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}, Preference: &domain.Preference{W: []float64{1, 0}}, Deadline: time.Now().Add(time.Minute), Observed: time.UnixMilli(1000)}
	if d := must.Get(client.Decide(ctx, "a", gap))(t); d.Sigma[0] != 1 || d.Late || d.Batch != 1 {
		t.Errorf("%+v", d)
	}
	must.OK(t, client.SetPreference(ctx, "a", domain.Preference{W: []float64{0, 1}}))
	gap.Preference = nil
	if d := must.Get(client.Decide(ctx, "a", gap))(t); d.Stale != "order" || d.Residual == d.Residual {
		t.Errorf("%+v", d)
	}
	must.OK(t, client.Clear(ctx, "a"))
	if d := must.Get(client.Decide(ctx, "a", gap))(t); d.Stale != "" || d.Sigma[1] != 1 {
		t.Errorf("%+v", d)
	}
	must.OK(t, client.Reset(ctx, "a"))
	var status *serve.StatusError
	if _, err := client.Decide(ctx, "a", serve.Request{S: []float64{1}, C: []float64{0}}); !errors.As(err, &status) || status.Status != 400 || status.Field != "s" || !strings.Contains(err.Error(), "entries") {
		t.Errorf("a short state: %v", err)
	}
	for _, at := range []string{"", "127.0.0.1:8080", "ftp://a", "http://", "unix:", "http://a/b", "http://u:p@a"} {
		if _, err := serve.Dial(at, serve.ClientOptions{}); err == nil {
			t.Errorf("%q is an address", at)
		}
	}
}

// Closed loops side by side over HTTP are those of controllers by themselves, action for action to
// the bit.
func TestLoopsOverHTTPAreThoseOfControllers(t *testing.T) {
	cases := paper.Cases()
	c := must.Get(cases.Find("integrator-convex"))(t)
	setup := must.Get(c.Setup("gpc", ""))(t)
	s := must.Get(serve.New(c, engine(t), serve.Options{Setup: setup}))(t)
	defer s.Close()
	h := httptest.NewServer(serve.Handler(s, serve.HTTPOptions{}))
	defer h.Close()
	client := must.Get(serve.Dial(h.URL, serve.ClientOptions{}))(t)
	defer client.Close()
	adaptive := domain.Preference{Adaptive: true}
	var wait sync.WaitGroup
	for i := range 3 {
		ep := must.Get(c.Definition().Plant.Episode(991, i, domain.EpisodeOptions{Preference: adaptive}))(t)
		alone, served := must.Get(c.Controller(engine(t), setup))(t), client.Controller(t.Context(), fmt.Sprint(i), time.Minute)
		wait.Go(func() {
			x, cx := make([]float64, c.Spec().MeasuredSize()), make([]float64, c.Spec().ContextSize())
			u, v := make([]float64, c.Spec().ActionSize()), make([]float64, c.Spec().ActionSize())
			err := errors.Join(alone.Reset(ep), served.Reset(ep))
			for step := 0; err == nil && !ep.Done(); step++ {
				ep.Observe(x, cx)
				_, one := alone.Decide(x, cx, adaptive, u)
				_, two := served.Decide(x, cx, adaptive, v)
				a, b := alone.(domain.Monitored).Monitor(), served.(domain.Monitored).Monitor()
				if !slices.Equal(u, v) || !slices.Equal(a.Priority, b.Priority) || a.Residual != b.Residual || a.Displacement != b.Displacement || a.Fallback != b.Fallback {
					t.Errorf("episode %d, decision %d: %v %+v, a controller decides %v %+v", i, step, v, b, u, a)
					return
				}
				_, three := ep.Apply(u)
				err = errors.Join(one, two, three)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// FuzzBody: whatever is posted is answered by JSON and a status of the documented ones, and the
// server serves the next.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{"session":"a","s":[0.1,-0.2],"c":[0]}`, `{"q":1,"v":null,"progress":0}`, `{}`, "\xff", `{"session":"a","preference":null}`, `{"s":[0,0],"c":[0],"observed_ms":1}`} {
		for _, path := range []string{"/v1/decide", "/v1/preference", "/v1/clear", "/v1/reset", "/x"} {
			f.Add(path, seed)
		}
	}
	s := server(f, serve.Options{Sessions: 4})
	h := serve.Handler(s, serve.HTTPOptions{MaxBytes: 1 << 16})
	f.Fuzz(func(t *testing.T, path, body string) {
		if strings.Contains(path, "refine") || strings.Contains(path, "stream") {
			return
		}
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.URL.Path = path
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !slices.Contains([]int{200, 400, 404, 405, 413, 429}, w.Code) || !json.Valid(w.Body.Bytes()) || (w.Code != 200) != bytes.Contains(w.Body.Bytes(), []byte(`"error":`)) {
			t.Fatalf("%q to %q is answered %d %s", body, path, w.Code, w.Body)
		}
		must.OK(t, s.Reset(t.Context(), "a"))
	})
}
