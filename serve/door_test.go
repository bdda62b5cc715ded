package serve

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpc-engine/gpc"
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
		"an answer":                        {time.Second, 499500 * time.Microsecond, "", 500 * time.Millisecond},
		"an answer beyond the drain":       {time.Second, 1999500 * time.Microsecond, "", 2 * time.Second},
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

// A door has room for a number; a connection gives its own back once, however often it is closed.
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

// Doors are opened all or none, at an address and a path where that can be.
func TestDoorsAreOpenedAllOrNone(t *testing.T) {
	s, _ := bare(t, Options{})
	dir := t.TempDir()
	file, gram := filepath.Join(dir, "file"), filepath.Join(dir, "gram")
	require.OK(t, os.WriteFile(file, nil, 0o600))
	defer require.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: gram, Net: "unixgram"}))(t).Close()
	taken := require.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := taken.Addr().String()
	for says, o := range map[string]ListenOptions{"address already in use": {Address: address}, "the socket: ": {Unix: filepath.Join(file, "socket")}, "cannot be tried": {Unix: gram}} {
		on, err := s.Listen(o)
		if on != nil || err == nil || !strings.HasPrefix(err.Error(), "serve: ") || !strings.Contains(err.Error(), says) || errors.As(err, new(gpc.InputError)) != (o.Unix != "") {
			t.Errorf("%+v: %v, %v; want %q", o, on, err, says)
		}
	}
	require.OK(t, taken.Close())
	if on, err := s.Listen(ListenOptions{Address: address, Unix: file}); on != nil || err == nil {
		t.Errorf("a path that is no socket: %v, %v", on, err)
	}
	on := require.Get(s.Listen(ListenOptions{Address: address, Unix: filepath.Join(dir, "socket"), Connections: 1}))(t) // it was given back
	for i, l := range on {
		if network := l.Addr().Network(); network != []string{"tcp", "unix"}[i] || cap(l.(*door).room) != 1 {
			t.Errorf("door %d is of %s, with room for %d", i, network, cap(l.(*door).room))
		}
		require.OK(t, l.Close())
	}
}
