package view_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/serve"
	"github.com/gpc-engine/gpc/view"
)

// page is a handler asked over HTTP.
type page struct {
	t  testing.TB
	at *httptest.Server
	h  *view.Handler
}

// open is the page of a source that stands still.
func open(t testing.TB, s view.Source) *page {
	h := view.New(s, 100, false)
	p := &page{t, httptest.NewServer(h), h}
	t.Cleanup(func() {
		h.Close()
		p.at.Close()
	})
	return p
}

// ask asks and decodes what is answered.
func (p *page) ask(method, path, body string, into any) (status int, text string) {
	p.t.Helper()
	r := require.Get(http.NewRequestWithContext(p.t.Context(), method, p.at.URL+path, strings.NewReader(body)))(p.t)
	resp := require.Get(http.DefaultClient.Do(r))(p.t)
	defer resp.Body.Close()
	data := require.Get(io.ReadAll(resp.Body))(p.t)
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			p.t.Fatalf("%s %s is answered %.200s: %v", method, path, data, err)
		}
	}
	return resp.StatusCode, string(data)
}

// get and post want what they ask for to be right.
func get[T any](p *page, path string) (v T) {
	p.t.Helper()
	if status, text := p.ask("GET", "/view/"+path, "", &v); status != http.StatusOK {
		p.t.Fatalf("GET %s: %d %s", path, status, text)
	}
	return v
}

func (p *page) post(path, body string) (s view.State) {
	p.t.Helper()
	status, text := p.ask("POST", "/view/"+path, body, &s)
	for status == http.StatusServiceUnavailable { // a page has what time a busy server leaves
		status, text = p.ask("POST", "/view/"+path, body, &s)
	}
	if status != http.StatusOK {
		p.t.Fatalf("POST %s %s: %d %s", path, body, status, text)
	}
	return s
}

// refused wants a status and the field that is named.
func (p *page) refused(method, path, body string, status int, field string) {
	p.t.Helper()
	var f serve.Failure
	got, text := p.ask(method, path, body, &f)
	if got != status || f.Field != field || f.Error == "" {
		p.t.Errorf("%s %s %.80s is answered %d %.200s, want %d and field %q", method, path, body, got, text, status, field)
	}
}

// event is one of the stream that a page watches.
type event struct{ name, id, data string }

// stream reads the server's events one by one.
func (p *page) stream() (next func(name string) string) {
	p.t.Helper()
	read := p.read("/view/events")
	return func(name string) string {
		p.t.Helper()
		return read(name).data
	}
}

// read reads a stream of events one by one.
func (p *page) read(path string) (next func(name string) event) {
	p.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p.t.Cleanup(stop)
	r := require.Get(http.NewRequestWithContext(ctx, "GET", p.at.URL+path, nil))(p.t)
	resp := require.Get(http.DefaultClient.Do(r))(p.t)
	p.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		p.t.Fatalf("events: %d, %q", resp.StatusCode, resp.Header)
	}
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 1<<24)
	return func(name string) event {
		p.t.Helper()
		var e event
		for in.Scan() {
			switch line := in.Text(); {
			case strings.HasPrefix(line, "event: "):
				e.name = line[len("event: "):]
			case strings.HasPrefix(line, "data: "):
				e.data = line[len("data: "):]
			case strings.HasPrefix(line, "id: "):
				e.id = line[len("id: "):]
			case line == "" && e.name == name:
				return e
			case line == "":
				e = event{}
			}
		}
		p.t.Fatalf("the events end (%v) before one of %q", in.Err(), name)
		return event{}
	}
}
