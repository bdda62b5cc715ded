package view

import (
	"slices"
	"sync"
	"time"

	"github.com/gpc-engine/gpc/internal/web"
)

// window is how many bytes a page is sent beyond what it says that it has seen: more would wait on the way, and be old
// where the link is slow.
const window = 64 << 10

// began is the server's time at the clock's beginning. A step of the system's clock does not move it.
var began = time.Now()

// clock is the server's time, Unix ms.
func clock() uint64 { return uint64(began.UnixMilli() + time.Since(began).Milliseconds()) }

// event is one of a stream, with the time at which it was made.
type event struct {
	name string
	at   uint64
	text []byte
}

// watcher is a page. Of each kind of event it is sent the latest: what a slow link could not take is left out.
type watcher struct {
	name  string // by which the page says what it has seen; "": it does not, and is sent what its connection takes
	awake chan struct{}

	mutex   sync.Mutex
	waiting []event // one of a kind
	flying  []event // sent, and not seen yet
}

// wake has the stream look again.
func (w *watcher) wake() {
	select {
	case w.awake <- struct{}{}:
	default:
	}
}

// put has an event sent in place of one of its kind that waits. A state keeps the place, since frames of another run come
// behind the state that says so.
func (w *watcher) put(e event) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	defer w.wake()
	index := slices.IndexFunc(w.waiting, func(o event) bool { return o.name == e.name })
	switch {
	case index >= 0 && e.name == "state":
		w.waiting[index] = e
		return
	case index >= 0:
		w.waiting = slices.Delete(w.waiting, index, index+1)
	}
	w.waiting = append(w.waiting, e)
}

// next is the event to send now, if any.
func (w *watcher) next() (e event, ok bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	bytes := 0
	for _, e := range w.flying {
		bytes += len(e.text)
	}
	if len(w.waiting) == 0 || bytes >= window {
		return e, false
	}
	e, w.waiting = w.waiting[0], w.waiting[1:]
	return e, true
}

// send sends an event, and reports whether the page still takes it.
func (w *watcher) send(stream *web.Stream, e event) bool {
	if w.name != "" {
		w.mutex.Lock()
		w.flying = append(w.flying, e)
		w.mutex.Unlock()
	}
	return stream.Send(web.Event(e.name, e.at, e.text))
}

// seen takes what the page has seen: all up to a time.
func (w *watcher) seen(at uint64) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.flying = slices.DeleteFunc(w.flying, func(e event) bool { return e.at <= at })
	w.wake()
}
