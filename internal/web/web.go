// Package web is shared by the HTTP handlers of packages serve and view: it checks the host that a request
// names, and writes streams of server-sent events.
//
// The central type is Stream.
package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
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

// Stream is an answer of server-sent events. It is used by one goroutine.
type Stream struct {
	to       http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
}

// NewStream begins the answer, of which a client has to take each part within patience. A writer
// that supports no deadlines waits for its client instead.
func NewStream(w http.ResponseWriter, patience time.Duration) (*Stream, error) {
	s := &Stream{w, http.NewResponseController(w), patience}
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
	if err := s.control.SetWriteDeadline(time.Now().Add(s.patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return false
	}
	_, err := s.to.Write(text)
	return err == nil && s.control.Flush() == nil
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
