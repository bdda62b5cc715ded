package serve

import (
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/web"
)

// heartbeat is how often a stream without decisions says that it is there.
const heartbeat = 15 * time.Second

// sessionOf is the one that a query names.
func sessionOf(query url.Values) (string, error) {
	for name, values := range query {
		if name != "session" || len(values) != 1 {
			return "", jsonin.Errorf(name, "the query has %.64q %d times, want only session, at most once", name, len(values))
		}
	}
	name := query.Get("session")
	if len(name) > MaxSessionName || !utf8.ValidString(name) {
		return "", jsonin.Errorf("session", "the name of a session has %d bytes, want at most %d bytes of UTF-8", len(name), MaxSessionName)
	}
	return name, nil
}

// stream sends a session's decisions as they are made, until its reader is too slow or gone, or
// the server drains.
func (h *handler) stream(w http.ResponseWriter, r *http.Request) {
	name, err := sessionOf(r.URL.Query())
	if err == nil && h.s.Draining() {
		err = ErrClosed
	}
	var watch *Watch
	if err == nil {
		watch, err = h.s.Watch(name)
	}
	if err != nil {
		h.s.count(err)
		h.fail(w, Answer{Session: name}, err)
		return
	}
	defer watch.Close()
	stream, err := web.NewStream(w, r, h.o.Patience)
	if err != nil || !stream.Alive() {
		return
	}
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	last := uint64(0)
	for {
		select {
		case e, ok := <-watch.Events:
			if !ok {
				stream.Send(web.Event("dropped", last, []byte("{}")))
				return
			}
			text, err := finite.Marshal(e)
			if err != nil || !stream.Send(web.Event("decision", e.Number, text)) {
				return
			}
			last = e.Number
		case <-alive.C:
			if !stream.Alive() {
				return
			}
		case <-h.s.draining:
			stream.Send(web.Event("closing", last, []byte("{}")))
			return
		case <-r.Context().Done():
			return
		}
	}
}
