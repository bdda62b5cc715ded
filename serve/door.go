package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gpc-engine/gpc/internal/web"
)

// drained is how long clients may take at the end for what they have not asked in full. Answers that
// are this server's to make are waited for: they are given up when the drain is over.
const drained = 250 * time.Millisecond

// active are the connections whose request is not answered yet.
type active struct {
	sync.Mutex
	connections map[net.Conn]bool
}

func (a *active) note(c net.Conn, state http.ConnState) {
	a.Lock()
	defer a.Unlock()
	if state == http.StateActive {
		a.connections[c] = true
	} else {
		delete(a.connections, c)
	}
}

func (a *active) idle() bool {
	a.Lock()
	defer a.Unlock()
	return len(a.connections) == 0
}

// HTTP serves a handler on listeners until the context ends; then the listeners are closed, what
// was asked is answered, by the fallback where that takes longer than drain (0: DefaultDrain), and
// nil returned. An error is of a listener.
func (s *Server) HTTP(ctx context.Context, h http.Handler, listeners []net.Listener, drain time.Duration) error {
	asking := active{connections: map[net.Conn]bool{}}
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headPatience, IdleTimeout: idlePatience, MaxHeaderBytes: headBytes - headSlop,
		ErrorLog: slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelDebug), ConnState: asking.note, ConnContext: web.WithConnection,
	}
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { failed <- server.Serve(l) }()
	}
	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	drain = cmp.Or(drain, DefaultDrain)
	s.Drain(drain)
	for _, l := range listeners {
		l.Close()
	}
	// Not Shutdown: it waits for connections that never asked, too.
	for end := time.Now().Add(drain + drained); s.answering.Load() > 0 || !asking.idle() && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	server.Close()
	return err
}

// door closes connections beyond so many.
func (s *Server) door(l net.Listener, most int) net.Listener {
	return &door{Listener: l, s: s, room: make(chan struct{}, most)}
}

type door struct {
	net.Listener
	s    *Server
	room chan struct{}
}

func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case d.room <- struct{}{}:
			d.s.metrics.connections.Add(1)
			return &connection{Conn: c, door: d}, nil
		default:
			d.s.metrics.turnedAway.Add(1)
			c.Close()
		}
	}
}

// connection gives its room back when it is closed.
type connection struct {
	net.Conn
	door    *door
	closing sync.Once
}

// NetConn is the connection at the door; package web sets its buffer.
func (c *connection) NetConn() net.Conn { return c.Conn }

func (c *connection) Close() error {
	c.closing.Do(func() {
		c.door.s.metrics.connections.Add(-1)
		<-c.door.room
	})
	return c.Conn.Close()
}
