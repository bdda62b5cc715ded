// Package web is shared by the HTTP handlers of packages serve and view. It checks the host that a request
// names and the site that it comes from, compresses answers, and writes streams of server-sent events.
//
// The central type is Stream.
package web

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// host is the one that a request names, without its port.
func host(r *http.Request) string {
	name, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		name = r.Host
	}
	return strings.ToLower(strings.Trim(name, "[]"))
}

// Loopback reports whether a request names this machine by a loopback address: a page whose name
// was made to stand for it has its own name in its requests.
func Loopback(r *http.Request) bool {
	name := host(r)
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// Addressed reports whether a request names an address or this machine, and no name that whoever
// owns it can turn to another machine.
func Addressed(r *http.Request) bool {
	name := host(r)
	return name == "localhost" || net.ParseIP(name) != nil
}

// SameSite says why a request is that of another site's page. http.CrossOriginProtection lets those pass that change
// nothing; a stream takes one of few places.
func SameSite(r *http.Request) error {
	posted := *r
	posted.Method = http.MethodPost
	return new(http.CrossOriginProtection).Check(&posted)
}

// writers compress; they are large.
var writers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is one
	return z
}}

// Compress compresses an answer where its reader takes that. end writes what is left.
func Compress(w http.ResponseWriter, r *http.Request) (_ http.ResponseWriter, end func()) {
	w.Header().Set("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") || r.Header.Get("Range") != "" {
		return w, func() {}
	}
	w.Header().Set("Content-Encoding", "gzip")
	c := &compressed{ResponseWriter: w}
	return c, func() {
		if c.z != nil {
			c.z.Close()
			writers.Put(c.z)
		}
	}
}

// compressed is an answer that travels compressed.
type compressed struct {
	http.ResponseWriter
	z *gzip.Writer // nil: nothing is written yet
}

func (c *compressed) Write(p []byte) (int, error) {
	if c.z == nil {
		c.z = writers.Get().(*gzip.Writer)
		c.z.Reset(c.ResponseWriter)
	}
	return c.z.Write(p)
}

// FlushError is for http.ResponseController, and so is Unwrap.
func (c *compressed) FlushError() error {
	if c.z != nil {
		if err := c.z.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(c.ResponseWriter).Flush()
}

func (c *compressed) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// connection is the key of a request's connection.
type connection struct{}

// WithConnection is http.Server.ConnContext: a stream finds its connection there.
func WithConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connection{}, c)
}

const (
	// streamBuffer bounds what the system keeps of a stream for a slow reader: what waits there is old when it is read.
	streamBuffer = 16 << 10
	// part of an event that a reader has to take within its patience.
	part = 16 << 10
)

// Stream is an answer of server-sent events. It is used by one goroutine.
type Stream struct {
	to       http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
}

// NewStream begins the answer, of which a client has to take each part within patience. A writer
// that supports no deadlines waits for its client instead.
func NewStream(w http.ResponseWriter, r *http.Request, patience time.Duration) (*Stream, error) {
	s := &Stream{w, http.NewResponseController(w), patience}
	c := r.Context().Value(connection{})
	for wrapped, ok := c.(interface{ NetConn() net.Conn }); ok; wrapped, ok = c.(interface{ NetConn() net.Conn }) {
		c = wrapped.NetConn()
	}
	if buffered, ok := c.(interface{ SetWriteBuffer(bytes int) error }); ok {
		buffered.SetWriteBuffer(streamBuffer)
	}
	// What a server allows for reading a request would end the stream.
	if err := s.control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	head := w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("Cache-Control", "no-store")
	head.Set("Connection", "close") // nothing comes behind a stream
	head.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return s, nil
}

// Send sends text and reports whether the client still takes it.
func (s *Stream) Send(text []byte) bool {
	for piece := range slices.Chunk(text, part) {
		if err := s.control.SetWriteDeadline(time.Now().Add(s.patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return false
		}
		if _, err := s.to.Write(piece); err != nil {
			return false
		}
	}
	return s.control.Flush() == nil
}

// Alive tells the client that the stream is there.
func (s *Stream) Alive() bool { return s.Send([]byte(":\n\n")) }

// Event is one event with data of one line; id 0: none.
func Event(kind string, id uint64, data []byte) []byte {
	head := fmt.Appendf(nil, "event: %s\n", kind)
	if id != 0 {
		head = fmt.Appendf(head, "id: %d\n", id)
	}
	return slices.Concat(head, []byte("data: "), data, []byte("\n\n"))
}
