package web_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/must"
	"github.com/gpc-engine/gpc/internal/web"
)

// A request is for this machine, for an address, or for a name that may be made to lead anywhere.
func TestHosts(t *testing.T) {
	for host, want := range map[string]struct{ loopback, addressed bool }{
		"localhost": {true, true}, "LocalHost:80": {true, true}, "127.0.0.1": {true, true}, "127.8.0.1:8080": {true, true}, "[::1]": {true, true}, "[::1]:8080": {true, true},
		"192.168.1.7:80": {false, true}, "[2001:db8::1]": {false, true},
		"localhost.evil.example": {}, "evil.example:80": {}, "": {}, "localhost.": {}, "127.0.0.1.nip.io": {},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = host
		if web.Loopback(r) != want.loopback || web.Addressed(r) != want.addressed {
			t.Errorf("%q: loopback %v, addressed %v", host, web.Loopback(r), web.Addressed(r))
		}
	}
}

// A stream has its events as they are sent, beyond the time that the server gives a request, and
// ends with a client that takes nothing.
func TestStream(t *testing.T) {
	ended := make(chan struct{})
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		s := must.Get(web.NewStream(w, 100*time.Millisecond))(t)
		if !s.Alive() || !s.Send(web.Event("a", 0, []byte("{}"))) {
			t.Error("nobody takes it")
		}
		time.Sleep(60 * time.Millisecond)
		for s.Send(web.Event("b", 7, make([]byte, 1<<16))) {
		}
	}))
	h.Config.ReadTimeout, h.Config.WriteTimeout = 30*time.Millisecond, 30*time.Millisecond
	h.Start()
	defer h.Close()
	a := must.Get(http.Get(h.URL))(t)
	defer a.Body.Close()
	if a.Header.Get("Content-Type") != "text/event-stream" || a.Header.Get("Cache-Control") != "no-store" || !a.Close {
		t.Errorf("head %v", a.Header)
	}
	want := ":\n\nevent: a\ndata: {}\n\nevent: b\nid: 7\ndata: "
	got := make([]byte, len(want))
	if _, err := io.ReadFull(bufio.NewReaderSize(a.Body, 16), got); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("a client that takes nothing is waited for")
	}
}

// What has no deadlines is a stream too.
func TestAStreamWithoutDeadlines(t *testing.T) {
	w := httptest.NewRecorder()
	s := must.Get(web.NewStream(w, time.Second))(t)
	if !s.Send(web.Event("a", 1, []byte("1"))) || w.Body.String() != "event: a\nid: 1\ndata: 1\n\n" {
		t.Errorf("%q", w.Body)
	}
}
