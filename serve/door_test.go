package serve

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// pipes is a listener whose connections a test makes.
type pipes struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func newPipes() *pipes {
	return &pipes{connections: make(chan net.Conn, 9), closed: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// dial is the client's end of a new connection.
func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.connections <- server
	return client
}

// At the end answers that are the server's to make are waited for, and for a quarter of a second beyond the drain what is not asked in full.
func TestTheEndWaitsForWhatIsAsked(t *testing.T) {
	const half = "POST /v1/reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
	for name, c := range map[string]struct {
		drain, answer time.Duration
		says          string
		want          time.Duration
	}{
		"no request":                       {time.Hour, 0, "", 0},
		"an answer":                        {time.Second, 500 * time.Millisecond, "", 500 * time.Millisecond},
		"an answer beyond the drain":       {time.Second, 2 * time.Second, "", 2 * time.Second},
		"half a request":                   {time.Second, 0, half, 1250 * time.Millisecond},
		"half a request, the usual drain":  {0, 0, half, 1250 * time.Millisecond},
		"half a request, a shorter answer": {time.Second, time.Second, half, 1250 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := bare(t, Options{Waiting: 1})
			l := newPipes()
			client := l.dial()
			defer client.Close()
			ctx, end := contextOf(t)
			ended := make(chan error, 1)
			go func() { ended <- s.HTTP(ctx, Handler(s, HTTPOptions{}), []net.Listener{l}, c.drain) }()
			if c.says != "" {
				require.Get(io.WriteString(client, c.says))(t)
			}
			if synctest.Wait(); c.answer > 0 {
				s.answering.Add(1)
				time.AfterFunc(c.answer, func() { s.answering.Add(-1) })
			}
			start := time.Now()
			end()
			err := <-ended
			if took := time.Since(start); err != nil || took != c.want || !s.Draining() {
				t.Errorf("%s: ended after %v, want %v, %v", name, took, c.want, err)
			}
			if _, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: the connection is open: %v", name, err)
			}
		})
	}
	s, _ := bare(t, Options{})
	broken := newPipes()
	require.OK(t, broken.Close())
	if err := s.HTTP(t.Context(), http.NotFoundHandler(), []net.Listener{broken, newPipes()}, 0); !errors.Is(err, net.ErrClosed) || err.Error() != "serve: "+net.ErrClosed.Error() || !s.Draining() {
		t.Errorf("a listener that fails: %v", err)
	}
}

// A door has so much room; a connection gives its own back once, however often it is closed.
func TestADoorHasItsRoom(t *testing.T) {
	s, _ := bare(t, Options{})
	l := newPipes()
	d := s.door(l, 2)
	room := func(open, refused int64) {
		t.Helper()
		if m := &s.metrics; m.connections.Load() != open || m.turnedAway.Load() != refused {
			t.Errorf("%d are open, want %d; %d are refused, want %d", m.connections.Load(), open, m.turnedAway.Load(), refused)
		}
	}
	l.dial()
	l.dial()
	first, second := require.Get(d.Accept())(t), require.Get(d.Accept())(t)
	room(2, 0)
	third := l.dial()
	accepted := make(chan net.Conn)
	go func() {
		c, _ := d.Accept()
		accepted <- c
	}()
	if _, err := third.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("one too many is told %v", err)
	}
	first.Close()
	first.Close()
	l.dial()
	fourth := <-accepted
	room(2, 1)
	if inside := fourth.(*connection).NetConn(); inside == nil || inside == fourth {
		t.Error("what is inside of a connection is not its own")
	}
	for _, c := range []net.Conn{second, fourth, second} {
		c.Close()
	}
	room(0, 1)
	require.OK(t, l.Close())
	if c, err := d.Accept(); c != nil || !errors.Is(err, net.ErrClosed) {
		t.Errorf("a door that is closed: %v, %v", c, err)
	}
}

// A connection is active from its first byte until it has its answer.
func TestConnectionsAreActive(t *testing.T) {
	a := active{connections: map[net.Conn]bool{}}
	one, two := net.Pipe()
	for i, c := range []struct {
		c     net.Conn
		state http.ConnState
		idle  bool
	}{
		{one, http.StateNew, true}, {one, http.StateActive, false}, {two, http.StateActive, false}, {one, http.StateIdle, false},
		{two, http.StateClosed, true}, {one, http.StateActive, false}, {one, http.StateHijacked, true},
	} {
		if a.note(c.c, c.state); a.idle() != c.idle {
			t.Errorf("change %d to %v: idle %v", i, c.state, a.idle())
		}
	}
}

// reply records an answer, and where it is flushed.
type reply struct {
	head    http.Header
	status  int
	text    bytes.Buffer
	flushes int
	fails   error
}

func (r *reply) Header() http.Header { return r.head }
func (r *reply) WriteHeader(n int)   { r.status = n }
func (r *reply) Write(p []byte) (int, error) {
	if r.fails != nil {
		return 0, r.fails
	}
	return r.text.Write(p)
}
func (r *reply) FlushError() error { r.flushes++; return r.fails }
