package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
	"github.com/gpc-engine/gpc/serve"
)

// web is a server of carts over HTTP.
func web(t testing.TB, opt serve.Options, how serve.HTTPOptions, held ...*gate) (*serve.Server, *httptest.Server) {
	t.Helper()
	s := server(t, opt, held...)
	h := httptest.NewServer(serve.Handler(s, how))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return s, h
}

// exchange is the status, the JSON and the head of an answer.
func exchange(t testing.TB, method, url, body string, head ...string) (int, map[string]any, http.Header) {
	t.Helper()
	r := require.Get(http.NewRequest(method, url, strings.NewReader(body)))(t)
	for i := 0; i < len(head); i += 2 {
		if r.Header.Set(head[i], head[i+1]); head[i] == "Host" {
			r.Host = head[i+1]
		}
	}
	a := require.Get(http.DefaultClient.Do(r))(t)
	defer a.Body.Close()
	text := require.Get(io.ReadAll(a.Body))(t)
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
		`{"op":"refine","session":"a","s":[0.3,0.2],"c":[0],"candidates":64,"seed":3}`, `{"op":"front","s":[0.3,0.2],"c":[0],"points":11}`, `{"op":"front","s":[0.3,0.2],"c":[0],"exact":5}`,
		`{"op":"decide","session":"g","s":[0.3,0.2],"c":[0],"preference":{"regulation":"<= 0.5"}}`, `{"op":"decide","session":"g","s":[0.3,0.2],"c":[0],"preference":["effort"]}`, `{"op":"clear","session":"a"}`, `{"op":"reset","session":"a"}`,
		`{"op":"decide","session":"a","s":[0.3,0.2],"c":[0]}`, `{"op":"decide","session":"a","s":[0.3],"c":[0]}`,
	} {
		want := said(t, lines, serve.LineOptions{}, ask)[0]
		var fields map[string]any
		require.OK(t, json.Unmarshal([]byte(ask), &fields))
		op := fields["op"].(string)
		delete(fields, "op")
		status, got, _ := exchange(t, "POST", h.URL+"/v1/"+op, string(require.Get(json.Marshal(fields))(t)))
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
	status, health, _ := exchange(t, "GET", h.URL+"/health", "")
	if now, ok := health["health"].(map[string]any); status != 200 || !ok || now["status"] != "ok" || now["decisions"] != 9.0 || health["op"] != "health" {
		t.Errorf("%d %v", status, health)
	}
}

// A request's own weights hold for it alone: a session's goal goes on, with what they spent, and another preference ends it.
func TestAGoalGoesOnBehindOtherWeights(t *testing.T) {
	s := server(t, serve.Options{Setup: gpc.Setup{Method: "direct", Model: testdomain.Map(testdomain.NewCart(8), 9, false)}})
	observation := `"session":"g","s":[0.3,0.2],"c":[0]`
	goal := `{"op":"preference","session":"g","preference":{"effort":"<= 0.4"}}`
	decide, weighed := `{"op":"decide",`+observation+`}`, `{"op":"decide",`+observation+`,"preference":[0.5,0.5]}`
	var sigma []string
	for _, a := range said(t, s, serve.LineOptions{}, goal, decide, weighed, decide, `{"op":"preference","session":"g","preference":null}`, decide, goal, decide) {
		if a["sigma"] != nil {
			sigma = append(sigma, fmt.Sprint(a["sigma"]))
		}
	}
	if len(sigma) != 5 || sigma[1] != "[0.5 0.5]" || sigma[2] == sigma[0] || sigma[4] != sigma[0] {
		t.Errorf("decided by %v: want the second by its own weights, the third by a smaller bound than the first, the last as the first", sigma)
	}
}

// What is wrong has its status, with the field.
func TestBadRequestsHaveTheirStatus(t *testing.T) {
	s, h := web(t, serve.Options{Sessions: 1}, serve.HTTPOptions{MaxBytes: 256})
	good := `{"session":"a","s":[0.1,0.2],"c":[0]}`
	require.Get(s.Decide(t.Context(), "a", serve.Request{S: []float64{0, 0}, C: []float64{0}}))(t)
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
		{"POST", "/v1/decide", `{"s":[0.1,0.2],"c":[0],"preference":{"comfort":"<= 1"}}`, 400, "preference", "no objective"},
		{"POST", "/v1/decide", `{"s":[0.1,0.2],"c":[0],"preference":{}}`, 400, "preference", "empty"},
		{"POST", "/v1/refine", `{"s":[0.1,0.2],"c":[0],"preference":["effort"]}`, 400, "preference", "goal"},
		{"POST", "/v1/front", `{"s":[0.1,0.2],"c":[0],"points":1}`, 400, "points", "2 to 16384"},
		{"POST", "/v1/front", `{"s":[0.1,0.2],"c":[0],"preference":[1,0]}`, 400, "preference", ""},
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
		status, a, head := exchange(t, b.method, h.URL+b.path, b.body)
		text, _ := a["error"].(string)
		if field, _ := a["field"].(string); status != b.status || field != b.field || !strings.Contains(text, b.says) || (status == 200) != (a["u"] != nil) {
			t.Errorf("%s %s %.60s: %d %v, want %d, field %q and an error that mentions %s", b.method, b.path, b.body, status, a, b.status, b.field, b.says)
		}
		if status == 429 && head.Get("Retry-After") == "" || status == 405 && head.Get("Allow") == "" || head.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: %d with the head %v", b.method, b.path, status, head)
		}
	}
	if status, _, _ := exchange(t, "HEAD", h.URL+"/health", ""); status != 200 {
		t.Errorf("HEAD: %d", status)
	}
	if status, a, _ := exchange(t, "POST", h.URL+"/v1/decide", fmt.Sprintf(`{"session":"a","s":[%v,0],"c":[0]}`, panics)); status != 500 || a["field"] != "session" {
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
		if status, a, head := exchange(t, "POST", of.url, body, of.head...); status != of.status || status == 401 && head.Get("WWW-Authenticate") == "" {
			t.Errorf("%s with %q: %d %v, want %d", of.url, of.head, status, a, of.status)
		}
	}
	for _, path := range []string{"/metrics", "/v1/stream", "/health", "/ready", "/openapi.json"} { // nor does it read
		if status, _, _ := exchange(t, "GET", open.URL+path, "", "Sec-Fetch-Site", "cross-site"); status != 403 {
			t.Errorf("%s for another site's page: %d, want 403", path, status)
		}
	}
	for path, want := range map[string]int{"/ready": 200, "/health": 401, "/metrics": 401, "/openapi.json": 401, "/v1/stream": 401} {
		if status, _, _ := exchange(t, "GET", closed.URL+path, ""); status != want {
			t.Errorf("%s without the token: %d, want %d", path, status, want)
		}
	}
}

// By its deadline a request is answered, with the fallback, while its decision is still being made.
func TestADeadlineIsKeptOverHTTP(t *testing.T) {
	held := newGate()
	_, h := web(t, serve.Options{}, serve.HTTPOptions{}, held)
	if status, a, _ := exchange(t, "POST", h.URL+"/v1/decide", fmt.Sprintf(`{"session":"a","s":[%v,0.1],"c":[0],"deadline_ms":20}`, slow)); status != 200 || a["late"] != true {
		t.Errorf("%d %v", status, a)
	}
}

// What would wait behind too many is refused while they wait.
func TestTooManyAreRefused(t *testing.T) {
	held := newGate()
	s, h := web(t, serve.Options{Waiting: 1}, serve.HTTPOptions{}, held)
	var wait sync.WaitGroup
	wait.Go(func() {
		if status, a, _ := exchange(t, "POST", h.URL+"/v1/decide", fmt.Sprintf(`{"session":"a","s":[%v,0.1],"c":[0]}`, slow)); status != 200 || a["late"] != false {
			t.Errorf("the one that was first: %d %v", status, a)
		}
	})
	<-held.arrived
	if status, a, head := exchange(t, "POST", h.URL+"/v1/decide", `{"session":"b","s":[0.1,0],"c":[0]}`); status != 429 || head.Get("Retry-After") != "1" {
		t.Errorf("%d %v, want a refusal", status, a)
	}
	if _, err := s.Decide(t.Context(), "b", serve.Request{S: []float64{0.1, 0}, C: []float64{0}}); !errors.Is(err, serve.ErrBusy) {
		t.Errorf("the core: %v", err)
	}
	held.open()
	wait.Wait()
	if status, a, _ := exchange(t, "POST", h.URL+"/v1/decide", `{"session":"b","s":[0.1,0],"c":[0]}`); status != 200 {
		t.Errorf("afterwards: %d %v", status, a)
	}
}

// A client that is gone has no effect on its session, which goes on as if it had been there.
func TestAClientThatIsGone(t *testing.T) {
	held := newGate()
	s, h := web(t, serve.Options{}, serve.HTTPOptions{}, held)
	same := server(t, serve.Options{})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-held.arrived
		leave()
	}()
	r := require.Get(http.NewRequestWithContext(ctx, "POST", h.URL+"/v1/decide", strings.NewReader(fmt.Sprintf(`{"session":"a","s":[%v,0.1],"c":[0]}`, slow))))(t)
	if a, err := http.DefaultClient.Do(r); err == nil {
		t.Fatalf("answered %v", a)
	}
	held.open()
	require.Get(same.Decide(t.Context(), "a", serve.Request{S: []float64{slow, 0.1}, C: []float64{0}}))(t)
	next := serve.Request{S: []float64{0.3, 0.1}, C: []float64{0.125}}
	a, b := require.Get(s.Decide(t.Context(), "a", next))(t), require.Get(same.Decide(t.Context(), "a", next))(t)
	if !slices.Equal(a.U, b.U) || !slices.Equal(a.Sigma, b.Sigma) || a.Displacement != b.Displacement {
		t.Errorf("%+v, with a client that stayed %+v", a, b)
	}
}

// A body that does not come ends the request, not the server.
func TestASlowBody(t *testing.T) {
	_, h := web(t, serve.Options{}, serve.HTTPOptions{Patience: time.Second}) // also what its answer has to be taken in
	c := require.Get(net.Dial("tcp", h.Listener.Addr().String()))(t)
	defer c.Close()
	require.Get(io.WriteString(c, "POST /v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"))(t)
	answer := string(require.Get(io.ReadAll(c))(t))
	if !strings.HasPrefix(answer, "HTTP/1.1 408 ") || !strings.Contains(answer, "did not come within 1s") {
		t.Errorf("answered %q", answer)
	}
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
		require.OK(t, s.Reset(t.Context(), "a"))
	})
}
