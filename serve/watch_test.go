package serve_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/serve"
)

// reader reads the events of a stream.
type reader struct {
	t    testing.TB
	body io.ReadCloser
	*bufio.Scanner
}

func stream(t testing.TB, url string) *reader {
	t.Helper()
	a := require.Get(http.Get(url))(t)
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
			require.OK(r.t, json.Unmarshal([]byte(value), &data))
			return kind, data
		}
	}
	return "", nil
}

// A stream has the decisions of its session, late and stale ones among them, and none of another's.
func TestAStreamHasItsSessionsDecisions(t *testing.T) {
	held := newGate()
	s, h := web(t, serve.Options{}, serve.HTTPOptions{}, held)
	events := stream(t, h.URL+"/v1/stream?session=a%20b")
	var want []*serve.Decision
	for i := range 5 {
		r := serve.Request{S: []float64{0.1 * float64(i), 0.1}, C: []float64{0}, Observed: time.UnixMilli(1000)}
		if i == 2 {
			r.S[0], r.Deadline = slow, time.Now().Add(10*time.Millisecond)
		}
		require.Get(s.Decide(t.Context(), "b", r))(t)
		if i == 2 {
			r.Deadline = time.Now().Add(10 * time.Millisecond)
		}
		if want = append(want, require.Get(s.Decide(t.Context(), "a b", r))(t)); i == 2 {
			held.open()
		}
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
	w := require.Get(s.Watch("a"))(t)
	other := require.Get(s.Watch("a"))(t)
	const decisions = 400
	seen := 0
	for range decisions {
		require.Get(s.Decide(t.Context(), "a", serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}))(t)
		<-other.Events
		seen++
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
	for range other.Events {
		seen++
	}
	if seen != decisions {
		t.Errorf("the other has %d of %d", seen, decisions)
	}
	var all []*serve.Watch
	for range serve.MaxWatchers {
		all = append(all, require.Get(s.Watch(fmt.Sprint(len(all))))(t))
	}
	if _, err := s.Watch("a"); !errors.Is(err, serve.ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	for _, w := range all {
		w.Close()
	}
	require.Get(s.Watch("a"))(t).Close()
}

// A client that does not take its stream is closed.
func TestAClientThatDoesNotReadIsClosed(t *testing.T) {
	s := server(t, serve.Options{})
	on, _ := running(t, s, serve.ListenOptions{Address: "127.0.0.1:0"}, serve.HTTPOptions{Patience: 50 * time.Millisecond}, 0)
	require.Until(t, "a stream begins", func() bool { // on a busy machine its first byte may come too late for so little patience
		c := require.Get(net.Dial("tcp", on[0].Addr().String()))(t)
		t.Cleanup(func() { c.Close() })
		require.OK(t, c.(*net.TCPConn).SetReadBuffer(1<<12))
		if _, err := io.WriteString(c, "GET /v1/stream?session=a HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return false
		}
		_, err := io.ReadFull(c, make([]byte, 1)) // from then on it takes nothing more
		return err == nil
	})
	require.Until(t, "the connection is closed", func() bool {
		for range 100 {
			require.Get(s.Decide(t.Context(), "a", serve.Request{S: []float64{0.1, 0.1}, C: []float64{0}}))(t)
		}
		return strings.Contains(metrics(t, s), "\ngpc_connections 0\n")
	})
}
