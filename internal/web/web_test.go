package web_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/testing/require"
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

// A stream has its events as they are sent: the next is sent when the one before has come.
func TestStream(t *testing.T) {
	came := make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := require.Get(web.NewStream(w, r, time.Hour))(t)
		for _, text := range [][]byte{[]byte(":\n\n"), web.Event("a", 0, []byte("{}")), web.Event("b", 7, []byte("1"))} {
			if !s.Send(text) {
				t.Error("nobody takes it")
			}
			<-came
		}
	}))
	defer h.Close()
	a := require.Get(http.Get(h.URL))(t)
	defer a.Body.Close()
	if a.Header.Get("Content-Type") != "text/event-stream" || a.Header.Get("Cache-Control") != "no-store" || !a.Close {
		t.Errorf("head %v", a.Header)
	}
	for _, want := range []string{":\n\n", "event: a\ndata: {}\n\n", "event: b\nid: 7\ndata: 1\n\n"} {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(a.Body, got); err != nil || string(got) != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
		came <- struct{}{}
	}
}

// A stream ends with a client that takes nothing.
func TestAClientThatTakesNothingEndsItsStream(t *testing.T) {
	ended := make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		s := require.Get(web.NewStream(w, r, 100*time.Millisecond))(t)
		for s.Send(web.Event("b", 7, make([]byte, 1<<16))) {
		}
	}))
	defer h.Close()
	c := require.Get(net.Dial("tcp", h.Listener.Addr().String()))(t)
	defer c.Close()
	require.Get(io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
	<-ended
}

// timed is a writer with deadlines, which it keeps.
type timed struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (w *timed) SetReadDeadline(t time.Time) error {
	w.read = append(w.read, t)
	return nil
}

func (w *timed) SetWriteDeadline(t time.Time) error {
	w.write = append(w.write, t)
	return nil
}

// What a server allows for a request is no limit of a stream: each event has its own.
func TestAStreamHasDeadlinesOfItsOwn(t *testing.T) {
	w := &timed{ResponseRecorder: httptest.NewRecorder()}
	s := require.Get(web.NewStream(w, httptest.NewRequest("GET", "/", nil), time.Hour))(t)
	if len(w.read) != 1 || !w.read[0].IsZero() {
		t.Errorf("the request is read until %v", w.read)
	}
	for i := range 2 {
		least := time.Now().Add(time.Hour)
		if !s.Alive() || len(w.write) != i+1 || w.write[i].Before(least) || w.write[i].After(time.Now().Add(time.Hour)) {
			t.Errorf("event %d: the client may take it until %v", i, w.write)
		}
	}
}

// What has no deadlines is a stream too.
func TestAStreamWithoutDeadlines(t *testing.T) {
	w := httptest.NewRecorder()
	s := require.Get(web.NewStream(w, httptest.NewRequest("GET", "/", nil), time.Second))(t)
	if !s.Send(web.Event("a", 1, []byte("1"))) || w.Body.String() != "event: a\nid: 1\ndata: 1\n\n" {
		t.Errorf("%q", w.Body)
	}
}

// narrow is a connection that tells its buffer.
type narrow struct {
	net.Conn
	bytes int
}

func (c *narrow) SetWriteBuffer(bytes int) error {
	c.bytes = bytes
	return nil
}

type wrapped struct {
	net.Conn
	inner net.Conn
}

func (w wrapped) NetConn() net.Conn { return w.inner }

// What waits in the system for a slow reader is old when it is read: a stream's connection has little room.
func TestAStreamHasASmallBuffer(t *testing.T) {
	c := new(narrow)
	r := httptest.NewRequest("GET", "/", nil)
	r = r.WithContext(web.WithConnection(t.Context(), wrapped{nil, wrapped{nil, c}}))
	require.Get(web.NewStream(httptest.NewRecorder(), r, time.Second))(t)
	if c.bytes == 0 || c.bytes > 64<<10 {
		t.Errorf("a buffer of %d bytes", c.bytes)
	}
}

// A page of another site may not read either, whoever it says it is.
func TestSameSite(t *testing.T) {
	for _, of := range []struct {
		name, value string
		own         bool
	}{{"Accept", "*/*", true}, {"Sec-Fetch-Site", "same-origin", true}, {"Sec-Fetch-Site", "none", true}, {"Origin", "http://localhost:1", true},
		{"Sec-Fetch-Site", "cross-site", false}, {"Sec-Fetch-Site", "same-site", false}, {"Origin", "http://evil.example", false}, {"Origin", "null", false}} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = "localhost:1"
		r.Header.Set(of.name, of.value)
		if err := web.SameSite(r); (err == nil) != of.own || r.Method != "GET" {
			t.Errorf("%s: %s: %v", of.name, of.value, err)
		}
	}
}

// An answer is compressed where its reader takes that, part by part where it is flushed.
func TestCompress(t *testing.T) {
	came := make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w, end := web.Compress(w, r)
		defer end()
		s := require.Get(web.NewStream(w, r, time.Hour))(t)
		for range 2 {
			s.Send(bytes.Repeat([]byte("a"), 1<<16))
			<-came
		}
	}))
	defer h.Close()
	defer close(came)
	for _, takes := range []bool{true, false} {
		client := http.Client{Transport: &http.Transport{DisableCompression: !takes}} // which reads what is compressed where it asks for that
		a := require.Get(client.Get(h.URL))(t)
		defer a.Body.Close()
		for range 2 {
			require.Get(io.ReadFull(a.Body, make([]byte, 1<<16)))(t)
			came <- struct{}{}
		}
		if a.Uncompressed != takes {
			t.Errorf("asked for it: %v, compressed: %v", takes, a.Uncompressed)
		}
	}
}
